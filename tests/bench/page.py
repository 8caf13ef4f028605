"""The page docs/benchmarks.md, its plots and the table of the README: `python -m tests.bench.page JSON...`.

The files are those that `python -m tests.bench --json FILE` writes, for one level and number of threads or for
several. Tables have the rows of the reference set alone; a model that was measured with more is plotted.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from modelwheel.bench.plots import write_latency, write_shares
from modelwheel.bench.results import (
    CONSUMERS,
    OURS,
    SILENCE_MS,
    TITLES,
    Benchmark,
    Case,
    Cell,
    Cells,
    Compared,
    Part,
    after_silence,
    itself,
    new_arrays,
)
from modelwheel.cli.display.console import OUT, plain
from modelwheel.util.text import one_line
from tests.bench.__main__ import PLOTTED, ROOT, SET
from tests.bench.experiments import write as write_experiments
from tests.bench.sections import Section, Summary, lowest, sections, short_reason, titled
from tests.bench.sections import stairs as stairs_of
from tests.support.pages import with_marked

_MARK = "benchmark"
"""Of the part of the README that is written here."""

_FRONT = "xception.svg"
"""The plot in the README."""

_MARKUP = re.compile(r"[\\`*\[\]<>|]|(?<!\w)_|_(?!\w)")

_HEAD = """\
# Benchmarks

Wheels beside other runtimes on the models of [tests/bench](../tests/bench/__main__.py). A program writes this page:
`make bench BENCH="--page"` measures, then writes the tables, the plots and the table in the [README](../README.md).
[Performance](performance.md) describes the method, and how to time a wheel of your own.

A ratio is the time of another runtime over the time of the wheel. Above 1, the wheel is faster. It is the median of
the rounds of one run, with the quartiles in parentheses. *Best* is the fastest of ONNX Runtime, OpenVINO and LiteRT, and of
all others if none of these runs the model. *Of peak* is the part of one core's multiply-add rate at the same level that the
wheel reaches in products and convolutions; methods that need fewer multiplications than the definition can exceed 100 %.
The numbers of rows are the compiled batch sizes of a model and some between them.
"""

_STAIRS = """
## Time against rows

A wheel computes any number of rows by runs of its compiled batch sizes. The lower part of each plot shows which: a bar is
the batch sizes of the runs, divided by the rows of the call. Above 1, the last batch has room for more rows: steps that can
do so compute its first rows only, others all of them;
`modelwheel tune` proposes batch sizes for the numbers of rows that a program uses.
"""

_CALLS = f"""\
Calls as programs make them. The first two columns of times are calls with arrays that are new each time, one after another; the
last row of a model has the average call of a trace in which the number of rows varies. The other two are a single call with new
arrays after {SILENCE_MS} ms without any.
"""

_STARTS = """\
Sizes, starts and latency. Each runtime has the milliseconds of its import and first prediction, and the memory in MB that
they add to a process that has imported NumPy. The last column is the time that 50 %, 99 % and 99.9 % of the wheel's calls do not
exceed, in microseconds, with the smallest number of rows.
"""


def write(benchmarks: Sequence[Benchmark], root: Path = ROOT) -> list[Path]:
    """Writes the page, the plots and the README's table below a directory; gives the files."""
    found = sections(benchmarks, SET)
    directory = root / "docs" / "benchmarks"
    directory.mkdir(parents=True, exist_ok=True)
    plots = _write_plots(found, stairs_of(benchmarks, PLOTTED), directory)
    page, readme = root / "docs" / "benchmarks.md", root / "README.md"
    page.write_text(page_text(found, plots), encoding="utf-8")
    text = readme.read_text(encoding="utf-8")
    readme.write_text(with_marked(text, _MARK, readme_block(found, plots)), encoding="utf-8")
    files = [page, *(directory / name for name in plots), readme]
    if (root / "docs" / "experiments").is_dir():
        files += write_experiments(root / "docs")
    return files


def _write_plots(
    found: Sequence[Section], stairs: Iterable[Compared], directory: Path
) -> dict[str, str]:
    """Writes the plots; gives what they show by the names of the files."""
    shown = {}
    for compared in stairs:
        title, name = titled(compared.model, SET), f"{compared.model}.svg"
        write_latency(compared, directory / name, title)
        shown[name] = f"Time of {title} against rows"
    models = next((section.models for section in found), ())
    if any(case.share is not None for one in models for case in one.cases):
        write_shares(models, directory / "peak.svg")
        shown["peak.svg"] = "The part of the peak against the arithmetic of a call"
    return shown


# --- the page -------------------------------------------------------------------------------------


