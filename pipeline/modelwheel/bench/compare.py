"""Compares one wheel with the runtimes that are installed here: each alone, single- or multi-threaded."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import __version__
from ..assembly.manifest import Manifest
from ..errors import UsageError
from ..levels import LEVELS, cpu_level, cpu_name
from ..program.program import Program
from ..request import Extent
from ..sandbox.choose import Sandbox
from ..source.references import find_references
from ..util.processes.groups import kill_group
from ..util.watching import NOBODY, Watcher, each, step
from ..verify.environment import InstalledWheel, compile_modules, install_wheel
from ..wheelfile.wheel import open_wheel
from .cpu import LowerCpu, lower_cpu
from .peak import build_peak
from .process import PATIENCE, SAMPLES, SIDE, SideError, end_of_log, start
from .process import Program as Started
from .race import ACCEPTED, Race, run_race
from .results import OURS, Case, Compared, Kind, Machine
from .usage import trace_of
from .work import work_of_row

FORMATS: Mapping[str, tuple[Kind, ...]] = {
    "onnx": ("onnxruntime", "openvino"),
    "tflite": ("litert",),
    "saved_model": ("tensorflow", "xla"),
}
"""The runtimes that read a file of each format."""

_MODULES: Mapping[Kind, str] = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "litert": "ai_edge_litert",
    "tensorflow": "tensorflow",
    "xla": "tensorflow",
}


_LARGEST_ERROR = 20.0
"""How many times as large as the root mean square of the errors of 8-bit integers their largest one may be."""


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    rows: Sequence[int] = ()
    """Numbers of rows; by default the compiled batch sizes."""
    levels: Sequence[str] = ()
    """CPU levels of the wheel; by default the highest of this machine."""
    threads: int = 1
    seconds: float = 1.0
    """Of each side for each number of rows."""
    rounds: int = 7
    as_programs: bool = True
    """Whether to time calls with new arrays, with rows that vary, and after silence too."""


@dataclass(frozen=True)
class Contender:
    """A wheel, and files with the same model for other runtimes."""

    wheel: Path
    needed: Sequence[Path] = ()
    """Wheels that it depends on."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """By format, see `FORMATS`."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why there is no file of a format."""
    programs: Mapping[str, Mapping[Extent, Program]] = field(default_factory=dict)
    """What was compiled for each level, if it is known: it says how much arithmetic a call needs."""
    build_seconds: float | None = None
    constants: Mapping[str, object] = field(default_factory=dict)
    """Inputs of the files that the wheel does not have, because its spec makes them constant."""


def describe_machine() -> Machine:
    """This machine."""
    return Machine(
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        cpu=cpu_name(),
        level=cpu_level().name,
        cores=os.cpu_count() or 1,
        load_average=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        system=platform.platform(),
        python=platform.python_version(),
        modelwheel=__version__,
    )


def compare(
    contender: Contender,
    settings: Settings,
    sandbox: Sandbox,
    directory: Path,
    copies: Path | None = None,
    watcher: Watcher = NOBODY,
) -> list[Compared]:
    """Measures a model at every level that is asked for.

    Args:
        contender: The wheel and the files of its peers.
        settings: How to measure.
        sandbox: Where everything runs.
        directory: An empty directory for environments and files.
        copies: A directory for patched copies of other runtimes, which later comparisons use again; by default one
            in `directory`.
        watcher: Receives the name of each level.

    Raises:
        UsageError: The wheel has no such level, or cannot run that number of rows.
        WheelError: It cannot be installed.
        VerifyError: It fails.
    """
    wheel = open_wheel(contender.wheel)
    manifest, here = wheel.manifest, cpu_level().name
    order = list(LEVELS)
    usable = [name for name in manifest.levels if order.index(name) <= order.index(here)]
    unknown = [name for name in settings.levels if name not in usable]
    if unknown or not usable:
        raise UsageError(
            f"{wheel.name} cannot be measured at {', '.join(unknown) or here} here; "
            f"possible: {', '.join(usable) or 'none'}"
        )
    module = manifest.model.module
    with step(f"{manifest.model.name}/install", watcher):
        installed = install_wheel(contender.wheel, module, directory, sandbox, contender.needed)
        # The other runtimes are installed, hence compiled. NumPy is imported before anything is measured.
        compile_modules(installed.python, unless=r"site-packages[/\\]numpy[/\\]")
    compared = []
    levels = settings.levels or usable[-1:]
    for level in each(levels, lambda level: f"{manifest.model.name}/measure {level}", watcher):
        own = directory / level
        own.mkdir()
        lower = lower_cpu(LEVELS[level], own, copies or directory / "copies")
        compared.append(
            _at_level(level, contender, manifest, installed, settings, sandbox, own, lower)
        )
    return compared


