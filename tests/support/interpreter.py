"""Runs programs and graphs with NumPy: what a step computes, whatever memory it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from modelwheel.compiler.ir.graph import Graph, Join, Node, Piece, Region, Value
from modelwheel.compiler.ir.hlo import Module
from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.expr import Expression
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from tests.support.hlo_values import value_of

Bytes: TypeAlias = NDArray[np.uint8]
_TYPES: Mapping[ElementType, Any] = {
    ElementType.FLOAT32: np.float32,
    ElementType.INT32: np.int32,
    ElementType.UINT8: np.uint8,
    ElementType.BOOL: np.uint8,
}


def elements(buffer: Bytes, view: View, iteration: int) -> NDArray[Any]:
    """The elements of a view in a buffer; writing to them changes it."""
    part, dtype = view.slice, np.dtype(_TYPES[view.element_type])
    offset = part.offset + iteration * part.step + view.start * dtype.itemsize
    if not view.elements:
        return np.empty(view.shape, dtype)
    strides = [stride * dtype.itemsize for stride in view.strides]
    count = (len(buffer) - offset) // dtype.itemsize
    return as_strided(np.frombuffer(buffer.data, dtype, count, offset), view.shape, strides)


def run_steps(
    steps: Sequence[Step],
    allocations: Sequence[Allocation],
    contents: Mapping[int, bytes],
    results: Sequence[Slice],
    module: Module | None = None,
) -> list[bytes]:
    """The results of a program.

    Args:
        steps: Its outer steps.
        allocations: Its memory; what is in it at first is different in each byte.
        contents: What parameters and constants hold, by allocation.
        results: What is read in the end.
        module: What kernels compute that have the name of one of its instructions.
    """
    memory = {a.index: _garbage(a.size, a.index) for a in allocations}
    for index, content in contents.items():
        memory[index][:] = np.frombuffer(content, np.uint8)
    _run(steps, memory, 0, module)
    return [_bytes(memory[p.allocation], p.offset, p.size) for p in results]


def _garbage(size: int, seed: int) -> Bytes:
    """Bytes that are floats in [0.5, 1), different ones for each seed."""
    count = size // 4 + 2
    values = 0.5 + ((np.arange(count) * 37 + seed * 101) % 97) / 200
    whole = np.frombuffer(values.astype(np.float32).tobytes(), np.uint8)
    copied: Bytes = whole[:size].copy()
    return copied


def _bytes(buffer: Bytes, offset: int, size: int) -> bytes:
    return buffer[offset : offset + size].tobytes()


def _run(
    steps: Sequence[Step], memory: Mapping[int, Bytes], iteration: int, module: Module | None
) -> None:
    def found(view: View) -> NDArray[Any]:
        return elements(memory[view.slice.allocation], view, iteration)

    for step in steps:
        if isinstance(step.op, ops.While):
            for number in range(step.op.iterations):
                _run(step.regions[-1], memory, number, module)
        elif isinstance(step.op, ops.Conditional):
            _run(step.regions[int(found(step.inputs["index"]))], memory, iteration, module)
        elif step.regions:
            for region in reversed(step.regions):  # in any order
                _run(region, memory, iteration, module)
        else:
            compute(
                step.op,
                {name: found(view) for name, view in step.inputs.items()},
                {name: found(view) for name, view in step.outputs.items()},
                module,
            )


def compute(
    op: Any,
    inputs: Mapping[str, NDArray[Any]],
    outputs: Mapping[str, NDArray[Any]],
    module: Module | None = None,
) -> None:
    """Writes the results of an operation.

    A kernel with the name of an instruction computes its value. One called `update` changes the first four bytes of its
    result; others write a mixture of their arguments.
    """
    read = {name: value.copy() for name, value in inputs.items()}
    match op:
        case ops.Kernel() if module and (instruction := module.instruction(op.symbol)):
            found = value_of(instruction, [value.tobytes() for value in read.values()])
            outputs["result0"][:] = np.frombuffer(found, np.uint8)
        case ops.Kernel(symbol="update"):
            outputs["result0"][:4] = _mixed(list(read.values()), 4)
        case ops.Kernel():
            for number, result in enumerate(outputs.values()):
                result[:] = _mixed([*read.values(), np.array([number])], result.size)
        case ops.Copy():
            outputs["destination"][...] = read["source"]
        case ops.Dot():
            product = read["lhs"] @ read["rhs"]
            if "accumulator" in outputs:
                outputs["accumulator"][...] = product
            outputs["out"][...] = _finished(product, op.epilogue, read)
        case ops.Pooling():
            outputs["output"][...] = _pooled(op, read["input"], outputs["output"].shape)
        case ops.Elementwise():
            values = evaluate(op.code, list(read.values()))
            for result, value in zip(outputs.values(), values, strict=True):
                result[...] = value
        case _:
            raise TypeError(f"a {op.kind} is not interpreted")


_ACTIVATIONS: dict[ops.Activation, Callable[[NDArray[Any]], NDArray[Any]]] = {"tanh": np.tanh}
"""Those that tests have; others are an error."""


def _finished(
    product: NDArray[Any], epilogue: ops.Epilogue | None, read: Mapping[str, NDArray[Any]]
) -> NDArray[Any]:
    """A product after its epilogue."""
    for role, apply in (
        ("bias", np.add),
        ("scale", np.multiply),
        ("shift", np.add),
        ("addend", np.add),
    ):
        if role in read:
            product = apply(product, read[role])
    if epilogue is None:
        return product
    if epilogue.low is not None:
        product = np.maximum(product, np.float32(epilogue.low))
    if epilogue.high is not None:
        product = np.minimum(product, np.float32(epilogue.high))
    if epilogue.activation is not None:
        product = _ACTIVATIONS[epilogue.activation](product)
    if epilogue.factor is not None:
        product = product * np.float32(epilogue.factor)
    if epilogue.offset is not None:
        product = product + np.float32(epilogue.offset)
    for role, apply in (("factors", np.multiply), ("offsets", np.add)):
        if role in read:
            product = apply(product, read[role])
    return product


def _pooled(op: ops.Pooling, images: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Windows of one element."""
    assert op.window == op.stride == (1, 1)
    assert op.pad_low == (0, 0)
    scaled: NDArray[Any] = images * np.float32(op.in_factor) * np.float32(op.factor)
    return scaled.reshape(shape)


