"""Where the allocations of a program are at run time."""

from __future__ import annotations

import pytest

from modelwheel.codegen.memory import ScratchPlace, plan_memory
from modelwheel.errors import UnsupportedProgramError
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.program import Program
from modelwheel.program.view import View
from tests.support.programs import dense, dot, kernel, loop, matmul_program, part


def test_a_result_that_fills_its_allocation_is_written_in_place() -> None:
    memory = plan_memory(matmul_program(), {"ab" * 32: 128}, random_states=0)
    assert memory.pointers == {0: "input(in[0])", 1: "constant(128)", 2: "output(out[0])"}
    assert memory.result_copies == ()
    assert (memory.input_staging, memory.output_staging) == ((0,), (64,))
    assert (memory.scratch, memory.end) == ((ScratchPlace(128),), 128)


@pytest.mark.parametrize("case", ["shared allocation", "duplicate result", "parameter", "offset"])
def test_a_result_that_lies_elsewhere_is_copied(case: str) -> None:
    program = matmul_program()
    (y,) = program.results
    results = {
        "shared allocation": (dense((1, 3), 2), dense((1, 3), 2, offset=12)),
        "duplicate result": (y, y),
        "parameter": (y, dense((2, 4), 0)),
        "offset": (dense((1, 3), 2, offset=12),),
    }[case]
    program = program.model_copy(update={"results": results})
    memory = plan_memory(program, {"ab" * 32: 0}, random_states=0)
    copied = {copy.target for copy in memory.result_copies}
    expected = {1} if case == "parameter" else set(range(len(results)))
    assert copied == {f"out[{number}]" for number in expected}


def _counting(update: View) -> Program:
    """A program whose last parameter is state; `update` is its new value."""
    program = matmul_program()
    state = Allocation(index=5, size=16, kind="parameter", parameter=1)
    return program.model_copy(
        update={
            "allocations": (*program.allocations, state),
            "parameters": (*program.parameters, dense((1, 4), 5)),
            "results": (*program.results, update),
            "state": (1,),
        }
    )


def test_state_is_a_parameter_that_is_written_in_place_or_by_a_copy() -> None:
    program = _counting(dense((1, 4), 5))
    reads = dot(dense((1, 4), 5), dense((4, 3), 1), dense((1, 3), 2))
    program = program.model_copy(update={"steps": (reads,)})
    memory = plan_memory(program, {"ab" * 32: 0}, random_states=0)
    assert memory.pointers[5] == "state(in[1])"
    assert memory.result_copies == ()
    # Neither the state nor its new value is a buffer of the caller that may need a copy.
    assert (len(memory.input_staging), len(memory.output_staging)) == (1, 1)
    program = _counting(dense((1, 4), 0))
    (copy,) = plan_memory(program, {"ab" * 32: 0}, random_states=0).result_copies
    assert (copy.target, copy.allocation, copy.size) == ("state(in[1])", 0, 16)


def test_state_that_would_be_overwritten_before_it_is_copied_is_refused() -> None:
    program = _counting(dense((1, 4), 5, offset=8))
    with pytest.raises(UnsupportedProgramError, match="memory of another part of the state"):
        plan_memory(program, {"ab" * 32: 0}, random_states=0)


def test_random_states_come_first_in_the_arena() -> None:
    memory = plan_memory(matmul_program(), {"ab" * 32: 0}, random_states=5)
    assert memory.input_staging == (128,)


def test_the_code_skips_inputs_that_nothing_uses() -> None:
    memory = plan_memory(matmul_program(), {"ab" * 32: 128}, 0, inputs=[False, True, False])
    assert memory.pointers[0] == "input(in[1])"
    assert memory.input_staging == ("ignored_input", 0, "ignored_input")


def test_memory_that_is_not_used_after_some_place_is_not_reserved() -> None:
    program = matmul_program()
    large = Allocation(index=7, size=1 << 20, kind="temporary")
    reads = dot(dense((2, 4), 7, offset=64), dense((4, 3), 1), dense((2, 3), 2))
    changes = {"allocations": (*program.allocations, large), "steps": (reads,)}
    memory = plan_memory(program.model_copy(update=changes), {"ab" * 32: 0}, random_states=0)
    assert memory.pointers[7] == "arena + 0"
    # 64 + 2 x 4 x 4 bytes are used, as the input of the only step. Staging is in gaps: of the input before, of the
    # output behind.
    assert (memory.input_staging, memory.output_staging) == ((0,), (128,))
    assert memory.end == 192
    assert memory.scratch == (ScratchPlace(192),)


def test_memory_that_a_loop_goes_through_is_reserved_for_all_iterations() -> None:
    program = matmul_program()
    states = Allocation(index=7, size=256, kind="temporary")
    last = Allocation(index=8, size=1024, kind="temporary")
    moving = Slice(allocation=7, offset=0, size=64, step=64, iterations=4)
    steps = (loop(kernel(writes=moving), trip_count=4), kernel(writes=part(8, size=1024)))
    changes = {"allocations": (*program.allocations, states, last), "steps": steps}
    memory = plan_memory(program.model_copy(update=changes), {"ab" * 32: 0}, random_states=0)
    assert (memory.pointers[7], memory.pointers[8]) == ("arena + 0", "arena + 256")
