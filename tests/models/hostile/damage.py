"""Files that are not valid models, and names that are meant for terminals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .saving import call_function, chain_functions, edit, find_relu, replace_relu
from .table import HOSTILE_NAME, Victim, attack


@attack("damage", "has two functions that call each other", node="evil_0", runs=False)
def cyclic_functions(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        chain_functions(meta_graph, 2, 1)
        last = meta_graph.graph_def.library.function[-1].node_def[-1]
        call_function(last, "evil_0")

    edit(directory, change)


@attack("damage", "has a node that reads itself", runs=False)
def cyclic_nodes(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        find_relu(meta_graph)[1].input[0] = "evil:activations:0"

    edit(directory, change)


@attack("damage", "reads a node that does not exist", runs=False)
def dangling_edge(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        find_relu(meta_graph)[1].input[0] = "nobody:y:0"

    edit(directory, change)


@attack("damage", "calls a function that does not exist", runs=False)
def missing_function(directory: Path, _: Victim) -> None:
    edit(directory, lambda m: call_function(replace_relu(m, "PartitionedCall"), "nobody"))


@attack("damage", "has two nodes of one name", runs=False)
def duplicate_node(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        function, node = find_relu(meta_graph)
        function.node_def.add().CopyFrom(node)

    edit(directory, change)


@attack("damage", "has a broken index of its weights", node="", runs=False)
def broken_index(directory: Path, _: Victim) -> None:
    edit(directory, lambda _: None)
    path = directory / "variables" / "variables.index"
    path.write_bytes(path.read_bytes()[:-60] + bytes(60))


@attack("damage", "has half its weights", node="", runs=False)
def cut_weights(directory: Path, _: Victim) -> None:
    edit(directory, lambda _: None)
    (path,) = (directory / "variables").glob("*.data-*")
    path.write_bytes(path.read_bytes()[:20])


@attack("damage", "has half its graph", node="", runs=False)
def cut_graph(directory: Path, _: Victim) -> None:
    edit(directory, lambda _: None)
    path = directory / "saved_model.pb"
    path.write_bytes(path.read_bytes()[:-1000])


@attack("damage", "is noise", node="", runs=False)
def garbage(directory: Path, _: Victim) -> None:
    directory.mkdir()
    (directory / "saved_model.pb").write_bytes(bytes(range(7, 250)) * 40)


@attack("damage", "is written as text", node="", runs=False)
def text_form(directory: Path, _: Victim) -> None:
    from google.protobuf import text_format
    from tensorflow.core.protobuf import saved_model_pb2

    edit(directory, lambda _: None)
    path = directory / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    path.with_suffix(".pbtxt").write_text(text_format.MessageToString(message))
    path.unlink()


@attack("text", "names a node so that it writes to the terminal", runs=False)
def names_for_terminals(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        # No edge can lead to such a name, and none is needed: a stateful node runs anyway.
        find_relu(meta_graph)[0].node_def.add(name=HOSTILE_NAME, op="Timestamp")

    edit(directory, change)
