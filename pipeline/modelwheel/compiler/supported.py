"""The job `supported`: every operation that XLA compiles for CPUs, from TensorFlow's registry of kernels."""

from __future__ import annotations

import tensorflow as tf

from ..model.supported_operations import SUPPORTED, Supported
from ..workers.jobs import SupportedJob
from .graphs.kernels import supported_ops


def run(job: SupportedJob) -> None:
    """Writes the list."""
    Supported(tensorflow=tf.__version__, ops=supported_ops()).save(job.out / SUPPORTED)
