"""StableHLO modules in graphs of TensorFlow, as `jax2tf` writes them: what is changed in files of other formats, too."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

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


def _change_modules(graph_def: Any, change: Callable[[str], str]) -> None:
    """Changes the text of each module, which may be a portable artifact; what is left is bytecode of this version."""
    inner = (function.node_def for function in graph_def.library.function)
    for node in chain(graph_def.node, *inner):
        if node.op == MODULE_OP:
            plain = plain_module(node.attr["module"].s, f"the module in {node.name!r}")
            lean = take_out(named_text(plain))
            text = change(lean.text)
            node.attr["module"].s = (
                plain if text == lean.text else write_module(put_back(lean.with_text(text)))
            )
