"""Worker processes and their client, as far as they go without TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modelwheel.compiler.flags import Flags
from modelwheel.compiler.jobs import Answer, InspectRequest, Job, Message
from modelwheel.compiler.pool import available_memory
from modelwheel.compiler.worker_process import (
    COMMAND,
    WorkerError,
    WorkerProcess,
    explain_end,
    worker_environment,
)


def test_a_worker_inherits_nothing_that_steers_tensorflow() -> None:
    inherited = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "TF_USE_LEGACY_KERAS": "1",
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_XLA_FLAGS": "--tf_xla_auto_jit=2",
        "XLA_FLAGS": "--xla_dump_to=/somewhere",
    }
    environment = worker_environment(
        Flags(("--xla_a=1", "--xla_b"), ("--tf_c",)), inherited, Path("temporary")
    )
    assert environment["TMPDIR"] == environment["TEMP"] == environment["TMP"] == "temporary"
    assert environment["PATH"] == "/bin"
    assert environment["XLA_FLAGS"] == "--xla_a=1 --xla_b"
    assert environment["TF_XLA_FLAGS"] == "--tf_c"
    assert environment["TF_ENABLE_ONEDNN_OPTS"] == "0"
    assert environment["CUDA_VISIBLE_DEVICES"] == "-1"
    assert environment["PYTHONHASHSEED"] == "0"
    assert "TF_USE_LEGACY_KERAS" not in environment


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
@pytest.mark.parametrize(
    ("code", "log", "reason"),
    [
        (-9, [], "killed by signal 9 (SIGKILL), most likely because memory ran out"),
        (-11, ["W0000 00:00:17 1 a.cc:1] slow"], "crashed with signal 11 (SIGSEGV)"),
        (
            -6,
            ["F0000 00:00:17 1 b.cc:2] Check failed: a == b", "*** end of trace ***"],
            "crashed with signal 6 (SIGABRT): Check failed: a == b",
        ),
        (-6, ["LLVM ERROR: Cannot select"], "signal 6 (SIGABRT): LLVM ERROR: Cannot select"),
        (1, [], "ended with exit code 1"),
        (-63, [], "crashed with signal 63"),
        (
            -6,
            ["F0000 00:00:17 1 parse_flags_from_env.cc:2] Unknown flag in XLA_FLAGS: --xla_no=1"],
            "XLA_FLAGS: the compiler has no flag --xla_no=1; remove it from the spec",
        ),
    ],
)
def test_why_a_worker_died(code: int, log: list[str], reason: str) -> None:
    assert reason in explain_end(code, log)


def test_memory_within_a_control_group(tmp_path: Path) -> None:
    assert available_memory(tmp_path / "none") > 0
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 100\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.max").write_text("1000\n")
    assert available_memory(tmp_path) == 200
    (tmp_path / "memory.current").write_text("1200\n")
    assert available_memory(tmp_path) == 0
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(tmp_path) > 1000


def test_a_worker_that_died_before_its_job(tmp_path: Path) -> None:
    """What could not be sent any more is nothing that closing it would fail on."""
    worker = WorkerProcess(Flags(), tmp_path, 1)
    worker.kill()
    while worker.is_alive:
        time.sleep(0.01)
    with pytest.raises(WorkerError, match=r"killed by signal 9|ended with exit code"):
        worker.run(InspectRequest().job(tmp_path, tmp_path))
    worker.close()


def _ask_worker(tensorflow: str, directory: Path, **changes: object) -> Answer:
    """The answer of a worker that imports a module `tensorflow` with this content."""
    (directory / "tensorflow.py").write_text(tensorflow)
    environment = worker_environment(Flags(), os.environ, directory)
    environment["PYTHONPATH"] = f"{directory}{os.pathsep}{environment['PYTHONPATH']}"
    job: Job = InspectRequest().job(directory, directory)
    message = Message(id=7, job={**job.model_dump(mode="json"), **changes})
    done = subprocess.run(
        COMMAND,
        input=message.model_dump_json() + "\n",
        stdout=subprocess.PIPE,
        check=True,
        cwd=directory,
        env=environment,
        encoding="utf-8",
    )
    return Answer.model_validate_json(done.stdout)


@pytest.mark.parametrize(
    ("tensorflow", "words"),
    [
        ("__version__ = '2.20.0'", "TensorFlow 2.20.0 is installed"),
        ("raise ImportError('no such library')", "cannot be imported (no such library)"),
    ],
)
def test_a_worker_refuses_any_tensorflow_but_one(
    tensorflow: str, words: str, tmp_path: Path
) -> None:
    answer = _ask_worker(tensorflow, tmp_path)
    assert (answer.id, answer.error) == (7, "EnvironmentProblemError")
    assert words in answer.message
    assert "pip install 'modelwheel[compile]'" in answer.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "inspekt"}, "inspekt"),
        ({"request": {"signature": "serving_default"}}, "request.signature"),
        ({"inputs": {}}, "inputs.saved_model"),
        ({"out": None}, "out"),
    ],
)
def test_a_worker_validates_jobs_on_arrival(
    changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    answer = _ask_worker("raise SystemExit", tmp_path, **changes)
    assert (answer.id, answer.error) == (7, "CompileError")
    assert "internal error: the worker does not accept the job" in answer.message
    assert words in answer.message
    assert "Traceback" in answer.detail


def test_what_libraries_print_does_not_reach_the_answers(tmp_path: Path) -> None:
    noisy = "import os\nprint('hello')\nos.write(1, b'hello again')\n__version__ = '1'"
    assert _ask_worker(noisy, tmp_path).error == "EnvironmentProblemError"


def test_the_client_and_its_requests_do_not_import_tensorflow() -> None:
    modules = "check flags freeze inspection jobs pool reference shapes worker_process"
    code = f"""
import importlib, sys
for name in {modules.split()}:
    importlib.import_module(f"modelwheel.compiler.{{name}}")
sys.exit("tensorflow" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
