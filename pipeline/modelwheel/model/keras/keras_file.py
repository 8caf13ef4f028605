"""Reads and judges a file of Keras without Keras: its configuration and the shapes of its arrays.

A `.keras` file is a ZIP archive of `config.json`, `metadata.json` and `model.weights.h5`; an `.h5` file
has the configuration as an attribute. Which one a file is, its name says first, as for Keras: it may be both.
Loading calls what the configuration names, so only classes of Keras itself may be named, and none that holds
code or reads files. Keras never reads the file itself, but one that has what was judged and nothing else.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UnsupportedModelError
from ...util.text import one_line
from ..inspection import LargeTensor
from .keras_hdf5 import copy, rename_first_layers, walk
from .keras_texts import text_problem

_CONFIG, _METADATA, _WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_TRAINING = "compile_config"
_MAX_JSON = 64 << 20
_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9A-Za-z.+_-]{0,40})?")
_MAX_RATIO = 64
"""Bytes of arrays for each byte of a file; weights hardly shrink when they are compressed."""
_SMALL = 1 << 20

EXPORT_FIX = "where the model was made, save it by model.export(DIRECTORY), as a SavedModel"

_CODE = "holds Python code that is never run"
_REFUSED = {
    "Lambda": _CODE,
    "ModuleWrapper": _CODE,
    "TorchModuleWrapper": _CODE,
    "JaxLayer": _CODE,
    "FlaxLayer": _CODE,
    "TFSMLayer": "reads another model",
    "ClassMethod": "calls a method by its name",
    "InstanceMethod": "calls a method by its name",
    "InstanceProperty": "reads an attribute by its name",
}
_VALUES = frozenset(
    {
        *("__tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__slice__", "__tuple__"),
        "__keras_tensor__",
    }
)
"""What Keras writes as objects, although they are values."""
_MODULES = frozenset(
    {
        *("activations", "constraints", "dtype_policies", "engine", "initializers", "layers"),
        *("mixed_precision", "models", "ops", "quantizers", "regularizers"),
    }
)
"""Below `keras`, `keras.src`, `tf_keras` or `tf_keras.src`; the last Keras 2 is called tf_keras."""
_FUNCTION_MODULES = frozenset({"activations", "ops"})
_TOP = frozenset({"Functional", "Sequential", "Model", "DTypePolicy"})
# Layers of Keras 2 that call a function of TensorFlow by its name.
_TF_CALL = "TFOpLambda"
_TF_CALLS = ("math.", "nn.", "linalg.", "signal.", "image.", "__operators__.")
_TF_FUNCTIONS = frozenset(
    {
        *("abs", "cast", "clip_by_value", "concat", "expand_dims", "eye", "gather", "identity"),
        *(
            "multiply",
            "one_hot",
            "ones",
            "ones_like",
            "pad",
            "range",
            "repeat",
            "reshape",
            "reverse",
        ),
        *("roll", "shape", "sort", "split", "square", "squeeze", "stack", "tile", "transpose"),
        *(
            "unstack",
            "where",
            "zeros",
            "zeros_like",
            "add",
            "subtract",
            "divide",
            "maximum",
            "minimum",
        ),
        *("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "matmul", "tanh", "sigmoid"),
        *("exp", "sqrt", "pow", "slice", "strided_slice", "boolean_mask", "stop_gradient"),
    }
)


@dataclass(frozen=True)
class KerasFile:
    """The contents of a file, but for the values of its weights."""

    config: Mapping[str, Any]
    """The model, as JSON."""
    version: str
    """Of the Keras that wrote it; empty if it does not say."""
    arrays: tuple[LargeTensor, ...]
    is_archive: bool = False
    """Whether it is a ZIP archive, not an HDF5 file."""

    @property
    def is_keras_2(self) -> bool:
        """Whether Keras 2 or an older one wrote it."""
        return not self.version or int(self.version.partition(".")[0]) < 3

    def input_shapes(self) -> Mapping[str, tuple[int | None, ...]] | None:
        """The inputs that the file declares, by layer; None if it does not declare them."""
        return _input_shapes(self.config)


# --- reading --------------------------------------------------------------------------------------


def read_keras_file(path: Path) -> KerasFile:
    """Reads a file, and refuses what must not be loaded whatever it is.

    Raises:
        UnsupportedModelError: It is damaged, not of Keras, or larger than it may be.
    """
    with _damage(path):
        if path.name.endswith(".keras") and zipfile.is_zipfile(path):
            return _read_archive(path)
        with path.open("rb") as file:
            signature = file.read(len(_HDF5))
        if signature == _HDF5:
            return _read_hdf5(path)
    raise UnsupportedModelError(f"{path.name} is neither a .keras nor an HDF5 file of Keras")


def write_judged(path: Path, file: KerasFile, directory: Path) -> Path:
    """Writes a file with the configuration that was read and the arrays that are in it, for Keras to read.

    Args:
        path: The file that was read.
        file: What was read of it.
        directory: An empty directory.

    Returns:
        The new file, of the same kind.

    Raises:
        UnsupportedModelError: It is damaged.
    """
    import h5py

    config, weights = json.dumps(file.config), directory / "model.h5"
    with (
        _damage(path),
        _open_weights(path, is_archive=file.is_archive) as source,
        # The new form, which has room for long lists of names.
        h5py.File(weights, "w", libver="latest") as target,
    ):
        copy(source, target)
        if file.is_archive:
            rename_first_layers(target)
        else:
            for name in list(target.attrs):
                del target.attrs[name]
            about = {"model_config": config, "keras_version": file.version}
            target.attrs.update({**about, "backend": "tensorflow"})
    if not file.is_archive:
        return weights
    written = directory / "model.keras"
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(_CONFIG, config)
        archive.writestr(_METADATA, json.dumps({"keras_version": file.version}))
        archive.write(weights, _WEIGHTS)
    weights.unlink()
    return written


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Says what is wrong with a file that cannot be read."""
    try:
        yield
    except (OSError, LookupError, ValueError, TypeError, RuntimeError, zipfile.BadZipFile) as error:
        reason = str(error).partition("\n")[0]
        raise UnsupportedModelError(
            f"{path.name} is damaged or not a model of Keras ({reason}); save or fetch it again",
            code="MW416",
        ) from None


