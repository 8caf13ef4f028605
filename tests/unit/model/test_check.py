"""Checking an inspected model: every finding, from hand-made inspections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.check import Expected, check_signature, fix_for, refuse
from modelwheel.model.inspection import Inspection
from tests.support.inspections import FREE, errors_of, inspect_model, only_error, tensor, use_of

_LOADING = {"count": 1, "layers": ["table"]}


def test_a_usual_model_has_no_findings() -> None:
    assert check_signature(inspect_model(), Expected(batch_sizes=[1, 4, 16])) == []


def test_an_inspection_survives_being_written(tmp_path: Path) -> None:
    found = inspect_model(ops=[use_of("BesselJ0", "unsupported", dtypes="T=float32")])
    found.save(tmp_path / "inspection.json")
    assert Inspection.load(tmp_path / "inspection.json") == found


def test_operations_on_text_are_one_finding() -> None:
    found = inspect_model(
        ops=[
            use_of("Reshape", "unsupported", dtypes="T=string"),
            use_of("UnicodeDecode", "unsupported"),
            use_of("BesselJ0", "unsupported"),
        ]
    )
    text, other = (f for f in check_signature(found, Expected()) if f.kind == "unsupported-op")
    assert text.message.startswith("XLA has no operations on text: Reshape in ")
    assert text.fix == "process text outside the model and pass numbers"
    assert other.message.startswith("XLA has no BesselJ0")


def test_unknown_signature_names_the_nearest_and_all() -> None:
    (finding,) = check_signature(inspect_model(), Expected("serving_defualt"))
    assert finding.kind == "unknown-signature"
    assert "'serving_defualt' (it has: serving_default)" in finding.message
    assert "did you mean 'serving_default'?" in finding.fix


def test_a_model_without_signatures() -> None:
    (finding,) = check_signature(inspect_model(signatures=[]), Expected())
    assert finding.kind == "no-signature"


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
    assert as_input.kind == as_output.kind == code
    assert as_input.message.startswith("input 'x'")
    assert as_output.message.startswith("output 'x'")
    assert words in as_input.message


@pytest.mark.parametrize(
    ("shape", "given", "message", "fix"),
    [
        (None, None, "unknown number of axes", "set inputs.x.shape in the spec to the full shape"),
        ([None, None, 4], None, "free axis 1 in [batch, ?, 4]", "inputs.x.shape: [null, 128, 4]"),
        ([None, None], [None, None], "one axis may be free", "inputs.x.shape"),
        (
            [8, None, 4],
            None,
            "free axis 1 in [8, ?, 4]",
            "batch, write inputs.x.shape: [8, batch, 4]",
        ),
        ([None, 4], [None, 5], "[batch, 5], but the model declares [batch, 4]", "inputs.x.shape"),
        ([None, 4], [None, 4, 1], "but the model declares [batch, 4]", "inputs.x.shape"),
    ],
)
def test_shapes_that_are_not_known(
    shape: list[int | None] | None, given: list[int | None] | None, message: str, fix: str
) -> None:
    found = inspect_model(inputs=[tensor(shape=shape)])
    finding = only_error(found, {"x": given} if given else None)
    assert finding.kind == "shape"
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
    assert finding.kind == "unknown-input"
    assert finding.fix == "did you mean 'tokens'?"


@pytest.mark.parametrize("batch_sizes", [None, [1], [2]])
def test_fixed_shapes_need_no_batch_sizes(batch_sizes: list[int] | None) -> None:
    found = inspect_model(inputs=[tensor(shape=[2, 4])])
    (finding,) = check_signature(found, Expected(batch_sizes=batch_sizes))
    assert (finding.severity, finding.kind) == ("note", "fixed-shape")


@pytest.mark.parametrize("batch_sizes", [[1, 2], [4], [2, 4]])
def test_fixed_shapes_with_batch_sizes(batch_sizes: list[int]) -> None:
    found = inspect_model(inputs=[tensor(shape=[2, 4])])
    (finding,) = check_signature(found, Expected(batch_sizes=batch_sizes))
    assert (finding.severity, finding.kind) == ("error", "batch-sizes")
    assert "no free batch axis (x [2, 4])" in finding.message


def test_a_batch_that_is_not_first_is_noted() -> None:
    found = inspect_model(inputs=[tensor(shape=[7, None, 2])])
    (finding,) = check_signature(found, Expected(shapes={"x": (7, None, 2)}, batch_sizes=[1, 4]))
    assert str(finding) == "input 'x' has its rows on axis 1"


def test_an_input_without_batch_beside_one_with() -> None:
    found = inspect_model(inputs=[FREE, tensor(name="table", shape=[7, 2])])
    (finding,) = check_signature(found, Expected(batch_sizes=[1, 4]))
    assert (finding.severity, finding.kind) == ("note", "fixed-input")
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
    assert finding.kind == code
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
    assert [(f.severity, f.kind) for f in findings] == [
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
    assert (finding.severity, finding.kind) == (severity, "not-constant")
    assert finding.message.startswith(words)


def test_valid_values_are_noted_and_ranges_beyond_them_warned_about() -> None:
    valid = {"low": 0, "high": 10, "op": "GatherV2", "layer": "words"}
    found = inspect_model(inputs=[tensor(dtype="int32", valid=valid)])
    (note,) = check_signature(found, Expected())
    assert str(note) == "input 'x' takes 0 <= x < 10 (GatherV2 in 'words')"
    (warning,) = check_signature(found, Expected(ranges={"x": (0, 11)}))
    assert (warning.severity, warning.field) == ("warning", ("verify", "ranges", "x"))
    assert check_signature(found, Expected(ranges={"x": (2, 9)})) == []
