"""StableHLO modules: read and judged without running them, as nodes of graphs, and evaluated.

TensorFlow's operation XlaCallModule holds such a module and runs or compiles it. The functions of
TensorFlow's wheel that read and write modules are private, but the version of TensorFlow is pinned.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from ...errors import UnsupportedModelError
from ...model.frozen_signature import c_names
from ...model.inspection import Shape, TensorInfo
from ...model.messages import weights_within_limit
from ...util.text import one_line
from ...versions import TENSORFLOW_VERSION
from ..loaded.base import Fetch, SignatureGraph
from .composites import count_composites, decompose
from .mlir_bounds import refuse_bomb
from .mlir_text import Function, TensorType, read_functions
from .module_integers import keep_integers
from .module_names import with_names, without_names
from .module_weights import Lean, as_arguments, put_back, take_out
from .written_functions import restore_functions

_T = TypeVar("_T")

CALLING_CONVENTION = 7
"""Of XlaCallModule: shapes are refined from the inputs, and assertions about them are checked."""
MAIN = "main"
_BYTECODE = b"ML\xefR"
_ELEMENTS = {
    "i1": "bool",
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    **{f"i{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}

_KEPT_BYTES = 1 << 20
"""Of a module that is kept after it was read."""

_RESOURCE = r'"(?:[^"\\]|\\.)*"|[\w.$-]+'
# One on each line, with a number for the alignment before the bytes. Names are looked for at the start of lines only:
# hexadecimal digits could be names too, and a search from each of them would take hours.
_VALUES = re.compile(rf'^ *({_RESOURCE}): "0x[0-9A-Fa-f]{{8}}([0-9A-Fa-f]*)"', re.MULTILINE)
_CONSTANT = re.compile(
    rf"dense_resource<(?P<name>{_RESOURCE})> : "
    r"(?P<type>tensor<(?P<shape>(?:\d+x)*)(?P<element>\w+(?:<\w+>)?)>)"
)


@dataclass(frozen=True)
class Module:
    """A StableHLO module whose function `main` is the model."""

    text: str
    """As TensorFlow prints it: what is judged is what is compiled. Of its locations, at most names of layers are left."""
    functions: Mapping[str, Function] = field(repr=False)
    weights: tuple[np.ndarray[Any, Any], ...] = field(default=(), repr=False)
    """Constants that `main` takes behind its arguments in this text, but not in `functions`."""
    composites: Mapping[str, int] = field(default_factory=dict)
    """How many composites it has, by their names; in `text` they are calls."""

    @property
    def main(self) -> Function:
        """The function that is called."""
        return self.functions[MAIN]

    @cached_property
    def weight_tensors(self) -> Sequence[Any]:
        """The weights for eager calls."""
        return [tf.constant(values) for values in self.weights]

    @cached_property
    def bytecode(self) -> bytes:
        """The bytes that an XlaCallModule takes, with the arithmetic of integers that XLA would simplify away."""
        # Shapes are refined along calls only if a function is called with the same shapes everywhere.
        text = named_text(self.text.encode(), "inline") if "tensor<?" in self.text else self.text
        return write_module(keep_integers(text))


def write_module(text: str) -> bytes:
    """A module as the bytes that an XlaCallModule takes."""
    from tensorflow.python import _pywrap_mlir

    handle, name = tempfile.mkstemp(suffix=".mlirbc")
    os.close(handle)
    path = Path(name)
    try:
        _pywrap_mlir.ExperimentalWriteBytecode(name.encode(), text.encode())
        return path.read_bytes()
    finally:
        path.unlink()


def read_module(
    content: bytes,
    name: str,
    *,
    apart: bool = False,
    named: bool = False,
    keep: Collection[str] = (),
) -> Module:
    """A module from text, bytecode or a portable artifact; nothing of it is executed.

    Args:
        content: The module.
        name: What errors call it, such as the name of its file.
        apart: Whether large constants become arguments; otherwise the text is that of the whole module.
        named: Whether operations keep the names in their locations.
        keep: Composites with these names are left in the text; all others become calls.

    Raises:
        UnsupportedModelError: It is not a module, is of a later version of StableHLO, has no `main`, or is small but
            would take hours to read.
    """
    if not content.startswith(_BYTECODE):  # torch-mlir writes constants of another dialect
        content = re.sub(rb"= arith\.constant (?=dense)", b"= stablehlo.constant ", content)
    refuse_bomb(content, name)
    parsed = plain_module(content, name)
    refuse_bomb(parsed, name)
    text = named_text(parsed) if named else run_passes(parsed, "strip-debuginfo")
    lean = take_out(_inline_resources(text, name))
    composites: Mapping[str, int] = {}
    if "stablehlo.composite " in lean.text:
        plain = without_names(lean.text)
        composites = count_composites(plain, read_functions(plain))
        lean = lean.with_text(decompose(lean.text, keep))
    functions = read_functions(without_names(lean.text))
    if MAIN not in functions:
        names = ", ".join(functions) or "none"
        raise UnsupportedModelError(
            f"{name} has no function `main` (its functions: {names}); rename the one to compile"
        )
    if not apart:
        return Module(put_back(lean), functions, composites=composites)
    return Module(*_with_arguments(lean, functions), composites)


def embedded_module(content: bytes) -> Module:
    """The module of an XlaCallModule node; nobody may change it, as small ones are read once and kept for a while.

    Raises:
        UnsupportedModelError: See `read_module`.
    """
    return (_kept_module if len(content) <= _KEPT_BYTES else _embedded_module)(content)


def _embedded_module(content: bytes) -> Module:
    return read_module(content, "the module of an XlaCallModule node")


_kept_module = lru_cache(maxsize=4)(_embedded_module)


def _with_arguments(
    lean: Lean, functions: Mapping[str, Function]
) -> tuple[str, Mapping[str, Function], tuple[np.ndarray[Any, Any], ...]]:
    dtypes = {
        element: tf.dtypes.as_dtype(name).as_numpy_dtype
        for element, name in _ELEMENTS.items()
        # Less than a byte each in texts.
        if not name.endswith(("bool", "int2", "int4"))
    }
    text, weights = as_arguments(lean, dtypes)
    return text, functions, weights


def tensor_info(name: str, tensor: TensorType | str) -> TensorInfo:
    """An argument or result of `main` as an input or output.

    Raises:
        UnsupportedModelError: It is not a tensor of an element type that TensorFlow knows.
    """
    dtype = None if isinstance(tensor, str) else _ELEMENTS.get(tensor.element)
    if isinstance(tensor, str) or dtype is None:
        kind = tensor if isinstance(tensor, str) else tensor.element
        raise UnsupportedModelError(
            f"{name!r} has the type {kind}, which a compiled model cannot pass; convert it in the model"
        )
    return TensorInfo(name=name, dtype=dtype, shape=tensor.shape)


def element_name(element: str) -> str:
    """NumPy's name of an element type; that of MLIR if NumPy has none."""
    return _ELEMENTS.get(element, element)


