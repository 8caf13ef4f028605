"""The jobs of a worker on real SavedModels: inspect, freeze, compile, reference."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import lief
import numpy as np
import pytest

from modelwheel.errors import CompileError, UnsupportedModelError
from modelwheel.model.check import Expected, check_signature
from modelwheel.model.frozen_signature import FrozenSignature
from modelwheel.model.inspection import Inspection, OpUse
from modelwheel.model.random_inputs import random_input
from modelwheel.model.reference_result import TIMES
from modelwheel.program.program import Program
from modelwheel.workers.pool import WorkerPool
from tests.support.laboratory import SHAPES, SHARED_MODELS, Laboratory, run_script

pytestmark = pytest.mark.slow


def _errors(found: Inspection, name: str, key: str = "serving_default") -> list[str]:
    findings = check_signature(found, Expected(key, shapes=SHAPES.get(name, {})))
    return [finding.kind for finding in findings if finding.severity == "error"]


# --- inspect --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        *((name, []) for name in ("mlp", "multi", "fixed", "triple_rows", "branches", "loop")),
        *((name, []) for name in ("names", "nothing_learned", "tf1_loop", "sequence")),
        *((name, []) for name in ("needs_keras", "tf1_saved_again", "tf1_below_branches")),
        ("noise", ["random"]),
        ("text", ["string-tensor", "unsupported-op"]),
        ("counter", ["state"]),
        ("bessel", ["unsupported-op"]),
        ("table", ["lookup-table"]),
        ("custom_op", ["custom-op"]),
    ],
)
def test_verdicts(laboratory: Laboratory, name: str, errors: list[str]) -> None:
    assert _errors(laboratory.inspect(name), name) == errors


def test_one_of_several_graphs_is_chosen_by_its_tags(laboratory: Laboratory) -> None:
    chosen = laboratory.inspect("several_graphs")
    assert chosen.tags == ("serve",)
    assert [signature.key for signature in chosen.signatures] == ["negated", "serving_default"]
    reading = {"format": "saved_model", "tags": ["gpu", "serve"]}
    assert set(laboratory.inspect("several_graphs", reading=reading).tags) == {"gpu", "serve"}
    with pytest.raises(UnsupportedModelError) as caught:
        laboratory.inspect("several_graphs", reading={"format": "saved_model", "tags": ["tpu"]})
    assert str(caught.value) == (
        "the SavedModel has no graph with the tags [tpu]; set source.tags to the tags of one of its "
        "graphs: [serve], [serve, gpu], [train]"
    )
    # The same weights, times 1 and times 2, in two signatures.
    outputs = []
    for request in ({}, {"reading": reading, "signature": "negated"}):
        directory, _ = laboratory.refer("several_graphs", **request)
        with np.load(directory / "reference.npz") as arrays:
            outputs.append(arrays["out/4/z" if request else "out/4/y"])
    np.testing.assert_allclose(outputs[1], -2 * outputs[0], rtol=1e-6)


def test_shapes_that_the_spec_has_to_fix(laboratory: Laboratory) -> None:
    for name, axis in (("sequence", "free axis 1 in [batch, ?, 4]"), ("unknown_rank", "unknown")):
        (finding,) = check_signature(laboratory.inspect(name), Expected())
        assert finding.kind == "shape"
        assert axis in finding.message


def _find(found: Inspection, op: str) -> OpUse:
    return next(use for use in found.ops if use.op == op)


def test_operations_are_counted_for_each_signature(laboratory: Laboratory) -> None:
    found = laboratory.inspect("mlp")
    product, save = _find(found, "MatMul"), _find(found, "SaveV2")
    assert (product.support, product.count) == ("compiled", 2)
    assert product.signatures["serving_default"].count == 2
    assert (save.support, save.count, dict(save.signatures)) == ("unsupported", 1, {})
    assert _find(found, "VarHandleOp").support == "frozen"
    bessel = _find(laboratory.inspect("bessel"), "BesselJ0")
    assert bessel.layers == ("special/bessel/bessel_j0",)


def test_what_runs_at_loading_is_named(laboratory: Laboratory) -> None:
    assert all(use.loading is None for use in laboratory.inspect("mlp").ops)
    assert _find(laboratory.inspect("table"), "LookupTableImportV2").loading is not None


def test_names_and_types_of_a_signature(laboratory: Laboratory) -> None:
    (signature,) = laboratory.inspect("names").signatures
    assert [tensor.name for tensor in signature.inputs] == ["detector/energy", "1st"]
    (signature,) = laboratory.inspect("multi").signatures
    assert [(t.name, t.dtype, t.shape) for t in signature.inputs + signature.outputs] == [
        ("input1", "float32", (None, 4)),
        ("input2", "float64", (None, 8)),
        ("output1", "float32", (None, 8)),
        ("output2", "bool", (None, 8)),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "there is no SavedModel in this directory"),
        ({"saved_model.pbtxt": b""}, "saved_model.pbtxt is the text form"),
        ({"saved_model.pb": b"\xff\xff\xff"}, "damaged or not a SavedModel"),
        ({"saved_model.pb": b""}, "has 0 graphs"),
    ],
)
def test_directories_that_hold_no_model(
    laboratory: Laboratory, content: dict[str, bytes], words: str
) -> None:
    directory = laboratory.new_directory()
    for name, data in content.items():
        (directory / name).write_bytes(data)
    with pytest.raises(UnsupportedModelError, match=words):
        Laboratory(directory.parent, laboratory.new_directory(), laboratory.pool).inspect(
            directory.name
        )


@pytest.mark.skipif(not SHARED_MODELS.is_dir(), reason=f"{SHARED_MODELS} is absent")
@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("basic_pitch", []),
        ("fer_emotion", []),
        ("mhcnuggets_a0201", []),
        ("half_plus_two", []),
        ("dtln", ["state"]),
    ],
)
def test_published_models(laboratory: Laboratory, name: str, errors: list[str]) -> None:
    published = Laboratory(SHARED_MODELS / name, laboratory.new_directory(), laboratory.pool)
    found = published.inspect("saved_model")
    assert _errors(found, name) == errors
    if name == "half_plus_two":
        refused = {s.key: _errors(found, name, s.key) for s in found.signatures}
        assert len(refused) == 6
        # Three take serialised examples; the two others beside serving_default take numbers.
        assert sorted(key for key, codes in refused.items() if "string-tensor" in codes) == [
            *("classify_x_to_y", "regress_x_to_y", "regress_x_to_y2"),
        ]
        assert found.assets == ("foo.txt",)


# --- freeze ---------------------------------------------------------------------------------------


def test_a_frozen_signature(laboratory: Laboratory) -> None:
    signature = FrozenSignature.load(laboratory.freeze("multi") / "signature.json")
    assert signature.batch == 4
    assert [(t.name, t.dtype, t.shape) for t in signature.inputs + signature.outputs] == [
        ("input1", "float32", (4, 4)),
        ("input2", "float64", (4, 8)),
        ("output1", "float32", (4, 8)),
        ("output2", "bool", (4, 8)),
    ]
    assert signature.batched_inputs == ("input1", "input2")
    fixed = FrozenSignature.load(laboratory.freeze("fixed") / "signature.json")
    assert (fixed.batch, fixed.batched_inputs, fixed.inputs[0].shape) == (None, (), (2, 4))
    mixed = FrozenSignature.load(laboratory.freeze("branches") / "signature.json")
    assert mixed.batched_inputs == ("x",)
    assert mixed.outputs[0].shape == (4, 8)
    names = FrozenSignature.load(laboratory.freeze("names") / "signature.json")
    assert [t.c_name for t in names.inputs] == ["detector_energy", "_1st"]
    assert [t.c_name for t in names.outputs] == ["score_raw_2", "score_raw"]


_FROZEN = (
    *("mlp", "multi", "fixed", "triple_rows", "batch_mean", "total", "branches", "loop"),
    *("sequence", "names", "nothing_learned", "tf1_loop", "tf1_branch", "unknown_rank"),
    *("tf1_saved_again", "tf1_below_branches", "several_graphs", "needs_keras"),
)


def test_frozen_graphs_compute_what_the_model_computes(laboratory: Laboratory) -> None:
    directories = []
    for name in _FROZEN:
        directory = laboratory.freeze(name, allow_pruned_inputs=name == "tf1_branch")
        shutil.copy(laboratory.refer(name)[0] / "reference.npz", directory)
        directories.append(directory)
    differences = json.loads(run_script("run_graphs", *directories))
    assert len(differences) == len(_FROZEN)
    assert max(differences.values()) <= 1e-6


def test_the_same_model_gives_the_same_bytes_elsewhere(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """In another process with another history, from and to other directories."""
    shutil.copytree(laboratory.models, tmp_path / "copy of models")
    names = ("mlp", "nothing_learned", "loop", "branches", "tf1_loop")
    with WorkerPool(tmp_path, 1) as pool:
        elsewhere = Laboratory(tmp_path / "copy of models", tmp_path / "jobs", pool)
        others = {name: elsewhere.freeze(name) for name in reversed(names)}
        compiled = {n: elsewhere.compile(n, others[n], "x86-64-v3") for n in ("loop", "mlp")}
    for name in names:
        own = laboratory.freeze(name)
        assert _contents(own) == _contents(others[name])
        for path in (laboratory.models, tmp_path):
            assert str(path).encode() not in _contents(own)["graph.pb"]
    for name, other in compiled.items():
        own = laboratory.compile(name, laboratory.freeze(name), "x86-64-v3")
        assert _contents(own) == _contents(other)


def _contents(directory: Path) -> dict[str, bytes]:
    """The files by their names, without the times of the framework, which differ."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != TIMES}


