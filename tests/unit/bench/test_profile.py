"""Profiles: a clock after each step of the generated code, what the program prints, the table and the flame graph."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from modelwheel.bench.profile import Layer, Profile, Step, parse, write_inputs
from modelwheel.bench.profile_plots import boxes, write_flames, write_roofline
from modelwheel.cli.display.profile import print_profile
from modelwheel.codegen.sources import CompiledVariant, level_source
from modelwheel.levels import LEVELS
from modelwheel.program import steps
from modelwheel.program.arrays import Allocation
from modelwheel.program.walk import leaves
from modelwheel.signature import Signature, Tensor
from tests.support.programs import copy, loop, part, program
from tests.unit.bench.test_results import MACHINE

COPY = copy(part(0, size=4), part(0, size=4))


def looped() -> tuple[steps.Step, ...]:
    return (COPY, loop(COPY, COPY, trip_count=3), COPY)


def source(*, profiled: bool) -> str:
    memory = (Allocation(index=0, size=4, kind="temporary"),)
    made = program(*looped()).model_copy(update={"allocations": memory})
    return level_source(
        LEVELS["x86-64"], [CompiledVariant(1, "b1", made, 1.0)], {}, 0, profiled=profiled
    )


def test_every_step_is_counted_where_it_is_written() -> None:
    """The numbers are those of `leaves`: loops have none of their own."""
    text = source(profiled=True)
    numbers = [int(number) for number in re.findall(r"end_of_step\((\d+)\);", text)]
    assert numbers == [0, 1, 2, 3] == list(range(len(list(leaves(looped())))))
    assert [runs for _, runs in leaves(looped())] == [1, 3, 3, 1]
    assert text.index("start_of_steps") < text.index("end_of_step(0)")
    assert text.index("for (") < text.index("end_of_step(1)") < text.index("end_of_step(2)")


def test_shipped_code_reads_no_clock() -> None:
    plain = source(profiled=False)
    assert "profile" not in plain
    profiled = [line for line in source(profiled=True).splitlines() if "_step" not in line]
    assert [line for line in profiled if "profile" not in line] == plain.splitlines()


def test_ticks_become_microseconds_of_one_run() -> None:
    """Ten runs took 4 ms and 8000 ticks."""
    (found,) = parse("1 4000000 8000 10\n2000 10\n4000 30\n")
    assert found.us == pytest.approx(400)
    assert [us for us, _ in found.steps] == pytest.approx([100, 200])
    assert [runs for _, runs in found.steps] == [1, 3]
    with pytest.raises(ValueError, match="unpack"):
        parse("")


def test_rounds_of_one_thread_and_of_all_take_turns() -> None:
    """The round with the median time counts, so an interrupted one does not."""
    rounds = [
        "1 4000000 8000 10\n2000 10\n",
        "2 3000000 6000 10\n1000 10\n",
        "1 9000000 18000 10\n12000 10\n",
        "2 3000000 6000 10\n1000 10\n",
        "1 4000000 8000 10\n2000 10\n",
        "2 7000000 14000 10\n9000 10\n",
    ]
    alone, together = parse("\n".join(rounds))
    assert (alone.us, together.us) == pytest.approx((400, 300))
    assert list(alone.steps[0]) == pytest.approx([100, 1])
    assert list(together.steps[0]) == pytest.approx([50, 1])


def test_inputs_are_repeated_and_those_without_rows_are_not(tmp_path: Path) -> None:
    signature = Signature(
        inputs=(
            Tensor(name="x", c_name="x", dtype="float32", shape=(None, 2), leading_per_row=1),
            Tensor(name="k", c_name="k", dtype="int32", shape=(1,), leading_per_row=0),
        ),
        outputs=(),
    )
    x, k = np.array([[1, 2], [3, 4]], np.float32), np.array([7], np.int32)
    arrays: dict[str, Any] = {"in/x": x, "in/k": k}
    np.savez(tmp_path / "reference.npz", **arrays)
    write_inputs(tmp_path / "reference.npz", signature, 3, tmp_path / "inputs.bin")
    content = (tmp_path / "inputs.bin").read_bytes()
    assert np.frombuffer(content[:24], np.float32).tolist() == [1, 2, 3, 4, 1, 2]
    assert np.frombuffer(content[24:], np.int32).tolist() == [7]


def step(number: int, kind: str, layer: str, us: float, operations: int = 0) -> Step:
    return Step(
        number=number,
        kind=kind,
        what="[w]",
        layer=layer,
        runs=1,
        us=us,
        operations=operations,
        bytes=round(us * 1000),
    )


PROFILE = Profile(
    machine=MACHINE,
    model="tagger",
    level="x86-64-v3",
    batch_size=4,
    us=110,
    peak_gflops=100,
    bandwidth=10,
    steps=(
        step(0, "dot", "net/a/MatMul", 60, 3_000_000),
        step(1, "kernel", "net/a/Relu", 30),
        step(2, "kernel", "net/b/Relu", 9.9),
        step(3, "copy", "", 0.1),
    ),
)


def test_the_table_has_what_threads_gain() -> None:
    console = Console(width=160, record=True, file=io.StringIO())
    taken = (40.0, 30.0, 19.8, 0.1)
    steps = [
        one.model_copy(update={"threaded_us": us})
        for one, us in zip(PROFILE.steps, taken, strict=True)
    ]
    print_profile(
        console,
        PROFILE.model_copy(update={"threads": 2, "threaded_us": 100.0, "steps": tuple(steps)}),
    )
    said = console.export_text()
    assert "2 threads" in said
    assert [float(gain) for gain in re.findall(r"x (\d\.\d\d)", said)] == [1.5, 1.0, 0.5, 1.0]
    assert "With 2 threads, one run takes 100 µs: 1.10 times as fast" in said


def test_the_table_has_the_longest_steps_first_and_sums_up_the_short_ones() -> None:
    console = Console(width=160, record=True, file=io.StringIO())
    print_profile(console, PROFILE)
    lines = [line.split() for line in console.export_text().splitlines() if line.strip()]
    assert lines[3] == [
        *("0", "dot", "[w]", "net/a/MatMul", "60.00", "60.0%", "50.0", "50%", "1.0"),
    ]
    assert [line[0] for line in lines[3:6]] == ["0", "1", "2"]
    assert lines[6] == ["1", "others", "0.10", "0.1%"]
    assert (
        "3.0 million operations, 27.3 GFLOP/s in the whole run, which is 27.3 % of the 100 GFLOP/s"
        in " ".join(lines[-1])
    )


def test_steps_are_added_up_by_layer() -> None:
    fused = PROFILE.steps[1].model_copy(update={"fused": ("net/a/Add", "net/b/Neg")})
    profile = PROFILE.model_copy(update={"steps": (PROFILE.steps[0], fused, *PROFILE.steps[2:])})
    assert profile.layers == [Layer("net/a", 2, 90), Layer("net/b", 1, 9.9), Layer("", 1, 0.1)]
    console = Console(width=160, record=True, file=io.StringIO())
    print_profile(console, profile)
    lines = [line.split() for line in console.export_text().splitlines()]
    assert ["net/a", "2", "90.00", "90.0%"] in lines
    assert ["1", "others", "1", "0.10", "0.1%"] in lines
    assert any(line[3:6] == ["net/a/Relu", "+", "2"] for line in lines)


def test_boxes_lie_in_those_of_the_layers_above(tmp_path: Path) -> None:
    found = list(boxes(PROFILE.steps))
    by_name = {box.name: box for box in found if box.depth < 3}
    assert by_name["net"].width == pytest.approx(99.9)
    assert by_name["a"].width == pytest.approx(90)
    assert by_name["b"].start == pytest.approx(by_name["a"].start + 90)
    inside = [box for box in found if box.depth == 3]
    assert sum(box.width for box in inside) == pytest.approx(99.9)
    write_flames(PROFILE, tmp_path / "flames.svg")
    assert b">net<" in (tmp_path / "flames.svg").read_bytes()


def test_the_roofline_is_drawn_for_products_alone(tmp_path: Path) -> None:
    write_roofline(PROFILE, tmp_path / "roofline.svg")
    first = (tmp_path / "roofline.svg").read_bytes()
    kernels = [one.model_copy(update={"operations": 5}) for one in PROFILE.steps[1:]]
    changed = PROFILE.model_copy(update={"steps": (PROFILE.steps[0], *kernels)})
    write_roofline(changed, tmp_path / "roofline.svg")
    assert (tmp_path / "roofline.svg").read_bytes() == first


def test_json_has_all_of_it() -> None:
    assert Profile.model_validate_json(PROFILE.to_json()) == PROFILE
