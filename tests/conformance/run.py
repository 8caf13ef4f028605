"""Runs cases in processes of their own: `python -m tests.conformance.run NAME...`, a line of JSON for each.

A process that dies costs the case that it was at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tests.conformance.cases import Array, Case, NotApplicableError, names, read_case

_ROOT = Path(__file__).parents[2]
_AT_ONCE = 200
"""Cases of one process, which takes seconds to start."""
_FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""Compiling takes most of the time; what is compared does not depend on how well it is optimised."""

_NOT_PASSED = ("float4_e2m1fn", "float8_e8m0fnu")

Verdict = Literal["passed", "refused", "not applicable", "wrong", "crashed"]


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    name: str
    verdict: Verdict
    reason: str = ""
    constants: tuple[str, ...] = ()
    """Inputs that decide shapes and were made constant."""


def run_cases(chosen: Sequence[str]) -> Iterator[Outcome]:
    """The outcomes of cases, in order."""
    waiting = list(chosen)
    while waiting:
        part = waiting[:_AT_ONCE]
        found = [Outcome(**json.loads(line)) for line in _child(part)]
        yield from found
        if len(found) < len(part):
            yield Outcome(part[len(found)], "crashed", "the process ended")
            found.append(Outcome(part[len(found)], "crashed"))
        waiting = waiting[len(found) :]


def _child(chosen: Sequence[str]) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.conformance.run", *chosen]
    environment = {**os.environ, "XLA_FLAGS": _FLAGS, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with subprocess.Popen(
        command,
        cwd=_ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        yield from process.stdout


def run_case(name: str) -> Outcome:
    """Converts, compiles, runs and compares a case in this process."""
    from modelwheel.errors import UnsupportedModelError

    try:
        case = read_case(name)
    except NotApplicableError as error:
        return Outcome(name, "not applicable", str(error))
    constants: tuple[str, ...] = ()
    try:
        for given, expected in case.data:
            found, constants = evaluate(case, given)
            wrong = differences(case, found, expected)
            if wrong:
                return Outcome(name, "wrong", wrong)
    except UnsupportedModelError as error:
        return Outcome(name, "refused", str(error))
    return Outcome(name, "passed", constants=constants)


def evaluate(case: Case, given: Mapping[str, Array]) -> tuple[dict[str, Array], tuple[str, ...]]:
    """The outputs of a case as modelwheel converts it, and the inputs that it needs as constants.

    Raises:
        UnsupportedModelError: It is refused, whatever is constant, or it is called with types that are not passed.
    """
    import tensorflow as tf

    from modelwheel.compiler.formats.onnx.operators.onnx_graph import convert
    from modelwheel.compiler.stablehlo.writer.mlir_types import STORED
    from modelwheel.compiler.stablehlo.xla_module import call_module
    from modelwheel.errors import UnsupportedModelError

    _refuse_types(case, given)
    first: UnsupportedModelError | None = None
    for fixed in _choices(given):
        shapes = {n: a.shape for n, a in given.items() if n not in fixed}
        try:
            converted = convert(case.model, shapes, {n: given[n] for n in fixed})
        except UnsupportedModelError as error:
            first = first or error
            continue
        arguments = (given[a] if isinstance(a, str) else a for a in converted.module.arguments)
        tensors = [tf.constant(a.astype(STORED.get(a.dtype, a.dtype))) for a in arguments]
        results = call_module(converted.module.text, tensors, converted.module.results)
        values = (tensor.numpy() for tensor in results)
        return dict(zip(converted.outputs, values, strict=True)), fixed
    assert first is not None
    raise first


def _refuse_types(case: Case, given: Mapping[str, Array]) -> None:
    """TensorFlow, which compiles, has no code for these as inputs and outputs; `check` refuses them in all models."""
    from modelwheel.errors import UnsupportedModelError

    _, expected = case.data[0]
    for array in [*given.values(), *expected.values()]:
        if array.dtype.name in _NOT_PASSED:
            raise UnsupportedModelError(
                f"the runtime does not support inputs and outputs of the type {array.dtype}; cast them "
                "inside the model"
            )


def _choices(given: Mapping[str, Array]) -> Iterator[tuple[str, ...]]:
    """Which inputs to make constant: none, or small ones that may decide shapes (`source.constants`)."""
    yield ()
    small = tuple(name for name, array in given.items() if array.size <= 64)
    later = tuple(name for name in small if name != next(iter(given)))
    whole = tuple(name for name in small if given[name].dtype.kind in "iub")
    tried: set[tuple[str, ...]] = {()}
    for choice in (later, whole, small):
        if choice not in tried:
            tried.add(choice)
            yield choice


def differences(case: Case, found: Mapping[str, Array], expected: Mapping[str, Array]) -> str:
    """What differs from the expected outputs; empty if nothing does.

    Floats may differ by the tolerance of the case, of which the relative part also counts for the largest element
    of the output: the expected values have errors of their own. Types of 16 bits and less may differ by two units in
    the last place.
    """
    from modelwheel.compiler.stablehlo.writer.mlir_types import STORED, is_float

    for name, wanted in expected.items():
        values, held = found[name], STORED.get(wanted.dtype, wanted.dtype)
        if values.shape != wanted.shape or values.dtype != held:
            return f"{name} is {values.dtype}{list(values.shape)}, not {held}{list(wanted.shape)}"
        if not is_float(wanted.dtype) and wanted.dtype.kind != "c":
            if not np.array_equal(values, wanted.astype(held)):
                return f"{name}: {int((values != wanted.astype(held)).sum())} elements differ"
            continue
        kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
        one, two = values.astype(kind), wanted.astype(kind)
        largest = float(np.abs(two[np.isfinite(two)]).max(initial=0))
        rtol, atol = case.rtol, case.atol + 1e-6 * largest
        if wanted.dtype.itemsize <= 2:
            rtol = max(rtol, 2 * _unit(wanted.dtype))
            atol = max(atol, _unit(wanted.dtype) * largest)
        if not np.allclose(one, two, rtol, atol, equal_nan=True):
            with np.errstate(invalid="ignore"):
                return f"{name}: differs by up to {np.nanmax(np.abs(one - two)):.3g}"
    return ""


def _unit(dtype: np.dtype[np.generic]) -> float:
    """The distance of 1 to the next number."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def main(chosen: Iterable[str]) -> None:
    """Prints the outcomes."""
    for name in chosen or names():
        sys.stdout.write(json.dumps(asdict(run_case(name))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
