"""docs/onnx.md: what became of each case of the suite."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from tests.conformance.cases import KINDS
from tests.conformance.run import Outcome

_VALUES = re.compile("shapes that are not fixed|decodes an image file")
"""Refusals of results whose shapes follow from values."""
PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"

_HEAD = """\
# ONNX's conformance suite

Every model of `onnx.backend.test`, in onnx {version}: converted to StableHLO, compiled by XLA, run on the inputs of the case
and compared with its outputs. `make onnx-conformance` writes this page; a tenth of the cases is compared in every run of CI,
and as a wheel too, at the lowest and the highest CPU level.

- **passed**: the outputs agree within the tolerance of the case. Integers and truth values are equal. Floats of 16 bits and less may
  differ by two units in the last place.
- **with constants**: as above, with inputs that decide shapes made constant, as `source.constants` does it in a spec.
- **refused**: one sentence says why. The sentences are below.
- **not applicable**: the case is about strings, sequences or optional values as inputs or outputs, or training.

Inputs and outputs of int4, int2 and float8 are converted and run here, but the arrays of a wheel have no such types: `check` refuses them.

"""


def write_page(outcomes: Sequence[Outcome], kinds: Mapping[str, str]) -> str:
    """The page.

    Args:
        outcomes: Of all cases.
        kinds: The part of the suite by the names of the cases.
    """
    lines = [_HEAD.format(version=onnx.__version__)]
    lines += [
        "| part | cases | passed | with constants | refused | wrong | crashed | not applicable |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for kind in (*KINDS, "all"):
        chosen = [o for o in outcomes if kind in ("all", kinds[o.name])]
        lines.append(f"| {kind} | {_counts(chosen)} |")
    judged = [o for o in outcomes if o.verdict != "not applicable"]
    passed = sum(o.verdict == "passed" for o in judged)
    fixed = [o for o in judged if not (o.verdict == "refused" and _VALUES.search(o.reason))]
    lines += [
        "",
        (
            f"Of {len(judged):,} cases that apply, {passed:,} pass: {passed / len(judged):.1%}. Of the "
            f"{len(fixed):,} among them whose shapes values do not decide, {passed / len(fixed):.1%}."
        ),
        "",
    ]
    lines += ["## Refused", "", "| why | cases |", "|---|---|"]
    sentences: dict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.verdict == "refused":
            sentences[_kind_of(outcome.reason)].append(outcome.name)
    for sentence, names in sorted(sentences.items(), key=lambda item: -len(item[1])):
        lines.append(f"| {sentence} | {_listed(names)} |")
    wrong = [o for o in outcomes if o.verdict in ("wrong", "crashed")]
    if wrong:
        lines += ["", "## Wrong", "", "| case | what |", "|---|---|"]
        lines += [f"| `{o.name}` | {o.reason} |" for o in wrong]
    lines += ["", "## Not applicable", "", "| why | cases |", "|---|---|"]
    reasons = Counter(o.reason for o in outcomes if o.verdict == "not applicable")
    lines += [f"| {reason} | {count} |" for reason, count in reasons.most_common()]
    return "\n".join([*lines, ""])


def _counts(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(outcome.verdict for outcome in outcomes)
    fixed = sum(bool(outcome.constants) for outcome in outcomes)
    columns = [counts["passed"] - fixed, fixed, counts["refused"], counts["wrong"]]
    columns += [counts["crashed"], counts["not applicable"]]
    return " | ".join(map(str, [len(outcomes), *columns]))


def _kind_of(reason: str) -> str:
    """A sentence without the name of its node, and without bars, which end a cell."""
    return re.sub(r"^(\w+) '[^']*'", r"\1", reason).replace("|", "\\|")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name.removeprefix('test_')}`" for name in names[:6])
    more = len(names) - 6
    return shown + (f" and {more} more" if more > 0 else "")
