"""Statistics of a comparison, what counts as the best other runtime, and the tables and plots."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from modelwheel.bench.plots import write_plots
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
from modelwheel.bench.statistics import Spread, geometric_mean, ratios, spread
from modelwheel.bench.work import operations_of, products, work_of_row
from modelwheel.cli.display.bench import print_compared, print_machine, print_mean
from modelwheel.program import ops
from modelwheel.program.steps import Step
from tests.support import programs
from tests.support.programs import branches, conditional, dense, loop, part, program


def test_half_of_the_values_are_in_the_spread() -> None:
    assert spread([5.0, 1.0, 4.0, 2.0, 3.0]) == Spread(median=3, low=2, high=4)
    assert spread([7.0]) == Spread(median=7, low=7, high=7)


def test_ratios_are_those_of_each_round() -> None:
    """The second round was slow for both: the ratio of the medians would be another."""
    assert ratios([20.0, 400.0, 60.0], [10.0, 100.0, 20.0]).median == 3


def test_the_geometric_mean_of_a_ratio_and_its_inverse_is_one() -> None:
    assert geometric_mean([4.0, 0.25]) == pytest.approx(1)
    assert geometric_mean([]) is None


def cell(kind: Kind, us: float, ratio: float | None, gflops: float | None = None) -> Cell:
    times = None if ratio is None else spread([ratio])
    return Cell(kind=kind, us=spread([us]), ratio=times, latency=(us, us, us), gflops=gflops)


CASE = Case(
    rows=4,
    rule="4:4",
    work=1000,
    peak_gflops=100,
    cells=(
        cell("wheel", 10, None, 50),
        cell("onnxruntime", 30, 3),
        Cell(kind="openvino", error="outputs differ: y by 1.0e+00, of 2.0e+00"),
        cell("litert", 20, 2),
        cell("xla", 5, 0.5),
    ),
)
COMPARED = Compared(
    model="tagger",
    version="1.0.0",
    level="x86-64-v3",
    threads=1,
    wheel_bytes=5000,
    weights_bytes=4000,
    saved_model_bytes=8000,
    build_seconds=None,
    sides=(
        Side(kind="tensorflow", error="not installed"),
        Side(kind="wheel", version="1.0.0", first_ms=1.5, memory=2_000_000),
    ),
    cases=(CASE,),
)
MACHINE = Machine(
    date="2026-01-01",
    cpu="A CPU",
    level="x86-64-v4",
    cores=2,
    load_average=0.5,
    system="Linux",
    python="3.11",
    modelwheel="0.1.0",
)
BENCHMARK = Benchmark(machine=MACHINE, models=(COMPARED,))


def test_the_best_is_the_quickest_that_a_consumer_could_use() -> None:
    """XLA's jit is quicker, but needs TensorFlow."""
    assert CASE.best == CASE.cell("litert")
    assert CASE.share == 0.5
    assert BENCHMARK.mean == pytest.approx(2)


def test_without_such_a_runtime_it_is_the_quickest_of_all() -> None:
    alone = CASE.model_copy(update={"cells": (CASE.cells[0], CASE.cells[4])})
    assert alone.best == CASE.cell("xla")
    nobody = CASE.model_copy(update={"cells": CASE.cells[:1]})
    assert nobody.best is None


def shown(compared: Compared) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    print_machine(console, MACHINE, [compared])
    print_compared(console, compared)
    print_mean(console, BENCHMARK)
    return console.export_text()


def test_calls_with_new_arrays_have_a_table_of_their_own() -> None:
    assert "new arrays" not in shown(COMPARED)
    slow = Timing(us=spread([70]), ratio=spread([7]))
    ours = CASE.cells[0].model_copy(update={"new_arrays": Timing(us=spread([11]))})
    theirs = CASE.cells[1].model_copy(update={"new_arrays": slow})
    refused = CASE.cells[3].model_copy(update={"new_arrays": Timing(error="it wants bound arrays")})
    case = CASE.model_copy(update={"cells": (ours, theirs, refused)})
    trace = Trace(rows=(1, 4), cells=(CASE.cells[0], CASE.cells[1]))
    text = shown(COMPARED.model_copy(update={"cases": (case,), "trace": trace}))
    rows = [line.split() for line in text.partition("Calls with new")[2].splitlines()]
    assert ["4", "one", "after", "another", "11.0", "70.0", "failed", "7.00", "(7.00-7.00)"] in rows
    assert [
        "1",
        "to",
        "4",
        "one",
        "after",
        "another",
        "10.0",
        "30.0",
        "3.00",
        "(3.00-3.00)",
    ] in rows
    assert "LiteRT with 4 rows in new arrays: it wants bound arrays" in text


def test_the_table_says_what_was_measured_and_what_was_not() -> None:
    text = shown(COMPARED)
    (row,) = (line.split() for line in text.splitlines() if line.strip().startswith("4 "))
    assert row[:9] == ["4", "10.0", "30.0", "differs", "20.0", "5.0", "2.00", "(2.00-2.00)", "10.0"]
    assert row[-2:] == ["50.0", "50%"]
    assert "OpenVINO with 4 rows: outputs differ: y by 1.0e+00, of 2.0e+00" in text
    assert "TensorFlow: not installed" in text
    assert "wheel: 1.0.0: first prediction 1.5 ms after NumPy's import, 2 MB" in text
    assert "A CPU" in text
    assert text.splitlines()[-1] == (
        "Geometric mean over 1 cell: the best other runtime takes 2.00 times as long"
    )


