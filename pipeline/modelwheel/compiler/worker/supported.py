"""The job `supported`: every operation that XLA compiles for CPUs, from TensorFlow's registry of kernels."""

from __future__ import annotations

import tensorflow as tf

from ..jobs import SupportedJob
from ..supported import SUPPORTED, Supported
from .kernels import supported_ops


def run(job: SupportedJob) -> None:
    """Writes the list."""
    Supported(tensorflow=tf.__version__, ops=supported_ops()).save(job.out / SUPPORTED)
