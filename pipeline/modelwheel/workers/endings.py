"""Why a job ended without its outputs, in one sentence."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from ..errors import CompileError
from ..sandbox.policy import Limits
from ..spec.formats import FORMATS
from ..util.text import one_line, safe_lines
from ..util.words import size_text, time_text
from .jobs import GraphJob, InspectJob, Job, ReferenceJob, SizingJob, SupportedJob

_LOG_LINES = 30
"""The end of a log that goes into the report of an unexpected error."""

_KILLED = -9
"""The exit code after SIGKILL, a signal that Windows does not have."""

_NO_MEMORY = re.compile(
    r"std::bad_alloc|out of memory|(failed|unable) to allocate|cannot allocate memory|MemoryError|mmap error: 12"
    r"|OOM when allocating|pthread_create\(\) failed",
    re.IGNORECASE,
)
"""What the C++ library, LLVM, TensorFlow, abseil and Python say before they end."""

_SILENT = frozenset({-signal.SIGABRT, -signal.SIGSEGV})
"""How a process ends that does not look at what an allocation returns, as XLA's code for CPUs."""
_LARGE = 0.25
"""A process that crashed without a word has asked for too much memory if it had this part of what it may use: it may have
asked for the rest in one piece."""

_ADDED_TO_ITSELF = re.compile(
    r"HloGetTupleElementInstruction\w*' and cannot be downcasted to '\w*HloConstantInstruction"
)
"""XLA takes what is added to a counter for a constant (xla/hlo/analysis/while_loop_analysis.cc,
`MatchLoopRangeWithKnownValues`)."""

_DONE = {
    "inspect": "read",
    "freeze": "converted",
    "export": "exported",
    "quantize": "quantised",
    "reference": "evaluated",
}
"""What the jobs do with a model."""

_NAMED, _NAME_LENGTH = 3, 200
"""Layers in a sentence: their names come from the model."""

_WIDEN = "of [sandbox] in modelwheel.toml"


class WorkerError(CompileError):
    """A job failed in a way that its code did not expect.

    Attributes:
        detail: A traceback, or the end of the worker's log: for a bug report.
    """

    code = "MW501"

    def __init__(self, message: str, detail: str = "", *, code: str = "") -> None:
        super().__init__(message, code=code)
        self.detail = detail


def too_long(
    step: str, limits: Limits, layers: Sequence[str], job: Job | None = None
) -> WorkerError:
    """The error of a step that was stopped because it took too long."""
    seconds = min(filter(None, (limits.wall_seconds, limits.cpu_seconds)))
    fix = "make the model smaller there, or raise `seconds`"
    if isinstance(job, InspectJob):
        fix = f"{_unusual(job, 'read in seconds')}, or raise `reading_seconds`"
    return WorkerError(
        f"{step} took longer than {time_text(seconds)} and was stopped{_likely(layers)}; {fix} {_WIDEN}",
        code="MW503",
    )


def is_out_of_time(code: int) -> bool:
    """Whether a process that ended so had used the processor for too long."""
    return code == -getattr(signal, "SIGXCPU", 0) != 0


def too_large(
    step: str,
    limits: Limits,
    layers: Sequence[str],
    detail: str = "",
    job: Job | None = None,
) -> WorkerError:
    """The error of a step that needed too much memory."""
    assert limits.memory_bytes is not None
    fix = "make the model or its batch size smaller"
    if isinstance(job, ReferenceJob):
        fix = f"set verify.rows in the spec to fewer rows, {fix}"
    elif isinstance(job, InspectJob):
        fix = _unusual(job, "read with far less")
    return WorkerError(
        f"{step} needed more than the {size_text(limits.memory_bytes)} of memory that it may use, "
        f"and was stopped{_likely(layers)}; {fix}, or raise `memory_gb` {_WIDEN}",
        detail,
        code="MW502",
    )


def _unusual(job: InspectJob, usual: str) -> str:
    """Advice about a model that is read in another way than others."""
    file = one_line(getattr(job.request.reading, "file", "") or "the model")
    return f"{file} is small enough to be {usual}, so that it may be damaged or hostile: export or fetch it again"


