"""Builds side by side, on a disk that fills and is freed, on a slow one, without memory, and of two versions in one store."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from modelwheel.store.keys import action_key
from modelwheel.store.upkeep.garbage import collect_garbage
from tests.kills import toy_build
from tests.kills.attempts import (
    examine_files,
    examine_store,
    finished_steps,
    prepare_model,
    repeated_steps,
)
from tests.support.faults.calls import DISK, Faults, compile_library, run_preloaded
from tests.support.faults.disks import mounting
from tests.support.faults.victims import kill_largest
from tests.support.stores import CONTENT, KEY, make, open_store

STEPS = {step.name for step in toy_build.STEPS}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """What the builds fetch."""
    (tmp_path / "dist").mkdir()
    return prepare_model(tmp_path)


def build(model: Path, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    """A build beside its model."""
    place = model.parent
    return subprocess.Popen(
        [
            *(*prefix, sys.executable, "-m", toy_build.__name__),
            *(place / "store", model, place / "dist"),
        ],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Its lines up to one that has the text."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.strip())
        if text in line:
            return lines
    raise AssertionError(lines)


def finish(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return out.splitlines()


def test_builds_side_by_side_do_each_step_once(model: Path) -> None:
    """Also while one of them is killed: another one goes on with the step that it was at."""
    killed, *others = (build(model) for _ in range(3))
    said = read_until(killed, "started ")
    killed.kill()
    killed.communicate()
    done = [finished_steps(finish(each)) - {"fetch"} for each in others]
    times = Counter(step for steps in (finished_steps(said), *done) for step in steps)
    assert {step for step, count in times.items() if count > 1} == set()
    assert set(times) - {"fetch"} == STEPS
    wheel = (model.parent / "dist" / toy_build.WHEEL).read_bytes()
    assert list(examine_store(model.parent / "store", closed=True)) == []
    found = examine_files(model.parent / "dist", {toy_build.WHEEL: wheel}, complete=True)
    assert list(found) == []


def test_a_step_that_the_system_kills_for_its_memory_is_one_sentence(model: Path) -> None:
    process = build(model)
    said = read_until(process, "started freeze")
    kill_largest(process.pid)
    out, err = process.communicate(timeout=120)
    (failed,) = [line for line in out.splitlines() if line.startswith("failed ")]
    assert failed.startswith("failed freeze "), failed
    assert "killed" in failed
    assert (process.returncode, err) == (1, "")
    again = finish(build(model))
    assert repeated_steps(finished_steps([*said, *out.splitlines()]), again) == []
    assert list(examine_store(model.parent / "store", closed=True)) == []


FULL = """
import os, pathlib, subprocess, sys
disk, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
(disk / "dist").mkdir()
for left in (2_500_000, 3_500_000, None):
    if left is not None:
        with (disk / "filler").open("wb", buffering=0) as file:
            status = os.statvfs(disk)
            file.write(bytes(status.f_bavail * status.f_bsize - left))
    done = subprocess.run(command, capture_output=True, text=True)
    print(f"RUN {left} {done.returncode}", done.stdout, done.stderr, sep="\\n")
    (disk / "filler").unlink(missing_ok=True)
"""


def test_a_disk_that_fills_during_a_build_and_is_freed(model: Path, tmp_path: Path) -> None:
    """Each build ends with one sentence, and continues what the one before has done."""
    disk = tmp_path / "disk"
    disk.mkdir()
    prefix = mounting("mount -t tmpfs -o size=16m tmpfs", disk)
    if not prefix:
        pytest.skip("needs the right to mount a file system (unshare)")
    command = [sys.executable, "-m", toy_build.__name__]
    command += map(str, (disk / "store", model, disk / "dist"))
    done = subprocess.run(
        [*prefix, sys.executable, "-c", FULL, disk, *command],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    *full, freed = done.stdout.split("RUN ")[1:]
    before: set[str] = set()
    for said in (*full, freed):
        lines = said.splitlines()
        assert repeated_steps(before, lines) == []
        before |= finished_steps(lines) - {"fetch"}
        failed = [line for line in lines if line.startswith("failed ")]
        if said is freed:
            assert failed == []
            assert lines[0] == "None 0"
        else:
            assert lines[0].endswith(" 1")
            assert len(failed) == 1, said
            assert ": the disk is full: free some space" in failed[0]
            assert "Traceback" not in said
    assert before == STEPS


SLOW = 0.002


def publish_slowly(root: str, made: str) -> None:
    """In the preloaded process: a reader never sees half of what a slow disk is about to hold."""
    seen = set()
    with Faults(Path(root)).slow(DISK, SLOW), open_store(Path(root)) as store:
        writer = threading.Thread(target=store.publish, args=(KEY, Path(made)))
        writer.start()
        while writer.is_alive():
            with open_store(Path(root)) as reader:
                record = reader.lookup(KEY)
                seen.add(record is not None)
                if record is not None:
                    assert {n: reader.read_bytes(record, n) for n in record.files} == CONTENT
        writer.join()
        assert False in seen
        assert store.lookup(KEY) is not None


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that changes system calls."""
    compiled = compile_library(tmp_path_factory.mktemp("faults"))
    if compiled is None:
        pytest.skip("needs cc and Linux")
    return compiled


def test_a_slow_disk_tears_nothing(library: Path, tmp_path: Path) -> None:
    made = make(tmp_path / "made")
    run_preloaded(library, f"{__name__}:publish_slowly", tmp_path / "store", made)


def publish_at_another_time(root: str, made: str, seconds: str) -> None:
    """In the preloaded process, whose clock is wrong: results are there, and a collection takes nothing that is young."""
    place = Path(root)
    with Faults(place).clock(int(seconds)), open_store(place) as store:
        record = store.publish(KEY, Path(made))
        lost = store.publish(action_key("lost"), make(Path(made), {"own": b"without a record"}))
        store.record_path(lost.key).unlink()
        collect_garbage(store, 30 * 24 * 3600)
        assert store.lookup(KEY) == record
        with open_store(place) as other:
            assert other.read_bytes(lost, "own") == b"without a record"


@pytest.mark.parametrize("seconds", [-3600, 3600, 400 * 24 * 3600])
def test_a_wrong_clock_loses_nothing(library: Path, tmp_path: Path, seconds: int) -> None:
    """The clock of this machine; the disk's own is right, as on a file server."""
    made = make(tmp_path / "made")
    call = f"{__name__}:publish_at_another_time"
    run_preloaded(library, call, tmp_path / "store", made, seconds)


NEWER = """
import sys
from modelwheel.store import records
from tests.kills import toy_build
records.RECORD_VERSION += 1
toy_build.main(*sys.argv[1:])
"""


def test_two_versions_build_in_one_store(model: Path) -> None:
    """In turns and side by side: both make the same wheel, and neither takes the other's results for damage."""
    place = model.parent
    newer = [sys.executable, "-c", NEWER, *map(str, (place / "store", model, place / "dist"))]
    root = Path(__file__).parents[2]

    def start_newer() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(newer, cwd=root, stdout=pipe, stderr=pipe, text=True)

    finish(build(model))
    wheel = {toy_build.WHEEL: (place / "dist" / toy_build.WHEEL).read_bytes()}
    both = build(model), start_newer()
    for process in both:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, ""), out + err
    assert list(examine_files(place / "dist", wheel, complete=True)) == []
    for process in (start_newer(), build(model)):
        finish(process)
        assert list(examine_files(place / "dist", wheel, complete=True)) == []
