"""Whatever the reader of a file raises is one sentence about the file, unless the machine is to blame."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from modelwheel.compiler import formats
from modelwheel.compiler.loaded.guarded import reading_errors
from modelwheel.errors import EnvironmentProblemError, UnsupportedModelError
from modelwheel.model.readings import GraphDefReading, OnnxReading, Reading, SavedModelReading

_ONNX = OnnxReading(file="a\x1bb.onnx")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (IndexError("list index out of range"), "(IndexError: list index out of range)"),
        (KeyError("axis"), "('axis' is missing or unknown)"),
        (RecursionError("maximum recursion depth exceeded"), "(it is nested too deeply)"),
        (AssertionError(), "(AssertionError)"),
        (struct.error("unpack requires a buffer"), "(error: unpack requires a buffer)"),
        (RuntimeError("in user code:\n\n    File a\n\n    ValueError: bad units"), "bad units)"),
        (OSError(errno.ENOENT, "no such file"), "no such file"),
    ],
)
def test_what_a_parser_raises_is_a_sentence(error: Exception, words: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught, reading_errors(_ONNX):
        raise error
    text = str(caught.value)
    assert text.startswith("a\\x1bb.onnx is damaged, or not an ONNX model that modelwheel reads (")
    assert words in text
    assert "\n" not in text
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        EnvironmentProblemError("onnx is missing"),
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        RuntimeError("std::bad_alloc"),
        ZeroDivisionError("which the caller knows"),
    ],
)
def test_what_the_file_is_not_to_blame_for_goes_through(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, reading_errors(_ONNX, (ZeroDivisionError,)):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("reading", "name"),
    [
        (GraphDefReading(file="g.pb"), "g.pb is damaged, or not a TensorFlow GraphDef"),
        (SavedModelReading(), "the TensorFlow SavedModel is damaged"),
    ],
)
def test_each_reader_is_guarded(
    reading: Reading, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Broken:
        def inspect(self, *_: object) -> None:
            raise IndexError("a")

        load = inspect

    monkeypatch.setattr(formats, "of", lambda _: Broken())
    with pytest.raises(UnsupportedModelError, match=name):
        formats.inspect(tmp_path, reading)
    with pytest.raises(UnsupportedModelError, match=name):
        formats.load(tmp_path, reading, "serving_default", {})


def test_names_of_a_file_neither_end_a_line_nor_fill_a_page() -> None:
    said = f"the node '{'a' * 5000}' of\n'b' is no node; export it again"
    with pytest.raises(UnsupportedModelError) as caught, reading_errors(_ONNX):
        raise UnsupportedModelError(said)
    text = str(caught.value)
    assert text.endswith("... of\\x0a'b' is no node; export it again")
    assert len(text) < 300
