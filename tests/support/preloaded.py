"""Runs the command `modelwheel`, or modules that use TensorFlow, in forks of one process that has imported it already.

Starting Python and importing Typer, pydantic and Rich takes half a second, TensorFlow five, a fork some milliseconds;
hundreds of tests run commands. Each still runs in a process of its own, with its own environment, directory and files. The
server is a process of its own, since forks of processes with threads, such as pytest's workers, may deadlock.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from modelwheel.workers.client import FORKS
from tests.support.kept_worker import KeptWorker

AVAILABLE = hasattr(os, "fork") and hasattr(socket, "send_fds")

_REQUEST = 1 << 20


TENSORFLOW = {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
"""Variables that TensorFlow reads when it is imported."""


def run(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    umask: int = -1,
    directory: Path | None = None,
) -> tuple[int, str, str]:
    """Runs a program; returns its exit code and what it printed.

    Args:
        program: `modelwheel`, or `module`: one that uses TensorFlow.
        arguments: Of the command; the name of the module and its arguments.
        environment: All variables.
        umask: By default that of this process's server.
        directory: Where it runs, by default here.
    """
    request = {"arguments": list(arguments), "environment": dict(environment), "umask": umask}
    message = json.dumps({**request, "directory": str(directory or Path.cwd())}).encode()
    assert len(message) < _REQUEST
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        server = _server(program)
        socket.send_fds(server, [message], [out.fileno(), err.fileno()])
        code = int(server.recv(16))
        for file in (out, err):
            file.seek(0)
        return code, out.read().decode(), err.read().decode()


@cache
def _server(program: str) -> socket.socket:
    """The connection to this process's server of a program, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    call = f"from tests.support.preloaded import serve; serve({program!r}, {theirs.fileno()})"
    process = subprocess.Popen(
        [sys.executable, "-c", call],
        env={**os.environ, **TENSORFLOW},
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        cwd=Path(__file__).parents[2],  # where `tests` can be imported, whatever the test is in
    )
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)  # called first: the server ends when nobody can ask it any more
    return ours


def _load_command() -> Callable[[list[str]], None]:
    """Imports what most commands need, and what prints help and tables."""
    import modelwheel.cli
    import modelwheel.cli.display.tables
    import modelwheel.engine.planning.plan

    def call(arguments: list[str]) -> None:
        sys.argv = ["modelwheel", *arguments]
        modelwheel.cli.main()

    return call


def _load_tensorflow() -> Callable[[list[str]], None]:
    """Imports TensorFlow."""
    # Keras imports them where they are installed, which takes as long as TensorFlow does.
    sys.modules.update(dict.fromkeys(("matplotlib", "sklearn")))  # type: ignore[arg-type]
    import tensorflow as tf  # noqa: F401

    def call(arguments: list[str]) -> None:
        sys.argv = arguments
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)

    return call


def serve(program: str, descriptor: int) -> None:
    """Answers requests until the other end is closed."""
    call = {"modelwheel": _load_command, "module": _load_tensorflow}[program]()
    connection = socket.socket(fileno=descriptor)
    worker = KeptWorker() if program == "modelwheel" and FORKS else None
    while True:
        if worker is not None:
            worker.renew()
        message, files, _, _ = socket.recv_fds(connection, _REQUEST, 2)
        if not message:
            return
        child = os.fork()
        if child == 0:
            connection.close()
            if worker is not None:
                worker.lend()
            _become(call, json.loads(message), files)
        for file in files:
            os.close(file)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.send(str(code).encode())


def _become(
    call: Callable[[list[str]], None], request: dict[str, Any], files: Sequence[int]
) -> None:
    """Turns this process into one that the program would have been; does not return."""
    code = 1
    try:
        for source, target in zip(files, (1, 2), strict=True):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["directory"])
        if request["umask"] != -1:
            os.umask(request["umask"])
        try:
            call(request["arguments"])
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
