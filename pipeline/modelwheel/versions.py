"""The versions that modelwheel is made for; a test compares them with the package's metadata."""

from __future__ import annotations

TENSORFLOW_VERSION = "2.21.0"
"""The one TensorFlow whose compiler and internal formats the pipeline reads."""

TENSORFLOW_PYTHONS = ((3, 10), (3, 13))
"""The lowest and the highest CPython that this TensorFlow has wheels for."""

CMAKE_MINIMUM = "3.25"
GIT_MINIMUM = "2.25"
"""The first git that fetches single commits by protocol 2 without being asked to be partial."""
