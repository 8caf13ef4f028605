"""Ordinary users: permissions mean nothing to root, as whom tests may run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Gives up root's right to read and write everywhere, for a while."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A directory that every user may enter and write to; `tmp_path` is below a closed one."""
    directory = Path(tempfile.mkdtemp(prefix="modelwheel-test-"))
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)
