"""The table of the zoo: what each model is made by, and what its spec says."""

from __future__ import annotations

from tests.models.zoo.case import Case

_ROWS = "compilation: {batch_sizes: [1, 4]}\n"
_GRAPH = "source: {{feeds: {{image: input}}, fetches: {{scores: output/id_probabilities}}{}}}"
_INFERENCE = _GRAPH.format(", constants: {keras_learning_phase: false}")
_KEEP = "keep_state: true\n"

SUITES = (
    Case("operations", "operations", "batched", "every kind of step that XLA emits", _ROWS + "verify: {ranges: {n: [-20, 20]}}", subset=True),
    Case(
        "more_operations", "zoo.more_operations", "numbers", "functions, reductions, shapes, layers",
        "compilation: {batch_sizes: [3]}\nverify: {ranges: {n: [-20, 20]}}",
    ),
    Case("control_flow", "operations", "fixed", "decided by values, without a batch", subset=True),
    Case(
        "element_types", "operations", "types", "inputs and outputs of each type, random numbers from a seed",
        "compilation: {batch_sizes: [2]}\nverify: {ranges: {seed: [-1000, 1000]}}", subset=True,
    ),
)  # fmt: skip
"""Models of many operations: each output is a case of its own."""

_SAVED_MODELS = (
    Case("mlp", "make_models", "mlp", "two dense layers, as most models", _ROWS, subset=True),
    Case("multi", "make_models", "multi", "two inputs of different types, two outputs of different types"),
    Case("fixed_shapes", "make_models", "fixed", "no free axis"),
    Case("several_rows", "make_models", "triple_rows", "an output with three rows for each row of the batch", _ROWS),
    Case("batch_mean", "make_models", "batch_mean", "rows that depend on each other: only compiled batch sizes", _ROWS),
    Case("total", "make_models", "total", "an output that does not grow with the batch", _ROWS),
    Case("branches", "make_models", "branches", "`switch_case` with an index that is an input"),
    Case("loop", "make_models", "loop", "a loop whose number of turns depends on values"),
    Case("names", "make_models", "names", "names that are not identifiers, two of which become the same one"),
    Case("nothing_learned", "make_models", "nothing_learned", "no variables; outputs that are an input and each other"),
    Case("needs_keras", "make_models", "needs_keras", "an optimizer's slots, as Keras 2 saves them"),
    Case("all_kinds", "make_models", "kinds", "inputs of five element types, names with slashes"),
    Case(
        "fixed_axis", "make_models", "sequence", "a second free axis, fixed by the spec",
        "inputs: {tokens: {shape: [null, 6, 4]}}",
    ),
    Case("pruned_input", "make_models", "unused_input", "an input that nothing uses, left out", "allow_pruned_inputs: true"),
    Case("kept_input", "make_models", "unused_input", "the same, kept in the interface", "allow_pruned_inputs: keep"),
    Case("new_names", "make_models", "mlp", "new names for an input and an output", "names: {x: image, y: probabilities}"),
    Case("signature", "make_models", "several_graphs", "a signature of another name", "model: {serving_key: negated}"),
    Case("tags", "make_models", "several_graphs", "one of several graphs, by its tags", "source: {tags: [serve, gpu]}"),
    Case("random_by_seed", "zoo.signatures", "float_noise", "normal random numbers from a seed that is an input", "compilation: {batch_sizes: [2]}\nverify: {ranges: {seed: [-1000, 1000]}}"),
    Case("random_by_state", "zoo.signatures", "random_by_state", "random bits by a key and a counter, with the next counter as output", "verify: {ranges: {key: [0, 1000], counter: [0, 1000]}}"),
    Case("turns", "zoo.signatures", "turns", "`switch_case` in a loop whose number of turns is an input", _ROWS + "verify: {ranges: {turns: [0, 9]}}"),
    Case("finite_loops", "finite_loops", "loops", "loops that end whatever the inputs are, limited by outer counters, tables and branches; and some that inputs end", _ROWS),
    Case("array", "zoo.signatures", "array", "a `TensorArray` of known size"),
    Case("gradient", "zoo.signatures", "gradient", "a gradient as output"),
    Case("custom_gradient", "zoo.signatures", "custom_gradient", "`tf.custom_gradient`"),
    Case("half", "zoo.signatures", "half", "computes in float16"),
    Case("many_inputs", "zoo.signatures", "many", "24 inputs of two types", _ROWS),
    Case("only_bools", "zoo.signatures", "only_bools", "inputs and outputs that are bool"),
    Case("real_rows", "zoo.signatures", "tokens", "an embedding, compared on rows from a file", _ROWS + "verify: {samples: tokens.npz}"),
    Case("recurrent", "zoo.signatures", "recurrent", "Keras: bidirectional LSTM and GRU, saved by `export`", _ROWS),
    Case("transformer", "zoo.signatures", "transformer", "Keras: embedding, attention, normalisation", _ROWS),
    Case("tf1_loop", "make_models", "tf1_loop", "TensorFlow 1: a loop of Switch and Merge, a reference variable"),
    Case("tf1_branch", "make_models", "tf1_branch", "TensorFlow 1: a branch, and a free batch", "allow_pruned_inputs: true"),
    Case("tf1_saved_again", "make_models", "tf1_saved_again", "TensorFlow 1 saved by TensorFlow 2: its loop is in a function"),
    Case("tf1_below_branches", "make_models", "tf1_below_branches", "loops of TensorFlow 1 below branches of TensorFlow 2"),
)  # fmt: skip

