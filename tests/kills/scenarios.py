"""What is killed at each of its operations, is examined, and then runs to its end."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from random import Random
from typing import ClassVar, final

from modelwheel.engine.delivery import deliver, deliver_directory, deliver_report
from modelwheel.packaging.checksums import CHECKSUMS
from modelwheel.store.keys import action_key
from modelwheel.store.upkeep.garbage import collect_garbage, list_entries
from modelwheel.wheelfile.reports import REPORT_SUFFIX
from tests.kills import toy_build
from tests.kills.attempts import (
    Attempt,
    examine_files,
    examine_store,
    finished_steps,
    prepare_model,
    repeated_steps,
)
from tests.support.faults.calls import DISK, KILL, Faults
from tests.support.faults.victims import Victim, say
from tests.support.index_wheels import make_wheel
from tests.support.sources import read
from tests.support.stores import CONTENT, KEY, blob_file, make, open_store, record_file


class Scenario(ABC):
    """Something that is killed.

    Args:
        directory: Does not exist yet.
    """

    name: ClassVar[str]
    calls: Sequence[str] = DISK
    """The operations. Those on files count below the place of an attempt."""
    error: ClassVar[int] = KILL
    """What happens at one of them; if it is an error, at every second attempt also at all that follow."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self._order: Sequence[int] = ()
        self._open = ExitStack()

    def close(self) -> None:
        """Ends what all attempts share, such as a server."""
        self._open.close()

    def around(self, place: Path) -> AbstractContextManager[object]:  # noqa: ARG002
        """What one attempt needs beside the process that is killed, such as a server."""
        return nullcontext()

    def begin(self, place: Path) -> None:  # noqa: B027 - most need nothing
        """Makes what is there before."""

    @abstractmethod
    def act(self, place: Path) -> None:
        """What is killed; in a process of its own."""

    @abstractmethod
    def examine(self, place: Path, *, complete: bool) -> Iterator[str]:
        """What is wrong with what is there: after a kill, or after a whole run."""

    def repeated(self, said: Sequence[str], again: Sequence[str]) -> Iterator[str]:  # noqa: ARG002
        """What two runs have both done, from what they have said."""
        yield from ()

    @final
    def attempt(self, turn: int, seed: int) -> Attempt:
        """Kills it at one operation; all operations have their turn, in an order that the seed decides."""
        if not self._order:
            count = self._count()
            self._order = Random(seed).sample(range(count), count)
        nth = self._order[turn % len(self._order)]
        attempt = Attempt(self.name, f"operation {nth + 1} of {len(self._order)}")
        place = self._place()
        with self.around(place):
            attempt.problems += self._kill(place, nth, attempt)
        shutil.rmtree(place)
        return attempt

    def _kill(self, place: Path, nth: int, attempt: Attempt) -> Iterator[str]:
        victim = Victim(lambda: self._run(place, nth))
        code, said = victim.finish()
        left, attempt.survivors_seconds = victim.survivors()
        yield from (f"survived: {each}" for each in left)
        if not (code in (0, -signal.SIGKILL) if self.error == KILL else is_clear(code, said)):
            yield f"ended with {code}: {said[-1:]}"
        yield from self.examine(place, complete=False)
        code, again = Victim(lambda: self._run(place)).finish()
        if code != 0:
            yield f"the next run ended with {code}: {again[-1:]}"
        else:
            yield from self.repeated(said, again)
        yield from self.examine(place, complete=True)
        yield from (f"left behind: {path.name}" for path in (place / "tmp").iterdir())

    def _place(self) -> Path:
        place = Path(tempfile.mkdtemp(dir=self.directory))
        (place / "tmp").mkdir()
        self.begin(place)
        return place

    def _count(self) -> int:
        """How many operations there are in a run that nobody disturbs."""
        place = self._place()
        with self.around(place):
            code, said = Victim(lambda: self._run(place, -1)).finish()
            problems = list(self.examine(place, complete=True))
        assert code == 0, said
        assert not problems, problems
        shutil.rmtree(place)
        return next(int(line.split()[1]) for line in said if line.startswith("operations "))

    def _run(self, place: Path, nth: int | None = None) -> None:
        tempfile.tempdir = os.environ["TMPDIR"] = str(place / "tmp")
        faults = Faults(place)
        if nth == -1:
            faults.count(self.calls)
        elif nth is not None:
            faults.fail_from(self.calls, self.error, nth, 1 if nth % 2 else None)
        try:
            self.act(place)
        finally:
            atexit._run_exitfuncs()  # as at the end of a process that was not forked
            if nth == -1:
                say(f"operations {faults.counted}")


def is_clear(code: int, said: Sequence[str]) -> bool:
    """Whether a command succeeded, or failed with one sentence."""
    errors = [line for line in said if line.startswith(("error:", "Traceback"))]
    return not errors if code == 0 else len(errors) == 1 and errors[0].startswith("error:")


