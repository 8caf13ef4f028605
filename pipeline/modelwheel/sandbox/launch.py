"""Runs between a client and a sandboxed program: applies what the kernel offers, then executes it.

A program of its own, because Python cannot safely run code between fork and exec in a process with
threads; see the warning in the documentation of `subprocess.Popen(preexec_fn=...)`. It imports little,
as it runs before every sandboxed program. With bubblewrap it is already inside.

It reads a request from one pipe, answers `.` or the reason why it cannot do what it is asked on
another, and closes both by executing the program.
"""

from __future__ import annotations

import marshal
import os
import select
import sys

from . import kernel, landlock, rlimits, seccomp
from .messages import READY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .messages import Request


def main() -> None:
    """Serves one request; the last two arguments are the descriptors to read from and to answer to."""
    requests, answers = (int(number) for number in sys.argv[-2:])
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)  # noqa: FBT003
    try:
        _run(_receive(requests), requests, answers)
    except OSError as error:
        os.write(answers, f"{error.strerror or error}".encode())
    except Exception as error:  # noqa: BLE001 - the client reports it
        os.write(answers, f"{type(error).__name__}: {error}".encode())
    os._exit(1)


def _receive(requests: int) -> Request:
    length = int.from_bytes(_read(requests, 8), "little")
    # From the client, which is trusted; marshal is built in and needs no import.
    request: Request = marshal.loads(_read(requests, length))
    return request


def _read(descriptor: int, length: int) -> bytes:
    content = b""
    while len(content) < length:
        part = os.read(descriptor, length - len(content))
        if not part:
            raise EOFError("the client has ended")
        content += part
    return content


def _run(request: Request, requests: int, answers: int) -> None:
    os.chdir(request["directory"])
    if sys.platform == "linux":
        _restrict(request)
    elif request["confined"]:
        rlimits.apply_limits(request["limits"])
    if _is_closed(requests):
        os._exit(1)
    argv = request["argv"]
    os.write(answers, READY)
    os.execv(argv[0], argv)


def _restrict(request: Request) -> None:
    if request["parent"] is not None:
        kernel.end_with_parent(request["parent"])
    if request["confined"]:
        alone = request["limits"]["processes"] == 1
        rlimits.apply_limits(request["limits"])
        restrict(
            request["readable"],
            request["directory"],
            all_processes=not alone,
            pid=os.getpid() if alone else None,
            execute=True,
        )


def restrict(
    readable: list[str], writable: str, *, all_processes: bool, pid: int | None, execute: bool
) -> None:
    """Restricts the calling thread for good: capabilities, files, system calls.

    Args:
        readable: Files and directories in addition to those of the kernel.
        writable: A directory.
        all_processes: Whether it may see other processes.
        pid: This process, if it must stay alone; see `seccomp.build_filter`.
        execute: Whether it may execute programs.
    """
    kernel.no_new_privileges()
    kernel.drop_capabilities()
    readable = [*readable, *landlock.kernel_paths(all_processes=all_processes)]
    landlock.restrict_files(
        readable, [writable, *landlock.WRITABLE_DEVICES], landlock.listed_paths()
    )
    if seccomp.is_available():
        seccomp.apply_filter(seccomp.build_filter(os.uname().machine, pid=pid, execute=execute))


def _is_closed(descriptor: int) -> bool:
    """Whether the client ended before the kernel was told to end this process with it."""
    poll = select.poll()
    poll.register(descriptor, 0)  # the end of a pipe is always reported
    return bool(poll.poll(0))
