"""GraphDef files: their inputs and outputs by the spec or a Config, and every sentence about mistakes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.check import Expected, check_signature
from modelwheel.model.inspection import INSPECTION, Inspection
from modelwheel.model.readings import GraphDefReading
from modelwheel.workers.jobs import FreezeRequest, InspectRequest
from modelwheel.workers.pool import WorkerPool
from tests.support.laboratory import Laboratory

pytestmark = pytest.mark.slow

TAGGER: dict[str, Any] = {
    "file": "tagger.pb",
    "feeds": {"image": "input:0"},
    "fetches": {"probabilities": "output/id_probabilities:0"},
    "constants": {"keras_learning_phase": False},
}


SAVERS: dict[str, Any] = {
    "file": "savers.pb",
    "feeds": {},
    "fetches": {},
    "constants": {},
    "config": "savers.config.pbtxt",
    "checkpoint": "savers.ckpt",
}


@pytest.fixture(scope="module")
def files(graphs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graphs, and damaged files beside them."""
    directory = Path(shutil.copytree(graphs, tmp_path_factory.mktemp("files") / "graphs"))
    whole = (directory / "tagger.pb").read_bytes()
    (directory / "damaged.pb").write_bytes(whole[:-7])
    (directory / "empty.pb").write_bytes(b"")
    (directory / "damaged.pbtxt").write_text("node {\n  nam: 'x'\n}\n")
    (directory / "damaged.index").write_bytes(b"no index")
    old = 'feed { id { node_name: "x" } }\nconversion_options { custom_fake_quant_op_calls: true }'
    (directory / "old.pbtxt").write_text(old)
    (directory / "nobody.pbtxt").write_text('fetch { id { node_name: "reslt" } }')
    typed = 'feed { id { node_name: "x_hold" } type: DT_FLOAT }'
    (directory / "typed.pbtxt").write_text(f'{typed}\nfetch {{ id {{ node_name: "x_y_sum" }} }}')
    saver = 'restore_op_name: "nobody/restore_all" filename_tensor_name: "first/Const:0"'
    (directory / "other.saver.pbtxt").write_text(saver)
    return directory


