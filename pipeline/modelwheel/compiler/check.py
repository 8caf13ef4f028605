"""Checks an inspected SavedModel against its spec before anything is compiled: problems and their fixes.

Nothing here needs TensorFlow. Operations are checked for one signature: what only other functions of
the model use (training, saving, other signatures) does not count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..dtypes import DTYPES
from ..errors import UnsupportedModelError
from ..spec import BatchRule
from ..util.text import one_line
from ..util.words import suggest
from .inspection import Inspection, OpUse, SignatureInfo, TensorInfo
from .shapes import Shapes, batched_inputs, find_shape_problem, show

Severity: TypeAlias = Literal["error", "warning", "note"]

STATE_FIX = "export a signature that takes the state as inputs and returns it as outputs"
TABLE_FIX = "look values up outside the model, or use tf.gather on a constant"

# The names are matched whole. A PartitionedCall is left out because it changes no more than the
# function that it calls, whose operations are checked themselves.
_CHANGES_STATE = re.compile(
    r"Assign(Add|Sub)?(VariableOp)?|Resource(Scatter|Apply|Sparse|Strided)\w+"
    r"|(Scatter|Apply|SparseApply)\w+|(Resource)?CountUpTo|Stateful(?!PartitionedCall)\w+"
    r"|Rng(Skip|ReadAndSkip)\w*|(Mutable\w*|Lookup)Table(Insert|Remove|Import)\w*"
)
# These make a new tensor; other operations called Scatter... write into a variable.
_STATELESS_SCATTER = re.compile(r"Scatter(Nd|NdNonAliasingAdd)")
_TABLE = re.compile(r"\w*(HashTable|LookupTable)\w*")
_RANDOM = re.compile(r"Random\w+|TruncatedNormal|Multinomial|ParameterizedTruncatedNormal")
_TF1_CONTROL_FLOW = frozenset({"Enter", "Exit", "Merge", "NextIteration", "Switch", "LoopCond"})

# The first match counts, so that DecodeCSV comes before Decode.
_FIXES = (
    (r"ParseExample|ParseSingle|ParseSequence|Decode(CSV|Raw|JSON|Proto)",
     "parse the records outside the model and use a signature that takes plain tensors"),
    (r"Decode|Encode", "decode and encode images or sound outside the model"),
    (r"PyFunc|EagerPyFunc", "Python code cannot be compiled; write it with TensorFlow operations"),
    (r"Print|Summary|Write|Save|Restore|ReadFile", "remove printing and file access from the signature"),
    (r"String|Regex|Substr|AsString|Unicode|SentencepieceOp",
     "process text outside the model and pass numbers"),
    (r"Sparse|Ragged", "use dense tensors"),
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One thing that a model's author should know."""

    severity: Severity
    """error: the model cannot be compiled; warning: it can, but behaves differently; note: a fact."""
    code: str
    """The kind of finding, for programs (`string-tensor`)."""
    message: str
    """One sentence, without a full stop."""
    fix: str = ""
    """What to do about it, without a full stop."""
    field: tuple[str, ...] = ()
    """The field of the spec that is wrong, if it is one: `("verify", "ranges", "x")`."""
    place: str = ""
    """Where this field is: `model_specs/digits.yaml:12:5`."""

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return f"{place}{self.message}; {self.fix}" if self.fix else f"{place}{self.message}"


