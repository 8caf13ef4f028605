"""The errors that modelwheel raises, sorted by who must act, each with its exit code.

Every module raises; only `modelwheel.cli` prints an error and leaves the process.
"""

from __future__ import annotations

from typing import ClassVar


class ModelwheelError(Exception):
    """Base class: the message is one clear sentence for the person who can fix it."""

    exit_code: ClassVar[int] = 1


class UsageError(ModelwheelError):
    """A command was given an invalid value."""

    exit_code = 2


class SpecError(ModelwheelError):
    """A spec file is wrong; the message lists every mistake with its place and a fix."""

    exit_code = 3


class SourceError(ModelwheelError):
    """The model could not be fetched, or is not what the spec pins."""

    exit_code = 4


class UnsupportedModelError(ModelwheelError):
    """The model cannot be compiled: an operation, a type or a shape is not supported."""

    exit_code = 5


class CompileError(ModelwheelError):
    """TensorFlow's compiler refused the graph or crashed."""

    exit_code = 6


class UnsupportedProgramError(ModelwheelError):
    """XLA emitted something that the runtime does not know, such as a new kind of thunk."""

    exit_code = 7


class WheelError(ModelwheelError):
    """The C++ build or the packaging of a wheel failed."""

    exit_code = 8


class VerifyError(ModelwheelError):
    """A built wheel does not reproduce TensorFlow's outputs within its tolerances."""

    exit_code = 9


class StoreError(ModelwheelError):
    """The store cannot be read or written."""

    exit_code = 10


class EnvironmentProblemError(ModelwheelError):
    """This machine lacks something that modelwheel needs, or has an unsuitable version."""

    exit_code = 11


class PublishError(ModelwheelError):
    """A release cannot be uploaded, or the index does not serve what was uploaded."""

    exit_code = 14


class ReplayError(ModelwheelError):
    """A wheel or source distribution cannot be reproduced from the sources that it names."""

    exit_code = 15


class AuditError(ModelwheelError):
    """A gate of `modelwheel audit` refuses a wheel for release."""

    exit_code = 16


class ProvenanceError(ModelwheelError):
    """A file has no signed provenance that satisfies the policy."""

    exit_code = 17


class RepositoryError(ModelwheelError):
    """Files of a repository of models have other content than `modelwheel init` or `update` can replace."""

    exit_code = 18