_INTERFACES = (
    Case(
        "interface", "interfaces", "batched",
        "aliases, new names, empty arrays, an ignored input, an input that all rows share",
        "compilation: {batch_sizes: [1, 3]}\nallow_pruned_inputs: keep\n"
        "names: {input_1: image, output_0: probabilities, again: output_0}\n"
        "verify: {ranges: {count: [-9, 9], image: [-1, 1]}, outputs: {probabilities: {rtol: 2.0e-5}}}",
        subset=True,
    ),
    Case("no_batch", "interfaces", "whole", "scalars, constants, an input as output twice, empty arrays", "verify: {ranges: {k: [-5, 5]}}"),
    Case(
        "buckets", "interfaces", "lengths", "several lengths of two axes: inputs are padded, outputs cut back",
        "compilation: {batch_sizes: [1, 2]}\nverify: {ranges: {tokens: [0, 7], mask: [0.5, 1]}}\n"
        "inputs: {tokens: {shape: [null, {buckets: [4, 7], pad: 6}]}, mask: {shape: [null, {buckets: [4, 7], pad: 0}]},\n"
        "  bias: {shape: [{buckets: [4, 7], pad: 0}]}}",
    ),
)  # fmt: skip

_STATE = (
    Case("state_everywhere", "stateful", "places", "variables written in loops, branches and by index", _KEEP + "compilation: {batch_sizes: [1, 3]}"),
    Case("stream", "stateful", "stream", "a recurrent cell whose state stays in variables", _KEEP),
    Case("counter", "make_models", "counter", "a variable that counts the calls", _KEEP),
)  # fmt: skip

_GRAPH_DEFS = (
    Case("frozen_graph", "tfcompile_graphs", "tagger.pb", "inputs by node, a constant for the learning phase", _INFERENCE, subset=True),
    Case("frozen_graph_as_text", "tfcompile_graphs", "tagger.pbtxt", "the same as text", _INFERENCE),
    Case(
        "frozen_graph_with_a_loop", "tfcompile_graphs", "sequence.pb", "a loop of TensorFlow 1 below a function",
        "source: {feeds: {x: features}, fetches: {y: state}}",
    ),
    *(
        Case(f"tfcompile_{name}", "tfcompile_graphs", f"{name}.pb", about, f"source: {{config: {name}.config.pbtxt{more}}}\n{state}")
        for name, about, more, state in (
            ("add", "feeds that are not placeholders", "", ""),
            ("add_with_ckpt", "a checkpoint of version 1", ", checkpoint: add_with_ckpt.ckpt", ""),
            ("add_with_ckpt_saver", "a checkpoint of version 2", ", checkpoint: add_with_ckpt_saver.ckpt", ""),
            ("assert_eq", "an assertion that no output needs", "", ""),
            ("cond", "a branch", "", ""),
            ("cond_v1", "a branch of TensorFlow 1", "", ""),
            ("function", "a call of a function", "", ""),
            ("gather", "indices as an input", "", ""),
            ("matmul", "placeholders without a shape", "", ""),
            ("matmul_and_add", "two outputs, and names for everything", "", ""),
            ("scatter", "updates at indices", "", ""),
            ("splits", "many nodes", "", ""),
            ("top_k", "two outputs of one node", "", ""),
            ("variable", "a variable that each call changes", "", _KEEP),
            ("variable_readonly", "a variable that is only read", ", checkpoint: variable_readonly.ckpt", ""),
            ("variable_sequential_updates", "updates whose order only control edges define", "", _KEEP),
            ("variable_uninitialized", "a variable that nothing initialises", "", _KEEP),
        )
    ),
)  # fmt: skip