@dataclass(frozen=True)
class Expected:
    """What a spec says about a model's signature."""

    signature: str = "serving_default"
    """The signature to compile."""
    shapes: Shapes = field(default_factory=dict)
    """Whole shapes of inputs that the spec fixes."""
    batch_sizes: Sequence[int] | None = None
    """None if the spec has none."""
    rules: Sequence[BatchRule] = ()
    emulate: bool = True
    """Whether the spec allows other batch sizes than the compiled ones."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """[low, high) of random inputs, by name."""
    outputs: Collection[str] = ()
    """Outputs that have a tolerance of their own."""


def check_signature(inspection: Inspection, expected: Expected) -> list[Finding]:
    """All findings about compiling one signature as the spec says, errors first."""
    signature = inspection.signature(expected.signature)
    if signature is None:
        return [_unknown_signature(inspection, expected.signature)]
    uses = [use for use in inspection.ops if signature.key in use.signatures]
    findings = [
        *_check_tensors(signature),
        *_check_shapes(signature, expected.shapes),
        *_check_batching(signature, expected),
        *_check_verification(signature, expected),
        *_check_ops(uses, signature.key),
        *_check_loading(inspection),
    ]
    order = ("error", "warning", "note")
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def refuse(findings: Iterable[Finding]) -> None:
    """Raises UnsupportedModelError with every error among the findings, one for each line."""
    errors = [str(finding) for finding in findings if finding.severity == "error"]
    if errors:
        raise UnsupportedModelError("\n".join(map(one_line, errors)))


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
        f"set model.serving_key: {suggest(key, keys)}",
        ("model", "serving_key"),
    )


# --- inputs and outputs ---------------------------------------------------------------------------


def _check_tensors(signature: SignatureInfo) -> Iterator[Finding]:
    for role, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        for tensor in tensors:
            yield from _check_tensor(role, tensor)


def _check_tensor(role: str, tensor: TensorInfo) -> Iterator[Finding]:
    name = f"{role} {tensor.name!r}"
    if tensor.encoding != "dense":
        yield Finding(
            "error",
            "encoding",
            f"{name} is a {tensor.encoding} tensor, but compiled models take dense ones only",
            "export a signature with dense tensors",
        )
    elif tensor.dtype == "string":
        yield Finding(
            "error",
            "string-tensor",
            f"{name} is a string tensor, which cannot be compiled",
            "process text outside the model and use or export a signature of numbers",
        )
    elif tensor.dtype not in DTYPES:
        yield Finding(
            "error",
            "dtype",
            f"{name} has the type {tensor.dtype}, which the runtime does not support",
            "cast it inside the model to a supported type",
        )


def _check_shapes(signature: SignatureInfo, shapes: Shapes) -> Iterator[Finding]:
    names = [tensor.name for tensor in signature.inputs]
    for name in sorted(set(shapes) - set(names)):
        yield Finding(
            "error",
            "unknown-input",
            f"inputs names {name!r}, which is not an input of the signature",
            suggest(name, names, "its inputs are:"),
            ("inputs", name),
        )
    for tensor in signature.inputs:
        problem = find_shape_problem(tensor, shapes.get(tensor.name))
        if problem:
            yield Finding("error", "shape", problem, _shape_fix(tensor))


def _shape_fix(tensor: TensorInfo) -> str:
    field = f"inputs.{tensor.name}.shape"
    if tensor.shape is None:
        return f"set {field} in the spec to the full shape, with null for the batch on axis 0"
    example = ", ".join(
        "null" if extent is None and not axis else "128" if extent is None else str(extent)
        for axis, extent in enumerate(tensor.shape)
    )
    return f"fix every axis but the batch in the spec, for example {field}: [{example}]"


def _check_batching(signature: SignatureInfo, expected: Expected) -> Iterator[Finding]:
    # _check_shapes reports it; batched_inputs would raise.
    if any(find_shape_problem(t, expected.shapes.get(t.name)) for t in signature.inputs):
        return
    batched = batched_inputs(signature, expected.shapes)
    fixed = [tensor for tensor in signature.inputs if tensor.name not in batched]
    if batched:
        for tensor in fixed:
            yield Finding(
                "note",
                "fixed-input",
                f"input {tensor.name!r} of shape {show(tensor.shape or ())} has no batch axis: "
                "it is the same for all rows",
            )
    else:
        yield _check_batch_sizes(signature.key, fixed, expected.batch_sizes)
    if expected.rules and not (batched and expected.emulate):
        reason = "batching.emulate is false" if batched else "its signature has no batch axis"
        yield Finding(
            "error",
            "batch-rules",
            f"the batch rule '{expected.rules[0]}' cannot be kept: {reason}",
            "remove batching.rules from the spec",
            ("batching", "rules"),
        )


def _check_batch_sizes(
    key: str, inputs: Sequence[TensorInfo], batch_sizes: Sequence[int] | None
) -> Finding:
    """Without a batch axis, a spec may still repeat the one extent that all inputs begin with."""
    leading = {tensor.shape[0] for tensor in inputs if tensor.shape}
    # CMS's configurations call the fixed first extent of such a model its batch size.
    allowed = [[1], *([extent] for extent in leading if len(leading) == 1)]
    if batch_sizes is not None and list(batch_sizes) not in allowed:
        shown = ", ".join(f"{tensor.name} {show(tensor.shape or ())}" for tensor in inputs)
        return Finding(
            "error",
            "batch-sizes",
            f"signature {key!r} has no free batch axis ({shown or 'it has no inputs'})",
            "omit compilation.batch_sizes, or export the model with None as the first extent",
            ("compilation", "batch_sizes"),
        )
    return Finding("note", "fixed-shape", f"signature {key!r} has fixed shapes: no batching")


# --- verification ---------------------------------------------------------------------------------


def _check_verification(signature: SignatureInfo, expected: Expected) -> Iterator[Finding]:
    inputs = {tensor.name: tensor for tensor in signature.inputs}
    outputs = [tensor.name for tensor in signature.outputs]
    for name, bounds in expected.ranges.items():
        if name not in inputs:
            yield _unknown_tensor("ranges", name, "input", list(inputs))
        elif limits := _integer_limits(inputs[name].dtype):
            yield from _check_range(inputs[name], bounds, limits)
    for name in expected.outputs:
        if name not in outputs:
            yield _unknown_tensor("outputs", name, "output", outputs)


def _unknown_tensor(section: str, name: str, role: str, names: Sequence[str]) -> Finding:
    return Finding(
        "error",
        f"unknown-{role}",
        f"verify.{section} names {name!r}, which is not an {role} of the signature",
        suggest(name, names, f"its {role}s are:"),
        ("verify", section, name),
    )


def _check_range(
    tensor: TensorInfo, bounds: tuple[float, float], limits: tuple[int, int]
) -> Iterator[Finding]:
    low, high = bounds
    # Integers are drawn as floor(x) with low <= x < high: `high` may be one above the limit.
    if not limits[0] <= math.floor(low) < math.ceil(high) <= limits[1] + 1:
        yield Finding(
            "error",
            "range",
            f"verify.ranges.{tensor.name}: [{low:g}, {high:g}) is not within the range of "
            f"{tensor.dtype}",
            f"choose bounds from {limits[0]} to {limits[1] + 1}",
            ("verify", "ranges", tensor.name),
        )


def _integer_limits(dtype: str) -> tuple[int, int] | None:
    """The smallest and largest value of an integer type (`uint8`); None for other types."""
    match = re.fullmatch(r"(u?)int(\d+)", dtype)
    if match is None:
        return None
    bits = int(match[2])
    return (0, 2**bits - 1) if match[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


# --- operations -----------------------------------------------------------------------------------


def _check_ops(uses: Sequence[OpUse], key: str) -> Iterator[Finding]:
    # State is refused even where XLA has the operation: a compiled model has no place for it.
    state = [use for use in uses if changes_state(use.op)]
    tables = [use for use in uses if _TABLE.fullmatch(use.op) and use not in state]
    if state:
        yield Finding(
            "error",
            "state",
            f"the signature keeps state in variables between calls: {_where(state, key)}",
            STATE_FIX,
        )
    if tables:
        yield Finding(
            "error",
            "lookup-table",
            f"the signature looks values up in tables: {_where(tables, key)}",
            TABLE_FIX,
        )
    for use in uses:
        if use not in state and use not in tables:
            yield from _check_op(use, key)
    yield from _check_kinds(uses, key)


def _check_op(use: OpUse, key: str) -> Iterator[Finding]:
    if use.support == "unregistered":
        yield Finding(
            "error",
            "custom-op",
            f"{_where([use], key)} comes from a custom op library, which XLA cannot compile",
            "write it with TensorFlow's own operations",
        )
    elif use.support == "unsupported":
        types = f" for {use.dtypes}" if use.dtypes else ""
        yield Finding(
            "error",
            "unsupported-op",
            f"XLA has no {_where([use], key)}{types}",
            fix_for(use.op),
        )


def _check_kinds(uses: Sequence[OpUse], key: str) -> Iterator[Finding]:
    random = [use for use in uses if _RANDOM.fullmatch(use.op)]
    if random:
        yield Finding(
            "warning",
            "random",
            f"the outputs depend on random numbers, so they cannot be verified: "
            f"{_where(random, key)}",
            "export the model for inference (training=False), or pass the numbers as an input",
        )
    # Only a note: tfcompile converts it to functional control flow, which XLA compiles.
    loops = [use for use in uses if use.op in _TF1_CONTROL_FLOW]
    if loops:
        yield Finding(
            "note", "tf1-control-flow", f"control flow of TensorFlow 1: {_where(loops, key)}"
        )


def fix_for(op: str) -> str:
    """How to avoid an operation that XLA does not have."""
    for pattern, fix in _FIXES:
        if re.match(pattern, op):
            return fix
    return "replace it with other operations, or export a signature that ends before it"


def _where(uses: Sequence[OpUse], key: str) -> str:
    return ", ".join(
        f"{use.op} in {_few(use.signatures[key].layers, use.signatures[key].count)}" for use in uses
    )


def _few(layers: Sequence[str], count: int, limit: int = 3) -> str:
    shown = ", ".join(repr(layer) for layer in layers[:limit])
    return f"{shown}, ... ({count} times)" if len(layers) > limit else shown


def _check_loading(inspection: Inspection) -> Iterator[Finding]:
    if inspection.assets:
        yield Finding(
            "note",
            "assets",
            f"the model contains files that the compiled model does not read: "
            f"{', '.join(inspection.assets)}",
        )
    if inspection.initializers:
        yield Finding(
            "note",
            "initializers",
            f"the model has an initialiser ({', '.join(inspection.initializers)}); it runs once, "
            "before freezing",
        )
