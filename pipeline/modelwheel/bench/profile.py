"""The time of each step of a program: `modelwheel profile`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..assembly.manifest import Manifest
from ..engine.programs import stored_programs, stored_records
from ..engine.steps.profile import PROGRAM
from ..errors import UsageError, VerifyError
from ..levels import LEVELS, Level, cpu_level
from ..model.reference_result import ARRAYS
from ..packaging.bundle import own_array
from ..packaging.project import MANIFEST_FILE
from ..platforms import host_platform
from ..program import ops, steps
from ..program.op_names import layer_of, names_of
from ..program.program import Program
from ..program.strip_layers import products
from ..program.traffic import bytes_of_step
from ..program.view import View
from ..program.walk import leaves
from ..request import Request
from ..sandbox.choose import Sandbox
from ..sandbox.policy import Access, environment
from ..sandbox.run import run_sandboxed
from ..signature import Signature
from ..store.store import Store
from ..util.records import JsonRecord
from ..util.text import one_line
from .compare import describe_machine
from .peak import build_peak, measure_bandwidth, measure_peak
from .results import Machine
from .work import operations_of


class Step(JsonRecord):
    """One step of a program; everything is of one run of the program."""

    number: int
    kind: str
    """Of the operation: `dot`, `convolution`, `kernel`."""
    what: str
    """The name of XLA's kernel, or the shapes of a product."""
    layer: str
    """The operation of the model that it comes from, that with most of the work; empty if XLA does not say."""
    fused: tuple[str, ...] = ()
    """Other operations that it computes, too."""
    runs: float
    """How often it runs: more than once in a loop."""
    us: float
    threaded_us: float | None = None
    """With all threads of the profile; None if there is one."""
    operations: int
    """Multiplications and additions of a product or convolution; for other steps, an estimate."""
    bytes: int
    """Read and written, if every operand is touched once."""

    @property
    def gflops(self) -> float | None:
        """Billions of operations in a second, of products and convolutions."""
        counted = self.kind in ("attention", "dot", "convolution") and self.us
        return self.operations / self.us / 1e3 if counted else None

    @property
    def gain(self) -> float | None:
        """The time of one thread over that of all."""
        return self.us / self.threaded_us if self.threaded_us else None

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return self.operations / max(self.bytes, 1)

    @property
    def gigabytes(self) -> float:
        """Billions of bytes in a second."""
        return self.bytes / self.us / 1e3 if self.us else 0.0


class Layer(NamedTuple):
    """The time of the steps of one layer together."""

    name: str
    steps: int
    us: float


class Profile(JsonRecord):
    """The steps of one batch size at one level."""

    version: Literal[1] = 1
    machine: Machine
    model: str
    level: str
    batch_size: int
    us: float
    """Microseconds of one run, the clock's reading after each step included."""
    threads: int = 1
    threaded_us: float | None = None
    """As `us`, with all threads; None if there is one."""
    peak_gflops: float
    """Of one core, measured before and after."""
    bandwidth: float
    """Billions of bytes that one core reads from memory in a second."""
    steps: tuple[Step, ...]

    @property
    def layers(self) -> list[Layer]:
        """The layers of all steps, the slowest first; a fusion counts for that of its first operation."""
        steps: dict[str, list[Step]] = {}
        for step in self.steps:
            steps.setdefault(layer_of(step.layer), []).append(step)
        layers = [Layer(name, len(own), sum(one.us for one in own)) for name, own in steps.items()]
        return sorted(layers, key=lambda layer: -layer.us)


@dataclass(frozen=True)
class Measured:
    """One round of the program of a `ProfileStep` with some number of threads."""

    us: float
    steps: tuple[tuple[float, float], ...]
    """For each step: microseconds and how often it ran, in one run."""


def parse(text: str) -> list[Measured]:
    """Reads the answer of the program: of one thread, and then of all if there are several.

    Raises:
        ValueError: It is something else.
    """
    rounds: dict[str, list[Measured]] = {}
    for block in text.split("\n\n"):
        head, *lines = block.splitlines() or [""]
        threads, *numbers = head.split()
        rounds.setdefault(threads, []).append(_parse_round(numbers, lines))
    return [_typical(measured) for measured in rounds.values()]


def _parse_round(head: list[str], lines: list[str]) -> Measured:
    nanoseconds, ticks, runs = map(float, head)
    us_per_tick = nanoseconds / 1e3 / ticks
    steps = []
    for line in lines:
        own, times = map(float, line.split())
        steps.append((own * us_per_tick / runs, times / runs))
    return Measured(nanoseconds / 1e3 / runs, tuple(steps))


