"""The consumer's side: runs where only numpy and model-digits are installed."""

from __future__ import annotations

import sys
import time

import numpy as np
from timing import serve  # type: ignore[import-not-found]  # it lies beside this script

start = time.perf_counter()
import model_digits  # its import is timed

model = model_digits.Model()
import_ms = (time.perf_counter() - start) * 1e3

data = np.load(sys.argv[1])
probabilities = model(data["images"])
accuracy = float((probabilities.argmax(axis=1) == data["labels"]).mean())
serve(
    {
        "accuracy": accuracy,
        "import_ms": import_ms,
        "probabilities": probabilities.tolist(),
    },
    model,
    data["images"],
)
