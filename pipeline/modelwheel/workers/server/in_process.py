"""A worker where there is no fork: jobs run in the server itself, one after another.

Its client gives it jobs of one model and one set of compiler flags only, and replaces it then.
"""

from __future__ import annotations

import gc
import os
import queue
import threading
from typing import TextIO

from ..protocol import Hello, Message, Reply
from .answering import answer_message
from .streams import Lines, send
from .work import Work


def serve(
    work: Work, hello: Hello, problem: Exception | None, lines: Lines, replies: TextIO
) -> None:
    """Answers messages. Ends the process as soon as there are no more, even during a job."""
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for line in lines.take_buffered():
        messages.put(line)
    threading.Thread(target=_receive, args=(lines, messages), daemon=True).start()
    while True:
        message = Message.model_validate_json(messages.get())
        answer = answer_message(work, problem, message)
        reply = Reply(nonce=hello.nonce, id=message.id, ending="answered", answer=answer)
        send(reply, replies)
        # Graphs hold their weights in reference cycles, which would pile up from job to job.
        gc.collect()


def _receive(lines: Lines, messages: queue.SimpleQueue[bytes]) -> None:
    while (received := lines.read()) is not None:
        for line in received:
            messages.put(line)
    # The client has ended or was killed: nobody waits for this job.
    os._exit(0)
