"""The store when system calls fail, and when the power goes: what was stored is right or missing, never torn."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from modelwheel.engine.delivery import deliver
from modelwheel.errors import EnvironmentProblemError, ModelwheelError, StoreError
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from tests.support.faults.calls import SHORT, Faults, compile_library, run_preloaded
from tests.support.faults.disks import SMALL, mounting, read_only
from tests.support.faults.power import State, crash_states
from tests.support.stores import KEY, finish, make, open_store, start

FILES = {"a.whl": bytes(range(256)) * 8}
OLD = b"an older wheel"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes system calls fail."""
    compiled = compile_library(tmp_path_factory.mktemp("faults"))
    if compiled is None:
        pytest.skip("needs cc and Linux")
    return compiled


def _make(directory: Path) -> Path:
    directory.mkdir()
    for name, content in FILES.items():
        (directory / name).write_bytes(content)
    return directory


# Lost power


def write_everything(root: str, made: str, record: str, mutant: str) -> None:
    """In the preloaded process: one result is stored, and a wheel is delivered over an older one."""
    place = Path(root)
    faults = Faults(place)
    if mutant:
        os.fsync = partial(_sync_some, os.fsync, mutant)
    with faults.recording(Path(record)), open_store(place / "store") as store:
        (place / "store").mkdir()
        (place / "dist").mkdir()
        for directory in (place, place / "store", place / "dist"):
            _really_sync(directory)
        stored = store.publish(KEY, Path(made))
        faults.mark("stored")
        with (place / "dist" / "a.whl").open("wb") as old:
            old.write(OLD)
        _really_sync(place / "dist" / "a.whl")
        _really_sync(place / "dist")
        faults.mark("old")
        deliver(stored, store, place / "dist")
        faults.mark("delivered")


_fsync = os.fsync


def _really_sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    _fsync(descriptor)
    os.close(descriptor)


def _sync_some(fsync: Callable[[int], None], mutant: str, descriptor: int) -> None:
    """`os.fsync` of a program that forgets it for files, for directories, or for new directories."""
    mode = os.fstat(descriptor).st_mode
    place = Path(f"/proc/self/fd/{descriptor}").readlink()
    new = {"files": stat.S_ISREG(mode), "directories": stat.S_ISDIR(mode)}
    new["parents"] = stat.S_ISDIR(mode) and place.name in ("blobs", "actions", "store")
    if not new[mutant]:
        fsync(descriptor)


def states(library: Path, directory: Path, mutant: str = "") -> set[State]:
    """What a power cut may leave of `write_everything`."""
    root = directory / "root"
    root.mkdir()
    made, record = _make(directory / "made"), directory / "record"
    run_preloaded(library, f"{__name__}:write_everything", root, made, record, mutant)
    return crash_states(record, root, without=("store/tmp", "store/locks"))


