"""Values of variables in the checkpoints that `tf.train.Saver` writes, in both of its versions."""

from __future__ import annotations

from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
from tensorflow.python.training import py_checkpoint_reader

from ....errors import UnsupportedModelError
from ....util.text import one_line
from ....util.words import suggest_few


class Checkpoint:
    """A checkpoint whose index was read; values are read one by one.

    Args:
        directory: Where its files are.
        prefix: What the names of its files begin with.

    Raises:
        UnsupportedModelError: There is none, or it is damaged.
    """

    def __init__(self, directory: Path, prefix: str) -> None:
        self._shown = f"the checkpoint {one_line(prefix)}"
        place = directory / prefix
        shards = sorted(directory.glob(f"{escape(prefix)}-?????-of-?????"))
        files = [place] if place.is_file() else shards
        if place.with_name(f"{prefix}.index").is_file():
            files = sorted(directory.glob(f"{escape(prefix)}.data-?????-of-?????"))
        elif not place.is_file():
            # The first version takes a pattern where there are several files.
            place = directory / f"{prefix}-?????-of-?????"
        try:
            self._reader = py_checkpoint_reader.NewCheckpointReader(str(place))
            self.shapes: dict[str, list[int]] = self._reader.get_variable_to_shape_map()
        except Exception as error:  # TensorFlow has many classes for it, RuntimeError among them
            raise self._damage("cannot be read") from error
        elements = sum(int(np.prod(shape, dtype=object)) for shape in self.shapes.values())
        # No element takes less than a byte: nothing must be allocated that the files cannot hold.
        if elements > sum(file.stat().st_size for file in files):
            raise self._damage("is shorter than its index says")

    def value(self, name: str) -> np.ndarray[Any, Any]:
        """The value of a variable.

        Raises:
            UnsupportedModelError: There is no such variable, or its value is damaged.
        """
        if name not in self.shapes:
            raise UnsupportedModelError(
                f"{self._shown} has no variable {name!r}; {suggest_few(name, sorted(self.shapes))}"
            )
        try:
            return np.asarray(self._reader.get_tensor(name))
        except Exception as error:
            raise self._damage(f"has no readable value of {name!r}") from error

    def _damage(self, what: str) -> UnsupportedModelError:
        return UnsupportedModelError(f"{self._shown} {what}; fetch or save it again")
