"""The differences between the inputs of two results of a step, in words: the flag, the file, the field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from ...util.text import one_line
from ...util.words import shorten
from ..notes import CONDENSED

What: TypeAlias = Literal[
    "flag",
    "model",
    "tensorflow",
    "modelwheel",
    "template",
    "compiler",
    "tool",
    "spec",
    "setting",
    "result",
    "step",
    "fetch",
    "new",
    "removed",
]
"""What changed. A `setting` follows from the spec. The last five: a step has another result, a step must run first, the
model is not there, there never was a result, or it was removed."""

Inputs: TypeAlias = Mapping[str, Any]

Meaning: TypeAlias = Callable[[str], Inputs | None]
"""What a hash stands for; None if nobody knows."""

_TITLES: Mapping[str, str] = {
    "cc": "the C compiler",
    "cxx": "the C++ compiler",
    "zig": "the cross-compiler",
    "python": "Python's binary interface",
    "cpu": "the CPU level of this machine",
    "backend": "scikit-build-core",
}

_FORMATS = frozenset({"version", "program", "emitter", "manifest", "sbom"})
"""Versions of what modelwheel writes."""

_MADE_BY: Mapping[str, str] = {
    "graph": "freeze",
    "config": "freeze",
    "frozen": "freeze",
    "compiled": "compile",
    "project": "project",
    "reference": "reference",
    "wheels": "wheel",
}
"""The kind of the step whose result an input is."""

_HASH = re.compile(r"[0-9a-f]{64}")
_SHOWN = 80
"""Characters of a value that a sentence has."""


@dataclass(frozen=True)
class Reason:
    """Why a step must run."""

    JSON_FIELDS: ClassVar = ("what", "name", "before", "after", "text")

    what: What
    name: str
    """Which flag, file, field or tool; empty if nobody knows."""
    before: Any = None
    """None if it was not there."""
    after: Any = None
    """None if it is not there any more."""

    @property
    def text(self) -> str:
        """In words: `flag xla_cpu_x changed from 1 to 2`."""
        # Names are those of files, and records may come from others.
        name = one_line(self.name)
        if self.what in _SENTENCES:
            return _SENTENCES[self.what].format(name)
        subject = _SUBJECTS.get(self.what, "{}") if name else f"the {self.what}"
        return f"{subject.format(name)} {self._verb()}"

    def _verb(self) -> str:
        if self.before is None and self.after is None:
            return "changed"
        before, after = _show(self.before), _show(self.after)
        if self.what in ("flag", "model", "template"):
            if self.before is None:
                return f"was added ({after})" if after else "was added"
            if self.after is None:
                return f"was removed (it was {before})" if before else "was removed"
        return f"changed from {before} to {after}" if before and after else "changed"


_SENTENCES: Mapping[What, str] = {
    "fetch": "the model is not in the store",
    "new": "never built",
    "removed": "its result is not in the store any more",
    "step": "{} must run first",
    "result": "{} has another result",
}

_SUBJECTS: Mapping[What, str] = {
    "flag": "flag {}",
    "model": "model file {}",
    "template": "template file {}",
    "spec": "spec field {}",
}


def compare(before: Inputs, after: Inputs, meaning: Meaning) -> list[Reason]:
    """The differences between the inputs of two results of one step; empty if there are none.

    Args:
        before: `condense` of the earlier inputs.
        after: `condense` of the later ones.
        meaning: What a hash among them stands for.
    """
    reasons: list[Reason] = []
    for name in sorted({*before, *after}):
        earlier, later = before.get(name), after.get(name)
        if earlier != later:
            try:
                reasons += _explain(name, earlier, later, meaning)
            # The earlier ones are what a record says: of an older modelwheel, or of anybody.
            except (AttributeError, TypeError, ValueError):
                reasons.append(Reason("setting", name))
    return each_once(sorted(reasons, key=lambda reason: reason.what == "result"))


def each_once(reasons: Iterable[Reason]) -> list[Reason]:
    """The reasons without those that say the same as an earlier one."""
    return list({reason.text: reason for reason in reasons}.values())


def _explain(name: str, before: Any, after: Any, meaning: Meaning) -> Iterator[Reason]:
    if name == "tensorflow":
        yield Reason("tensorflow", "TensorFlow", before, after)
    elif name == "modelwheel":
        yield Reason("modelwheel", name, before, after)
    elif name in _FORMATS:
        yield Reason("modelwheel", f"modelwheel's version of {_format(name)}", before, after)
    elif name == "flags":
        yield from _flags(before, after)
    elif name in ("model", "tree"):
        yield from _files("model", before, after, meaning)
    elif name == "template":
        yield from _files("template", before, after, meaning)
    elif name in ("sources", "needed"):
        yield from compare(before or {}, after or {}, meaning)
    elif name == "environment":
        for tool, earlier, later in _differences((), before or {}, after or {}):
            yield _tool(".".join(tool), earlier, later)
    elif name in ("zig", "backend", "cpu"):
        yield _tool(name, before, after)
    elif name == "provenance":
        for path, earlier, later in _differences(("source",), before, after):
            if path[-1] != "tree_sha256":  # said of the model's files
                yield Reason("setting", ".".join(path), earlier, later)
    elif name == "spec":
        for path, earlier, later in _differences(
            (), _known(before, meaning), _known(after, meaning)
        ):
            yield Reason("spec", ".".join(path), earlier, later)
    elif name == "kernels":
        yield from _kernels(before or {}, after or {}, meaning)
    elif name in _MADE_BY:
        yield Reason("result", _MADE_BY[name])
    else:
        for path, earlier, later in _differences((name,), before, after):
            yield Reason("setting", ".".join(path), earlier, later)


def _format(name: str) -> str:
    return "this step" if name == "version" else f"the {name}"


def _tool(name: str, before: Any, after: Any) -> Reason:
    what: What = "compiler" if name in ("cc", "cxx", "zig") else "tool"
    return Reason(what, _TITLES.get(name, name), before, after)


def _flags(before: Any, after: Any) -> Iterator[Reason]:
    """The flags that differ at any level."""
    old, new = _by_level(before), _by_level(after)
    for level in sorted({*old} & {*new}):
        for (name,), earlier, later in _differences((), old[level], new[level]):
            yield Reason("flag", name, earlier, later)
    if old == new:
        yield Reason("setting", "the order of the flags")
    elif set(old) != set(new):
        yield Reason("setting", "the list of CPU levels", [*old], [*new])


def _by_level(flags: Any) -> dict[str, dict[str, str]]:
    """The values of flags by level and name: those of a compile step have one level."""
    levels = {"": flags} if isinstance(flags, Mapping) and "xla" in flags else flags or {}
    return {level: dict(map(_parse_flag, _texts(of_level))) for level, of_level in levels.items()}


def _parse_flag(flag: str) -> tuple[str, str]:
    name, _, value = flag.partition("=")
    return name.lstrip("-"), value


def _texts(value: Any) -> Iterator[str]:
    """The texts in a nested list or mapping."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _files(
    what: Literal["model", "template"], before: Any, after: Any, meaning: Meaning
) -> Iterator[Reason]:
    old, new = _known(before, meaning), _known(after, meaning)
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        yield Reason(what, "")
        return
    for path, earlier, later in _differences((), old.get("files", {}), new.get("files", {})):
        yield Reason(what, "/".join(path), earlier, later)
    facts = _differences((), old.get("facts", {}), new.get("facts", {}))
    yield from (
        Reason("modelwheel", ".".join(path), earlier, later) for path, earlier, later in facts
    )