_KERAS = (
    Case("keras", "keras_models", "functional.keras", "two inputs, two outputs, a nested model, a shared layer", subset=True),
    Case("keras_dictionaries", "keras_models", "dictionaries.keras", "dictionaries of inputs and outputs"),
    Case("keras_h5", "keras_models", "sequential.h5", "recurrent layers, as HDF5"),
    Case("keras_2_h5", "keras_models", "calls2.h5", "Keras 2, with a layer that Keras 3 lacks"),
    Case("keras_2", "keras_models", "sequential2.keras", "Keras 2, as .keras"),
)  # fmt: skip

_STABLEHLO = (
    Case("jax", "exported", "nested.jax", "`jax.export` with a symbolic batch, dictionaries and a keyword", "allow_pruned_inputs: keep\n" + _ROWS, subset=True),
    Case("jax_types", "exported", "types.jax", "every element type of XLA"),
    Case("jax_fixed", "exported", "chain.jax", "`switch`, `scan`, windows; an argument that JAX leaves out", "allow_pruned_inputs: true"),
    Case("stablehlo_text", "exported", "chain.mlir", "the same module as text"),
    Case("stablehlo_bytecode", "exported", "chain.mlirbc", "the same module as bytecode"),
)  # fmt: skip

_ONNX = (
    Case("onnx", "zoo.onnx_files", "classifier.onnx", "convolution, normalisation, pooling in NCHW; a name that is not an identifier", "inputs: {image: {shape: [null, 3, 8, 6]}}\n" + _ROWS, subset=True),
    Case("onnx_directory", "zoo.onnx_files", "external", "a directory: weights in another file", "source: {format: onnx}\ninputs: {image: {shape: [null, 3, 8, 6]}}\n" + _ROWS),
    Case("onnx_resize", "zoo.onnx_files", "resize.onnx", "opset 11: resizing"),
    Case("onnx_control_flow", "zoo.onnx_files", "loop.onnx", "a loop with a known number of turns, a branch by a value"),
    Case("onnx_quantised", "zoo.onnx_files", "quantised.onnx", "a quantised product"),
    Case("onnx_lstm", "zoo.onnx_files", "lstm.onnx", "a bidirectional LSTM"),
    Case("onnx_ml", "zoo.onnx_files", "ml.onnx", "classical machine learning: a scaler"),
)  # fmt: skip

_LARGE = tuple(
    Case(
        f"large_{name}",
        "large",
        path,
        "ten megabytes of weights",
        f"{more}compilation: {{batch_sizes: [2]}}\n",
    )
    for name, path, more in (
        ("saved_model", "saved_model", ""),
        ("graph", "graph.pb", "source: {feeds: {x: x}, fetches: {y: y}}\n"),
        ("graph_as_text", "graph.pbtxt", "source: {feeds: {x: x}, fetches: {y: y}}\n"),
        ("keras", "model.keras", ""),
        ("keras_h5", "model.h5", ""),
        ("stablehlo_text", "module.mlir", ""),
        ("stablehlo_bytecode", "module.mlirbc", ""),
        ("jax", "function.jax", ""),
        ("onnx", "model.onnx", ""),
    )
)
"""One for each format: all others are small, and show nothing that takes longer than it should."""

GROUPS = {
    "TensorFlow SavedModel": _SAVED_MODELS,
    "Unusual interfaces": _INTERFACES,
    "State": _STATE,
    "TensorFlow GraphDef": _GRAPH_DEFS,
    "Keras": _KERAS,
    "JAX and StableHLO": _STABLEHLO,
    "ONNX": _ONNX,
    "Large": _LARGE,
}
"""Models that are compiled and compared with TensorFlow, by headings of the page."""

