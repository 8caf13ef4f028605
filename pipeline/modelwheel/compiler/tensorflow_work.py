"""The work of a worker's jobs; imports TensorFlow when it is told to."""

from __future__ import annotations

import importlib
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from types import ModuleType
from typing import Any, cast

from packaging.version import Version

from ..errors import EnvironmentProblemError, UnsupportedProgramError
from ..util.python import left_out
from ..versions import TENSORFLOW_VERSION
from ..workers.jobs import (
    ExportJob,
    FreezeJob,
    GraphJob,
    InspectJob,
    Job,
    QuantizeJob,
    SizingJob,
    SupportedJob,
)
from .xla import descriptors

_MODULES = (
    *("heavy_layers", "inspect_model", "sizing", "supported"),
    *("xla.compile", "freeze.freeze", "reference.reference"),
    "formats.saved_model.saved_model",  # the reader of most models
)
"""Of the jobs; they import parts of TensorFlow."""


def block_triton() -> None:
    """Has PyTorch do without triton, which it only needs on GPUs: its library crashes in a process with TensorFlow."""
    modules: MutableMapping[str, ModuleType | None] = cast("Any", sys.modules)
    modules["triton"] = None


class TensorFlowWork:
    """The work of `modelwheel.workers.server.serve`."""

    def prepare(self) -> None:
        """Imports TensorFlow and the modules of all jobs.

        Raises:
            EnvironmentProblemError: It is missing, or another version.
        """
        block_triton()
        fix = f"`pip install 'modelwheel[compile]'` installs TensorFlow {TENSORFLOW_VERSION}"
        try:
            tf = _import_tensorflow()
        except ImportError as error:
            raise EnvironmentProblemError(
                f"TensorFlow cannot be imported ({error}); {fix}", code="MW725"
            ) from None
        # The version is part of every key, so code of another one would be taken for this one's.
        if Version(tf.__version__) != Version(TENSORFLOW_VERSION):  # 2.22.0-rc0 is 2.22.0rc0
            raise EnvironmentProblemError(
                f"TensorFlow {tf.__version__} is installed, whose compiler emits other code; {fix}",
                code="MW725",
            )
        for name in _MODULES:
            importlib.import_module(f".{name}", __package__)
        # Kept for all jobs: to find it in TensorFlow's library takes as long as compiling a small model.
        with suppress(UnsupportedProgramError):  # it is raised again by the jobs that need it
            descriptors.compilation_result_class()

    def run(self, job: Job) -> None:
        """Runs a job; each kind has a module, imported late since it imports TensorFlow."""
        if isinstance(job, InspectJob):
            from . import inspect_model

            inspect_model.run(job)
        elif isinstance(job, FreezeJob):
            from .freeze import freeze

            freeze.run(job)
        elif isinstance(job, GraphJob):
            from .xla import compile as compile_graph

            compile_graph.run(job)
        elif isinstance(job, SizingJob):
            from . import sizing

            sizing.run(job)
        elif isinstance(job, QuantizeJob):
            from . import quantize

            quantize.run(job)
        elif isinstance(job, ExportJob):
            from . import export

            export.run(job)
        elif isinstance(job, SupportedJob):
            from . import supported

            supported.run(job)
        else:
            from .reference import reference

            reference.run(job)

    def name_layers(self, job: Job) -> tuple[str, ...]:
        """See `heavy_layers`."""
        from . import heavy_layers

        return heavy_layers.find(job)


_OPTIONAL = ("h5py", "jax", "keras", "scipy")
"""What TensorFlow imports where it is installed, and does without otherwise: two seconds and 180 MB."""


def _import_tensorflow() -> ModuleType:
    """Imports TensorFlow without what is imported only if a model needs it."""
    with left_out(_OPTIONAL):
        return importlib.import_module("tensorflow")
