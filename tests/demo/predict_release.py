"""The consumer's side of a release: runs where only NumPy and the two models are installed."""

from __future__ import annotations

import json
import sys

import model_digits
import model_parity
import numpy as np

data = np.load(sys.argv[1])
digits = model_digits.Model()(data["images"]).argmax(axis=1)
odd = model_parity.Model()(data["images"].reshape(-1, 64))[:, 0] > 0.5
sys.stdout.write(
    json.dumps(
        {
            "digits": float((digits == data["labels"]).mean()),
            "parity": float((odd == data["labels"] % 2).mean()),
        }
    )
)
