"""The versions that modelwheel is made for; a test compares them with the package's metadata."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias

Pythons: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
"""The lowest and the highest CPython."""

ADOPTED: Mapping[str, Pythons] = {"2.21.0": ((3, 10), (3, 13))}
"""The TensorFlow versions whose compiler and internal formats the pipeline reads, the newest last, with the CPythons
that they have wheels for. `modelwheel adopt` says whether another one is ready for a row of its own."""

PINNED_TENSORFLOW = "2.21.0"
"""The one of them that pyproject.toml installs."""

TENSORFLOW_VARIABLE = "MODELWHEEL_TENSORFLOW"
"""The environment variable by which `modelwheel adopt` has a build use a TensorFlow that is not adopted yet."""

TENSORFLOW_VERSION = os.environ.get(TENSORFLOW_VARIABLE) or PINNED_TENSORFLOW
"""The TensorFlow of this process: a part of the keys of all steps that it runs, so that the store keeps the results of
different versions apart."""

TENSORFLOW_PYTHONS = ADOPTED.get(TENSORFLOW_VERSION, ADOPTED[PINNED_TENSORFLOW])
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
