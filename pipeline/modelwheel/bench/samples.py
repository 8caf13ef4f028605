"""Writes inputs for a model, made from the sample in its wheel: `samples.py MODULE LEVEL ROWS...`, into this directory.

Its answer is a line of JSON: how the model splits each number of rows into batch sizes, and its level. It runs in the environment of the wheel, by its path.
"""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np


def main(module: str, level: str, rows: list[int]) -> None:
    """Writes `ROWS.npz` for every number of rows: the sample's rows again and again."""
    model = importlib.import_module(module).Model(level or None)
    reference = importlib.import_module(f"{module}._reference")
    sample = reference.load_samples()[-1]
    for number in rows:
        inputs = {}
        for spec in model.inputs:
            array = sample.inputs[spec.name]
            if spec.leading_per_row:
                array = np.resize(array, (number * spec.leading_per_row, *array.shape[1:]))
            inputs[spec.name] = reference.to_call(spec, array)
        np.savez(f"{number}.npz", **inputs)
    rules = {str(number): model.batch_rule(number) for number in rows}
    sys.stdout.write(json.dumps({"rules": rules, "level": model.level}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(text) for text in sys.argv[3:]])
