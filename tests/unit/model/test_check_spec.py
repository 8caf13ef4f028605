"""Checking what a spec says against an inspected model: batches, ranges, tolerances, names and lengths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modelwheel.model.check import Expected, check_signature
from modelwheel.model.findings import Finding
from modelwheel.model.inspection import Inspection
from modelwheel.spec import BatchRule
from tests.support.inspections import inspect_model, tensor


def _only(found: Inspection, expected: Expected) -> Finding:
    """The only error."""
    (error,) = [f for f in check_signature(found, expected) if f.severity == "error"]
    return error


@pytest.mark.parametrize(
    ("expected", "text", "field"),
    [
        (
            Expected(ranges={"bar": (0, 1)}),
            (
                "verify.ranges names 'bar', which is not an input of the signature; "
                "its inputs are: count, image"
            ),
            ("verify", "ranges", "bar"),
        ),
        (
            Expected(ranges={"imagee": (0, 1)}),
            (
                "verify.ranges names 'imagee', which is not an input of the signature; "
                "did you mean 'image'?"
            ),
            ("verify", "ranges", "imagee"),
        ),
        (
            Expected(outputs=["nope"]),
            (
                "verify.outputs names 'nope', which is not an output of the signature; "
                "its outputs are: score"
            ),
            ("verify", "outputs", "nope"),
        ),
        (
            Expected(shapes={"other": [None, 4]}),
            (
                "inputs names 'other', which is not an input of the signature; "
                "its inputs are: count, image"
            ),
            ("inputs", "other"),
        ),
        (
            Expected(ranges={"count": (0, 300)}),
            (
                "verify.ranges.count: [0, 300) is not within the range of uint8; "
                "choose bounds from 0 to 256"
            ),
            ("verify", "ranges", "count"),
        ),
        (
            Expected(ranges={"image[3]": (0, 7), "image[2:5]": (0, 1)}),
            (
                "verify.ranges.image[2:5] names columns that input 'image' of type float32 does not have, whose "
                "last axis has the extent 4; write positions along the last axis as x[3] or x[4:6], counted from 0"
            ),
            ("verify", "ranges", "image[2:5]"),
        ),
        (
            Expected(ranges={"count[0]": (-1, 3)}),
            (
                "verify.ranges.count[0]: [-1, 3) is not within the range of uint8; "
                "choose bounds from 0 to 256"
            ),
            ("verify", "ranges", "count[0]"),
        ),
        (
            Expected(rules=[BatchRule.parse("5:4,1")], emulate=False),
            (
                "the batch rule '5:4,1' cannot be kept: batching.emulate is false; "
                "remove batching.rules from the spec"
            ),
            ("batching", "rules"),
        ),
    ],
)
def test_what_does_not_fit_the_signature(
    expected: Expected, text: str, field: tuple[str, ...]
) -> None:
    inputs = [tensor(name="count", dtype="uint8"), tensor(name="image")]
    finding = _only(inspect_model(inputs=inputs, outputs=[tensor(name="score")]), expected)
    assert str(finding) == text
    assert finding.field == field


def test_what_fits_the_signature() -> None:
    inputs = [tensor(name="count", dtype="uint8"), tensor(name="image")]
    expected = Expected(
        ranges={"count": (0, 256), "image": (-1e9, 1e9)},
        outputs=["x"],
        rules=[BatchRule.parse("5:4,1")],
    )
    assert check_signature(inspect_model(inputs=inputs), expected) == []


def test_batch_rules_need_a_batch_axis() -> None:
    found = inspect_model(inputs=[tensor(shape=[2, 4])])
    finding = _only(found, Expected(rules=[BatchRule.parse("3:1,1,1")]))
    assert finding.kind == "batch-rules"
    assert "its signature has no batch axis" in finding.message


@pytest.mark.parametrize(
    ("dtype", "bounds", "fits"),
    [
        ("int8", (-128, 128), True),
        ("int8", (-129, 0), False),
        ("uint16", (0, 65536), True),
        ("uint16", (-1, 5), False),
        ("int32", (0, 1e12), False),
        ("int64", (0, 1e12), True),
        ("float16", (0, 1e12), True),
        ("bool", (0, 2), True),
    ],
)
def test_ranges_of_integers(dtype: str, bounds: tuple[float, float], fits: bool) -> None:
    found = inspect_model(inputs=[tensor(dtype=dtype)])
    assert (check_signature(found, Expected(ranges={"x": bounds})) == []) == fits


@pytest.mark.parametrize(
    ("expected", "text", "field"),
    [
        (
            Expected(tolerances={"tolerance": (1e308, 1e-5)}),
            (
                "verify.tolerance.atol is 1e+308, above 1: such a comparison shows nothing; lower it; "
                "`check --lenient` passes it, building does not"
            ),
            ("verify", "tolerance", "atol"),
        ),
        (
            Expected(tolerances={"outputs.a.b": (0.0, 0.5)}),
            "verify.outputs.a.b.rtol is 0.5, above 0.1: such a comparison shows nothing",
            ("verify", "outputs", "a.b", "rtol"),
        ),
        (Expected(rows=5000), "verify.rows is 5000, above 4096", ("verify", "rows")),
        (
            Expected(ranges={"x": (0, 1e38)}),
            "verify.ranges.x goes beyond 1e+30",
            ("verify", "ranges", "x"),
        ),
    ],
)
def test_comparisons_that_show_nothing(
    expected: Expected, text: str, field: tuple[str, ...]
) -> None:
    finding = _only(inspect_model(), expected)
    assert str(finding).startswith(text)
    assert finding.field == field
    (lenient,) = check_signature(inspect_model(), replace(expected, lenient=True))
    assert lenient == replace(finding, severity="warning")


def test_tolerances_at_their_bounds() -> None:
    expected = Expected(tolerances={"tolerance": (1.0, 0.1)}, rows=4096, ranges={"x": (0, 1e30)})
    assert check_signature(inspect_model(), expected) == []


@pytest.mark.parametrize(
    ("dtype", "shape", "number", "text"),
    [
        ("float32", [None, 3], 3, ""),
        (
            "float32",
            [None, 3],
            2,
            "labels.x has 2 labels, but its last axis has 3; correct the list",
        ),
        ("float32", [None], 2, ""),
        ("float32", [], 1, "labels.x has 1 label, but it is one number"),
        ("float32", None, 5, ""),
        ("int64", [None], 1000, ""),
        ("bool", [None], 2, ""),
        ("bool", [None], 3, "labels.x has 3 labels, but its values are false and true"),
    ],
)
def test_labels_are_as_many_as_there_are_places(
    dtype: str, shape: list[int | None] | None, number: int, text: str
) -> None:
    found = inspect_model(outputs=[{**tensor(dtype=dtype), "shape": shape}])
    findings = check_signature(found, Expected(labels={"x": number}))
    assert len(findings) == bool(text)
    for finding in findings:
        assert str(finding).startswith(text)
        assert finding.field == ("labels", "x")


def test_labels_of_an_unknown_output() -> None:
    finding = _only(inspect_model(), Expected(labels={"nope": 3}))
    assert str(finding).startswith("labels names 'nope', which is not an output of the signature")
    assert finding.field == ("labels", "nope")


# --- names and lengths ----------------------------------------------------------------------------

_TOKENS = tensor(name="tokens", dtype="int32", shape=[None, None])


def _errors(inputs: list[dict[str, Any]], **expected: Any) -> list[Finding]:
    found = inspect_model(inputs=inputs, outputs=[tensor(name="y"), tensor(name="z")])
    return check_signature(found, Expected(**expected))


def test_everything_else_uses_the_new_names() -> None:
    names = {"tokens": "words", "y": "z", "z": "y"}
    expected = {"shapes": {"words": (None, 4)}, "ranges": {"words": (0, 9)}, "outputs": ["y"]}
    assert _errors([_TOKENS], names=names, **expected) == []


@pytest.mark.parametrize(
    ("expected", "text", "field"),
    [
        (
            {"names": {"tokns": "words"}},
            "names has 'tokns', which is not an input or output of the signature; did you mean 'tokens'?",
            ("names", "tokns"),
        ),
        (
            {"names": {"y": "z"}},
            "the outputs 'z' and 'y' would both be called 'z'; choose another name",
            ("names", "y"),
        ),
        (
            {
                "names": {"tokens": "words"},
                "ranges": {"tokens": (0, 1)},
                "shapes": {"words": (1, 4)},
            },
            (
                "verify.ranges names 'tokens', which is not an input of the signature; names calls it "
                "'words': use that name"
            ),
            ("verify", "ranges", "tokens"),
        ),
    ],
)
def test_wrong_names(expected: dict[str, Any], text: str, field: tuple[str, ...]) -> None:
    found = _errors([_TOKENS], **{"shapes": {"tokens": (None, 4)}, **expected})
    (error,) = [finding for finding in found if finding.severity == "error"]
    assert (str(error), error.field) == (text, field)


def test_an_axis_that_the_model_fixes_has_one_length() -> None:
    fixed = tensor(name="x", shape=[None, 8])
    shapes = {"shapes": {"x": (None, 8)}, "shorter_shapes": [{"x": (None, 4)}]}
    (error,) = _errors([fixed], **shapes)
    assert "input 'x' is given the shape [batch, 4], but the model declares [batch, 8]" in str(
        error
    )


@pytest.mark.parametrize(
    ("dtype", "pad", "fits"),
    [("int8", -1, True), ("uint8", -1, False), ("int32", 0.5, False), ("float32", 0.5, True)],
)
def test_pads_are_values_of_the_type(dtype: str, pad: float, fits: bool) -> None:
    found = _errors([tensor(name="x", dtype=dtype, shape=[None, 8])], pads={"x": pad})
    assert [finding.kind for finding in found] == ([] if fits else ["pad"])