@contextmanager
def _open_weights(path: Path, *, is_archive: bool) -> Iterator[Any]:
    """The HDF5 file, or the one in an archive."""
    import h5py

    if is_archive:
        with zipfile.ZipFile(path) as archive:
            content = archive.read(_WEIGHTS)
        with h5py.File(io.BytesIO(content), "r") as weights:
            yield weights
    else:
        with h5py.File(path, "r") as file:
            yield file


def _read_archive(path: Path) -> KerasFile:
    with zipfile.ZipFile(path) as archive:
        total = sum(member.file_size for member in archive.infolist())
        _require_bytes(path.name, total, path.stat().st_size)
        names = archive.namelist()
        if len(names) != len(set(names)):
            raise ValueError("two of its files have the same name")
        for name in (_CONFIG, _METADATA):
            if archive.getinfo(name).file_size > _MAX_JSON:
                raise ValueError(f"{name} is too large")
        config = _parse(archive.read(_CONFIG))
        metadata = _parse(archive.read(_METADATA))
        stored = archive.getinfo(_WEIGHTS).file_size
    with _open_weights(path, is_archive=True) as weights:
        arrays = tuple(_arrays(weights))
    _require_bytes(path.name, _bytes(arrays), stored)
    version = _read_version(metadata.get("keras_version", ""))
    return KerasFile(config, version, _tensors(arrays), is_archive=True)


def _read_hdf5(path: Path) -> KerasFile:
    with _open_weights(path, is_archive=False) as file:
        if "model_config" not in file.attrs:
            raise UnsupportedModelError(
                f"{path.name} holds weights without their model; save it with model.save(FILE), "
                "not model.save_weights"
            )
        config = _parse(file.attrs["model_config"])
        version = file.attrs.get("keras_version", "")
        arrays = tuple(_arrays(file))
    _require_bytes(path.name, _bytes(arrays), path.stat().st_size)
    return KerasFile(config, _read_version(version), _tensors(arrays))


def _read_version(value: Any) -> str:
    """The Keras that wrote a file; empty if it does not say."""
    text = value.decode() if isinstance(value, bytes) else str(value)
    if text and not _VERSION.fullmatch(text):
        raise ValueError(f"its keras_version {one_line(repr(text))[:80]} is not a version")
    return text


def _parse(text: Any) -> Mapping[str, Any]:
    parsed = without_training(json.loads(text))
    if not isinstance(parsed, dict):
        raise TypeError("its configuration is not an object")
    return parsed


def without_training(value: Any) -> Any:
    """A configuration without how its models were trained, which Keras would read: also of models inside."""
    if isinstance(value, list):
        return [without_training(item) for item in value]
    if not isinstance(value, dict):
        return value
    dropped = _TRAINING if "class_name" in value else None
    return {name: without_training(item) for name, item in value.items() if name != dropped}


def _arrays(file: Any) -> Iterator[tuple[str, int, int]]:
    """Name, elements and bytes of an element of every array; links to other files are refused."""
    import h5py

    for where, item in walk(file):
        if isinstance(item, h5py.Dataset):
            yield where, int(item.size or 0), item.dtype.itemsize


def _bytes(arrays: tuple[tuple[str, int, int], ...]) -> int:
    return sum(elements * item_bytes for _, elements, item_bytes in arrays)


def _tensors(arrays: tuple[tuple[str, int, int], ...]) -> tuple[LargeTensor, ...]:
    return tuple(LargeTensor(node=name, function="", elements=count) for name, count, _ in arrays)


def _require_bytes(name: str, declared: int, present: int) -> None:
    if declared > max(_SMALL, _MAX_RATIO * present):
        raise UnsupportedModelError(
            f"{name} declares {declared} bytes of data but has {present}; save the model again without "
            "compression"
        )


