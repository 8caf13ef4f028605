"""Starts something, kills it at a random moment, examines what it left, and lets it run to its end."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from modelwheel.cli import main
from modelwheel.store.upkeep.garbage import list_entries
from tests.kills import toy_build
from tests.support.faults.victims import Victim
from tests.support.stores import open_store


@dataclass
class Attempt:
    """One kill and its consequences."""

    what: str
    """What was killed."""
    where: str
    """The step or the operation at which it happened."""
    problems: list[str] = field(default_factory=list)
    """What was torn, lost, done twice or still running: nothing, one hopes."""
    survivors_seconds: float = 0.0
    """How long the last process lived on."""


def prepare_model(directory: Path) -> Path:
    """Makes what toy builds fetch."""
    path = directory / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("saved_model.pb", "a model " * 100_000)
    return path


def finished_steps(lines: Sequence[str]) -> set[str]:
    """The steps that a toy build has done."""
    return {line.split()[1] for line in lines if line.startswith("finished ")}


def repeated_steps(finished: set[str], lines: Sequence[str]) -> list[str]:
    """Those of them that the next one has done, too."""
    return sorted(finished_steps(lines) & finished)


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
        prepare_model(directory)
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
        attempt = Attempt(
            "toy build", _step_of(lines), [f"survived: {each}" for each in left], seconds
        )
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
        repeated = repeated_steps(finished_steps(lines), again)
        if code != 0:
            attempt.problems.append(f"the next run ended with {code}: {again[-1:]}")
        attempt.problems += [f"done twice: {step}" for step in repeated]
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
        if name.startswith(".") and not complete:  # never taken for the file itself
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
        attempt = Attempt("real build", where, [f"survived: {each}" for each in left], seconds)
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
