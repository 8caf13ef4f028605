"""How the end of a process is explained, above all that memory ran out."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.model.readings import OnnxReading, StableHloReading
from modelwheel.sandbox.policy import Limits
from modelwheel.workers.endings import explain_end, ran_out_of_memory, too_large, too_long
from modelwheel.workers.jobs import FreezeRequest, InspectRequest, Job, ReferenceRequest

_FATAL = "F0000 00:00:17 1 b.cc:2] Check failed: a == b"


@pytest.mark.parametrize(
    ("code", "log", "used", "expected"),
    [
        (-6, "terminate called after throwing an instance of 'std::bad_alloc'", 0.0, True),
        (-6, "[low_level_alloc.cc : 599] RAW: mmap error: 12", 0.0, True),
        (
            -6,
            "F0 1 env.cc:84] Check failed: Thread a creation via pthread_create() failed.",
            0,
            True,
        ),
        (1, "numpy: Unable to allocate 141. MiB for an array", 0.0, True),
        # XLA uses what an allocation returns without a look at it.
        (-11, "", 0.6, True),
        (-6, "", 0.6, True),
        (-11, "", 0.01, False),
        (-6, _FATAL, 0.6, False),
        (-8, "", 0.6, False),
        (0, "std::bad_alloc", 0.6, False),
    ],
)
def test_whether_memory_ran_out(code: int, log: str, used: float, expected: bool) -> None:
    assert ran_out_of_memory(code, log, used) is expected


def test_only_an_evaluation_is_smaller_with_fewer_rows() -> None:
    limits = Limits(memory_bytes=6 * 10**9)
    said = str(
        too_large(
            "net/reference", limits, (), job=_job(ReferenceRequest(signature="s", batch_sizes=()))
        )
    )
    assert said == (
        "net/reference needed more than the 6 GB of memory that it may use, and was stopped; set verify.rows in the "
        "spec to fewer rows, make the model or its batch size smaller, or raise `memory_gb` of [sandbox] in "
        "modelwheel.toml"
    )
    assert "verify.rows" not in str(too_large("net/compile", limits, ()))


def test_a_file_that_takes_too_long_to_read_is_named() -> None:
    job = _job(InspectRequest(reading=StableHloReading(file="f.mlir")))
    limits = Limits(wall_seconds=120.4, cpu_seconds=60, memory_bytes=6 * 10**9)
    assert str(too_long("net/inspect", limits, (), job)) == (
        "net/inspect took longer than 1 min and was stopped; f.mlir is small enough to be read in seconds, so that it may "
        "be damaged or hostile: export or fetch it again, or raise `reading_seconds` of [sandbox] in modelwheel.toml"
    )
    assert "f.mlir is small enough to be read with far less" in str(
        too_large("net/inspect", limits, (), job=job)
    )
    assert "`seconds` of [sandbox]" in str(too_long("net/freeze", limits, ()))


def _job(request: InspectRequest | ReferenceRequest) -> Job:
    return request.job(Path("model"), Path("out"))


def test_a_crash_has_a_cause_and_a_fix(tmp_path: Path) -> None:
    onnx = OnnxReading(file="m.onnx")
    job = ReferenceRequest(reading=onnx, signature="s", batch_sizes=(1,)).job(tmp_path, tmp_path)
    assert explain_end(-6, [], job, "Conv 'conv\x1b1'") == (
        "while the ONNX model was evaluated, the worker process crashed with signal 6 (SIGABRT) at Conv 'conv\\x1b1'; "
        "ONNX Runtime itself fails at this file: correct Conv 'conv\\x1b1', or export the model again"
    )
    hlo = StableHloReading(file="m.mlir")
    assert explain_end(-11, [], InspectRequest(reading=hlo).job(tmp_path, tmp_path)) == (
        "while the StableHLO model was read, the worker process crashed with signal 11 (SIGSEGV); MLIR itself fails at "
        "this file: look for extreme sizes and deep nesting in it, or export the model again"
    )
    freeze = FreezeRequest(reading=onnx, signature="s", batch=1).job(tmp_path, tmp_path)
    assert "TensorFlow itself fails at this file" in explain_end(-8, [], freeze)
