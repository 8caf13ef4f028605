"""The operations of a StableHLO module as a graph: what computes each value, of which type it is, and who reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .mlir_text import Block, Function, Op, TensorType, result_types


class BlockGraph:
    """The values of one block, and of the blocks around it."""

    def __init__(
        self, block: Block, types: Mapping[str, TensorType], outer: Mapping[str, Op]
    ) -> None:
        """Reads the operations.

        Args:
            block: The block.
            types: The types of what it is given, and of values outside of it.
            outer: Operations outside of it.
        """
        self.block = block
        self.types: dict[str, TensorType] = dict(types)
        self.ops: dict[str, Op] = dict(outer)
        """What computes a value; only operations with one result are here."""
        self.own: dict[str, Op] = {}
        """Only those inside of the block."""
        self._readers: dict[str, list[Op]] = {}
        self._inner: set[str] = set()
        self._several_results: set[str] = set()
        for op in block.ops:
            self._add(op)

    def _add(self, op: Op) -> None:
        kinds = result_types(op)
        for name, count in op.results:
            names = [name] if count == 1 else [f"{name}#{number}" for number in range(count)]
            if len(kinds) >= count:
                self.types.update(zip(names, kinds[-count:], strict=True))
            if count == 1:
                self.ops[name] = self.own[name] = op
            else:
                self._several_results.add(name)
        for name in self.operands(op):
            self._readers.setdefault(name, []).append(op)
        for region in op.regions:
            self._inner.update(name for inner in all_ops(region) for name in self.operands(inner))

    def operands(self, op: Op) -> list[str]:
        """The names of what an operation reads."""
        return [f"{n}#{index}" if n in self._several_results else n for n, index in op.operands]

    def readers(self, name: str) -> list[Op]:
        """The operations of this block that read a value; one that reads it twice is there twice."""
        return self._readers.get(name, [])

    def is_read_inside(self, name: str) -> bool:
        """Whether a loop, branch or reduction of this block reads a value from outside."""
        return name in self._inner


def graphs_of(function: Function) -> Iterator[BlockGraph]:
    """The blocks of a function, those inside of loops and branches too."""
    kinds = zip(function.body.arguments, function.arguments, strict=False)
    types = {name: kind for name, kind in kinds if isinstance(kind, TensorType)}
    yield from _graphs_of_block(function.body, types, {})


def _graphs_of_block(
    block: Block, types: Mapping[str, TensorType], outer: Mapping[str, Op]
) -> Iterator[BlockGraph]:
    graph = BlockGraph(block, types, outer)
    yield graph
    for op in block.ops:
        if op.name in ("stablehlo.while", "stablehlo.if", "stablehlo.case"):
            kinds = result_types(op)
            for region in op.regions:
                own = dict(zip(region.arguments, kinds, strict=False))
                yield from _graphs_of_block(region, {**graph.types, **own}, graph.ops)


def all_ops(block: Block) -> Iterator[Op]:
    """The operations of a block and of the regions in it."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from all_ops(region)