def test_unused_inputs_are_refused_unless_the_spec_allows_them(laboratory: Laboratory) -> None:
    with pytest.raises(UnsupportedModelError, match=r"input 'unused'; set allow_pruned_inputs"):
        laboratory.freeze("unused_input")
    directory = laboratory.freeze("unused_input", allow_pruned_inputs=True)
    signature = FrozenSignature.load(directory / "signature.json")
    assert [tensor.name for tensor in signature.inputs] == ["x"]
    assert signature.pruned_inputs == ("unused",)
    assert signature.batched_inputs == ("x",)
    program = _program(laboratory.compile("unused", directory, "x86-64-v3"))
    assert [parameter.shape for parameter in program.parameters] == [(4, 4)]
    with pytest.raises(UnsupportedModelError, match=r"input 'unused'"):
        laboratory.freeze("tf1_branch")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("counter", "keeps state in variables between calls in 'AssignAddVariableOp'"),
        ("table", "a resource that is not a variable: LookupTableFindV2 in 'None_Lookup'"),
        ("custom_op", "operation ExperimentRelu comes from a custom op library"),
    ],
)
def test_models_that_cannot_be_frozen(laboratory: Laboratory, name: str, words: str) -> None:
    with pytest.raises(UnsupportedModelError, match=words):
        laboratory.freeze(name)


