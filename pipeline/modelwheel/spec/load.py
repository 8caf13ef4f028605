"""Reads specs, one file or many, and reports every mistake of all of them in one error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from .explain import explain
from .model import Spec
from .reading.document import Document
from .reading.problems import Problem, spec_error
from .reading.read import read_document


def load_spec(path: Path, *, with_files: bool = True) -> Spec:
    """Reads and checks one spec file (YAML, or JSON if its name ends in `.json`).

    Args:
        path: The file.
        with_files: Whether the files that it names must exist.

    Raises:
        SpecError: The file has mistakes; the message lists them all.
    """
    spec, problems = _read(path, with_files=with_files)
    if spec is None:
        raise spec_error(problems, 1)
    return spec


def load_specs(paths: Iterable[Path]) -> list[Spec]:
    """Reads and checks several spec files, each once, in the given order.

    Raises:
        SpecError: Any file has mistakes, or two of them would make the same wheel or C++ class;
            the message lists all mistakes.
    """
    files: dict[Path, Path] = {}
    for path in paths:
        files.setdefault(path.resolve(), path)
    specs: list[Spec] = []
    problems: list[Problem] = []
    # Not by name: `a-b` and `a_b` are one distribution (PEP 503).
    same: defaultdict[str, list[Spec]] = defaultdict(list)
    for path in files.values():
        spec, own = _read(path)
        problems += own
        if spec is not None:
            problems += _collisions(spec, same[spec.distribution])
            same[spec.distribution].append(spec)
            specs.append(spec)
    if problems:
        raise spec_error(problems, len({problem.file for problem in problems}))
    return specs


def _read(path: Path, *, with_files: bool = True) -> tuple[Spec | None, list[Problem]]:
    document = read_document(path)
    spec, problems = _validate(document, with_files=with_files)
    problems = sorted([*document.problems, *problems], key=lambda problem: problem.position)
    return (None if problems else spec), problems


def _validate(document: Document, *, with_files: bool) -> tuple[Spec | None, list[Problem]]:
    context = {"path": document.path, "with_files": with_files}
    try:
        return Spec.model_validate(document.values, context=context), []
    except ValidationError as error:
        return None, explain(error, document)


def _collisions(spec: Spec, same: Sequence[Spec]) -> list[Problem]:
    field = ("model", "name")
    return [
        Problem(
            spec.path,
            read_document(spec.path).position(field),
            field,
            f"'{spec.model.name}' would make the same wheel {spec.distribution} as {other.path}",
            "Rename one of them",
            code="MW111",
        )
        for other in same
    ]
