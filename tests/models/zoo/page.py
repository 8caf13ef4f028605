"""The page docs/zoo.md: what becomes of every model of the zoo."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.models.zoo.cases import GROUPS, REFUSED, SUITES
from tests.models.zoo.visit import Result

PAGE = Path(__file__).parents[3] / "docs" / "zoo.md"

_HEAD = """\
# The zoo

What modelwheel does with each model of its own tests: it compiles the model, or refuses it with one sentence. Look here for
a model like yours. [Formats](formats.md) and [For model authors](authors.md) explain what the tables only name.

The tests make all models by code, with random weights from fixed seeds; `tests/models/zoo/cases.py` has the spec of each.
"Compiled" means that the machine code for every CPU level of the machine that ran the tests gave the outputs of the
framework, within the default tolerance, for the compiled batch sizes and the numbers of rows between them. The framework is
ONNX Runtime for ONNX files, and TensorFlow for all others.

| | cases | compiled | refused |
|---|---|---|---|
{summary}

`make zoo` writes this page, and a test compares it with what the code does.
"""


def write_page(results: Sequence[Result]) -> str:
    """The page in Markdown."""
    by_name = {result.case.name: result for result in results}
    suites = [by_name[case.name] for case in SUITES]
    lines = [_HEAD.format(summary="\n".join(_summary(by_name)))]
    lines += ["## Operations", "", "Each operation is an output of one of these models.", ""]
    for result in suites:
        names = ", ".join(f"`{name}`" for name in result.outputs)
        title = result.case.name.replace("_", " ").capitalize()
        lines += [f"**{title}** ({len(result.outputs)}; {result.case.about}): {names}.", ""]
    for title, cases in GROUPS.items():
        lines += [f"## {title}", "", "| case | what it has | result |", "|---|---|---|"]
        lines += [_row(by_name[case.name]) for case in cases]
        lines += [""]
    lines += ["## Refused", "", "| case | what modelwheel says |", "|---|---|"]
    lines += [f"| `{case.name}` | {_escape(by_name[case.name].refusal)} |" for case in REFUSED]
    return "\n".join(lines) + "\n"


def _summary(by_name: dict[str, Result]) -> Iterator[str]:
    operations = sum(len(by_name[case.name].outputs) for case in SUITES)
    counts = {"Operations": (operations, operations, 0)}
    for title, cases in {**GROUPS, "Refused": REFUSED}.items():
        refused = sum(bool(by_name[case.name].refusal) for case in cases)
        counts[title] = (len(cases), len(cases) - refused, refused)
    counts["all"] = tuple(map(sum, zip(*counts.values(), strict=True)))  # type: ignore[assignment]
    for title, numbers in counts.items():
        yield f"| {title} | {' | '.join(map(str, numbers))} |"


def _row(result: Result) -> str:
    said = f"refused: {_escape(result.refusal)}" if result.refusal else "compiled"
    return f"| `{result.case.name}` | {result.case.about} | {said} |"


def _escape(text: str) -> str:
    # The line depends on how many levels this machine has.
    text = re.sub(r"^specs/[^ ]*:\d+:\d+: ", "", text)
    # TensorFlow numbers functions in the order in which it meets them.
    text = re.sub(r"'__inference_(.*?)_\d+'", r"'\1'", text)
    return re.sub(r"([|<*]|__|(?<=\])\()", r"\\\1", text)
