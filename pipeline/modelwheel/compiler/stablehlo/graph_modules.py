"""StableHLO modules in graphs of TensorFlow, as `jax2tf` writes them: what is changed in files of other formats, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from ...errors import UnsupportedModelError
from ..graphs.graphs import node_name
from .canonical import canonical_form
from .judge_module import MODULE_OP
from .module_integers import keep_integers
from .module_weights import put_back, take_out
from .written_functions import restore_functions
from .xla_module import named_text, plain_module, write_module


def keep_integers_of_modules(graph_def: Any) -> None:
    """Gives integers the arithmetic that XLA would simplify away; see `module_integers`."""
    _change_modules(graph_def, keep_integers)


def restore_functions_of_modules(graph_def: Any) -> None:
    """Puts operations in the place of the arithmetic that they were written out as; see `written_functions`."""
    _change_modules(graph_def, restore_functions)


def canonicalize_modules(graph_def: Any) -> None:
    """Brings each module of known shapes into the form for which the compiler has the best code; see `canonical`."""
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        by_name = {node.name: node for node in nodes}
        for node in nodes:
            if node.op == MODULE_OP:
                constants = [
                    n for n, tensor in enumerate(node.input) if _is_constant(tensor, by_name)
                ]
                change = partial(canonical_form, constants=constants)
                # XLA refuses a module that is wrong itself, and names the layer.
                with suppress(UnsupportedModelError):
                    _change_module(node, change, "inline")


def _is_constant(tensor: str, nodes: Mapping[str, Any]) -> bool:
    node = nodes.get(node_name(tensor))
    while node is not None and node.op == "Identity":
        node = nodes.get(node_name(node.input[0]))
    return node is not None and node.op == "Const"


def _change_modules(graph_def: Any, change: Callable[[str], str]) -> None:
    """Changes the text of each module, which may be a portable artifact; what is left is bytecode of this version."""
    inner = (function.node_def for function in graph_def.library.function)
    for node in chain(graph_def.node, *inner):
        if node.op == MODULE_OP:
            _change_module(node, change)


def _change_module(node: Any, change: Callable[[str], str], passes: str = "") -> None:
    """Changes the text of a module, after passes of MLIR; without a change, they are not done either."""
    plain = plain_module(node.attr["module"].s, f"the module in {node.name!r}")
    lean = take_out(named_text(plain, passes))
    text = change(lean.text)
    node.attr["module"].s = (
        plain if text == lean.text else write_module(put_back(lean.with_text(text)))
    )
