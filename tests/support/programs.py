"""Small programs made by hand, for tests that need no compiler."""

from __future__ import annotations

import math
from typing import Any

from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.expr import Expression, Operation
from modelwheel.program.program import Program
from modelwheel.program.steps import Step, numbered
from modelwheel.program.view import View

FLOAT = ElementType.FLOAT32
ROW = ops.Window(
    size=1, stride=1, pad_low=0, pad_high=0, kernel_dilation=1, base_dilation=1, reversed=False
)
"""A window of one element."""


def array(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    allocation: int = 0,
    offset: int = 0,
    element_type: ElementType = FLOAT,
) -> View:
    """An array of some layout: its axes from the fastest varying to the slowest."""
    size = math.prod(shape) * element_type.item_bytes
    part = Slice(allocation=allocation, offset=offset, size=size)
    return View.dense(part, element_type, shape, order)


def dense(shape: tuple[int, ...], allocation: int = 0, offset: int = 0) -> View:
    """A row-major float array."""
    return array(shape, tuple(reversed(range(len(shape)))), allocation, offset)


def part(allocation: int, offset: int = 0, size: int = 64) -> Slice:
    """Some bytes of an allocation."""
    return Slice(allocation=allocation, offset=offset, size=size)


def kernel(
    reads: Slice | tuple[Slice, ...] = (),
    writes: Slice | tuple[Slice, ...] = (),
    symbol: str = "k",
    operations: int = 0,
) -> Step:
    """A kernel of XLA."""
    arguments, results = (
        [View.of_bytes(one) for one in ((parts,) if isinstance(parts, Slice) else parts)]
        for parts in (reads, writes)
    )
    return Step(
        op=ops.Kernel(symbol=symbol),
        inputs=numbered("argument", arguments),
        outputs=numbered("result", results),
        operations=operations,
    )


def loop(
    *body: Step,
    trip_count: int | None = 2,
    condition: tuple[Step, ...] = (),
    value: Slice | None = None,
) -> Step:
    """A loop; the condition writes `value`."""
    inputs = {} if value is None else {"condition": View.dense(value, ElementType.BOOL, ())}
    return Step(op=ops.While(trip_count=trip_count), inputs=inputs, regions=(condition, body))


def branches(*sequences: tuple[Step, ...]) -> Step:
    """Sequences of steps that may run at the same time."""
    return Step(op=ops.Branches(), regions=sequences)


def conditional(index: Slice, *sequences: tuple[Step, ...]) -> Step:
    """A choice between sequences of steps, by a predicate of one byte or an index of four."""
    element = ElementType.BOOL if index.size == 1 else ElementType.INT32
    return Step(
        op=ops.Conditional(), inputs={"index": View.dense(index, element, ())}, regions=sequences
    )


def copy(source: Slice, destination: Slice) -> Step:
    """A copy of bytes."""
    return Step(
        op=ops.Copy(),
        inputs={"source": View.of_bytes(source)},
        outputs={"destination": View.of_bytes(destination)},
    )


def dot(
    lhs: View,
    rhs: View,
    out: View,
    operations: int = 0,
    epilogue: ops.Epilogue | None = None,
    accumulator: View | None = None,
    **operands: View,
) -> Step:
    """A product of matrices, with the operands of its epilogue."""
    return Step(
        op=ops.Dot(lhs_contracting=(len(lhs.shape) - 1,), rhs_contracting=(0,), epilogue=epilogue),
        inputs={"lhs": lhs, "rhs": rhs, **operands},
        outputs={"out": out, **({"accumulator": accumulator} if accumulator else {})},
        operations=operations,
    )


def of_bytes(product: Step) -> Step:
    """A product or convolution of floats as one of 8-bit integers."""
    inputs = {
        role: view.model_copy(update={"element_type": ElementType.INT8})
        for role, view in product.inputs.items()
    }
    out = product.outputs["out"].model_copy(update={"element_type": ElementType.INT32})
    return product.model_copy(update={"inputs": inputs, "outputs": {"out": out}})


def byte_layer(product: Step) -> Step:
    """A product of floats as a layer of 8-bit integers whose code stores its sums."""
    layer = of_bytes(product)
    assert isinstance(layer.op, ops.Dot)
    out = layer.outputs["out"]
    read = Operation(opcode="read", input=0, element_type=ElementType.INT32)
    code = Expression(operations=(read,), results=(0,))
    return Step(
        op=ops.ByteLayer(layer=layer.op, shape=out.shape, code=code),
        inputs={"input": layer.inputs["lhs"], "kernel": layer.inputs["rhs"]},
        outputs={"write": out},
        operations=layer.operations,
    )


def pooling(source: Slice, target: Slice, **changes: Any) -> Step:
    """The maximum of windows of one element of four features at two by two positions.

    `changes` are other fields of the operation, and `batch`, `features`, `in_size` and `out_size`.
    """
    extents: dict[str, Any] = {"batch": 1, "features": 4, "in_size": (2, 2), "out_size": (2, 2)}
    extents |= {name: changes.pop(name) for name in extents if name in changes}
    fields: dict[str, Any] = {
        "reducer": "maximum", "initial": None, "window": (1, 1), "stride": (1, 1), "pad_low": (0, 0),
    }  # fmt: skip
    batch, features = extents["batch"], extents["features"]
    return Step(
        op=ops.Pooling(**(fields | changes)),
        inputs={"input": View.dense(source, FLOAT, (batch, *extents["in_size"], features))},
        outputs={"output": View.dense(target, FLOAT, (batch, *extents["out_size"], features))},
        operations=1,
    )


def pointwise(source: int, kernel: int, output: int, epilogue: ops.Epilogue | None = None) -> Step:
    """A product of the features of each position with a matrix; the arguments are allocations."""
    image = ops.Axes(batch=0, feature=2, spatial=(1,))
    out = dense((2, 5, 8), output)
    return Step(
        op=ops.Convolution(
            input_axes=image,
            kernel_axes=ops.Axes(batch=1, feature=2, spatial=(0,)),
            output_axes=image,
            windows=(ROW,),
            feature_groups=1,
            epilogue=epilogue,
        ),
        inputs={"input": dense((2, 5, 8), source), "kernel": dense((1, 8, 8), kernel)},
        outputs={"out": out, **({"accumulator": out} if epilogue else {})},
        operations=1,
    )


def program(*steps: Step) -> Program:
    """Steps without parameters, results and allocations."""
    return Program(triple="", cpu="", allocations=(), parameters=(), results=(), steps=steps)


def matmul_program(batch: int = 2, weights_sha256: str = "ab" * 32) -> Program:
    """y[batch, 3] = x[batch, 4] @ w[4, 3], with one unused constant and one unused temporary."""
    x, w, y = dense((batch, 4), 0), dense((4, 3), 1), dense((batch, 3), 2)
    return Program(
        triple="x86_64-unknown-linux-gnu",
        cpu="x86-64-v3",
        allocations=(
            Allocation(index=0, size=x.slice.size, kind="parameter", parameter=0),
            Allocation(
                index=1, size=48, kind="constant", constant_offset=64, sha256=weights_sha256
            ),
            Allocation(index=2, size=y.slice.size, kind="output"),
            Allocation(index=3, size=64, kind="temporary"),
            Allocation(index=4, size=4, kind="constant", constant_offset=0, sha256="cd" * 32),
        ),
        parameters=(x,),
        results=(y,),
        steps=(dot(x, w, y, operations=2 * batch * 12),),
    )
