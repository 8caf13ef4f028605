"""Evaluates the model with arrays of a file: `python -m ... run in.npz out.npz`."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ._model import Model

_START = {".npz": b"PK", ".npy": b"\x93NUMPY"}
"""The first bytes of files of arrays, by the end of their names."""


def run(source: Path, target: Path, model: Model) -> str:
    """Reads the inputs, and writes the outputs beside `target` first: no reader finds half a file.

    Args:
        source: An .npz file with an array for each input, by its name; or, for a model with one input, an .npy file.
        target: The same for the outputs.
        model: What evaluates them.

    Raises:
        OSError: A file cannot be read or written.
        TypeError: An array is missing or unknown, or has the wrong element type.
        ValueError: A file is not what it should be, or an array has the wrong shape.
    """
    for path, specs, kind in ((source, model.inputs, "input"), (target, model.outputs, "output")):
        if path.suffix not in _START:
            raise ValueError(f"{path}: the name of a file of arrays ends in .npz or .npy")
        if path.suffix == ".npy" and len(specs) != 1:
            raise ValueError(f"{path}: the model has {len(specs)} {kind}s; use a file .npz")
    if not target.parent.is_dir():
        raise ValueError(f"{target}: there is no directory {target.parent}")
    outputs = model.predict(_read(source, model))
    if isinstance(outputs, np.ndarray):
        outputs = {model.outputs[0].name: outputs}
    _write(target, outputs)
    shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in outputs.items())
    return f"{target}: {shapes}"


def _read(path: Path, model: Model) -> dict[str, NDArray[Any]]:
    names = [spec.name for spec in model.inputs]
    with path.open("rb") as file:
        found = file.read(len(_START[path.suffix]))
        if found != _START[path.suffix]:
            raise ValueError(f"{path} is not a file of arrays; numpy.savez(...) writes .npz files")
        file.seek(0)
        try:
            loaded = np.load(file, allow_pickle=False)
            if path.suffix == ".npy":
                return {names[0]: loaded}
            _check_names(path, names, loaded.files)
            return {name: loaded[name] for name in names}
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} cannot be read: {error}") from None


def _check_names(path: Path, names: list[str], given: list[str]) -> None:
    missing = [repr(name) for name in names if name not in given]
    unknown = [repr(name) for name in given if name not in names]
    if missing:
        there = f"; it has {', '.join(unknown)}" if unknown else ""
        raise TypeError(f"{path} lacks the input {', '.join(missing)}{there}")
    if unknown:
        raise TypeError(
            f"{path} has {', '.join(unknown)}, which is not an input; the inputs are: "
            f"{', '.join(names)}"
        )


def _write(path: Path, outputs: dict[str, NDArray[Any]]) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            _save(path.suffix, file, outputs)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _save(suffix: str, file: IO[bytes], outputs: dict[str, NDArray[Any]]) -> None:
    if suffix == ".npy":
        np.save(file, next(iter(outputs.values())))
        return
    # Not np.savez, whose own arguments would hide outputs of the same names.
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, array in outputs.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
