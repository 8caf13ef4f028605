"""Judges what a model would do before anything of it is executed: effects, and limits of size.

Operations with an effect must not run. What runs is known from the inspection: along data and control
edges, in every function that is called, and while the model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..limits import Limits
from .effects import KEEP_STATE, KERAS_TABLE_FIX, SETS_VARIABLE, TABLES_OF_CONSTANTS, VERBS
from .findings import Finding, few
from .inspection import Cost, Inspection, LargeTensor, OpUse, SignatureUse

_KINDS = {"variable": "state", "state": "state", "table": "lookup-table", "custom": "custom-op"}
_TRAINING_FIX = (
    "save the model as a .keras file by model.save(FILE) and compile that, or export what calls it with "
    "training=False"
)
_KERAS_TRAINING_FIX = (
    "build the model without layers that are called with training=True, and save it again"
)
_LOOP_FIX = "compute it before the model is saved"
_STABLEHLO_FIX = (
    "use what XLA itself compiles for one CPU: no callbacks, no LAPACK, no communication"
)
_FILE_NODES = 10
"""How many times the nodes of a signature the whole file may hold: it has others, and training."""


def judge(
    inspection: Inspection, key: str, limits: Limits, *, keep_state: bool = False
) -> Iterator[Finding]:
    """Errors about running one signature of a model, and about loading the model.

    Args:
        inspection: The model.
        key: The signature.
        limits: Of this repository.
        keep_state: Whether the spec declares that the signature writes variables.
    """
    yield from _judge_variables(inspection, key)
    yield from _judge_effects(inspection, key, keep_state)
    yield from _judge_loading(inspection.ops, key)
    yield from _judge_file(inspection, limits)
    costs = {"the signature": inspection.costs.get(key), "loading the model": inspection.loading}
    for what, cost in costs.items():
        if cost is not None:
            yield from _judge_cost(what, cost, limits)


def where(uses: Iterable[OpUse], key: str) -> str:
    """Operations with the layers in which a signature uses them."""
    return _name((use.op, use.signatures.get(key) or use.beside[key]) for use in uses)


def _name(uses: Iterable[tuple[str, SignatureUse]]) -> str:
    return ", ".join(f"{op} in {few(use.layers, use.count)}" for op, use in uses)


# --- effects --------------------------------------------------------------------------------------


def _judge_variables(inspection: Inspection, key: str) -> Iterator[Finding]:
    """Training mode, and writes that are left out."""
    training = inspection.training.get(key)
    unread = [use for use in inspection.ops if key in use.unread]
    if training is not None:
        from_keras = inspection.written_by.startswith("Keras")
        shown = (
            ("draws random numbers", training.draws),
            ("moves averages of the batch", training.averages),
            ("normalises weights again", training.weights),
        )
        what = " and ".join(
            f"{verb} in {few(use.layers, use.count)}" for verb, use in shown if use is not None
        )
        message = f"the signature is in training mode: it {what}"
        fix = _KERAS_TRAINING_FIX if from_keras else _TRAINING_FIX
        yield Finding("error", "training-mode", message, fix)
    elif unread:
        names = _name((use.op, use.unread[key]) for use in unread)
        message = f"writes to variables that no output depends on are left out: {names}"
        yield Finding("note", "unread-writes", message)


def _judge_effects(inspection: Inspection, key: str, keep_state: bool) -> Iterator[Finding]:
    """One error for each kind of effect."""
    signature = inspection.signature(key)
    texts = signature is not None and any(t.dtype == "string" for t in signature.inputs)
    running = [use for use in inspection.ops if key in use.signatures or key in use.beside]
    for effect, (verb, fix) in VERBS.items():
        uses = [use for use in running if use.effect == effect]
        if effect == "variable" and key in inspection.training:
            continue  # what it keeps is for training
        if effect == "variable" and keep_state:
            yield from _judge_state(uses, key)
        elif uses:
            kind = _KINDS.get(effect, "effect")
            in_module = all(use.op.startswith("stablehlo.") for use in uses)
            sentence = f"the signature {verb}: {where(uses, key)}"
            advice = KERAS_TABLE_FIX if effect == "table" and texts else fix
            yield Finding("error", kind, sentence, _STABLEHLO_FIX if in_module else advice)


def _judge_state(writes: Sequence[OpUse], key: str) -> Iterator[Finding]:
    if writes:
        yield Finding("note", "state", f"calls change the model's state: {where(writes, key)}")
    else:
        yield Finding(
            "error",
            "no-state",
            "the spec declares state, but the signature writes no variable that an output depends on",
            f"remove `{KEEP_STATE}` from the spec",
            ("keep_state",),
        )


def _judge_loading(every: Sequence[OpUse], key: str) -> Iterator[Finding]:
    loaded = [(use, use.loading) for use in every if use.loading is not None and use.effect]
    tables = [(u.op, loading) for u, loading in loaded if TABLES_OF_CONSTANTS.fullmatch(u.op)]
    if tables:
        yield Finding("note", "initializers", f"loading the model fills tables: {_name(tables)}")
    for use, loading in loaded:
        if use.op not in SETS_VARIABLE and not TABLES_OF_CONSTANTS.fullmatch(use.op):
            verb, _ = VERBS[use.effect]
            yield Finding(
                "error",
                "loading",
                f"loading the model {verb}: {_name([(use.op, loading)])}",
                "an initialiser may only assign constants to variables; remove this from it",
            )
    for use in every:
        if use.folded and not (key in use.signatures or key in use.beside or use.loading):
            verb, _ = VERBS[use.effect]
            yield Finding(
                "error",
                "loading",
                f"a function that is not used {verb}: {few(use.functions, use.count)} holds {use.op} "
                f"in {few(use.layers, use.count)}, which TensorFlow may evaluate when it loads the "
                "model",
                "remove it from the module that is saved",
            )


# --- limits ---------------------------------------------------------------------------------------


def _judge_file(inspection: Inspection, limits: Limits) -> Iterator[Finding]:
    megabytes = inspection.graph_bytes / 1e6
    if megabytes > limits.graph_megabytes:
        clause = f"saved_model.pb has {megabytes:.0f} MB"
        yield _exceeds(clause, "graph_megabytes", limits, "save constants as variables")
    if inspection.nodes > _FILE_NODES * limits.nodes:
        clause = f"the file holds {inspection.nodes} nodes, ten times as many as one signature may"
        yield _exceeds(clause, "nodes", limits, "save only what is used")
    if inspection.functions > limits.functions:
        clause = f"the file holds {inspection.functions} functions"
        yield _exceeds(clause, "functions", limits, "save only what is used")
    if inspection.largest is not None:
        yield from _judge_tensor("the model stores", inspection.largest, limits)


def _judge_cost(what: str, cost: Cost, limits: Limits) -> Iterator[Finding]:
    if cost.nodes > limits.nodes:
        place = f" (calls go down to {cost.deepest!r})" if cost.deepest else ""
        clause = f"{what} runs {_count(cost.nodes)} nodes when its calls are inlined{place}"
        yield _exceeds(clause, "nodes", limits, "use a loop in place of repeated layers")
    if cost.depth > limits.call_depth:
        clause = f"{what} nests {cost.depth} calls of functions, up to {cost.deepest!r}"
        yield _exceeds(clause, "call_depth", limits, "call functions in fewer levels")
    if cost.largest is not None:
        yield from _judge_tensor(f"{what} makes", cost.largest, limits)
    for loop in cost.loops:
        place, fix = f"at node {loop.node!r}, whatever its inputs are", _LOOP_FIX
        if loop.turns is None:
            clause = f"{what} loops without end {place}, or too long to count its turns"
            yield Finding("error", "limit", clause, fix)
        elif loop.turns > limits.loop_turns:
            clause = f"{what} loops {_count(loop.turns)} times {place}"
            yield _exceeds(clause, "loop_turns", limits, fix)


def _judge_tensor(verb: str, tensor: LargeTensor, limits: Limits) -> Iterator[Finding]:
    if tensor.elements > limits.tensor_elements:
        place = f" of function {tensor.function!r}" if tensor.function else ""
        clause = f"{verb} a tensor of {_count(tensor.elements)} elements at node {tensor.node!r}"
        yield _exceeds(f"{clause}{place}", "tensor_elements", limits, "make it smaller")


def _exceeds(clause: str, field: str, limits: Limits, fix: str) -> Finding:
    limit = getattr(limits, field)
    return Finding(
        "error",
        "limit",
        f"{clause}, above the limit of {limit}",
        f"{fix}, or raise `{field}` in section [limits] of modelwheel.toml",
    )


def _count(number: int) -> str:
    return str(number) if number < 10**9 else f"{number:.1e}"
