"""A build that is interrupted on its way, and carried on in other circumstances."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import list_entries
from tests.support.commands import COMMAND, Modelwheel


@dataclass(frozen=True)
class Interruption:
    """What was left when a build had been interrupted."""

    code: int
    said: str
    """Standard error."""
    wheels: list[str]
    """What lay in the directory for wheels."""
    damaged: list[str]
    """Keys of records in the store whose files are not whole."""
    done: set[str]
    """Steps whose results are in the store."""
    survivors: list[str]
    """Processes of the build that were still alive after a while."""
    temporary: list[str]
    """What it left in the system's directory for temporary files."""


@dataclass(frozen=True)
class Rebuilt:
    """A wheel whose build was interrupted twice and ended elsewhere."""

    interrupted: Interruption
    """By Ctrl-C, while jobs ran."""
    killed: Interruption
    """By SIGKILL, while the wheel was built."""
    result: dict[str, Any]
    """Of the last run, which was left in peace."""
    leftovers: list[str]
    """What then lay in the store's directory for temporary files."""
    other_user: bool
    """Whether that last run was another user's."""


def rebuild(spec: Path, model: Path, work: Path) -> Rebuilt:
    """Builds a spec in a new place, with a new store, and under other circumstances."""
    elsewhere = work / "another place"
    shutil.copytree(model, elsewhere / model.name)
    copy = Path(shutil.copy(spec, elsewhere))
    out, cache = elsewhere / "dist", work / "another cache"
    interrupted = _interrupt(copy, out, cache, after="/inspect", number=signal.SIGINT)
    killed = _interrupt(copy, out, cache, after="/project", number=signal.SIGKILL)
    home = work / "home"
    home.mkdir()
    other_user = become_another_user()
    (result,) = Modelwheel(cache, other_user).build(
        copy,
        *("--out", out),
        umask=0o077,
        HOME=str(home),
        TZ="Pacific/Chatham",
        LANG="C",
        PYTHONHASHSEED="4711",
        CXXFLAGS="-O0 -DNDEBUG=3",
        USER="somebody",
        LOGNAME="somebody",
    )
    return Rebuilt(interrupted, killed, result, _names(cache / "tmp"), bool(other_user))


def become_another_user() -> tuple[str, ...]:
    """What before a command makes it run as another user; empty where this machine forbids that."""
    prefix = ("unshare", "--user", "--map-user=4711", "--map-group=4712")
    try:
        done = subprocess.run([*prefix, "id", "-u"], capture_output=True, check=False)
    except FileNotFoundError:
        return ()
    return prefix if done.stdout == b"4711\n" else ()


def _interrupt(spec: Path, out: Path, cache: Path, *, after: str, number: int) -> Interruption:
    """Starts a build and sends a signal to its process group once a step is done."""
    temporary = cache.with_name(f"temporary files {number}")
    temporary.mkdir()
    process = subprocess.Popen(
        [*COMMAND, "build", spec, "--out", out],
        env={
            **os.environ,
            "MODELWHEEL_CACHE_DIR": str(cache),
            **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary)),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if after in line:
            break
    time.sleep(0.2)  # into the midst of what comes next, which takes longer
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number)
    _, rest = process.communicate(timeout=60)
    _, alive = psutil.wait_procs(family, timeout=60 if number == signal.SIGKILL else 5)
    with closing(Store(cache)) as store:
        entries = list_entries(store)
        damaged = [entry.key for entry in entries if store.lookup(entry.key) is None]
    done = {str(entry.note["step"]) for entry in entries}
    said = "".join(lines) + rest
    return Interruption(
        process.returncode,
        said,
        _names(out),
        damaged,
        done,
        [str(p) for p in alive],
        _names(temporary),
    )


def _names(directory: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return sorted(path.name for path in directory.iterdir())
    return []
