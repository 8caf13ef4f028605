"""Recognises models of formats that cannot be compiled, by names and first bytes, and says how to export them.

Nothing of a model is executed, and TensorFlow is not needed. What has no row here is refused by the reader of its format.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..spec.formats import FORMATS
from ..util.text import one_line

_HEAD = 4096
_MAX_JSON = 16 << 20

_TORCH = (
    "load it where it was made and write the whole network, by torch.onnx.export(model.eval(), (example,), "
    "'model.onnx', dynamo=True) or torch.export.save(torch.export.export(model.eval(), (example,)), 'model.pt2')"
)
_WEIGHTS = (
    "build the network where it was made, load them, and write both, by torch.onnx.export(model.eval(), (example,), "
    "'model.onnx', dynamo=True) or, in Keras, model.save('model.keras')"
)
_SCIKIT = (
    "load it where it was made and export it: for scikit-learn, write skl2onnx.to_onnx(model, rows[:1])"
    ".SerializeToString() to model.onnx"
)
_TREES = "decision trees are not compiled yet; call them with the library that made them"
_ORIGINAL = "name the model that it was converted from, as ONNX, SavedModel, .keras or .pt2"
_TRANSFORMERS = "optimum-cli export onnx --model DIRECTORY OUTPUT"


@dataclass(frozen=True)
class Foreign:
    """A format that is not read."""

    title: str
    """With its article."""
    fix: str
    """What to do, as an imperative."""


PICKLE = Foreign("a pickle (loading one runs code)", _SCIKIT)
TORCH_PICKLE = Foreign("a pickle of PyTorch, without the program of its network", _TORCH)
TORCHSCRIPT = Foreign("a program of TorchScript", _TORCH)
SAFETENSORS = Foreign("weights without their network (safetensors)", _WEIGHTS)
GGUF = Foreign(
    "weights of a language model for llama.cpp",
    f"export the model that they were made from, by {_TRANSFORMERS}, or run it with llama.cpp",
)
XGBOOST = Foreign("a model of XGBoost", _TREES)
LIGHTGBM = Foreign("a model of LightGBM", _TREES)
CATBOOST = Foreign("a model of CatBoost", _TREES)
CORE_ML = Foreign("a model of Core ML", _ORIGINAL)
PADDLE = Foreign(
    "a model of PaddlePaddle",
    "convert it, by paddle2onnx --model_dir DIRECTORY --model_filename FILE.pdmodel --params_filename FILE.pdiparams "
    "--save_file model.onnx",
)
CHECKPOINT = Foreign(
    "a checkpoint of TensorFlow (weights without their network)",
    "build the model where it was made, load the checkpoint, and write both, by model.export('saved_model') or "
    "tf.saved_model.save(model, 'saved_model')",
)
HUGGING_FACE = Foreign(
    "a directory of Hugging Face that has weights without their network",
    f"export it, by {_TRANSFORMERS}, and name the .onnx file",
)
ARCHIVE = Foreign(
    "an archive", "unpack it, or write `archive: URL`, its `sha256`, and the model in it as `path`"
)

_BY_SUFFIX = {
    **dict.fromkeys((".pkl", ".pickle", ".joblib", ".dill", ".skops"), PICKLE),
    ".safetensors": SAFETENSORS,
    **dict.fromkeys((".gguf", ".ggml"), GGUF),
    **dict.fromkeys((".ubj", ".xgb", ".bst"), XGBOOST),
    **dict.fromkeys((".lgb", ".lgbm"), LIGHTGBM),
    ".cbm": CATBOOST,
    **dict.fromkeys((".mlmodel", ".mlpackage", ".mlmodelc"), CORE_ML),
    **dict.fromkeys((".pdmodel", ".pdiparams", ".pdparams"), PADDLE),
    **dict.fromkeys((".pt", ".pth"), TORCH_PICKLE),
    ".ckpt": Foreign(
        "a checkpoint (weights without their network)",
        _WEIGHTS.replace("load them", "load it"),
    ),
    **dict.fromkeys((".index", ".meta"), CHECKPOINT),
    **dict.fromkeys((".msgpack", ".npz", ".npy"), Foreign("arrays without a network", _WEIGHTS)),
    ".ort": Foreign(
        "a model in ONNX Runtime's own format", "name the .onnx file that it was made from"
    ),
    **dict.fromkeys((".engine", ".plan", ".trt"), Foreign("a model of TensorRT", _ORIGINAL)),
    **dict.fromkeys((".caffemodel", ".prototxt"), Foreign("a model of Caffe", _ORIGINAL)),
    ".pmml": Foreign("a model in PMML", _SCIKIT),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z"), ARCHIVE),
}
"""What the ending of a name says, if nothing in the file says more."""

_STARTS = (
    (b"GGUF", GGUF),
    (b"CBM1", CATBOOST),
    (b"tree\nversion=", LIGHTGBM),
    (b"binf", XGBOOST),
)
_PARTS = frozenset(
    {"saved_model.pb", "saved_model.pbtxt", "keras_metadata.pb", "fingerprint.pb", "tf_model.h5"}
)
"""Files that have the ending of a format, but are part of something else."""
_HUGGING_FACE_WEIGHTS = re.compile(
    r"(.+\.safetensors|.+\.safetensors\.index\.json|pytorch_model.*\.bin(\.index\.json)?|tf_model\.h5|flax_model\.msgpack)"
)


def explain_file(name: str, path: Path | None) -> str | None:
    """The kind of a file that has the ending of no format, as one sentence; None for one that may be read.

    Args:
        name: Its name.
        path: Where to read it; None if only its name may be told.
    """
    kind = _by_content(name, path) if path is not None else None
    kind = kind or _BY_SUFFIX.get(_suffix(name))
    if kind is None:
        endings = ", ".join(suffix for row in FORMATS.values() for suffix in row.suffixes)
        return (
            f"{one_line(name)} has the ending of no format that is read ({endings}); correct `path`, or say what it is "
            "with source.format"
        )
    return f"{one_line(name)} is {kind.title}, which cannot be compiled; {kind.fix}"


def explain_directory(shown: str, names: Collection[str]) -> str | None:
    """The kind of a directory without a model that is read; None if it has one, or if that cannot be told.

    Args:
        shown: Its name.
        names: Of the files in it.
    """
    if any(PurePosixPath(name).name in ("saved_model.pb", "saved_model.pbtxt") for name in names):
        return None
    suffix = _BY_SUFFIX.get(_suffix(shown))
    if suffix is CORE_ML or any(name.startswith("Data/com.apple.CoreML") for name in names):
        return f"{shown} is {CORE_ML.title}, which cannot be compiled; {CORE_ML.fix}"
    if readable_files(names):
        return None
    top = {name for name in names if "/" not in name}
    if "config.json" in top and any(map(_HUGGING_FACE_WEIGHTS.fullmatch, top)):
        return f"{shown} is {HUGGING_FACE.title}; {HUGGING_FACE.fix}"
    for name in sorted(names):
        kind = _BY_SUFFIX.get(_suffix(name))
        if kind is not None and kind is not ARCHIVE:
            return (
                f"{shown} has {one_line(name)}, {kind.title}, which cannot be compiled; {kind.fix}"
            )
    return None


def readable_files(names: Collection[str]) -> list[str]:
    """The files with the endings of formats that are read, sorted."""
    suffixes = {suffix for row in FORMATS.values() for suffix in row.suffixes}
    return sorted(
        name
        for name in names
        if _suffix(name) in suffixes and PurePosixPath(name).name not in _PARTS
    )


def _suffix(name: str) -> str:
    if re.search(r"\.data-\d{5}-of-\d{5}$|\.ckpt-\d+$", name):
        return ".index"
    return PurePosixPath(name).suffix.lower()


def _by_content(name: str, path: Path) -> Foreign | None:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    for start, kind in _STARTS:
        if head.startswith(start):
            return kind
    if head.startswith(b"PK\x03\x04"):
        return next(_of_archive(path), None)
    # A pickle of protocol 2 and later; PyTorch's files before 1.6 begin with the pickle of a number.
    if re.match(rb"\x80[\x02-\x05]", head):
        by_torch = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." in head or _suffix(name) in (".pt", ".pth")
        return TORCH_PICKLE if by_torch else PICKLE
    # The length of a header of JSON.
    if re.match(rb".{6}\x00\x00\{\"", head, re.DOTALL):
        return SAFETENSORS
    if b"learner" in head[:64] and _suffix(name) != ".json":  # UBJSON
        return XGBOOST
    if head.lstrip().startswith(b"{") and path.stat().st_size < _MAX_JSON:
        return _of_json(path)
    return None


def _of_archive(path: Path) -> Iterator[Foreign]:
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if any(re.fullmatch(r"[^/]+/code/.*", name) for name in names):
            yield TORCHSCRIPT
        elif any(re.fullmatch(r"[^/]+/data\.pkl", name) for name in names):
            yield TORCH_PICKLE


def _of_json(path: Path) -> Foreign | None:
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    keys = set(value) if isinstance(value, dict) else set()
    if "learner" in keys:
        return XGBOOST
    if "oblivious_trees" in keys or {"model_info", "features_info"} <= keys:
        return CATBOOST
    if {"tree_info", "max_feature_idx"} <= keys:
        return LIGHTGBM
    if "modelTopology" in keys:
        return Foreign("a model of TensorFlow.js", _ORIGINAL)
    return None
