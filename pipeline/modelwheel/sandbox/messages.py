"""Messages between a client and `launch`."""

from __future__ import annotations

TYPE_CHECKING = (
    False  # `launch` must start quickly, and importing `typing` takes longer than all its rest
)
if TYPE_CHECKING:
    from typing import TypedDict

    class Request(TypedDict):
        """A program that `launch` is to run, and how."""

        argv: list[str]
        directory: str
        parent: int | None
        """The process that must be alive; None if it cannot be seen, inside a PID namespace."""
        confined: bool
        """Whether to restrict anything, or only to end with the parent."""
        limits: dict[str, float | None]
        readable: list[str]


READY = b"."
"""The answer when nothing but executing the program is left to do; anything else is a reason."""
