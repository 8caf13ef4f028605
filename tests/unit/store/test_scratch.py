"""Temporary directories that go with their process, also if that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from modelwheel.store.scratch import ScratchSpace

_KILLED = """
import os, signal, sys
from pathlib import Path
from modelwheel.store.scratch import ScratchSpace
parent = Path(sys.argv[1]) if sys.argv[1] else None
print(ScratchSpace(parent).make_directory(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("own", [True, False])
def test_what_a_killed_process_leaves_the_next_one_removes(
    own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    parent = tmp_path / "store" / "tmp" if own else None
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(parent or "")],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
    )
    left = Path(done.stdout.decode().strip())
    assert done.returncode == -signal.SIGKILL
    assert left.is_dir()
    assert left.is_relative_to(tmp_path)
    space = ScratchSpace(parent)
    made = space.make_directory()
    assert not left.exists()
    space.close()
    assert not made.exists()


@pytest.mark.parametrize("taken", ["link", "open"])
def test_a_place_of_somebody_else_is_not_used(
    taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = tmp_path / f"modelwheel-{os.getuid()}"
    if taken == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        place.symlink_to("theirs")
    else:
        place.mkdir()
        place.chmod(0o777)
    space = ScratchSpace()
    made = space.make_directory()
    assert not made.is_relative_to(place)
    assert not made.resolve().is_relative_to(place.resolve())
    space.close()
    assert not made.exists()