def test_damaged_weights_are_named(laboratory: Laboratory, tmp_path: Path) -> None:
    shutil.copytree(laboratory.models / "mlp", tmp_path / "cut")
    (weights,) = (tmp_path / "cut" / "variables").glob("*.data-*")
    weights.write_bytes(weights.read_bytes()[:40])
    shutil.copytree(laboratory.models / "mlp", tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone" / "variables")
    damaged = Laboratory(tmp_path, tmp_path / "jobs", laboratory.pool)
    for name in ("cut", "gone"):
        with pytest.raises(UnsupportedModelError, match="incomplete or damaged"):
            damaged.freeze(name)


# --- compile --------------------------------------------------------------------------------------


def _program(directory: Path) -> Program:
    return Program.load(directory / "program.json")


@pytest.mark.parametrize(
    "name",
    [
        "mlp",
        "multi",
        "branches",
        "loop",
        "names",
        "tf1_branch",
        "tf1_saved_again",
        "tf1_below_branches",
    ],
)
def test_a_compiled_program_has_the_shapes_of_its_signature(
    laboratory: Laboratory, name: str
) -> None:
    frozen = laboratory.freeze(name, allow_pruned_inputs=True)
    compiled = laboratory.compile(name, frozen, "x86-64-v3")
    assert sorted(path.name for path in compiled.iterdir()) == [
        *("constants.bin", "kernels.o", "program.json"),
    ]
    signature, program = FrozenSignature.load(frozen / "signature.json"), _program(compiled)
    assert [p.shape for p in program.parameters] == [t.shape for t in signature.inputs]
    assert [r.shape for r in program.results] == [t.shape for t in signature.outputs]


def test_symbols_carry_the_class_and_no_path(laboratory: Laboratory) -> None:
    compiled = laboratory.compile("mlp", laboratory.freeze("mlp"), "x86-64-v3")
    content = (compiled / "kernels.o").read_bytes()
    assert b"mw__mlp_b4_x86_64_v3" in content
    assert str(compiled).encode() not in content


def test_objects_for_another_architecture(laboratory: Laboratory) -> None:
    compiled = laboratory.compile("mlp", laboratory.freeze("mlp"), "armv8-a")
    binary = lief.ELF.parse(str(compiled / "kernels.o"))
    assert binary is not None
    assert binary.header.machine_type == lief.ELF.ARCH.AARCH64


def test_types_that_tensorflows_header_lacks_compile_all_the_same(laboratory: Laboratory) -> None:
    compiled = laboratory.compile("n", laboratory.freeze("nothing_learned"), "x86-64-v3")
    names = [parameter.element_type.name for parameter in _program(compiled).parameters]
    assert names == ["FLOAT32", "INT64", "FLOAT16"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bessel", r"no BesselJ0 \(node '.*/BesselJ0' in layer 'special/bessel/bessel_j0'\)"),
        (
            "bessel_loop",
            r"no BesselJ0 \(node 'while/bessel_j0/BesselJ0' in layer 'while/bessel_j0'\)",
        ),
        ("counted", r"result of Range \(node .* depends on the values of inputs"),
        ("selected", "shape of output 'y' depends on the values of inputs"),
        ("text", "no Identity with T=DT_STRING"),
    ],
)
def test_graphs_that_xla_refuses(laboratory: Laboratory, name: str, words: str) -> None:
    frozen = laboratory.freeze(name)
    with pytest.raises(UnsupportedModelError, match=words):
        laboratory.compile(name, frozen, "x86-64-v3")


