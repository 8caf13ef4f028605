"""Loops, choices and branches as C++."""

from __future__ import annotations

from modelwheel.codegen.calls import CALLS
from modelwheel.codegen.writer import StepWriter
from modelwheel.program.arrays import Slice
from modelwheel.program.steps import Step
from tests.support.programs import branches, conditional, copy, kernel, loop, matmul_program


def _writer() -> StepWriter:
    return StepWriter(CALLS, prefix="b")


def test_loops_and_choices_are_written_as_such() -> None:
    flag = Slice(allocation=3, offset=8, size=1)
    endless = loop(copy(flag, flag), trip_count=None, condition=(copy(flag, flag),), value=flag)
    choice = conditional(flag, (copy(flag, flag),), ())
    lines = "\n".join(_writer().write((endless, choice)))
    assert "if (*(a3 + 8) == 0) break;" in lines
    assert "switch (branch_of(a3 + 8, 1, 2)) {" in lines


def _loops(operations: int, count: int = 2) -> Step:
    """Branches with a loop of one product each."""
    (product,) = matmul_program().steps
    inner = product.model_copy(update={"operations": operations})
    return branches(*[(loop(inner, trip_count=10),)] * count)


def test_threads_run_branches_in_parallel() -> None:
    writer = _writer()
    (call,) = writer.write([_loops(120_000)])
    assert call == (
        "  if (!run_branches({threads, 2}, 1, [&](std::int64_t number, const Threads &own, char *memory) "
        "{ return branches_b_0(number, in, out, arena, own, rows, memory); }, arena + 0)) return false;"
    )
    assert "parts/branches.h" in writer.headers
    # Each has scratch memory of its own, and the first thread all of it if it is alone.
    assert writer.scratch.parts == [f"dot_scratch<float>(b_dot_{number})" for number in (0, 1)]
    (end,) = writer.scratch.ends
    assert end.count("dot_scratch<float>(b_dot_") == 2
    (function,) = writer.functions
    lines = [line.strip() for line in function.lines]
    assert [line for line in lines if line.endswith(":")] == ["case 0:", "default:"]
    assert lines.count("return true;") == 2


def test_steps_of_branches_have_parts_for_more_threads() -> None:
    writer = _writer()
    (call,) = writer.write([_loops(3_000_000)])
    assert "run_branches({threads, 2}, 5, " in call
    assert sum("dot_in_parts" in line for line in writer.functions[0].lines) == 2
    # As scratch memory of a part, and of a branch that has a thread to itself.
    assert {"dot_part_scratch<float>(b_dot_0, 5)", "dot_scratch<float>(b_dot_0)"} < set(
        writer.scratch.parts
    )


def test_branches_that_are_not_worth_it_follow_each_other() -> None:
    writer = _writer()
    lines = writer.write([_loops(100)])
    assert [line for line in lines if "for (" in line] == [
        "  for (std::int64_t trip = 0; trip < 10; ++trip) {"
    ] * 2
    assert (writer.functions, writer.scratch.parts) == ([], [])


def test_a_clock_is_read_after_each_step_that_has_no_others_in_it() -> None:
    writer = StepWriter(CALLS, prefix="b", profiled=True)
    lines = writer.write([loop(kernel(), kernel()), kernel()])
    assert [line.strip() for line in lines if "end_of_step" in line] == [
        f"end_of_step({number});" for number in range(3)
    ]
