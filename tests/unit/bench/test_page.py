"""The page of benchmarks and the README's table: from a small comparison, and as they are in the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from modelwheel.bench.compare import Settings
from modelwheel.bench.plots import runs, write_latency
from modelwheel.bench.results import (
    Benchmark,
    Case,
    Cell,
    Compared,
    Kind,
    Machine,
    Side,
    Timing,
    Trace,
)
from modelwheel.bench.statistics import spread
from tests.bench import __main__ as bench
from tests.bench import page
from tests.bench.sections import Section, sections, short_reason, stairs
from tests.support.pages import marked, with_marked

MACHINE = Machine(
    date="2026-01-01",
    cpu="A <fast> CPU",
    level="x86-64-v4",
    cores=2,
    load_average=0.5,
    system="Linux",
    python="3.11",
    modelwheel="0.1.0",
)


def cell(kind: Kind, us: float, ratio: float | None) -> Cell:
    times = None if ratio is None else spread([ratio - 0.2, ratio, ratio + 0.2])
    timing = Timing(us=spread([us + 1]), ratio=times)
    return Cell(
        kind=kind,
        us=spread([us]),
        ratio=times,
        new_arrays=timing,
        after_silence=timing.model_copy(update={"us": spread([us * 10])}),
        latency=(us, 2 * us, 3 * us),
        gflops=50,
    )


def case(rows: int, us: float, *others: Cell) -> Case:
    cells = (cell("wheel", us, None), *others)
    return Case(rows=rows, rule=f"{rows}:1", work=1000 * rows, peak_gflops=100, cells=cells)


def compared(model: str, level: str, *cases: Case, lowered: bool = False) -> Compared:
    ran = {found.kind for one in cases for found in one.cells}
    return Compared(
        model=model,
        version="1.0.0",
        level=level,
        threads=1,
        seconds=0.5,
        wheel_bytes=5000,
        weights_bytes=4000,
        saved_model_bytes=8000,
        build_seconds=None,
        sides=(
            Side(kind="wheel", version="1.0.0", first_ms=1.5, memory=2_000_000),
            *(
                Side(kind=kind, version="1.32.0", first_ms=33, memory=33e6, lowered=lowered)  # type: ignore[arg-type]
                for kind in ("onnxruntime", "litert")
                if kind in ran
            ),
            Side(kind="openvino", error="RuntimeError: /opt/x.cpp:1: OpConversion failed"),
        ),
        cases=cases,
        trace=Trace(rows=(1, 64, 5), cells=cases[0].cells) if len(cases) > 1 else None,
    )


MLP = compared(
    "mlp",
    "x86-64-v4",
    case(1, 2.0, cell("onnxruntime", 6, 3), cell("litert", 2.5, 1.25)),
    case(64, 38.2, cell("onnxruntime", 30, 0.8)),
)
GRU = compared("gru", "x86-64-v4", case(1, 0.0519, cell("onnxruntime", 5, 101.4)))
LOWER = compared("mlp", "x86-64-v3", case(1, 3.0, cell("litert", 6, 2)), lowered=True)
STAIRS = compared(
    "mlp", "x86-64-v4", *(case(rows, rows, cell("litert", 9, 9)) for rows in (1, 2, 3))
)
BENCHMARKS = [
    Benchmark(machine=MACHINE, models=(GRU, MLP, STAIRS)),
    Benchmark(machine=MACHINE, models=(LOWER,)),
]


def found() -> list[Section]:
    return sections(BENCHMARKS, bench.SET)


def row_of(text: str, start: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {start} |"))
    return [field.strip() for field in line.removeprefix("|").removesuffix("|").split("|")]


def test_there_is_a_section_for_each_level_with_the_models_in_the_order_of_the_set() -> None:
    assert [one.title for one in found()] == ["x86-64-v4, one thread", "x86-64-v3, one thread"]
    assert found()[0].models == (MLP, GRU)
    assert found()[1].models == (LOWER,)


def test_more_rows_than_those_of_the_tables_are_plotted() -> None:
    assert stairs(BENCHMARKS, bench.PLOTTED) == [STAIRS, GRU]


def test_the_table_has_ratios_with_quartiles_and_why_there_are_none() -> None:
    text = page.page_text(found(), {})
    table = text[text.index("## x86-64-v4") : text.index("Calls as programs")]
    head = row_of(table, "model | rows")
    assert head == [
        "model",
        "rows",
        "wheel, us",
        "of peak",
        "ONNX Runtime 1.32",
        "LiteRT 1.32",
        "best",
    ]
    assert row_of(table, "MLP 4-128x5-2 | 1")[2:] == [
        "2.00",
        "50 %",
        "3.00 (2.90-3.10)",
        "1.25 (1.15-1.35)",
        "1.25",
    ]
    assert row_of(table, " | 64")[2:] == ["38.2", "50 %", "0.80 (0.70-0.90)", "-", "0.80"]
    assert row_of(table, "GRU 2 x 64, 30 steps | 1")[2:] == [
        "0.0519",
        "50 %",
        "101 (101-102)",
        "-",
        "101",
    ]


def test_a_sentence_sums_up_the_cells() -> None:
    text = page.page_text(found(), {})
    assert (
        "3 cells: geometric mean **4.66**, median 1.25, lowest 0.80 (MLP 4-128x5-2, 64 rows); 1 is below 1."
    ) in text
    assert "1 cells" in text
    assert "none is below 1." in text


def test_calls_as_programs_make_them_have_a_table() -> None:
    text = page.page_text(found(), {})
    table = text[text.index("Calls as programs") : text.index("Sizes, starts")]
    assert row_of(table, "model | rows")[2:] == [
        *("new arrays, us", "best"),
        *("after 100 ms, us", "best"),
    ]
    assert row_of(table, "MLP 4-128x5-2 | 1")[2:] == ["3.00", "1.25", "20.0", "1.25"]
    assert row_of(table, " | 1 to 64")[2:] == ["2.00", "1.25", "", ""]
    old = MLP.model_copy(
        update={"cases": (Case(rows=1, rule="1:1", work=None, peak_gflops=None, cells=()),)}
    )
    (section,) = sections([Benchmark(machine=MACHINE, models=(old,))], bench.SET)
    assert "Calls as programs" not in page.page_text([section], {})


def test_sizes_starts_and_latencies_have_a_table() -> None:
    text = page.page_text(found(), {})
    (line,) = (line for line in text.splitlines() if line.startswith("| GRU") and "/" in line)
    assert line == (
        "| GRU 2 x 64, 30 steps | 5 | 4 | 1.50 / 2.00 | 33.0 / 33.0 | - | 0.0519 / 0.104 / 0.156 |"
    )


def test_the_page_says_where_and_what_others_saw_of_the_cpu() -> None:
    text = " ".join(page.page_text(found(), {"mlp.svg": "Time", "peak.svg": "Peak"}).split())
    assert r"2026-01-01, A \<fast\> CPU, cores: 2" in text
    assert "seconds for each runtime and cell: 0.5" in text
    assert "Limited to a CPU of this level: LiteRT." in text
    assert "ONNX Runtime 1.32.0, LiteRT 1.32.0." in text
    assert "![Time](benchmarks/mlp.svg)" in text
    whole = LOWER.model_copy(update={"sides": (Side(kind="litert", version="2"),)})
    (section,) = sections([Benchmark(machine=MACHINE, models=(whole,))], bench.SET)
    assert "Used the whole CPU (x86-64-v4): LiteRT." in page.page_text([section], {})
    block = " ".join(page.readme_block([section], {}).split())
    assert "At x86-64-v3, LiteRT used the whole CPU (x86-64-v4)." in block


def test_a_runtime_that_failed_for_some_models_has_a_note() -> None:
    ran = Side(kind="openvino", version="2026.4.1", first_ms=1, memory=1)
    other = compared("gru", "x86-64-v4", case(1, 1.0, cell("openvino", 2, 2)))
    other = other.model_copy(update={"sides": (*other.sides[:1], ran)})
    benchmark = Benchmark(machine=MACHINE, models=(MLP, other))
    text = page.page_text(sections([benchmark], bench.SET), {})
    table = text.partition("Calls as programs")[0]
    assert row_of(table, "MLP 4-128x5-2 | 1")[5] == "- (a)"
    assert "\n- (a) OpenVINO: it cannot convert an operation of the model.\n" in text


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (
            "InvalidGraph: Load model from /a/b.onnx failed: x",
            "InvalidGraph: Load model from b.onnx failed: x",
        ),
        ("outputs differ: y by 1, of 2", "outputs differ: y by 1, of 2"),
        ("x" * 200, f"{'x' * 100} ..."),
        (
            "ConverterError: TensorListReserve",
            "TensorFlow's converter to .tflite refuses recurrent layers.",
        ),
    ],
)
def test_reasons_are_short_and_without_paths(error: str, short: str) -> None:
    assert short_reason(error) == short


def test_the_readme_has_the_ends_of_each_model() -> None:
    text = page.readme_block(found(), {"xception.svg": "Time", "mlp.svg": "Other"})
    assert text.endswith("\n\n![Time](docs/benchmarks/xception.svg)\n")
    assert row_of(text, "MLP 4-128x5-2") == [
        *("MLP 4-128x5-2", "1, 64", "2.00"),
        *("1.25", "0.80", "2.00", ""),
    ]
    assert row_of(text, "GRU 2 x 64, 30 steps")[2:] == ["0.0519", "101", "", "", ""]
    assert row_of(text, "geometric mean of all cells")[3:] == ["**4.66**", "", "**2.00**", ""]
    assert row_of(text, "cells (of these below 1)")[3:] == ["3 (1)", "", "1 (0)", ""]


def test_all_files_are_written_and_the_readme_keeps_the_rest(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# A\n<!-- benchmark -->\nold\n<!-- /benchmark -->\nz\n")
    names = {path.relative_to(tmp_path).as_posix() for path in page.write(BENCHMARKS, tmp_path)}
    assert names == {
        "README.md",
        "docs/benchmarks.md",
        *(f"docs/benchmarks/{name}.svg" for name in ("mlp", "gru", "peak")),
    }
    first = {name: (tmp_path / name).read_bytes() for name in names}
    page.write(BENCHMARKS, tmp_path)
    assert first == {name: (tmp_path / name).read_bytes() for name in names}
    text = readme.read_text()
    assert text.startswith("# A\n<!-- benchmark -->\n\n| model |")
    assert text.endswith("\n<!-- /benchmark -->\nz\n")
    assert "old" not in text


def test_a_readme_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no <!-- benchmark -->"):
        with_marked("# A\n", "benchmark", "b")


def test_the_plot_shows_how_rows_are_split(tmp_path: Path) -> None:
    assert runs("7:4,1,1,1") == {4: 1, 1: 3}
    path = tmp_path / "stairs.svg"
    write_latency(STAIRS, path, "A model")
    content = path.read_bytes()
    assert b">A model, x86-64-v4, one thread<" in content
    assert b">batch size 1<" in content
    assert len(content) < 40_000


def test_the_figures_of_the_readme_are_on_the_page() -> None:
    """Both are written by one run: no table is edited by hand."""
    block = marked((bench.ROOT / "README.md").read_text(encoding="utf-8"), "benchmark")
    text = (bench.ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    known = set(re.findall(r"\d+(?:\.\d+)?", text))
    rows = [line.strip("|").split("|") for line in block.splitlines() if line.startswith("| ")]
    figures = {
        figure for row in rows[1:] for figure in re.findall(r"\d+(?:\.\d+)?", "|".join(row[1:]))
    }
    assert figures - {"0"} <= known
    means = re.findall(r"\*\*(\d+\.\d+)\*\*", block)
    assert means
    assert means == re.findall(r"geometric mean \*\*(\d+\.\d+)\*\*", text)[: len(means)]
    titles = {row[0].strip() for row in rows}
    assert {one.title for one in bench.SET.values()} <= titles


def test_no_other_options_choose_what_the_page_shows() -> None:
    with pytest.raises(SystemExit):
        bench.parse(["--page", "mlp"])
    levels = bench.levels_of(bench.parse(["--page", "--level", "x86-64-v2"]))
    assert levels == ["x86-64-v2"]


def test_the_plotted_models_are_measured_last_with_more_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, dict[str, tuple[int, ...]], int]] = []

    def run(
        rows_of: dict[str, tuple[int, ...]], level: str, settings: Settings, *_: object
    ) -> tuple[Compared, ...]:
        asked.append((level, rows_of, settings.threads))
        return ()

    monkeypatch.setattr(bench, "run", run)
    levels = ["--level", "x86-64-v4", "--level", "x86-64-v3"]
    assert list(bench.measure(["mlp"], bench.parse(["--page", *levels]), tmp_path)) == []
    assert asked == [
        ("x86-64-v4", {"mlp": (1, 5, 16, 24, 64)}, 1),
        ("x86-64-v3", {"mlp": (1, 5, 16, 24, 64)}, 1),
        ("x86-64-v4", {"mlp": (1, 5, 16, 24, 64)}, 2),
        ("x86-64-v4", dict.fromkeys(("mlp", "xception", "gru"), bench.STAIRS), 1),
    ]
