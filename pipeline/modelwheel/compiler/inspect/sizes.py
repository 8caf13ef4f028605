"""Sizes of tensors and turns of loops that follow from a model's file alone.

An abstract interpreter: it walks what runs, function by function, with shapes and the values of small
tensors of integers in place of tensors. Nothing of the model is executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from tensorflow.python.framework import op_def_registry

from ...errors import UnsupportedModelError
from ...limits import MAX_CALL_DEPTH
from ..graphs.bodies import Body, Library, Reach
from ..graphs.graphs import GRAPH, node_name
from ..graphs.op_effects import effect_of
from ..stablehlo.judge_module import MODULE_OP, cost_of, demands_of
from ..tensors.bounds import bounds_of, follow_bounds, forget, hull, join_all
from ..tensors.columns import Columns
from ..tensors.constants import SHAPE_ONLY
from ..tensors.declared import FRAME, READABLE, SPECIAL, reserved
from ..tensors.demands import TABLE_OPS, find_demands, join_demands
from ..tensors.folding import fold, read_constant
from ..tensors.found import Found
from ..tensors.loops import Loop, Turns, closes_loop, count_turns
from ..tensors.op_shapes import OpShapes, count_outputs
from ..tensors.origins import carry, follow_compared
from ..tensors.values import UNKNOWN, Bounds, Origin, Tensor, in_turns

_SAME = frozenset(
    {
        *("Relu", "Relu6", "Elu", "Selu", "Sigmoid", "Tanh", "Softplus", "Softmax", "LogSoftmax"),
        *(
            "Exp",
            "Log",
            "Sqrt",
            "Rsqrt",
            "Neg",
            "Abs",
            "Square",
            "Erf",
            "Floor",
            "Round",
            "BiasAdd",
        ),
        *("Identity", "StopGradient", "Cast", "LeakyRelu", "LogicalNot", "ZerosLike", "OnesLike"),
    }
)
_FOLDED = frozenset({"Identity", "Cast", "Sqrt", "Neg", "Square"})
"""Those of them whose values count, if they are known."""
_RESHAPES = frozenset({"ExpandDims", "Reshape", "Cast", "BroadcastTo", "Tile", "StridedSlice"})
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_CONDITIONS = frozenset({"If", "StatelessIf"})
_BRANCHES = _CONDITIONS | {"Case", "StatelessCase"}
_WHILE = frozenset({"While", "StatelessWhile"})
_RANDOM = ("Random", "TruncatedNormal", "ParameterizedTruncatedNormal", "Multinomial")


_Results = tuple[tuple[Tensor, ...], Found]


class Sizes:
    """Walks a model's functions; each once for the same arguments."""

    def __init__(self, library: Library, feeds: Iterable[str] = ()) -> None:
        self._library = library
        self._feeds = frozenset(feeds)
        self._shapes = OpShapes()
        self._constants: dict[tuple[str, int], Tensor] = {}
        self._calls: dict[Any, _Results] = {}
        nodes = sum(len(body.nodes) for body in library.bodies.values())
        self._budget = 200_000 + 10 * nodes
        self._trials = 500_000 + 10 * nodes
        self._counted: dict[str, set[int]] = {}
        self._frames: dict[tuple[str, int], Turns] = {}
        self._variables: dict[str, dict[int, int]] = {}
        """In TensorFlow 1, the LoopCond of each variable of a loop."""
        self._conditions = {
            node.attr["cond"].func.name
            for body in library.bodies.values()
            for node in body.nodes
            if node.op in _WHILE
        }
        self._deciding: dict[str, set[int]] = {}

    def of(self, reach: Reach, depth: int) -> Found:
        """The largest tensor among what runs, loops that may be endless, demands on the inputs."""
        findings = Found()
        self._counted[GRAPH] = reach.values[GRAPH]
        if depth <= MAX_CALL_DEPTH:  # otherwise it is refused for that
            graph = self._library.bodies[GRAPH]
            numbers = [number for number in graph.order if number in reach.runs[GRAPH]]
            self._walk(graph, numbers, (), findings)
            # Those that TensorFlow reaches in another way than by the graph.
            for name in reach.runs:
                if name != GRAPH and not any(key[0] == name for key in self._calls):
                    arguments = (UNKNOWN,) * len(self._library.bodies[name].arguments)
                    findings.add(self._call(name, arguments)[1])
        return findings

    def _call(self, name: str, arguments: tuple[Tensor, ...]) -> _Results:
        key = (name, arguments)
        if key not in self._calls:
            body, findings = self._library.bodies[name], Found()
            count = len(body.arguments)
            padded = (arguments + (UNKNOWN,) * count)[:count]
            known = self._walk(body, body.order, padded, findings)
            results = tuple(
                self._read(body, tensor, padded, known) for tensor in self._library.results(name)
            )
            self._calls[key] = results, findings
        return self._calls[key]

    # --- nodes ------------------------------------------------------------------------------------

    def _walk(
        self, body: Body, numbers: Iterable[int], arguments: Sequence[Tensor], findings: Found
    ) -> dict[int, tuple[Tensor, ...]]:
        known: dict[int, tuple[Tensor, ...]] = {}
        for number in numbers:
            self._budget -= 1
            if self._budget < 0:
                raise UnsupportedModelError(
                    "the model calls its functions with too many different shapes to be judged; "
                    f"simplify what calls node {body.names[number]!r}"
                )
            if body.ops[number] in _SAME and body.data[number]:
                source = known.get(body.data[number][0], ())
                if len(source) == 1 and source[0].is_plain:
                    known[number] = source  # most nodes of a large model
                    continue
            inputs = [
                self._read(body, tensor, arguments, known)
                for tensor in body.tensors[number]
                if tensor[0] != "^"
            ]
            outputs = self._evaluate(body, number, inputs, findings)
            known[number] = outputs = self._follow(body, number, inputs, outputs, findings)
            for output in outputs:
                if output.shape:
                    findings.size(body, number, output.elements)
        return known

    def _follow(
        self,
        body: Body,
        number: int,
        inputs: list[Tensor],
        outputs: tuple[Tensor, ...],
        findings: Found,
    ) -> tuple[Tensor, ...]:
        """The outputs with their origins; what the node demands of the inputs is added."""
        name = body.names[number]
        if body.name == GRAPH and name in self._feeds:
            width = outputs[0].shape[-1] if outputs[0].shape else None
            columns = None if width is None else Columns(0, width, width)
            origin = Origin(name, columns=columns)
            return (replace(outputs[0], origins=(origin,), data=True), *outputs[1:])
        if not any(tensor.data for tensor in inputs):
            return outputs
        if number in self._counting(body):
            findings.need_constants(body.nodes[number], inputs)
        node = body.nodes[number]
        origins = () if body.calls[number] else carry(node, inputs, len(outputs))
        if closes_loop(body, number):
            origins = tuple(map(in_turns, origins))
        if node.op in TABLE_OPS or any(tensor.origins for tensor in inputs):
            results = origins[0] if origins else ()
            condition = self._decides(body, number)
            demands = find_demands(node, name, inputs, results, condition=condition)
            join_demands(findings.demands, demands)
            if body.ops[number] == MODULE_OP:
                join_demands(findings.demands, demands_of(body.nodes[number], name, inputs))
        if body.calls[number]:
            return outputs
        data, compared = body.ops[number] not in SHAPE_ONLY, follow_compared(node.op, inputs)
        return tuple(
            t
            if t.data == data and t.origins == o and t.compared == compared
            else replace(t, origins=o, data=data, compared=compared)
            for t, o in zip(outputs, origins, strict=False)
        )

    def _decides(self, body: Body, number: int) -> bool:
        """Whether a loop goes on by the result of a node."""
        if body.name not in self._deciding:
            ends = [n for n, op in enumerate(body.ops) if op == "LoopCond"]
            numbers = {source for end in ends for source in body.data[end]}
            if body.name in self._conditions:
                results = self._library.results(body.name)
                numbers |= body.reach(body.find(results), control=False)
            self._deciding[body.name] = numbers
        return number in self._deciding[body.name]

    def _counting(self, body: Body) -> set[int]:
        """The nodes on whose values the results of a function depend: freezing drops all others."""
        if body.name not in self._counted:
            results = self._library.results(body.name)
            self._counted[body.name] = body.reach(body.find(results), control=False)
        return self._counted[body.name]

    def _read(
        self,
        body: Body,
        tensor: str,
        arguments: Sequence[Tensor],
        known: dict[int, tuple[Tensor, ...]],
    ) -> Tensor:
        name = node_name(tensor)
        number = body.index.get(name)
        if number is None:
            return arguments[body.arguments[name]]
        outputs = known.get(number)
        if outputs is None:  # what closes a loop of TensorFlow 1
            return UNKNOWN
        parts = tensor.split(":")
        index = int(parts[-1]) if len(parts) > 1 and parts[-1].isdecimal() else 0
        if len(parts) == 3 and len(outputs) > 1:
            index += self._offset(body.nodes[number], parts[1])
        return outputs[index] if index < len(outputs) else UNKNOWN

    def _offset(self, node: Any, output: str) -> int:
        function = self._library.definitions.get(node.op)
        if function is not None:
            names = [argument.name for argument in function.signature.output_arg]
            return names.index(output) if output in names else 0
        definition = op_def_registry.get(node.op)
        return 0 if definition is None else count_outputs(node, definition, output)

    def _evaluate(
        self, body: Body, number: int, inputs: list[Tensor], findings: Found
    ) -> tuple[Tensor, ...]:
        op, node = body.ops[number], body.nodes[number]
        if op == "Const":
            return (self._constant(body, number),)
        if op == MODULE_OP:
            self._add_module(body, number, findings)
        called = body.calls[number]
        if called:
            return self._evaluate_call(body, number, inputs, findings)
        if op in _SAME and inputs and (inputs[0].value is None or op not in _FOLDED):
            return (replace(inputs[0], value=None, bounds=follow_bounds(node, inputs)),)
        if op in SPECIAL:
            return (SPECIAL[op](node, inputs),)
        if op == "LoopCond":
            turns = self._frame(body, number).count
            if turns != 0:
                findings.loop(body.names[number], body.name, turns)
        folded = fold(node, inputs)
        if folded is not None:
            return (folded,)
        return self._infer(op, node, inputs, findings, (body, number))

    def _add_module(self, body: Body, number: int, findings: Found) -> None:
        """Sizes and loops in a StableHLO module."""
        name, cost = body.names[number], cost_of(body.nodes[number])
        if cost.largest is not None:
            findings.size(body, number, cost.largest.elements)
        for loop in cost.loops:
            findings.loop(name, body.name, loop.turns)

    def _infer(
        self,
        op: str,
        node: Any,
        inputs: list[Tensor],
        findings: Found,
        place: tuple[Body, int],
    ) -> tuple[Tensor, ...]:
        dynamic = any(i.dynamic for i in inputs) or op.startswith(_RANDOM)
        dynamic = dynamic or op.startswith("Placeholder")
        if op_def_registry.get(op) is None or (effect_of(op) and op not in READABLE):
            return (Tensor(dynamic=True),)
        if op in ("TensorListReserve", "TensorArrayV3"):
            findings.size(*place, reserved(op, inputs))
        shapes = self._shapes.infer(node, inputs) or (None,)
        bounds = follow_bounds(node, inputs)
        counts = op == "Range" or (op in _RESHAPES and inputs[0].positions)
        return tuple(
            Tensor(shape, dynamic=dynamic, bounds=bounds, positions=counts) for shape in shapes
        )

    def _constant(self, body: Body, number: int) -> Tensor:
        key = (body.name, number)
        if key not in self._constants:
            self._constants[key] = read_constant(body.nodes[number])
        return self._constants[key]

    # --- calls ------------------------------------------------------------------------------------

    def _evaluate_call(
        self, body: Body, number: int, inputs: list[Tensor], findings: Found
    ) -> tuple[Tensor, ...]:
        op, called = body.ops[number], body.calls[number]
        arguments = tuple(inputs)
        if op in _CALLS or op in self._library.definitions:
            results, met = self._call(called[-1] if op not in _CALLS else called[0], arguments)
            findings.add(met)
            return results
        if op in _BRANCHES:
            outcomes = [self._call(name, arguments[1:]) for name in called]
            for _, met in outcomes:
                findings.add(met)
            # The branches may be one function, named twice.
            dynamic = not inputs or inputs[0].dynamic
            joined = reduce(join_all, (results for results, _ in outcomes))
            return tuple(
                replace(t, value=None, dynamic=t.dynamic or dynamic, bounds=bounds_of(t))
                for t in joined
            )
        if op in _WHILE:
            return self._evaluate_while(body, number, arguments, findings)
        for name in called:
            findings.add(self._call(name, ())[1])
        return (Tensor(dynamic=True),)

    def _evaluate_while(
        self, body: Body, number: int, inputs: tuple[Tensor, ...], findings: Found
    ) -> tuple[Tensor, ...]:
        node = body.nodes[number]
        condition, turn = node.attr["cond"].func.name, node.attr["body"].func.name
        if not {condition, turn} <= self._library.bodies.keys():
            return (Tensor(dynamic=True),)
        loop = Loop.of_functions(self._library, condition, turn, inputs)
        state = tuple(
            tensor
            if index in loop.invariant
            else replace(forget(tensor), origins=in_turns(tensor.origins))
            for index, tensor in enumerate(inputs)
        )
        state, met = self._widen(turn, state)
        (again, *_), of_condition = self._call(condition, state)
        turns = Turns(1)
        if not again.dynamic:
            turns = count_turns(self, loop)
            findings.loop(body.names[number], body.name, turns.count)
            inside = _bounded(state, turns.within)
        else:  # what changes in its turns depends on inputs too
            inside = tuple(
                tensor if index in loop.invariant else replace(tensor, dynamic=True)
                for index, tensor in enumerate(state)
            )
        if inside != state:
            met = self._call(turn, inside)[1]
        findings.add(of_condition, turns.count or 1)
        findings.add(met, turns.count or 1)
        results = _bounded(state, turns.after)
        return tuple(replace(t, dynamic=t.dynamic or again.dynamic) for t in results)

    def _widen(self, turn: str, state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Found]:
        """The known facts about the variables of a loop in all turns, and what these meet."""
        for _ in range(4):  # shapes can only become less known
            results, met = self._call(turn, state)
            wider = join_all(state, results)
            if wider == state:
                break
            state = wider
        return state, met

    def _frame(self, body: Body, loop_condition: int) -> Turns:
        """The turns of a loop of TensorFlow 1."""
        key = (body.name, loop_condition)
        if key not in self._frames:
            self._frames[key] = Turns(None)  # while it is counted
            self._frames[key] = count_turns(self, Loop.of_frame(body, loop_condition))
        return self._frames[key]

    def _merged(self, body: Body, number: int) -> Tensor:
        """A variable of a loop of TensorFlow 1, as what is inside the loop sees it."""
        if body.name not in self._variables:
            self._variables[body.name] = {
                variable: condition
                for condition, op in enumerate(body.ops)
                if op == "LoopCond"
                for variable in Loop.of_frame(body, condition).updates
            }
        condition = self._variables[body.name].get(number)
        if condition is None:
            return UNKNOWN
        turns = self._frame(body, condition)
        bounds = hull(limits.get(number) for limits in (turns.within, turns.after))
        return Tensor(bounds=bounds)

    def evaluate(
        self, body: Body, tensor: str, arguments: dict[int, Tensor], merged: dict[int, Tensor]
    ) -> Tensor:
        """One tensor of a body, given some arguments and nodes."""
        number = body.index.get(node_name(tensor))
        if number is None:
            return arguments.get(body.arguments[node_name(tensor)], UNKNOWN)
        count = len(body.arguments)
        values = [arguments.get(index, UNKNOWN) for index in range(count)]
        known: dict[int, tuple[Tensor, ...]] = {n: (t,) for n, t in merged.items()}
        for step in _slice(body, number, merged):
            self._trials -= 1
            if self._trials < 0:
                return UNKNOWN
            inputs = [
                self._read(body, read, values, known)
                for read in body.tensors[step]
                if read[0] != "^"
            ]
            known[step] = self._value(body, step, inputs)
        return self._read(body, tensor, values, known)

    def _value(self, body: Body, number: int, inputs: list[Tensor]) -> tuple[Tensor, ...]:
        op = body.ops[number]
        if op == "Const":
            return (self._constant(body, number),)
        if body.calls[number]:
            return self._try_call(body, number, inputs)
        if op in FRAME and inputs:
            return (inputs[0],)
        if op == "Switch" and inputs:  # whichever side runs has the value
            return (inputs[0], inputs[0])
        if closes_loop(body, number):
            return (self._merged(body, number),)
        node = body.nodes[number]
        return (fold(node, inputs) or Tensor(bounds=follow_bounds(node, inputs)),)

    def _try_call(self, body: Body, number: int, inputs: list[Tensor]) -> tuple[Tensor, ...]:
        """The results of a call; of a branch that is taken, its own."""
        node, op = body.nodes[number], body.ops[number]
        if op in _BRANCHES:
            outcomes = (
                self._try_function(name, _inside(body, number, inputs, name))
                for name in _taken(node, inputs[0], body.calls[number])
            )
            return reduce(join_all, outcomes)
        if op in _CALLS or op in self._library.definitions:
            return self._try_function(body.calls[number][0], inputs)
        return self._evaluate_call(body, number, inputs, Found())

    def _try_function(self, name: str, arguments: Sequence[Tensor]) -> tuple[Tensor, ...]:
        body, tensors = self._library.bodies[name], dict(enumerate(arguments))
        return tuple(
            self.evaluate(body, tensor, tensors, {}) for tensor in self._library.results(name)
        )


