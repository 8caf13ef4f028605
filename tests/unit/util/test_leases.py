"""Files that another program has a lease on: opening one waits, but not for long."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from modelwheel.util import trees
from modelwheel.util.trees import open_plain, open_regular

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="leases are of Linux")

_HOLDER = """
import fcntl, signal, sys, time
signal.signal(signal.SIGIO, lambda *_: time.sleep(float(sys.argv[2])) or sys.exit())
with open(sys.argv[1]) as file:
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    print(flush=True)
    time.sleep(60)
"""


@contextmanager
def leased(path: Path, seconds: float) -> Iterator[None]:
    """Another program has a lease on a file, and gives it up some seconds after it is asked to."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, path, str(seconds)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        try:
            if not holder.stdout.readline():
                pytest.skip("this file system has no leases")
            yield
        finally:
            holder.kill()


@pytest.mark.parametrize("open_file", [open_regular, open_plain])
def test_a_file_is_read_once_its_lease_ends(
    tmp_path: Path, open_file: Callable[[Path], BinaryIO]
) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"content")
    with leased(path, 0.2), open_file(path) as file:
        assert file.read() == b"content"


def test_a_lease_without_an_end_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "blob"
    path.touch()
    monkeypatch.setattr(trees, "PATIENCE", 0.1)
    with leased(path, 60), pytest.raises(OSError, match="another program has held it") as refused:
        open_regular(path)
    assert refused.value.errno == errno.EBUSY
