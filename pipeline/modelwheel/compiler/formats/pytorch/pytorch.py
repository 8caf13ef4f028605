"""PyTorch programs that `torch.export.save` writes: StableHLO for each shape, converted by torch-mlir."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import UnsupportedModelError
from ....extras import require
from ....model.inspection import Inspection, SignatureInfo
from ....model.readings import PyTorchReading
from ....util.text import one_line
from ...loaded.base import Arrays, SignatureGraph, StaticShapes
from ...stablehlo.channels_last import put_channels_last
from ...stablehlo.judge_module import inspect_module
from ...stablehlo.module_names import LAYER
from ...stablehlo.xla_module import Module, module_graph, read_module, tensor_info
from .. import DEFAULT_SIGNATURE
from .pt2_file import Program, read_program
from .torch_mlir_library import load_torch_mlir

_UNSAFE = re.compile(r"[^\w./ -]", re.ASCII)
_Shapes = tuple[tuple[int, ...], ...]


def inspect(model: Path, reading: PyTorchReading) -> Inspection:
    """See `Format.inspect`; the program is converted for its smallest shapes."""
    program = _read(model / reading.file)
    module = _convert(program, program.least, reading.file)
    size = (model / reading.file).stat().st_size
    arguments = [tensor.name for tensor in program.inputs]
    return inspect_module(module, _signature(program), arguments, written_by="", file_bytes=size)


def load(model: Path, reading: PyTorchReading, key: str) -> PyTorchModel:
    """See `Format.load`."""
    if key != DEFAULT_SIGNATURE:
        raise UnsupportedModelError(f"the model has no signature {key!r}", code="MW412")
    return PyTorchModel(_read(model / reading.file), reading.file)


class PyTorchModel:
    """See `LoadedModel`."""

    def __init__(self, program: Program, file: str) -> None:
        self.info = _signature(program)
        self._program, self._file = program, file
        self._modules: dict[_Shapes, Module] = {}

    @property
    def evaluator(self) -> str:
        """See `LoadedModel`."""
        import torch

        return f"PyTorch {torch.__version__}"

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`; the program itself is evaluated, not what it is converted to."""
        values = evaluate_program(self._exported, [inputs[t.name] for t in self._program.inputs])
        names = [tensor.name for tensor in self._program.outputs]
        return dict(zip(names, values, strict=True))

    def graph(
        self,
        shapes: StaticShapes,
        keep: Collection[str] = (),  # noqa: ARG002 - it has no functions with marks
    ) -> SignatureGraph:
        """See `LoadedModel`."""
        arguments = [tensor.name for tensor in self._program.inputs]
        module = self._module(tuple(tuple(shapes[name]) for name in arguments))
        dtypes = {tensor.name: tensor.dtype for tensor in self._program.inputs}
        inputs: Mapping[str, Any] = {name: (dtypes[name], shape) for name, shape in shapes.items()}
        outputs = [
            tensor_info(tensor.name, kind)
            for tensor, kind in zip(self._program.outputs, module.main.results, strict=True)
        ]
        return module_graph(module, inputs, arguments, outputs)

    @cached_property
    def _exported(self) -> Any:
        return load_program(self._program)

    def _module(self, shapes: _Shapes) -> Module:
        if shapes not in self._modules:
            self._modules[shapes] = _convert(self._program, shapes, self._file)
        return self._modules[shapes]


def _signature(program: Program) -> SignatureInfo:
    return SignatureInfo(
        key=DEFAULT_SIGNATURE,
        inputs=program.inputs,
        outputs=program.outputs,
        ordered_by="model",
    )


def _read(path: Path) -> Program:
    program = read_program(path)
    require("pytorch", "reading files of torch.export")
    return program


