"""Checks an inspected model against its spec before anything is compiled: problems and their fixes.

Nothing here needs TensorFlow. Operations are checked for one signature: what only other functions of
the model use (training, saving, other signatures) does not count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..dtypes import integer_limits
from ..errors import UnsupportedModelError
from ..limits import Limits
from ..spec import BatchRule
from ..spec.labels import why_wrong_labels
from ..util.text import one_line
from ..util.words import count, suggest
from .findings import Finding, Severity
from .fusions.registry import Provider, check_fusions
from .input_values import split_columns
from .inspection import Inspection, OpUse, SignatureInfo, TensorInfo
from .judgement import judge, where
from .renames import explain_unknown, find_name_problems, rename
from .shapes import Shapes, batch_axes, find_shape_problem, show
from .tensor_checks import check_tensors

MAX_ATOL, MAX_RTOL = 1.0, 0.1
"""The largest tolerances with which a wheel is built; larger ones would let wrong numbers pass."""
MAX_ROWS, MAX_RANGE = 4096, 1e30

_RANDOM = re.compile(
    r"stablehlo\.rng|Random\w+|TruncatedNormal|Multinomial|ParameterizedTruncatedNormal"
)
# XLA makes them of other bits than TensorFlow does. Of uniform and normal numbers, `random_numbers` in the
# worker makes the same.
_OTHER_NUMBERS = re.compile(r"Stateless((Parameterized)?TruncatedNormal(V2)?|Multinomial)")
_SEEDED = "tf.random.stateless_uniform or tf.random.stateless_normal"
RANDOM_FIX = (
    f"draw them by {_SEEDED} with a seed that is an input, or export the model for inference "
    "(training=False)"
)
_BRANCHES = frozenset({"Switch", "If", "StatelessIf", "Case", "StatelessCase"})
_TF1_CONTROL_FLOW = frozenset({"Enter", "Exit", "Merge", "NextIteration", "Switch", "LoopCond"})

# The first match counts, so that DecodeCSV comes before Decode.
_TEXT_FIX = "process text outside the model and pass numbers"
_FIXES = (
    (r"ParseExample|ParseSingle|ParseSequence|Decode(CSV|Raw|JSON|Proto)",
     "parse the records outside the model and use a signature that takes plain tensors"),
    (r"Decode|Encode", "decode and encode images or sound outside the model"),
    (r"PyFunc|EagerPyFunc", "Python code cannot be compiled; write it with TensorFlow operations"),
    (r"Print|Summary|Write|Save|Restore|ReadFile", "remove printing and file access from the signature"),
    (r"String|Regex|Substr|AsString|Unicode|ReduceJoin|SentencepieceOp", _TEXT_FIX),
    (r"Sparse|Ragged", "use dense tensors"),
    (r"TreeEnsemble", "forests of decision trees are not compiled; export a network or a linear model"),
)  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """The claims of a spec about a model's signature."""

    signature: str = "serving_default"
    """The signature to compile."""
    names: Mapping[str, str] = field(default_factory=dict)
    """New names of inputs and outputs; everything else uses these."""
    shapes: Shapes = field(default_factory=dict)
    """Whole shapes of inputs that the spec fixes."""
    shorter_shapes: Sequence[Shapes] = ()
    """At each shorter length of the axes with buckets."""
    pads: Mapping[str, float] = field(default_factory=dict)
    """What inputs of several lengths are padded with, by name."""
    batch_sizes: Sequence[int] | None = None
    """None if the spec has none."""
    rules: Sequence[BatchRule] = ()
    emulate: bool = True
    """Whether the spec allows other batch sizes than the compiled ones."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """[low, high) of random inputs, by name."""
    outputs: Collection[str] = ()
    """Outputs that have a tolerance of their own."""
    labels: Mapping[str, int] = field(default_factory=dict)
    """How many labels outputs have, by name."""
    tolerances: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """atol and rtol, by their place below `verify`: `tolerance`, `outputs.y`."""
    rows: int = 1
    """Rows to compare with TensorFlow."""
    limits: Limits = field(default_factory=Limits)
    keep_state: bool = False
    """Whether calls may write variables."""
    fusions: Collection[str] | None = None
    """Names of marks whose functions may be replaced; None for all."""
    registered: Mapping[str, Provider] = field(default_factory=dict)
    """What replaces functions, by mark."""
    lenient: bool = False
    """Whether the bounds of `verify` only warn."""


def check_signature(inspection: Inspection, expected: Expected) -> list[Finding]:
    """All findings about compiling one signature as the spec says, errors first."""
    signature = inspection.signature(expected.signature)
    if signature is None:
        return [_unknown_signature(inspection, expected.signature)]
    found_names = list(find_name_problems(signature, expected.names))
    signature = rename(signature, expected.names)
    findings = [
        *found_names,
        *check_tensors(signature),
        *_check_shapes(signature, expected),
        *_check_batching(signature, expected),
        *_check_labels(signature, expected),
        *_check_verification(signature, expected),
        *_check_bounds(expected),
        *_note_valid_values(signature, expected),
        *_note_real_numbers(signature),
        *judge(inspection, signature.key, expected.limits, keep_state=expected.keep_state),
        *_check_ops(inspection.ops, signature.key),
        *_check_constants(inspection, signature.key),
        *_check_assets(inspection),
        *check_fusions(
            inspection.marked.get(signature.key, {}),
            inspection.composites.get(signature.key, {}),
            expected.fusions,
            expected.registered,
        ),
    ]
    order = ("error", "warning", "note")
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def refuse(findings: Iterable[Finding]) -> None:
    """Raises UnsupportedModelError with every error among the findings, one for each line."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise UnsupportedModelError(
            "\n".join(map(one_line, errors)), line_codes=[finding.code for finding in errors]
        )


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