def test_fast_math_changes_the_code_and_unknown_flags_are_named(laboratory: Laboratory) -> None:
    frozen = laboratory.freeze("mlp")
    strict = laboratory.compile("mlp", frozen, "x86-64-v3")
    fast = laboratory.compile("mlp", frozen, "x86-64-v3", "--xla_cpu_enable_fast_math=true")
    assert _contents(strict)["kernels.o"] != _contents(fast)["kernels.o"]
    with pytest.raises(CompileError, match="XLA_FLAGS: the compiler has no flag --xla_no_such=1"):
        laboratory.compile("mlp", frozen, "x86-64-v3", "--xla_no_such=1")


# --- reference ------------------------------------------------------------------------------------


def test_a_reference_of_independent_rows(laboratory: Laboratory) -> None:
    directory, summary = laboratory.refer("multi", seed=3)
    assert (summary.independent, summary.reason) == (True, None)
    assert summary.leading_per_row == {"output1": 1, "output2": 1}
    assert summary.rows == (1, 3, 4, 7)
    with np.load(directory / "reference.npz") as arrays:
        assert arrays["in/input2"].dtype == np.float64
        np.testing.assert_array_equal(
            arrays["in/input1"], random_input(3, "input1", (7, 4), "float32", None)
        )
        for rows in summary.rows:
            assert arrays[f"out/{rows}/output2"].dtype == np.bool_
            result, whole = arrays[f"out/{rows}/output1"], arrays["out/7/output1"]
            assert result.shape == (rows, 8)
            np.testing.assert_allclose(result, whole[:rows], rtol=0, atol=1e-5)


