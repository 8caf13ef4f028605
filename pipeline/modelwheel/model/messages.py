"""Removes the markup of nodes and functions from TensorFlow's error messages.

TensorFlow writes `{{node while/Switch}}` and `{{function_node __inference_f_7}}` into messages, for
its own front end to replace (xla/tsl/platform/errors.h, `FormatNodeNameForError`). The
numbered names of functions mean nothing to the author of a model.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from google.protobuf.message import EncodeError

from ..errors import UnsupportedModelError

_FUNCTION = re.compile(r"\{\{function_node [^{}]*\}\}\s*")
_NODE = re.compile(r"\{\{(?:\w+ )?([^{}]*)\}\}")
_ATTRIBUTES = re.compile(r"__inference_(\w+?)_\d+\[[^\[\]]*\]")
# TensorFlow cuts long messages, also inside the markup.
_CUT = re.compile(r"\{\{(?:function_node|node)\b[^{}]*$")


def without_node_markup(text: str) -> str:
    """The text with `{{node NAME}}` as NAME, without `{{function_node NAME}}` and attributes of functions.

    >>> without_node_markup("in {{function_node __inference_f_7}}{{node while/Switch}}: failed")
    'in while/Switch: failed'
    >>> without_node_markup("cannot compile __inference_f_7[_XlaMustCompile=true,executor_type=11] here")
    'cannot compile f here'
    """
    return _CUT.sub("", _NODE.sub(r"\1", _FUNCTION.sub("", _ATTRIBUTES.sub(r"\1", text))))


# What TensorFlow writes before the cause: where the operation was defined, which saved models do not know.
_PREAMBLE = re.compile(
    r"Graph execution error:|Detected at node .* defined at|Detected at node|<stack traces unavailable>"
    r"|  File \"|    |Traceback|\d+ root error|\s*\(\d+\) \w+:\s*$|defined at|Node: '[^']*'$"
)
# While a function is traced, TensorFlow puts the lines of Python that made it before the cause.
_USER_CODE = re.compile(r"\Ain user code:$.*?^    [\w.]+: (.+)$", re.MULTILINE | re.DOTALL)
# Keras writes its advice before the cause, and so does each class around it.
_ENCOUNTERED = "Exception encountered: "
_DETECTED = re.compile(r"Detected at node '?([^\s']+)'? defined at")
_FAILING_NODE = re.compile(r"\{\{node ([^{}]*)\}\}")


def cause_of(text: str) -> str:
    """The line of an error message of TensorFlow that says what is wrong.

    >>> cause_of("Graph execution error:\\n\\nindices[0] = 9 is not in [0, 4)\\n\\t [[{{node a}}]] [Op:f]")
    'indices[0] = 9 is not in [0, 4)'
    >>> cause_of("Graph execution error:\\n\\nDetected at node 'a' defined at\\nNode: 'a'\\nno such shape\\n\\t [[{{node a}}]]")
    'no such shape'
    >>> cause_of("A could not be deserialized\\n\\nException encountered: no such layer")
    'no such layer'
    """
    text = text.rpartition(_ENCOUNTERED)[2] or text
    of_python = _USER_CODE.search(text)
    if of_python:
        text = of_python[1]
    elif text.startswith("in user code:"):
        text = text.rstrip().rpartition("\n")[2].strip()
    lines = [line.split("[[{{node")[0].split(" [Op:")[0] for line in text.splitlines()]
    for line in lines:
        if line.strip() and not _PREAMBLE.match(line):
            return without_node_markup(line).strip()
    return without_node_markup(lines[0] if lines else "").strip()


def node_of(text: str) -> str:
    """The node that an error message of TensorFlow names; empty for none."""
    match = _DETECTED.search(text) or _FAILING_NODE.search(text)
    return match[1] if match else ""


def first_line(error: Exception) -> str:
    """The first line of an error of TensorFlow, without markup and the name of the eager operation."""
    return cause_of(str(error)) or type(error).__name__


_LIBRARIES = {
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "tf_keras": "Keras 2 (tf_keras)",
    "onnx": "onnx",
    "onnxruntime": "ONNX Runtime",
    "torch_mlir": "torch-mlir",
    "torch": "PyTorch",
    "jax": "JAX",
    "jaxlib": "JAX",
    "h5py": "h5py",
}
"""What jobs call, by the names of the packages."""


def blame(error: Exception) -> str:
    """Who has failed with an unexpected error, as the beginning of a sentence: the library that was called last.

    >>> blame(ValueError("made by nobody"))
    'internal error of modelwheel, please report it'
    """
    own = _LIBRARIES.get(type(error).__module__.partition(".")[0])
    if own is not None:
        return f"{own} failed"
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        name = _LIBRARIES.get(str(frame.f_globals.get("__name__", "")).partition(".")[0])
        if name is not None:
            return f"{name} failed"
        # Other libraries, such as NumPy, fail at what they are given.
        if str(frame.f_globals.get("__name__", "")).startswith("modelwheel."):
            break
    return "internal error of modelwheel, please report it"


@contextmanager
def weights_within_limit() -> Iterator[None]:
    """Turns protobuf's refusal of a message of 2 GB into a sentence about the model.

    Raises:
        UnsupportedModelError: What runs inside made a larger graph.
    """
    try:
        yield
    except (ValueError, EncodeError) as error:
        if "2GB" not in str(error):
            raise
        raise UnsupportedModelError(
            "the weights exceed 2 GB, more than a TensorFlow graph holds as constants", code="MW415"
        ) from error
