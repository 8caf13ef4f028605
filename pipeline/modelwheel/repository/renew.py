"""`modelwheel update`: renews the files that `modelwheel init` wrote, and keeps the repository's changes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ..config import load_config
from ..util.files import write_atomically
from ..util.processes.process import ProcessError, run
from ..util.records import JsonRecord
from ..util.removal import remove
from ..util.unfinished import temporary_directory
from .files import File, files_of
from .record import Record, Written, describe, digest, load, save

State = Literal["same", "new", "renewed", "merged", "kept", "removed", "conflict"]
"""`same`: is up to date; `new`: was written; `renewed`: has the new version's text; `merged`: has it and the
repository's changes; `kept`: the repository removed it; `removed`: this version has no such file; `conflict`: both
changed the same lines, and nothing was written."""

CHANGES: tuple[State, ...] = ("new", "renewed", "merged", "removed")

Choice = Literal["stop", "mine", "new"]
"""What becomes of a file that both have changed."""


class Change(JsonRecord):
    """The change of one file."""

    path: str
    state: State
    difference: str = ""
    """As a unified diff: from the file as it is to what it becomes, or for a conflict to the new version's."""
    text: str | None = None
    """What it becomes; None to leave it or remove it."""


def plan(directory: Path, choice: Choice = "stop") -> tuple[Record, list[Change]]:
    """The changes of the renewed files. Nothing is written.

    Args:
        directory: The repository.
        choice: For files that the repository and the new version have changed in the same lines: leave them,
            keep the repository's text, or take the new version's.

    Raises:
        RepositoryError: `modelwheel init` has not written the repository.
        UsageError: modelwheel.toml has mistakes.
    """
    record = load(directory)
    # The mode of releases is decided in modelwheel.toml, which belongs to the repository.
    answers = record.answers.model_copy(update={"mode": load_config(directory).release.mode})
    record = record.model_copy(update={"answers": answers})
    files = [file for file in files_of(answers) if file.renewed]
    changes = [_change(directory, file, record.files.get(file.path), choice) for file in files]
    names = {file.path for file in files}
    changes += [
        _retire(directory, path, written, choice)
        for path, written in record.files.items()
        if path not in names
    ]
    return record, changes


def apply(directory: Path, record: Record, changes: list[Change]) -> None:
    """Writes what `plan` found, and the record."""
    new = {file.path: describe(file) for file in files_of(record.answers) if file.renewed}
    files: dict[str, Written] = {}
    for change in changes:
        path = directory / change.path
        if change.text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, change.text.encode())
        elif change.state == "removed":
            remove(path)
        # After a conflict the old text stays the one to compare with.
        source: Mapping[str, Written] = record.files if change.state == "conflict" else new
        if change.path in source:
            files[change.path] = source[change.path]
    save(directory, record.answers, files)


def _change(directory: Path, file: File, written: Written | None, choice: Choice) -> Change:
    path = directory / file.path
    current = path.read_bytes().decode("utf-8", errors="replace") if path.is_file() else None
    if current is None:
        if written is not None:
            return Change(path=file.path, state="kept")
        return _becoming(file.path, "new", "", file.text)
    if current == file.text:
        return Change(path=file.path, state="same")
    if written is not None and digest(current) == written.sha256:
        return _becoming(file.path, "renewed", current, file.text)
    if written is not None and digest(file.text) == written.sha256:
        return Change(path=file.path, state="same")  # but for the repository's own changes
    merged = _merge(current, written, file.text)
    if merged is not None:
        state: State = "same" if merged == current else "merged"
        return _becoming(file.path, state, current, merged)
    if choice == "new":
        return _becoming(file.path, "renewed", current, file.text)
    if choice == "mine":
        return Change(path=file.path, state="same")
    difference = _difference(file.path, current, file.text)
    return Change(path=file.path, state="conflict", difference=difference)


def _retire(directory: Path, path: str, written: Written, choice: Choice) -> Change:
    """The change of a file that this version does not write any more."""
    file = directory / path
    if not file.is_file():
        return Change(path=path, state="removed")
    current = file.read_bytes().decode("utf-8", errors="replace")
    if digest(current) != written.sha256 and choice != "new":
        if choice == "mine":
            return Change(path=path, state="same")
        return Change(path=path, state="conflict", difference=_difference(path, current, ""))
    return Change(path=path, state="removed", difference=_difference(path, current, ""))


def _becoming(path: str, state: State, current: str, text: str) -> Change:
    difference = _difference(path, current, text)
    return Change(
        path=path, state=state, difference=difference, text=None if state == "same" else text
    )


def _merge(current: str, written: Written | None, new: str) -> str | None:
    """The new text with the changes that the current one has since it was written; None if they meet."""
    if written is None or written.lines is None:
        return None
    with temporary_directory("update") as directory:
        texts = {"mine": current, "old": "".join(written.lines), "new": new}
        for name, text in texts.items():
            (directory / name).write_bytes(text.encode())
        try:
            command = ["git", "merge-file", "--stdout", "mine", "old", "new"]
            return run(command, cwd=directory).stdout.decode()
        except ProcessError as error:
            if error.returncode is None or not 0 < error.returncode < 128:
                raise
            return None


def _difference(path: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
