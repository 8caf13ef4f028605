"""Taps of convolutions that meet padding alone are left out; results are the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from modelwheel.compiler.ir.graph import Graph, Node
from modelwheel.compiler.passes.drop_taps import DropTaps
from modelwheel.compiler.passes.recognise_kernels import RecogniseKernels
from modelwheel.program import ops
from tests.support.graphs import lines_after
from tests.support.modules import Emission

TEXT = """
ENTRY main {
  x = f32[EXTENT,2] parameter(0)
  w = f32[TAPS,2,8] constant({...})
  ROOT y = f32[PLACES,8] convolution(x, w), window={FORM}, dim_labels=LABELS
}
"""
ONE, TWO = "b0f_0io->b0f", "b01f_01io->b01f"


def graph_of(size: str, taps: str, out: str, window: str, labels: str = ONE) -> Graph:
    texts = {"EXTENT": size, "TAPS": taps, "PLACES": out, "FORM": window, "LABELS": labels}
    graph = Emission(TEXT, *texts.items()).graph(["y"], y="output")
    RecogniseKernels().run(graph)
    return graph


def node_of(graph: Graph) -> Node:
    (node,) = graph.body.nodes
    assert isinstance(node.op, ops.Convolution)
    return node


def text_of(graph: Graph, *, rewrites: int = 1) -> str:
    (line,) = lines_after(DropTaps(), graph, rewrites=rewrites)
    return line


def test_one_tap_of_a_wide_dilated_window_is_a_product_of_all_rows() -> None:
    graph = graph_of("3,25", "5", "3,25", "size=5 pad=64_64 rhs_dilate=32")
    before = node_of(graph).operations
    line = text_of(graph)
    assert "%2 f32[75,8] = dot %0 f32[75,2], %1+128 f32[2,8]" in line
    assert "{lhs_contracting=[1], rhs_contracting=[0]}" in line
    assert graph.body.nodes[0].operations == before // 5


def test_one_tap_of_some_rows_stays_a_convolution() -> None:
    line = text_of(graph_of("3,25", "5", "3,13", "size=5 stride=2 pad=64_64 rhs_dilate=32"))
    assert "convolution %0 f32[3,25,2], %1+128 f32[1,2,8]" in line
    assert "size=1, stride=2, pad_low=0, pad_high=0, kernel_dilation=32" in line


def test_taps_that_meet_an_input_somewhere_stay() -> None:
    line = text_of(graph_of("3,25", "5", "3,25", "size=5 pad=32_32 rhs_dilate=16"))
    assert "%1+64 f32[3,2,8]" in line
    assert "size=3, stride=1, pad_low=16, pad_high=16, kernel_dilation=16" in line


def test_a_reversed_window_has_its_first_tap_last() -> None:
    # What is left out is behind: the taps 3 and 4 are the first two in memory.
    line = text_of(graph_of("3,4", "5", "3,4", "size=5 pad=2_14 rhs_dilate=3 rhs_reversal=1"))
    assert "%1+" in line
    assert "reversed=true" in line


def test_two_axes_are_narrowed_if_what_is_left_is_contiguous() -> None:
    line = text_of(graph_of("1,4,4", "3,3", "1,4,4", "size=3x3 pad=6_6x6_6 rhs_dilate=6x6", TWO))
    assert "dot %0 f32[16,2], %1+256 f32[2,8]" in line
    graph = graph_of("1,9,4", "3,3", "1,9,4", "size=3x3 pad=6_6x6_6 rhs_dilate=6x6", TWO)
    text_of(graph, rewrites=0)


@pytest.mark.parametrize("window", ["size=5 pad=2_2", "size=5 pad=8_8 rhs_dilate=4"])
def test_windows_within_the_input_stay(window: str) -> None:
    text_of(graph_of("3,25", "5", "3,25", window), rewrites=0)


def convolve(node: Node, x: Any, weights: Any) -> Any:
    """The convolution of one axis that a node is, as XLA defines it."""
    assert isinstance(node.op, ops.Convolution)
    (window,) = node.op.windows
    view = node.inputs["kernel"].view
    first = view.slice.offset // view.element_type.item_bytes
    kernel = weights.ravel()[first : first + view.elements].reshape(view.shape)
    out = np.zeros(node.outputs["out"].view.shape)
    for place in range(out.shape[1]):
        for tap in range(window.size):
            at = place * window.stride + tap * window.kernel_dilation - window.pad_low
            index, rest = divmod(at, window.base_dilation)
            if rest == 0 and 0 <= index < x.shape[1]:
                row = window.size - 1 - tap if window.reversed else tap
                out[:, place] += x[:, index] @ kernel[row]
    return out


@pytest.mark.parametrize("seed", range(60))
def test_results_are_the_same(seed: int) -> None:
    random_ = random.Random(seed)
    size, taps, stride = random_.randint(1, 9), random_.randint(1, 6), random_.randint(1, 3)
    dilation, base = random_.randint(1, 9), random_.choice([1, 1, 2])
    low, high = (random_.randint(0, 4 * dilation) for _ in range(2))
    span = (size - 1) * base + 1 + low + high - (taps - 1) * dilation - 1
    if span < 0:
        low, span = low - span, 0
    window = f"size={taps} stride={stride} pad={low}_{high} lhs_dilate={base} rhs_dilate={dilation} rhs_reversal={seed % 2}"
    graph = graph_of(f"2,{size}", str(taps), f"2,{span // stride + 1}", window)
    generator = np.random.default_rng(seed)
    x, weights = generator.standard_normal((2, size, 2)), generator.standard_normal((taps, 2, 8))
    expected = convolve(node_of(graph), x, weights)
    DropTaps().run(graph)
    assert np.array_equal(convolve(node_of(graph), x, weights), expected)
