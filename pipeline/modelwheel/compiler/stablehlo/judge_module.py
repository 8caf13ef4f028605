"""Reads what a StableHLO module would do, for the judgement before anything of it runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ...model.effects import Effect
from ...model.inspection import (
    Cost,
    Inspection,
    LargeTensor,
    OpUse,
    SignatureInfo,
    SignatureUse,
    Support,
)
from ...model.stablehlo_ops import CALLS_TENSORFLOW, describe
from ..tensors.demands import Demands
from ..tensors.uses import Demand, part_of, passed
from ..tensors.values import Origin, Tensor
from .mlir_text import Block, Function, Op, result_types
from .module_values import module_demands, with_module_values
from .module_walk import MAIN, Walk, called_functions
from .xla_module import Module, embedded_module

MODULE_OP = "XlaCallModule"
"""TensorFlow's operation that holds a module."""
_NAMES_KEPT = 8


@dataclass
class Kind:
    """One kind of operation, over all functions that `main` calls."""

    support: Support
    effect: Effect
    count: int = 0
    functions: dict[str, None] = field(default_factory=dict)
    values: dict[str, None] = field(default_factory=dict)
    """The first few results, as MLIR names them."""

    def add(self, function: str, op: Op) -> None:
        """Counts one more."""
        self.count += 1
        name = f"%{op.results[0][0]}" if op.results else op.name
        for names, new in ((self.functions, function), (self.values, f"{function} {name}")):
            if len(names) < _NAMES_KEPT:
                names[new] = None


def kinds(module: Module, *, calls_tensorflow: bool = False) -> dict[str, Kind]:
    """The kinds of operations, by their names; custom calls with their targets.

    Args:
        module: As it was read.
        calls_tensorflow: Whether it may run functions of the SavedModel that it is in, which are judged
            themselves.
    """
    by_label: dict[str, Kind] = {}
    for name, op in reached_ops(module):
        target = target_of(op)
        label = op.name if target is None else f"{op.name} @{target}"
        if label not in by_label:
            known = calls_tensorflow and target == CALLS_TENSORFLOW
            by_label[label] = Kind(*(("compiled", "") if known else describe(op.name, target)))
        by_label[label].add(name, op)
    return dict(sorted(by_label.items()))


def reached_ops(module: Module) -> Iterator[tuple[str, Op]]:
    """The operations of `main` and of what it calls, each with the name of its function."""
    for name in _reach(module.functions):
        for op in _walk(module.functions[name].body):
            yield name, op


def target_of(op: Op) -> str | None:
    """The target of a custom call; None for other operations."""
    return next(iter(op.symbols), None) if op.name.endswith(".custom_call") else None


def cost(module: Module) -> Cost:
    """The cost of running a module."""
    return Walk(module.functions).cost()


def kinds_of(node: Any) -> Mapping[str, Kind]:
    """The kinds of operations in the module of an XlaCallModule node of a SavedModel."""
    return _judge(node.attr["module"].s)[0]


def cost_of(node: Any) -> Cost:
    """The cost of running such a node."""
    return _judge(node.attr["module"].s)[1]


def composites_of(node: Any) -> Mapping[str, int]:
    """How many composites the module of such a node has, by their names."""
    return _judge(node.attr["module"].s)[4]


def demands_of(node: Any, name: str, inputs: Sequence[Tensor]) -> Demands:
    """The demands of the module of such a node of the inputs whose values reach the node."""
    demands, count = _judge(node.attr["module"].s)[2:4]
    before = count - len(inputs)  # the number of a platform is no input of the node
    uses: Demands = {}
    for (argument, demand), (op, _) in demands.items():
        if not argument:  # a table that is read by what no input is
            uses.setdefault(("", demand), (op, name))
            continue
        if int(argument) < before:
            continue
        for origin in inputs[int(argument) - before].origins:
            own = passed(demand, origin)
            if own is not None:
                own = replace(own, columns=_columns(demand, origin))
                uses.setdefault((origin.feed, own), (op, name))
    return uses


def _columns(demand: Demand, origin: Origin) -> tuple[int, int] | None:
    """The columns of an input for which a demand on an argument of a module is."""
    passed = origin.columns
    if demand.columns is None or passed is None or not passed.aligned:
        return part_of(origin)
    return passed.first + demand.columns[0], passed.first + demand.columns[1]


@lru_cache(maxsize=64)
def _judge(content: bytes) -> tuple[Mapping[str, Kind], Cost, Demands, int, Mapping[str, int]]:
    module = embedded_module(content)
    count = len(module.main.arguments)
    demands = module_demands(module.functions, count)
    by_label = kinds(module, calls_tensorflow=True)
    return by_label, cost(module), demands, count, module.composites


def inspect_module(
    module: Module,
    signature: SignatureInfo,
    arguments: Sequence[str],
    *,
    written_by: str,
    file_bytes: int,
) -> Inspection:
    """A module that is a whole model; `arguments` are the inputs that `main` takes, in its order."""
    uses = tuple(_use(label, kind, signature.key) for label, kind in kinds(module).items())
    return Inspection(
        written_by=written_by,
        tags=(),
        signatures=(with_module_values(signature, module.functions, arguments),),
        ops=uses,
        assets=(),
        graph_bytes=file_bytes,
        nodes=sum(use.count for use in uses),
        functions=len(module.functions),
        composites={signature.key: module.composites} if module.composites else {},
        costs={signature.key: cost(module)},
        largest=_largest_constant(module.functions),
    )


def _use(label: str, kind: Kind, key: str) -> OpUse:
    layers = tuple(kind.values)
    return OpUse(
        op=label,
        support=kind.support,
        effect=kind.effect,
        count=kind.count,
        functions=tuple(kind.functions),
        layers=layers,
        signatures={key: SignatureUse(count=kind.count, layers=layers)},
    )


def _reach(functions: Mapping[str, Function]) -> list[str]:
    """`main` and what it calls."""
    reached, known = [MAIN], {MAIN}
    for name in reached:  # grows while it is walked
        for op in _walk(functions[name].body):
            new = [n for n in called_functions(op, functions) if n not in known]
            reached += dict.fromkeys(new)
            known.update(new)
    return reached


def _walk(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from _walk(region)


def _largest_constant(functions: Mapping[str, Function]) -> LargeTensor | None:
    largest: LargeTensor | None = None
    for function in functions.values():
        for op in _walk(function.body):
            for tensor in result_types(op) if op.name.endswith(".constant") else ():
                elements = math.prod(e for e in tensor.shape if e is not None)
                if largest is None or elements > largest.elements:
                    name = f"%{op.results[0][0]}"
                    largest = LargeTensor(node=name, function=function.name, elements=elements)
    return largest
