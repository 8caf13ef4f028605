"""Writes the models and the specs of the zoo: `python -m tests.models.zoo.specs DIRECTORY`.

For programs that build all of them, such as `modelwheel adopt`. Specs are in DIRECTORY/specs, for the highest CPU level of
this machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from modelwheel.levels import host_levels
from tests.models.zoo.cases import CASES
from tests.models.zoo.visit import make_models


def main(directory: Path) -> Path:
    """Writes what is not there yet; returns the directory of the specs."""
    models = make_models(CASES, directory / "models")
    specs = directory / "specs"
    specs.mkdir(exist_ok=True)
    for case in CASES:
        case.write_spec(models.absolute(), [host_levels()[-1].name], specs)
    return specs


if __name__ == "__main__":
    main(Path(sys.argv[1]))
