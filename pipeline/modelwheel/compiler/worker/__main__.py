"""The worker: `python -m modelwheel.compiler.worker` reads jobs as lines of JSON and answers each.

`modelwheel.compiler.pool` starts it with the environment variables that TensorFlow reads; the
protocol is described in `modelwheel.compiler.jobs`. Standard output is for answers alone: what
libraries print goes to standard error.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
import traceback
from types import ModuleType
from typing import TextIO

from pydantic import ValidationError

from ...errors import CompileError, EnvironmentProblemError, ModelwheelError
from ...versions import TENSORFLOW_VERSION
from ..jobs import Answer, CompileJob, FreezeJob, InspectJob, Job, Message, parse_job
from .messages import without_node_markup


def main() -> None:
    """Answers jobs until standard input ends."""
    messages, answers = _take_streams()
    for line in messages:
        answer = _answer(Message.model_validate_json(line))
        print(answer.model_dump_json(), file=answers, flush=True)
        # Graphs hold their weights in reference cycles, which would pile up from job to job.
        gc.collect()


def _take_streams() -> tuple[TextIO, TextIO]:
    """Standard input and output for the protocol; nobody else in this process can use them."""
    messages = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # The C++ of TensorFlow writes to descriptor 1, whatever `sys.stdout` is.
    os.dup2(2, 1)
    return messages, answers


def _answer(message: Message) -> Answer:
    start = time.monotonic()
    try:
        job = parse_job(message.job)
        _require_tensorflow()
        _run(job)
    except ModelwheelError as error:
        return _failure(message, type(error).__name__, str(error))
    except ValidationError as error:
        said = f"internal error: the worker does not accept the job: {error}"
        return _failure(message, CompileError.__name__, said, traceback.format_exc())
    except Exception as error:  # noqa: BLE001 - the client gets every failure as an answer
        said = f"TensorFlow failed: {type(error).__name__}: {error}".splitlines()[0]
        return _failure(message, CompileError.__name__, said, traceback.format_exc())
    return Answer(id=message.id, seconds=time.monotonic() - start)


def _failure(message: Message, error: str, said: str, detail: str = "") -> Answer:
    return Answer(id=message.id, error=error, message=without_node_markup(said), detail=detail)


def _require_tensorflow() -> None:
    fix = f"`pip install 'modelwheel[compile]'` installs TensorFlow {TENSORFLOW_VERSION}"
    try:
        tf = _import_tensorflow()
    except ImportError as error:
        raise EnvironmentProblemError(f"TensorFlow cannot be imported ({error}); {fix}") from None
    # The version is part of every key, so code of another one would be taken for this one's.
    if tf.__version__ != TENSORFLOW_VERSION:
        raise EnvironmentProblemError(
            f"TensorFlow {tf.__version__} is installed, whose compiler emits other code; {fix}"
        )


def _import_tensorflow() -> ModuleType:
    """Imports TensorFlow without Keras (1.5 s, 80 MB), which is imported only if a model needs it."""
    if "tensorflow" not in sys.modules:
        # None makes every `import keras` fail, which TensorFlow allows for. The entry is removed
        # again, since models may need Keras later.
        sys.modules["keras"] = None  # type: ignore[assignment]
        try:
            importlib.import_module("tensorflow")
        finally:
            del sys.modules["keras"]
    return sys.modules["tensorflow"]


def _run(job: Job) -> None:
    """Runs a job; each kind has a module, imported late since it imports TensorFlow."""
    if isinstance(job, InspectJob):
        from . import inspect_model

        inspect_model.run(job)
    elif isinstance(job, FreezeJob):
        from . import freeze

        freeze.run(job)
    elif isinstance(job, CompileJob):
        from . import compile as compile_graph

        compile_graph.run(job)
    else:
        from . import reference

        reference.run(job)


if __name__ == "__main__":
    main()
