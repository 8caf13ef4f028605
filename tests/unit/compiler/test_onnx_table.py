"""Every operation of ONNX is compared with ONNX Runtime, or refused on purpose."""

from __future__ import annotations

import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from onnx import defs

from modelwheel.compiler.worker.formats.onnx_file import OPSETS
from modelwheel.compiler.worker.formats.onnx_operators.support import DEPENDS_ON_VALUES, UNSUPPORTED
from tests.models.onnx_operations import GROUPS

IN_UNIT_TESTS = {"If"}  # branches are graphs: test_onnx_control.py
REFUSED_BY_CONVERSION = {"Col2Im", "MaxRoiPool"}


def test_every_operation_has_a_case_or_is_refused() -> None:
    schemas = [s for s in defs.get_all_schemas_with_history() if not s.domain and not s.deprecated]
    known = {schema.name for schema in schemas if schema.since_version <= OPSETS[-1]}
    compared = {one.op for groups in GROUPS.values() for group in groups for one in group()}
    refused = UNSUPPORTED | DEPENDS_ON_VALUES | REFUSED_BY_CONVERSION
    assert known - compared - IN_UNIT_TESTS - refused == set()
    assert compared & (UNSUPPORTED | REFUSED_BY_CONVERSION) == set()
