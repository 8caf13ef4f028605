"""What the tests need that build the zoo's subset for other systems."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from modelwheel.platforms import host_platform

_MISSING = [name for name in ("jax", "onnx", "onnxruntime") if find_spec(name) is None]

CROSS_BUILT_SUBSET = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        host_platform().name != "linux-x86_64", reason="cross-builds are for Linux on x86-64"
    ),
    pytest.mark.skipif(bool(_MISSING), reason=f"{' and '.join(_MISSING)} is not installed"),
]
"""Of the whole module."""
