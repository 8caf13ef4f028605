"""The versions that modelwheel is made for; a test compares them with the package's metadata."""

from __future__ import annotations

TENSORFLOW_VERSION = "2.21.0"
"""The one TensorFlow whose compiler and internal formats the pipeline reads."""

TENSORFLOW_PYTHONS = ((3, 10), (3, 13))
"""The lowest and the highest CPython that this TensorFlow has wheels for."""

TORCH_MLIR_VERSION = "20261001"
"""The one torch-mlir that converts PyTorch programs: another one may write other modules."""

CMAKE_MINIMUM = "3.25"
GIT_MINIMUM = "2.25"
"""The first git that fetches single commits by protocol 2 without being asked to be partial."""

NUMPY_REQUIREMENT = "numpy>=1.26"
"""What every Python package that is made here needs."""

ABI_VERSION = 1
"""Of the C ABI between models and bindings, `wheel_template/common/include/modelwheel/abi.h`."""

RUNTIME = "modelwheel-runtime"
"""The package with the Python extension for all models whose spec says `package.bindings: shared`."""

_RUNTIME_MINOR, _RUNTIME_PATCH = 8, 0
"""The minor version is raised when `wheel_template/bindings/` or `runtime/` offer more, the patch with
any other change there; a new ABI begins with 0.0."""

RUNTIME_VERSION = f"{ABI_VERSION}.{_RUNTIME_MINOR}.{_RUNTIME_PATCH}"

RUNTIME_MINIMUM = f"{ABI_VERSION}.{_RUNTIME_MINOR}"
"""The first release for its ABI that offers all of today's."""

RUNTIME_REQUIREMENT = f"{RUNTIME}>={RUNTIME_MINIMUM},<{ABI_VERSION + 1}"
"""What the Python package of a model needs of it."""
