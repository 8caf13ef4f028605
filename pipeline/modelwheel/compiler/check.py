"""Judging an inspected SavedModel before anything is compiled: what stands in the way, and the remedy.

Nothing here needs TensorFlow. Operations are judged for one signature: what only other functions of
the model use (training, saving, other signatures) does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..dtypes import DTYPES
from ..errors import UnsupportedModelError
from ..spec.reading.problems import did_you_mean
from .inspection import (
    Inspection,
    OpUse,
    Shapes,
    SignatureInfo,
    TensorInfo,
    batched_inputs,
    find_shape_problem,
    show,
)

Severity: TypeAlias = Literal["error", "warning", "note"]

STATE_REMEDY = "export a signature that takes the state as inputs and returns it as outputs"
TABLE_REMEDY = "look values up outside of the model, or use tf.gather on a constant"

_CHANGES_STATE = re.compile(
    r"Assign(Add|Sub)?(VariableOp)?|Resource(Scatter|Apply|Sparse|Strided)\w+"
    r"|(Scatter|Apply|SparseApply)\w+|(Resource)?CountUpTo|Stateful(?!PartitionedCall)\w+"
    r"|Rng(Skip|ReadAndSkip)\w*|(Mutable\w*|Lookup)Table(Insert|Remove|Import)\w*"
)
_STATELESS_SCATTER = re.compile(r"Scatter(Nd|NdNonAliasingAdd)")
_TABLE = re.compile(r"\w*(HashTable|LookupTable)\w*")
_RANDOM = re.compile(r"Random\w+|TruncatedNormal|Multinomial|ParameterizedTruncatedNormal")
_TF1_CONTROL_FLOW = frozenset({"Enter", "Exit", "Merge", "NextIteration", "Switch", "LoopCond"})

_REMEDIES = (
    (r"ParseExample|ParseSingle|ParseSequence|Decode(CSV|Raw|JSON|Proto)",
     "parse the records outside of the model and use a signature that takes plain tensors"),
    (r"Decode|Encode", "decode and encode images or sound outside of the model"),
    (r"PyFunc|EagerPyFunc", "Python code cannot be compiled; write it with TensorFlow operations"),
    (r"Print|Summary|Write|Save|Restore|ReadFile", "remove input and output from the signature"),
    (r"String|Regex|Substr|AsString|Unicode|SentencepieceOp",
     "treat text outside of the model and pass numbers"),
    (r"Sparse|Ragged", "use dense tensors"),
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One thing that a model's author should know."""

    severity: Severity
    """error: the model cannot be compiled so; warning: it can, with a difference; note: so it is."""
    code: str
    """What kind of finding it is, for programs (`string-tensor`)."""
    message: str
    """One sentence, without a full stop."""
    remedy: str = ""
    """What to do about it, without a full stop."""

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


def judge(
    inspection: Inspection,
    signature_key: str,
    shapes: Shapes | None = None,
    batch_sizes: Sequence[int] | None = None,
) -> list[Finding]:
    """What is to say about compiling one signature, errors first.

    Args:
        inspection: What was found in the model.
        signature_key: The signature to compile.
        shapes: Whole shapes of inputs that the spec fixes.
        batch_sizes: The spec's batch sizes; None if it has none.
    """
    signature = inspection.signature(signature_key)
    if signature is None:
        return [_unknown_signature(inspection, signature_key)]
    shapes = shapes or {}
    uses = [use for use in inspection.ops if signature_key in use.signatures]
    findings = [
        *_judge_tensors(signature),
        *_judge_shapes(signature, shapes),
        *_judge_batch_sizes(signature, shapes, batch_sizes),
        *_judge_ops(uses, signature_key),
        *_judge_loading(inspection),
    ]
    order = ("error", "warning", "note")
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def refuse(findings: Iterable[Finding]) -> None:
    """Raises UnsupportedModelError with every error among the findings, a line each."""
    errors = [str(finding) for finding in findings if finding.severity == "error"]
    if errors:
        raise UnsupportedModelError("\n".join(errors))


def changes_state(op: str) -> bool:
    """Whether an operation writes a variable, a table or the state of a random generator."""
    return bool(_CHANGES_STATE.fullmatch(op)) and not _STATELESS_SCATTER.fullmatch(op)


def _unknown_signature(inspection: Inspection, key: str) -> Finding:
    keys = [signature.key for signature in inspection.signatures]
    if not keys:
        return Finding(
            "error",
            "no-signature",
            "the model has no signature",
            "save it with `tf.saved_model.save(module, directory, signatures=...)`",
        )
    return Finding(
        "error",
        "unknown-signature",
        f"the model has no signature {key!r} (it has: {', '.join(keys)})",
        f"set model.serving_key. {did_you_mean(key, keys)}",
    )


# --- inputs and outputs ---------------------------------------------------------------------------


def _judge_tensors(signature: SignatureInfo) -> Iterator[Finding]:
    for role, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        for tensor in tensors:
            yield from _judge_tensor(role, tensor)


def _judge_tensor(role: str, tensor: TensorInfo) -> Iterator[Finding]:
    name = f"{role} {tensor.name!r}"
    if tensor.encoding != "dense":
        yield Finding(
            "error",
            "encoding",
            f"{name} is a {tensor.encoding} tensor, and compiled models take dense ones only",
            "export a signature with dense tensors",
        )
    elif tensor.dtype == "string":
        yield Finding(
            "error",
            "string-tensor",
            f"{name} is a string tensor, which cannot be compiled",
            "treat text outside of the model and use or export a signature of numbers",
        )
    elif tensor.dtype not in DTYPES:
        yield Finding(
            "error",
            "dtype",
            f"{name} has the type {tensor.dtype}, which the runtime does not have",
            "cast it inside the model to one that it has",
        )


