"""The pages about experiments: `python -m tests.bench.experiments` writes them from `docs/experiments/*.toml`.

The index lists every idea, for the question "was this tried?". What stands above the index is written by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tests.bench.__main__ import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = ("products", "convolutions", "winograd", "layers", "threads", "memory", "calls", "builds")
_MARK = "<!-- ideas -->\n"
_WRITTEN = "<!-- Written by tests/bench/experiments.py from {name}.toml. -->"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Measured(_Record):
    """One comparison: the old time over the new one, unless the page says something else."""

    model: str
    rows: int = 16
    level: Literal["v1", "v2", "v3", "v4"] = "v4"
    threads: int = 1
    ratio: float
    quartiles: tuple[float, float] | None = None
    before: float | None = None
    """The ratio without the change, where a ratio is no comparison of two versions."""

    @property
    def text(self) -> str:
        """The ratio for people."""
        quartiles = "" if self.quartiles is None else " ({:.2f}-{:.2f})".format(*self.quartiles)
        before = "" if self.before is None else f", before {self.before:.2f}"
        return f"{self.ratio:.2f}{quartiles}{before}"


class Experiment(_Record):
    """An idea, and what came of it."""

    theme: str
    idea: str = Field(max_length=120)
    outcome: Literal["kept", "left out", "finding"]
    """A finding is a figure about something that is there."""
    note: str = Field(default="", max_length=500)
    commit: str | None = Field(default=None, pattern="[0-9a-f]{8,40}")
    """With it the ratio can be measured again; unknown for experiments before 2026-11-26."""
    cpu: str | None = None
    """By default that of the page."""
    measured: tuple[Measured, ...] = ()


class Page(_Record):
    """The experiments of one subject."""

    title: str
    summary: str
    intro: str = ""
    cpu: str
    experiment: tuple[Experiment, ...]

    @property
    def themes(self) -> dict[str, list[Experiment]]:
        """The experiments by theme."""
        found: dict[str, list[Experiment]] = {}
        for experiment in self.experiment:
            found.setdefault(experiment.theme, []).append(experiment)
        return found


def load(directory: Path) -> dict[str, Page]:
    """The pages in a directory, by name.

    Raises:
        ValueError: A file is not as `Page` says.
    """
    texts = {name: (directory / f"{name}.toml").read_text(encoding="utf-8") for name in PAGES}
    return {name: Page.model_validate(tomllib.loads(text)) for name, text in texts.items()}


def page_text(name: str, page: Page) -> str:
    """The page about one subject."""
    return "\n".join([f"# {page.title}", "", _WRITTEN.format(name=name), *_body(page)])


def _body(page: Page) -> Iterator[str]:
    yield ""
    yield f"{page.intro} On an {page.cpu}, unless a line names another CPU.".strip()
    for theme, experiments in page.themes.items():
        yield f"\n## {theme}\n"
        rows = [row for experiment in experiments for row in _rows(experiment)]
        if rows:
            yield from ("| change | model | rows | level | ratio |", "|---|---|---|---|---|", *rows)
            yield ""
        yield from (_bullet(one) for one in experiments if one.note or not one.measured)
    yield ""


def _rows(experiment: Experiment) -> Iterator[str]:
    idea = experiment.idea
    for one in experiment.measured:
        threads = f", {one.threads} threads" if one.threads > 1 else ""
        yield f"| {idea} | {one.model} | {one.rows}{threads} | {one.level} | {one.text} |"
        idea = ""


def _bullet(experiment: Experiment) -> str:
    outcome = "" if experiment.outcome != "left out" else " *Left out.*"
    marks = [experiment.cpu, experiment.commit and f"`{experiment.commit[:8]}`"]
    where = ", ".join(filter(None, marks))
    head = f"- **{experiment.idea}.**{outcome} {experiment.note}"
    lines = head.split("\n")
    return "\n  ".join([*lines[:-1], lines[-1] + (f" ({where})" if where else "")]).replace(
        "\n  \n", "\n\n"
    )


def index_text(pages: dict[str, Page]) -> str:
    """All ideas, by subject."""
    return "\n".join(_index(pages)) + "\n"


def _index(pages: dict[str, Page]) -> Iterator[str]:
    for name, page in pages.items():
        yield f"\n## [{page.title}](experiments/{name}.md)\n"
        yield f"{page.summary[0].upper()}{page.summary[1:]}.\n"
        yield "| idea | outcome | ratios |"
        yield "|---|---|---|"
        for one in page.experiment:
            yield f"| {one.idea} | {one.outcome} | {_range(one.measured)} |"
    yield "\n```{toctree}\n:hidden:"
    yield from (f"experiments/{name}" for name in pages)
    yield "```"


def _range(measured: Iterable[Measured]) -> str:
    ratios = [one.ratio for one in measured]
    if not ratios:
        return ""
    low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return low if low == high else f"{low} to {high}"


def render(docs: Path) -> dict[Path, str]:
    """What the pages below `docs` should say."""
    pages = load(docs / "experiments")
    head, mark, _ = (docs / "experiments.md").read_text(encoding="utf-8").partition(_MARK)
    texts = {docs / "experiments.md": head + mark + index_text(pages)}
    for name, page in pages.items():
        texts[docs / "experiments" / f"{name}.md"] = page_text(name, page)
    return texts


def write(docs: Path) -> list[Path]:
    """Writes the pages below `docs`; returns their paths."""
    texts = render(docs)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


if __name__ == "__main__":
    write(ROOT / "docs")
