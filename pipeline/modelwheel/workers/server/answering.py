"""Runs one job and says how it went, in whichever process."""

from __future__ import annotations

import errno
import os
import time
import traceback

from pydantic import ValidationError

from ...errors import CompileError, ModelwheelError, StoreError
from ...model.messages import blame, cause_of, without_node_markup
from ..endings import is_about_memory
from ..jobs import parse_job
from ..protocol import Answer, Message, Task
from ..trail import follow
from .work import Work

_DISK_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))

_FREE_SPACE = (
    "the disk with the store is full: free some space, or set MODELWHEEL_CACHE_DIR to a directory "
    "elsewhere"
)


def answer_message(work: Work, problem: Exception | None, message: Message) -> Answer:
    """Runs the job of a message; every failure is an answer.

    Args:
        work: What jobs do.
        problem: Why no job can be run.
        message: From the client.
    """
    start = time.monotonic()
    try:
        job = parse_job(message.job)
        if problem is not None:
            raise problem
        # The compiler reads them when it is first used, which is now.
        os.environ.update(job.flags.environment())
        if message.task is Task.NAME_LAYERS:
            return Answer(layers=work.name_layers(job))
        if message.task is Task.FOLLOW:
            follow()
        work.run(job)
    except ModelwheelError as error:
        return _failure(type(error).__name__, str(error), code=error.code)
    except MemoryError:
        return _failure(MemoryError.__name__, "memory ran out", traceback.format_exc())
    except ValidationError as error:
        sentence = f"internal error: the worker does not accept the job: {error}"
        return _failure(CompileError.__name__, sentence, traceback.format_exc())
    except Exception as error:  # noqa: BLE001 - the client gets every failure as an answer
        # TensorFlow has errors of its own for this, which quote the system's words.
        if any(words in str(error) for words in _DISK_FULL):
            return _failure(StoreError.__name__, _FREE_SPACE, traceback.format_exc())
        if is_about_memory(str(error)):
            return _failure(MemoryError.__name__, "memory ran out", traceback.format_exc())
        sentence = f"{blame(error)}: {type(error).__name__}: {cause_of(str(error))}"
        return _failure(CompileError.__name__, sentence, traceback.format_exc())
    return Answer(seconds=time.monotonic() - start)


def _failure(error: str, sentence: str, detail: str = "", *, code: str = "") -> Answer:
    # Texts of a model need not be valid Unicode; JSON must be.
    sentence, detail = (
        text.encode("utf-8", "backslashreplace").decode()
        for text in (without_node_markup(sentence), detail)
    )
    return Answer.failure(error, sentence, detail, code=code)
