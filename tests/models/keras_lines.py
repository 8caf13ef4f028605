"""Runs lines of a message on a file of Keras: `keras_lines.py FILE RESULT LINE...`; they save `numeric.keras`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras


def main() -> None:
    names = {"keras": keras, "model": keras.models.load_model(sys.argv[1])}
    result = Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        for line in sys.argv[3:]:
            exec(line, names)  # noqa: S102 - a line of our own message
        result.write_bytes(Path("numeric.keras").read_bytes())
        os.chdir("/")


if __name__ == "__main__":
    main()
