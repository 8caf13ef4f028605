"""The store on a disk that is full, limited or closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modelwheel.errors import StoreError
from modelwheel.store.store import Store
from tests.support.stores import KEY, make, open_store

if sys.platform == "win32":
    pytest.skip("Windows has neither limits nor users of this kind", allow_module_level=True)

import resource


def test_a_file_size_limit_is_explained(tmp_path: Path) -> None:
    made = make(tmp_path / "made", {"large": bytes(1 << 20)})
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open_store(tmp_path / "store") as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, old[1]))
        try:
            with pytest.raises(StoreError, match=r"store.*ulimit -f.*set MODELWHEEL_CACHE_DIR"):
                store.publish(KEY, made)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old)
        assert store.lookup(KEY) is None
        assert store.publish(KEY, made) == store.lookup(KEY)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a file system")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_explained_and_leaves_nothing_half_written(
    small_disk: Path, tmp_path: Path
) -> None:
    made = make(tmp_path / "made", {"a": b"a", "large": bytes(1 << 20)})
    with open_store(small_disk) as store:
        with pytest.raises(StoreError, match="disk is full: free some space"):
            store.publish(KEY, made)
        assert store.lookup(KEY) is None
        (made / "large").write_bytes(bytes(1 << 18))  # what failed does not lie in the way
        assert store.publish(KEY, made) == store.lookup(KEY)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Gives up root's right to write everywhere, for a while."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_missing_permission_is_explained(tmp_path: Path) -> None:
    with open_store(tmp_path / "warm-up") as store:
        store.publish(KEY, make(tmp_path / "made"))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with ordinary_user(), pytest.raises(StoreError, match=r"closed.*permission denied"):
        Store(closed / "store").publish(KEY, tmp_path / "made")