def damage(state: State, directory: Path) -> Iterator[str]:
    """What is wrong with a state: a torn file, or one that was lost after it had been reported as done."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    state.write(directory)
    with open_store(directory / "store") as store:
        found = store.lookup(KEY)
        if found is None and "stored" in state.marks:
            yield "a stored result is lost"
        if found is not None and {n: store.read_bytes(found, n) for n in found.files} != FILES:
            yield "a stored result is torn"
    wheel = directory / "dist" / "a.whl"
    content = wheel.read_bytes() if wheel.exists() else None
    if "delivered" in state.marks and content == OLD:
        yield "a delivered wheel is lost"
    elif "old" in state.marks and content not in (OLD, FILES["a.whl"]):
        yield "a wheel is torn"


def test_a_power_cut_at_any_moment_leaves_results_that_are_right_or_missing(
    library: Path, tmp_path: Path
) -> None:
    found = states(library, tmp_path)
    # The record has all of it: states before, between and after what was reported as done.
    done = ["stored", "old", "delivered"]
    assert {each.marks for each in found} == {frozenset(done[:count]) for count in range(4)}
    assert [each for state in found for each in damage(state, tmp_path / "state")] == []


@pytest.mark.parametrize(
    ("mutant", "consequences"),
    [
        ("files", {"a stored result is lost", "a wheel is torn"}),
        ("directories", {"a stored result is lost", "a delivered wheel is lost"}),
        ("parents", {"a stored result is lost"}),
    ],
)
def test_every_kind_of_sync_is_needed(
    library: Path, tmp_path: Path, mutant: str, consequences: set[str]
) -> None:
    """Without one of them, the test above fails: what was stored can be lost, and a wheel can be torn.

    The same happens with a disk that ignores syncs; even then, nothing in the store is read as something else.
    """
    found = states(library, tmp_path, mutant)
    assert {each for state in found for each in damage(state, tmp_path / "state")} == consequences


# Calls that fail

ERRORS = {
    "open": (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES),
    "mkdir": (errno.ENOSPC, errno.EROFS),
    "write": (errno.EIO, errno.ENOSPC, errno.EDQUOT, SHORT),
    "fsync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.EIO, errno.ENOSPC),
    "chmod": (errno.EIO, errno.EPERM),
    "unlink": (errno.EIO,),
    "read": (errno.EIO,),
}


_REASONS = (
    ": the disk is full: free some space",
    ": the disk reports an error: check it (`dmesg`)",
    ": your disk quota is used up: free some space",
    ": the file system is read-only: make it writable",
    ": permission denied: correct the permissions",
    "; fix that, or choose another directory",
    # What cannot be read of a content counts as damaged.
    "; run the command again, which makes the file again, and check the disk if this repeats",
)


def fail_everywhere(root: str, made: str, call: str) -> None:
    """In the preloaded process: each call of a kind fails once, with each error that it may have."""
    faults = Faults(Path(root))
    for error in ERRORS[call]:
        for nth in count():
            place = Path(root) / f"{error}-{nth}"
            (place / "dist").mkdir(parents=True)
            with faults.failing(call, error, nth):
                problem = _use(place, Path(made))
            if not faults.happened:
                assert problem is None, problem
                assert nth > 0
                break
            _check(place, Path(made), problem, error)


def _use(place: Path, made: Path) -> ModelwheelError | None:
    """Stores, reads, writes and delivers one result; returns the error that a user would see."""
    try:
        with open_store(place / "store") as store:
            store.publish(KEY, made)
        with open_store(place / "store") as store:
            record = _look_up(store)
            if record is None:
                return None
            store.materialize(record, place / "out")
            deliver(record, store, place / "dist")
    except ModelwheelError as error:
        return error
    return None


def _look_up(store: Store) -> Record | None:
    """What cannot be read from the disk is a miss: its work is done again. Permissions are for the user to correct."""
    try:
        return store.lookup(KEY)
    except StoreError as error:
        if "the disk reports an error" in str(error):
            pytest.fail(str(error))
        raise


def _check(place: Path, made: Path, problem: ModelwheelError | None, error: int) -> None:
    """One clear sentence; nothing half-written; and everything works once the fault is gone."""
    if problem is not None:
        assert error != SHORT
        assert isinstance(problem, StoreError | EnvironmentProblemError)
        sentence = str(problem)
        assert "\n" not in sentence
        assert str(place) in sentence, sentence
        assert any(reason in sentence for reason in _REASONS), sentence
    for name in ("out", "dist"):
        for path in (place / name).glob("*"):
            assert path.name.startswith(".") or path.read_bytes() == FILES[path.name]
    with open_store(place / "store") as store:
        found = store.lookup(KEY)
        assert found is None or store.read_bytes(found, "a.whl") == FILES["a.whl"]
        assert store.publish(KEY, made) == store.lookup(KEY)


@pytest.mark.parametrize("call", ERRORS)
def test_a_call_that_fails_is_one_sentence_and_damages_nothing(
    library: Path, tmp_path: Path, call: str
) -> None:
    (tmp_path / "root").mkdir()
    made = _make(tmp_path / "made")
    run_preloaded(library, f"{__name__}:fail_everywhere", tmp_path / "root", made, call)


# Disks that are full or read-only

FULL = """
root, made = map(pathlib.Path, sys.argv[1:3])
(root / "rest").write_bytes(bytes(300_000))
for left in range(0, 300_000, 4096):
    store = Store(root / f"store{left}")
    try:
        record = store.publish(action_key("test", input=1), made)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        assert store.lookup(action_key("test", input=1)) is None
    else:
        assert store.lookup(action_key("test", input=1)) == record
        print("stored")
    store.close()
"""


def test_a_full_disk_is_one_sentence_and_tears_nothing(tmp_path: Path) -> None:
    """As an ordinary user, too. The disk fills up until nothing fits, not even a directory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    prefix = mounting(SMALL, disk)
    if not prefix:
        pytest.skip("needs the right to mount a file system (unshare)")
    made = make(tmp_path / "made", {"a": b"a" * 9000, "b": b"b" * 9000})
    stored, *failed = finish(start(FULL, disk, made, prefix=prefix)).splitlines()
    assert stored == "stored"
    failed = [line for line in failed if line != "stored"]
    assert len(failed) > 10
    for line in failed:
        assert line.startswith(f"StoreError: cannot read or write {disk}/"), line
        fix = ": the disk is full: free some space, or set MODELWHEEL_CACHE_DIR to a directory elsewhere"
        assert line.endswith(fix), line


READ_ONLY = """
root, made = map(pathlib.Path, sys.argv[1:3])
store = Store(root)
record = store.lookup(action_key("test", input=1))
with store.scratch() as scratch:
    store.materialize(record, scratch, link=True)
    print(sorted(path.name for path in scratch.iterdir()))
for use in (lambda: store.publish("0" * 64, made), lambda: store.lock("0" * 64).__enter__()):
    try:
        use()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""


def test_a_read_only_file_system_serves_what_it_has(tmp_path: Path) -> None:
    made = make(tmp_path / "made", {"a": b"a"})
    with open_store(tmp_path / "store") as store:
        store.publish(KEY, made)
    prefix = mounting(read_only(tmp_path / "store"), tmp_path / "store")
    if not prefix:
        pytest.skip("needs the right to mount a file system (unshare)")
    script = start(READ_ONLY, tmp_path / "store", made, prefix=prefix)
    names, *refused = finish(script).splitlines()
    assert names == "['a']"
    assert len(refused) == 2
    for line in refused:
        assert line.startswith(f"StoreError: cannot read or write {tmp_path / 'store'}/"), line
        fix = ": the file system is read-only: make it writable, or set MODELWHEEL_CACHE_DIR to a directory elsewhere"
        assert line.endswith(fix), line