# --- graphs and values ----------------------------------------------------------------------------


def module_graph(
    module: Module,
    inputs: Mapping[str, tuple[str, tuple[int, ...]]],
    arguments: Sequence[str],
    outputs: Sequence[TensorInfo],
    platforms: Sequence[str] = ("CPU",),
) -> SignatureGraph:
    """A graph with one XlaCallModule node.

    Args:
        module: Its shapes may be free where `inputs` fixes them.
        inputs: Type and static shape of each input, in the order of the interface.
        arguments: The inputs that `main` takes, in its order.
        outputs: What `main` returns, in its order, which is that of the interface.
        platforms: For which the module was made.
    """
    with tf.Graph().as_default() as graph:
        placeholders = {
            name: tf.compat.v1.placeholder(dtype, shape, f"arg_{c_name}")
            for (name, (dtype, shape)), c_name in zip(inputs.items(), c_names(inputs), strict=True)
        }
        operands = [placeholders[n] for n in arguments]
        operands += [tf.constant(values) for values in module.weights]
        compiled = replace(module, text=restore_functions(module.text))
        results = call_module(compiled.bytecode, operands, _declared(outputs), platforms)
        fetches = {
            info.name: Fetch(tensor.name, tensor.dtype)
            for info, tensor in zip(outputs, results, strict=True)
        }
    feeds = {name: tensor.op.name for name, tensor in placeholders.items()}
    with weights_within_limit():
        graph_def = graph.as_graph_def()
    return SignatureGraph(graph_def, feeds, fetches)