def page_text(found: Sequence[Section], plots: Mapping[str, str]) -> str:
    """The page in Markdown.

    Args:
        found: What was measured.
        plots: What the plots in the directory `benchmarks` show, by the names of their files.
    """
    text = f"{_HEAD}\n## Machine and versions\n\n{''.join(map(_where, found))}"
    for section in found:
        text += f"\n## {section.title}\n\n{_ratios(section)}\n{_sentence(section.summary())}\n"
        text += f"\n{_CALLS}\n{_calls(section)}" if _has_calls(section) else ""
        text += f"\n{_STARTS}\n{_starts(section)}"
    if any(name != "peak.svg" for name in plots):
        text += _STAIRS
    for name, shown in plots.items():
        if name == "peak.svg":
            text += "\n## Part of the peak\n"
        text += f"\n![{escape(shown)}](benchmarks/{name})\n"
    return text


def _where(section: Section) -> str:
    """A section's machine, versions and what others saw of the CPU."""
    lines = [_wrap(f"- **{section.title}**: {escape(section.where())}", "  ")]
    for line in (f"{section.versions()}.", *section.cpus()):
        lines.append(_wrap(f"  - {escape(line)}", "    "))
    return "\n".join(lines) + "\n"


def _ratios(section: Section) -> str:
    """The times of the wheel and the ratios of the others; then why some are missing."""
    kinds = [kind for kind in section.kinds if kind != OURS]
    reasons: dict[str, str] = {}
    rows = []
    for compared in section.models:
        errors = {side.kind: side.error for side in compared.sides if side.error is not None}
        for number, case in enumerate(compared.cases):
            cells = []
            for kind in kinds:
                cell = case.cell(kind)
                error = errors.get(kind) if cell is None else cell.error
                text = "-" if cell is None else _ratio_with_spread(cell)
                if error is not None:
                    reason = f"{TITLES[kind]}: {short_reason(error)}"
                    mark = reasons.setdefault(reason, _letter(len(reasons)))
                    text = f"- ({mark})"
                cells.append(text)
            title = "" if number else escape(titled(compared.model, SET))
            share = "-" if case.share is None else f"{case.share:.0%}".replace("%", " %")
            best = "-" if lowest(case) is None else ratio(lowest(case))
            rows.append((title, str(case.rows), us_of(case), share, *cells, best))
    titles = [section.short_title(kind) for kind in kinds]
    text = _table(("model", "rows", "wheel, us", "of peak", *titles, "best"), rows)
    notes = "".join(f"- ({mark}) {escape(reason)}\n" for reason, mark in reasons.items())
    return f"{text}\n{notes}" if notes else text


def _has_calls(section: Section) -> bool:
    return any(case.best_ratio(new_arrays) for one in section.models for case in one.cases)


def _calls(section: Section) -> str:
    """Calls with new arrays: one after another, and after silence; then with rows that vary."""
    rows = []
    for compared in section.models:
        titles = [escape(titled(compared.model, SET))]
        for case in compared.cases:
            parts = (*_part(case, new_arrays), *_part(case, after_silence))
            rows.append((titles.pop() if titles else "", str(case.rows), *parts))
        if (trace := compared.trace) is not None:
            mixed = f"{min(trace.rows)} to {max(trace.rows)}"
            rows.append(("", mixed, *_part(trace, itself), "", ""))
    silence = f"after {SILENCE_MS} ms"
    header = ("model", "rows", "new arrays, us", "best", f"{silence}, us", "best")
    return _table(header, rows)


def _part(cells: Cells, part: Part) -> tuple[str, str]:
    """The microseconds of the wheel and the ratio of the best other runtime."""
    ours, best = cells.cell(OURS), cells.best_ratio(part)
    timing = None if ours is None else part(ours)
    us = "-" if timing is None or timing.us is None else number_of(timing.us.median)
    return us, ratio(None if best is None else best.median)


def _letter(number: int) -> str:
    """The marks a to z, aa, ab, ..."""
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)


def _sentence(summary: Summary | None) -> str:
    if summary is None:
        return "No other runtime was timed."
    title = escape(titled(summary.model, SET))
    number = "1 row" if summary.rows == 1 else f"{summary.rows} rows"
    below = {0: "none is", 1: "1 is"}.get(summary.below, f"{summary.below} are")
    return (
        f"{summary.cells} cells: geometric mean **{ratio(summary.mean)}**, median {ratio(summary.median)}, lowest "
        f"{ratio(summary.lowest)} ({title}, {number}); {below} below 1."
    )


def _starts(section: Section) -> str:
    """Sizes, starts, memory and latencies, a row for each model."""
    kinds = list(section.kinds)
    rows = []
    for one in section.models:
        sides = {side.kind: side for side in one.sides if side.first_ms is not None}
        cells = []
        for kind in kinds:
            side = sides.get(kind)
            memory = "-" if side is None or side.memory is None else number_of(side.memory / 1e6)
            first = "-" if side is None or side.first_ms is None else number_of(side.first_ms)
            cells.append("-" if side is None else f"{first} / {memory}")
        rows.append(
            (
                escape(titled(one.model, SET)),
                f"{one.wheel_bytes / 1000:.0f}",
                f"{one.weights_bytes / 1000:.0f}",
                *cells,
                _latency(one),
            )
        )
    titles = [f"{TITLES[kind]}, ms / MB" for kind in kinds]
    return _table(("model", "wheel, kB", "weights, kB", *titles, "p50 / p99 / p99.9, us"), rows)


