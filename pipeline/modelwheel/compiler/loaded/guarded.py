"""Makes one sentence of what readers and parsers raise about a damaged file: the only place for all formats."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import ModelwheelError, UnsupportedModelError
from ...model.inspection import SignatureInfo
from ...model.messages import cause_of
from ...model.readings import Reading
from ...spec.formats import FORMATS
from ...util.text import one_line, shorten_words
from ...workers.endings import is_about_memory

if TYPE_CHECKING:
    from .base import Arrays, LoadedModel, SignatureGraph, StaticShapes

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_SHOWN = 300
"""Characters of a cause: it may quote the file."""


@contextmanager
def reading_errors(reading: Reading, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turns whatever a reader raises into a sentence about the file.

    What the file is not to blame for goes through: memory that ran out, and a full disk.

    Args:
        reading: Has the name and the format of the file.
        passing: Other errors that go through.

    Raises:
        UnsupportedModelError: Something inside raised an unexpected error.
    """
    let_through: tuple[type[Exception], ...] = (MemoryError, *passing)
    try:
        yield
    except let_through:
        raise
    except ModelwheelError as error:
        text = shorten_words(one_line(error))
        if text == str(error):
            raise
        raise type(error)(text) from error
    except Exception as error:
        if _is_of_machine(error):
            raise
        raise UnsupportedModelError(damage(reading, error)) from error


def damage(reading: Reading, error: Exception) -> str:
    """The sentence about a file with which its reader failed."""
    row, file = FORMATS[reading.format], getattr(reading, "file", "")
    name = one_line(file) if file else f"the {row.title}"
    return (
        f"{name} is damaged, or not {row.article} {row.title} model that modelwheel reads ({reason_of(error)}); save, "
        "export or fetch it again, and report it if its own framework loads it"
    )


def reason_of(error: Exception) -> str:
    """Why a reader failed, in a few words."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, KeyError):  # its text is the key alone
        return f"{one_line(str(error))[:_SHOWN]} is missing or unknown"
    message = one_line(cause_of(str(error)))[:_SHOWN]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _is_of_machine(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        return True
    words = str(error)
    return is_about_memory(words) or any(os.strerror(code) in words for code in _DISK_FULL)


@dataclass(frozen=True)
class GuardedModel:
    """A loaded model whose errors are sentences."""

    loaded: LoadedModel
    reading: Reading

    @property
    def info(self) -> SignatureInfo:
        """See `LoadedModel`."""
        return self.loaded.info

    @property
    def evaluator(self) -> str:
        """See `LoadedModel`."""
        with reading_errors(self.reading):
            return self.loaded.evaluator

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`; an error of another kind becomes a ValueError, which callers explain by the inputs."""
        from tensorflow import errors

        try:
            return self.loaded(inputs)
        except (ModelwheelError, MemoryError, ValueError, errors.OpError):
            raise
        except Exception as error:
            if _is_of_machine(error):
                raise
            raise ValueError(reason_of(error)) from error

    def graph(self, shapes: StaticShapes, keep: Collection[str] = ()) -> SignatureGraph:
        """See `LoadedModel`."""
        from tensorflow import errors

        with reading_errors(self.reading, (errors.OpError,)):
            return self.loaded.graph(shapes, keep)
