"""Convolutions that XLA has kernels of its own for: those that the runtime's kernels compute."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modelwheel.compiler.ir.graph import Graph, Node
from modelwheel.compiler.passes.recognise.convolution_kernels import convolution_kernel
from modelwheel.compiler.passes.recognise.kernel_calls import KernelCall
from modelwheel.compiler.passes.recognise_kernels import RecogniseKernels
from modelwheel.program import ops
from tests.support.graphs import lines_after
from tests.support.modules import Emission

PLAIN = """
ENTRY main {
  x = f32[3,5,4] parameter(0)
  w = f32[8,2,6] constant({...})
  ROOT y = f32[3,4,6] convolution(x, w), window={size=8 stride=2 pad=4_5 rhs_reversal=1}, dim_labels=b0f_0io->b0f, feature_group_count=2
}
"""
"""The convolution of 3 x 5 x 4 by a window of 8 in two groups."""
ONE_GROUP = ((", feature_group_count=2", ""), ("f32[3,5,4]", "f32[3,5,2]"))
EXCHANGED = (
    ("f32[3,5,4] parameter(0)", "f32[3,5,2] constant({...})"),
    ("f32[8,2,6] constant({...})", "f32[8,2,6] parameter(0)"),
    (", feature_group_count=2", ""),
)
"""XLA has made the window the input."""


def _graph(*changes: tuple[str, str]) -> Graph:
    return Emission(PLAIN, *changes).graph(["y"], y="output")


def _convolution(*changes: tuple[str, str]) -> Node:
    """The node of the module's convolution."""
    graph = _graph(*changes)
    lines_after(RecogniseKernels(), graph, rewrites=1)
    (node,) = graph.body.nodes
    return node


def test_a_kernel_that_is_a_convolution() -> None:
    """convolution => convolution"""
    graph = _graph()
    assert lines_after(RecogniseKernels(), graph, rewrites=1) == [
        (
            "%2 f32[3,4,6] = convolution %0 f32[3,5,4], %1 f32[8,2,6] {input_axes={batch=0, feature=2, spatial=[1]}, "
            "kernel_axes={batch=1, feature=2, spatial=[0]}, output_axes={batch=0, feature=2, spatial=[1]}, "
            "windows=[{size=8, stride=2, pad_low=4, pad_high=5, kernel_dilation=1, base_dilation=1, reversed=true}], "
            "feature_groups=2}"
        ),
    ]
    assert graph.body.nodes[0].operations == 2 * (3 * 4 * 6) * (8 * 2)


def test_the_operands_that_xla_exchanged_are_exchanged_back() -> None:
    """convolution of a constant by values => convolution of the values by the constant"""
    graph = _graph(*EXCHANGED)
    assert lines_after(RecogniseKernels(), graph, rewrites=1) == [
        (
            "%2 f32[3,4,6] = convolution %1 f32[8,2,6], %0 f32[3,5,2] {input_axes={batch=2, feature=1, spatial=[0]}, "
            "kernel_axes={batch=2, feature=0, spatial=[1]}, output_axes={batch=2, feature=0, spatial=[1]}, "
            "windows=[{size=5, stride=2, pad_low=1, pad_high=2, kernel_dilation=1, base_dilation=1, reversed=true}], "
            "feature_groups=1}"
        ),
    ]
    assert _elements(graph.body.nodes[0]) == _elements(_convolution(*ONE_GROUP))


def test_windows_that_are_not_reversed_stay() -> None:
    forward = (" rhs_reversal=1", "")
    (line,) = lines_after(RecogniseKernels(), _graph(*EXCHANGED, forward), rewrites=1)
    assert " = convolution %0 f32[3,5,2], %1 f32[8,2,6] " in line
    single = _graph(*EXCHANGED, forward, ("size=8", "size=1"), ("[8,", "[1,"))
    (line,) = lines_after(RecogniseKernels(), single, rewrites=1)
    assert " = convolution %1 f32[1,2,6], %0 f32[3,5,2] " in line


def _elements(node: Node) -> set[tuple[int, int, int]]:
    """Which elements meet along the axis: the place in the result, in what XLA has as the input, and in the other."""
    assert isinstance(node.op, ops.Convolution)
    (window,), source = node.op.windows, node.inputs["input"]
    (axis,) = node.op.input_axes.spatial
    home = source.value.home
    first = home is not None and home.allocation == 0
    met = set()
    for out in range(4):
        for tap in range(window.size):
            at = out * window.stride + (window.size - 1 - tap) - window.pad_low
            if 0 <= at < source.view.shape[axis]:
                met.add((out, at, tap) if first else (out, tap, at))
    return met


@pytest.mark.parametrize(
    "change",
    [
        ("convolution(", "custom-call("),
        ("feature_group_count=2", "batch_group_count=3"),
        ("f32[3,5,4]", "s32[3,5,4]"),
        ("f32[3,5,4]", "f32[3,0,4]"),
    ],
)
def test_any_other_kernel_stays(change: tuple[str, str]) -> None:
    (line,) = lines_after(RecogniseKernels(), _graph(change), rewrites=0)
    assert " = kernel " in line


def test_a_kernel_whose_operands_are_one_stays() -> None:
    graph = _graph()
    call = KernelCall.of(graph, graph.body.nodes[0])
    assert call is not None
    assert convolution_kernel(call) is not None
    assert convolution_kernel(replace(call, arguments=call.arguments[:1])) is None


def test_a_result_over_an_operand_stays_a_kernel() -> None:
    """Windows read what others have overwritten."""
    graph = Emission(PLAIN, at={"y": "x"}).graph(["y"], x="temporary")
    (line,) = lines_after(RecogniseKernels(), graph, rewrites=0)
    assert " = kernel " in line