def _latency(one: Compared) -> str:
    case = min(one.cases, key=lambda case: case.rows, default=None)
    ours = case.cell(OURS) if case else None
    return " / ".join(map(number_of, ours.latency)) if ours and ours.latency else "-"


# --- the README -----------------------------------------------------------------------------------


def readme_block(found: Sequence[Section], plots: Mapping[str, str]) -> str:
    """The README's table and plot: the best ratio at the smallest and the largest number of rows, with one thread."""
    single = [section for section in found if section.threads == 1]
    header = ["model", "rows", "wheel, us"]
    for section in single:
        header += [f"{section.level}: fewest rows", "most rows"]
    names = dict.fromkeys(one.model for section in single for one in section.models)
    rows = [_readme_row(name, single) for name in names]
    means: list[str] = []
    lows: list[str] = []
    for summary in (section.summary() for section in single):
        means += ["-" if summary is None else f"**{ratio(summary.mean)}**", ""]
        lows += ["-" if summary is None else f"{summary.cells} ({summary.below})", ""]
    rows.append(["geometric mean of all cells", "", "", *means])
    rows.append(["cells (of these below 1)", "", "", *lows])
    said = _wrap(" ".join(_readme_sentences(single)))
    shown = f"\n![{plots[_FRONT]}](docs/benchmarks/{_FRONT})\n" if _FRONT in plots else ""
    return f"{_table(header, rows)}\n{said}\n{shown}"


def _readme_row(name: str, single: Sequence[Section]) -> list[str]:
    by_section = [next((m for m in one.models if m.model == name), None) for one in single]
    first = next((one for one in by_section if one is not None and one.cases), None)
    ends = _ends(first)
    us = us_of(ends[0]) if ends else "-"
    row = [escape(titled(name, SET)), ", ".join(str(case.rows) for case in ends), us]
    for one in by_section:
        cells = ["-" if lowest(case) is None else ratio(lowest(case)) for case in _ends(one)]
        row += [*cells, "", ""][:2]
    return row


def _ends(one: Compared | None) -> list[Case]:
    """The cases with the fewest and the most rows; one of both if they are the same."""
    cases = sorted(one.cases, key=lambda case: case.rows) if one else []
    return cases if len(cases) < 2 else [cases[0], cases[-1]]


def _readme_sentences(single: Sequence[Section]) -> Iterator[str]:
    if not single:
        return
    first = single[0]
    best = _and(first.consumers) or "the other runtimes"
    places = dict.fromkeys(f"{one.machine.cpu}, {one.machine.date}" for one in single)
    yield (
        f"A ratio is the time of the fastest of {best} over the time of the wheel, each on one thread ({escape('; '.join(places))}): "
        f"above 1, the wheel is faster. The wheel's microseconds are those of the fewest rows at {first.level}."
    )
    for section in single:
        whole = [TITLES[kind] for kind in section.whole() if kind in CONSUMERS]
        if whole:
            yield f"At {section.level}, {_and(whole)} used the whole CPU ({section.machine.level})."
    yield "All figures: [docs/benchmarks.md](docs/benchmarks.md)."


def _and(names: Sequence[str]) -> str:
    """The names as in a sentence."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


# --- figures --------------------------------------------------------------------------------------


def number_of(value: float) -> str:
    """Three digits, and all that are before the decimal point."""
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def ratio(value: float | None) -> str:
    """Two digits behind the decimal point, fewer for large ratios."""
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def us_of(case: Case) -> str:
    """The microseconds of the wheel."""
    ours = case.cell(OURS)
    return "-" if ours is None or ours.us is None else number_of(ours.us.median)


def _ratio_with_spread(cell: Cell) -> str:
    if cell.ratio is None:
        return "-"
    return f"{ratio(cell.ratio.median)} ({ratio(cell.ratio.low)}-{ratio(cell.ratio.high)})"


def _wrap(text: str, indent: str = "") -> str:
    """The text in lines of 120 characters; no word and no link is divided."""
    return textwrap.fill(
        text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def escape(text: str) -> str:
    """Text from elsewhere in one line, without what could be markup. Underscores inside a word are none."""
    return _MARKUP.sub(r"\\\g<0>", one_line(" ".join(text.split())))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; cells are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: Sequence[str]) -> None:
    """Writes all files and says which."""
    parser = argparse.ArgumentParser(
        description="Writes docs/benchmarks.md and what belongs to it."
    )
    parser.add_argument("json", nargs="+", type=Path, help="what `--json` of tests.bench wrote")
    options = parser.parse_args(arguments)
    for path in write([Benchmark.load(path) for path in options.json]):
        OUT.print(plain(f"wrote {path.relative_to(ROOT)}"))


if __name__ == "__main__":
    main(sys.argv[1:])
