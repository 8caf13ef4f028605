"""Saves model objects by the frameworks that made them, which the caller has imported: none is imported here.

The same model becomes the same bytes in every process: times, random numbers and places of memory are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import ModelwheelError, UnsupportedModelError, UsageError
from ..util.text import one_line
from .normal_form import normalise_keras, normalise_saved_model


@dataclass(frozen=True)
class Target:
    """Where a model is saved."""

    directory: Path
    name: str
    """Of the model, without an ending."""
    batched: bool
    """Whether axis 0 of all example inputs is the batch, whose size is free."""

    def file(self, suffix: str) -> Path:
        """The model's file."""
        return self.directory / f"{self.name}{suffix}"


def save_keras(model: Any, examples: Any, target: Target) -> Path:
    """A model of Keras 3 or 2: its own file, or a SavedModel if it has classes of others."""
    _take_none(examples, "a Keras model, whose inputs it declares itself")
    if not getattr(model, "inputs", None):
        raise UsageError(
            f"the Keras model {model.name!r} has no inputs yet: call it on example rows, or begin it with keras.Input"
        )
    path = target.file(".keras")
    with _exporting(f"Keras cannot save the model {model.name!r}"):
        model.save(path)
    normalise_keras(path)
    problem = _keras_problem(path)
    if problem is None:
        return path
    # Classes of others are not in the file; as a SavedModel, it has their operations.
    if "tensorflow" not in sys.modules or _keras_backend(model) != "tensorflow":
        raise problem
    path.unlink()
    directory = target.directory / target.name
    with _exporting(f"Keras cannot export the model {model.name!r}"):
        model.export(str(directory), **({} if _is_keras_2(model) else {"verbose": False}))
    normalise_saved_model(directory)
    return directory


def _keras_problem(path: Path) -> UnsupportedModelError | None:
    from ..model.keras.keras_file import judge_config, read_keras_file

    try:
        judge_config(read_keras_file(path).config, lambda _: True)
    except UnsupportedModelError as error:
        return error
    return None


def _is_keras_2(model: Any) -> bool:
    return any(base.__module__.startswith("tf_keras.") for base in type(model).__mro__)


def _keras_backend(model: Any) -> str:
    return "tensorflow" if _is_keras_2(model) else str(sys.modules["keras"].backend.backend())


def save_onnx(model: Any, examples: Any, target: Target) -> Path:
    """An `onnx.ModelProto`."""
    _take_none(examples, "an ONNX model, which declares its inputs itself")
    path = target.file(".onnx")
    try:
        content = model.SerializeToString(deterministic=True)
    except ValueError as error:  # more than 2 GiB
        raise UsageError(
            f"the ONNX model cannot be written as one file ({one_line(error)}): save it by "
            "onnx.save(model, 'model.onnx', save_as_external_data=True), and pass that path"
        ) from error
    path.write_bytes(content)
    return path


def save_jax(model: Callable[..., Any], examples: Any, target: Target) -> Path:
    """A function of JAX, or an object that is called like one."""
    name = getattr(model, "__name__", type(model).__name__)
    if "jax" not in sys.modules:
        raise UsageError(
            f"the Python function {name!r} says nothing about what it computes that could be compiled: write it with "
            "JAX or TensorFlow, or pass the model that it calls"
        )
    if examples is None:
        raise UsageError(
            f"the function {name!r} needs example_inputs, such as example_inputs=jax.ShapeDtypeStruct((8,), 'float32')"
        )
    export = import_module("jax.export")
    jax = sys.modules["jax"]
    arguments = _jax_arguments(jax, export, _as_tuple(examples), batched=target.batched)
    jitted = model if hasattr(model, "lower") and hasattr(model, "trace") else jax.jit(model)
    with _exporting(f"JAX cannot export the function {name!r}"), _without_places(jax):
        exported = export.export(jitted, platforms=["cpu"])(*arguments)
        return save_exported(exported, None, target)


def save_exported(model: Any, examples: Any, target: Target) -> Path:
    """The result of `jax.export.export`."""
    _take_none(examples, "what jax.export has exported already")
    path = target.file(".jax")
    path.write_bytes(model.serialize())
    return path


def _jax_arguments(jax: Any, export: Any, examples: Sequence[Any], *, batched: bool) -> Any:
    leaves, tree = jax.tree_util.tree_flatten(tuple(examples))
    leaves = [leaf if hasattr(leaf, "shape") else jax.numpy.asarray(leaf) for leaf in leaves]
    if batched:
        _rows_of([leaf.shape for leaf in leaves])
        (batch,) = export.symbolic_shape("batch")
    shapes = [(batch, *leaf.shape[1:]) if batched else leaf.shape for leaf in leaves]
    structs = [
        jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(leaf.dtype))
        for leaf, shape in zip(leaves, shapes, strict=True)
    ]
    return jax.tree_util.tree_unflatten(tree, structs)


@contextmanager
def _without_places(jax: Any) -> Iterator[None]:
    """Keeps paths and lines of this machine out of modules."""
    option = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, option, None)
    if before is not None:
        jax.config.update(option, 0)
    try:
        yield
    finally:
        if before is not None:
            jax.config.update(option, before)