def call_module(
    module: bytes | str,
    tensors: Sequence[Any],
    results: Iterable[tuple[str, Shape | None]],
    platforms: Sequence[str] = ("CPU",),
    functions: Sequence[str] = (),
) -> list[Any]:
    """The results of `main`, whose types and shapes are declared, as tensors of TensorFlow.

    Args:
        module: What XlaCallModule takes.
        tensors: What `main` takes.
        results: Type and shape of each.
        platforms: For which the module was made.
        functions: The names of functions of TensorFlow that it calls by their numbers.
    """
    from tensorflow.compiler.tf2xla.python import xla

    types, shapes = zip(*results, strict=True)
    values = xla.call_module(
        tensors,
        version=CALLING_CONVENTION,
        Tout=[tf.dtypes.as_dtype(dtype) for dtype in types],
        Sout=[tf.TensorShape(shape) for shape in shapes],
        module=module,
        platforms=list(platforms),
        function_list=list(functions),
        has_token_input_output=False,
        disabled_checks=[],
    )
    return list(values)


def _declared(outputs: Sequence[TensorInfo]) -> list[tuple[str, Shape | None]]:
    return [(info.dtype, info.shape) for info in outputs]


def evaluate_module(
    module: Module,
    arrays: Sequence[np.ndarray[Any, Any]],
    outputs: Sequence[TensorInfo],
    platforms: Sequence[str] = ("CPU",),
) -> list[np.ndarray[Any, Any]]:
    """The results of `main` for its arguments; TensorFlow keeps the code of each combination of shapes.

    Raises:
        tf.errors.OpError: XLA refuses the module for these shapes.
    """
    tensors = [*(tf.constant(array) for array in arrays), *module.weight_tensors]
    # Eagerly, because errors of functions begin with a trace of Python's calls.
    results = call_module(module.bytecode, tensors, _declared(outputs), platforms)
    return [tensor.numpy() for tensor in results]


# --- reading --------------------------------------------------------------------------------------


def _inline_resources(text: str, name: str) -> str:
    """A text with constants in place of resources, which XLA does not read.

    Raises:
        UnsupportedModelError: A resource is missing, or has another size than its constant.
    """
    body, mark, resources = text.rpartition("\n{-#")
    if not mark:
        body, resources = text, ""
    values = dict(_VALUES.findall(resources))

    def write(match: re.Match[str]) -> str:
        value, element = values.get(match["name"], ""), match["element"]
        shape = [int(extent) for extent in match["shape"].split("x")[:-1]]
        bits = int("".join(re.findall(r"[a-z](\d+)", element)[:1]) or 0)
        size = max(bits, 8) // 8 * (2 if element.startswith("complex") else 1)
        if len(value) != 2 * math.prod(shape) * size or not value:
            raise UnsupportedModelError(
                f"{name} has no values for the constant dense_resource<{one_line(match['name'])}>, or not as many "
                "as its type says; export it again with its resources"
            )
        written = f'"0x{value}"'
        if element == "i1":  # bytes in resources, bits elsewhere
            truths = np.frombuffer(bytes.fromhex(value), np.uint8).reshape(shape) != 0
            written = json.dumps(truths.tolist())
        return f"dense<{written}> : {match['type']}"

    return _CONSTANT.sub(write, body)


