"""Which specs have no release yet, and the tags that release them.

The tags in git say what was released; so do the releases on GitHub, where they are the releases.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import PublishError, SpecError
from ..index.release_list import version_of
from ..spec import Spec
from ..util.processes.process import ProcessError
from ..util.text import one_line
from .changes import WorkingTree
from .selection import find_change, release_tag, require_publishable, require_released_once


@dataclass(frozen=True)
class Due:
    """A spec whose version has no release yet."""

    spec: Path
    name: str
    version: str
    tag: str
    new_project: bool
    """Whether the model has no release of any version."""


def list_due(
    specs: Sequence[Spec],
    published: Collection[str] | None = None,
    is_new: Callable[[Spec], bool] | None = None,
) -> list[Due]:
    """The specs whose versions have no release yet, without those with `publish: false`.

    Args:
        specs: In git checkouts with all tags.
        published: The tags of all releases, if tags alone are none.
        is_new: Whether the index has no project for a spec; by default, whether it has no tag.

    Raises:
        SpecError: A released version has other contents now, or its tag is not in the checkout.
        UsageError: A spec is not in a checkout, or the checkout may lack tags.
    """
    require_released_once(specs)
    known = {spec.path: _tags(spec) for spec in specs}
    if published is not None:
        _require_tags(specs, published)
    return [
        Due(
            spec.path,
            spec.model.name,
            str(spec.model.version),
            release_tag(spec),
            is_new(spec)
            if is_new
            else not _versions(spec, {*known[spec.path], *(published or ())}),
        )
        for spec in specs
        if spec.package.publish
        and release_tag(spec) not in (known[spec.path] if published is None else published)
    ]


def _require_tags(specs: Sequence[Spec], published: Collection[str]) -> None:
    """Refuses what was released from a tag that is not here: nothing could be compared with it."""
    absent = [tag for s in specs if (tag := release_tag(s)) in published and tag not in _tags(s)]
    if absent:
        raise SpecError(
            f"{one_line(absent[0])} is released, but this checkout has no such tag to compare with; run `git fetch --tags`"
        )


def _tags(spec: Spec) -> set[str]:
    return set(WorkingTree.of(spec.directory).git("tag", "--list").text.split())


def _versions(spec: Spec, tags: Collection[str]) -> list[str]:
    return [tag for tag in tags if version_of(tag, spec.model.name) is not None]


def make_tags(specs: Sequence[Spec], remote: str | None = None) -> Iterator[tuple[str, str]]:
    """Tags the current commit for the release of each spec, and pushes the tags one by one.

    GitHub starts no workflow for any of them if more than three arrive in one push. Tags that are there are kept.

    Args:
        specs: The specs.
        remote: Where to push; by default nowhere.

    Yields:
        Each tag, and what was done: `new`, `there already`, or `pushed`.

    Raises:
        SpecError: A spec is not committed as it is, was released with other contents, or has `publish: false`. Then no
            tag is made.
        PublishError: A tag cannot be made or pushed.
        UsageError: A spec is not in a checkout, or the checkout may lack tags.
    """
    require_publishable(specs)
    require_released_once(specs)
    for spec in specs:
        changed = find_change(spec, WorkingTree.of(spec.directory).changes_since("HEAD"))
        if changed is not None:
            raise SpecError(
                f"{spec.path}: {changed} is not committed as it is here; commit and merge it, then tag that commit"
            )
    for spec in specs:
        tree, tag = WorkingTree.of(spec.directory), release_tag(spec)
        done = "there already"
        if tree.find_commit(f"refs/tags/{tag}") is None:
            _run(tree, f"cannot make the tag {tag}", "tag", tag, "HEAD")
            done = "new"
        if remote is not None:
            _run(
                tree,
                f"cannot push the tag {tag} to {remote}",
                "push",
                "--quiet",
                remote,
                f"refs/tags/{tag}",
            )
            done = "pushed"
        yield tag, done


def _run(tree: WorkingTree, failure: str, *arguments: str) -> None:
    try:
        tree.git(*arguments)
    except ProcessError as error:
        lines = error.output.strip().splitlines() or [str(error)]
        raise PublishError(f"{one_line(failure)}: {one_line(lines[0])}") from None
