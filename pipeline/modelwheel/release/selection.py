"""Selects specs with git: those changed since a commit, or the one that a tag releases.

The tag of a release is `NAME-VERSION`. The commit that it points to is what was released.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path, PurePosixPath

from ..errors import SpecError, UsageError
from ..index.release_list import version_of
from ..spec import DirectorySource, Spec, load_spec
from ..spec.tune_lock import lock_path
from ..util.unfinished import temporary_directory
from .changes import Changes, WorkingTree


def release_tag(spec: Spec) -> str:
    """The name of this version's tag (`digits-1.0.0`)."""
    return f"{spec.model.name}-{spec.model.version}"


def require_publishable(specs: Sequence[Spec]) -> None:
    """Refuses to begin the release of what must not be released.

    Raises:
        SpecError: A spec has `publish: false`.
    """
    for spec in specs:
        if not spec.package.publish:
            raise SpecError(
                f"{spec.path} has `publish: false` in section `package`, so it has no release; remove that line to release it",
                code="MW114",
            )


def select_changed(specs: Sequence[Spec], revision: str) -> list[Spec]:
    """The specs that changed, or whose files changed, since this branch left another one.

    Args:
        specs: All specs, in git checkouts.
        revision: A commit, branch or tag.

    Raises:
        UsageError: A spec is not in a checkout, or the revision does not exist.
    """

    @cache
    def changes(directory: Path) -> Changes:
        return WorkingTree.of(directory).changes_since_fork(revision)

    return [
        spec
        for spec in specs
        if any(changes(spec.directory).find(path) for path in companions(spec))
    ]


def select_shard(specs: Sequence[Spec], shard: str) -> list[Spec]:
    """The K-th of N parts, for the shard `K/N`; each spec is in one part, and parts differ by one spec at most.

    Raises:
        UsageError: It is not a shard.
    """
    match = re.fullmatch(r"(\d{1,9})/([1-9]\d{0,3})", shard)
    if match is None:
        raise UsageError(f"--shard: {shard!r} is not K/N, such as 1/4", code="MW207")
    turn, parts = int(match[1]), int(match[2])
    ordered = sorted(specs, key=lambda spec: spec.model.name)
    return ordered[(turn - 1) % parts :: parts]


def select_tagged(specs: Sequence[Spec], tag: str) -> Spec:
    """The spec that a tag releases.

    Raises:
        SpecError: No spec has this name, or it has another version.
    """
    for spec in specs:
        if release_tag(spec) == tag:
            return spec
    for spec in specs:
        if version_of(tag, spec.model.name) is not None:
            raise SpecError(
                f"{spec.path} has version {spec.model.version}, but the tag is {tag!r}; "
                f"change the spec, or use the tag {release_tag(spec)!r}",
                code="MW114",
            )
    raise SpecError(
        f"the tag {tag!r} matches none of these specs; tags have the form NAME-VERSION, such as "
        f"{release_tag(specs[0])!r}",
        code="MW114",
    )


def require_released_once(specs: Sequence[Spec]) -> None:
    """Refuses specs that differ from the ones released under their tags.

    An index never changes the files of a version, so a changed model needs a new version. Comments
    and layout of a spec may change.

    Raises:
        SpecError: Names all such specs, with a sentence for each.
        UsageError: A spec is not in a checkout, or the checkout may lack tags.
    """
    mistakes = [sentence for spec in specs if (sentence := _find_change_since_release(spec))]
    if mistakes:
        raise SpecError("\n".join(mistakes), code="MW114")


