"""Checking an inspected model: every finding, from hand-made inspections."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelwheel.compiler.check import (
    Expected,
    check_signature,
    fix_for,
    refuse,
)
from modelwheel.compiler.findings import Finding
from modelwheel.compiler.inspection import Inspection, TensorInfo
from modelwheel.compiler.shapes import (
    batched_inputs,
    compiled_shape,
    find_shape_problem,
    show,
    static_shapes,
)
from modelwheel.errors import UnsupportedModelError
from modelwheel.spec import BatchRule
from tests.support.inspections import FREE, errors_of, inspect_model, only_error, tensor, use_of

_LOADING = {"count": 1, "layers": ["table"]}


def test_a_usual_model_has_no_findings() -> None:
    assert check_signature(inspect_model(), Expected(batch_sizes=[1, 4, 16])) == []


def test_an_inspection_survives_being_written(tmp_path: Path) -> None:
    found = inspect_model(ops=[use_of("BesselJ0", "unsupported", dtypes="T=float32")])
    found.save(tmp_path / "inspection.json")
    assert Inspection.load(tmp_path / "inspection.json") == found


def test_unknown_signature_names_the_nearest_and_all() -> None:
    (finding,) = check_signature(inspect_model(), Expected("serving_defualt"))
    assert finding.code == "unknown-signature"
    assert "'serving_defualt' (it has: serving_default)" in finding.message
    assert "did you mean 'serving_default'?" in finding.fix


def test_a_model_without_signatures() -> None:
    (finding,) = check_signature(inspect_model(signatures=[]), Expected())
    assert finding.code == "no-signature"


_OTHER_TYPES = (
    *("float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"),
    *("float4_e2m1fn", "int2", "uint2", "int4", "uint4", "qint8", "quint8", "qint32", "variant"),
)
"""What TensorFlow or XLA has beyond the types of the model `types` in tests/models/operations.py."""


@pytest.mark.parametrize(
    ("tensor", "code", "words"),
    [
        (tensor(dtype="string"), "string-tensor", "string tensor"),
        (tensor(dtype="resource"), "dtype", "type resource"),
        *((tensor(dtype=name), "dtype", f"has the type {name}, which") for name in _OTHER_TYPES),
        (tensor(encoding="sparse"), "encoding", "sparse tensor"),
    ],
)
def test_tensors_that_cannot_be_compiled(tensor: dict[str, Any], code: str, words: str) -> None:
    as_input = only_error(inspect_model(inputs=[tensor]))
    as_output = only_error(inspect_model(outputs=[tensor]))
    assert as_input.code == as_output.code == code
    assert as_input.message.startswith("input 'x'")
    assert as_output.message.startswith("output 'x'")
    assert words in as_input.message


@pytest.mark.parametrize(
    ("shape", "given", "message", "fix"),
    [
        (None, None, "unknown number of axes", "set inputs.x.shape in the spec to the full shape"),
        ([None, None, 4], None, "free axis 1 in [batch, ?, 4]", "inputs.x.shape: [null, 128, 4]"),
        ([None, None], [None, None], "only axis 0 may be free", "inputs.x.shape"),
        ([None, 4], [None, 5], "[batch, 5], but the model declares [batch, 4]", "inputs.x.shape"),
        ([None, 4], [None, 4, 1], "but the model declares [batch, 4]", "inputs.x.shape"),
    ],
)
def test_shapes_that_are_not_known(
    shape: list[int | None] | None, given: list[int | None] | None, message: str, fix: str
) -> None:
    found = inspect_model(inputs=[tensor(shape=shape)])
    finding = only_error(found, {"x": given} if given else None)
    assert finding.code == "shape"
    assert message in finding.message
    assert fix in finding.fix


@pytest.mark.parametrize(
    ("shape", "given"),
    [(None, [None, 4]), (None, [3, 4]), ([None, None, 4], [None, 6, 4]), ([None, 4], [2, 4])],
)
def test_the_spec_fixes_shapes(shape: list[int | None] | None, given: list[int | None]) -> None:
    assert errors_of(inspect_model(inputs=[tensor(shape=shape)]), {"x": given}) == []


def test_a_shape_for_an_input_that_is_not_there() -> None:
    finding = only_error(inspect_model(inputs=[tensor(name="tokens")]), {"token": [None, 4]})
    assert finding.code == "unknown-input"
    assert finding.fix == "did you mean 'tokens'?"


@pytest.mark.parametrize("batch_sizes", [None, [1], [2]])
def test_fixed_shapes_need_no_batch_sizes(batch_sizes: list[int] | None) -> None:
    found = inspect_model(inputs=[tensor(shape=[2, 4])])
    (finding,) = check_signature(found, Expected(batch_sizes=batch_sizes))
    assert (finding.severity, finding.code) == ("note", "fixed-shape")


@pytest.mark.parametrize("batch_sizes", [[1, 2], [4], [2, 4]])
def test_fixed_shapes_with_batch_sizes(batch_sizes: list[int]) -> None:
    found = inspect_model(inputs=[tensor(shape=[2, 4])])
    (finding,) = check_signature(found, Expected(batch_sizes=batch_sizes))
    assert (finding.severity, finding.code) == ("error", "batch-sizes")
    assert "no free batch axis (x [2, 4])" in finding.message


def test_an_input_without_batch_beside_one_with() -> None:
    found = inspect_model(inputs=[FREE, tensor(name="table", shape=[7, 2])])
    (finding,) = check_signature(found, Expected(batch_sizes=[1, 4]))
    assert (finding.severity, finding.code) == ("note", "fixed-input")
    assert "'table' of shape [7, 2]" in finding.message


@pytest.mark.parametrize(
    ("use", "code", "words"),
    [
        (use_of("AssignVariableOp"), "state", "AssignVariableOp in 'block/dense'"),
        (use_of("LookupTableFindV2", "unsupported"), "lookup-table", "LookupTableFindV2"),
        (use_of("HashTableV2", "unsupported"), "lookup-table", "HashTableV2"),
        (use_of("MyOp", "unregistered"), "custom-op", "MyOp in 'block/dense'"),
        (use_of("BesselJ0", "unsupported"), "unsupported-op", "no BesselJ0 in 'block/dense'"),
        (use_of("Lu", "unsupported", dtypes="T=int32"), "unsupported-op", "for T=int32"),
    ],
)
def test_operations_that_cannot_be_compiled(use: dict[str, Any], code: str, words: str) -> None:
    finding = only_error(inspect_model(ops=[use]))
    assert finding.code == code
    assert words in finding.message
    assert finding.fix


def test_what_the_signature_does_not_use_does_not_count() -> None:
    unused = [
        use_of("SaveV2", "unsupported", signatures={}),
        use_of("MyOp", "unregistered", signatures={"train": {"count": 1, "layers": ["a"]}}),
        use_of("AssignVariableOp", signatures={}),
    ]
    assert check_signature(inspect_model(ops=unused), Expected()) == []


def test_many_layers_are_cut_short() -> None:
    layers = [f"block_{i}" for i in range(8)]
    use = {"count": 80, "layers": layers}
    found = inspect_model(
        ops=[use_of("BesselJ0", "unsupported", signatures={"serving_default": use})]
    )
    assert "'block_0', 'block_1', 'block_2', ... (80 times)" in only_error(found).message


def test_errors_come_first_then_warnings_then_notes() -> None:
    found = inspect_model(
        ops=[
            use_of("LookupTableImportV2", "unsupported", signatures={}, loading=_LOADING),
            use_of("Enter", "frozen"),
            use_of("Switch", "frozen"),
            use_of("RandomStandardNormal"),
            use_of("BesselJ0", "unsupported"),
        ],
        assets=["words.txt"],
    )
    findings = check_signature(found, Expected())
    assert [(f.severity, f.code) for f in findings] == [
        ("error", "unsupported-op"),
        ("warning", "random"),
        ("note", "initializers"),
        ("note", "tf1-control-flow"),
        ("note", "assets"),
    ]


def test_random_numbers_are_refused_unless_a_branch_may_never_draw_them() -> None:
    error = only_error(inspect_model(ops=[use_of("RandomStandardNormal")]))
    assert "draws random numbers, which differ from call to call: RandomStandardNormal" in str(
        error
    )
    assert "tf.random.stateless_normal with a seed that is an input" in error.fix
    for op in ("UniformFullIntV2", "UniformV2", "Normal"):
        assert errors_of(inspect_model(ops=[use_of(f"StatelessRandom{op}")])) == []
    for op in ("StatelessTruncatedNormalV2", "StatelessMultinomial"):
        error = only_error(inspect_model(ops=[use_of(op)]))
        assert f"other numbers than TensorFlow from the same seed: {op}" in str(error)
    assert errors_of(inspect_model(ops=[use_of("RandomUniform"), use_of("If")])) == []


def test_refusal_lists_all_errors_and_nothing_else() -> None:
    refuse(check_signature(inspect_model(assets=["words.txt"]), Expected()))
    found = inspect_model(
        inputs=[tensor(dtype="string")], ops=[use_of("StringLength", "unsupported")], assets=["a"]
    )
    with pytest.raises(UnsupportedModelError) as caught:
        refuse(check_signature(found, Expected()))
    first, second = str(caught.value).splitlines()
    assert "string tensor" in first
    assert "StringLength" in second


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("ParseExampleV2", "plain tensors"),
        ("DecodePng", "images"),
        ("EagerPyFunc", "Python code"),
        ("StringSplitV2", "text"),
        ("SparseTensorDenseMatMul", "dense tensors"),
        ("BesselJ0", "other operations"),
    ],
)
def test_fixes(op: str, words: str) -> None:
    assert words in fix_for(op)


# --- shapes ---------------------------------------------------------------------------------------


def test_every_input_gets_its_shape_at_a_batch_size() -> None:
    """CMS defects 3 and 4: only axis 0 is the batch, and inputs without one stay as they are."""
    signature = inspect_model(
        inputs=[FREE, tensor(name="steps", shape=[None, None, 3]), tensor(name="t", shape=[7])]
    ).signatures[0]
    shapes = {"steps": [None, 5, 3]}
    assert batched_inputs(signature, shapes) == ("x", "steps")
    assert static_shapes(signature, shapes, 2) == {"x": (2, 4), "steps": (2, 5, 3), "t": (7,)}
    with pytest.raises(UnsupportedModelError, match=r"free axis 1 .*inputs\.steps\.shape"):
        static_shapes(signature, {}, 2)
    with pytest.raises(UnsupportedModelError, match="pass a batch size"):
        static_shapes(signature, shapes, None)


def test_no_batch_size_without_a_batch_axis() -> None:
    signature = inspect_model(inputs=[tensor(shape=[2, 4])]).signatures[0]
    assert static_shapes(signature, {}, None) == {"x": (2, 4)}
    with pytest.raises(UnsupportedModelError, match="omit the batch size"):
        static_shapes(signature, {}, 4)


def test_shapes_of_scalars_and_the_spec() -> None:
    scalar = TensorInfo(name="s", dtype="int32", shape=())
    assert compiled_shape(scalar, {}) == ()
    assert find_shape_problem(scalar, None) is None
    assert find_shape_problem(scalar, [1]) is not None
    batch = TensorInfo(name="x", dtype="float32", shape=(None, 4))
    assert compiled_shape(batch, {"x": [2, 4]}) == (2, 4)
    assert show((None, None, 3)) == "[batch, ?, 3]"


# --- what the spec says ---------------------------------------------------------------------------


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
    assert finding.code == "batch-rules"
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
    assert [finding.code for finding in found] == ([] if fits else ["pad"])


@pytest.mark.parametrize(
    ("needed", "severity", "words"),
    [
        (
            {"op": "Reshape", "argument": "the shape", "layer": "head"},
            "error",
            "XLA must know the shape of Reshape in 'head' when it compiles, but it depends on",
        ),
        (
            {"op": "Where", "argument": "the shape of the result", "layer": "a", "certain": False},
            "warning",
            "the shape of the result of Where in 'a' depends on the values of inputs",
        ),
    ],
)
def test_what_xla_must_know_when_it_compiles(
    needed: dict[str, Any], severity: str, words: str
) -> None:
    found = inspect_model(
        costs={"serving_default": {"nodes": 1, "depth": 0, "constants": [needed]}}
    )
    (finding,) = check_signature(found, Expected())
    assert (finding.severity, finding.code) == (severity, "not-constant")
    assert finding.message.startswith(words)


def test_valid_values_are_noted_and_ranges_beyond_them_warned_about() -> None:
    valid = {"low": 0, "high": 10, "op": "GatherV2", "layer": "words"}
    found = inspect_model(inputs=[tensor(dtype="int32", valid=valid)])
    (note,) = check_signature(found, Expected())
    assert str(note) == "input 'x' takes 0 <= x < 10 (GatherV2 in 'words')"
    (warning,) = check_signature(found, Expected(ranges={"x": (0, 11)}))
    assert (warning.severity, warning.field) == ("warning", ("verify", "ranges", "x"))
    assert check_signature(found, Expected(ranges={"x": (2, 9)})) == []