class StoreWrites(Scenario):
    """A result of several files is stored, twice, with and without what is there already."""

    name = "store write"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._made = make(directory / "made")

    def act(self, place: Path) -> None:
        with open_store(place / "store") as store:
            store.publish(KEY, self._made)
            store.publish(action_key("test", input=2), self._made)

    def examine(self, place: Path, *, complete: bool) -> Iterator[str]:
        yield from examine_store(place / "store", closed=complete)
        with open_store(place / "store") as store:
            found = store.lookup(KEY)
            if found is None:
                yield from ("lost",) * complete
                return
            for name in CONTENT:
                if store.read_bytes(found, name) != CONTENT[name]:
                    yield f"torn: {name}"


class Builds(Scenario):
    """A build with every kind of step."""

    name = "toy build"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._model = prepare_model(directory)
        self._wheel: dict[str, bytes] = {}

    def act(self, place: Path) -> None:
        (place / "dist").mkdir(exist_ok=True)
        toy_build.main(*map(str, (place / "store", self._model, place / "dist")))

    def examine(self, place: Path, *, complete: bool) -> Iterator[str]:
        if not self._wheel:  # the run that nobody disturbs
            self._wheel = read(place / "dist")
        yield from examine_store(place / "store", closed=complete)
        if (place / "dist").exists():
            yield from examine_files(place / "dist", self._wheel, complete=complete)

    def repeated(self, said: Sequence[str], again: Sequence[str]) -> Iterator[str]:
        yield from (f"done twice: {step}" for step in repeated_steps(finished_steps(said), again))


class Collections(Scenario):
    """What was not used for long is removed from a store."""

    name = "garbage collection"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        now, day = directory.stat().st_mtime, 24 * 3600
        with open_store(directory / "store") as store:
            for number in range(6):
                # Each has one file that all have, and one that its neighbour has.
                files = {"all": b"all", "two": b"%d" % (number // 2), "own": b"own %d" % number}
                made = make(directory / f"made {number}", files)
                record = store.publish(self._key(number), made)
                for name in files:
                    os.utime(blob_file(store, record, name), (now - 40 * day,) * 2)
        for number in range(6):
            age = (5 if number % 2 else 40) * day
            os.utime(record_file(store, self._key(number)), (now - age,) * 2)

    @staticmethod
    def _key(number: int) -> str:
        return action_key("test", number=number)

    def begin(self, place: Path) -> None:
        shutil.copytree(self.directory / "store", place / "store")

    def act(self, place: Path) -> None:
        with open_store(place / "store") as store:
            collect_garbage(store, 30 * 24 * 3600)

    def examine(self, place: Path, *, complete: bool) -> Iterator[str]:
        # Without a lookup, which would be a use.
        with open_store(place / "store") as store:
            kept = {entry.key for entry in list_entries(store)}
            for number in range(6):
                young = number % 2
                if young and store.peek(self._key(number)) is None:
                    yield f"lost: {number}"
                if complete and not young and self._key(number) in kept:
                    yield f"left behind: record {number}"
        blobs = len(list((place / "store" / "blobs").glob("??/*")))
        if complete and blobs != 1 + 3 + 3:
            yield f"{blobs} blobs"


class Deliveries(Scenario):
    """A wheel with its report, and a bundle, over older ones."""

    name = "delivery"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        (directory / "wheels").mkdir()
        self._wheel = make_wheel(directory / "wheels", "digits")
        bundles = ((when, {CHECKSUMS: when, "a/b": when, "c": when}) for when in (b"old", b"new"))
        self._old, self._new = (make(directory / w.decode(), files) for w, files in bundles)
        with open_store(directory / "store") as store:
            store.publish(KEY, directory / "wheels")
            store.publish(action_key("bundle"), self._new)

    def begin(self, place: Path) -> None:
        (place / "dist").mkdir()
        (place / "dist" / self._wheel.name).write_bytes(b"old")
        (place / "dist" / f"{self._wheel.name}{REPORT_SUFFIX}").write_bytes(b"old")
        shutil.copytree(self._old, place / "dist" / "bundle")

    def act(self, place: Path) -> None:
        with open_store(self.directory / "store") as store:
            wheel, bundle = store.lookup(KEY), store.lookup(action_key("bundle"))
            assert wheel is not None
            assert bundle is not None
            deliver_report(b"new", deliver(wheel, store, place / "dist"))
            deliver_directory(bundle, store, place / "dist" / "bundle")

    def examine(self, place: Path, *, complete: bool) -> Iterator[str]:
        found = read(place / "dist")
        new = {
            self._wheel.name: self._wheel.read_bytes(),
            f"{self._wheel.name}{REPORT_SUFFIX}": b"new",
        }
        for name, content in new.items():
            if found.get(name) not in (content, *(() if complete else (b"old",))):
                yield f"torn or lost: {name}"
        bundle = place / "dist" / "bundle"
        there = read(bundle) if bundle.exists() else {}
        if there not in (read(self._new), *(() if complete else (read(self._old),))):
            yield f"the bundle is torn or lost: {sorted(there)}"
        if complete:
            hidden = [path.name for path in (place / "dist").iterdir() if path.name[0] == "."]
            yield from (f"left behind: {name}" for name in hidden)