def _kernels(before: Inputs, after: Inputs, meaning: Meaning) -> Iterator[Reason]:
    """The changes of the kernels that both have; they have the same compiler and template."""
    for name in sorted({*before} & {*after}):
        old, new = meaning(str(before[name])), meaning(str(after[name]))
        if before[name] != after[name]:
            if old is None or new is None:
                yield Reason("setting", "a kernel")
            else:
                yield from compare(old, new, meaning)
    if set(before) != set(after):
        yield Reason("result", "project")


def _known(value: Any, meaning: Meaning) -> Any:
    """The meaning of a hash, or the hash."""
    inputs = meaning(value) if isinstance(value, str) else None
    return value if inputs is None else inputs


def _differences(
    path: tuple[str, ...], before: Any, after: Any
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """The places in two JSON values at which they differ, with what is there; lists are compared as a whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            yield from _differences((*path, name), before.get(name), after.get(name))
    elif before != after:
        yield path, before, after


def _appeared(before: Any, after: Any) -> str:
    if before is None:
        return "was added"
    return "was removed" if after is None else "changed"


def _show(value: Any) -> str:
    """A value in a sentence; empty if it is a hash, which says nothing."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value)
    if _HASH.fullmatch(text) or text.startswith(CONDENSED):
        return ""
    return one_line(shorten(text or "''", _SHOWN))