def _typical(rounds: list[Measured]) -> Measured:
    """The round with the median time: one in which the machine interrupted a step takes longer."""
    return sorted(rounds, key=lambda measured: measured.us)[(len(rounds) - 1) // 2]


def narrow(request: Request) -> Request:
    """A request for one program of the given one: the highest level that this machine has, the smallest batch size.

    Raises:
        UsageError: This machine has none of the levels.
    """
    order = list(LEVELS)
    here = order.index(cpu_level().name)
    levels = [level for level in request.levels if order.index(level.name) <= here]
    if not levels:
        names = ", ".join(level.name for level in request.levels)
        raise UsageError(f"this CPU has none of the levels {names}")
    return replace(request.with_sizes(request.batch_sizes[:1]), levels=(levels[-1],))


def profile(
    request: Request,
    store: Store,
    sandbox: Sandbox,
    directory: Path,
    seconds: float = 1.0,
    threads: int = 1,
) -> Profile:
    """Runs the program of a request whose goal `profile` has been built.

    Args:
        request: A model with one level and one batch size; of several lengths, the largest is measured.
        store: Has the results of the build.
        sandbox: Where it runs.
        directory: An empty directory for files.
        seconds: How long it runs.
        threads: How many share its large steps; one alone runs in turn with them.

    Raises:
        VerifyError: It fails.
    """
    (level,), (batch_size,) = request.levels, request.batch_sizes
    records = stored_records(request, store, "profile")
    programs = stored_programs(request, store, level)
    # The last extent is that of the largest length.
    compiled = list(programs.values())[-1]
    manifest = f"platforms/{host_platform().name}/{MANIFEST_FILE}"
    content = store.read_bytes(records[f"{request.name}/project/profiled"], manifest)
    signature = Manifest.parse(content, manifest).signature
    binary = directory / PROGRAM
    store.materialize(records[f"{request.name}/profile"], directory)
    binary.chmod(0o755)
    inputs = directory / "inputs.bin"
    reference = store.path(records[f"{request.name}/reference"], ARRAYS)
    write_inputs(reference, signature, batch_size, inputs)
    peak = build_peak(level, directory)
    before = measure_peak(peak)
    arguments = (level.name, str(batch_size), str(seconds), str(threads), inputs)
    alone, *together = _run(binary, arguments, sandbox, directory)
    return Profile(
        machine=describe_machine(),
        model=request.spec.model.name,
        level=level.name,
        batch_size=batch_size,
        us=alone.us,
        threads=threads,
        threaded_us=together[0].us if together else None,
        peak_gflops=max(before, measure_peak(peak)),
        bandwidth=measure_bandwidth(peak),
        steps=tuple(_steps(compiled, alone, together[0] if together else None, level)),
    )


def write_inputs(reference: Path, signature: Signature, rows: int, path: Path) -> None:
    """Writes the recorded inputs, repeated until there are enough rows, as the program reads them."""
    import numpy as np

    with np.load(reference) as arrays, path.open("wb") as file:
        for tensor in signature.inputs:
            prefix = "in" if f"in/{tensor.name}" in arrays else "in@0"
            values: np.ndarray[Any, Any] = arrays[f"{prefix}/{tensor.name}"]
            if tensor.leading_per_row:
                values = np.resize(values, (rows * tensor.leading_per_row, *values.shape[1:]))
            file.write(own_array(tensor, values).tobytes())


def _run(
    binary: Path, arguments: Sequence[str | Path], sandbox: Sandbox, directory: Path
) -> list[Measured]:
    scratch = directory / "scratch"
    scratch.mkdir()
    inputs = Path(arguments[-1])
    limits = replace(sandbox.limits, processes=1)
    access = Access((binary, inputs), scratch)
    done = run_sandboxed(sandbox, [binary, *arguments], access, limits, environment({}))
    if done.returncode:
        message = one_line(done.stderr.decode(errors="replace").strip())
        raise VerifyError(f"the profiled program failed: {message or done.returncode}")
    return parse(done.stdout.decode())


def _steps(
    program: Program, measured: Measured, threaded: Measured | None, level: Level
) -> Iterator[Step]:
    leaf_steps = list(leaves(program.steps))
    # What no run has reached is not printed after the last step that one has.
    missing = [(0.0, 0.0)] * (len(leaf_steps) - len(measured.steps))
    timed = [*measured.steps, *missing]
    shared: list[float | None] = [] if threaded is None else [us for us, _ in threaded.steps]
    shared += [None if threaded is None else 0.0] * (len(leaf_steps) - len(shared))
    for number, ((step, _), (us, runs)) in enumerate(zip(leaf_steps, timed, strict=True)):
        times = round(runs)
        names = [one_line(name) for name in names_of(step.origin)]
        yield Step(
            number=number,
            kind=step.op.kind,
            what=describe(step, level),
            layer=names[0] if names else "",
            fused=tuple(names[1:]),
            runs=runs,
            us=us,
            threaded_us=shared[number],
            operations=operations_of(step) * times,
            bytes=bytes_of_step(step) * times,
        )


def describe(step: steps.Step, level: Level) -> str:
    """A step in some words. The symbol of a kernel ends with the level and XLA's name of it."""
    match step.op:
        case ops.Kernel() as op:
            return one_line(op.symbol.rpartition(f"{level.identifier}_")[2])
        case ops.Dot() as op:
            lhs, rhs = step.inputs["lhs"], step.inputs["rhs"]
            contracted = math.prod(lhs.shape[axis] for axis in op.lhs_contracting)
            return f"{_shape(lhs)} . {_shape(rhs)} over {contracted}"
        case ops.Convolution() as op:
            windows = "x".join(str(window.size) for window in op.windows)
            groups = f", {op.feature_groups} groups" if op.feature_groups > 1 else ""
            shapes = _shape(step.inputs["input"]), _shape(step.outputs["out"])
            return f"{shapes[0]} by {windows} to {shapes[1]}{groups}"
        case ops.ByteLayer() | ops.Strips():
            return " then ".join(describe(layer, level) for layer in products(step))
        case ops.Sort():
            return f"sort {_shape(step.inputs['operand0'])}"
        case op:
            return op.kind.replace("_", " ")


def _shape(array: View) -> str:
    return "x".join(map(str, array.shape)) or "scalar"
