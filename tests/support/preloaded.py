"""Runs the command `modelwheel` in forks of one process that has its modules loaded already.

Starting Python and importing Typer, pydantic and Rich takes half a second, a fork some milliseconds; hundreds of tests
run commands. Each still runs in a process of its own, with its own environment, directory and files. The server is a
process without threads, since forks of processes with threads, such as pytest's workers, may deadlock.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

AVAILABLE = hasattr(os, "fork") and hasattr(socket, "send_fds")

_REQUEST = 1 << 20


def run(
    arguments: Sequence[str], environment: Mapping[str, str], umask: int
) -> tuple[int, str, str]:
    """Runs a command; returns its exit code and what it printed."""
    request = {"arguments": list(arguments), "environment": dict(environment), "umask": umask}
    message = json.dumps({**request, "directory": str(Path.cwd())}).encode()
    assert len(message) < _REQUEST
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        server = _server()
        socket.send_fds(server, [message], [out.fileno(), err.fileno()])
        code = int(server.recv(16))
        for file in (out, err):
            file.seek(0)
        return code, out.read().decode(), err.read().decode()


@cache
def _server() -> socket.socket:
    """The connection to this process's server, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    call = f"from tests.support.preloaded import serve; serve({theirs.fileno()})"
    process = subprocess.Popen(
        [sys.executable, "-c", call],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        cwd=Path(__file__).parents[2],  # where `tests` can be imported, whatever the test is in
    )
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)  # called first: the server ends when nobody can ask it any more
    return ours


def serve(descriptor: int) -> None:
    """Answers requests until the other end is closed."""
    # What most commands import, and what prints help and tables.

    import modelwheel.cli
    import modelwheel.cli.display.tables
    import modelwheel.engine.plan  # noqa: F401

    connection = socket.socket(fileno=descriptor)
    while True:
        message, files, _, _ = socket.recv_fds(connection, _REQUEST, 2)
        if not message:
            return
        child = os.fork()
        if child == 0:
            connection.close()
            _become(json.loads(message), files)
        for file in files:
            os.close(file)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.send(str(code).encode())


def _become(request: dict[str, object], files: Sequence[int]) -> None:
    """Turns this process into one that `python -m modelwheel` would have been; does not return."""
    code = 1
    try:
        for source, target in zip(files, (1, 2), strict=True):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(request["environment"])  # type: ignore[call-overload]
        os.chdir(str(request["directory"]))
        if request["umask"] != -1:
            os.umask(int(str(request["umask"])))
        sys.argv = ["modelwheel", *request["arguments"]]  # type: ignore[misc]
        modelwheel = sys.modules["modelwheel.cli"]
        try:
            modelwheel.main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 - as Python itself would report it
            sys.excepthook(*sys.exc_info())
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
