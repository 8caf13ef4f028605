"""What a hostile program tries with processes, the kernel and memory; see `tests.support.attacker`."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import socket
import subprocess
from pathlib import Path

from tests.support.attacker_calls import Target, attacks_of, call, fail, status, system_call

_TIOCSCTTY, _TIOCSTI = 0x540E, 0x5412
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17
_CLONE_NEWUSER = 0x10000000

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
    return str(system_call(234, 131, target["victim"], target["victim"], 0))


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
    call("ptrace", _PTRACE_ATTACH, target["victim"], None, None)
    os.waitpid(target["victim"], 0)
    call("ptrace", _PTRACE_DETACH, target["victim"], None, None)
    return "attached"


def limit_victim(target: Target) -> str:
    resource.prlimit(target["victim"], resource.RLIMIT_CORE, (0, 0))
    return "limited"


def slow_victim(target: Target) -> str:
    os.setpriority(os.PRIO_PROCESS, target["victim"], 19)
    return "slowed"


def outlive_parent(_: Target) -> str:
    return str(call("prctl", 1, 0, 0, 0, 0))


# --- privileges and the kernel --------------------------------------------------------------------


def have_capabilities(_: Target) -> str:
    sets = {name: status(name) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")}
    return str(sets) if any(int(value, 16) for value in sets.values()) else fail()


def gain_privileges(_: Target) -> str:
    return "programs with set-user-ID" if status("NoNewPrivs") == "0" else fail()


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
    return str(system_call(248, 217, b"user", b"modelwheel", b"x", 1, -2))


def use_io_uring(_: Target) -> str:
    parameters = ctypes.create_string_buffer(120)
    descriptor = system_call(425, 425, 1, parameters)
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
    number = call("shmget", 0, mmap.PAGESIZE, 0o600)
    call("shmctl", number, 0, None)
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
    return str(call("unshare", _CLONE_NEWUSER))


ATTACKS = attacks_of(globals())
