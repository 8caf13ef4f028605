"""Hostile model files that are read in two ways, wheels that installers would run, and jobs that reach for their inputs."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from modelwheel.audit import audit_wheels
from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Access, Limits, Policy, environment
from modelwheel.sandbox.run import run_sandboxed
from tests.demo.hostile_files import FileAttack, Run
from tests.models.hostile import Victim
from tests.models.hostile_containers import write_twofold_keras
from tests.models.hostile_torch import torch_program, wide, write_torch_program
from tests.support import attacker
from tests.support.described import INFO, describe, wheel_files, write_wheel

ROOT = Path(__file__).parents[2]


def _checked(directory: Path, file: str, run: Run, words: str) -> str:
    """What refuses a model file where there is no sandbox, if it is the judgement with these words."""
    spec = directory / "evil.yaml"
    spec.write_text(
        f'model: {{name: evil, version: "1.0.0"}}\nsource: {{directory: ., path: {file}}}\n',
        encoding="utf-8",
    )
    said = run("check", spec, "--sandbox", "off", "--json")
    return said if words in said else ""


def _writes(victim: Victim) -> str:
    return f"open({str(victim.marker('code'))!r},'w').write('x')"


def _twofold_keras(directory: Path, victim: Victim, run: Run) -> str:
    write_twofold_keras(directory / "evil.h5", _writes(victim))
    return _checked(directory, "evil.h5", run, "is a Lambda")


def _size_in_wide_letters(directory: Path, victim: Victim, run: Run) -> str:
    code = ", ".join(str(ord(letter)) for letter in _writes(victim))
    size = f"Integer(1).{wide('subs')}(1, '{wide('exec')}(bytes([{code}]))')"
    write_torch_program(directory / "evil.pt2", torch_program(size=size))
    return _checked(directory, "evil.pt2", run, "that is not arithmetic")


def _name_that_is_code(directory: Path, victim: Victim, run: Run) -> str:
    program = torch_program(name=f"x={_writes(victim)}")
    write_torch_program(directory / "evil.pt2", program)
    return _checked(directory, "evil.pt2", run, "which could become code")


def _size_without_end(directory: Path, _: Victim, run: Run) -> str:
    write_torch_program(directory / "evil.pt2", torch_program(size="9**9**9**9"))
    return _checked(directory, "evil.pt2", run, "that is not arithmetic")


# --- wheels ---------------------------------------------------------------------------------------

_Change = Callable[[Path], None]


def _audited(change: _Change) -> Callable[[Path, Victim, Run], str]:
    def perform(directory: Path, _: Victim, run: Run) -> str:  # noqa: ARG001 - the audit is called here
        path = write_wheel(directory, wheel_files(describe()))
        change(path)
        (result,) = audit_wheels([path])
        if result.error is not None and "is not a valid wheel" in str(result.error):
            return str(result.error)
        found = [str(finding) for finding in result.violations if finding.gate == "members"]
        return next(iter(found), "")

    return perform


def _add(name: str, content: str = "import os", mode: int = 0o600) -> _Change:
    def change(path: Path) -> None:
        member = zipfile.ZipInfo(name)
        member.external_attr = mode << 16
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(member, content)

    return change


def _rewrite(new: Callable[[bytes], bytes]) -> _Change:
    def change(path: Path) -> None:
        path.write_bytes(new(path.read_bytes()))

    return change


def _other_count(content: bytes) -> bytes:
    return content[:-14] + b"\1\0\1\0" + content[-10:]


WHEELS: dict[str, tuple[str, _Change]] = {
    "pth": ("runs code at every start of Python", _add("evil.pth")),
    "entry_point": (
        "replaces pip by a shell",
        _add(f"{INFO}/entry_points.txt", "[console_scripts]\npip = os:system\n"),
    ),
    "script": ("installs a program", _add("model_a-1.0.0.data/scripts/pip", "#!python\n")),
    "device": ("has a device", _add("model_a/disk", mode=stat.S_IFBLK | 0o600)),
    "set_user_id": ("has a set-user-ID program", _add("model_a/su", mode=0o104755)),
    "program": (
        "is a program for a shell, too",
        _rewrite(lambda content: b"#!/bin/sh\nexit\n" + content),
    ),
    "two": ("is two ZIP files in a row", _rewrite(lambda content: content + content)),
    "count": ("counts fewer files than it has", _rewrite(_other_count)),
}


# --- jobs -----------------------------------------------------------------------------------------


def _jailed(name: str) -> Callable[[Path, Victim, Run], str]:
    """An attack of `tests.support.attacker` on an input, in the sandbox."""

    def perform(directory: Path, _: Victim, run: Run) -> str:  # noqa: ARG001 - no command runs it
        for part in ("inputs", "scratch"):
            (directory / part).mkdir()
        model = directory / "inputs" / "model"
        model.write_text("weights")
        code = attacker.code()
        argv = [sys.executable, "-c", code, json.dumps([name]), json.dumps({"input": str(model)})]
        done = run_sandboxed(
            choose_sandbox(Policy.REQUIRED),
            argv,
            Access((directory / "inputs",), directory / "scratch"),
            Limits(wall_seconds=60, processes=1),
            environment({}),
        )
        achieved, said = json.loads(done.stdout)[name]
        return "" if achieved else f"the sandbox: {said}"

    return perform


JOBS = {
    "lease_input": "takes a lease on its input, so that the store waits",
    "watch_inputs": "is told of what happens to its inputs",
    "set_flags_of_input": "changes flags of a file in the store",
    "set_version_of_input": "changes the version of a file in the store",
    "set_attributes_of_input": "changes attributes of a file in the store",
    "read_sockets": "lists the sockets of the machine",
    "read_mounts": "lists the mounts of the machine",
}

_BUILD = """
import sys
from modelwheel.util.processes.process import run
run([sys.executable, "-c", sys.argv[1], sys.argv[2]])
"""
_COMPILER = """
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1]).write_text(f"{child.pid}\\n")
child.wait()
"""


def _killed_build(directory: Path, _: Victim, run: Run) -> str:  # noqa: ARG001 - it is killed
    numbers = directory / "child"
    build = subprocess.Popen([sys.executable, "-c", _BUILD, _COMPILER, numbers], cwd=ROOT)
    while not (numbers.exists() and numbers.read_text().endswith("\n")):
        time.sleep(0.05)
    child = psutil.Process(int(numbers.read_text()))
    os.kill(build.pid, signal.SIGKILL)
    build.wait()
    alive = psutil.wait_procs([child], timeout=20)[1]
    return "" if alive else "what a build has started ends with it"


def _named(prefix: str, items: Sequence[tuple[str, str, Callable[..., str]]]) -> list[FileAttack]:
    return [FileAttack(f"{prefix}_{name}", attempts, perform) for name, attempts, perform in items]


CONTAINER_ATTACKS = [
    *_named(
        "file",
        [
            ("twofold", "an .h5 with code is a harmless .keras, too", _twofold_keras),
            (
                "size",
                "a .pt2 calls exec in a size, in letters at full width",
                _size_in_wide_letters,
            ),
            ("name", "a .pt2 has an input whose name is code", _name_that_is_code),
            ("power", "a .pt2 has a size of 10^10^8 digits", _size_without_end),
        ],
    ),
    *_named(
        "wheel",
        [(name, f"a wheel {what}", _audited(change)) for name, (what, change) in WHEELS.items()],
    ),
    *_named("job", [(name, f"a job {what}", _jailed(name)) for name, what in JOBS.items()]),
    FileAttack("killed_build", "a build is killed while its compilers run", _killed_build),
]
