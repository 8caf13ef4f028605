"""The errors that modelwheel raises, sorted by who must act, each with its exit code and the code of its message.

Every module raises; only `modelwheel.cli` prints an error and leaves the process. `resources/codes.md` has a section for
each code of a message, which `modelwheel explain` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class ModelwheelError(Exception):
    """Base class: the message is one clear sentence for the person who can fix it.

    Args:
        args: The message.
        code: The kind of mistake, such as `MW302`; by default that of the class.
        line_codes: Where each line of the message is a mistake of its own: the code of each; empty for a line without.
    """

    exit_code: ClassVar[int] = 1
    code: str = "MW001"

    def __init__(self, *args: object, code: str = "", line_codes: Sequence[str] = ()) -> None:
        super().__init__(*args)
        if code:
            self.code = code
        self.line_codes = tuple(line_codes)

    def shown(self) -> str:
        """The message for people, with the code of each mistake behind it, or behind its first line."""
        lines = str(self).split("\n")
        codes = self.line_codes if len(self.line_codes) == len(lines) else (self.code,)
        for number, code in enumerate(codes):
            if code:
                lines[number] += f" [{code}]"
        return "\n".join(lines)


class UsageError(ModelwheelError):
    """A command was given an invalid value."""

    exit_code = 2
    code = "MW200"


class SpecError(ModelwheelError):
    """A spec file is wrong; the message lists every mistake with its place and a fix."""

    exit_code = 3
    code = "MW100"


class SourceError(ModelwheelError):
    """The model could not be fetched, or is not what the spec pins."""

    exit_code = 4
    code = "MW300"


class UnsupportedModelError(ModelwheelError):
    """The model cannot be compiled: an operation, a type or a shape is not supported."""

    exit_code = 5
    code = "MW400"


class CompileError(ModelwheelError):
    """TensorFlow's compiler refused the graph or crashed."""

    exit_code = 6
    code = "MW500"


class UnsupportedProgramError(ModelwheelError):
    """XLA emitted something that the runtime does not know, such as a new kind of thunk."""

    exit_code = 7
    code = "MW520"


class WheelError(ModelwheelError):
    """The C++ build or the packaging of a wheel failed."""

    exit_code = 8
    code = "MW600"


class VerifyError(ModelwheelError):
    """A built wheel does not reproduce TensorFlow's outputs within its tolerances."""

    exit_code = 9
    code = "MW620"


class StoreError(ModelwheelError):
    """The store cannot be read or written."""

    exit_code = 10
    code = "MW700"


class EnvironmentProblemError(ModelwheelError):
    """This machine lacks something that modelwheel needs, or has an unsuitable version."""

    exit_code = 11
    code = "MW720"


class ClusterError(ModelwheelError):
    """A cluster cannot be reached, one of its workers cannot be used, or it lost a step."""

    exit_code = 19
    code = "MW760"


class PublishError(ModelwheelError):
    """A release cannot be uploaded, or the index does not serve what was uploaded."""

    exit_code = 14
    code = "MW800"


class ReplayError(ModelwheelError):
    """A wheel or source distribution cannot be reproduced from the sources that it names."""

    exit_code = 15
    code = "MW820"


class AuditError(ModelwheelError):
    """A gate of `modelwheel audit` refuses a wheel for release."""

    exit_code = 16
    code = "MW840"


class ProvenanceError(ModelwheelError):
    """A file has no signed provenance that satisfies the policy."""

    exit_code = 17
    code = "MW860"


class RepositoryError(ModelwheelError):
    """Files of a repository of models have other content than `modelwheel init` or `update` can replace."""

    exit_code = 18
    code = "MW880"
