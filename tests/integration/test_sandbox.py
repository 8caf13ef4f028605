"""Hostile programs in every sandbox of this machine, as every user, and what they achieved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.sandbox import landlock
from tests.support import prison
from tests.support.attacker import ATTACKS

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes of Linux")

USERS = {"this user": None, "nobody": 65534}
KINDS = ("bubblewrap", "landlock", "bubblewrap-child", "landlock-child")

PERMITTED = {"write_own", "read_input", "use_threads", "use_devices", "import_late", "use_pairs"}
"""What a program needs."""

ALSO = {"landlock": {"see_home"}, "landlock-child": {"see_home"}}
"""Landlock does not hide that a file exists, nor its size; the manual says so."""

INHERITED = {"read_environment", "read_descriptors"}
"""Possible only if a program is started without this package."""

NEED_ROOT = {"have_capabilities", "change_user", "leave_device"}


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that every user can read, with what `prison` needs, for every Python."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        package = ROOT / "pipeline" / "modelwheel"
        for part in ("__init__.py", "errors.py", "sandbox", "util"):
            copy = shutil.copytree if (package / part).is_dir() else shutil.copy
            (place / "modelwheel").mkdir(exist_ok=True)
            copy(package / part, place / "modelwheel" / part)
        (place / "tests" / "support").mkdir(parents=True)
        for part in ("attacker.py", "prison.py"):
            shutil.copy(ROOT / "tests" / "support" / part, place / "tests" / "support")
        yield place


def find_python(user: int | None) -> str:
    """A Python that a user can run: this one may be in a home."""
    for python in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if python is not None:
            command = [python, "-I", "-c", "import sys; assert sys.version_info >= (3, 10)"]
            try:
                subprocess.run(command, user=user, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                continue
            return python
    pytest.skip("no Python that this user can run")


def attack(place: Path, kind: str, user: int | None) -> dict[str, str]:
    """What each attack achieved that succeeded, with what is left in its scratch directory."""
    if user is not None and os.getuid() != 0:
        pytest.skip("only root can become another user")
    if kind.startswith("landlock") and landlock.version() < landlock.ENOUGH:
        pytest.skip("the kernel has no Landlock, or an old one")
    if kind.startswith("bubblewrap") and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    python = find_python(user)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name, "base")
        base.mkdir()
        for path in (base.parent, base):
            os.chown(path, -1 if user is None else user, -1)
        done = subprocess.run(
            [python, "-m", "tests.support.prison", kind, base, json.dumps(list(ATTACKS))],
            cwd=place,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            env={**os.environ, prison.TOKEN: "secret", "PYTHONPATH": str(place)},
            stdout=subprocess.PIPE,
            check=True,
            timeout=100,
        )
        results = json.loads(done.stdout)
        left = {p.name for p in base.rglob("left-*")} | {p.name for p in base.rglob("planted")}
        achieved = {name: said for name, (succeeded, said) in results.items() if succeeded}
        assert left == set() or kind in ("none", "plain")
    return achieved


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_achieved(place: Path, kind: str, user: str) -> None:
    achieved = attack(place, kind, USERS[user])
    assert set(achieved) == PERMITTED | ALSO.get(kind, set()), achieved


@pytest.mark.parametrize("user", USERS)
def test_everything_is_achieved_without_a_sandbox(place: Path, user: str) -> None:
    is_root = USERS[user] is None and os.getuid() == 0
    possible = set(ATTACKS) - (set() if is_root else NEED_ROOT)
    achieved = attack(place, "none", USERS[user])
    assert set(achieved) == possible - INHERITED
    assert set(attack(place, "plain", USERS[user])) == possible