def save_torch(model: Any, examples: Any, target: Target) -> Path:
    """A `torch.nn.Module`, exported as it is for inference; its mode is afterwards as before."""
    if examples is None:
        raise UsageError(
            f"the PyTorch module {type(model).__name__} needs example_inputs, such as example_inputs=torch.zeros(2, 8)"
        )
    export, tree = import_module("torch.export"), import_module("torch.utils._pytree")
    torch = sys.modules["torch"]
    arguments, shapes = _as_tuple(examples), None
    if target.batched:
        rows = _rows_of([leaf.shape for leaf in tree.tree_leaves(arguments)])
        if rows == 1:  # an example of one row would be a program for one row
            arguments = tree.tree_map(lambda leaf: torch.cat([leaf, leaf]), arguments)
        shapes = tree.tree_map(lambda _: {0: export.Dim("batch")}, arguments)
    trained = [module for module in model.modules() if module.training]
    with _exporting(f"PyTorch cannot export the module {type(model).__name__}"):
        model.eval()
        try:
            program = export.export(model, arguments, dynamic_shapes=shapes)
        finally:
            for module in trained:
                module.training = True
        return save_program(program, None, target)


def save_program(model: Any, examples: Any, target: Target) -> Path:
    """A `torch.export.ExportedProgram`."""
    _take_none(examples, "a program that torch.export has exported already")
    path = target.file(".pt2")
    with _exporting("PyTorch cannot save the program"):
        import_module("torch.export").save(model, path)
    return path


def save_function(model: Any, examples: Any, target: Target) -> Path:
    """A `tf.function`, or one of its concrete functions."""
    tf = sys.modules["tensorflow"]
    holder = tf.Module()
    holder.function = model
    if hasattr(model, "get_concrete_function"):
        specs = None if examples is None else _tensor_specs(tf, examples, batched=target.batched)
        if specs is None and getattr(model, "input_signature", None) is None:
            raise UsageError(
                "the tf.function has no input_signature: pass example_inputs, such as "
                "example_inputs=tf.TensorSpec([None, 8])"
            )
        with _exporting("TensorFlow cannot trace the function"):
            model = model.get_concrete_function(*(specs or ()))
    else:
        _take_none(examples, "a concrete function, which has its inputs")
    return _save_saved_model(tf, holder, model, target)


def save_module(model: Any, examples: Any, target: Target) -> Path:
    """A `tf.Module`, or what `tf.saved_model.load` returns."""
    tf = sys.modules["tensorflow"]
    signatures = getattr(model, "signatures", None) or None
    if examples is not None:
        specs = _tensor_specs(tf, examples, batched=target.batched)
        call = model.__call__
        if not hasattr(call, "get_concrete_function"):
            call = tf.function(call)
        with _exporting(f"TensorFlow cannot trace {type(model).__name__}.__call__"):
            signatures = call.get_concrete_function(*specs)
    return _save_saved_model(tf, model, signatures, target)


def _save_saved_model(tf: Any, model: Any, signatures: Any, target: Target) -> Path:
    directory = target.directory / target.name
    with _exporting(f"TensorFlow cannot save {type(model).__name__}"):
        tf.saved_model.save(model, str(directory), signatures=signatures)
    if not normalise_saved_model(directory):
        raise UsageError(
            f"the module {type(model).__name__} has no function with an input signature: pass example_inputs for its "
            "__call__, such as example_inputs=tf.TensorSpec([None, 8])"
        )
    return directory


def _tensor_specs(tf: Any, examples: Any, *, batched: bool) -> list[Any]:
    arguments = _as_tuple(examples)
    specs = [
        argument
        if isinstance(argument, tf.TensorSpec)
        else tf.TensorSpec.from_tensor(tf.convert_to_tensor(argument))
        for argument in arguments
    ]
    concrete = [
        spec for spec, argument in zip(specs, arguments, strict=True) if spec is not argument
    ]
    if not batched or not concrete:
        return specs
    _rows_of([tuple(spec.shape) for spec in concrete])
    return [
        spec if spec is argument else tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)
        for spec, argument in zip(specs, arguments, strict=True)
    ]


def _as_tuple(examples: Any) -> tuple[Any, ...]:
    """The arguments of a call; an example that is neither a list nor a tuple is the only one."""
    return tuple(examples) if isinstance(examples, (list, tuple)) else (examples,)


def _rows_of(shapes: Sequence[Any]) -> Any:
    """The extent of axis 0, which all example inputs share."""
    rows = {shape[0] if len(shape) else None for shape in shapes}
    if len(rows) != 1 or None in rows:
        shown = ", ".join(str(tuple(shape)) for shape in shapes)
        raise UsageError(
            f"batch_sizes: axis 0 of every example input is the batch, but these have the shapes {shown}; "
            "give all the same number of rows, or leave batch_sizes out"
        )
    return rows.pop()


def _take_none(examples: Any, what: str) -> None:
    if examples is not None:
        raise UsageError(f"example_inputs: leave it out for {what}")


@contextmanager
def _exporting(problem: str) -> Iterator[None]:
    """Turns what a framework raises while it exports a model into one sentence; its own error stays the cause."""
    try:
        yield
    except ModelwheelError:
        raise
    except Exception as error:
        text = next(filter(None, map(str.strip, str(error).splitlines())), "")
        reason = f"{type(error).__name__}: {one_line(text)}" if text else type(error).__name__
        raise UnsupportedModelError(f"{problem}: {reason}") from error
