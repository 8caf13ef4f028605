"""PyTorch programs that `torch.export.save` writes: StableHLO for each shape, converted by torch-mlir."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....errors import UnsupportedModelError
from ....extras import require
from ....util.text import one_line
from ...inspection import Inspection, SignatureInfo
from ...readings import PyTorchReading
from . import DEFAULT_SIGNATURE
from .base import Arrays, SignatureGraph, StaticShapes
from .judge_module import inspect_module
from .pt2_file import Program, read_program
from .torch_mlir_library import load_torch_mlir
from .xla_module import Module, evaluate_module, module_graph, read_module, tensor_info

_Shapes = tuple[tuple[int, ...], ...]


def inspect(model: Path, reading: PyTorchReading) -> Inspection:
    """See `Format.inspect`; the program is converted for its smallest shapes."""
    program = _read(model / reading.file)
    module = _convert(program, program.least, reading.file)
    size = (model / reading.file).stat().st_size
    return inspect_module(module, _signature(program), written_by="", file_bytes=size)


def load(model: Path, reading: PyTorchReading, key: str) -> PyTorchModel:
    """See `Format.load`."""
    if key != DEFAULT_SIGNATURE:
        raise UnsupportedModelError(f"the model has no signature {key!r}")
    return PyTorchModel(_read(model / reading.file), reading.file)


class PyTorchModel:
    """See `LoadedModel`."""

    def __init__(self, program: Program, file: str) -> None:
        self.info = _signature(program)
        self._program, self._file = program, file
        self._modules: dict[_Shapes, Module] = {}

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`; each shape of the inputs is converted and compiled once."""
        arrays = [inputs[tensor.name] for tensor in self._program.inputs]
        module = self._module(tuple(array.shape for array in arrays))
        values = evaluate_module(module, arrays, self._program.outputs)
        names = [tensor.name for tensor in self._program.outputs]
        return dict(sorted(zip(names, values, strict=True)))

    def graph(self, shapes: StaticShapes) -> SignatureGraph:
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

    def _module(self, shapes: _Shapes) -> Module:
        if shapes not in self._modules:
            self._modules[shapes] = _convert(self._program, shapes, self._file)
        return self._modules[shapes]


def _signature(program: Program) -> SignatureInfo:
    return SignatureInfo(
        key=DEFAULT_SIGNATURE,
        inputs=tuple(sorted(program.inputs, key=lambda tensor: tensor.name)),
        outputs=tuple(sorted(program.outputs, key=lambda tensor: tensor.name)),
    )


def _read(path: Path) -> Program:
    program = read_program(path)
    require("pytorch", "reading files of torch.export")
    return program


def _convert(program: Program, shapes: _Shapes, name: str) -> Module:
    """The program as StableHLO for inputs of these shapes."""
    import torch
    from torch.utils import _pytree

    load_torch_mlir()
    from torch_mlir import fx

    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            sample = io.BytesIO()
            torch.save(((), {}), sample)
            exported = torch.export.load(io.BytesIO(program.archive(sample.getvalue())))
            leaves = [
                torch.zeros(shape, dtype=getattr(torch, tensor.dtype))
                for tensor, shape in zip(program.inputs, shapes, strict=True)
            ]
            args, kwargs = _pytree.tree_unflatten(leaves, exported.call_spec.in_spec)
            static = torch.export.export(exported.module(check_guards=False), args, kwargs)
            module = fx.export_and_import(static, output_type="stablehlo")
    except Exception as error:
        shown = ", ".join(
            f"{tensor.name} {list(shape)}"
            for tensor, shape in zip(program.inputs, shapes, strict=True)
        )
        raise UnsupportedModelError(
            f"{name} cannot be converted to StableHLO for {shown}: {_explain(error)}; replace it, or "
            "export the model to ONNX"
        ) from error
    return read_module(str(module).encode(), name)


def _explain(error: Exception) -> str:
    """The operation that torch-mlir lacks, or what PyTorch says first."""
    text = str(error)
    lacking = re.search(r"failed to legalize operation '([\w.]+)'", text)
    if lacking:
        return f"torch-mlir has no {lacking[1].removeprefix('torch.')}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return one_line(next(iter(lines), type(error).__name__))
