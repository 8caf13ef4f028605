"""The text of a graph: a line for each node, those of loops and branches indented.

    %0 = parameter 0, 256 bytes
    %1 = constant 1a2b3c4d5e6f, 512 bytes
    %2 = dot %0 f32[4,16], %1 f32[16,8] {lhs_contracting=[1], rhs_contracting=[0]}  # dense/MatMul
    return %2

A part of a value is its first byte behind its name: `%2+64`. A result that leaves some bytes as they are has `into %1` in
front. What a loop carries is in parentheses: the value after it, what it begins with, and the names in each region.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...program.text import attributes, named_operands, region_names, type_of
from .graph import Carried, Graph, Join, Node, Operand, Piece, Region, Result, Value

_INDENT = "  "


def graph_text(graph: Graph) -> str:
    """All of a graph, with a line feed at the end. Values have numbers in the order in which they are met."""
    writer = _Writer(graph)
    lines = [*writer.region(graph.body, 0)]
    results = ", ".join(writer.piece(piece) for piece, _ in graph.results)
    sources = [writer.source(value) for value in writer.sources]
    return "\n".join([*sources, *lines, f"return {results}"]) + "\n"


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._names: dict[Value, str] = {}
        used = [value for node in graph.walk() for value in node.used]
        used += [piece.value for piece, _ in graph.results]
        kinds = ("parameter", "constant", "undefined")
        self.sources = [v for v in dict.fromkeys(used) if v.source in kinds]
        """Values that no node computes."""
        self.sources.sort(key=lambda value: value.home.allocation if value.home else -1)
        for value in self.sources:
            self._name(value)

    def _name(self, value: Value) -> str:
        return self._names.setdefault(value, f"%{len(self._names)}")

    def source(self, value: Value) -> str:
        """The line of a value that no node computes."""
        what: str = value.source
        if value.home is not None and value.source != "undefined":
            allocation = self._graph.allocations[value.home.allocation]
            number = allocation.parameter if value.source == "parameter" else allocation.sha256
            what += f" {str(number)[:12]}"
        return f"{self._name(value)} = {what}, {value.size} bytes"

    def region(self, region: Region, depth: int) -> Iterator[str]:
        """The lines of the nodes of a region."""
        for node in region.nodes:
            # Names of what is carried come before those inside.
            head = self._node(node)
            yield _INDENT * depth + head
            if isinstance(node.op, Join) or not node.regions:
                continue
            names = region_names(node.op, len(node.regions))
            for number, (name, inner) in enumerate(zip(names, node.regions, strict=True)):
                lines = [*self.region(inner, depth + 2)]
                left = [c.results[number] for c in node.carried if c.results[number] is not None]
                if not lines and not left:
                    continue
                values = [c.arguments[number] for c in node.carried if c.arguments]
                arguments = ", ".join(self._name(value) for value in values if value is not None)
                yield _INDENT * (depth + 1) + name + (f"({arguments})" if arguments else "") + ":"
                yield from lines
                if left:
                    pieces = ", ".join(self.piece(piece) for piece in left if piece is not None)
                    yield _INDENT * (depth + 2) + f"yield {pieces}"

    def _node(self, node: Node) -> str:
        outputs = named_operands(node.op.OUTPUTS, node.outputs, self._result)
        values = ", ".join(self._name(variable.value) for variable in node.carried)
        inputs = named_operands(node.op.INPUTS, node.inputs, self._operand)
        carried = ", ".join(
            self._initial(variable) for variable in node.carried if variable.arguments
        )
        for variable in node.carried:
            for argument in variable.arguments:
                if argument is not None:
                    self._name(argument)
        left = ", ".join(filter(None, (outputs, values)))
        parts = [node.op.kind, inputs, f"({carried})" if carried else ""]
        parts.append("" if isinstance(node.op, Join) else attributes(node.op))
        right = " ".join(filter(None, parts))
        origin = f"  # {node.origin}" if node.origin else ""
        return (f"{left} = " if left else "") + right + origin

    def _initial(self, carried: Carried) -> str:
        return "undefined" if carried.initial is None else self.piece(carried.initial)

    def piece(self, piece: Piece) -> str:
        """Some bytes of a value."""
        return self._name(piece.value) + (f"+{piece.offset}" if piece.offset else "")

    def _operand(self, operand: Operand) -> str:
        part = operand.view.slice
        return f"{self._at(operand.value, part.offset, part.step)} {type_of(operand.view)}"

    def _result(self, result: Result) -> str:
        part = result.view.slice
        base = f" into {self.piece(result.base)}" if result.base else ""
        return f"{self._at(result.value, part.offset, part.step)} {type_of(result.view)}{base}"

    def _at(self, value: Value, offset: int, step: int) -> str:
        return self._name(value) + (f"+{offset}" if offset else "") + (f"{step:+}i" if step else "")
