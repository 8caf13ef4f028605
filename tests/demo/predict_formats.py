"""The consumer's side of `make demo-formats`: runs where only NumPy and the models are installed."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np

rows = np.load(sys.argv[1])
predictions = {}
for name in sys.argv[2:]:
    result = importlib.import_module(name).Model()(rows)
    (array,) = result.values() if isinstance(result, dict) else [result]
    predictions[name] = array.tolist()
sys.stdout.write(json.dumps(predictions))
