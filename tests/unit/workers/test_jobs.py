"""Requests to workers: what they ask for, and what their results depend on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from modelwheel.levels import LEVELS
from modelwheel.model.frozen_signature import FrozenSignature, FrozenTensor, c_names
from modelwheel.model.reference_result import Reference, default_rows
from modelwheel.platforms import PLATFORMS
from modelwheel.store.keys import action_key
from modelwheel.workers.flags import Flags, xla_flags
from modelwheel.workers.jobs import (
    CompileJob,
    CompileRequest,
    FreezeRequest,
    InspectRequest,
    Job,
    JobRequest,
    ReferenceRequest,
    cpp_class,
    input_files,
    parse_job,
)

_V3 = LEVELS["x86-64-v3"]


def test_names_become_identifiers() -> None:
    names = ["x", "detector/energy", "detector_energy", "1st", "a-b", "a.b", "größe", "", "class"]
    assert c_names(names) == (
        *("x", "detector_energy_2", "detector_energy", "_1st"),
        *("a_b", "a_b_2", "gr__e", "_", "class_"),
    )


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        *(
            ("NULL", "NULL_"),
            ("PRIu64", "PRIu64_"),
            ("PTHREAD_X", "PTHREAD_X_"),
            ("errno", "errno_"),
        ),
        *(
            ("xor", "xor_"),
            ("lambda", "lambda_"),
            ("Outputs", "Outputs_"),
            ("evaluate", "evaluate_"),
        ),
        *(("self", "self_"), ("__FILE__", "x__FILE__"), ("_Bool", "x_Bool"), ("isnan", "isnan")),
        *(("PRIOR", "PRIOR"), ("ENERGY", "ENERGY"), ("M_jj", "M_jj"), ("X", "X"), ("_", "_")),
    ],
)
def test_reserved_names_get_an_underscore(name: str, identifier: str) -> None:
    assert c_names([name]) == (identifier,)


def test_identifiers_made_unique_are_no_macros_and_no_other_name() -> None:
    assert c_names(["M/SQRT1", "M-SQRT1"]) == ("M_SQRT1", "M_SQRT1_2_")
    assert c_names(["", "_", "x/y", "x_y"]) == ("x__2", "_", "x_y_2", "x_y")


@given(st.lists(st.text(max_size=8), unique=True, max_size=12))
def test_identifiers_are_unique_whatever_the_names(names: list[str]) -> None:
    found = c_names(names)
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII) for name in found)


@pytest.mark.parametrize(
    ("batch_sizes", "rows"),
    [
        ([1, 4, 16], (1, 3, 4, 7, 16, 19)),
        ([16, 1, 4], (1, 3, 4, 7, 16, 19)),
        ([1], (1, 4)),
        ([1, 2, 4], (1, 2, 3, 4, 7)),
        ([8], (8, 11)),
    ],
)
def test_rows_to_evaluate(batch_sizes: list[int], rows: tuple[int, ...]) -> None:
    assert default_rows(batch_sizes) == rows


def test_flags_of_a_level_with_those_of_the_spec_last() -> None:
    flags = xla_flags(LEVELS["x86-64-v4"], ["--xla_cpu_enable_fast_math=false"])
    assert "--xla_cpu_multi_thread_eigen=true" in flags
    assert "--xla_cpu_experimental_ynn_fusion_type=" in flags
    assert flags[-2:] == (
        "--xla_cpu_prefer_vector_width=512",
        "--xla_cpu_enable_fast_math=false",
    )


def test_classes_differ_by_model_batch_size_and_level() -> None:
    assert cpp_class("digits", "b4", _V3) == "mw::digits_b4_x86_64_v3"
    assert cpp_class("digits", "b4_n16", LEVELS["armv8-a"]) == "mw::digits_b4_n16_armv8_a"


_INSPECT = InspectRequest()
_FREEZE = FreezeRequest(signature="serving_default", batch=4)
_COMPILE = CompileRequest.at(PLATFORMS["linux-x86_64"], _V3, "mw::a", Flags(("--xla_a=1",)))
_REFERENCE = ReferenceRequest(signature="serving_default", batch_sizes=(1, 4))
_JOBS: list[Job] = [
    _INSPECT.job(Path("model"), Path("out")),
    _FREEZE.job(Path("model"), Path("out")),
    _COMPILE.job(Path("frozen"), Path("out")),
    _REFERENCE.job(Path("model"), Path("out")),
]


def _key(request: JobRequest, **inputs: str) -> str:
    return action_key("kind", **request.key_inputs(**inputs))


@pytest.mark.parametrize(
    ("request_", "changes"),
    [
        (_FREEZE, {"signature": "other"}),
        (_FREEZE, {"batch": 1}),
        (_FREEZE, {"batch": None}),
        (_FREEZE, {"shapes": {"x": (None, 4)}}),
        (_FREEZE, {"allow_pruned_inputs": True}),
        (_FREEZE, {"keep_state": True}),
        (_REFERENCE, {"seed": 1}),
        (_REFERENCE, {"batch_sizes": (1, 2)}),
        (_REFERENCE, {"rows": (1, 4, 9)}),
        (_REFERENCE, {"ranges": {"x": (0.0, 1.0)}}),
        (_REFERENCE, {"shapes": {"x": (None, 4)}}),
        (_REFERENCE, {"keep_state": True}),
    ],
)
def test_what_results_of_a_model_depend_on(request_: JobRequest, changes: dict[str, Any]) -> None:
    changed = type(request_).model_validate({**dict(request_), **changes})
    known = _key(request_, model="tree")
    assert _key(changed, model="tree") != known
    assert _key(request_, model="other tree") != known


@pytest.mark.parametrize(
    "change",
    [
        {"level": LEVELS["x86-64"]},
        {"platform": PLATFORMS["macos-x86_64"]},
        {"cpp_class": "mw::b"},
        {"flags": Flags(("--xla_a=2",))},
        {"flags": Flags(("--xla_a=1",), ("--tf_b",))},
    ],
)
def test_what_a_compiled_program_depends_on(change: dict[str, Any]) -> None:
    whole = {
        "platform": PLATFORMS["linux-x86_64"],
        "level": _V3,
        "cpp_class": "mw::a",
        "flags": Flags(("--xla_a=1",)),
    }
    known = _key(_COMPILE, graph="g", config="c")
    assert _key(CompileRequest.at(**{**whole, **change}), graph="g", config="c") != known
    assert _key(_COMPILE, graph="other", config="c") != known
    assert _key(_COMPILE, graph="g", config="other") != known


@pytest.mark.parametrize("inputs", [{}, {"graph": "g"}, {"graph": "g", "config": "c", "x": ""}])
def test_a_key_needs_the_hash_of_every_input(inputs: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="hashes of FrozenGraphInput"):
        _COMPILE.key_inputs(**inputs)


def test_the_same_request_has_the_same_key_however_it_is_written() -> None:
    one = ReferenceRequest(signature="s", batch_sizes=(4, 1), shapes={"a": (None, 2), "b": (3,)})
    other = ReferenceRequest(
        signature="s",
        batch_sizes=(1, 4),
        rows=default_rows([1, 4]),
        shapes={"b": (3,), "a": (None, 2)},
    )
    assert _key(one, model="tree") == _key(other, model="tree")


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", _JOBS, ids=lambda job: job.kind)
def test_a_job_survives_the_way_to_the_worker(job: Job) -> None:
    assert parse_job(job.model_dump(mode="json")) == job
    assert parse_job(json.loads(job.model_dump_json())) == job


@pytest.mark.parametrize("job", _JOBS, ids=lambda job: job.kind)
@pytest.mark.parametrize("field", ["request", "inputs", "out"])
def test_a_job_without_one_of_its_parts_is_refused(job: Job, field: str) -> None:
    content = job.model_dump(mode="json")
    del content[field]
    with pytest.raises(ValidationError, match=field):
        parse_job(content)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": "four"}, "batch"),
        ({"bach": 4}, "bach"),
        ({"shapes": {"x": ["many"]}}, "shapes"),
        ({"signature": None}, "signature"),
    ],
)
def test_wrong_parameters_are_refused(changes: dict[str, Any], words: str) -> None:
    content = _JOBS[1].model_dump(mode="json")
    content["request"] |= changes
    with pytest.raises(ValidationError, match=words):
        parse_job(content)


def test_jobs_name_absolute_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = _COMPILE.job(Path("frozen"), Path("out"))
    assert isinstance(job, CompileJob)
    assert job.out == tmp_path / "out"
    assert job.inputs.graph == tmp_path / "frozen" / "graph.pb"
    assert job.inputs.config == tmp_path / "frozen" / "config.pb"


def test_only_compiling_needs_a_worker_with_flags() -> None:
    assert [bool(job.flags.xla) for job in _JOBS] == [False, False, True, False]


def test_the_files_that_a_job_reads(tmp_path: Path) -> None:
    (tmp_path / "variables").mkdir()
    files = {tmp_path / "saved_model.pb", tmp_path / "variables" / "data"}
    for file in files:
        file.write_bytes(b"")
    assert set(input_files(_INSPECT.job(tmp_path, tmp_path))) == files


def test_results_survive_being_written(tmp_path: Path) -> None:
    tensor = FrozenTensor(name="a/b", c_name="a_b", dtype="float32", shape=(4, 2))
    signature = FrozenSignature(
        key="serving_default",
        batch=4,
        inputs=(tensor,),
        outputs=(tensor,),
        batched_inputs=("a/b",),
        pruned_inputs=(),
        order=("a/b",),
        ordered_by="natural",
    )
    signature.save(tmp_path / "signature.json")
    assert FrozenSignature.load(tmp_path / "signature.json") == signature
    reference = Reference(
        independent=False,
        reason="rows interact",
        leading_per_row={"y": 0},
        batched_inputs=("x",),
        rows=(1, 4),
    )
    reference.save(tmp_path / "reference.json")
    assert Reference.load(tmp_path / "reference.json") == reference
