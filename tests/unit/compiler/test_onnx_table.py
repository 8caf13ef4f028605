"""Every operation of ONNX is compared with ONNX Runtime, or refused on purpose."""

from __future__ import annotations

import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from onnx import defs

from modelwheel.compiler.formats.onnx.onnx_file import OPSETS
from modelwheel.compiler.formats.onnx.operators.support import (
    DEPENDS_ON_VALUES,
    UNSUPPORTED,
    is_known,
)
from tests.models.onnx_operations import GROUPS

IN_BODIES = {"Optional", "OptionalGetElement", "OptionalHasElement", "ConcatFromSequence"} | {
    f"Sequence{name}" for name in ("At", "Construct", "Empty", "Erase", "Insert", "Length", "Map")
}
"""Compared inside the body of a loop, as no model may return them, or by ONNX's own suite."""
IN_BODIES |= {"SplitToSequence", "TfIdfVectorizer", "Col2Im"}


def test_every_operation_has_a_function_or_is_refused() -> None:
    schemas = [s for s in defs.get_all_schemas_with_history() if not s.domain and not s.deprecated]
    known = {schema.name for schema in schemas if schema.since_version in OPSETS}
    newest = OPSETS[-1]
    assert {name for name in known if not is_known(name, "", newest)} == set()
    assert not is_known("Nothing", "", newest)


def test_older_operations_are_compared_with_onnx_runtime() -> None:
    """Those of opset 21, which ONNX Runtime has; newer ones are compared by ONNX's own suite."""
    schemas = [s for s in defs.get_all_schemas_with_history() if not s.domain and not s.deprecated]
    known = {schema.name for schema in schemas if 6 <= schema.since_version <= 21}
    compared = {one.op for groups in GROUPS.values() for group in groups for one in group()}
    assert known - compared - UNSUPPORTED - DEPENDS_ON_VALUES - IN_BODIES == set()
    assert compared & UNSUPPORTED == set()
