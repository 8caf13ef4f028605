"""A worker from its start to its end, on every system."""

from __future__ import annotations

import gc
import os
import sys

from ...sandbox.kernel import protect_from_children
from ..protocol import Hello
from . import in_process
from .forking import Server
from .streams import Lines, take_streams
from .work import Work


def serve(work: Work) -> None:
    """Does what clients ask for on standard input, until that ends."""
    _forget_working_directory()
    messages, replies = take_streams()
    lines = Lines(messages)
    hello = Hello.model_validate_json(lines.wait())
    problem = _prepare(work)
    if hello.forks:
        protect_from_children()
        Server(work, hello, problem, lines, replies).serve()
    else:
        in_process.serve(work, hello, problem, lines, replies)


def _forget_working_directory() -> None:
    """Imports nothing from there: `python -m` puts it first, and jobs may write near it."""
    here = os.getcwd()  # noqa: PTH109 - as Python wrote it into the path
    sys.path[:] = [entry for entry in sys.path if entry not in ("", here)]


def _prepare(work: Work) -> Exception | None:
    """Why no job can be run, for each of them to say."""
    # What is imported stays: looking through it again and again would take a tenth of the time.
    gc.disable()
    try:
        work.prepare()
    except Exception as error:  # noqa: BLE001 - each job gets it as its answer
        return error
    finally:
        gc.enable()
    # Collections in children would copy every page that holds an object of the imports. There is next to no garbage
    # among these, and looking for it would take 0.2 s.
    gc.freeze()
    return None
