"""Where the bytes of a wheel go."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from ..assembly.manifest import Manifest

_LIBRARY = re.compile(r"/lib/libmodel_\w+\.(so|dylib)$|/model_\w+\.dll$")


@dataclass(frozen=True)
class WheelSizes:
    """Where the bytes of a wheel go."""

    wheel: int
    """The file itself, compressed."""
    library: int
    """The shared library as installed."""
    weights: int
    machine_code: int

    @property
    def runtime(self) -> int:
        """What the library holds besides weights and XLA's code."""
        return self.library - self.weights - self.machine_code


def read_sizes(wheel: Path, manifest: Manifest) -> WheelSizes:
    """The sizes of a built wheel; `manifest` is the one inside it."""
    with zipfile.ZipFile(wheel) as archive:
        library = max(
            item.file_size for item in archive.infolist() if _LIBRARY.search(item.filename)
        )
    return WheelSizes(
        wheel.stat().st_size, library, manifest.sizes.weights, manifest.sizes.machine_code
    )
