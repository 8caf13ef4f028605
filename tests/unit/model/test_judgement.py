"""The judgement of what a model does and costs, from hand-made inspections."""

from __future__ import annotations

from typing import Any

import pytest

from modelwheel.limits import Limits
from modelwheel.model.check import Expected, check_signature
from modelwheel.model.effects import reviewed_effect
from tests.support.inspections import errors_of, inspect_model, only_error, use_of


@pytest.mark.parametrize(
    ("op", "effect"),
    [
        *(
            (op, "variable")
            for op in ("AssignAddVariableOp", "AssignVariableOp", "AssignSubVariableOp")
        ),
        *(
            (op, "variable")
            for op in ("ResourceApplyAdam", "ResourceScatterUpdate", "RngSkip", "StatefulUniform")
        ),
        *((op, "state") for op in ("Assign", "AssignAdd", "ScatterNdUpdate", "ScatterAdd")),
        ("ResourceStridedSliceAssign", "variable"),
        *((op, "table") for op in ("LookupTableInsertV2", "MutableHashTable", "LookupTableFindV2")),
        *((op, "") for op in ("StatefulPartitionedCall", "ReadVariableOp", "ScatterNd")),
        *((op, None) for op in ("TensorScatterUpdate", "StatelessRandomNormal", "MatMul", "Const")),
        *((op, "files") for op in ("ReadFile", "SaveV2", "DebugIdentity", "ImmutableConst")),
        *((op, "python") for op in ("PyFunc", "EagerPyFunc", "PyFuncStateless")),
        *((op, "network") for op in ("RpcClient", "RegisterDatasetV2", "Send", "CollectiveGather")),
        *((op, "dataset") for op in ("TextLineDataset", "IteratorGetNext", "ReduceDataset")),
        *((op, "queue") for op in ("QueueDequeueV2", "MutexLock", "Unstage", "BatchFunction")),
        *(("PrintV2", "terminal"), ("Timestamp", "clock"), ("Abort", "process")),
        *(("XlaCustomCallV2", "custom"), ("WriteSummary", "summary"), ("TPUExecute", "device")),
    ],
)
def test_effects_of_operations(op: str, effect: str | None) -> None:
    assert reviewed_effect(op) == effect


_HERE = {"count": 1, "layers": ["logger"]}


@pytest.mark.parametrize(
    ("use", "code", "words"),
    [
        (use_of("WriteFile", signatures={}, beside={"serving_default": _HERE}), "effect",
         "the signature reads or writes files: WriteFile in 'logger'; remove file access"),
        (use_of("PrintV2", signatures={}, beside={"serving_default": _HERE}), "effect", "prints"),
        (use_of("AssignVariableOp", signatures={}, beside={"serving_default": _HERE}), "state", "keeps"),
        (use_of("NewOp", effect="unreviewed"), "effect", "does not know to be harmless: NewOp"),
        (use_of("ReadFile", signatures={}, loading=_HERE), "loading",
         "loading the model reads or writes files: ReadFile in 'logger'; an initialiser may only"),
        (use_of("AssignAddVariableOp", signatures={}, loading=_HERE), "loading", "keeps state"),
        (use_of("InitializeTableFromTextFileV2", signatures={}, loading=_HERE), "loading", "tables"),
        (use_of("DebugIdentity", signatures={}, folded=True), "loading",
         "'call' holds DebugIdentity in 'block/dense', which TensorFlow may evaluate when it loads"),
    ],
)  # fmt: skip
def test_operations_with_effects_must_not_run(use: dict[str, Any], code: str, words: str) -> None:
    finding = only_error(inspect_model(ops=[use]))
    assert finding.kind == code
    assert words in str(finding)
    assert finding.fix


def test_state_is_refused_with_the_line_that_declares_it() -> None:
    inspection = inspect_model(ops=[use_of("AssignVariableOp"), use_of("MatMul", effect="")])
    assert "write `keep_state: true` in the spec" in only_error(inspection).fix
    (note,) = check_signature(inspection, Expected(keep_state=True))
    assert (note.severity, note.kind) == ("note", "state")
    assert "AssignVariableOp in 'block/dense'" in note.message


def test_declared_state_that_does_not_exist_or_cannot_be_compiled_is_refused() -> None:
    stateless = inspect_model(ops=[use_of("MatMul", effect="")])
    (finding,) = check_signature(stateless, Expected(keep_state=True))
    assert (finding.kind, finding.field) == ("no-state", ("keep_state",))
    old = inspect_model(ops=[use_of("AssignVariableOp"), use_of("ScatterAdd")])
    errors = [f for f in check_signature(old, Expected(keep_state=True)) if f.severity == "error"]
    assert [f.fix for f in errors] == [only_error(inspect_model(ops=[use_of("ScatterAdd")])).fix]


