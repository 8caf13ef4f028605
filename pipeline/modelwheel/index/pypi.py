"""The rules of PyPI beyond those of every index: see its documentation of trusted publishers and of storage limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twine import repository, utils

from ..util.words import count, first_few

MAX_BYTES = 100 << 20
"""Of a file, unless a project was granted more."""
MAX_PROJECT_BYTES = 10 << 30
"""Of all files of a project, likewise."""
PENDING = 3
"""Pending publishers that an account may have at a time."""
NEW_A_DAY = 4
"""New projects for a user, and for an address, in 24 hours."""

UPLOAD_URL = utils.DEFAULT_REPOSITORY


def is_pypi(repository_url: str) -> bool:
    """Whether files are posted to PyPI or to its test instance."""
    own = (repository.WAREHOUSE, utils.TEST_REPOSITORY)
    return repository_url.startswith(own)


def warn_of_new_names(names: Sequence[str]) -> Iterator[str]:
    """The tasks before projects that PyPI does not have yet can be published, a sentence for each.

    Args:
        names: Of the new projects.
    """
    if not names:
        return
    shown = first_few(names, 4)
    yield (
        f"new on PyPI: {shown}. A workflow can only create a project that has a pending publisher: add it in the "
        f"settings of an account on PyPI, under Publishing, before; an account may have {PENDING} of them at a time"
    )
    if len(names) > 1:
        yield (
            f"{count(len(names), 'new name')}: PyPI keeps one pending publisher for each (owner, repository, workflow, "
            "environment), so add one, publish that model, and only then the next"
        )
    if len(names) > NEW_A_DAY:
        yield (
            f"{count(len(names), 'new name')}: PyPI creates {NEW_A_DAY} projects a day for a user; spread them over "
            f"{count(-(-len(names) // NEW_A_DAY), 'day')}, or use the mode `github`"
        )
