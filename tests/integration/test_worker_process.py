"""Worker processes and their client, as far as they go without TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tests
from modelwheel.model.readings import OnnxReading
from modelwheel.sandbox.choose import Sandbox
from modelwheel.sandbox.policy import Limits
from modelwheel.workers import client as worker_process
from modelwheel.workers.client import (
    COMMAND,
    FORKS,
    WorkerProcess,
    WorkerSettings,
    start,
    worker_environment,
)
from modelwheel.workers.endings import WorkerError, explain_end
from modelwheel.workers.flags import Flags
from modelwheel.workers.jobs import FreezeRequest, InspectRequest, Job
from modelwheel.workers.pool import available_memory
from modelwheel.workers.protocol import Answer, Hello, Message, Reply


def test_a_worker_inherits_nothing_that_steers_tensorflow_and_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hostile = {
        "TF_USE_LEGACY_KERAS": "1",
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_XLA_FLAGS": "--tf_xla_auto_jit=2",
        "XLA_FLAGS": "--xla_dump_to=/somewhere",
        "PYTHONSTARTUP": "/somewhere",
        "LD_PRELOAD": "/somewhere.so",
        "GITHUB_TOKEN": "secret",
        "HTTPS_PROXY": "http://me:secret@proxy",
    }
    for name, value in {"PATH": "/bin", **hostile}.items():
        monkeypatch.setenv(name, value)
    environment = worker_environment(Flags(("--xla_a=1", "--xla_b"), ("--tf_c",)))
    assert environment["PATH"] == "/bin"
    assert environment["XLA_FLAGS"] == "--xla_a=1 --xla_b"
    assert environment["TF_XLA_FLAGS"] == "--tf_c"
    assert environment["TF_ENABLE_ONEDNN_OPTS"] == "0"
    assert environment["CUDA_VISIBLE_DEVICES"] == "-1"
    assert environment["PYTHONHASHSEED"] == "0"
    assert not hostile.keys() & environment.keys() - {
        "TF_XLA_FLAGS",
        "XLA_FLAGS",
        "TF_ENABLE_ONEDNN_OPTS",
    }


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
    worker = WorkerProcess(start(WorkerSettings(), Flags(), tmp_path, 1))
    worker.kill()
    while worker.is_alive:
        time.sleep(0.01)
    with pytest.raises(WorkerError, match=r"killed by signal 9|ended with exit code"):
        worker.run(InspectRequest().job(tmp_path / "none", tmp_path), Limits())
    worker.close()


_FOREIGN = """
import sys
from modelwheel.workers.protocol import Answer, Hello, Message, Reply
hello = Hello.model_validate_json(sys.stdin.readline())
message = Message.model_validate_json(sys.stdin.readline())
reply = Reply(nonce=hello.nonce, id=message.id, ending="answered", answer=Answer())
CHANGE
sys.stdin.readline()
"""
"""A worker that does not keep to the protocol."""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("print('hello', flush=True)", "the worker sent no valid reply"),
        ("print('[' * (1 << 23), flush=True)", "the worker sent no valid reply"),
        (
            "print(reply.model_copy(update={'id': 17}).model_dump_json(), flush=True)",
            "the worker answered 17, which is not asked",
        ),
        (
            "print(reply.model_copy(update={'nonce': ''}).model_dump_json(), flush=True)",
            "a reply does not come from the worker",
        ),
        ("sys.exit(3)", "the worker process ended with exit code 3"),
    ],
)
def test_a_worker_that_does_not_keep_to_the_protocol(
    change: str, words: str, tmp_path: Path
) -> None:
    command = (sys.executable, "-c", _FOREIGN.replace("CHANGE", change))
    worker = WorkerProcess(start(WorkerSettings(command), Flags(), tmp_path, 1))
    with pytest.raises(WorkerError, match=words):
        worker.run(InspectRequest().job(tmp_path / "none", tmp_path), Limits())
    assert not worker.is_alive
    worker.close()


def _ask_worker(tensorflow: str, directory: Path, forks: bool, **changes: object) -> Answer:
    """The answer of a worker that imports a module `tensorflow` with this content."""
    (directory / "tensorflow.py").write_text(tensorflow)
    environment = {**os.environ, **worker_environment(Flags())}
    environment["PYTHONPATH"] = f"{directory}{os.pathsep}{environment['PYTHONPATH']}"
    job: Job = InspectRequest().job(directory, directory)
    hello = Hello(nonce="a", forks=forks)
    message = Message(
        id=7,
        job={**job.model_dump(mode="json"), **changes},
        inputs=directory,
        scratch=directory,
        limits=Limits(),
    )
    with subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=directory.parent,
        env=environment,
        encoding="utf-8",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{hello.model_dump_json()}\n{message.model_dump_json()}\n")
        process.stdin.flush()
        reply = Reply.model_validate_json(process.stdout.readline())
        process.stdin.close()
    assert process.returncode == 0
    assert (reply.nonce, reply.id) == ("a", 7)
    assert reply.answer is not None
    return reply.answer


both_ways = pytest.mark.parametrize("forks", [True, False] if FORKS else [False])


@both_ways
@pytest.mark.parametrize(
    ("tensorflow", "words"),
    [
        ("__version__ = '2.20.0'", "TensorFlow 2.20.0 is installed"),
        ("raise ImportError('no such library')", "cannot be imported (no such library)"),
    ],
)
def test_a_worker_refuses_any_tensorflow_but_one(
    tensorflow: str, words: str, forks: bool, tmp_path: Path
) -> None:
    answer = _ask_worker(tensorflow, tmp_path, forks)
    assert answer.error == "EnvironmentProblemError"
    assert words in answer.message
    assert "pip install 'modelwheel[compile]'" in answer.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "inspekt"}, "inspekt"),
        ({"request": {"signature": "serving_default"}}, "request.signature"),
        ({"inputs": {}}, "inputs.model"),
        ({"out": None}, "out"),
    ],
)
def test_a_worker_validates_jobs_on_arrival(
    changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    answer = _ask_worker("raise ImportError", tmp_path, FORKS, **changes)
    assert answer.error == "CompileError"
    assert "internal error: the worker does not accept the job" in answer.message
    assert words in answer.message
    assert "Traceback" in answer.detail


@pytest.mark.skipif(not FORKS, reason="workers fork on Linux")
def test_a_worker_with_threads_does_not_fork(tmp_path: Path) -> None:
    """A lock that another thread holds would never be released in the child."""
    threaded = (
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    command = (
        sys.executable,
        "-c",
        f"{threaded}\nfrom tests.support.toy_worker import *\nserve(ToyWork())",
    )
    settings = WorkerSettings(command, Sandbox("none", "none"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_process, "modelwheel", tests)
        worker = WorkerProcess(start(settings, Flags(), tmp_path, 1))
    with pytest.raises(WorkerError, match="exit code 1") as caught:
        worker.run(InspectRequest().job(tmp_path / "none", tmp_path), Limits())
    assert "the worker has 2 threads and cannot fork" in caught.value.detail
    worker.close()


@both_ways
def test_what_libraries_print_does_not_reach_the_answers(forks: bool, tmp_path: Path) -> None:
    noisy = "import os\nprint('hello')\nos.write(1, b'hello again')\n__version__ = '1'"
    assert _ask_worker(noisy, tmp_path, forks).error == "EnvironmentProblemError"


def test_the_client_and_its_requests_do_not_import_tensorflow() -> None:
    modules = (
        "model.check model.frozen_signature model.inspection model.reference_result model.shapes workers.client "
        "workers.endings workers.exchange workers.flags workers.jobs workers.pool workers.protocol workers.workers"
    )
    code = f"""