def _note_valid_values(signature: SignatureInfo, expected: Expected) -> Iterator[Finding]:
    """Findings about the values that random inputs are drawn from, where they follow from the graph."""
    for tensor in signature.inputs:
        if tensor.valid is None:
            continue
        bounds, allowed = expected.ranges.get(tensor.name), tensor.valid.every_bounds
        if bounds is None:
            verb = "is compared on" if tensor.valid.soft else "takes"
            message = f"input {tensor.name!r} {verb} {tensor.valid}"
            yield Finding("note", "valid-values", message)
        elif not all(low <= bounds[0] and bounds[1] <= high for low, high in allowed):
            yield Finding(
                "warning",
                "valid-values",
                f"verify.ranges.{tensor.name} goes beyond what input {tensor.name!r} takes: {tensor.valid}",
                "TensorFlow may fail on other values; remove it to draw from all of these",
                ("verify", "ranges", tensor.name),
            )


def _note_real_numbers(signature: SignatureInfo) -> Iterator[Finding]:
    """Findings about integers that stand for real numbers, which the wheel tells its users."""
    for kind, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        for tensor in tensors:
            if tensor.real:
                message = f"the {tensor.dtype} of {kind} {tensor.name!r} stand for {tensor.real}"
                yield Finding("note", "real-numbers", message)


def _check_shapes(signature: SignatureInfo, expected: Expected) -> Iterator[Finding]:
    names, shapes = [tensor.name for tensor in signature.inputs], expected.shapes
    for name in sorted(set(shapes) - set(names)):
        yield Finding(
            "error",
            "unknown-input",
            f"inputs names {name!r}, which is not an input of the signature",
            explain_unknown(name, names, expected.names, "its inputs are:"),
            ("inputs", name),
        )
    for tensor in signature.inputs:
        # The largest length first: it has the problems of a fixed one.
        lengths = (shapes, *expected.shorter_shapes)
        problems = (find_shape_problem(signature, tensor, every) for every in lengths)
        problem = next(filter(None, problems), None)
        if problem:
            yield Finding("error", "shape", problem, _shape_fix(tensor))
        if tensor.name in expected.pads:
            yield from _check_pad(tensor, expected.pads[tensor.name])


def _check_pad(tensor: TensorInfo, pad: float) -> Iterator[Finding]:
    limits = integer_limits(tensor.dtype) or ((0, 1) if tensor.dtype == "bool" else None)
    if limits is not None and not (limits[0] <= pad <= limits[1] and pad == int(pad)):
        yield Finding(
            "error",
            "pad",
            f"input {tensor.name!r} is padded with {pad:g}, which is not a value of {tensor.dtype}",
            f"choose a whole number from {limits[0]} to {limits[1]}",
            ("inputs", tensor.name),
        )