def run_passes(module: bytes, passes: str, *, located: bool = False) -> str:
    """The text of a module after passes of MLIR, perhaps with locations."""
    from tensorflow.python import _pywrap_mlir

    text: str = _pywrap_mlir.ExperimentalRunPassPipeline(module, passes.encode(), located)
    return text


def named_text(module: bytes, passes: str = "") -> str:
    """The text of a module, with names of layers at the ends of lines."""
    plain = run_passes(module, ",".join(filter(None, (passes, "strip-debuginfo"))))
    named = with_names(plain, run_passes(module, passes, located=True))
    return named if without_names(named) == plain else plain


def plain_module(content: bytes, name: str) -> bytes:
    """The module as bytecode of this version."""
    from tensorflow.compiler.mlir.stablehlo import stablehlo

    def deserialize(artifact: bytes) -> bytes:
        return bytes(stablehlo.deserialize_portable_artifact_str(artifact))

    parsed, messages = _listen(lambda: deserialize(content))
    if parsed is not None:
        return parsed
    newest = stablehlo.get_current_version()
    written = _written_version(content)
    converted = None if written is None else _convert(content, newest)
    if converted is not None:
        parsed, messages = _listen(lambda: deserialize(converted))
        if parsed is not None:
            return parsed
    late = written is not None and _key(written) > _key(newest)
    if late and importlib.util.find_spec("jaxlib") is None:
        raise UnsupportedModelError(
            f"{name} is written in StableHLO {written}, and TensorFlow {TENSORFLOW_VERSION} reads up to "
            f"{newest}; pip install 'modelwheel[jax]', which converts it, or export it for an earlier "
            "version",
            code="MW417",
        )
    raise UnsupportedModelError(
        f"{name} is not a StableHLO module that TensorFlow {TENSORFLOW_VERSION} reads: {_explain(messages)}; "
        "export it again"
    )


def _listen(function: Callable[[], _T]) -> tuple[_T | None, str]:
    """A result, or what MLIR wrote to standard error before it failed."""
    with tempfile.TemporaryFile() as heard:
        saved = os.dup(2)
        os.dup2(heard.fileno(), 2)
        try:
            return function(), ""
        except (ValueError, tf.errors.OpError):
            heard.seek(0)
            return None, heard.read().decode("utf-8", "replace")
        finally:
            os.dup2(saved, 2)
            os.close(saved)


def _explain(messages: str) -> str:
    """The first error of MLIR, with its place in a text."""
    match = re.search(r"^(.*?)\berror: (.*)", messages, re.MULTILINE)
    if match is None:
        return "it is damaged"
    place = re.search(r'"-":([1-9]\d*):(\d+)', match[1])
    return f"line {place[1]}, column {place[2]}: {match[2]}" if place else match[2]


def _written_version(content: bytes) -> str | None:
    """The version that a portable artifact names in its first bytes."""
    match = re.match(rb"ML\xefR.StableHLO_v(\d+\.\d+\.\d+)\x00", content[:64], re.DOTALL)
    return match[1].decode() if match else None


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _convert(content: bytes, version: str) -> bytes | None:
    """The portable artifact for an earlier version, by jaxlib; None without it, or if it cannot."""
    with suppress(ImportError):
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import sdy, stablehlo

        with suppress(Exception), ir.Context() as context:
            sdy.register_dialect(context)
            module = stablehlo.deserialize_portable_artifact(context, content)
            module.operation.walk(lambda op: _drop_shardings(op, ir.WalkResult.ADVANCE))
            converted: bytes = stablehlo.serialize_portable_artifact(module, version)
            return converted
    return None


def _drop_shardings(op: Any, going_on: _T) -> _T:
    """Removes what spreads an operation over devices: TensorFlow's reader does not know the dialect."""
    for name in [str(attribute) for attribute in op.attributes]:
        if name.startswith("sdy."):
            del op.attributes[name]
    return going_on
