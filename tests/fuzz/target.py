"""What a fuzzed parser is: valid inputs, how they are changed, and what may come of it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from modelwheel.errors import ModelwheelError
from tests.fuzz.mutate import Mutator, mutate_bytes

ROOT = Path(__file__).parents[2]
SEEDS = Path(__file__).parent / "seeds"
"""Small files that no test can make: a shared library, `int f(int a) { return 3 * a + 1; }`, linked by zig cc; a
function that JAX exported."""

CORPUS = Path(__file__).parent / "corpus"
"""Inputs that once broke a parser, by target; all of them are run in every test."""

_SECONDS = 20
"""For one input in a process of its own."""


@dataclass(frozen=True)
class Target:
    """One parser."""

    run: Callable[[bytes, Path], object]
    """Called with an input and an empty directory."""
    seeds: Callable[[], list[bytes]]
    """Valid inputs, and others that reach far."""
    mutate: Mutator = mutate_bytes
    accepted: tuple[type[Exception], ...] = ()
    """What it may raise in addition to ModelwheelError; its docstring says so."""
    needs: tuple[str, ...] = ()
    """Packages without which it is left out."""
    modules: tuple[str, ...] = ()
    """Its own, imported once for all processes."""
    sentence: bool = False
    """Whether its errors have to be short, and one line."""
    forks: bool = False
    """Whether each input has a process of its own, because a library may crash."""

    @property
    def is_missing(self) -> bool:
        """Whether a package that it needs is not installed."""
        return any(importlib.util.find_spec(name) is None for name in self.needs)

    def prepare(self) -> list[bytes]:
        """Imports what it needs, once for all inputs; returns the valid ones."""
        os.environ.update(
            OPENBLAS_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1"
        )
        for name in (*self.needs, *self.modules):
            importlib.import_module(name)
        return self.seeds()

    def check(self, content: bytes, scratch: Path) -> None:
        """Runs one input.

        Raises:
            Exception: Something that the parser must not raise.
        """
        for _, error in self.check_all([content], scratch):
            raise error

    def check_all(
        self, contents: Sequence[bytes], scratch: Path
    ) -> Iterator[tuple[bytes, Exception]]:
        """Runs inputs; yields those that broke the parser, with the errors."""
        if not (self.forks and sys.platform == "linux"):
            for content in contents:
                try:
                    self._check(content, scratch)
                except Exception as error:  # noqa: BLE001 - that is what is looked for
                    yield content, error
                clear(scratch)
            return
        waiting = list(contents)
        while waiting:
            done, said = self._run_child(waiting, scratch)
            if done == len(waiting):
                return
            yield waiting[done], ChildError(said)
            del waiting[: done + 1]

    def _run_child(self, contents: Sequence[bytes], scratch: Path) -> tuple[int, str]:
        """Runs inputs in a process of their own; the number that ended well, and what became of the next one."""
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                _be_silent()
                for content in contents:
                    signal.alarm(_SECONDS)
                    self._check(content, scratch)
                    clear(scratch)
                    os.write(write, b"\0")
            except BaseException as error:  # noqa: BLE001 - the parent reports it
                os.write(write, _describe(error).encode("utf-8", "replace")[:4000])
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            said = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        clear(scratch)
        text = said.lstrip(b"\0").decode("utf-8", "replace")
        return said.count(b"\0"), text or (f"signal {-code}" if code else "")

    def _check(self, content: bytes, scratch: Path) -> None:
        try:
            with suppress(*self.accepted):
                self.run(content, scratch)
        except ModelwheelError as error:
            if self.sentence and ("\n" in str(error) or len(str(error)) > 2000):
                raise ValueError(f"not one sentence: {error}") from error


class ChildError(Exception):
    """An input ended its process, or failed in it."""


def _describe(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
    return f"{place} {type(error).__name__}: {error}".replace("\0", "?")


def _be_silent() -> None:
    """MLIR and HDF5 write what they refuse to standard error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def in_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """A parser of a file with this name."""

    def run(content: bytes, scratch: Path) -> object:
        path = scratch / name
        path.write_bytes(content)
        return read(path)

    return run


def target_of(path: Path) -> str:
    """The name of the target that an input of the corpus is for."""
    return path.name.rpartition("-")[0]


def clear(scratch: Path) -> None:
    """Empties the directory for the next input."""
    for path in scratch.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
