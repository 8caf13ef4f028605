"""Facts about this machine that keys ask for again and again; each is looked up again when it may have changed.

With hundreds of specs in one command, compilers would be started and installed packages listed thousands of times.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import metadata
from typing import Generic, TypeVar, cast

_T = TypeVar("_T")

Mark = tuple[tuple[int, int, int, int] | None, ...]
"""Changes when one of some files or directories is written to, replaced, made or removed."""


_moment: ContextVar[dict[object, dict[Hashable, object]] | None] = ContextVar(
    "moment", default=None
)
"""The answers of `one_moment`, by the `Remembered` and the question."""


@contextmanager
def one_moment() -> Iterator[None]:
    """Within it, this thread looks at each fact once: a plan of many specs says what is true at one time."""
    token = _moment.set({})
    try:
        yield
    finally:
        _moment.reset(token)


class Remembered(Generic[_T]):
    """Answers by question, each with the mark of what it depends on; threads may ask at once."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[Hashable, _T]] = {}

    def get(self, question: Hashable, mark: Callable[[], Hashable], look: Callable[[], _T]) -> _T:
        """The answer of `look`, which is called only if it was not, or if `mark` returned something else then.

        `mark` is called before `look`: a change meanwhile outdates the answer.
        """
        moment = _moment.get()
        if moment is None:
            return self._get(question, mark(), look)
        answers = moment.setdefault(self, {})
        if question not in answers:
            answers[question] = self._get(question, mark(), look)
        return cast("_T", answers[question])

    def _get(self, question: Hashable, mark: Hashable, look: Callable[[], _T]) -> _T:
        known = self._answers.get(question)
        if known is not None and known[0] == mark:
            return known[1]
        answer = look()
        self._answers[question] = mark, answer
        return answer


def mark_of(paths: Iterable[str]) -> Mark:
    """The mark of some files and directories; of a directory, without what is in its files."""
    marks: list[tuple[int, int, int, int] | None] = []
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 - hundreds of files for each model
        except OSError:
            marks.append(None)
        else:
            marks.append((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return tuple(marks)


def programs_mark(command: Iterable[str]) -> Mark:
    """The mark of the programs among the words of a command: a compiler, or a launcher and its compiler."""
    return mark_of(filter(None, map(shutil.which, command)))


def installed_version(name: str) -> str:
    """The version of an installed distribution.

    Raises:
        PackageNotFoundError: It is not installed.
    """
    return _versions.get(name, packages_mark, lambda: metadata.version(name))


def packages_mark() -> Hashable:
    """Changes when a distribution is installed, removed or exchanged for another version."""
    # A distribution is a directory or a file of its own beside the packages; `importlib.metadata` relies on this, too.
    return tuple(sys.path), mark_of(path or "." for path in sys.path)


_versions: Remembered[str] = Remembered()
