"""Stores as tests use them, also from processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from modelwheel.store.keys import action_key
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from modelwheel.store.upkeep.inventory import StoredRecord, list_records, read_records

KEY = action_key("test", input=1)
CONTENT = {"program.json": b"{}", "objects/a.o": b"\x7fELF" * 1000, "empty": b""}

Machine = Callable[..., Store]
"""Opens the store of a machine, by its name; see the fixture `machine`."""


@contextmanager
def open_store(root: Path) -> Iterator[Store]:
    """A store as another process would see it: nothing is remembered as verified."""
    store = Store(root)
    yield store
    store.close()


def make(directory: Path, content: Mapping[str, bytes] = CONTENT) -> Path:
    for name, data in content.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    return directory


def blob_file(store: Store, record: Record, name: str) -> Path:
    """Where the store holds the content of one file of a record."""
    sha256 = record.files[name].sha256
    return store.root / "blobs" / sha256[:2] / sha256


def every_record(store: Store) -> list[StoredRecord]:
    """All readable records of a store, with the times of their last use."""
    return list(read_records(store.backend, list_records(store.backend)).records)


def record_file(store: Store, key: str = KEY) -> Path:
    """Where the store holds a record."""
    return store.root / "actions" / key[:2] / f"{key}.json"


def start(script: str, *args: object, prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Runs Python code in a process of its own, which a command before it may change."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = f"""
import pathlib, sys
from modelwheel.store.keys import action_key
from modelwheel.store.records import Record
from modelwheel.store.store import Store
{script}
"""
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", code, *map(str, args)],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