def _slice(body: Body, number: int, known: dict[int, Tensor]) -> Iterator[int]:
    """The nodes that a node depends on for its value, in order, but for known nodes."""
    needed, waiting = set[int](), [number]
    while waiting:
        step = waiting.pop()
        if step not in needed and step not in known:
            needed.add(step)
            # Other loops of TensorFlow 1 are counted on their own.
            waiting += [] if closes_loop(body, step) else body.data[step]
    if len(needed) < len(body.order) // 8:
        places = {step: place for place, step in enumerate(body.order) if step in needed}
        yield from sorted(needed, key=places.__getitem__)
    else:
        yield from (step for step in body.order if step in needed)


def _bounded(state: Sequence[Tensor], bounds: Mapping[int, Bounds]) -> tuple[Tensor, ...]:
    return tuple(
        replace(tensor, bounds=bounds[index])
        if tensor.value is None and index in bounds
        else tensor
        for index, tensor in enumerate(state)
    )


def _taken(node: Any, choice: Tensor, branches: Sequence[str]) -> Sequence[str]:
    """The branches that may be taken."""
    known = bounds_of(choice)
    if known is None or known[0] != known[1]:
        return branches
    if node.op in _CONDITIONS:
        return (node.attr["then_branch" if known[0] else "else_branch"].func.name,)
    functions = [function.name for function in node.attr["branches"].list.func]
    return (functions[known[0] if 0 <= known[0] < len(functions) else -1],)


def _inside(body: Body, number: int, inputs: Sequence[Tensor], branch: str) -> list[Tensor]:
    """The arguments of a branch: in it, the condition is known."""
    node, tensors = body.nodes[number], body.tensors[number]
    if node.op not in _CONDITIONS:
        return list(inputs[1:])
    taken = Tensor((), (node.attr["then_branch"].func.name == branch,), dynamic=False)
    return [
        taken if tensor == tensors[0] else known
        for tensor, known in zip(tensors[1:], inputs[1:], strict=False)
    ]
