"""Removes the markup of nodes and functions from TensorFlow's error messages.

TensorFlow writes `{{node while/Switch}}` and `{{function_node __inference_f_7}}` into messages, for
its own front end to replace (xla/tsl/platform/errors.h, `FormatNodeNameForError`). The
numbered names of functions mean nothing to the author of a model.
"""

from __future__ import annotations

import re

_FUNCTION = re.compile(r"\{\{function_node [^{}]*\}\}\s*")
_NODE = re.compile(r"\{\{(?:\w+ )?([^{}]*)\}\}")
# TensorFlow cuts long messages, also inside the markup.
_CUT = re.compile(r"\{\{(?:function_node|node)\b[^{}]*$")


def without_node_markup(text: str) -> str:
    """The text with `{{node NAME}}` as NAME and without `{{function_node NAME}}`.

    >>> without_node_markup("in {{function_node __inference_f_7}}{{node while/Switch}}: failed")
    'in while/Switch: failed'
    """
    return _CUT.sub("", _NODE.sub(r"\1", _FUNCTION.sub("", text)))


def first_line(error: Exception) -> str:
    """What an error of TensorFlow says first, without markup and the name of the eager operation."""
    lines = without_node_markup(str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0].partition(" [Op:")[0]