def _likely(layers: Sequence[str]) -> str:
    if not layers:
        return ""
    shown = [f"'{one_line(layer)[:_NAME_LENGTH]}'" for layer in layers[:_NAMED]]
    return f" (most likely because of the layer{'s' * (len(shown) > 1)} {', '.join(shown)})"


def end_of(log: str) -> str:
    """The last lines of a log, for a report."""
    return safe_lines("\n".join(log.splitlines()[-_LOG_LINES:]))


def is_about_memory(text: str) -> bool:
    """Whether an error message or a log says that memory was refused."""
    return bool(_NO_MEMORY.search(text))


def ran_out_of_memory(code: int, log: str, used: float = 0.0) -> bool:
    """Whether a process that ended so was refused memory.

    Args:
        code: Its exit code, negative for a signal.
        log: What it wrote to standard error.
        used: The most memory that it had, as a part of what it might use.
    """
    if code in (0, _KILLED):
        return False
    silent = code in _SILENT and not any(map(_fatal_message, log.splitlines()))
    return is_about_memory(log) or (silent and used >= _LARGE)


def explain_end(code: int, log: list[str], job: Job | None = None, place: str = "") -> str:
    """Why a process died during a job, in one sentence.

    Args:
        code: Its exit code, negative for a signal.
        log: The lines that it wrote to standard error.
        job: The job, if it is known.
        place: The node at which it crashed, if it is known.
    """
    fatal = one_line(next(filter(None, map(_fatal_message, reversed(log))), ""))
    # XLA ends the process at a flag that it does not know (xla/parse_flags_from_env.cc).
    unknown = re.search(r"Unknown flags? in (\w+): (.*)", fatal)
    if unknown:
        return f"{unknown[1]}: the compiler has no flag {unknown[2]}; remove it from the spec"
    if _ADDED_TO_ITSELF.search(fatal):
        return "XLA cannot compile a loop that adds its counter to itself (i = i + i); write i * 2 in the model"
    last = f": {fatal}" if fatal else ""
    during = f"while {_describe(job)}, " if job is not None else ""
    if code >= 0:
        return f"{during}the worker process ended with exit code {code}{last}"
    try:
        name = f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        name = f"signal {-code}"
    if code == _KILLED:
        return (
            f"{during}the worker process was killed by {name}, most likely because memory ran out; "
            "free some memory, or run fewer steps at once (--jobs)"
        )
    at = f" at {one_line(place)}" if place else ""
    return f"{during}the worker process crashed with {name}{at}{last}{_fix_of(job, place)}"


def _fix_of(job: Job | None, place: str) -> str:
    """Whose code crashed and what to do, as the end of a sentence."""
    if job is None or isinstance(job, SupportedJob):
        return ""
    if isinstance(job, SizingJob):
        return _fix_of(job.freezing, place)
    if isinstance(job, GraphJob):
        return (
            "; XLA itself fails at this graph: look for layers of extreme sizes, or remove "
            "compilation.xla_flags from the spec, and report it with the model"
        )
    wrong = (
        f"correct {one_line(place)}" if place else "look for extreme sizes and deep nesting in it"
    )
    library: str = getattr(FORMATS[job.request.reading.format].libraries, job.kind)
    return f"; {library} itself fails at this file: {wrong}, or export the model again"


def _describe(job: Job) -> str:
    """The work of a job when its process died: the format says whose code that was."""
    if isinstance(job, SizingJob):
        return _describe(job.freezing)
    if isinstance(job, GraphJob):
        return "XLA compiled the graph"
    if isinstance(job, SupportedJob):
        return "operations were listed"
    return f"the {FORMATS[job.request.reading.format].title} model was {_DONE[job.kind]}"


def _fatal_message(line: str) -> str:
    """The message of a fatal line of the log (abseil's format, LLVM's or Python's), or nothing."""
    match = re.match(r"F\d{4} [^\]]*\] (.*)|(LLVM ERROR: .*)|(Fatal Python error: .*)", line)
    return next(filter(None, match.groups()), "") if match else ""
