"""The result of freezing: a graph without variables, of fixed shapes, and its signature.

`modelwheel.compiler.freeze.freeze` writes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from ..dtypes import DTYPES
from ..spec.names import to_tensor_identifier
from ..util.records import JsonRecord
from .fusions.registry import Replaced
from .inspection import OrderedBy

GRAPH, CONFIG, SIGNATURE = "graph.pb", "config.pb", "signature.json"
"""A GraphDef, the tf2xla Config that names its feeds and fetches, and a `FrozenSignature`."""
STATE = "state.bin"
"""What the variables of `FrozenSignature.state` hold before the first call, one after the other."""


class FrozenTensor(JsonRecord):
    """One input or output of a frozen graph."""

    name: str
    """As in the SavedModel's signature."""
    c_name: str
    """As a C identifier, unique among the inputs or among the outputs."""
    dtype: str
    """NumPy's name of the element type; `bfloat16` for that one."""
    shape: tuple[int, ...]
    real: str = ""
    """See `modelwheel.signature.Tensor`."""

    @property
    def bytes(self) -> int:
        """The size of its elements."""
        return math.prod(self.shape) * DTYPES[self.dtype].item_bytes


class FrozenSignature(JsonRecord):
    """Inputs and outputs of a frozen graph, in the order of the compiled program's parameters.

    `ordered_by` says what decides the order.
    """

    version: Literal[1] = 1
    key: str
    """The name of the signature."""
    batch: int | None
    """None if the signature has no batch axis."""
    inputs: tuple[FrozenTensor, ...]
    outputs: tuple[FrozenTensor, ...]
    batched_inputs: tuple[str, ...]
    """Names of the inputs that have a batch axis."""
    pruned_inputs: tuple[str, ...]
    """Inputs of the signature that no output depends on: they are not among `inputs`."""
    ignored_inputs: tuple[FrozenTensor, ...] = ()
    """Those of them that the interface keeps."""
    order: tuple[str, ...]
    """Names of all inputs of the interface in their order."""
    ordered_by: OrderedBy
    state: tuple[FrozenTensor, ...] = ()
    """Variables that calls read and write, by name. In the program they are parameters after the
    inputs; `STATE` has their first values."""
    fusions: tuple[Replaced, ...] = ()
    """What was replaced in the graph."""


def c_names(names: Iterable[str]) -> tuple[str, ...]:
    """A different C identifier for every name, as similar to it as possible.

    They are used with a prefix (`arg_x`, `result_y`) and alone, as names of parameters and members; see
    `to_tensor_identifier`. A name that can stay as it is keeps its identifier, so that an identifier is
    never another tensor's name.
    """
    names = tuple(names)
    wanted = {name: to_tensor_identifier(name) for name in names}
    taken = {name for name in names if wanted[name] == name}
    identifiers = []
    for name in names:
        candidate, number = wanted[name], 2
        # Different names may become the same identifier: `a/b` and `a.b`.
        while candidate in taken and candidate != name:
            # Again through the rule: the number could make it a macro, as in `M_SQRT1_2`.
            candidate = to_tensor_identifier(f"{wanted[name]}_{number}")
            number += 1
        taken.add(candidate)
        identifiers.append(candidate)
    return tuple(identifiers)
