"""The installed package in processes of its own: what an import costs, the levels that it takes, its commands."""

import json
import os
from pathlib import Path

import pytest


def runnable_levels(package):
    for level in package.Model.levels:
        try:
            yield package.Model(level)
        except ValueError:
            continue


# --- import -------------------------------------------------------------------------------------


def test_importing_and_running_starts_no_thread(package, run_python):
    if not Path("/proc/self/task").is_dir():
        pytest.skip("threads are counted in /proc")
    done = run_python(
        "-c",
        "import numpy, os; before = len(os.listdir('/proc/self/task'))\n"
        f"import {package.__name__} as m; m.Model()\n"
        "assert len(os.listdir('/proc/self/task')) == before",
    )
    assert done.returncode == 0, done.stderr


def test_importing_needs_little_beyond_numpy(package, run_python):
    """Modules such as pathlib would take several times as long as everything else here."""
    name = package.__name__
    done = run_python(
        "-c",
        "import numpy, sys; before = set(sys.modules)\n"
        f"import {name}; {name}.Model()\n"
        "print(*set(sys.modules) - before)",
    )
    own = (name, "modelwheel_runtime", "numpy", "__future__")
    assert [new for new in done.stdout.split() if new.partition(".")[0] not in own] == []
    assert name in done.stdout


# --- CPU levels ----------------------------------------------------------------------------------


def test_levels_can_be_forced(package, run_python):
    models = list(runnable_levels(package))
    assert models
    assert [model.level for model in models] == list(package.Model.levels[: len(models)])
    assert package.Model().level in (models[-1].level, os.environ.get("MODELWHEEL_LEVEL"))
    for model in models:
        done = run_python(
            "-c",
            f"import {package.__name__} as m; print(m.Model().level)",
            MODELWHEEL_LEVEL=model.level,
        )
        assert done.stdout.strip() == model.level


def test_unknown_levels_are_refused(package, run_python):
    with pytest.raises(ValueError, match="no such level"):
        package.Model("no such level")
    done = run_python("-m", package.__name__, "bench", MODELWHEEL_LEVEL="no such level")
    assert done.returncode == 1
    assert "MODELWHEEL_LEVEL" in done.stderr
    assert "Traceback" not in done.stderr


# --- commands -----------------------------------------------------------------------------------


def test_description(package, library, run_python):
    done = run_python("-m", package.__name__)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{library.name} {package.__version__}")
    for spec in package.Model.inputs + package.Model.outputs:
        assert spec.name in done.stdout


def test_bench_times_every_batch_size(package, run_python):
    done = run_python("-m", package.__name__, "bench", "--seconds", "0.01")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1 + len(package.Model.batch_sizes)
    done = run_python("-m", package.__name__, "bench", "--seconds", "0.01", "--json")
    for size, timing in zip(package.Model.batch_sizes, json.loads(done.stdout), strict=True):
        assert timing["rule"] == f"{size}:{size}"
        assert timing["nanoseconds"] > 0
