"""The page docs/precision.md: whose errors are whose."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from modelwheel.release.parts import PART_COLUMNS, Parts, part_cells
from modelwheel.util.markdown import table
from modelwheel.wheelfile.reports import Report

_DOCS = Path(__file__).parents[2] / "docs"
PAGE, PLOT = _DOCS / "precision.md", _DOCS / "precision.svg"

_HEAD = """\
# Precision

Whose errors are whose: the same model in float64 is the truth. The framework (ONNX Runtime for ONNX files, TensorFlow for
the others), TensorFlow with XLA (`jit_compile=True`) and the compiled library are each compared with it, on random rows. An
error is the largest of all elements, relative to the largest value of the output. A part of the wheel's error is that of the
framework in float32 too, XLA may add to it, and the rest comes from the library: other kernels, other orders of sums. XLA is
measured where the framework's error is above 2e-6; elsewhere its part is in the rest.

![Errors of frameworks, of XLA and of wheels](precision.svg)

`make precision` writes this page; `modelwheel report WHEELS --plot FILE.svg` makes table and plot of other wheels.
"""


def write_page(
    reports: Mapping[str, Report], parts: Mapping[str, Sequence[Parts]], published: Collection[str]
) -> str:
    """The page in Markdown.

    Args:
        reports: By model.
        parts: Of the outputs with a truth, by model.
        published: The models that are not the zoo's.
    """
    groups = {
        "Published models": [name for name in reports if name in published],
        "The zoo": [name for name in reports if name not in published],
    }
    text = _HEAD
    for title, names in groups.items():
        rows = [part_cells(one) for name in names for one in parts[name]]
        text += f"\n## {title}\n\n{table(PART_COLUMNS, rows)}"
    missing = {name: r.truth.missing for name, r in reports.items() if r.truth.missing is not None}
    text += "\n## Without a truth\n\n"
    text += table(("model", "why"), missing.items())
    undefined = [
        (name, kind, reason)
        for name, report in reports.items()
        for kind, reason in report.truth.undefined.items()
    ]
    text += (
        "\n## Boundary rows that are not compared\n\nRows of zeros, denormals, the limits of ranges, infinity and "
        "NaN are compared where the results are defined. These are not.\n\n"
    )
    return text + table(("model", "rows of", "why"), undefined)