def _judge_shapes(signature: SignatureInfo, shapes: Shapes) -> Iterator[Finding]:
    names = [tensor.name for tensor in signature.inputs]
    for name in sorted(set(shapes) - set(names)):
        yield Finding(
            "error",
            "unknown-input",
            f"the spec gives a shape to the input {name!r}, which the signature does not have",
            did_you_mean(name, names),
        )
    for tensor in signature.inputs:
        problem = find_shape_problem(tensor, shapes.get(tensor.name))
        if problem:
            yield Finding("error", "shape", problem, _shape_remedy(tensor))


def _shape_remedy(tensor: TensorInfo) -> str:
    field = f"inputs.{tensor.name}.shape"
    if tensor.shape is None:
        return f"give its whole shape as {field} in the spec, with null for the batch on axis 0"
    example = ", ".join(
        "null" if extent is None and not axis else "128" if extent is None else str(extent)
        for axis, extent in enumerate(tensor.shape)
    )
    return f"fix every axis but the batch in the spec, for example {field}: [{example}]"


def _judge_batch_sizes(
    signature: SignatureInfo, shapes: Shapes, batch_sizes: Sequence[int] | None
) -> Iterator[Finding]:
    if any(find_shape_problem(t, shapes.get(t.name)) for t in signature.inputs):
        return
    batched = batched_inputs(signature, shapes)
    fixed = [t for t in signature.inputs if t.name not in batched]
    if batched:
        for tensor in fixed:
            yield Finding(
                "note",
                "fixed-input",
                f"input {tensor.name!r} of shape {show(tensor.shape or ())} has no batch axis: "
                "every run takes it whole",
            )
        return
    leading = {tensor.shape[0] for tensor in fixed if tensor.shape}
    allowed = [[1], *([extent] for extent in leading if len(leading) == 1)]
    if batch_sizes is not None and list(batch_sizes) not in allowed:
        shown = ", ".join(f"{tensor.name} {show(tensor.shape or ())}" for tensor in fixed)
        yield Finding(
            "error",
            "batch-sizes",
            f"signature {signature.key!r} has no free batch axis ({shown or 'it has no inputs'})",
            "omit compilation.batch_sizes, or export the model with None as the first extent",
        )
    else:
        yield Finding(
            "note", "fixed-shape", f"signature {signature.key!r} has fixed shapes: no batching"
        )


# --- operations -----------------------------------------------------------------------------------


def _judge_ops(uses: Sequence[OpUse], key: str) -> Iterator[Finding]:
    state = [use for use in uses if changes_state(use.op)]
    tables = [use for use in uses if _TABLE.fullmatch(use.op) and use not in state]
    if state:
        yield Finding(
            "error",
            "state",
            f"the signature keeps state in variables between calls: {_where(state, key)}",
            STATE_REMEDY,
        )
    if tables:
        yield Finding(
            "error",
            "lookup-table",
            f"the signature looks values up in tables: {_where(tables, key)}",
            TABLE_REMEDY,
        )
    for use in uses:
        if use not in state and use not in tables:
            yield from _judge_op(use, key)
    yield from _judge_kinds(uses, key)


def _judge_op(use: OpUse, key: str) -> Iterator[Finding]:
    if use.support == "unregistered":
        yield Finding(
            "error",
            "custom-op",
            f"{_where([use], key)} is no operation of TensorFlow but of a custom library, "
            "for which there is no compiler",
            "write it with TensorFlow's own operations",
        )
    elif use.support == "unsupported":
        types = f" for {use.dtypes}" if use.dtypes else ""
        yield Finding(
            "error",
            "unsupported-op",
            f"XLA has no {_where([use], key)}{types}",
            remedy_for(use.op),
        )


def _judge_kinds(uses: Sequence[OpUse], key: str) -> Iterator[Finding]:
    random = [use for use in uses if _RANDOM.fullmatch(use.op)]
    if random:
        yield Finding(
            "warning",
            "random",
            f"the outputs depend on random numbers, so they cannot be verified: "
            f"{_where(random, key)}",
            "export the model for inference (training=False), or pass the numbers as an input",
        )
    loops = [use for use in uses if use.op in _TF1_CONTROL_FLOW]
    if loops:
        yield Finding(
            "note", "tf1-control-flow", f"control flow of TensorFlow 1: {_where(loops, key)}"
        )


def remedy_for(op: str) -> str:
    """What to do about an operation that XLA does not have."""
    for pattern, remedy in _REMEDIES:
        if re.match(pattern, op):
            return remedy
    return "replace it by other operations, or export a signature that ends before it"


def _where(uses: Sequence[OpUse], key: str) -> str:
    return ", ".join(
        f"{use.op} in {_few(use.signatures[key].layers, use.signatures[key].count)}" for use in uses
    )


def _few(layers: Sequence[str], count: int, limit: int = 3) -> str:
    shown = ", ".join(repr(layer) for layer in layers[:limit])
    return f"{shown}, ... ({count} times)" if len(layers) > limit else shown


def _judge_loading(inspection: Inspection) -> Iterator[Finding]:
    if inspection.assets:
        yield Finding(
            "note",
            "assets",
            f"the model carries files that the compiled model does not read: "
            f"{', '.join(inspection.assets)}",
        )
    if inspection.initializers:
        yield Finding(
            "note",
            "initializers",
            f"loading the model runs: {', '.join(inspection.initializers)}",
        )
