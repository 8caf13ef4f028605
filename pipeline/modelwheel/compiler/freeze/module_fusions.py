"""Replaces composites and patterns in the StableHLO modules of a graph by what is registered for them.

What replaces them is a function of TensorFlow, which the module calls as modules of `jax2tf` call functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tensorflow as tf

from ...errors import UnsupportedModelError
from ...model.fusions.interface import Place, Tensor
from ...model.fusions.registry import AttributeValue, Fusion, is_pattern
from ...model.stablehlo_ops import CALLS_TENSORFLOW
from ..stablehlo import op_text as o
from ..stablehlo.block_graph import graphs_of
from ..stablehlo.composites import decompose, reached_composites
from ..stablehlo.mlir_text import TensorType, read_functions
from ..stablehlo.module_weights import put_back, take_out
from ..stablehlo.written_functions import restore_functions
from ..stablehlo.xla_module import call_module, element_name, run_passes
from .matching import Found, find_patterns
from .module_view import At, ModuleView

_INLINED = "inline"


class Maker(Protocol):
    """Makes a function of TensorFlow from a fusion."""

    def __call__(
        self,
        fusion: Fusion,
        arguments: Sequence[Tensor],
        attributes: Mapping[str, AttributeValue | None],
        wanted: Sequence[Tensor],
        place: Place,
    ) -> Any:
        """Adds the function to the library of the graph."""


def replace_in_module(
    node: Any, tensors: Sequence[Any], fusions: Mapping[str, Fusion], make: Maker
) -> Counter[str]:
    """Replaces what a module has.

    Args:
        node: An XlaCallModule; it is changed.
        tensors: TensorFlow's tensors that it takes.
        fusions: By name.
        make: What makes functions.

    Returns:
        How often each fusion was applied.

    Raises:
        UnsupportedModelError: A composite does not have the interface of its fusion.
    """
    work = _Work(node, make)
    lean = take_out(run_passes(node.attr["module"].s, "strip-debuginfo"))
    text = work.replace_composites(lean.text, fusions)
    patterns = {name: fusion for name, fusion in fusions.items() if is_pattern(name)}
    if patterns:
        whole = put_back(lean.with_text(text))
        static = _specialised(node, tensors, whole, work.functions) if "tensor<?" in text else whole
        inlined = take_out(run_passes(static.encode(), _INLINED))
        replaced = work.replace_patterns(inlined.text, patterns)
        if replaced is not None:
            lean, text = inlined, replaced
    if work.counts:
        node.attr["module"].s = put_back(lean.with_text(text)).encode()
        del node.attr["function_list"].list.func[:]
        for function in work.functions:
            node.attr["function_list"].list.func.add().name = function.function_def.signature.name
    return work.counts


def _specialised(node: Any, operands: Sequence[Any], text: str, functions: Sequence[Any]) -> str:
    """The module for the shapes of its inputs, as XLA refines it."""
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in operands]
    results = [
        (
            tf.dtypes.as_dtype(kind).name,
            None if shape.unknown_rank else tuple(tf.TensorShape(shape).as_list()),
        )
        for kind, shape in zip(
            node.attr["Tout"].list.type, node.attr["Sout"].list.shape, strict=True
        )
    ]

    def call(*tensors: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        for function in functions:
            function.add_to_graph(graph)
        names = [function.function_def.signature.name for function in functions]
        return call_module(text, tensors, results, functions=names)

    traced = tf.function(call, jit_compile=True, autograph=False)
    refined = traced.experimental_get_compiler_ir(*specs)(stage="stablehlo", platform_name="CPU")
    # XLA has written out again what was restored before.
    return restore_functions(run_passes(refined.encode(), "strip-debuginfo"))


@dataclass(frozen=True)
class _Value:
    """A value of a module, as a function of TensorFlow takes it."""

    name: str
    tensor: Tensor


class _Work:
    def __init__(self, node: Any, make: Maker) -> None:
        self._make = make
        self._name = str(node.name)
        self.functions: list[Any] = []
        """What the module calls, by number."""
        self.counts: Counter[str] = Counter()

    def replace_composites(self, text: str, fusions: Mapping[str, Fusion]) -> str:
        """A text with calls of fusions in place of composites, and calls of what they stand for in place of all others."""
        lines, replaced = text.split("\n"), set[int]()
        if "stablehlo.composite " not in text:
            return text
        for op, composite in reached_composites(lines, read_functions(text), replaced):
            fusion = fusions.get(composite.name)
            if fusion is None or not composite.is_static or op.line in replaced:
                continue
            arguments = [_tensor(kind) for kind in composite.arguments]
            wanted = [_tensor(kind) for kind in composite.results]
            place = Place(composite.name, kind="composite")
            made = self._make(fusion, arguments, composite.attributes, wanted, place)
            start, _, _ = lines[op.line].partition("stablehlo.composite")
            lines[op.line] = start + self._call(made, composite.operands, composite.types)
            replaced.add(op.line)
            self.counts[composite.name] += 1
        return decompose("\n".join(lines))

    def replace_patterns(self, text: str, fusions: Mapping[str, Fusion]) -> str | None:
        """A text with calls of fusions in place of patterns; None if it has none."""
        lines: list[str] = text.split("\n")
        patterns = {
            name: fusion.pattern for name, fusion in fusions.items() if fusion.pattern is not None
        }
        before = self.counts.total()
        for function in read_functions(text).values():
            for graph in graphs_of(function):
                view = ModuleView(graph)
                by_name = {name: op for op in graph.block.ops for name, _ in op.results}
                done: set[str] = set()
                for match in find_patterns(view, patterns):
                    assert isinstance(match.root, At)
                    if match.root.name in done:
                        continue
                    line = by_name[match.root.name].line
                    new = self._replaced(view, match, fusions[match.name], lines[line])
                    if new is not None:
                        lines[line] = new
                        done.add(match.root.name)
                        self.counts[match.name] += 1
        return "\n".join(lines) if self.counts.total() > before else None

    def _replaced(self, view: ModuleView, match: Found, fusion: Fusion, line: str) -> str | None:
        """The lines in place of that which computes the result; None if the interface is not that of the fusion."""
        indent = line[: len(line) - len(line.lstrip())]
        writer = _Writer(view, f"fused_{len(self.functions)}_{self.counts.total()}", indent)
        captured = [
            match.captured[argument.name]
            for argument in fusion.arguments
            if argument.name in match.captured
        ]
        root = match.root
        assert isinstance(root, At)
        values = [writer.in_frame(at) for at in captured if isinstance(at, At)]
        kind = view.types[root.name]
        order = sorted(range(len(root.places)), key=lambda number: root.places[number])
        extents = [extent for extent in kind.shape if extent != 1]
        framed = TensorType(tuple(extents[number] for number in order), kind.element)
        place = Place(f"%{root.name} of {self._name}", kind="layer")
        arguments = [value.tensor for value in values]
        try:
            made = self._make(fusion, arguments, match.attributes, [_tensor(framed)], place)
        except UnsupportedModelError:
            return None
        operands = ", ".join(f"%{value.name}" for value in values)
        taken = ", ".join(o.written(_kind(value.tensor)) for value in values)
        types = f"({taken}) -> {o.written(framed)}"
        writer.out_of_frame(root, kind, framed, order, self._call(made, operands, types))
        return "\n".join(writer.lines)

    def _call(self, made: Any, operands: str, types: str) -> str:
        """The operation that calls a function of TensorFlow."""
        if made not in self.functions:
            self.functions.append(made)
        number = self.functions.index(made)
        settings = f"{{called_index = {number} : i64, has_token_input_output = false}}"
        called = f"stablehlo.custom_call @{CALLS_TENSORFLOW}({operands})"
        return f"{called} {{tf.backend_config = {settings}}} : {types}"


class _Writer:
    """Writes the lines that replace one."""

    def __init__(self, view: ModuleView, prefix: str, indent: str) -> None:
        self.lines: list[str] = []
        self._view, self._prefix, self._indent = view, prefix, indent

    def in_frame(self, at: At) -> _Value:
        """A value with its axes in the order of their places, and axes of one element where it is repeated."""
        kind = self._view.types[at.name]
        extents = tuple(extent for extent in kind.shape if extent != 1)
        order = sorted(range(len(extents)), key=lambda number: at.places[number])
        by_place = dict(zip(at.places, extents, strict=True))
        shape = tuple(by_place.get(place, 1) for place in range(min(at.places, default=0), 0))
        name, kind = self._move(at.name, kind, extents)
        name, kind = self._move(name, kind, tuple(extents[number] for number in order), order)
        name, kind = self._move(name, kind, shape)
        return _Value(name, _tensor(kind))

    def out_of_frame(
        self, root: At, kind: TensorType, framed: TensorType, order: Sequence[int], call: str
    ) -> None:
        """The call, and its result as the value that it replaces."""
        last = root.name
        back = [list(order).index(number) for number in range(len(order))]
        unframed = TensorType(tuple(framed.shape[number] for number in back), framed.element)
        names = [f"{self._prefix}_result", f"{self._prefix}_moved"]
        steps = [call]
        if back != list(range(len(back))):
            steps.append(o.transpose(names[len(steps) - 1], framed, unframed, back))
        if unframed.shape != kind.shape:
            steps.append(o.reshape(names[len(steps) - 1], unframed, kind))
        for number, step in enumerate(steps):
            name = last if number == len(steps) - 1 else names[number]
            self.lines.append(f"{self._indent}%{name} = {step}")

    def _move(
        self,
        name: str,
        kind: TensorType,
        shape: tuple[int | None, ...],
        order: Sequence[int] | None = None,
    ) -> tuple[str, TensorType]:
        """A value with another shape, or with its axes in another order, if that differs."""
        made = TensorType(shape, kind.element)
        if order is not None and list(order) == list(range(len(order))):
            return name, kind
        if order is None and shape == kind.shape:
            return name, kind
        new = f"{self._prefix}_{len(self.lines)}"
        step = (
            o.reshape(name, kind, made) if order is None else o.transpose(name, kind, made, order)
        )
        self.lines.append(f"{self._indent}%{new} = {step}")
        return new, made


def _tensor(kind: TensorType) -> Tensor:
    return Tensor(element_name(kind.element), kind.shape)


def _kind(tensor: Tensor) -> TensorType:
    """The type of a tensor of floats or truth values."""
    elements = {"bool": "i1", "float32": "f32", "float64": "f64"}
    return TensorType(tensor.shape or (), elements[tensor.dtype])
