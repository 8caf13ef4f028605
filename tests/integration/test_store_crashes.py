"""The store when processes are killed or race."""

from __future__ import annotations

import logging
import os
import re
import time
from pathlib import Path

import pytest

from modelwheel.errors import StoreError
from modelwheel.store.store import Store
from tests.support.stores import CONTENT, KEY, finish, kill, make, open_store, start
from tests.support.waiting import wait_until

PUBLISH = """
root, made = map(pathlib.Path, sys.argv[1:3])
print("ready", flush=True)
Store(root).publish(action_key("test", input=1), made)
"""


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # renamed in the meantime
        return 0


def test_a_kill_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    made = make(tmp_path / "made", {"a": b"a"})
    with (made / "large").open("wb") as file:
        file.truncate(8 << 30)  # sparse here; the copy would fill for seconds
    root = tmp_path / "store"
    process = start(PUBLISH, root, made)
    blobs = "tmp/process-*/*/blob"
    wait_until(lambda: any(size_of(path) > 1 << 20 for path in root.glob(blobs)))
    assert process.poll() is None
    kill(process)
    assert len(list(root.glob("tmp/process-*"))) == 2  # the directory and its lock
    with open_store(root) as store:
        assert store.lookup(KEY) is None
        (made / "large").unlink()
        assert store.publish(KEY, made) == store.lookup(KEY)
        assert len(list(root.glob("tmp/process-*"))) == 2  # its own: the dead one's are gone
    assert list(root.glob("tmp/process-*")) == []


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 5, 10])
def test_a_kill_at_any_moment_leaves_all_or_nothing(tmp_path: Path, milliseconds: int) -> None:
    content = {f"file{number}": bytes([number]) * 5000 for number in range(30)}
    made = make(tmp_path / "made", content)
    process = start(PUBLISH, tmp_path / "store", made)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(milliseconds / 1000)
    kill(process)
    with open_store(tmp_path / "store") as store:
        found = store.lookup(KEY)
        assert found is None or found.files.keys() == content.keys()
        assert store.publish(KEY, made) == store.lookup(KEY)


KILLED_AT_THE_RECORD = """
import os
from modelwheel.store import layers as module

def die(path, content, aside, **_):
    aside.write_bytes(content)
    os._exit(9)

module.write_atomically = die
root, made = map(pathlib.Path, sys.argv[1:3])
Store(root).publish(action_key("test", input=1), made)
"""


def test_a_kill_before_the_record_is_in_place_leaves_nothing_for_long(tmp_path: Path) -> None:
    made = make(tmp_path / "made")
    process = start(KILLED_AT_THE_RECORD, tmp_path / "store", made)
    process.communicate(timeout=60)
    assert process.returncode == 9
    with open_store(tmp_path / "store") as store:
        store.publish(KEY, made)
    left = {path for path in (tmp_path / "store").rglob("*") if path.is_file()}
    assert {path.parent.parent.name for path in left} == {"store", "blobs", "actions"}
    # The lock of `tmp`, the lease of the killed process, which expires, blobs, the record.
    assert len(left) == 1 + 1 + len(CONTENT) + 1


RACE = """
root, made = map(pathlib.Path, sys.argv[1:3])
for round in range(20):
    store = Store(root)
    record = store.publish(action_key("test", input=1), made, {"same": True})
    found = store.lookup(action_key("test", input=1))
    assert found == record, found
    store.materialize(record, made.parent / f"out-{sys.argv[3]}")
    store.close()
"""


def test_writers_and_readers_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    made = make(tmp_path / "made")
    root = tmp_path / "store"
    for process in [start(RACE, root, made, number) for number in range(4)]:
        finish(process)
    with open_store(root) as store:
        record = store.lookup(KEY)
        assert record is not None
        assert {name: store.read_bytes(record, name) for name in record.files} == CONTENT
    assert list(root.glob("tmp/process-*")) == []


LOCKED = """
import time
root, log = map(pathlib.Path, sys.argv[1:3])
with Store(root).lock("key"):
    with log.open("a") as file:
        file.write("in\\n")
        file.flush()
        print("holding", flush=True)
        time.sleep(float(sys.argv[3]))
        file.write("out\\n")
"""


def test_one_process_at_a_time_holds_a_lock(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for process in [start(LOCKED, tmp_path / "store", log, 0.05) for _ in range(3)]:
        finish(process)
    assert log.read_text() == "in\nout\n" * 3


def test_a_lock_ends_with_its_holder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    process = start(LOCKED, tmp_path / "store", tmp_path / "log", 600)
    assert process.stdout is not None
    process.stdout.readline()
    killer = start(
        "import os, signal, time; time.sleep(0.3); os.kill(int(sys.argv[1]), signal.SIGTERM)",
        process.pid,
    )
    with open_store(tmp_path / "store") as store, caplog.at_level(logging.INFO):
        with store.lock("other"):
            assert "waiting" not in caplog.text
        with store.lock("key"):
            assert "waiting for another build" in caplog.text
    finish(killer)
    kill(process)


def test_scratch_is_removed_and_kept_directories_last_until_close(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        kept = store.keep_directory()
        with store.scratch() as scratch:
            assert scratch.is_relative_to(store.root)
            (scratch / "sub").mkdir()
        assert not scratch.exists()
        with open_store(store.root) as other, other.scratch():
            assert kept.exists()  # another user of the store takes nothing that is alive
    assert not kept.exists()


def test_a_process_that_ends_tidies_up(tmp_path: Path) -> None:
    script = "store = Store(pathlib.Path(sys.argv[1])); print(store.keep_directory())"
    kept = Path(finish(start(script, tmp_path / "store")).strip())
    assert kept.is_relative_to(tmp_path)
    assert list((tmp_path / "store").glob("tmp/process-*")) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_forked_child_leaves_its_parents_directories(tmp_path: Path) -> None:
    script = """
import os
import re
store = Store(pathlib.Path(sys.argv[1]))
kept = store.keep_directory()
if os.fork() == 0:
    store.close()
    os._exit(0)
os.wait()
print(kept.exists())
"""
    assert finish(start(script, tmp_path / "store")) == "True\n"


def test_a_root_that_is_a_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    message = f"cannot read or write {tmp_path / 'file'}"
    with pytest.raises(StoreError, match=re.escape(message)):
        Store(tmp_path / "file").publish(KEY, make(tmp_path / "made"))
