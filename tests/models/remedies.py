"""The models of docs/remedies/: `remedies DIRECTORY` runs each block and saves what it makes below DIRECTORY."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.support.pages import ROOT, Block, blocks

PAGES = sorted((ROOT / "docs" / "remedies").glob("*.md"))
_INPUT = re.compile(r"^# (\w+): (\w+)\[([\w, ]*)\]$", re.MULTILINE)
_MODEL = re.compile(r"^# model: (keras\.Sequential\(.*\))$", re.MULTILINE)


def _layers() -> dict[str, Any]:
    """What the first block calls by its name."""
    vectorize = keras.layers.TextVectorization(output_sequence_length=8)
    vectorize.adapt(["a model", "a wheel"])
    return {
        "vectorize": vectorize,
        "embedding": keras.layers.Embedding(vectorize.vocabulary_size(), 4),
        "average": keras.layers.GlobalAveragePooling1D(),
        "dense": keras.layers.Dense(1),
    }


def _save(block: Block, directory: Path) -> None:
    """Runs a block, which saves a Keras model or defines a function."""
    names: dict[str, Any] = {"keras": keras, "np": np, "tf": tf}
    if model := _MODEL.search(block.text):
        names["model"] = eval(model[1], {"keras": keras, **_layers()})
        os.chdir(directory)
    exec(block.text, names)  # noqa: S102 - of a document
    if "fixed" in names:
        specs = [
            tf.TensorSpec(
                [int(one) if one.isdigit() else None for one in shape.split(", ") if one],
                dtype,
                name,
            )
            for name, dtype, shape in _INPUT.findall(block.text)
        ]

        def call(*tensors: Any) -> dict[str, Any]:
            found = names["fixed"](*tensors)
            return found if isinstance(found, dict) else {"y": found}

        module = tf.Module()
        module.function = tf.function(call, input_signature=specs)
        tf.saved_model.save(module, str(directory), signatures=module.function)


def main(directory: Path) -> None:
    """Saves all, each in its block's place."""
    for block in (block for page in PAGES for block in blocks(page, "python")):
        place = directory / block.place
        place.mkdir()
        _save(block, place)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
