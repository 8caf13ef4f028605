"""The names of HLO instructions that nodes have: of those whose values they compute, whatever has become of the thunks."""

from __future__ import annotations

from modelwheel.compiler.ir.assignment.assign import assign
from modelwheel.compiler.ir.covering import CoveringStep
from modelwheel.compiler.ir.graph_check import check
from modelwheel.compiler.ir.lift import lift
from modelwheel.compiler.passes.fuse_epilogues import FuseEpilogues
from modelwheel.program.ops import Kernel
from modelwheel.program.steps import Step
from tests.support.modules import Emission
from tests.support.programs import loop

DENSE = """
f {
  product = f32[4,16] parameter(0)
  bias = f32[16] parameter(1)
  biases = f32[4,16] broadcast(bias), dimensions={1}
  ROOT sum = f32[4,16] add(product, biases), metadata={op_name="dense/BiasAdd"}
}

ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,16] parameter(1)
  bias = f32[16] parameter(2)
  product = f32[4,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="dense/MatMul"}
  f = f32[4,16] fusion(product, bias), kind=kLoop, calls=f
  ROOT last = f32[4,16] negate(f), metadata={op_name="last"}
}
"""


def test_a_product_covers_what_became_its_epilogue() -> None:
    graph = Emission(DENSE).graph(["last"], last="output")
    FuseEpilogues().run(graph)
    assert [node.covers for node in graph.body.nodes] == [{"product", "f"}, {"last"}]


def test_nodes_have_the_names_and_programs_have_none() -> None:
    graph = Emission(DENSE).graph(["last"], last="output")
    assert [node.covers for node in graph.body.nodes] == [{"product"}, {"f"}, {"last"}]
    assert [one.name for one in graph.instructions(graph.body.nodes[0])] == ["product"]
    steps, _ = assign(graph)
    assert all(type(step) is Step for step in steps)


def test_loops_cover_their_instruction() -> None:
    emission = Emission(DENSE)
    (kernel,) = (one for one in emission.steps if one.covers == {"f"})
    whole = CoveringStep.of(loop(kernel, trip_count=2), ["while.1"])
    graph = lift([whole], emission.allocations(), [emission.place("f")])
    check(graph)
    assert [node.covers for node in graph.walk()] == [{"while.1"}, {"f"}]
    # Nobody has said what module the names are of.
    assert graph.instructions(graph.body.nodes[0]) == []


def test_a_node_that_does_the_work_of_several_is_known_by_all_of_them() -> None:
    graph = Emission(DENSE).graph(["last"], last="output")
    product, f, _ = graph.body.nodes
    merged = graph.merged(Kernel(symbol="both"), [product, f])
    assert merged.covers == {"product", "f"}
    assert merged.origin == "dense/MatMul;dense/BiasAdd"
    assert merged.operations == product.operations + f.operations
    graph.module = None
    product.origin, f.origin = "a", "b"
    assert graph.merged(Kernel(symbol="both"), [product, f]).origin == "a;b"