_REFUSED_NAMES = (
    *("string_input", "string_output", "images", "records", "ragged", "sparse", "unsupported_op"),
    *("type", "where", "boolean_mask", "unique", "partition", "detections"),
    *("dynamic_top_k", "dynamic_reshape", "dynamic_range", "dynamic_fill", "dynamic_tile"),
    *("dynamic_depth", "dynamic_slice", "dynamic_resize", "growing_array", "assertion"),
    *("random", "queue", "hash_table", "python"),
    *("print", "dataset", "read_file", "free_axes", "unknown_rank", "unused_input"),
    *("no_signature", "wrong_tags", "custom_op", "damaged", "endless_loop", "too_large"),
    *("sparse_input", "text_form", "absent", "huge"),
)

REFUSED = (
    *(Case(name, "refused", name, refused=True) for name in _REFUSED_NAMES),
    Case("not_a_number", "refused", "not_a_number", "", "verify: {ranges: {x: [-2, -1]}}", refused=True),
    Case("one_row_only", "refused", "one_row_only", "", "compilation: {batch_sizes: [2]}", refused=True),
    Case("undeclared_state", "make_models", "counter", refused=True),
    Case("operation_in_a_loop", "make_models", "bessel_loop", refused=True),
    Case("size_from_a_value", "make_models", "counted", refused=True),
    Case("rows_by_a_mask", "make_models", "selected", refused=True),
    Case("no_such_signature", "make_models", "mlp", "", "model: {serving_key: other}", refused=True),
    Case("no_such_tags", "make_models", "several_graphs", "", "source: {tags: [tpu]}", refused=True),
    Case("new_name_for_nothing", "make_models", "mlp", "", "names: {input: image}", refused=True),
    Case("state_without_variables", "make_models", "mlp", "", _KEEP, refused=True),
    Case("padding_in_a_mean", "interfaces", "unmasked", "", "inputs: {x: {shape: [null, {buckets: [4, 7], pad: 0}, 3]}}", refused=True),
    Case("half_a_length", "interfaces", "halves", "", "inputs: {x: {shape: [null, {buckets: [4, 7], pad: 0}, 3]}}", refused=True),
    Case("graph_without_feeds", "tfcompile_graphs", "tagger.pb", refused=True),
    Case("graph_with_a_wrong_feed", "tfcompile_graphs", "tagger.pb", "", _INFERENCE.replace("input", "inputs"), refused=True),
    Case("graph_with_a_free_placeholder", "tfcompile_graphs", "tagger.pb", "", _GRAPH.format(""), refused=True),
    Case("graph_in_training", "tfcompile_graphs", "tagger.pb", "", _INFERENCE.replace("false", "true"), refused=True),
    Case("graph_of_text", "tfcompile_graphs", "tagger.pb", "", "source: {fetches: {y: of_training}}", refused=True),
    Case("graph_random_uniform", "tfcompile_graphs", "random_uniform.pb", "", "source: {config: random_uniform.config.pbtxt}", refused=True),
    Case("keras_lambda", "keras_models", "lambda.keras", refused=True),
    Case("keras_lambda_h5", "keras_models", "lambda.h5", refused=True),
    Case("keras_custom_class", "keras_models", "custom.keras", refused=True),
    Case("keras_foreign_module", "keras_models", "module.keras", refused=True),
    Case("keras_weights_only", "keras_models", "only.weights.h5", refused=True),
    Case("keras_bomb", "keras_models", "bomb.keras", refused=True),
    Case("keras_damaged", "keras_models", "cut.keras", refused=True),
    Case("float8", "zoo.signatures", "float8", refused=True),
    Case("int4", "zoo.signatures", "int4", refused=True),
    Case("lengthened_array", "zoo.signatures", "lengthened_array", refused=True),
    Case("clock", "zoo.signatures", "clock", refused=True),
    Case("onnx_non_zero", "zoo.onnx_files", "non_zero.onnx", refused=True),
    Case("onnx_trees", "zoo.onnx_files", "trees.onnx", refused=True),
    Case("onnx_noise", "zoo.onnx_files", "noise.onnx", refused=True),
    Case("onnx_custom_domain", "zoo.onnx_files", "custom.onnx", refused=True),
    Case("onnx_text", "zoo.onnx_files", "text.onnx", refused=True),
    Case("onnx_damaged", "zoo.onnx_files", "cut.onnx", refused=True),
    Case("jax_lapack", "exported", "inverse.jax", refused=True),
)  # fmt: skip
"""Models that are refused in one sentence."""

CASES = (*SUITES, *(case for group in GROUPS.values() for case in group), *REFUSED)

SUBSET = tuple(case for case in CASES if case.subset)
"""What runs quickly, and for other processors and systems: every format and every kind of step."""
