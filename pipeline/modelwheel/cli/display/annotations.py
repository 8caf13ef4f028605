"""Annotations of a pull request: GitHub shows what a workflow prints as `::error file=F,line=L,col=C::message` at that line.

They need no permission, so pull requests from forks have them too. GitHub shows ten errors and ten warnings of a step.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...spec.reading.problems import InvalidSpecsError
from ...util.files import find_checkout
from ...util.text import one_line, safe_lines
from ...util.words import shorten
from ..output import say_command, say_error

if TYPE_CHECKING:  # types alone: commands that build nothing should not wait for these
    from ...engine.build import BuildResult
    from ...engine.check_models import CheckedModel
    from ...model.findings import Finding

Severity: TypeAlias = Literal["error", "warning", "notice"]

_MOST = 50
"""GitHub keeps as many for a job; specs of others may have thousands of mistakes."""

_LONGEST = 1000
"""Characters of a line of a message; the log has the rest."""

_PLACE = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+)(:(?P<column>\d+))?: (?P<message>.+)")
"""How messages begin that name a place in a file."""


@dataclass(frozen=True)
class Annotation:
    """One message for one place; without a file it is shown on the page of the run."""

    severity: Severity
    message: str
    """It may have several lines."""
    title: str = "modelwheel"
    file: Path | None = None
    line: int | None = None
    column: int | None = None

    def command(self) -> str:
        """The line that GitHub reads."""
        place = {
            "file": None if self.file is None else one_line(_in_checkout(self.file)),
            "line": self.line,
            "col": self.column,
            "title": one_line(self.title),
        }
        properties = [
            f"{name}={_property(value)}" for name, value in place.items() if value is not None
        ]
        text = "\n".join(shorten(line, _LONGEST) for line in safe_lines(self.message).splitlines())
        return f"::{self.severity} {','.join(properties)}::{_data(text)}"


def are_wanted() -> bool:
    """Whether this is a step of a workflow of GitHub."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def annotate(annotations: Iterable[Annotation]) -> None:
    """Prints annotations, each once, if this is a step of a workflow."""
    if are_wanted():
        commands = dict.fromkeys(annotation.command() for annotation in annotations)
        for command in list(commands)[:_MOST]:
            say_command(command)


def report_error(error: object) -> None:
    """Prints an error for people and, in a workflow, its annotations."""
    say_error(error)
    annotate(of_error(error))


def of_error(error: object, file: Path | None = None) -> Iterator[Annotation]:
    """An error, at the places that it names.

    Args:
        error: An error or its text. Each mistake of a spec is an annotation, and so is each line of another text that
            begins with a place; all other lines are one.
        file: The file that the others are about.
    """
    if isinstance(error, InvalidSpecsError):
        for problem in error.problems:
            yield Annotation("error", problem.sentence(), "spec", problem.file, *problem.position)
        return
    others = []
    for text in str(error).splitlines():
        placed = _placed(text, "error")
        if placed is None:
            others.append(text)
        else:
            yield placed
    if others:
        line = None if file is None else 1
        yield Annotation("error", "\n".join(others), file=file, line=line)


def of_checked(models: Iterable[CheckedModel]) -> Iterator[Annotation]:
    """The errors, warnings and notes of models that were checked."""
    for model in models:
        if model.error is not None:
            yield from of_error(model.error, model.path)
        yield from of_findings(model.name, model.findings, model.path)


def of_builds(results: Iterable[BuildResult]) -> Iterator[Annotation]:
    """Why specs were not built."""
    for result in results:
        for message, _ in result.failures():
            yield from of_error(message, result.request.spec.path)


def of_findings(
    name: str, findings: Iterable[Finding], file: Path | None = None
) -> Iterator[Annotation]:
    """The findings of a check of the model `name`, at the fields that they are about, else at the top of `file`."""
    for finding in findings:
        severity: Severity = "notice" if finding.severity == "note" else finding.severity
        placed = _placed(str(finding), severity, name) if finding.place else None
        line = None if file is None else 1
        yield placed or Annotation(severity, str(finding), name, file=file, line=line)


def _placed(text: str, severity: Severity, title: str = "modelwheel") -> Annotation | None:
    match = _PLACE.fullmatch(text)
    if match is None or not Path(match["file"]).is_file():
        return None
    column = None if match["column"] is None else int(match["column"])
    return Annotation(
        severity, match["message"], title, Path(match["file"]), int(match["line"]), column
    )


def _in_checkout(file: Path) -> str:
    """The path as the repository has it, from wherever the command runs; with forward slashes."""
    whole = Path(os.path.abspath(file))  # noqa: PTH100 - a link in the repository keeps its name
    root = find_checkout(whole.parent)
    return (whole.relative_to(root) if root else file).as_posix()


def _data(text: object) -> str:
    return str(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
