"""Parses the files of a GraphDef model, in binary or text form, without running anything.

The messages are described in tensorflow/core/framework/graph.proto and
tensorflow/compiler/tf2xla/tf2xla.proto.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from tensorflow.compiler.tf2xla import tf2xla_pb2
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import saved_model_pb2, saver_pb2

from ....errors import UnsupportedModelError
from ....util.text import one_line

_TEXT_SUFFIXES = (".pbtxt", ".txt")
_MAX_BYTES = (2 << 30) - 1  # protobuf's own limit
_MAX_TEXT_BYTES = 256 << 20
"""The parser of text makes objects of Python that are many times as large."""


def read_graph_def(path: Path) -> Any:
    """The GraphDef in a file; text if its name ends with `.pbtxt`.

    Raises:
        UnsupportedModelError: It is not a GraphDef, is damaged, or is too large to parse.
    """
    graph_def = _read(path, graph_pb2.GraphDef(), "a GraphDef")
    if not graph_def.node:
        raise UnsupportedModelError(f"{_name(path)} {_other_message(path)}")
    return graph_def


def read_config(path: Path) -> Any:
    """The tf2xla Config in a file; text if its name ends with `.pbtxt` or `.txt`.

    Raises:
        UnsupportedModelError: It is not a Config that the installed TensorFlow knows all fields of.
    """
    config = _read(path, tf2xla_pb2.Config(), "a tf2xla Config")
    if len(UnknownFieldSet(config)):
        raise UnsupportedModelError(
            f"{_name(path)} has other fields than a tf2xla Config (feed, fetch, variable); TensorFlow no "
            "longer has conversion_options: remove them"
        )
    return config


def read_saver(path: Path) -> Any:
    """The SaverDef in a file; text if its name ends with `.pbtxt` or `.txt`.

    Raises:
        UnsupportedModelError: It is not a SaverDef, or names no node that restores.
    """
    saver = _read(path, saver_pb2.SaverDef(), "a SaverDef")
    if not saver.restore_op_name or len(UnknownFieldSet(saver)):
        raise UnsupportedModelError(
            f"{_name(path)} is not a SaverDef: it names no node that restores variables; write it by "
            "tf.compat.v1.train.Saver(...).as_saver_def().SerializeToString()"
        )
    return saver


def _name(path: Path) -> str:
    return one_line(path.name)


def _read(path: Path, message: Any, kind: str) -> Any:
    is_text = path.suffix in _TEXT_SUFFIXES
    limit = _MAX_TEXT_BYTES if is_text else _MAX_BYTES
    if not path.is_file():
        raise UnsupportedModelError(f"there is no file {_name(path)}; correct its name in the spec")
    if path.stat().st_size > limit:
        hint = "; save it in binary form (.pb)" if is_text else ", more than TensorFlow parses"
        raise UnsupportedModelError(f"{_name(path)} exceeds {limit >> 20} MiB{hint}")
    content = path.read_bytes()
    try:
        if is_text:
            text_format.Parse(content, message)
        else:
            message.ParseFromString(content)
    except (text_format.ParseError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise UnsupportedModelError(_text_problem(path, kind, error)) from None
    except DecodeError:
        raise UnsupportedModelError(
            f"{_name(path)} is damaged or not {kind}; text files end with .pbtxt", code="MW416"
        ) from None
    return message


def _text_problem(path: Path, kind: str, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"{_name(path)} is nested too deeply to be {kind}"
    if "conversion_options" in str(error):
        return (
            f"{_name(path)} has conversion_options, which TensorFlow no longer has; remove them "
            f"({one_line(error)})"
        )
    if isinstance(error, UnicodeDecodeError) or "UTF-8" in str(error) or not str(error):
        return f"{_name(path)} is not {kind} in text form: it is not UTF-8; save it in UTF-8, or in binary form (.pb)"
    return f"{_name(path)} is not {kind} in text form: {one_line(error)[:300]}"


def _other_message(path: Path) -> str:
    """A sentence about a file without nodes."""
    if path.suffix not in _TEXT_SUFFIXES:
        try:
            if saved_model_pb2.SavedModel.FromString(path.read_bytes()).meta_graphs:
                return "is a SavedModel; name its directory as `path`, not the file"
        except DecodeError:
            pass
    return "is a GraphDef without nodes; export it again"
