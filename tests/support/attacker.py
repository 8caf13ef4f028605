"""What a hostile program tries, as plain Python: run inside a sandbox by `tests.support.prison`.

Each attack returns what it achieved, and raises if it is refused. Its target is an argument in JSON.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_TIOCSCTTY, _TIOCSTI = 0x540E, 0x5412
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17
_CLONE_NEWUSER = 0x10000000
_F_SETLEASE, _F_NOTIFY, _F_SETDELEG = 1024, 1026, 1040
_FS_IOC_SETFLAGS, _FS_IOC_GETFLAGS, _NODUMP = 0x40086602, 0x80086601, 0x40
_FS_IOC_GETVERSION, _FS_IOC_SETVERSION = 0x80087601, 0x40087602
_FS_IOC_FSGETXATTR, _FS_IOC_FSSETXATTR = 0x801C581F, 0x401C5820

Target = dict[str, Any]
"""What `tests.support.prison` prepared outside."""


def _call(name: str, *arguments: Any) -> int:
    result: int = getattr(_LIBC, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def _system_call(x86_64: int, aarch64: int, *arguments: Any) -> int:
    number = {"x86_64": x86_64, "aarch64": aarch64}[os.uname().machine]
    return _call("syscall", number, *arguments)


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
    return f"{len(threads)} threads, {maps} maps, {_status('VmRSS')} kB"


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
    return str(Path(f"/proc/{target['parent']}/environ").read_bytes() or _fail())


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
    return Path(f"/proc/{target['victim']}/cmdline").read_text()[:4] or _fail()


def read_descriptors(_: Target) -> str:
    for number in range(3, 64):
        try:
            content = os.pread(number, 100, 0)
        except OSError:
            continue
        if b"secret" in content:
            return content.decode()
    return _fail()


def _fail() -> str:
    raise PermissionError("nothing there")


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


# --- processes ------------------------------------------------------------------------------------


def fork(_: Target) -> str:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "forked"


def fork_bomb(_: Target) -> str:
    children = []
    try:
        for _number in range(100):
            child = os.fork()
            if child == 0:
                os.read(0, 1)
                os._exit(0)
            children.append(child)
    finally:
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)
    return f"{len(children)} processes"


def run_program(_: Target) -> str:
    return subprocess.run(["/bin/echo", "ran"], capture_output=True, check=True).stdout.decode()


def spawn_program(_: Target) -> str:
    child = os.posix_spawn("/bin/true", ["true"], {})
    return str(os.waitpid(child, 0))


def execute(_: Target) -> str:
    try:
        os.execv("/no/program", ["x"])
    except FileNotFoundError:
        return "could"


def signal_victim(target: Target) -> str:
    os.kill(target["victim"], 0)
    return "could"


def signal_parent(target: Target) -> str:
    os.kill(target["parent"], 0)
    return "could"


def signal_thread_of_victim(target: Target) -> str:
    return str(_system_call(234, 131, target["victim"], target["victim"], 0))


def signal_through_pipe(target: Target) -> str:
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, target["victim"])
    os.close(reader)
    os.close(writer)
    return "could"


def open_victim(target: Target) -> str:
    os.close(os.pidfd_open(target["victim"]))
    return "opened"


def trace_victim(target: Target) -> str:
    _call("ptrace", _PTRACE_ATTACH, target["victim"], None, None)
    os.waitpid(target["victim"], 0)
    _call("ptrace", _PTRACE_DETACH, target["victim"], None, None)
    return "attached"


def limit_victim(target: Target) -> str:
    resource.prlimit(target["victim"], resource.RLIMIT_CORE, (0, 0))
    return "limited"


def slow_victim(target: Target) -> str:
    os.setpriority(os.PRIO_PROCESS, target["victim"], 19)
    return "slowed"


def outlive_parent(_: Target) -> str:
    return str(_call("prctl", 1, 0, 0, 0, 0))


# --- privileges and the kernel --------------------------------------------------------------------


def _status(name: str) -> str:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.split()[1]
    raise LookupError(name)


def have_capabilities(_: Target) -> str:
    sets = {name: _status(name) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")}
    return str(sets) if any(int(value, 16) for value in sets.values()) else _fail()


def gain_privileges(_: Target) -> str:
    return "programs with set-user-ID" if _status("NoNewPrivs") == "0" else _fail()


def change_user(_: Target) -> str:
    mine = os.geteuid()
    os.seteuid(65533)
    os.seteuid(mine)
    return "changed"


def make_set_user_id(_: Target) -> str:
    Path("program").touch()
    Path("program").chmod(0o4755)
    return "made"


def create_set_user_id(_: Target) -> str:
    os.close(os.open("program2", os.O_CREAT | os.O_WRONLY, 0o4755))
    return oct(Path("program2").stat().st_mode)


def type_into_terminal(_: Target) -> str:
    fcntl.ioctl(0, _TIOCSCTTY, 0)
    fcntl.ioctl(0, _TIOCSTI, b"x")
    return "typed"


def keep_keys(_: Target) -> str:
    return str(_system_call(248, 217, b"user", b"modelwheel", b"x", 1, -2))


def use_io_uring(_: Target) -> str:
    parameters = ctypes.create_string_buffer(120)
    descriptor = _system_call(425, 425, 1, parameters)
    os.close(descriptor)
    return "opened"


# --- what is left behind --------------------------------------------------------------------------


def leave_link(_: Target) -> str:
    Path("left-link").symlink_to("/etc/passwd")
    return "left"


def leave_hard_link(target: Target) -> str:
    Path("left-hard-link").hardlink_to(target["input"])
    return "left"


def leave_fifo(_: Target) -> str:
    os.mkfifo("left-fifo")
    return "left"


def leave_device(_: Target) -> str:
    os.mknod("left-device", 0o20600, os.makedev(1, 3))
    return "left"


def leave_socket(_: Target) -> str:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("left-socket")
        return "left"


def leave_shared_memory(_: Target) -> str:
    # IPC_PRIVATE, one page, which stays when the process ends.
    number = _call("shmget", 0, mmap.PAGESIZE, 0o600)
    _call("shmctl", number, 0, None)
    return "left"


# --- limits ---------------------------------------------------------------------------------------


def use_memory(target: Target) -> str:
    return str(len(bytearray(2 * target["memory"])))


def use_shared_memory(target: Target) -> str:
    size = 8 * target["memory"] + (32 << 30)
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 0x4000  # without reserving swap
    with mmap.mmap(-1, size, flags=flags) as memory:
        return str(len(memory))


def use_file_in_memory(_: Target) -> str:
    os.close(os.memfd_create("hidden"))
    return "made"


def write_huge_file(target: Target) -> str:
    with Path("huge").open("wb") as file:
        file.seek(target["file"])
        file.write(b"x" * 4096)
    return "written"


def make_namespace(_: Target) -> str:
    # The last one, since root loses its privileges with it.
    return str(_call("unshare", _CLONE_NEWUSER))


ATTACKS: dict[str, Callable[[Target], str]] = {
    name: value
    for name, value in list(globals().items())
    if not name.startswith("_")
    and getattr(value, "__code__", None)
    and value.__module__ == __name__
}


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
