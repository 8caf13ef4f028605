"""The store on a disk that is full, limited or closed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from modelwheel.errors import StoreError
from modelwheel.store.store import Store
from tests.support.stores import KEY, make, open_store
from tests.support.users import ordinary_user, public_path  # noqa: F401

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


def test_missing_permission_is_explained(tmp_path: Path) -> None:
    with open_store(tmp_path / "warm-up") as store:
        store.publish(KEY, make(tmp_path / "made"))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with ordinary_user(), pytest.raises(StoreError, match=r"closed.*permission denied"):
        Store(closed / "store").publish(KEY, tmp_path / "made")


def test_a_read_only_store_serves_what_it_has(public_path: Path) -> None:  # noqa: F811
    """Also as another user than the one who filled it, and without traces in it."""
    with open_store(public_path / "store") as store:
        record = store.publish(KEY, make(public_path / "made"))
    for path in (public_path / "store").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (public_path / "store").chmod(0o555)
    with ordinary_user(), open_store(public_path / "store") as store:
        assert store.peek(KEY) == store.lookup(KEY) == record
        with store.scratch() as scratch:
            store.materialize(record, scratch / "out", link=True)
            assert (scratch / "out" / "empty").read_bytes() == b""
        kept = store.keep_directory()
        assert not kept.is_relative_to(store.root)
        assert kept.stat().st_mode & 0o777 == 0o700
        message = "permission denied: correct the permissions, or set MODELWHEEL_CACHE_DIR to"
        with pytest.raises(StoreError, match=message):
            store.publish(KEY, public_path / "made")
        with pytest.raises(StoreError, match=message), store.lock(KEY):
            pass
        store.close()
        assert not kept.exists()
        assert not kept.parent.exists()
