"""Hostile programs in every sandbox of this machine, as every user, and what they achieved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
import pytest

from modelwheel.sandbox import landlock
from tests.support import prison
from tests.support.attacker import ATTACKS, FILES

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes of Linux")

USERS = {"this user": None, "nobody": 65534}
KINDS = ("bubblewrap", "landlock", "bubblewrap-child", "landlock-child")

PERMITTED = {
    *("write_own", "read_input", "use_threads", "use_devices", "import_late", "use_pairs"),
    "know_itself",
}
"""What a program needs."""

ALSO = {
    # The launcher executes the program; with no other process allowed, that can only replace itself.
    "bubblewrap": {"execute"},
    # Landlock does not hide that a file exists, nor its size; the manual says so.
    "landlock": {"execute", "see_home"},
    "landlock-child": {"see_home"},
}

INSIDE = {
    *(
        "create_set_user_id",
        "execute",
        "fork",
        "fork_bomb",
        "keep_keys",
        "leave_fifo",
        "leave_link",
    ),
    *("leave_shared_memory", "leave_socket", "listen_tcp", "make_namespace", "make_set_user_id"),
    *("open_netlink", "outlive_parent", "send_udp", "use_file_in_memory", "use_io_uring"),
    *("use_memory", "use_shared_memory", "write_huge_file"),
    *("lease_input", "watch_inputs", "read_mounts", "read_mounts_of_thread"),
    *("read_sockets", "read_sockets_of_thread"),
}
"""What namespaces alone do not stop, as it stays inside them or has no limit there."""

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
        for part in (*(f"{name}.py" for name in FILES), "prison.py"):
            shutil.copy(ROOT / "tests" / "support" / part, place / "tests" / "support")
        yield place


def require(kind: str) -> None:
    """Skips a test of a sandbox that this machine lacks."""
    if kind.startswith("landlock") and landlock.version() < landlock.ENOUGH:
        pytest.skip("the kernel has no Landlock, or an old one")
    if kind.startswith("bubblewrap") and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")


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


def run_as(user: int | None, place: Path, arguments: list[str]) -> str:
    """What Python prints with these arguments, as a user."""
    return subprocess.run(
        [find_python(user), *arguments],
        cwd=place,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        env={**os.environ, prison.TOKEN: "secret", "PYTHONPATH": str(place)},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
        timeout=100,
    ).stdout


def attack(
    place: Path, kind: str, user: int | None, names: Iterable[str] = ATTACKS
) -> dict[str, str]:
    """What each attack achieved that succeeded, with what is left in its scratch directory."""
    if user is not None and os.getuid() != 0:
        pytest.skip("only root can become another user")
    require(kind)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name, "base")
        base.mkdir()
        for path in (base.parent, base):
            os.chown(path, -1 if user is None else user, -1)
        arguments = ["-m", "tests.support.prison", kind, str(base), json.dumps(list(names))]
        results = json.loads(run_as(user, place, arguments))
        left = {p.name for p in base.rglob("left-*")} | {p.name for p in base.rglob("planted")}
        achieved = {name: said for name, (succeeded, said) in results.items() if succeeded}
        assert left == set() or kind in ("none", "plain", "bubblewrap-alone")
    return achieved


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_achieved(place: Path, kind: str, user: str) -> None:
    achieved = attack(place, kind, USERS[user])
    assert set(achieved) == PERMITTED | ALSO.get(kind, set()), achieved


@pytest.mark.parametrize("user", USERS)
def test_namespaces_stop_what_reaches_outside(place: Path, user: str) -> None:
    """Without the other layers, which stop most of it as well."""
    achieved = attack(place, "bubblewrap-alone", USERS[user])
    assert set(achieved) <= PERMITTED | INSIDE, achieved
    assert set(achieved) >= PERMITTED | {"fork", "use_memory"}


@pytest.mark.parametrize("user", USERS)
def test_everything_is_achieved_without_a_sandbox(place: Path, user: str) -> None:
    is_root = USERS[user] is None and os.getuid() == 0
    possible = set(ATTACKS) - (set() if is_root else NEED_ROOT)
    achieved = attack(place, "none", USERS[user])
    assert set(achieved) == possible - INHERITED
    assert set(attack(place, "plain", USERS[user], INHERITED)) == INHERITED


_FORKS = """
import os, sys, tempfile
from pathlib import Path
from modelwheel.sandbox.policy import Access, Limits, environment
from tests.support.prison import find
program = '''
import os
children = 0
try:
    while children < 100:
        if os.fork() == 0:
            os.read(0, 1)
            os._exit(0)
        children += 1
except BlockingIOError:
    pass
print(children)
'''
with tempfile.TemporaryDirectory() as scratch:
    limits = Limits(processes=20 if sys.argv[2] == "limited" else None)
    argv = [sys.executable, "-I", "-c", program]
    process = find(sys.argv[1]).start(argv, Access((), Path(scratch)), limits, environment({}), stdin=0)
    sys.exit(process.wait())
"""


def _processes_of(user: int) -> int:
    every = (one.info["uids"] for one in psutil.process_iter(["uids"]))
    return sum(uids is not None and uids.real == user for uids in every)


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_the_number_of_processes(place: Path, kind: str) -> None:
    """Of an ordinary user; root may start any number unless it is none."""
    user = 65534 if os.getuid() == 0 else None
    require(kind)
    # The limit counts others of this user; those of them that end meanwhile make room.
    others = _processes_of(os.getuid() if user is None else user)
    assert int(run_as(user, place, ["-c", _FORKS, kind, "limited"])) <= 20 + others
    assert int(run_as(user, place, ["-c", _FORKS, kind, "unlimited"])) == 100


def test_a_server_keeps_its_children_out(place: Path) -> None:
    """An ordinary user's: root is kept out by having lost its capabilities."""
    user = 65534 if os.getuid() == 0 else None
    program = """
import os, sys
from modelwheel.sandbox.kernel import protect_from_children
if sys.argv[1] == "protected":
    protect_from_children()
if os.fork() == 0:
    try:
        print(len(open(f"/proc/{os.getppid()}/environ").read()) > 0, flush=True)
    except PermissionError:
        print("refused", flush=True)
    os._exit(0)
os.wait()
"""
    assert run_as(user, place, ["-c", program, "protected"]) == "refused\n"
    assert run_as(user, place, ["-c", program, "open"]) == "True\n"
