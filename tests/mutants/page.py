"""Writes docs/mutants.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.weights import KINDS

if TYPE_CHECKING:
    from tests.mutants.__main__ import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"

_HEAD = """\
# Mutants

A wheel is verified on rows that are drawn at random. Would they show a wrong weight? `make mutants` overwrites weights in the libraries
of finished wheels, one change at a time, and runs on each what `modelwheel verify` compares (the whole reference, from the store) and what
the wheel's own self-test compares (the sample that it carries).

"""
_KINDS = """\
A change that moves no output by more than the tolerance cannot be found by comparing outputs, and need not be: the eighth digit of one
weight is such a change for nearly every model, so `digit` changes the third. For each change that is missed, the model runs with and
without it on eight times as many other random rows:

- **no effect**: all outputs are the same to the last bit, such as behind a unit that is never active;
- **small**: outputs differ, but by less than the tolerance;
- **rare**: an output differs by more, but in fewer than one row of ten, such as behind a unit that is seldom active: all rows of
  the comparison may be others;
- **large**: an output differs by more in other cases. This is a miss that counts.

These rows are drawn by the same rules as those of the comparison. What only values beyond these rules would show counts as no effect.

"""
_TAIL = """
A score counts the changes that are found among those that have an effect above the tolerance: found, or missed and large. In brackets,
those that are rare count too.
"""


def write_page(outcomes: Sequence[Outcome]) -> str:
    """The page; it is the same for the same outcomes."""
    lines = [_HEAD, "| kind | what is overwritten |\n|---|---|\n"]
    lines += [f"| {kind} | {about} |\n" for kind, about in KINDS.items()]
    lines += ["\nAll but `digit` write the values with the other sign.\n", _KINDS]
    lines.append(
        "| model | kind | tried | verify finds | self-test finds | missed by either: no effect | small | rare | large |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    for model in dict.fromkeys(one.model for one in outcomes):
        for kind in KINDS:
            found = [one for one in outcomes if (one.model, one.kind) == (model, kind)]
            if found:
                lines.append(_row((model, kind), found))
    lines.append(_row(("**all**", ""), outcomes))
    lines.append(_TAIL)
    for name in ("verify", "selftest"):
        (caught, counted), (_, with_rare) = score(outcomes, name), score(outcomes, name, rare=True)
        lines.append(
            f"{_NAMES[name]}: **{caught} of {counted}** ({caught / max(counted, 1):.1%}; "
            f"{caught / max(with_rare, 1):.1%} of {with_rare}).\n"
        )
    return "".join(lines)


_NAMES = {"verify": "\n`modelwheel verify`", "selftest": "\nThe self-test"}


def score(outcomes: Iterable[Outcome], name: str, *, rare: bool = False) -> tuple[int, int]:
    """How many of the changes that have an effect are found by `verify` or by `selftest`, and how many there are."""
    effects = {"large", "rare"} if rare else {"large"}
    found = [
        bool(getattr(one, name)) for one in outcomes if getattr(one, name) or one.effect in effects
    ]
    return sum(found), len(found)


def _row(cells: Iterable[str], found: Sequence[Outcome]) -> str:
    return f"| {' | '.join((*cells, *_numbers(found)))} |\n"


def _numbers(found: Sequence[Outcome]) -> Iterator[str]:
    yield str(len(found))
    yield str(sum(one.verify for one in found))
    yield str(sum(one.selftest for one in found))
    missed = [one for one in found if not (one.verify and one.selftest)]
    for effect in ("none", "small", "rare", "large"):
        yield str(sum(one.effect == effect for one in missed))
