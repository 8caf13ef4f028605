"""Rewrites a StableHLO module from float32 to float64, as the text that MLIR prints.

Types of elements are part of the types of tensors, and of nothing else in such a text; MLIR then checks that
all types agree. Numbers are written as the bits of float64, which hold every float32 exactly.
"""

from __future__ import annotations

import re

import numpy as np

from ....model.stablehlo_ops import describe
from ...stablehlo.judge_module import reached_ops, target_of
from ...stablehlo.mlir_text import Op, tensor_types
from ...stablehlo.xla_module import Module, embedded_module
from .convolution import expand_convolutions
from .missing import NoTruthError

_WIDER = {"f32": "f64", "complex<f32>": "complex<f64>"}
_EXACT = re.compile(r"f64|complex<f64>|u?i\d+|index")
"""Types that stay as they are. All others, such as f16, round by design."""

_ROUNDING = frozenset({"reduce_precision", "uniform_quantize", "uniform_dequantize"})
_MAX_MULTIPLICATIONS = 20_000_000
"""For each row; XLA computes a hundred million of convolutions in float64 in some 10 seconds."""

_TEXT = re.compile(
    r"dense<(?P<values>\"0x[0-9A-Fa-f]*\"|[^\"<>]*)> : (?P<constant>tensor<(?:\d+x)*)"
    r"(?P<element>f32|complex<f32>)>"
    r"|\"(?:[^\"\\]|\\.)*\""
    r"|(?P<type>tensor<(?:(?:\?|\d+)x)*)(?P<of>f32|complex<f32>)(?=[>,])"
)
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


def widen_module(content: bytes) -> bytes:
    """The module of an XlaCallModule node, computing in float64.

    Args:
        content: Text, bytecode or a portable artifact.

    Raises:
        NoTruthError: It has operations that do not compute the same in float64; the message is a
            clause.
        UnsupportedModelError: It is not a module.
    """
    module = embedded_module(content)
    for _, op in reached_ops(module):
        _require_exact(op)
    wide = widen_text(module.text)
    if wide == module.text:
        return content
    wide, slow = expand_convolutions(wide)
    if slow > _MAX_MULTIPLICATIONS:
        raise NoTruthError("its convolutions of free shape would take minutes in float64")
    return Module(wide, module.functions).bytecode


def widen_text(text: str) -> str:
    """As `widen`, for the text of a module."""

    def replace(match: re.Match[str]) -> str:
        if match["type"]:
            return match["type"] + _WIDER[match["of"]]
        if not match["constant"]:
            return match[0]
        values = _widen_values(match["values"])
        return f"dense<{values}> : {match['constant']}{_WIDER[match['element']]}>"

    return _TEXT.sub(replace, text)


def _require_exact(op: Op) -> None:
    name, target = op.name.rpartition(".")[2], target_of(op)
    elements = {tensor.element for tensor in tensor_types(op.text)}
    for element in sorted(elements):
        if element not in _WIDER and not _EXACT.fullmatch(element):
            raise NoTruthError(f"{name} computes in {element}, whose rounding is part of the model")
    if name in _ROUNDING or (name == "dot_general" and "algorithm" in op.text):
        raise NoTruthError(f"{name} prescribes its rounding, which is part of the model")
    if name == "bitcast_convert" and not elements.isdisjoint(_WIDER):
        raise NoTruthError("it uses the bits of float32 numbers (bitcast_convert)")
    if name == "rng":
        raise NoTruthError("rng draws other numbers in float64")
    # Those that are known do the same for every type.
    if target is not None and describe(op.name, target) != ("compiled", ""):
        raise NoTruthError(f"the custom call {target} has no form in float64")


def _widen_values(text: str) -> str:
    """Numbers of a constant."""

    def bits(match: re.Match[str]) -> str:
        number = match[0]
        if number.startswith("0x"):
            value = np.array([int(number, 16)], np.uint32).view(np.float32)
        else:
            value = np.array([number], np.float32)
        return f"0x{value.astype('<f8').view(np.uint64)[0]:016X}"

    if text.startswith('"'):
        values = np.frombuffer(bytes.fromhex(text[3:-1]), "<f4")
        return f'"0x{values.astype("<f8").tobytes().hex().upper()}"'
    return _NUMBER.sub(bits, text)