def load_program(program: Program) -> Any:
    """PyTorch's own object, of what was judged."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = io.BytesIO()
        torch.save(((), {}), sample)
        return torch.export.load(io.BytesIO(program.archive(sample.getvalue())))


def evaluate_program(exported: Any, arrays: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    """The leaves of a program's results, as PyTorch computes them for those of its arguments.

    Raises:
        ValueError: The program fails on them.
    """
    import torch
    from torch.utils import _pytree

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        leaves = [_to_torch(array) for array in arrays]
        args, kwargs = _pytree.tree_unflatten(leaves, exported.call_spec.in_spec)
        try:
            results = exported.module(check_guards=False)(*args, **kwargs)
        except Exception as error:
            raise ValueError(one_line(str(error).partition("\n")[0])) from error
    return [_from_torch(value) for value in _pytree.tree_leaves(results)]


def _to_torch(array: np.ndarray[Any, Any]) -> Any:
    """A copy, because a program may return what it was given; NumPy's bfloat16 is not PyTorch's."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def _from_torch(value: Any) -> np.ndarray[Any, Any]:
    import ml_dtypes
    import torch

    array: np.ndarray[Any, Any]
    if value.dtype == torch.bfloat16:
        array = value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    else:
        array = value.numpy()
    return array


def _convert(program: Program, shapes: _Shapes, name: str) -> Module:
    """The program as StableHLO for inputs of these shapes."""
    import torch
    from torch.utils import _pytree

    load_torch_mlir()
    from torch_mlir import fx

    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            exported = load_program(program)
            leaves = [
                torch.zeros(shape, dtype=getattr(torch, tensor.dtype))
                for tensor, shape in zip(program.inputs, shapes, strict=True)
            ]
            args, kwargs = _pytree.tree_unflatten(leaves, exported.call_spec.in_spec)
            static = torch.export.export(exported.module(check_guards=False), args, kwargs)
            # As `export_and_import` would do; afterwards, what a layer is made of has its name.
            plain = static.run_decompositions(fx.get_decomposition_table())
            _name_layers(plain)
            module = fx.export_and_import(plain, output_type="stablehlo", decomposition_table={})
            put_channels_last(module)
    except Exception as error:
        shown = ", ".join(
            f"{tensor.name} {list(shape)}"
            for tensor, shape in zip(program.inputs, shapes, strict=True)
        )
        raise UnsupportedModelError(
            f"{name} cannot be converted to StableHLO for {shown}: {_explain(error)}; replace it, or "
            "export the model to ONNX"
        ) from error
    text: str = module.operation.get_asm(enable_debug_info=True)
    return read_module(text.encode(), name, named=True)


def _name_layers(exported: Any) -> None:
    """Puts the names of layers where torch-mlir looks for places in Python code."""
    signature = exported.graph_signature
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    layers = {name: weight.rpartition(".")[0] for name, weight in weights.items()}
    for node in exported.graph.nodes:
        if node.op != "call_function":
            continue
        names = [layers[operand.name] for operand in node.all_input_nodes if operand.name in layers]
        if names and len(names) == len(node.all_input_nodes):  # a transposed weight, say
            layers[node.name] = names[0]
        layer = _module_of(node)
        if not layer or (names and names[0].startswith(f"{layer}.")):
            layer = next(iter(names), "")
        operation = getattr(getattr(node.target, "overloadpacket", None), "__name__", node.name)
        shown = f"{layer.replace('.', '/')}/{operation}" if layer else node.name
        node.meta["stack_trace"] = f'File "{LAYER}{_UNSAFE.sub("_", shown)}", line 1, in layer'


def _module_of(node: Any) -> str:
    """The path of the innermost module that calls an operation; empty for the model itself, or if the file has none."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if isinstance(path, str)]
    return paths[-1] if paths else ""


def _explain(error: Exception) -> str:
    """The operation that torch-mlir lacks, or what PyTorch says first."""
    text = str(error)
    lacking = re.search(r"failed to legalize operation '([\w.]+)'", text)
    if lacking:
        return f"torch-mlir has no {lacking[1].removeprefix('torch.')}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return one_line(next(iter(lines), type(error).__name__))