def _shape_fix(tensor: TensorInfo) -> str:
    field = f"inputs.{tensor.name}.shape"
    if tensor.shape is None:
        return f"set {field} in the spec to the full shape, with the word batch for the axis of the rows"
    if sum(extent is None for extent in tensor.shape) == 1:
        fixed, batched = (
            ", ".join(word if extent is None else str(extent) for extent in tensor.shape)
            for word in ("128", "batch")
        )
        return (
            f"if this axis is the batch, write {field}: [{batched}] in the spec; otherwise its length, "
            f"for example {field}: [{fixed}], or several as {{buckets: [32, 128], pad: 0}}"
        )
    example = ", ".join(
        "null" if extent is None and not axis else "128" if extent is None else str(extent)
        for axis, extent in enumerate(tensor.shape)
    )
    return (
        f"fix every axis but the batch in the spec, for example {field}: [{example}], or give "
        "several lengths as {buckets: [32, 128], pad: 0}; the word batch marks the batch on any axis"
    )


def _check_batching(signature: SignatureInfo, expected: Expected) -> Iterator[Finding]:
    # _check_shapes reports it; batch_axes would raise.
    if any(find_shape_problem(signature, t, expected.shapes) for t in signature.inputs):
        return
    batched = batch_axes(signature, expected.shapes)
    for name, axis in batched.items():
        if axis:
            yield Finding("note", "batch-axis", f"input {name!r} has its rows on axis {axis}")
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
        part = split_columns(signature, name)
        if part is not None:
            yield from _check_columns(inputs[part[0]], name, part[1:])
            limits = integer_limits(inputs[part[0]].dtype)
            if limits is not None:
                yield from _check_range(inputs[part[0]], bounds, limits, name)
        elif name not in inputs:
            yield _unknown_tensor("verify.ranges", name, "input", list(inputs), expected.names)
        elif limits := integer_limits(inputs[name].dtype):
            yield from _check_range(inputs[name], bounds, limits)
    for name in expected.outputs:
        if name not in outputs:
            yield _unknown_tensor("verify.outputs", name, "output", outputs, expected.names)


def _check_labels(signature: SignatureInfo, expected: Expected) -> Iterator[Finding]:
    outputs = {tensor.name: tensor for tensor in signature.outputs}
    for name, number in expected.labels.items():
        if name not in outputs:
            yield _unknown_tensor("labels", name, "output", list(outputs), expected.names)
        elif wrong := why_wrong_labels(outputs[name].dtype, outputs[name].shape, number):
            yield Finding(
                "error",
                "labels",
                f"labels.{name} has {count(number, 'label')}, but {wrong}",
                "correct the list",
                ("labels", name),
            )


def _check_bounds(expected: Expected) -> Iterator[Finding]:
    """Rejects tolerances too loose to detect errors."""
    severity: Severity = "warning" if expected.lenient else "error"
    for place, (atol, rtol) in expected.tolerances.items():
        for name, value, bound in (("atol", atol, MAX_ATOL), ("rtol", rtol, MAX_RTOL)):
            if value > bound:
                yield Finding(
                    severity,
                    "tolerance",
                    f"verify.{place}.{name} is {value:g}, above {bound:g}: such a comparison shows "
                    "nothing",
                    "lower it; `check --lenient` passes it, building does not",
                    ("verify", *place.split(".", 1), name),
                )
    for name, bounds in expected.ranges.items():
        if max(map(abs, bounds)) > MAX_RANGE:
            yield Finding(
                severity,
                "range",
                f"verify.ranges.{name} goes beyond {MAX_RANGE:g}, where most models overflow",
                "choose values that occur; `check --lenient` passes it, building does not",
                ("verify", "ranges", name),
            )
    if expected.rows > MAX_ROWS:
        yield Finding(
            severity,
            "rows",
            f"verify.rows is {expected.rows}, above {MAX_ROWS}: the wheel carries so many rows",
            "lower it; `check --lenient` passes it, building does not",
            ("verify", "rows"),
        )


def _unknown_tensor(
    section: str, name: str, role: str, known: Sequence[str], names: Mapping[str, str]
) -> Finding:
    return Finding(
        "error",
        f"unknown-{role}",
        f"{section} names {name!r}, which is not an {role} of the signature",
        explain_unknown(name, known, names, f"its {role}s are:"),
        (*section.split("."), name),
    )