@pytest.fixture(scope="module")
def laboratory(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """A worker, and the graphs."""
    with WorkerPool(tmp_path_factory.mktemp("workers"), 1) as pool:
        yield Laboratory(files, tmp_path_factory.mktemp("jobs"), pool)


def inspect(laboratory: Laboratory, **options: Any) -> Inspection:
    """What `check` reads of a graph."""
    request = InspectRequest(reading=GraphDefReading(**options))
    out = laboratory.run(request.job(laboratory.models, laboratory.new_directory()))
    return Inspection.load(out / INSPECTION)


@pytest.mark.parametrize("file", ["tagger.pb", "tagger.pbtxt"])
def test_what_is_judged_is_what_outputs_need(laboratory: Laboratory, file: str) -> None:
    found = inspect(laboratory, **TAGGER | {"file": file})
    (signature,) = found.signatures
    assert [(t.name, t.dtype, t.shape) for t in signature.inputs] == [
        ("image", "float32", (None, 5))
    ]
    assert [t.name for t in signature.outputs] == ["probabilities"]
    # Neither the file that training reads, nor dropout, which the constant switches off.
    assert {use.op for use in found.ops}.isdisjoint({"ReadFile", "RandomUniform", "Switch"})
    assert check_signature(found, Expected()) == []
    assert found.graph_bytes == (laboratory.models / file).stat().st_size


def test_what_is_found_is_neither_an_assignment_nor_text(laboratory: Laboratory) -> None:
    """Savers of TensorFlow 1 write and restore variables, and join texts."""
    found = inspect(laboratory, file="add_with_ckpt.pb", find=True)
    assert found.ports is not None
    assert found.ports.model_dump() == {
        "feeds": {"x_hold": "x_hold:0"},
        "fetches": {"x_y_sum": "x_y_sum:0"},
        "constants": {},
    }
    assert [tensor.name for tensor in found.signatures[0].inputs] == ["x_hold"]


def test_what_outputs_need_is_refused_for_what_it_does(laboratory: Laboratory) -> None:
    reads = TAGGER | {"fetches": {"text": "of_training:0"}}
    findings = check_signature(inspect(laboratory, **reads), Expected())
    assert "reads or writes files" in " ".join(finding.message for finding in findings)
    training = TAGGER | {"constants": {"keras_learning_phase": True}}
    findings = check_signature(inspect(laboratory, **training), Expected())
    assert "random numbers" in " ".join(finding.message for finding in findings)


def test_inputs_and_outputs_keep_the_order_of_the_config(laboratory: Laboratory) -> None:
    options = {"file": "matmul_and_add.pb", "config": "matmul_and_add.config.pbtxt"}
    (signature,) = inspect(laboratory, **options).signatures
    assert [(t.name, t.shape) for t in signature.inputs] == [("y", (2, 2)), ("x", (2, 2))]
    assert [t.name for t in signature.outputs] == ["x_y_sum", "x_y_prod"]


def test_any_node_may_be_fed(laboratory: Laboratory) -> None:
    options = TAGGER | {"feeds": {"hidden": "dense/Relu"}}
    (signature,) = inspect(laboratory, **options).signatures
    assert [(t.name, t.dtype, t.shape) for t in signature.inputs] == [("hidden", "float32", None)]
    request = FreezeRequest(
        reading=GraphDefReading(**options),
        signature="serving_default",
        batch=2,
        shapes={"hidden": (None, 8)},
    )
    laboratory.run(request.job(laboratory.models, laboratory.new_directory()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"feeds": {}, "fetches": {}},
            # Sinks of the control flow and of training are there, too.
            'fetches: {id_probabilities: "output/id_probabilities:0"}',
        ),
        ({"feeds": {"x": "inputs:0"}}, "the graph has no node 'inputs'; did you mean 'input'?"),
        ({"feeds": {"x": "input:1"}}, "node 'input' (Placeholder) has 1 outputs"),
        ({"feeds": {"x": "^input"}}, "'^input' is not a tensor"),
        ({"feeds": {"x": "input", "y": "input:0"}}, "'input:0' is a feed twice"),
        ({"feeds": {}}, "outputs depend on the placeholder input; name it in source.feeds"),
        (
            {"constants": {"keras_learning_phase": 1}},
            "1 is not a value of 'keras_learning_phase:0'",
        ),
        ({"constants": {"learning_phase": 0}}, "did you mean 'keras_learning_phase'?"),
        ({"file": "damaged.pb"}, "damaged.pb is damaged or not a GraphDef"),
        ({"file": "empty.pb"}, "empty.pb is a GraphDef without nodes"),
        ({"file": "damaged.pbtxt"}, "damaged.pbtxt is not a GraphDef in text form: 2:3 :"),
        ({"config": "old.pbtxt"}, "has conversion_options, which TensorFlow no longer has"),
        ({"config": "nobody.pbtxt"}, "remove source.feeds and source.fetches"),
        (
            {"config": "nobody.pbtxt", "feeds": {}, "fetches": {}},
            "source.config: fetch 0: the graph has no node 'reslt'",
        ),
        (
            {"file": "add_with_ckpt.pb", "config": "typed.pbtxt", "feeds": {}, "fetches": {}}
            | {"constants": {}},
            "'x_hold:0' is int32, not float32",
        ),
        ({"checkpoint": "damaged"}, "the checkpoint damaged cannot be read"),
        (
            SAVERS | {"freeze_saver": "savers.third.saver"},
            "the saver of source.freeze_saver does not restore the variable 'y'; name one that restores all variables",
        ),
        (
            SAVERS | {"freeze_saver": "other.saver.pbtxt"},
            "source.freeze_saver: its restore_op_name is 'nobody/restore_all', which the graph does not have",
        ),
        (
            SAVERS | {"freeze_saver": "savers.pb"},
            "savers.pb is not a SaverDef",
        ),
        (
            {"file": "add_with_ckpt.pb", "feeds": {"x": "x_hold"}, "fetches": {"y": "x_y_sum"}}
            | {"constants": {}, "checkpoint": "variable_readonly.ckpt"},
            "the checkpoint variable_readonly.ckpt has no variable 'y_in_the_file'; there are x, y",
        ),
    ],
)
def test_mistakes(laboratory: Laboratory, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        inspect(laboratory, **TAGGER | changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_variables_that_are_written_are_refused_in_one_sentence(laboratory: Laboratory) -> None:
    options = {"file": "variable.pb", "config": "variable.config.pbtxt"}
    findings = check_signature(inspect(laboratory, **options), Expected())
    assert "AssignAddVariableOp" in " ".join(finding.message for finding in findings)