def test_the_same_request_gives_the_same_reference(laboratory: Laboratory) -> None:
    once, again = laboratory.refer("mlp")[0], laboratory.refer("mlp")[0]
    assert _contents(once) == _contents(again)
    assert _contents(once) != _contents(laboratory.refer("mlp", seed=1)[0])


@pytest.mark.parametrize(
    ("name", "leading", "words"),
    [
        ("batch_mean", {"y": 1}, "a row of output 'y' changes in a batch of 1 instead of 7"),
        ("loop", {"y": 1}, "a row of output 'y' changes"),
        ("total", {"sum": 0}, r"output 'sum' does not grow with the batch: it is \[\] for 1 row,"),
        ("selected", {"y": 0}, "output 'y' does not grow with the batch"),
    ],
)
def test_rows_that_are_not_independent(
    laboratory: Laboratory, name: str, leading: dict[str, int], words: str
) -> None:
    """CMS defect 11: nothing tests whether padding is valid."""
    _, summary = laboratory.refer(name)
    assert not summary.independent
    assert re.search(words, summary.reason or "")
    assert summary.leading_per_row == leading
    assert summary.rows == (1, 4)


def test_an_output_of_three_rows_for_each_row(laboratory: Laboratory) -> None:
    directory, summary = laboratory.refer("triple_rows")
    assert summary.independent
    assert summary.leading_per_row == {"points": 3}
    with np.load(directory / "reference.npz") as arrays:
        assert arrays["out/4/points"].shape == (12, 2)


def test_fixed_shapes_are_evaluated_once(laboratory: Laboratory) -> None:
    directory, summary = laboratory.refer("fixed")
    assert (summary.rows, summary.batched_inputs) == ((1,), ())
    assert not summary.independent
    with np.load(directory / "reference.npz") as arrays:
        assert arrays["in/x"].shape == (2, 4)
        assert arrays["out/1/y"].shape == (2, 8)


def test_rows_at_the_limits_of_valid_values(laboratory: Laboratory) -> None:
    directory, summary = laboratory.refer("gather", ranges={"index": [0.0, 2.5]})
    assert (summary.boundary, summary.boundary_rows) == (("zeros", "highest"), 1)
    with np.load(directory / "reference.npz") as arrays:
        assert arrays["in@zeros/index"].tolist() == [0]
        assert arrays["in@highest/index"].tolist() == [2]
        assert arrays["out/1@highest/y"].shape == arrays["out/1/y"].shape
        assert not np.array_equal(arrays["out/1@highest/y"], arrays["out/1@zeros/y"])


def test_boundary_rows_of_a_loop_that_counts(laboratory: Laboratory) -> None:
    _, summary = laboratory.refer("sequence")
    assert {"infinity", "nan"} <= set(summary.boundary)
    # TensorFlow's threads take denormals for zero.
    assert summary.truth.undefined.keys() <= {"denormals"}


def test_boundary_rows_may_not_decide_how_often_loops_turn(laboratory: Laboratory) -> None:
    _, summary = laboratory.refer("loop")
    assert summary.boundary == ()
    reasons = set(summary.truth.undefined.values())
    assert reasons == {"values decide how often a loop turns, which might then have no end"}
    assert {"zeros", "nan"} <= summary.truth.undefined.keys()


def test_what_tensorflow_says_is_shown_without_its_markup(laboratory: Laboratory) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        laboratory.refer("gather", ranges={"index": [100, 101]})
    assert str(caught.value).startswith("TensorFlow fails in layer ")
    assert "the value 100 at [0] of input 'index' is not one of the valid ones" in str(caught.value)
    assert "{{" not in str(caught.value)


def test_outputs_that_differ_from_call_to_call_are_refused(laboratory: Laboratory) -> None:
    for name in ("noise", "counter"):
        with pytest.raises(UnsupportedModelError, match="differs between two evaluations"):
            laboratory.refer(name)


def test_ranges_of_inputs(laboratory: Laboratory) -> None:
    directory, _ = laboratory.refer("branches", ranges={"branch": [2, 3], "x": [5.0, 6.0]})
    with np.load(directory / "reference.npz") as arrays:
        assert arrays["in/branch"] == 2
        assert arrays["in/x"].min() >= 5