def require_on_branch(specs: Sequence[Spec], branch: str, tag: str | None = None) -> None:
    """Refuses to release what is not on a branch, or has changed there since.

    Args:
        specs: The specs to release, in the checkout of the release; without any, the current directory is
            the checkout.
        branch: In full (`refs/remotes/origin/main`): a tag may have the short name of a branch, and git
            would prefer it.
        tag: If given, the tag that is released.

    Raises:
        SpecError: The commit is not on the branch or not the tag's, or a spec differs from the branch's.
        UsageError: There is no such branch, or no checkout.
    """
    if not branch.startswith("refs/"):
        raise UsageError(
            f"--on-branch needs the full name of a branch, such as refs/remotes/origin/main, not {branch!r}",
            code="MW207",
        )
    for directory in dict.fromkeys([spec.directory for spec in specs] or [Path()]):
        _require_commit_on(WorkingTree.of(directory), branch, tag)
    mistakes = []
    for spec in specs:
        tree = WorkingTree.of(spec.directory)
        file = find_change(spec, tree.changes_since(_require_commit(tree, branch)))
        if file is not None:
            mistakes.append(
                f"{spec.path}: {file} differs from that on {branch}; release what is there now"
            )
    if mistakes:
        raise SpecError("\n".join(mistakes), code="MW114")


def _require_commit_on(tree: WorkingTree, branch: str, tag: str | None) -> None:
    """Refuses a checkout whose commit is not on a branch, or not the tag's."""
    head, tip = _require_commit(tree, "HEAD"), _require_commit(tree, branch)
    if tag and tree.find_commit(f"refs/tags/{tag}") != head:
        raise SpecError(
            f"{head} is checked out in {tree.root}, but that is not what {tag!r} tags", code="MW114"
        )
    if not tree.is_ancestor(head, tip):
        raise SpecError(
            f"{head} is not on {branch}, and only merged commits are released. Merge it, then tag the commit "
            "on the branch",
            code="MW114",
        )


def _require_commit(tree: WorkingTree, revision: str) -> str:
    commit = tree.find_commit(revision)
    if commit is None:
        raise UsageError(
            f"{tree.root} has no {revision}; fetch it, or pass another one", code="MW207"
        )
    return commit


def companions(spec: Spec) -> Iterator[Path]:
    """The spec file, and every local file or directory that the wheel is made from."""
    yield spec.path
    yield lock_path(spec.path)
    for name in spec.package.license_files:
        yield spec.directory / name
    if spec.source is None:
        yield spec.directory / spec.model.saved_model
    # Other sources are not files here: the spec pins them by a commit or a hash.
    elif isinstance(spec.source, DirectorySource):
        source = spec.source.resolve(spec.directory)
        yield source.location
        yield from (source.root / extra.path for extra in source.extras)


def _find_change_since_release(spec: Spec) -> str | None:
    tree = WorkingTree.of(spec.directory)
    tag = release_tag(spec)
    # In full: a branch may have the same name.
    commit = tree.find_commit(f"refs/tags/{tag}")
    if commit is None:
        if tree.is_shallow():
            raise UsageError(
                f"{tree.root} is a shallow clone, which may lack the tag {tag!r}; "
                "run `git fetch --unshallow --tags` first",
                code="MW207",
            )
        return None
    file = find_change(spec, tree.changes_since(commit))
    if file is None:
        return None
    return (
        f"{spec.path}: {file} differs from the one released under the tag {tag!r}; a released "
        f"version never changes: raise model.version ({spec.model.version})"
    )


def find_change(spec: Spec, changes: Changes) -> PurePosixPath | None:
    """The first file of a spec that has changed in more than a spec's comments and layout."""
    for path in companions(spec):
        for file in changes.find(path):
            if path != spec.path or not _says_the_same(spec, changes, file):
                return file
    return None


def _says_the_same(spec: Spec, changes: Changes, file: PurePosixPath) -> bool:
    """Whether a spec file differs from the one in the commit in comments and layout only."""
    content = changes.read_old(file)
    if content is None:
        return False
    with temporary_directory("spec") as directory:
        old = directory / file.name
        old.write_bytes(content)
        try:
            # Without files: those of the commit are not beside this copy.
            return load_spec(old, with_files=False).spec_digest() == spec.spec_digest()
        except SpecError:  # written for an older modelwheel
            return False
