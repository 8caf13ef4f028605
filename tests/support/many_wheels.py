"""Wheels of many models, as a release with every platform and Python leaves them: for pages at their full size."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

from modelwheel.assembly.manifest import Manifest, Variant
from modelwheel.platforms import PYTHONS
from modelwheel.signature import Signature, Tensor, ValidRange
from modelwheel.wheelfile.reports import (
    Comparison,
    Report,
    Timing,
    write_report,
    write_timings,
    write_upload,
)
from tests.support.index_wheels import make_manifest, make_wheel

PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_28_aarch64",
    "macosx_11_0_arm64",
    "macosx_10_15_x86_64",
    "win_amd64",
    "musllinux_1_2_x86_64",
    "musllinux_1_2_aarch64",
)
"""Those of a full release."""

LEVELS = ("x86-64", "x86-64-v3", "x86-64-v4")
SIZES = (1, 4, 16)
CPU = "Intel(R) Xeon(R) Platinum 8488C"

_TASKS = (
    ("jet-tagger", "Tags jets by flavour from the tracks and vertices in a cone around them", "physics"),
    ("digit-reader", "Reads handwritten digits from grey images of 8 by 8 pixels", "vision"),
    ("denoiser", "Removes noise from speech of one microphone, frame by frame", "audio"),
    ("keyword-spotter", "Hears ten short words in one second of sound", "audio"),
    ("tower-calibration", "Corrects the energies of calorimeter towers for their age and their neighbours", "physics"),
    ("fraud-score", "Scores card payments by how unusual they are for their owner", "tables"),
    ("sentiment", "Says whether a review in English is friendly, from its words", "text"),
    ("depth", "Estimates the distance of each pixel in a picture of a street", "vision"),
)  # fmt: skip
_LICENCES = ("Apache-2.0", "MIT", "BSD-3-Clause", "CC-BY-4.0", "CC0-1.0")


def describe(name: str, number: int, version: str = "1.2.0") -> Manifest:
    """The manifest of a model with several inputs and outputs, three batch sizes and three CPU levels."""
    _, summary, kind = _TASKS[number % len(_TASKS)]
    plain = make_manifest(name, version=version)
    model = plain.model.model_copy(
        update={
            "author": "Particle and Image Group, University of Somewhere",
            "summary": f"{summary}.",
            "description": (
                f"{summary}. Trained on two million simulated examples; the last layer is a softmax.\n\n"
                "Intended for offline analysis. It was not trained on values outside the ranges below."
            ),
            "license": "Apache-2.0",
            "weights_license": _LICENCES[number % len(_LICENCES)],
            "keywords": (kind, "small" if number % 2 else "wide", f"group-{number % 7}"),
            "urls": {"Paper": "https://example.org/paper", "Training": "https://example.org/train"},
        }
    )
    bound = ValidRange(low=0, high=256)
    signature = Signature(
        inputs=(
            _tensor("tracks", (None, 32, 16)),
            _tensor("jet", (None, 8)).model_copy(update={"valid": (bound,)}),
        ),
        outputs=(_tensor("flavour", (None, 4)), _tensor("energy", (None, 1))),
    )
    costs = {1: 900.0, 4: 2100.0, 16: 6400.0}
    variants = tuple(
        Variant(level=level, batch_size=n, object="o", operations=1, bytes_moved=1, cost=costs[n])
        for level in LEVELS
        for n in SIZES
    )
    batching = plain.batching.model_copy(update={"sizes": SIZES})
    return plain.model_copy(
        update={
            "model": model,
            "signature": signature,
            "batching": batching,
            "variants": variants,
            "levels": LEVELS,
        }
    )


def _tensor(name: str, shape: tuple[int | None, ...]) -> Tensor:
    return Tensor(name=name, c_name=name, dtype="float32", shape=shape, leading_per_row=1)


def make_release(
    directory: Path,
    name: str,
    number: int = 0,
    *,
    version: str = "1.2.0",
    platforms: Sequence[str] = PLATFORMS,
    pythons: Sequence[str] = PYTHONS,
    day: int = 0,
) -> list[Path]:
    """The wheels of one version, the first of them measured; `pythons` empty makes `py3-none` wheels."""
    manifest = describe(name, number, version)
    tags = [f"{p.rstrip('t')}-{p}" for p in pythons] or ["py3-none"]
    released = datetime(2026, 3, 1, 9, tzinfo=timezone.utc) + timedelta(days=day)
    wheels = []
    for platform in platforms:
        for tag in tags:
            wheel = make_wheel(
                directory, name, version=version, tag=f"{tag}-{platform}", manifest=manifest,
                requires=["numpy>=1.26"], bill='{"bomFormat": "CycloneDX"}',
            )  # fmt: skip
            write_upload(released, wheel)
            wheels.append(wheel)
    measure(wheels[0], number)
    return wheels


def measure(wheel: Path, number: int = 0) -> None:
    """Puts a report and timings with those of the framework beside a wheel."""
    factor = 1 + number % 9 / 3
    shares = {"flavour": (0.08, 0.11, 0.17), "energy": (0.02, 0.31, 0.42)}
    comparisons = tuple(
        Comparison(
            level=level, rows=rows, rule=f"{rows}:{rows}", output=output, absolute=share * 1e-5,
            relative=share * 1e-6, limit=1e-5, passed=True,
        )
        for output, parts in shares.items()
        for level, share in zip(LEVELS, parts, strict=True)
        for rows in (1, 7, 16)
    )  # fmt: skip
    write_report(Report(passed=True, comparisons=comparisons, skipped={}), wheel)
    times = {1: 5200.0, 4: 11800.0, 16: 38000.0}
    ours = [
        Timing(level="x86-64-v4", rows=n, rule=f"{n}:{n}", nanoseconds=factor * ns, cpu=CPU)
        for n, ns in times.items()
    ]
    theirs = [
        Timing(level="", rows=n, rule="", nanoseconds=ns, cpu=CPU, framework="TensorFlow 2.21.0")
        for n, ns in ((1, 402_000.0), (16, 455_000.0))
    ]
    write_timings([*ours, *theirs], wheel)


def make_collection(directory: Path, models: int) -> None:
    """One wheel for two platforms of each of many models, with texts of the usual length."""
    for number in range(models):
        name = f"{_TASKS[number % len(_TASKS)][0]}-{number:03d}"
        make_release(directory, name, number, platforms=PLATFORMS[:2], pythons=(), day=number % 200)
