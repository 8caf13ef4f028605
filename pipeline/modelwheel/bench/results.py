"""The results of a comparison, as they are stored in JSON."""

from __future__ import annotations

from typing import Literal

from ..util.records import JsonRecord
from .statistics import Spread, geometric_mean

Kind = Literal["wheel", "other_wheel", "onnxruntime", "openvino", "litert", "tensorflow", "xla"]

OURS: Kind = "wheel"

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


class Cell(JsonRecord):
    """One runtime with one number of rows."""

    kind: Kind
    us: Spread | None = None
    """Microseconds of a call."""
    ratio: Spread | None = None
    """How many times as long as the wheel it takes; None for the wheel."""
    latency: tuple[float, float, float] | None = None
    """Microseconds that half, 99 % and 99.9 % of the calls do not exceed."""
    gflops: float | None = None
    """Billions of multiplications and additions in products and convolutions in a second."""
    error: str | None = None
    """Why it was not measured."""


class Case(JsonRecord):
    """One number of rows."""

    rows: int
    rule: str
    """How the wheel splits them into batch sizes (`7:4,1,1,1`)."""
    work: int | None
    """Multiplications and additions in products and convolutions of one call; None if they are not known."""
    peak_gflops: float | None
    """What one core does in a loop of multiply-adds, measured beside the cells."""
    cells: tuple[Cell, ...]

    def cell(self, kind: Kind) -> Cell | None:
        """The cell of a runtime."""
        return next((cell for cell in self.cells if cell.kind == kind), None)

    @property
    def share(self) -> float | None:
        """The part of the peak that the wheel reaches."""
        ours = self.cell(OURS)
        if ours is None or ours.gflops is None or not self.peak_gflops:
            return None
        return ours.gflops / self.peak_gflops

    @property
    def best(self) -> Cell | None:
        """The quickest of the runtimes that a consumer could use, or of all others if there is none."""
        timed = [cell for cell in self.cells if cell.ratio is not None and cell.us is not None]
        chosen = [cell for cell in timed if cell.kind in CONSUMERS] or timed
        return min(chosen, key=lambda cell: cell.ratio.median if cell.ratio else 0, default=None)


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
