"""Runs the self-tests of all models in a directory: `compare.py DIRECTORY [LEVEL...]`.

Prints a line of JSON for each. Needs NumPy and modelwheel-runtime alone, so that other processors can run it.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def compare(module: str, levels: list[str]) -> dict[str, Any]:
    """What `python -m MODULE selftest --json` prints."""
    selftest = importlib.import_module(f"{module}._selftest")
    _, text = selftest.run(levels or None, None, True)  # noqa: FBT003
    return {"module": module, **json.loads(text)}


if __name__ == "__main__":
    sys.path[0] = sys.argv[1]  # not the modules beside this file
    for package in sorted(Path(sys.argv[1]).glob("model_*")):
        sys.stdout.write(json.dumps(compare(package.name, sys.argv[2:])) + "\n")
        sys.stdout.flush()  # if the next one crashes
