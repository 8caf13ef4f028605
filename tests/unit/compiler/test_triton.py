"""PyTorch from the package index brings triton, whose library crashes beside TensorFlow's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
_IMPORT = """
import importlib.util
from modelwheel.compiler.tensorflow_work import block_triton
block_triton()
try:
    import triton
except ImportError:
    print(importlib.util.find_spec("triton"))
"""


def test_a_worker_does_not_import_triton(tmp_path: Path) -> None:
    (tmp_path / "triton.py").write_text(_CRASH)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")
