"""TensorFlow's failures as one sentence: input, value, layer, and the line of the spec that helps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from modelwheel.compiler.reference.failures import explain_failure
from modelwheel.model.inspection import SignatureInfo, TensorInfo, ValidValues
from modelwheel.model.messages import cause_of, node_of

_TEXT = """Graph execution error:

Detected at node model/words/embedding_lookup defined at (most recent call last):
<stack traces unavailable>
indices[0,3] = 17 is not in [0, 10)
\t [[{{node model/words/embedding_lookup}}]] [Op:__inference_signature_wrapper_123]"""
_TRACED = """in user code:

    File "a.py", line 1, in f  *
        1: 2

    ValueError: No reshape in '{{node Reshape}} = Reshape[T=DT_FLOAT](x)' with [2,4].
"""
_VALUES = {"tokens": np.array([[1, 2, 3, 17]], np.int32)}


def _signature(valid: ValidValues | None) -> SignatureInfo:
    tensor = TensorInfo(name="tokens", dtype="int32", shape=(None, 4), valid=valid)
    return SignatureInfo(key="serving_default", inputs=(tensor,), outputs=())


def test_a_value_beyond_what_the_graph_allows() -> None:
    valid = ValidValues(low=0, high=10, op="ResourceGather", layer="model/words")
    said = explain_failure(_TEXT, _VALUES, _signature(valid), sampled=False)
    assert said == (
        "TensorFlow fails in layer 'model/words': the value 17 at [0, 3] of input 'tokens' is not one "
        "of the valid ones, 0 <= x < 10 (ResourceGather in 'model/words'); set verify.ranges.tokens: "
        "[0, 10] in the spec"
    )
    assert "correct the rows" in explain_failure(_TEXT, _VALUES, _signature(valid), sampled=True)


def test_a_value_that_only_the_message_names() -> None:
    said = explain_failure(_TEXT, _VALUES, _signature(None), sampled=False)
    assert said == (
        "TensorFlow fails in layer 'model/words' on a value of input 'tokens': indices[0,3] = 17 is not "
        "in [0, 10); set verify.ranges.tokens: [0, 10] in the spec"
    )


def test_any_other_failure_names_what_was_given() -> None:
    text = "Graph execution error:\n\nassertion failed: [small] [[{{node a/assert/Assert}}]] [Op:f]"
    said = explain_failure(text, _VALUES, _signature(None), sampled=False)
    assert said == (
        "TensorFlow fails in layer 'a/assert': assertion failed: [small] (it was given 'tokens' from "
        "1 to 17); set verify.ranges.INPUT: [LOW, HIGH] in the spec, or verify.samples to a file of real rows"
    )


@pytest.mark.parametrize(
    ("text", "cause", "node"),
    [
        (_TEXT, "indices[0,3] = 17 is not in [0, 10)", "model/words/embedding_lookup"),
        (_TRACED, "No reshape in 'Reshape = Reshape[T=DT_FLOAT](x)' with [2,4].", "Reshape"),
        ("Graph execution error:", "Graph execution error:", ""),
        ("2 root error(s) found.\n  (0) INVALID_ARGUMENT: \nbad {{node x}}", "bad x", "x"),
        ("", "", ""),
    ],
)
def test_causes_are_found_below_the_preamble(text: str, cause: str, node: str) -> None:
    assert (cause_of(text), node_of(text)) == (cause, node)


def test_the_message_of_a_model_is_one_line() -> None:
    said: Any = explain_failure("bad\x1b[31m\u2028x", _VALUES, _signature(None), sampled=False)
    assert "\x1b" not in said
    assert "\u2028" not in said
