"""What the pages of the catalogue are made of: the grid of wheels, plots, and programs to paste."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from modelwheel.assembly.manifest import Manifest
from modelwheel.index.site.changes import changes_of
from modelwheel.index.site.charts import (
    draw_errors,
    draw_speed,
    machines_of,
    split_rows,
)
from modelwheel.index.site.grid import Grid, make_grid, place_of
from modelwheel.index.site.projects import Release, group_projects
from modelwheel.index.site.usage import build_texts, example_programs
from modelwheel.index.site.wheels import IndexedWheel, read_files
from modelwheel.signature import Tensor, ValidRange
from modelwheel.wheelfile.reports import Comparison, Timing, write_timings
from tests.support.index_wheels import make_manifest, make_wheel
from tests.support.many_wheels import CPU, describe, make_release


def read(directory: Path) -> list[IndexedWheel]:
    return [f for f in read_files(directory.glob("*.whl")) if isinstance(f, IndexedWheel)]


def grid_of(directory: Path, *tags: str) -> Grid:
    for tag in tags:
        make_wheel(directory, "digits", tag=tag)
    return make_grid(read(directory))


def release_of(directory: Path) -> Release:
    (project,) = group_projects(read_files(directory.glob("*.whl")))
    return project.newest


# --- the grid --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "name", "oldest"),
    [
        ("manylinux_2_28_x86_64", "Linux x86-64", "glibc 2.28"),
        ("manylinux2014_x86_64.manylinux_2_17_x86_64", "Linux x86-64", "glibc 2.17"),
        ("manylinux_2_27_aarch64.manylinux_2_28_aarch64", "Linux Arm64", "glibc 2.27"),
        ("musllinux_1_2_aarch64", "Linux Arm64 musl", "musl 1.2"),
        ("macosx_11_0_arm64", "macOS Arm64", "11"),
        ("macosx_10_15_x86_64", "macOS x86-64", "10.15"),
        ("win_amd64", "Windows x86-64", ""),
        ("win_arm64", "Windows Arm64", ""),
        ("linux_x86_64", "Linux x86-64", "as where it was built"),
        ("any", "Any system", ""),
    ],
)
def test_platforms_are_named(tmp_path: Path, tag: str, name: str, oldest: str) -> None:
    make_wheel(tmp_path, "digits", tag=f"py3-none-{tag}")
    place = place_of(read(tmp_path)[0])
    assert (place.name, place.oldest) == (name, oldest)


def test_each_python_has_its_column_and_free_threaded_ones_come_last(tmp_path: Path) -> None:
    grid = grid_of(tmp_path, "cp314-cp314-win_amd64", "cp314-cp314t-win_amd64")
    assert grid.pythons == ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15", "3.14t", "3.15t")
    (row,) = grid.rows
    names = [cell.wheel.name if cell.wheel else "" for cell in row.cells]
    plain, threaded = names[4], names[6]
    assert ("-cp314-cp314-" in plain, "-cp314-cp314t-" in threaded) == (True, True)
    assert [name for name in names if name] == [plain, threaded]


def test_stable_abis_span_what_they_serve(tmp_path: Path) -> None:
    tags = ("cp311-cp311-win_amd64", "cp312-abi3-win_amd64", "cp315-abi3t-win_amd64")
    (row,) = grid_of(tmp_path, *tags).rows
    spans = [(cell.wheel.name.split("-")[2] if cell.wheel else "", cell.columns) for cell in row.cells]  # fmt: skip
    assert spans == [("", 1), ("cp311", 1), ("cp312", 4), ("", 1), ("cp315", 1)]


def test_a_python_that_this_version_does_not_know_has_a_column(tmp_path: Path) -> None:
    assert grid_of(tmp_path, "cp399-cp399-win_amd64").pythons[-3] == "3.99"


def test_systems_are_listed_in_their_order(tmp_path: Path) -> None:
    tags = ("win_amd64", "macosx_11_0_arm64", "musllinux_1_2_x86_64", "manylinux_2_28_x86_64")
    grid = grid_of(tmp_path, *(f"py3-none-{tag}" for tag in tags))
    names = [row.place.name for row in grid.rows]
    assert names == ["Linux x86-64", "Linux x86-64 musl", "macOS Arm64", "Windows x86-64"]


# --- plots -----------------------------------------------------------------------------------------


def test_rows_are_split_as_the_library_does() -> None:
    manifest = describe("net", 0)
    splits = split_rows(manifest, "x86-64-v4", 23)
    assert (splits[1], splits[2], splits[3], splits[7]) == ([1], [1, 1], [4], [4, 4])
    assert (splits[16], splits[23]) == ([16], [16, 4, 4])
    smallest = manifest.batching.model_copy(update={"strategy": "smallest", "rules": ("3:1,1,1",)})
    splits = split_rows(manifest.model_copy(update={"batching": smallest}), "x86-64-v4", 5)
    assert splits[3:] == [[1, 1, 1], [4], [1, 4]]
    fixed = manifest.batching.model_copy(update={"no_emulation_reason": "rows meet"})
    splits = split_rows(manifest.model_copy(update={"batching": fixed}), "x86-64-v4", 5)
    assert splits[1:] == [[1], [], [], [4], []]


def test_a_plot_has_measured_times_and_the_sums_of_parts(tmp_path: Path) -> None:
    make_release(tmp_path, "net", platforms=["win_amd64"], pythons=["cp313"])
    (machine,) = machines_of(release_of(tmp_path))
    plot = draw_speed(machine)
    assert plot.where == f"{CPU}, x86-64-v4"
    columns = {column.rows: column for column in plot.columns}
    assert [n for n, column in columns.items() if column.measured] == [1, 4, 16]
    assert (columns[1].time, columns[4].time) == ("5.2 µs", "2.95 µs")
    assert columns[20].time == "2.49 µs"  # (38 + 11.8) / 20
    assert (columns[20].split, columns[3].split) == ("16 + 4", "4, of which 1 padded")
    assert [block.kind for block in columns[20].blocks] == [2, 1]
    heights = [float(columns[n].height.rstrip("%")) for n in (1, 4, 16)]
    assert heights == sorted(heights, reverse=True)
    assert plot.ticks[0].text == "0"
    assert [tick.text for tick in plot.ticks[1:]] == ["2 µs", "4 µs", "6 µs"]


def test_times_of_several_pythons_on_one_machine_are_one_plot(tmp_path: Path) -> None:
    for python in ("cp312", "cp313"):
        wheel = make_wheel(tmp_path, "net", tag=f"{python}-{python}-win_amd64")
        faster = 2 if python == "cp313" else 1
        write_timings([Timing(level="x86-64", rows=1, rule="1:1", nanoseconds=100 / faster, cpu=CPU)], wheel)  # fmt: skip
    (machine,) = machines_of(release_of(tmp_path))
    assert [timing.nanoseconds for timing in machine.timings.values()] == [50]


def test_times_of_an_older_measurement_say_that_the_cpu_is_not_known(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "net")
    write_timings([Timing(level="x86-64", rows=1, rule="1:1", nanoseconds=100)], wheel)
    (machine,) = machines_of(release_of(tmp_path))
    assert draw_speed(machine).where == "CPU not recorded, x86-64"


def compare(output: str, level: str, absolute: float, limit: float = 1.0) -> Comparison:
    return Comparison(
        level=level, rows=1, rule="1:1", output=output, absolute=absolute, relative=0, limit=limit,
        passed=absolute <= limit,
    )  # fmt: skip


def test_errors_in_one_sentence() -> None:
    both = [compare("a", "x86-64", 0.1), compare("a", "x86-64-v3", 0.18)]
    plot = draw_errors(both)
    assert plot is not None
    assert (
        plot.sentence == "Within 18.0 % of the allowed error at every CPU level, in 2 comparisons"
    )
    assert [dot.left for _, dots in plot.outputs for dot in dots] == ["10.00%", "18.00%"]
    beyond = draw_errors([*both, compare("b", "x86-64", 7)])
    assert beyond is not None
    assert beyond.sentence == "1 of 3 comparisons beyond the allowed error"
    assert beyond.outputs[0][0] == "b"
    assert not beyond.outputs[0][1][0].passed
    equal = draw_errors([compare("a", "x86-64", 0, limit=0)])
    assert equal is not None
    assert equal.sentence == "Equal to the reference at x86-64, in 1 comparison"
    assert draw_errors([]) is None


def test_of_many_outputs_those_nearest_to_their_limits_are_drawn() -> None:
    plot = draw_errors([compare(f"o{n}", "x86-64", n / 20) for n in range(12)])
    assert plot is not None
    assert [label for label, _ in plot.outputs] == [f"o{n}" for n in range(11, 3, -1)]
    assert plot.left_out == 4


def test_a_version_with_other_weights_says_so(tmp_path: Path) -> None:
    old, new = make_manifest("net"), make_manifest("net")
    source = new.provenance.source | {"commit": "f" * 40}
    provenance = new.provenance.model_copy(update={"tree_sha256": "cd" * 32, "source": source})
    make_wheel(tmp_path, "net", version="1", manifest=old)
    make_wheel(
        tmp_path, "net", version="2", manifest=new.model_copy(update={"provenance": provenance})
    )
    (project,) = group_projects(read_files(tmp_path.glob("*.whl")))
    first, changed = project.releases
    assert changes_of(None, changed) == ["first version"]
    assert changes_of(first, changed) == ["model of commit ffffffffffff, was 0123456789ab"]
    assert changes_of(first, first) == []


# --- programs --------------------------------------------------------------------------------------


def manifest_with(*inputs: Tensor) -> Manifest:
    manifest = make_manifest("net")
    signature = manifest.signature.model_copy(update={"inputs": inputs})
    return manifest.model_copy(update={"signature": signature})


def tensor(name: str, dtype: str = "float32", *valid: ValidRange) -> Tensor:
    return Tensor(name=name, c_name=name, dtype=dtype, shape=(None, 3), leading_per_row=1, valid=valid)  # fmt: skip


def test_names_of_inputs_do_not_hide_those_of_the_program() -> None:
    programs = {
        p.name: p.text for p in example_programs(manifest_with(tensor("model"), tensor("np")))
    }
    names = [node.id for node in ast.walk(ast.parse(programs["Python"])) if isinstance(node, ast.Name)]  # fmt: skip
    assert {"model_", "np_"} <= set(names)
    assert "scores = model(model_, np_)" in programs["Python"]


def test_values_are_valid() -> None:
    bound = ValidRange(low=1, high=9)
    inputs = [tensor("number", "int32", bound), tensor("half", "float16", bound), tensor("short", "bfloat16", bound)]  # fmt: skip
    programs = {p.name: p.text for p in example_programs(manifest_with(*inputs))}
    assert 'number = np.full((1, 3), 1, "int32")' in programs["Python"]
    assert "input_0[i] = (int32_t)1;" in programs["C"]
    assert "input_1[i] = (uint16_t)0x3c00;" in programs["C"]
    assert "input_2[i] = (uint16_t)0x3f80;" in programs["C"]
    assert "number(3, std::int32_t(1))" in programs["C++"]


def test_a_wheel_for_c_alone_is_built_by_cmake_as_c() -> None:
    manifest = make_manifest("net")
    model = manifest.model.model_copy(update={"interfaces": ("c",)})
    manifest = manifest.model_copy(update={"model": model})
    assert [program.name for program in example_programs(manifest)] == ["Python", "C"]
    cmake, _ = build_texts(manifest, "pip install x")
    assert "project(program LANGUAGES C)" in cmake.text
    assert "add_executable(program program.c)" in cmake.text
