"""The worker: `python -m modelwheel.compiler`, started by `modelwheel.workers.client`."""

from __future__ import annotations

from ..workers.server.serve import serve
from .tensorflow_work import TensorFlowWork

if __name__ == "__main__":
    serve(TensorFlowWork())
