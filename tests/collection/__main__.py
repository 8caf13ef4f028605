"""Draws the pictures of the collection from predictions of its wheels, and writes its table.

python -m tests.collection dist    # the wheels of `modelwheel build model_specs --out dist`
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import zipfile
from pathlib import Path

from .pictures import PICTURES, ROOT
from .table import write_table


def main(directory: Path) -> None:
    """Draws every model that has a wheel for this Python in a directory."""
    with tempfile.TemporaryDirectory() as scratch:
        sys.path.insert(0, scratch)
        for name, draw in PICTURES.items():
            module = f"model_{name.replace('-', '_')}"
            for wheel in sorted(directory.glob(f"{module}-*.whl"))[-1:]:
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(scratch)
                picture = draw(importlib.import_module(module).Model())
                path = ROOT / "model_specs" / f"{name}.svg"
                path.write_text(picture.svg(), encoding="utf-8")
                sys.stdout.write(f"drew {path}\n")
    write_table()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
