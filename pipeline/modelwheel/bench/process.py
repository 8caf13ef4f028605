"""The processes of the sides, in the sandbox: started, asked line by line, ended."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..errors import VerifyError
from ..sandbox.choose import Sandbox
from ..sandbox.policy import Access, environment
from ..util.processes.groups import kill_group
from ..util.text import one_line

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE = 600.0
"""Seconds that an answer may take: compiling a large model, or a round of calls."""
_FILE_BYTES = 4 << 30
"""The largest file that a side may write: the outputs for all rows."""
_SAID = 400
"""Characters of an error that are shown."""


SIDE, SAMPLES = (Path(__file__).with_name(name) for name in ("side.py", "samples.py"))
"""The programs of this room."""


class SideError(VerifyError):
    """A side failed; the message is what it said."""


@dataclass(frozen=True)
class Program:
    """A program to start: an interpreter, one of its programs, and the files that it may read."""

    interpreter: Path
    script: Path
    arguments: Sequence[str | Path]
    read: tuple[Path, ...]
    variables: Mapping[str, str]


def start(
    program: Program, sandbox: Sandbox, directory: Path, *, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Starts a program; `directory` is what it may write, and its working directory."""
    directory.mkdir(parents=True)
    argv = [program.interpreter, "-I", "-B", program.script, *program.arguments]
    access = Access((program.script, *program.read), directory)
    limits = replace(sandbox.limits, processes=1, file_bytes=_FILE_BYTES)
    with (directory.parent / f"{directory.name}.log").open("wb") as log:
        return sandbox.start(
            argv,
            access,
            limits,
            environment(program.variables),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=log,
        )


def end_of_log(directory: Path) -> str:
    """The last line that a program wrote: of an error in Python, what it is."""
    with suppress(OSError):
        text = directory.with_name(f"{directory.name}.log").read_text("utf-8", errors="replace")
        return one_line(text.strip().rpartition("\n")[2])[:_SAID]
    return ""


class SideProcess:
    """A running side.

    Args:
        program: `side.py` with its arguments.
        sandbox: Where it runs.
        directory: Where it writes outputs; made here.

    Raises:
        SideError: It cannot load its model.
    """

    def __init__(self, program: Program, sandbox: Sandbox, directory: Path) -> None:
        self.directory = directory
        self._process = start(program, sandbox, directory, stdin=subprocess.PIPE)
        try:
            self.opened: dict[str, Any] = self._answer()
        except BaseException:
            self.close()
            raise

    def ask(self, name: str, *numbers: int) -> Any:
        """The answer to a request.

        Raises:
            SideError: It failed, or its process ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{json.dumps([name, *numbers])}\n".encode())
            self._process.stdin.flush()
        except OSError:
            raise SideError(self._ended()) from None
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        timer = threading.Timer(PATIENCE, kill_group, (self._process,))
        timer.start()
        try:
            line = self._process.stdout.readline(1 << 20)
        finally:
            timer.cancel()
        try:
            answer = json.loads(line)
        except ValueError:
            raise SideError(self._ended()) from None
        if isinstance(answer, dict) and "error" in answer:
            raise SideError(one_line(answer["error"])[:_SAID])
        return answer

    def _ended(self) -> str:
        log = end_of_log(self.directory)
        return f"its process ended: {log}" if log else "its process ended"

    def close(self) -> None:
        """Ends the process."""
        kill_group(self._process)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
