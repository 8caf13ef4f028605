"""`modelwheel init`: writes the files of a repository of models."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ..config import Index, Mode, ReleaseRules
from ..errors import RepositoryError, UsageError
from ..util.files import find_checkout, write_atomically
from ..util.processes.process import ProcessError, run
from ..util.records import JsonRecord
from ..util.words import count
from .files import Answers, File, Service, files_of
from .record import RECORD, describe, save

_GITHUB = re.compile(r"(?:https://|ssh://git@|git@)github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?")


class Begun(JsonRecord):
    """The outcome of `modelwheel init`."""

    directory: Path
    written: tuple[str, ...]
    """New files, by path."""
    overwritten: tuple[str, ...]
    """Files that had other content."""
    unchanged: tuple[str, ...]
    """Files that had this content already."""


def answer(
    directory: Path, services: Sequence[Service], mode: Mode, slug: str | None, site: str | None
) -> Answers:
    """The answers that the files depend on: as given, else from git where the directory is a checkout.

    Args:
        directory: The repository; it need not exist.
        services: Whose pipelines check and release.
        mode: Where releases go.
        slug: `OWNER/REPOSITORY` on GitHub; by default from the remote `origin`.
        site: The address of the static index; by default that of GitHub Pages.

    Raises:
        UsageError: `slug` or `site` is something else.
    """
    _require("--repository", ReleaseRules, {"repository": slug})
    _require("--site-url", Index, {"site": site})
    here = directory.absolute()
    slug = slug or _find_slug(here)
    owner, _, name = slug.partition("/")
    if not site and slug and "github" in services:
        site = f"https://{owner.lower()}.github.io/{name}/simple/"
    return Answers(
        title=name or here.resolve().name,
        services=tuple(services),
        mode=mode,
        slug=slug,
        site=site or "",
        branch=_git(here, "symbolic-ref", "--short", "HEAD") or "main",
    )


def _require(option: str, section: type[BaseModel], values: Mapping[str, str | None]) -> None:
    """Refuses an option whose value modelwheel.toml could not have."""
    try:
        section.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{option}: {error.errors()[0]['msg']}") from None


def begin(directory: Path, answers: Answers, *, force: bool = False) -> Begun:
    """Writes all files and the record.

    Args:
        directory: The repository; created if missing.
        answers: What the files depend on.
        force: Whether to overwrite files that have other content.

    Raises:
        RepositoryError: A file has other content; nothing is written.
    """
    files = files_of(answers)
    there = {file.path: _read(directory / file.path) for file in files}
    other = [file for file in files if there[file.path] not in (None, file.text)]
    if other and not force:
        raise RepositoryError(_refusal(directory, other))
    for file in files:
        if there[file.path] != file.text:
            path = directory / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, file.text.encode())
    save(directory, answers, {file.path: describe(file) for file in files if file.renewed})
    return Begun(
        directory=directory,
        written=(*(f.path for f in files if there[f.path] is None), RECORD),
        overwritten=tuple(file.path for file in other),
        unchanged=tuple(file.path for file in files if there[file.path] == file.text),
    )


def _refusal(directory: Path, other: Sequence[File]) -> str:
    names = ", ".join(str(directory / file.path) for file in other)
    renew = "renew with `modelwheel update`, " if (directory / RECORD).is_file() else ""
    return (
        f"{count(len(other), 'file')} would be overwritten, and nothing was written: {names}; {renew}move what is yours "
        "away, or overwrite it with --force"
    )


def _read(path: Path) -> str | None:
    """The text of a file with its line ends; None if there is none. Anything else is no text of ours."""
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except (IsADirectoryError, NotADirectoryError, PermissionError):
        return ""


def _find_slug(directory: Path) -> str:
    """`OWNER/REPOSITORY` of the remote `origin`, if that is on GitHub; else empty."""
    match = _GITHUB.fullmatch(_git(directory, "remote", "get-url", "origin"))
    return match[1] if match else ""


def _git(directory: Path, *arguments: str) -> str:
    """The output of git in the checkout that a directory is in; empty if it is in none."""
    checkout = find_checkout(directory)
    if checkout is None:
        return ""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return run(["git", *arguments], cwd=checkout, env=environment).text.strip()
    except ProcessError:
        return ""
