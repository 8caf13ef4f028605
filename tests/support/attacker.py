"""What a hostile program tries, as plain Python: run inside a sandbox by `tests.support.prison`.

Each attack returns what it achieved, and raises if it is refused. Its target is an argument in JSON.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import sys
import threading
from pathlib import Path

from tests.support.attacker_calls import Target, attacks_of, fail, status
from tests.support.attacker_processes import ATTACKS as PROCESS_ATTACKS

_F_SETLEASE, _F_NOTIFY, _F_SETDELEG = 1024, 1026, 1040
_FS_IOC_SETFLAGS, _FS_IOC_GETFLAGS, _NODUMP = 0x40086602, 0x80086601, 0x40
_FS_IOC_GETVERSION, _FS_IOC_SETVERSION = 0x80087601, 0x40087602
_FS_IOC_FSGETXATTR, _FS_IOC_FSSETXATTR = 0x801C581F, 0x401C5820

# --- what must work -------------------------------------------------------------------------------


def write_own(_: Target) -> str:
    Path("mine").write_text("x")
    Path("directory").mkdir()
    Path("mine").rename("directory/mine")
    return "written"


def read_input(target: Target) -> str:
    return Path(target["input"]).read_text()


def use_threads(_: Target) -> str:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    return "ran"


def use_devices(_: Target) -> str:
    Path("/dev/null").write_text("x")
    return str(len(Path("/dev/urandom").open("rb").read(8)))


def know_itself(_: Target) -> str:
    threads = os.listdir("/proc/self/task")  # noqa: PTH208 - only the number counts
    maps = Path("/proc/self/maps").read_text().count("\n")
    return f"{len(threads)} threads, {maps} maps, {status('VmRSS')} kB"


def import_late(_: Target) -> str:
    import decimal  # of the standard library, with a part in C

    return str(decimal.Decimal(1))


def use_pairs(_: Target) -> str:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"x")
        return theirs.recv(1).decode()


# --- files ----------------------------------------------------------------------------------------


def write_home(target: Target) -> str:
    return _plant(target["home"])


def write_store(target: Target) -> str:
    return _plant(target["store"])


def write_beside(_: Target) -> str:
    return _plant("..")


def write_temporary(_: Target) -> str:
    return _plant("/tmp", f"modelwheel-planted-{os.getpid()}", remove=True)


def write_libraries(target: Target) -> str:
    return _plant(target["library"])


def _plant(directory: str, name: str = "planted", *, remove: bool = False) -> str:
    path = Path(directory, name)
    path.write_text("x")
    if remove:
        path.unlink()
    return f"wrote {path}"


def change_input(target: Target) -> str:
    with Path(target["input"]).open("r+") as file:
        return str(file.truncate(1))


def truncate_input(target: Target) -> str:
    # Without opening it for writing.
    os.close(os.open(target["input"], os.O_RDONLY | os.O_TRUNC))
    return "truncated"


def unprotect_input(target: Target) -> str:
    Path(target["input"]).chmod(0o666)
    return "changed its permissions"


def touch_input(target: Target) -> str:
    os.utime(target["input"])
    return "changed its times"


def remove_input(target: Target) -> str:
    Path(target["input"]).rename("taken")
    Path("taken").rename(target["input"])
    return "moved it"


def lease_input(target: Target) -> str:
    # The next program that opens it waits for 45 seconds.
    with Path(target["input"]).open("rb") as file:
        fcntl.fcntl(file, _F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(file, _F_SETLEASE, fcntl.F_UNLCK)
    return "got a lease"


def watch_inputs(target: Target) -> str:
    directory = os.open(Path(target["input"]).parent, os.O_RDONLY)
    try:
        return str(fcntl.fcntl(directory, _F_NOTIFY, 0))
    finally:
        os.close(directory)


def set_flags_of_input(target: Target) -> str:
    return _exchange(target, _FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS)


def set_version_of_input(target: Target) -> str:
    return _exchange(target, _FS_IOC_GETVERSION, _FS_IOC_SETVERSION)


def set_attributes_of_input(target: Target) -> str:
    return _exchange(target, _FS_IOC_FSGETXATTR, _FS_IOC_FSSETXATTR)


def _exchange(target: Target, get: int, put: int) -> str:
    """Puts back what an input has; a file system without these attributes says so (ENOTTY)."""
    found = bytearray(28)
    with Path(target["input"]).open("rb") as file:
        try:
            fcntl.ioctl(file, get, found)
        except OSError as error:
            if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP):
                return "the file system has none"
            # Asking is refused: the change itself counts.
        try:
            fcntl.ioctl(file, put, bytes(found))
        except OSError as error:
            if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP):
                return "the kernel was asked"
            raise
    return "set"


def read_sockets(_: Target) -> str:
    return Path("/proc/self/net/unix").read_text()[:3]


def read_sockets_of_thread(_: Target) -> str:
    return Path(f"/proc/self/task/{os.getpid()}/net/tcp").read_text()[:3]


def read_mounts(_: Target) -> str:
    return Path("/proc/self/mountinfo").read_text()[:3]


def read_mounts_of_thread(_: Target) -> str:
    return Path("/proc/thread-self/mounts").read_text()[:3]


def read_home(target: Target) -> str:
    return Path(target["home"], "secret").read_text()


def read_store(target: Target) -> str:
    return Path(target["store"], "secret").read_text()


def list_home(target: Target) -> str:
    return str([path.name for path in Path(target["home"]).iterdir()])


def see_home(target: Target) -> str:
    return str(Path(target["home"], "secret").stat().st_size)


def read_system(_: Target) -> str:
    return Path("/etc/passwd").read_text()[:4]


def read_linked(target: Target) -> str:
    Path("link-to-secret").symlink_to(Path(target["home"], "secret"))
    return Path("link-to-secret").read_text()


# --- what other processes know --------------------------------------------------------------------


def read_environment(_: Target) -> str:
    return os.environ["MODELWHEEL_TEST_TOKEN"]


def read_parents_environment(target: Target) -> str:
    return str(Path(f"/proc/{target['parent']}/environ").read_bytes() or fail())


def read_any_environment(_: Target) -> str:
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            try:
                if b"MODELWHEEL_TEST_TOKEN" in (path / "environ").read_bytes():
                    return f"of {path.name}"
            except OSError:
                continue
    raise PermissionError("of no process")


def read_command_line(target: Target) -> str:
    return Path(f"/proc/{target['victim']}/cmdline").read_text()[:4] or fail()


def read_descriptors(_: Target) -> str:
    for number in range(3, 64):
        try:
            content = os.pread(number, 100, 0)
        except OSError:
            continue
        if b"secret" in content:
            return content.decode()
    return fail()


# --- network --------------------------------------------------------------------------------------


def connect_tcp(target: Target) -> str:
    with socket.create_connection(("127.0.0.1", target["tcp"]), timeout=5):
        return "connected"


def listen_tcp(_: Target) -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname())


def send_udp(target: Target) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return str(sender.sendto(b"x", ("127.0.0.1", target["udp"])))


def connect_unix(target: Target) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(target["unix"])
        return "connected"


def connect_abstract(target: Target) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + target["abstract"])
        return "connected"


def send_from_pair(target: Target) -> str:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        return str(ours.sendto(b"x", target["datagrams"]))


def open_netlink(_: Target) -> str:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW):
        return "opened"


ATTACKS = attacks_of(globals()) | PROCESS_ATTACKS
"""The last one takes privileges away from those that would follow."""

FILES = ("attacker_calls", "attacker_processes", "attacker")
"""Of this program, beside each other, each after those that it imports."""

_LOADER = """
import sys, types
for name, text in {others!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(text, module.__dict__)
exec({own!r})
"""


def code() -> str:
    """This program as one text, for places that see none of its files."""
    texts = {
        f"tests.support.{name}": Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
        for name in FILES
    }
    own = texts.pop("tests.support.attacker")
    return _LOADER.format(others=texts, own=own)


def run(names: list[str], target: Target) -> dict[str, tuple[bool, str]]:
    """Tries each attack: whether it succeeded, and what it achieved or what refused it."""
    results = {}
    for name in names:
        try:
            results[name] = (True, ATTACKS[name](target))
        except Exception as error:  # noqa: BLE001 - whatever refuses it
            results[name] = (False, f"{type(error).__name__}: {error}")
    return results


def main() -> None:
    """Prints the results; the arguments are names and the target."""
    names, target = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    sys.stdout.write(json.dumps(run(names, target)))


if __name__ == "__main__":
    main()
