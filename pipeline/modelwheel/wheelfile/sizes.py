"""Where the bytes of a wheel go."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .wheel import Wheel, invalid_wheel

_LIBRARY = re.compile(r"/lib/libmodel_\w+\.(so|dylib)$|/model_\w+\.dll$")


@dataclass(frozen=True)
class WheelSizes:
    """Sizes in bytes."""

    wheel: int
    """The file itself, compressed."""
    library: int
    """The shared library as installed."""
    weights: int
    machine_code: int

    @property
    def runtime(self) -> int:
        """The library without weights and XLA's code."""
        return self.library - self.weights - self.machine_code


def read_sizes(wheel: Wheel) -> WheelSizes:
    """The sizes of a model's wheel.

    Raises:
        WheelError: It has no library.
    """
    libraries = [m.size for name, m in wheel.members.items() if _LIBRARY.search(name)]
    if not libraries:
        raise invalid_wheel(wheel.path, "it has no library of a model")
    sizes = wheel.manifest.sizes
    # auditwheel may add libraries with similar names; the model's own is the largest.
    return WheelSizes(wheel.size, max(libraries), sizes.weights, sizes.machine_code)