def _at_level(
    level: str,
    contender: Contender,
    manifest: Manifest,
    installed: InstalledWheel,
    settings: Settings,
    sandbox: Sandbox,
    directory: Path,
    lower: LowerCpu | None,
) -> Compared:
    rows = list(settings.rows or manifest.batching.sizes)
    batching = manifest.batching
    possible = batching.sizes if batching.no_emulation_reason else ()
    trace = trace_of(max(rows), possible) if settings.as_programs else ()
    inputs = directory / "inputs"
    rules = _write_inputs(installed, level, sorted({*rows, *trace}), sandbox, inputs)
    if contender.constants:
        _write_constants(contender.constants, inputs)
    files, missing = _peers(contender)
    variables = _variables(settings.threads)

    def program(kind: Kind, path: Path) -> Started:
        # The wheel is told its level; other runtimes use what they find.
        lowered = () if lower is None else lower.files(_MODULES[kind])
        arguments = (kind, path, str(settings.threads), level, inputs, str(rows[0]), *lowered)
        read = (*_with_references(path), inputs, *lowered)
        return Started(Path(sys.executable), SIDE, arguments, read, variables)

    programs = contender.programs.get(level, {})
    row = work_of_row({extent.batch: one for extent, one in sorted(programs.items())})
    race = Race(
        programs={
            OURS: _wheel_program(installed, level, rows, settings, inputs),
            **{kind: program(kind, path) for kind, path in files.items()},
        },
        missing=missing,
        inputs=inputs,
        rows=rows,
        rules=rules,
        work={} if row is None else {number: round(number * row) for number in rows},
        peak=None if row is None else build_peak(LEVELS[level], directory),
        seconds=settings.seconds,
        rounds=settings.rounds,
        as_programs=settings.as_programs,
        trace=trace,
        accepted=_accepted(manifest),
    )
    found = run_race(race, sandbox, directory / "sides")
    return Compared(
        model=manifest.model.name,
        version=manifest.model.version,
        level=level,
        threads=settings.threads,
        seconds=settings.seconds,
        wheel_bytes=contender.wheel.stat().st_size,
        weights_bytes=manifest.sizes.weights,
        saved_model_bytes=manifest.sizes.saved_model,
        build_seconds=contender.build_seconds,
        sides=found.sides,
        cases=found.cases,
        trace=found.trace,
    )


def _accepted(manifest: Manifest) -> float:
    """By how much outputs may differ: those of layers of narrower numbers by more than their mean error, which was measured."""
    quantization = manifest.compiler.quantization
    errors = quantization.errors.values() if quantization else ()
    return max(ACCEPTED, _LARGEST_ERROR * max(errors, default=0.0))


