"""A worker process that speaks the protocol without TensorFlow: `python toy_worker.py`.

What it does with a job is said in the file `behaviour` of the job's SavedModel: a line for each word
below; without the file it writes all outputs.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from modelwheel.compiler.inspection import INSPECTION, Inspection, SignatureInfo, TensorInfo
from modelwheel.compiler.jobs import Answer, InspectJob, Job, Message, parse_job

COMMAND = (sys.executable, str(Path(__file__)))
"""Starts it."""


def inspection() -> Inspection:
    """What it finds in every model: the signature `serving_default`, from `x` to `y`."""
    tensors = {n: (TensorInfo(name=n, dtype="float32", shape=(None, 4)),) for n in ("x", "y")}
    signature = SignatureInfo(key="serving_default", inputs=tensors["x"], outputs=tensors["y"])
    return Inspection(
        written_by="toy", tags=(), signatures=(signature,), ops=(), assets=(), initializers=()
    )


def main() -> None:
    """Answers jobs until standard input ends."""
    Path(tempfile.mkstemp()[1]).write_text("a temporary file of a compiler")
    for line in sys.stdin:
        message = Message.model_validate_json(line)
        sys.stdout.write(f"{_answer(message.id, parse_job(message.job))}\n")
        sys.stdout.flush()


def _answer(number: int, job: Job) -> str:
    answer = Answer(id=number, seconds=0.5)
    for word, _, rest in (line.partition(" ") for line in _behaviour(job)):
        match word:
            case "refuse":
                answer = Answer(id=number, error="UnsupportedModelError", message=rest)
            case "fail":
                answer = Answer(id=number, error="CompileError", message=rest, detail="Traceback")
            case "sleep":
                time.sleep(float(rest))
            case "crash":
                sys.stderr.write(f"{rest}\n")
                sys.stderr.flush()
                os.kill(os.getpid(), signal.SIGABRT)
            case "exit":
                sys.exit(int(rest))
            case "forget":
                (job.out / rest).unlink()
            case "add":
                (job.out / rest).write_text("")
            case "number":
                answer = Answer(id=int(rest))
            case "say":
                return rest
    return answer.model_dump_json()


def _behaviour(job: Job) -> list[str]:
    for name in job.request.OUTPUTS:
        (job.out / name).write_text("")
    if isinstance(job, InspectJob):
        inspection().save(job.out / INSPECTION)
    path = next(iter(dict(job.inputs).values())) / "behaviour"
    return path.read_text().splitlines() if path.is_file() else []


if __name__ == "__main__":
    main()
