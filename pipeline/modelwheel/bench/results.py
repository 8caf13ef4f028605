"""The results of a comparison, as they are stored in JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from ..util.records import JsonRecord
from .statistics import Spread, geometric_mean

Kind = Literal["wheel", "other_wheel", "onnxruntime", "openvino", "litert", "tensorflow", "xla"]

OURS: Kind = "wheel"

SILENCE_MS = 100
"""How long nobody calls before a call after silence: a program that waits for its next event."""

TITLES: dict[Kind, str] = {
    "wheel": "wheel",
    "other_wheel": "other wheel",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "litert": "LiteRT",
    "tensorflow": "TensorFlow",
    "xla": "XLA jit",
}
"""Runtimes as people call them, in the order of the tables."""

CONSUMERS: frozenset[Kind] = frozenset({"onnxruntime", "openvino", "litert"})
"""The runtimes that a consumer could use instead: the best of them is what a wheel is compared with, where there
is one. TensorFlow and its jit are the model's own home."""


class Side(JsonRecord):
    """One runtime with one model."""

    kind: Kind
    version: str | None = None
    first_ms: float | None = None
    """Milliseconds from the import of the runtime to the end of the first prediction, with NumPy imported before."""
    memory: int | None = None
    """Bytes by which that made the process larger."""
    lowered: bool = False
    """Whether it sees a CPU of the wheel's level, which is lower than the machine's."""
    error: str | None = None
    """Why it was not measured."""


class Timing(JsonRecord):
    """Calls of one runtime."""

    us: Spread | None = None
    """Microseconds of a call."""
    ratio: Spread | None = None
    """How many times as long as the wheel it takes; None for the wheel."""
    error: str | None = None
    """Why it was not measured."""


class Cell(Timing):
    """One runtime, called again and again with the same arrays."""

    kind: Kind
    new_arrays: Timing | None = None
    """Calls with arrays that are new each time."""
    after_silence: Timing | None = None
    """The first call, with new arrays, after `SILENCE_MS` without any."""
    latency: tuple[float, float, float] | None = None
    """Microseconds that half, 99 % and 99.9 % of the calls do not exceed."""
    gflops: float | None = None
    """Billions of multiplications and additions in products and convolutions in a second."""


Part: TypeAlias = Callable[[Cell], Timing | None]
"""Which calls of a cell are meant."""


class Cells(JsonRecord):
    """All runtimes with one kind of call."""

    cells: tuple[Cell, ...]

    def cell(self, kind: Kind) -> Cell | None:
        """The cell of a runtime."""
        return next((cell for cell in self.cells if cell.kind == kind), None)

    @property
    def best(self) -> Cell | None:
        """The quickest of the runtimes that a consumer could use, or of all others if there is none."""
        return min(self._compared(itself), key=lambda pair: pair[0], default=(0.0, None))[1]

    def best_ratio(self, timing: Part) -> Spread | None:
        """The least ratio of these runtimes for a part of their cells; None if none was timed."""
        _, cell = min(self._compared(timing), key=lambda pair: pair[0], default=(0.0, None))
        part = None if cell is None else timing(cell)
        return None if part is None else part.ratio

    def _compared(self, timing: Part) -> list[tuple[float, Cell]]:
        parts = [(timing(cell), cell) for cell in self.cells]
        timed = [(part.ratio.median, cell) for part, cell in parts if part and part.ratio]
        return [pair for pair in timed if pair[1].kind in CONSUMERS] or timed


def itself(cell: Cell) -> Timing:
    """The calls with the same arrays; of a trace, all calls."""
    return cell


def new_arrays(cell: Cell) -> Timing | None:
    """Calls with arrays that are new each time."""
    return cell.new_arrays


def after_silence(cell: Cell) -> Timing | None:
    """Calls after silence."""
    return cell.after_silence


class Trace(Cells):
    """Calls with new arrays whose numbers of rows vary; a time is that of the average call."""

    rows: tuple[int, ...]
    """Of each call, in order; then again from the first."""


class Case(Cells):
    """One number of rows."""

    rows: int
    rule: str
    """How the wheel splits them into batch sizes (`7:4,1,1,1`)."""
    work: int | None
    """Multiplications and additions in products and convolutions of one call; None if they are not known."""
    peak_gflops: float | None
    """What one core does in a loop of multiply-adds, measured beside the cells."""

    @property
    def share(self) -> float | None:
        """The part of the peak that the wheel reaches."""
        ours = self.cell(OURS)
        if ours is None or ours.gflops is None or not self.peak_gflops:
            return None
        return ours.gflops / self.peak_gflops


class Compared(JsonRecord):
    """One model at one CPU level, with some number of threads."""

    model: str
    version: str
    level: str
    threads: int
    seconds: float | None = None
    """For how long each runtime ran with each number of rows; None if it was not written down."""
    wheel_bytes: int
    weights_bytes: int
    saved_model_bytes: int
    build_seconds: float | None
    """What building took; None if any of it was in the store."""
    sides: tuple[Side, ...]
    cases: tuple[Case, ...]
    trace: Trace | None = None
    """None of a model that was measured with one number of rows."""


class Machine(JsonRecord):
    """Where and with what a comparison was made."""

    date: str
    cpu: str
    level: str
    """The highest CPU level that it supports."""
    cores: int
    load_average: float | None
    """How many processes wanted to run in the minute before."""
    system: str
    python: str
    modelwheel: str


class Benchmark(JsonRecord):
    """A whole comparison."""

    version: Literal[1] = 1
    machine: Machine
    models: tuple[Compared, ...]

    @property
    def mean(self) -> float | None:
        """The geometric mean of how many times as long as the wheel the best other runtime takes."""
        bests = [case.best for model in self.models for case in model.cases]
        return geometric_mean(best.ratio.median for best in bests if best and best.ratio)
