"""StableHLO modules: text, bytecode, and functions that `jax.export` serialised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from ....errors import UnsupportedModelError
from ....model.inspection import Inspection, SignatureInfo, TensorInfo
from ....model.messages import first_line
from ....model.readings import StableHloReading
from ...loaded.base import TENSORFLOW, Arrays, SignatureGraph, StaticShapes
from ...stablehlo.judge_module import inspect_module
from ...stablehlo.xla_module import Module, evaluate_module, module_graph, read_module, tensor_info
from .. import DEFAULT_SIGNATURE
from .jax_export import Exported, Leaf, is_exported, read_exported

_PLATFORMS = {"cpu": "CPU", "cuda": "CUDA", "rocm": "ROCM", "tpu": "TPU"}


@dataclass(frozen=True)
class Interface:
    """How a module is called."""

    info: SignatureInfo
    arguments: tuple[str, ...]
    """The inputs that `main` takes, in its order."""
    results: tuple[TensorInfo, ...]
    """What `main` returns, in its order."""
    platforms: tuple[str, ...] = ("CPU",)


@dataclass(frozen=True)
class LoadedModule:
    """A module with its interface; see `LoadedModel`."""

    evaluator = TENSORFLOW

    module: Module
    interface: Interface
    read: Callable[[Collection[str]], Module]
    """Reads the module again, and keeps composites of these names."""

    @property
    def info(self) -> SignatureInfo:
        """See `LoadedModel`."""
        return self.interface.info

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`."""
        interface = self.interface
        arrays = [inputs[name] for name in interface.arguments]
        values = evaluate_module(self.module, arrays, interface.results, interface.platforms)
        names = [info.name for info in interface.results]
        return dict(zip(names, values, strict=True))

    def graph(
        self,
        shapes: StaticShapes,
        keep: Collection[str] = (),
    ) -> SignatureGraph:
        """See `LoadedModel`; composites with these names are kept too."""
        module = self.read(keep) if self.module.composites.keys() & set(keep) else self.module
        dtypes = {tensor.name: tensor.dtype for tensor in self.info.inputs}
        inputs = {name: (dtypes[name], shape) for name, shape in shapes.items()}
        interface = self.interface
        results = self._static_results(inputs)
        return module_graph(module, inputs, interface.arguments, results, interface.platforms)

    def _static_results(
        self, inputs: Mapping[str, tuple[str, tuple[int, ...]]]
    ) -> tuple[TensorInfo, ...]:
        """The results of `main` for inputs of static shapes; found by evaluating zeros."""
        declared = self.interface.results
        if all(None not in (tensor.shape or ()) for tensor in declared):
            return declared
        zeros = {
            name: np.zeros(shape, tf.dtypes.as_dtype(dtype).as_numpy_dtype)
            for name, (dtype, shape) in inputs.items()
        }
        try:
            values = self(zeros)
        except tf.errors.OpError as error:
            shown = ", ".join(f"{name} {list(shape)}" for name, (_, shape) in inputs.items())
            raise UnsupportedModelError(
                f"XLA refuses the module for {shown}: {first_line(error)}"
            ) from error
        return tuple(
            tensor.model_copy(update={"shape": values[tensor.name].shape}) for tensor in declared
        )


def inspect(model: Path, reading: StableHloReading) -> Inspection:
    """See `Format.inspect`."""
    module, interface = _read(model / reading.file)
    size = (model / reading.file).stat().st_size
    arguments = interface.arguments
    return inspect_module(module, interface.info, arguments, written_by="", file_bytes=size)


def load(model: Path, reading: StableHloReading, key: str) -> LoadedModule:
    """See `Format.load`."""
    if key != DEFAULT_SIGNATURE:
        raise UnsupportedModelError(f"the model has no signature {key!r}", code="MW412")
    path = model / reading.file
    return LoadedModule(*_read(path), lambda keep: _read(path, keep)[0])


def _read(path: Path, keep: Collection[str] = ()) -> tuple[Module, Interface]:
    content = path.read_bytes()
    if is_exported(content):
        exported = read_exported(content, path.name)
        module = read_module(exported.module, path.name, apart=True, named=True, keep=keep)
        return module, _exported_interface(module, exported, path.name)
    module = read_module(content, path.name, apart=True, named=True, keep=keep)
    main = module.main
    inputs = [tensor_info(f"arg{n}", tensor) for n, tensor in enumerate(main.arguments)]
    outputs = [tensor_info(f"result{n}", tensor) for n, tensor in enumerate(main.results)]
    return module, _interface(inputs, inputs, outputs)


def _interface(
    inputs: Sequence[TensorInfo],
    arguments: Sequence[TensorInfo],
    results: Sequence[TensorInfo],
    platforms: Sequence[str] = ("CPU",),
) -> Interface:
    info = SignatureInfo(
        key=DEFAULT_SIGNATURE,
        inputs=tuple(inputs),
        outputs=tuple(results),
        ordered_by="model",
    )
    names = tuple(tensor.name for tensor in arguments)
    return Interface(info, names, tuple(results), tuple(platforms))


def _exported_interface(module: Module, exported: Exported, name: str) -> Interface:
    main = module.main
    # A function for several platforms takes the number of one first, which TensorFlow passes.
    taken = main.arguments[1:] if len(exported.platforms) > 1 else main.arguments
    if len(taken) != len(exported.kept) or len(main.results) != len(exported.outputs):
        raise UnsupportedModelError(
            f"{name} is damaged: its function `main` takes or returns other values than it says; "
            "export it again",
            code="MW416",
        )
    operands = dict(zip(exported.kept, taken, strict=True))
    inputs = [
        _named(leaf, tensor_info(leaf.name, operands[n]) if n in operands else _dropped(leaf))
        for n, leaf in enumerate(exported.inputs)
    ]
    for leaf in (*exported.inputs, *exported.outputs):
        if leaf.dtype is None:
            raise UnsupportedModelError(
                f"{leaf.name!r} is a key of random numbers; take its data as an input and use "
                "jax.random.wrap_key_data in the function"
            )
    results = [
        _named(leaf, tensor_info(leaf.name, tensor))
        for leaf, tensor in zip(exported.outputs, main.results, strict=True)
    ]
    platforms = [_PLATFORMS.get(p, p.upper()) for p in exported.platforms]
    return _interface(inputs, [inputs[n] for n in exported.kept], results, platforms)


def _named(leaf: Leaf, tensor: TensorInfo) -> TensorInfo:
    """With the names that JAX gives to extents, which modules lack."""
    symbols = leaf.symbols if any(leaf.symbols) else ()
    return tensor.model_copy(update={"symbols": symbols})


def _dropped(leaf: Leaf) -> TensorInfo:
    """An argument that the function does not use."""
    return TensorInfo(name=leaf.name, dtype=leaf.dtype or "float32", shape=leaf.shape)