def _mixed(parts: Sequence[NDArray[Any]], size: int) -> Bytes:
    """Bytes that depend on all bytes of some arrays, as floats in [0.5, 1)."""
    total = sum(
        float(np.sum(part.astype(np.float64) * np.arange(1, part.size + 1))) for part in parts
    )
    return _garbage(size, int(total) % 9973)


_CODE: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "subtract": np.subtract,
    "tanh": np.tanh,
    "negate": np.negative,
    "divide": np.divide,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gated_tanh": lambda x, y: np.tanh(y) / (1 + np.exp(-x)),
    "select": np.where,
}


def evaluate(code: Expression, reads: Sequence[NDArray[Any]]) -> list[Any]:
    """The results of straight-line code."""
    values: list[Any] = []
    for one in code.operations:
        if one.opcode == "read":
            values.append(reads[one.input])
        elif one.opcode == "constant":
            values.append(np.float32(one.value or 0))
        else:
            values.append(_CODE[one.opcode](*(values[n] for n in one.operands)))
    return [values[number] for number in code.results]


# --- graphs -------------------------------------------------------------------------------------------


def run_graph(graph: Graph, contents: Mapping[int, bytes]) -> list[bytes]:
    """The results of a graph. Each value has memory of its own."""
    return _GraphRun(contents, graph.module).results(graph)


class _GraphRun:
    def __init__(self, contents: Mapping[int, bytes], module: Module | None) -> None:
        self._contents = contents
        self._module = module
        self._buffers: dict[Value, Bytes] = {}

    def results(self, graph: Graph) -> list[bytes]:
        """Runs a graph."""
        self._region(graph.body, 0)
        return [self._piece(piece).tobytes() for piece, _ in graph.results]

    def _of(self, value: Value) -> Bytes:
        if value not in self._buffers:
            buffer = _garbage(value.size, 1)
            if value.source in ("parameter", "constant"):
                assert value.home is not None
                buffer[:] = np.frombuffer(self._contents[value.home.allocation], np.uint8)
            self._buffers[value] = buffer
        return self._buffers[value]

    def _piece(self, piece: Piece) -> Bytes:
        return self._of(piece.value)[piece.offset : piece.offset + piece.size]

    def _region(self, region: Region, iteration: int) -> None:
        for node in region.nodes:
            if isinstance(node.op, ops.While):
                self._loop(node, node.op)
            elif node.regions:
                self._branches(node, iteration)
            else:
                self._leaf(node, iteration)

    def _leaf(self, node: Node, iteration: int) -> None:
        inputs = {
            name: elements(self._of(one.value), one.view, iteration).copy()
            for name, one in node.inputs.items()
        }
        # Sums are where the result is; they say nothing of what else is there.
        for result in sorted(node.outputs.values(), key=lambda one: one.base is not None):
            buffer = _garbage(result.value.size, 7)
            if result.base is not None:
                at = result.base.at
                buffer[at : at + result.base.size] = self._piece(result.base)
            self._buffers[result.value] = buffer
        if isinstance(node.op, Join):
            (result,) = node.outputs.values()
            for part, at in zip(inputs.values(), node.op.places, strict=True):
                self._buffers[result.value][at : at + part.size] = part
            return
        outputs = {
            name: elements(self._of(one.value), one.view, iteration)
            for name, one in node.outputs.items()
        }
        compute(node.op, inputs, outputs, self._module)

    def _loop(self, node: Node, loop: ops.While) -> None:
        state = [self._initial(one.value, one.initial) for one in node.carried]
        for number in range(loop.iterations):
            for carried, buffer in zip(node.carried, state, strict=True):
                argument = carried.arguments[-1]
                if argument is not None:
                    self._buffers[argument] = buffer
            self._region(node.regions[-1], number)
            for place, carried in enumerate(node.carried):
                left = carried.results[-1]
                if left is not None:
                    state[place] = self._piece(left).copy()
        for carried, buffer in zip(node.carried, state, strict=True):
            self._buffers[carried.value] = buffer

    def _initial(self, value: Value, piece: Piece | None) -> Bytes:
        return _garbage(value.size, 3) if piece is None else self._piece(piece).copy()

    def _branches(self, node: Node, iteration: int) -> None:
        chosen = list(range(len(node.regions)))
        if isinstance(node.op, ops.Conditional):
            index = node.inputs["index"]
            chosen = [int(elements(self._of(index.value), index.view, iteration))]
        for number in chosen:
            self._region(node.regions[number], iteration)
        for carried in node.carried:
            for number in chosen:
                left = carried.results[number]
                if left is not None:
                    self._buffers[carried.value] = self._piece(left).copy()