def _input_shapes(model: Any) -> Mapping[str, tuple[int | None, ...]] | None:
    config = model.get("config") if isinstance(model, dict) else None
    layers = config.get("layers") if isinstance(config, dict) else config
    if not isinstance(layers, list) or not layers:
        return None
    if isinstance(config, dict) and "input_layers" in config:
        by_name = {layer.get("config", {}).get("name"): layer for layer in layers}
        names = list(_layer_names(config["input_layers"]))
        shapes = {name: _declared_shape(by_name.get(name)) for name in names}
        return None if None in shapes.values() else shapes  # type: ignore[return-value]
    shape = _declared_shape(layers[0])
    if shape is not None:
        return {str(layers[0]["config"].get("name", "")): shape}
    return _input_shapes(layers[0])


def _layer_names(references: Any) -> Iterator[str]:
    """The layers of `[name, 0, 0]`, or of a list or a dictionary of these."""
    if isinstance(references, dict):
        references = list(references.values())
    if isinstance(references, list) and references and isinstance(references[0], str):
        yield references[0]
    elif isinstance(references, list):
        for reference in references:
            yield from _layer_names(reference)


def _declared_shape(layer: Any) -> tuple[int | None, ...] | None:
    config = layer.get("config") if isinstance(layer, dict) else None
    if not isinstance(config, dict):
        return None
    shape = config.get("batch_shape") or config.get("batch_input_shape")
    return tuple(shape) if isinstance(shape, list) else None


# --- judging --------------------------------------------------------------------------------------


def judge_config(config: Mapping[str, Any], is_known: Callable[[str], bool]) -> None:
    """Refuses a configuration that names anything but harmless classes of Keras, or works on texts.

    Args:
        config: The model.
        is_known: Whether Keras has a layer, initializer and so on of a name.

    Raises:
        UnsupportedModelError: One sentence with the layer.
    """
    text = text_problem(config)
    if text:
        raise UnsupportedModelError(text)
    _judge(config, "", is_known)


def _judge(value: Any, layer: str, is_known: Callable[[str], bool]) -> None:
    if isinstance(value, list):
        for item in value:
            _judge(item, layer, is_known)
    if not isinstance(value, dict):
        return
    if isinstance(value.get("class_name"), str):
        inner = value.get("config")
        layer = str(inner.get("name", layer)) if isinstance(inner, dict) else layer
        problem = _problem(value, is_known)
        if problem:
            place = f"the layer {layer!r}" if layer else "the model"
            raise UnsupportedModelError(f"{place} {problem}; {EXPORT_FIX}")
    for item in value.values():
        _judge(item, layer, is_known)


def _problem(value: Mapping[str, Any], is_known: Callable[[str], bool]) -> str:
    """The problem of one object of a configuration, as the rest of a sentence."""
    name, module = str(value["class_name"]), value.get("module")
    if name == "__lambda__":
        return f"is a function that {_CODE}"
    if name in _VALUES:
        return ""
    if name in _REFUSED:
        return f"is a {name}, which {_REFUSED[name]}"
    if name == "function" and module is not None:
        return _function_problem(value, str(module))
    custom = f"is of the class {name}, whose Python code is not part of the file"
    registered = value.get("registered_name")
    if ">" in name or (isinstance(registered, str) and ">" in registered):
        return custom
    if module is not None and not _is_keras(str(module), name):
        return custom
    if name in (_TF_CALL, "SlicingOpLambda"):
        return _call_problem(value)
    return "" if is_known(name) or _is_operation(module) else custom


def _is_keras(module: str, name: str) -> bool:
    parts = _below_keras(module)
    return parts is not None and (parts[0] in _MODULES if parts else name in _TOP)


def _below_keras(module: str) -> list[str] | None:
    """The parts of a module below Keras: `layers` of `tf_keras.src.layers.core`; None for another library's."""
    top, *parts = module.split(".")
    if top not in ("keras", "tf_keras"):
        return None
    return parts[1:] if parts[:1] == ["src"] else parts


def _is_operation(module: Any) -> bool:
    """Whether it is an operation of `keras.ops`, which are layers of functional models too."""
    return isinstance(module, str) and (_below_keras(module) or [""])[0] == "ops"


def _function_problem(value: Mapping[str, Any], module: str) -> str:
    name = value.get("config")
    parts = _below_keras(module)
    known = module == "builtins" or (
        parts is not None and parts[:1] and parts[0] in _FUNCTION_MODULES
    )
    if known and value.get("registered_name") in (None, "function", name):
        return ""
    return f"uses the function {name}, whose Python code is not part of the file"


def _call_problem(value: Mapping[str, Any]) -> str:
    config = value.get("config")
    function = str(config.get("function", "")) if isinstance(config, dict) else ""
    if (
        value["class_name"] != _TF_CALL
        or function.startswith(_TF_CALLS)
        or function in _TF_FUNCTIONS
    ):
        return ""
    return f"calls tf.{function}, which is not on the list of functions that are called"