@pytest.mark.parametrize(
    ("level", "lowered", "said"),
    [
        ("x86-64-v3", {"litert", "xla"}, "; other runtimes see an x86-64-v3 CPU"),
        ("x86-64-v3", {"litert"}, "; other runtimes see an x86-64-v3 CPU (the whole one: XLA jit)"),
        ("x86-64-v3", set(), "; other runtimes use the whole CPU beside x86-64-v3"),
        ("x86-64-v4", set(), ""),
    ],
)
def test_the_line_about_the_machine_says_which_cpu_others_see(
    level: str, lowered: set[Kind], said: str
) -> None:
    others = (
        Side(kind="wheel", version="1.0.0"),
        Side(kind="openvino", error="it crashed"),
        Side(kind="litert", version="2.0", lowered="litert" in lowered),
        Side(kind="xla", version="2.21", lowered="xla" in lowered),
    )
    console = Console(width=200, record=True, file=io.StringIO())
    print_machine(
        console, MACHINE, [COMPARED.model_copy(update={"level": level, "sides": others})] * 2
    )
    assert console.export_text() == (
        "2026-01-01: A CPU, cores: 2, load average 0.5; Linux; Python 3.11; modelwheel 0.1.0"
        f"{said}\n"
    )


def test_json_has_all_of_it(tmp_path: Path) -> None:
    BENCHMARK.save(tmp_path / "bench.json")
    assert Benchmark.load(tmp_path / "bench.json") == BENCHMARK
    assert json.loads(BENCHMARK.to_json())["models"][0]["cases"][0]["cells"][0]["kind"] == "wheel"


def test_plots_are_the_same_for_the_same_figures(tmp_path: Path) -> None:
    first = write_plots(BENCHMARK, tmp_path / "first")
    second = write_plots(BENCHMARK, tmp_path / "second")
    assert [path.name for path in first] == ["tagger-x86-64-v3-1.svg", "peak.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert b">LiteRT<" in first[0].read_bytes()
    assert b">OpenVINO<" not in first[0].read_bytes()


# --- arithmetic -----------------------------------------------------------------------------------


def dot(operations: int) -> Step:
    square = dense((2, 2))
    return programs.dot(square, square, square, operations)


def test_loops_count_by_their_trip_count_and_branches_by_the_largest() -> None:
    choice = conditional(part(0, size=4), (dot(3),), (dot(5),))
    repeated = loop(dot(7), choice, trip_count=10)
    assert products(program(dot(1), repeated)) == 1 + 10 * (7 + 5)
    both = branches((repeated,), (dot(2), dot(3)))
    assert products(program(both)) == 10 * (7 + 5) + 2 + 3


def test_a_row_needs_what_most_batch_sizes_say() -> None:
    """XLA writes the products of a single row as ordinary loops, which do not count."""
    assert work_of_row({1: program(), 4: program(dot(40))}) == 10
    assert work_of_row({}) is None


def test_nobody_knows_the_work_of_loops_without_a_trip_count() -> None:
    endless = loop(dot(7), trip_count=None, value=part(0, size=1))
    assert work_of_row({4: program(dot(40), endless)}) is None


def convolution(window: ops.Window, positions: int) -> Step:
    """Along a single axis, of one feature: one operation for each element of the result and of the kernel."""
    axes = ops.Axes(batch=0, feature=2, spatial=(1,))
    return Step(
        op=ops.Convolution(
            input_axes=axes,
            kernel_axes=axes,
            output_axes=axes,
            windows=(window,),
            feature_groups=1,
        ),
        inputs={"input": dense((1, 5, 1)), "kernel": dense((1, window.size, 1))},
        outputs={"out": dense((1, positions, 1))},
        operations=positions * window.size,
    )


@pytest.mark.parametrize(
    ("size", "pad", "positions", "met"),
    [
        (2, 1, 10, 10),  # each position meets one element of two
        (3, 1, 9, 4 * 2 + 5),  # every second position meets two, others one
        (3, 2, 11, 6 * 2 + 5),  # the padding counts as in other convolutions
    ],
)
def test_zeros_between_the_input_are_no_work(size: int, pad: int, positions: int, met: int) -> None:
    fields = {"stride": 1, "kernel_dilation": 1, "reversed": False}
    padded = {"size": size, "pad_low": pad, "pad_high": pad}
    plain = convolution(ops.Window(base_dilation=1, **padded, **fields), positions)  # type: ignore[arg-type]
    transposed = convolution(ops.Window(base_dilation=2, **padded, **fields), positions)  # type: ignore[arg-type]
    assert operations_of(plain) == plain.operations == positions * size
    assert operations_of(transposed) == met
    assert products(program(plain, transposed)) == positions * size + met
