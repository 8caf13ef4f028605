"""This project's models have the workflows that `modelwheel init` writes: `python -m tests.support.own_workflows` writes them.

They call the reusable workflows beside them in place of those of a released version.
"""

from __future__ import annotations

from collections.abc import Iterator

from modelwheel.repository.files import File, workflows
from tests.support.workflows import ROOT

_WORDS = {
    "workflows": "./.github/workflows",
    "actions": "./.github/actions",
    "at": "",
    "branch": "main",
}


def own_workflows() -> Iterator[File]:
    """The files, as they should be."""
    return workflows("github", _WORDS)


def main() -> None:
    """Writes all files."""
    for file in own_workflows():
        (ROOT / file.path).write_text(file.text, encoding="utf-8")


if __name__ == "__main__":
    main()
