"""The two pipes between a worker and its client."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from ..protocol import Reply

_CHUNK = 1 << 16


def take_streams() -> tuple[int, TextIO]:
    """Standard input and output for the protocol; nobody else in this process can use them."""
    messages = os.dup(0)
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # The C++ of TensorFlow writes to descriptor 1, whatever `sys.stdout` is.
    os.dup2(2, 1)
    return messages, replies


def send(reply: Reply, pipe: TextIO) -> None:
    """Sends a reply to the client."""
    print(reply.model_dump_json(), file=pipe, flush=True)


class Lines:
    """Lines from a pipe, read without a buffer that a selector does not see."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._rest = b""

    def read(self) -> list[bytes] | None:
        """The lines that have become complete, after a wait for more; None at the end."""
        chunk = os.read(self.descriptor, _CHUNK)
        if not chunk:
            return None
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines

    def wait(self) -> bytes:
        """The first line."""
        while (lines := self.read()) is not None:
            if lines:
                # A client says nothing more before its hello is complete.
                self._rest = b"\n".join([*lines[1:], self._rest])
                return lines[0]
        sys.exit(0)

    def take_buffered(self) -> list[bytes]:
        """Complete lines that `wait` left."""
        *lines, self._rest = self._rest.split(b"\n")
        return lines