def _check_columns(tensor: TensorInfo, name: str, columns: tuple[int, int]) -> Iterator[Finding]:
    width = tensor.shape[-1] if tensor.shape else None
    plain = not tensor.dtype.startswith("complex")
    if not columns[0] < columns[1] or (width is not None and columns[1] > width) or not plain:
        last = "" if width is None else f", whose last axis has the extent {width}"
        yield Finding(
            "error",
            "columns",
            f"verify.ranges.{name} names columns that input {tensor.name!r} of type {tensor.dtype} does not "
            f"have{last if plain else ''}",
            "write positions along the last axis as x[3] or x[4:6], counted from 0",
            ("verify", "ranges", name),
        )


def _check_range(
    tensor: TensorInfo, bounds: tuple[float, float], limits: tuple[int, int], name: str = ""
) -> Iterator[Finding]:
    """`name` is that of the field, if it is not the tensor's."""
    low, high = bounds
    name = name or tensor.name
    # Integers are drawn as floor(x) with low <= x < high: `high` may be one above the limit.
    if not limits[0] <= math.floor(low) < math.ceil(high) <= limits[1] + 1:
        yield Finding(
            "error",
            "range",
            f"verify.ranges.{name}: [{low:g}, {high:g}) is not within the range of {tensor.dtype}",
            f"choose bounds from {limits[0]} to {limits[1] + 1}",
            ("verify", "ranges", name),
        )


# --- operations -----------------------------------------------------------------------------------


def _check_ops(every: Sequence[OpUse], key: str) -> Iterator[Finding]:
    uses = [use for use in every if key in use.signatures]
    # What only runs beside the outputs need not be in XLA: freezing drops it.
    unsupported = [use for use in uses if not use.effect and use.support == "unsupported"]
    text = [use for use in unsupported if "=string" in use.dtypes or fix_for(use.op) == _TEXT_FIX]
    if len(text) > 1:
        message = f"XLA has no operations on text: {where(text, key)}"
        yield Finding("error", "unsupported-op", message, _TEXT_FIX)
    for use in unsupported:
        if len(text) > 1 and use in text:
            continue
        types = f" for {use.dtypes}" if use.dtypes else ""
        message = f"XLA has no {where([use], key)}{types}"
        yield Finding("error", "unsupported-op", message, fix_for(use.op))
    yield from _check_kinds(uses, key)


def _check_constants(inspection: Inspection, key: str) -> Iterator[Finding]:
    cost = inspection.costs.get(key)
    for needed in cost.constants if cost is not None else ():
        if not needed.certain:
            yield Finding(
                "warning",
                "not-constant",
                f"{needed.argument} of {needed.op} in {needed.layer!r} depends on the values of inputs, "
                "but compiled shapes are fixed",
                "keep the largest shape and a mask; create a TensorArray with its largest size and "
                "dynamic_size=False",
            )
            continue
        yield Finding(
            "error",
            "not-constant",
            f"XLA must know {needed.argument} of {needed.op} in {needed.layer!r} when it compiles, but "
            "it depends on the values of inputs",
            "make it a constant of the model, or compute with the largest and mask the rest",
        )


def _check_kinds(uses: Sequence[OpUse], key: str) -> Iterator[Finding]:
    random = [use for use in uses if _RANDOM.fullmatch(use.op)]
    if random:
        # A branch may be one for training that is never taken: the reference finds out.
        branched = any(use.op in _BRANCHES for use in uses)
        yield Finding(
            "warning" if branched else "error",
            "random",
            f"the signature draws random numbers, which differ from call to call: {where(random, key)}",
            RANDOM_FIX,
        )
    other = [use for use in uses if _OTHER_NUMBERS.fullmatch(use.op)]
    if other:
        yield Finding(
            "error",
            "random",
            f"XLA draws other numbers than TensorFlow from the same seed: {where(other, key)}",
            f"compute them from {_SEEDED}, which are the same in both",
        )
    # Only a note: freezing inlines it and tfcompile converts it to functional control flow.
    loops = [use for use in uses if use.op in _TF1_CONTROL_FLOW]
    if loops:
        yield Finding(
            "note", "tf1-control-flow", f"control flow of TensorFlow 1: {where(loops, key)}"
        )


def fix_for(op: str) -> str:
    """How to avoid an operation that XLA does not have."""
    for pattern, fix in _FIXES:
        if re.match(pattern, op):
            return fix
    return "replace it with other operations, or export a signature that ends before it"


def _check_assets(inspection: Inspection) -> Iterator[Finding]:
    if inspection.assets:
        yield Finding(
            "note",
            "assets",
            f"the model contains files that the compiled model does not read: "
            f"{', '.join(inspection.assets)}",
        )