def test_training_mode_is_refused_and_never_declared_as_state() -> None:
    draws = {"count": 1, "layers": ["random_flip"]}
    training = {"serving_default": {"draws": draws, "averages": _HERE}}
    ops = [use_of("AssignVariableOp", signatures={}, unread={"serving_default": _HERE})]
    writes = [*ops, use_of("AssignAddVariableOp")]
    for keep_state in (False, True):
        (error,) = check_signature(
            inspect_model(ops=writes, training=training), Expected(keep_state=keep_state)
        )
        assert error.message == (
            "the signature is in training mode: it draws random numbers in 'random_flip' and moves "
            "averages of the batch in 'logger'"
        )
        assert ".keras" in error.fix
        assert "training=False" in error.fix
    of_keras = inspect_model(ops=writes, training=training, written_by="Keras 2.15.0")
    assert "called with training=True" in only_error(of_keras).fix
    (note,) = check_signature(inspect_model(ops=ops), Expected())
    assert (note.severity, note.kind) == ("note", "unread-writes")
    assert note.message.endswith("are left out: AssignVariableOp in 'logger'")


def test_tables_of_texts_are_refused_with_the_lines_that_export_the_rest() -> None:
    table = use_of("LookupTableFindV2")
    plain = only_error(inspect_model(ops=[table])).fix
    text = {"name": "x", "dtype": "string", "shape": [None]}
    signature = {"key": "serving_default", "inputs": [text], "outputs": []}
    findings = check_signature(inspect_model(ops=[table], signatures=[signature]), Expected())
    (fix,) = (finding.fix for finding in findings if finding.kind == "lookup-table")
    assert "keras.Model(parts, model.outputs)" in fix
    assert "keras.Model" not in plain


def test_harmless_operations_may_run_beside_the_outputs_and_at_loading() -> None:
    ops = [
        use_of("Assert", "unsupported", signatures={}, beside={"serving_default": _HERE}),
        use_of("StringFormat", "unsupported", signatures={}, beside={"serving_default": _HERE}),
        use_of("WriteFile", "unsupported", signatures={}, beside={"other": _HERE}),
        use_of("AssignVariableOp", signatures={}, loading=_HERE),
        use_of("RestoreV2", "unsupported", signatures={}),
    ]
    assert errors_of(inspect_model(ops=ops)) == []


# --- limits ---------------------------------------------------------------------------------------

_COST = {"nodes": 100, "depth": 2, "deepest": "f"}
_LARGE = {"node": "evil", "function": "call", "elements": 1 << 36}


@pytest.mark.parametrize(
    ("found", "wider", "text"),
    [
        (
            {"costs": {"serving_default": {**_COST, "nodes": 10**18}}},
            {"nodes": 10**18},
            ("the signature runs 1.0e+18 nodes when its calls are inlined (calls go down to "
                "'f'), above the limit of 100000; "
            "use a loop in place of repeated layers, or raise `nodes` in section [limits] of"),
        ),
        (
            {"loading": {**_COST, "depth": 70}},
            {"call_depth": 70},
            "loading the model nests 70 calls of functions, up to 'f', above the limit of 64",
        ),
        (
            {"costs": {"serving_default": {**_COST, "largest": _LARGE}}},
            {"tensor_elements": 1 << 36},
            "the signature makes a tensor of 6.9e+10 elements at node 'evil' of function 'call'",
        ),
        (
            {"largest": _LARGE},
            {"tensor_elements": 1 << 36},
            "the model stores a tensor of 6.9e+10 elements at node 'evil'",
        ),
        (
            {"costs": {"serving_default": {
                **_COST, "loops": [{"node": "evil", "function": "", "turns": 2 * 10**6}]}}},
            {"loop_turns": 2 * 10**6},
            "the signature loops 2000000 times at node 'evil', whatever its inputs are",
        ),
        ({"nodes": 1_000_001}, {"nodes": 200_000}, "the file holds 1000001 nodes"),
        ({"functions": 20_001}, {"functions": 30_000}, "the file holds 20001 functions"),
        ({"graph_bytes": 2 * 10**9}, {"graph_megabytes": 2000}, "saved_model.pb has 2000 MB"),
    ],
)  # fmt: skip
def test_limits_and_how_to_widen_them(
    found: dict[str, Any], wider: dict[str, int], text: str
) -> None:
    inspection = inspect_model(**found)
    finding = only_error(inspection)
    assert finding.kind == "limit"
    assert str(finding).startswith(text)
    (field,) = wider
    assert f"raise `{field}` in section [limits] of modelwheel.toml" in finding.fix
    assert check_signature(inspection, Expected(limits=Limits.model_validate(wider))) == []


def test_a_loop_without_end_is_refused_whatever_the_limits_are() -> None:
    loops = [{"node": "evil", "function": "", "turns": None}]
    inspection = inspect_model(costs={"serving_default": {**_COST, "loops": loops}})
    (finding,) = check_signature(inspection, Expected(limits=Limits(loop_turns=10**18)))
    assert "the signature loops without end at node 'evil'" in finding.message
