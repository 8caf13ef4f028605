"""`make demo`: a digit classifier from training to prediction in an environment without TensorFlow.

Everything lands under `.demo/`; a second run reuses what has not changed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.demo.data import WORK, pin_spec, run, saved_model, say
from tests.demo.train import held_out

SAVED_MODEL = saved_model("digits")
ENVIRONMENT = WORK / "consumer"
WHEELS = WORK / "wheels"
ROUNDS = 5


def main() -> None:
    """Runs every step and prints what came out."""
    wheel = build_wheel(pin_spec("digits"))
    python = install(wheel)
    images = WORK / "held-out.npz"
    _, _, pixels, labels = held_out()
    np.savez(images, images=pixels, labels=labels)
    print_results(compare(python, images), wheel)


def build_wheel(spec: Path) -> Path:
    """Runs the pipeline; returns the wheel."""
    run(sys.executable, "-m", "modelwheel", "build", spec, "--out", WHEELS)
    (wheel,) = WHEELS.glob("model_digits-*.whl")
    return wheel


def install(wheel: Path) -> Path:
    """Installs the wheel, and what it depends on, into a new environment; returns its interpreter."""
    say("installing it into an empty environment")
    venv.EnvBuilder(clear=True, with_pip=False, symlinks=True).create(ENVIRONMENT)
    python = ENVIRONMENT / "bin" / "python"
    run(sys.executable, "-m", "pip", "--quiet", "--python", python, "install", wheel)
    packages = run(
        sys.executable, "-m", "pip", "--python", python, "list", "--format=json", capture=True
    )
    names = {package["name"] for package in json.loads(packages)}
    assert names == {"model-digits", "numpy"}, names
    return python


def compare(python: Path, images: Path) -> dict[str, Any]:
    """Lets both predict, and measures them in turn, so that both see the same state of the machine."""
    say("predicting with both, timing them in turn")
    sides = {
        "wheel": start(python, "predict_wheel.py", images),
        "tensorflow": start(Path(sys.executable), "predict_tensorflow.py", images, SAVED_MODEL),
    }
    answers = {name: json.loads(side.stdout.readline()) for name, side in sides.items()}
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            side.stdin.write("measure\n")
            side.stdin.flush()
            rounds[name].append(json.loads(side.stdout.readline()))
    for side in sides.values():
        side.stdin.close()
        side.wait()
    difference = np.abs(
        np.subtract(answers["wheel"]["probabilities"], answers["tensorflow"]["probabilities"])
    ).max()
    return {"answers": answers, "rounds": rounds, "difference": float(difference)}


def print_results(results: dict[str, Any], wheel: Path) -> None:
    """The table that the README shows."""
    answers, rounds = results["answers"], results["rounds"]
    table = Table(
        "", "model-digits", "TensorFlow", "ratio", title="model-digits against TensorFlow"
    )
    table.add_row(
        "accuracy on the held-out digits",
        f"{answers['wheel']['accuracy']:.2%}",
        f"{answers['tensorflow']['accuracy']:.2%}",
        "",
    )
    table.add_row("largest difference of a probability", f"{results['difference']:.1e}", "", "")
    for batch in ("1", "32"):
        ours = [entry[batch] for entry in rounds["wheel"]]
        theirs = [entry[batch] for entry in rounds["tensorflow"]]
        ratio = statistics.median(t / o for o, t in zip(ours, theirs, strict=True))
        table.add_row(
            f"time per image, batch {batch}",
            f"{statistics.median(ours) * 1e6:.2f} us",
            f"{statistics.median(theirs) * 1e6:.2f} us",
            f"{ratio:.0f} x",
        )
    saved_model = sum(f.stat().st_size for f in SAVED_MODEL.rglob("*") if f.is_file())
    table.add_row(
        "size of the wheel, of the SavedModel",
        f"{wheel.stat().st_size / 1000:.0f} kB",
        f"{saved_model / 1000:.0f} kB",
        f"{saved_model / wheel.stat().st_size:.2f} x",
    )
    ours, theirs = answers["wheel"]["import_ms"], answers["tensorflow"]["import_ms"]
    table.add_row(
        "import time (without numpy's)",
        f"{ours:.1f} ms",
        f"{theirs:.0f} ms",
        f"{theirs / ours:.0f} x",
    )
    Console().print(table)


def start(python: Path, script: str, *arguments: Path) -> Any:
    """One side of the comparison, as a process that answers line by line."""
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }
    return subprocess.Popen(
        [python, Path(__file__).with_name(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    )


if __name__ == "__main__":
    main()
