"""Loads torch-mlir beside TensorFlow."""

from __future__ import annotations

import os
import sys


def load_torch_mlir() -> None:
    """Loads torch-mlir's library, which has an LLVM of its own, into a process that has TensorFlow's.

    TensorFlow's symbols are global; without RTLD_DEEPBIND the library would take them for its own, and
    LLVM stops the process because its options are registered twice.
    """
    if not hasattr(os, "RTLD_DEEPBIND"):  # not glibc: libraries keep to their own symbols
        return
    before = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
    try:
        from torch_mlir import ir  # noqa: F401
    finally:
        sys.setdlopenflags(before)