import importlib, sys
for name in {modules.split()}:
    importlib.import_module(f"modelwheel.{{name}}")
sys.exit("tensorflow" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


_CRASHING = """
import os
from modelwheel.workers.trail import follows, note
from modelwheel.workers.server.serve import serve

class Work:
    def prepare(self): ...
    def name_layers(self, job): return ()
    def run(self, job):
        for name in ("Relu 'a'", "Conv 'b\\u202e'"):
            note(name)
        os.abort()

serve(Work())
"""


@pytest.mark.skipif(not FORKS, reason="a job that crashes ends the worker")
def test_a_crash_names_the_node(tmp_path: Path) -> None:
    command = (sys.executable, "-c", _CRASHING)
    worker = WorkerProcess(start(WorkerSettings(command), Flags(), tmp_path, 1))
    for name in ("model", "out"):
        (tmp_path / name).mkdir()
    request = FreezeRequest(reading=OnnxReading(file="m.onnx"), signature="s", batch=1)
    with pytest.raises(WorkerError, match=r"\(SIGABRT\) at Conv 'b\\u202e'") as caught:
        worker.run(request.job(tmp_path / "model", tmp_path / "out"), Limits())
    assert "correct Conv" in str(caught.value)
    with pytest.raises(WorkerError) as caught:  # it says nothing about where it is
        worker.run(InspectRequest().job(tmp_path / "model", tmp_path / "out"), Limits())
    assert " at Conv" not in str(caught.value)
    worker.close()
