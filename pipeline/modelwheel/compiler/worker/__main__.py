"""The worker: `python -m modelwheel.compiler.worker`, started by `modelwheel.compiler.worker_process`."""

from __future__ import annotations

from .serve import serve
from .tensorflow_work import TensorFlowWork

if __name__ == "__main__":
    serve(TensorFlowWork())
