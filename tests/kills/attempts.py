"""Starts something, kills it at a random moment, examines what it left, and lets it run to its end."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import shutil
import signal
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NoReturn

import psutil

from modelwheel.cli import main
from modelwheel.store.garbage import list_entries
from tests.kills import toy_build
from tests.support.stores import open_store

_PR_SET_CHILD_SUBREAPER = 36
"""From sys/prctl.h: what a killed process leaves becomes a child of this process."""

_SURVIVORS_SECONDS = 30.0
"""Programs that compile a wheel end on their own; workers have to end at once."""


@dataclass
class Attempt:
    """One kill and its consequences."""

    where: str
    """The step, or the number of uploaded files, at which it happened."""
    problems: list[str] = field(default_factory=list)
    """What was torn, lost, done twice or still running: nothing, one hopes."""
    survivors_seconds: float = 0.0
    """How long the last process lived on."""


def adopt_orphans() -> None:
    """Makes this process the parent of whatever its descendants leave; Linux only."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("prctl failed")


class Victim:
    """A process forked from this one, which has everything imported; it reports on a pipe.

    Args:
        work: Called in the process; it prints what it does.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._known = {child.pid for child in psutil.Process().children(recursive=True)}
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reader)
            _run(work, writer)
        os.close(writer)
        self.lines = os.fdopen(reader, encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """Kills it, and nothing that it has started."""
        os.kill(self.pid, signal.SIGKILL)

    def finish(self) -> tuple[int, list[str]]:
        """Its exit code, once it has ended, and the lines that have not been read."""
        # Not to the end of the pipe: whatever survives it may hold the other end.
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.set_blocking(self.lines.fileno(), False)
        rest = []
        with suppress(BlockingIOError, TypeError):  # TypeError: CPython 3.10, for the same reason
            rest = self.lines.readlines()
        self.lines.close()
        return code, [line.strip() for line in rest]

    def survivors(self) -> tuple[list[str], float]:
        """What it has left running after a while, and how long the last process took to end."""
        start = time.monotonic()
        while True:
            alive = [
                child for child in psutil.Process().children(recursive=True) if self._left(child)
            ]
            waited = time.monotonic() - start
            if not alive:
                return [], waited
            if waited > _SURVIVORS_SECONDS:
                left = [str(child) for child in alive]
                for child in alive:
                    with suppress(psutil.NoSuchProcess):
                        child.kill()
                return left, waited
            time.sleep(0.02)

    def _left(self, child: psutil.Process) -> bool:
        if child.pid in self._known:  # such as a package index
            return False
        with suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                return True
            with suppress(ChildProcessError):  # another's child, which has to see to it itself
                os.waitpid(child.pid, os.WNOHANG)
        return False


def _run(work: Callable[[], object], writer: int) -> NoReturn:
    code = 1
    try:
        for number in (1, 2):
            os.dup2(writer, number)
        # New ones: those of before may have been files, in which they know their place.
        sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001 - reported by the exit code and this line
        toy_build.say(f"{type(error).__name__}: {error}")
    finally:
        with suppress(ValueError):
            sys.stdout.flush()
        os._exit(code)


@dataclass(frozen=True)
class ToyBuilds:
    """Kills builds of `toy_build` at a given step."""

    directory: Path
    wheel: bytes
    """What an undisturbed build makes."""

    @classmethod
    def prepare(cls, directory: Path) -> ToyBuilds:
        """Builds once."""
        directory.mkdir()
        with zipfile.ZipFile(directory / "model.zip", "w") as archive:
            archive.writestr("saved_model.pb", "a model " * 100_000)
        made = cls(directory, b"")
        code, lines = made._start("undisturbed").finish()
        assert code == 0, lines
        out = directory / "undisturbed" / "dist" / toy_build.WHEEL
        return cls(directory, out.read_bytes())

    steps = ("start", "fetch", *(step.name for step in toy_build.STEPS), "deliver", "end")
    """What is reported as started."""

    def _start(self, name: str) -> Victim:
        work = self.directory / name
        (work / "dist").mkdir(parents=True, exist_ok=True)
        arguments = map(str, (work / "store", self.directory / "model.zip", work / "dist"))
        return Victim(lambda: toy_build.main(*arguments))

    def attempt(self, step: str, random: Random) -> Attempt:
        """Kills a build with a cold store a moment after a step has started."""
        name = f"{step}-{random.random()}"
        victim = self._start(name)
        lines = []
        for line in victim.lines:
            lines.append(line.strip())
            if line.strip() == f"started {step}":
                break
        time.sleep(random.uniform(0, 0.15))
        with suppress(ProcessLookupError):
            victim.kill()
        code, rest = victim.finish()
        lines += rest
        left, seconds = victim.survivors()
        attempt = Attempt(_step_of(lines), [f"survived: {each}" for each in left], seconds)
        if code not in (0, -signal.SIGKILL):
            attempt.problems.append(f"ended with {code}: {lines[-1:]}")
        self._examine(name, lines, attempt)
        shutil.rmtree(self.directory / name)
        return attempt

    def _examine(self, name: str, lines: Sequence[str], attempt: Attempt) -> None:
        work = self.directory / name
        attempt.problems += examine_store(work / "store")
        attempt.problems += examine_files(work / "dist", {toy_build.WHEEL: self.wheel})
        code, again = self._start(name).finish()
        finished = {line.split()[1] for line in lines if line.startswith("finished ")}
        repeated = {line.split()[1] for line in again if line.startswith("finished ")} & finished
        if code != 0:
            attempt.problems.append(f"the next run ended with {code}: {again[-1:]}")
        attempt.problems += [f"done twice: {step}" for step in sorted(repeated)]
        attempt.problems += examine_store(work / "store", closed=True)
        found = examine_files(work / "dist", {toy_build.WHEEL: self.wheel}, complete=True)
        attempt.problems += found


def _step_of(lines: Sequence[str]) -> str:
    """What was running: the last step that had started and not ended."""
    ended = {line.split()[1] for line in lines if line.startswith(("finished ", "cached "))}
    started = [line.split()[1] for line in lines if line.startswith("started ")]
    return next((step for step in reversed(started) if step not in ended), "end")


def examine_store(root: Path, *, closed: bool = False) -> Iterator[str]:
    """What is wrong with a store: torn records, and after a whole run, temporary files."""
    with open_store(root) as store:
        for entry in list_entries(store):
            if store.lookup(entry.key) is None:
                yield f"torn record: {entry.note}"
        written = len(list((root / "actions").glob("??/*.json")))
        if written != len(list_entries(store)):
            yield "unreadable records"
    if closed:
        for path in (root / "tmp").glob("*"):
            if path.name != ".lock":
                yield f"left behind: {path.name}"
        for path in [*(root / "actions").glob("??/.*"), *(root / "blobs").glob("??/.*")]:
            yield f"left behind: {path.name}"


def examine_files(
    directory: Path, whole: Mapping[str, bytes], *, complete: bool = False
) -> Iterator[str]:
    """What is wrong with delivered files: torn, unknown, or missing from what should be complete."""
    there = {path.name: path.read_bytes() for path in directory.iterdir()}
    for name, content in there.items():
        if name.startswith("."):  # never taken for the file itself
            continue
        if name not in whole:
            yield f"unknown: {name}"
        elif whole[name] != content:
            yield f"torn: {name}"
    if complete:
        yield from (f"missing: {name}" for name in whole if name not in there)


@dataclass(frozen=True)
class RealBuilds:
    """Kills `modelwheel build` while a given step runs."""

    directory: Path
    spec: Path
    steps: tuple[str, ...]
    """Names without that of the model, in the order in which they ended."""
    seconds: Mapping[str, float]
    wheels: Mapping[str, bytes]
    """What an undisturbed build makes."""

    @classmethod
    def prepare(cls, directory: Path, spec: Path) -> RealBuilds:
        """Builds once."""
        directory.mkdir()
        empty = cls(directory, spec.absolute(), (), {}, {})
        code, lines = empty._start("undisturbed").finish()
        assert code == 0, lines
        done = [re.fullmatch(r"done +[^/]+/(\S+) \(([0-9.]+) s\)", line) for line in lines]
        seconds = {each[1]: float(each[2]) for each in done if each}
        wheels = (directory / "undisturbed" / "dist").glob("*.whl")
        whole = {path.name: path.read_bytes() for path in wheels}
        return cls(directory, empty.spec, tuple(seconds), seconds, whole)

    def _start(self, name: str) -> Victim:
        work = self.directory / name
        work.mkdir(exist_ok=True)

        def build() -> None:
            os.environ["MODELWHEEL_CACHE_DIR"] = str(work / "store")
            sys.argv = ["modelwheel", "build", str(self.spec), "--out", str(work / "dist")]
            try:
                main()
            finally:
                atexit._run_exitfuncs()  # as at the end of a process that was not forked

        return Victim(build)

    def attempt(self, step: str, random: Random) -> Attempt:
        """Kills a build with a cold store while it does a step, as far as that can be foreseen."""
        name = f"{step.replace('/', '-')}-{random.random()}"
        victim = self._start(name)
        number = self.steps.index(step)
        lines = []
        for line in victim.lines if number else ():
            lines.append(line.strip())
            if f"/{self.steps[number - 1]} (" in line:
                break
        # The first step waits for everything to be imported.
        time.sleep(random.uniform(0.05, max(self.seconds[step], 0.1 if number else 1.0)))
        with suppress(ProcessLookupError):
            victim.kill()
        code, rest = victim.finish()
        left, seconds = victim.survivors()
        ended = {each for each in self.steps if any(f"/{each} (" in line for line in lines + rest)}
        where = next((each for each in self.steps if each not in ended), "end")
        attempt = Attempt(where, [f"survived: {each}" for each in left], seconds)
        if code not in (0, -signal.SIGKILL):
            attempt.problems.append(f"ended with {code}: {rest[-1:]}")
        self._examine(name, ended, attempt)
        shutil.rmtree(self.directory / name)
        return attempt

    def _examine(self, name: str, ended: set[str], attempt: Attempt) -> None:
        work = self.directory / name
        attempt.problems += examine_store(work / "store")
        if (work / "dist").exists():
            found = {n: c for n, c in _files(work / "dist").items() if n.endswith(".whl")}
            attempt.problems += [f"torn: {n}" for n in found if found[n] != self.wheels.get(n)]
        code, again = self._start(name).finish()
        if code != 0:
            attempt.problems.append(f"the next run ended with {code}: {again[-1:]}")
        # A local directory is read each time.
        repeated = {
            each for each in ended - {"fetch"} if any(f"/{each} (" in line for line in again)
        }
        attempt.problems += [f"done twice: {each}" for each in sorted(repeated)]
        attempt.problems += examine_store(work / "store", closed=True)
        found = {n: c for n, c in _files(work / "dist").items() if n.endswith(".whl")}
        if found != self.wheels:
            attempt.problems.append(f"other wheels: {sorted(found)}")


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