def compare_wheels(
    wheels: tuple[Path, Path],
    settings: Settings,
    sandbox: Sandbox,
    directory: Path,
    needed: Sequence[Path] = (),
) -> tuple[Case, ...]:
    """Measures two wheels of one model in turn, at the highest level of this machine.

    Args:
        wheels: The one that counts as the wheel of each case, and the one whose cell is `other_wheel`. Both have the
            same interface.
        settings: How to measure; its levels are not used.
        sandbox: Where both run.
        directory: An empty directory for environments and files.
        needed: Wheels that both depend on.

    Raises:
        WheelError: One cannot be installed.
        VerifyError: One fails.
    """
    manifest = open_wheel(wheels[0]).manifest
    order = list(LEVELS)
    level = [one for one in manifest.levels if order.index(one) <= order.index(cpu_level().name)][
        -1
    ]
    installed = []
    for name, wheel in zip(("one", "other"), wheels, strict=True):
        own = directory / name
        own.mkdir()
        installed.append(install_wheel(wheel, manifest.model.module, own, sandbox, needed))
        compile_modules(installed[-1].python, unless=r"site-packages[/\\]numpy[/\\]")
    rows, inputs = list(settings.rows or manifest.batching.sizes), directory / "inputs"
    rules = _write_inputs(installed[0], level, rows, sandbox, inputs)
    ours, theirs = (_wheel_program(it, level, rows, settings, inputs) for it in installed)
    race = Race(
        programs={OURS: ours, "other_wheel": theirs},
        missing={},
        inputs=inputs,
        rows=rows,
        rules=rules,
        work={},
        peak=None,
        seconds=settings.seconds,
        rounds=settings.rounds,
    )
    return run_race(race, sandbox, directory / "sides").cases


def _wheel_program(
    installed: InstalledWheel, level: str, rows: Sequence[int], settings: Settings, inputs: Path
) -> Started:
    arguments = (OURS, installed.module, str(settings.threads), level, inputs, str(rows[0]))
    read = (installed.python.parents[1], inputs)
    return Started(installed.python, SIDE, arguments, read, _variables(settings.threads))


def _with_references(path: Path) -> Iterator[Path]:
    """The file of a model and those with its weights: whoever reads it sees no others."""
    yield path
    if path.suffix == ".onnx":
        with path.open("rb") as file:
            references = find_references(file)
        yield from filter(Path.is_file, (path.parent / name for name in references))


def _peers(contender: Contender) -> tuple[dict[Kind, Path], dict[Kind, str]]:
    """The file that each runtime reads, and why others cannot run."""
    files: dict[Kind, Path] = {}
    missing: dict[Kind, str] = {}
    for name, kinds in FORMATS.items():
        for kind in kinds:
            if importlib.util.find_spec(_MODULES[kind]) is None:
                missing[kind] = "not installed: pip install 'modelwheel[bench]'"
            elif name in contender.files:
                files[kind] = contender.files[name].absolute()
            else:
                missing[kind] = contender.failures.get(name, f"there is no {name} file")
    return files, missing


def _variables(threads: int) -> dict[str, str]:
    return {
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        # Nobody but the runtimes decides how many threads there are.
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _write_inputs(
    installed: InstalledWheel, level: str, rows: Sequence[int], sandbox: Sandbox, directory: Path
) -> dict[int, str]:
    """Writes `ROWS.npz` for every number of rows; gives how the wheel splits each."""
    arguments = (installed.module, level, *map(str, rows))
    environment = installed.python.parents[1]
    program = Started(installed.python, SAMPLES, arguments, (environment,), _variables(1))
    process = start(program, sandbox, directory)
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        kill_group(process)
        raise SideError(f"{installed.wheel.name} took too long to give inputs") from None
    if process.returncode:
        raise SideError(
            f"{installed.wheel.name} has no inputs for {', '.join(map(str, rows))} rows: "
            f"{end_of_log(directory)}"
        )
    try:
        rules = json.loads(output)["rules"]
        return {number: str(rules[str(number)]) for number in rows}
    except (ValueError, KeyError, TypeError):
        raise SideError(f"{installed.wheel.name} gave no rules for its rows") from None


def _write_constants(constants: Mapping[str, object], directory: Path) -> None:
    """Writes what other runtimes take beside the inputs: integers of 64 bits and floats of 32, as exporters do."""
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    narrow = {k: a.astype(np.float32) if a.dtype == np.float64 else a for k, a in arrays.items()}
    np.savez(directory / "constants.npz", **narrow)  # type: ignore[arg-type]
