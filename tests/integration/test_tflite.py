"""Files of TensorFlow Lite: graphs that compute what its own interpreter does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from modelwheel.compiler.formats.tflite.lite_graph import OPERATORS
from modelwheel.compiler.formats.tflite.lite_sparse import dense
from modelwheel.compiler.formats.tflite.tflite_file import read_file
from modelwheel.compiler.loaded.base import SignatureGraph, StatefulModel
from modelwheel.compiler.loaded.rows_first import innermost
from modelwheel.errors import UnsupportedModelError
from tests.support.commands import Modelwheel
from tests.support.lite import load, operators_of, packed, results_of, without
from tests.support.lite_operators import SINGLE, X, single

pytestmark = pytest.mark.slow

_RANDOM = np.random.default_rng(7)


def _weights(*shape: int) -> Any:
    return tf.constant(_RANDOM.normal(size=shape) * 0.3, tf.float32)


def _convolutions(x: Any) -> Any:
    x = tf.nn.relu6(tf.nn.conv2d(x, _weights(3, 3, 3, 8), 1, "SAME") + _weights(8))
    x = tf.nn.depthwise_conv2d(x, _weights(3, 3, 8, 1), [1, 2, 2, 1], "SAME") + _weights(8)
    x = tf.nn.depthwise_conv2d(tf.nn.relu(x), _weights(3, 3, 8, 2), [1] * 4, "VALID") + _weights(16)
    return tf.nn.conv2d(x, _weights(2, 2, 16, 4), 1, "VALID", dilations=[1, 2, 2, 1])


def _images(x: Any) -> Any:
    y = tf.image.resize(x, [9, 7])
    z = tf.compat.v1.image.resize_nearest_neighbor(x, [24, 24], half_pixel_centers=True)
    p = tf.nn.max_pool2d(x, 2, 2, "SAME") + tf.nn.avg_pool2d(x, 2, 2, "SAME")
    q = tf.nn.depth_to_space(tf.nn.space_to_depth(x, 2), 2)
    up = tf.nn.conv2d_transpose(x, _weights(3, 3, 2, 3), [1, 24, 24, 2], [1, 2, 2, 1], "SAME")
    m = tf.pad(q, [[0, 0], [1, 1], [2, 2], [0, 0]], "REFLECT")
    n = tf.nn.local_response_normalization(x, 2, 1.0, 0.1, 0.5)
    return tf.concat([tf.reshape(v, [-1]) for v in (y, z, p, q, up, m, n)], 0)


def _elements(x: Any) -> Any:
    y = tf.abs(x) + 0.5
    values = [tf.exp(x), tf.math.log(y), tf.sqrt(y), tf.math.rsqrt(y), tf.sin(x), tf.cos(x)]
    values += [tf.tanh(x), tf.sigmoid(x), tf.nn.elu(x), tf.nn.leaky_relu(x, 0.1), -x, x * x]
    values += [tf.floor(x), tf.math.ceil(x), tf.round(x), tf.sign(x), tf.nn.relu(x), x - y, x / y]
    values += [
        tf.pow(y, 1.5),
        tf.minimum(x, 0.3),
        tf.maximum(x, y),
        tf.math.squared_difference(x, y),
    ]
    values += [tf.math.floormod(x, y), tf.math.floordiv(x, y), tf.zeros_like(x)]
    values += [tf.nn.gelu(x, approximate=True), tf.nn.relu6(x + 3.0) * x / 6.0]
    values += [tf.clip_by_value(x, -1.0, 1.0), tf.math.atan2(x, y), tf.add_n([x, y, x])]
    keep = tf.logical_or(tf.logical_and(x > 0.1, tf.logical_not(x >= y)), tf.equal(x, y))
    keep = tf.logical_and(
        keep, tf.logical_or(x < 2.0, tf.logical_and(x <= 3.0, tf.not_equal(x, 1.0)))
    )
    values += [tf.where(keep, x, y), tf.cast(keep, tf.float32)]
    return tf.stack(values)


def _reductions(x: Any) -> Any:
    values = [
        tf.reduce_mean(x, -1),
        tf.reduce_sum(x, -1),
        tf.reduce_max(x, -1),
        tf.reduce_min(x, -1),
    ]
    values += [tf.reduce_prod(x, -1), tf.cast(tf.argmax(x, -1), tf.float32)]
    values += [tf.cast(tf.argmin(x, -1), tf.float32), tf.reduce_max(tf.nn.softmax(x), -1)]
    values += [tf.reduce_max(tf.nn.log_softmax(x), -1), tf.cumsum(x, -1)[..., -1]]
    values += [tf.cast(tf.reduce_any(x > 1.0, -1), tf.float32)]
    values += [tf.cast(tf.reduce_all(x > -1.0, -1), tf.float32)]
    values += [tf.math.top_k(x, 3).values[..., 2], tf.reduce_sum(tf.math.l2_normalize(x, -1), -1)]
    return tf.stack(values)


def _movements(x: Any) -> Any:
    a, b = tf.split(x, 2, -1)
    c, d = tf.split(x, [1, 3], 1)
    rows = tf.unstack(x, axis=1)
    values = [tf.transpose(a, [0, 2, 1]), tf.expand_dims(b, 1), c, d, rows[1], x[:, ::-1, 1:3]]
    values += [tf.gather(x, [2, 0], axis=1), tf.gather_nd(x, [[0, 1, 2], [1, 3, 0]])]
    values += [
        tf.tile(a, [1, 2, 1]),
        tf.reverse(x, [1]),
        tf.squeeze(c, 1),
        tf.slice(x, [0, 1, 0], [2, 2, 3]),
    ]
    values += [
        tf.pad(x, [[0, 0], [1, 0], [0, 1]]),
        tf.pad(x, [[0, 0], [1, 0], [0, 1]], constant_values=2.0),
    ]
    values += [tf.broadcast_to(x[:, :1], [2, 3, 6]), tf.one_hot(tf.cast(x[0, 0] > 0, tf.int32), 3)]
    values += [tf.scatter_nd([[1], [3]], x[0, :2], [5, 6]), tf.fill(tf.shape(x), 1.0) * x]
    values += [tf.reverse_sequence(x, [2, 3], 1), tf.cast(tf.rank(x) + tf.range(6), tf.float32) * x]
    values += [tf.space_to_batch(x[:, :, None], [2, 1], [[0, 0], [0, 0]])]
    return tf.concat([tf.reshape(v, [-1]) for v in values], 0)


def _products(x: Any) -> Any:
    y = tf.nn.relu(tf.matmul(x, _weights(6, 5)) + _weights(5))
    z = tf.matmul(x, x, transpose_b=True)
    spectrum = tf.signal.rfft(tf.reshape(x, [-1, 24]), [32])
    parts = [y, z, tf.abs(spectrum), tf.math.real(spectrum), tf.math.imag(spectrum)]
    return tf.concat([tf.reshape(v, [-1]) for v in parts], 0)


def _control(x: Any) -> Any:
    y = tf.cond(tf.reduce_sum(x) > 0.0, lambda: x * 2.0, lambda: x - 1.0)
    _, z = tf.while_loop(lambda n, _: n < 5, lambda n, v: (n + 1, tf.tanh(v) + x), (0, y))
    return z


def _prelu(x: Any) -> Any:
    return tf.nn.relu(x) + _weights(5, 4) * -tf.nn.relu(-x)


_MODELS: Mapping[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "convolutions": (_convolutions, (1, 14, 15, 3)),
    "images": (_images, (1, 12, 12, 3)),
    "elements": (_elements, (3, 7)),
    "reductions": (_reductions, (3, 4, 6)),
    "movements": (_movements, (2, 4, 6)),
    "products": (_products, (2, 4, 6)),
    "control": (_control, (3, 4)),
    "prelu": (_prelu, (2, 5, 4)),
    "volumes": (
        lambda x: tf.nn.conv3d(x, _weights(2, 2, 2, 3, 4), [1] * 5, "SAME"),
        (1, 4, 5, 6, 3),
    ),
}


_ELSEWHERE = frozenset(
    {
        "CALL",
        "DENSIFY",
        "DEQUANTIZE",
        "RANGE",
        "SET_ITEM",
        "STABLEHLO_COMPOSITE",
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "CALL_ONCE",
        "VAR_HANDLE",
        "ASSIGN_VARIABLE",
        "QUANTIZE",
        "READ_VARIABLE",
    }
)
"""Operators of other tests."""


def _converted(
    function: Callable[[Any], Any], shape: tuple[int | None, ...], **options: Any
) -> bytes:
    traced = tf.function(function).get_concrete_function(tf.TensorSpec(shape, tf.float32, "x"))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced])
    for name, value in options.items():
        setattr(converter, name, value)
    return bytes(converter.convert())


def _compare(path: Path, shape: tuple[int, ...]) -> SignatureGraph:
    model = load(path)
    (name,) = (tensor.name for tensor in model.info.inputs)
    inputs = {name: np.random.default_rng(3).normal(size=shape).astype(np.float32)}
    made: SignatureGraph = model.graph({name: shape})
    results = results_of(made, inputs)
    for output, expected in model(inputs).items():
        np.testing.assert_allclose(results[output], expected, rtol=2e-5, atol=2e-5)
    return made


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The models as files."""
    directory = tmp_path_factory.mktemp("lite")
    made = {name: directory / f"{name}.tflite" for name in _MODELS}
    for name, path in made.items():
        path.write_bytes(_converted(*_MODELS[name]))
    return made


@pytest.mark.parametrize("name", _MODELS)
def test_a_graph_computes_what_the_interpreter_does(name: str, files: dict[str, Path]) -> None:
    _compare(files[name], _MODELS[name][1])


def test_every_operator_is_in_a_model(files: dict[str, Path]) -> None:
    assert OPERATORS.keys() - operators_of(files.values()) == SINGLE.keys() | _ELSEWHERE


@pytest.mark.parametrize("op", SINGLE)
def test_an_operator_alone(op: str, tmp_path: Path) -> None:
    path = tmp_path / "one.tflite"
    path.write_bytes(single(op))
    model = load(path)
    inputs = {"t0": np.asarray(SINGLE[op][0][0])}
    ((output, expected),) = model(inputs).items()
    found = results_of(model.graph({"t0": inputs["t0"].shape}), inputs)[output]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape


def _composite() -> bytes:
    """A file whose operator is the subgraph that a converter has kept beside it, as those of PyTorch do."""
    model = schema.ModelT.InitFromPackedBuf(single("HARD_SWISH"), 0)
    inner, operator = model.subgraphs[0], schema.OperatorT()
    outer = copy.deepcopy(inner)
    operator.opcodeIndex, operator.inputs, operator.outputs = 1, inner.inputs, inner.outputs
    options = operator.builtinOptions2 = schema.StableHLOCompositeOptionsT()
    options.name, options.decompositionSubgraphIndex = "odml.hard_swish", 1
    operator.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
    code = schema.OperatorCodeT()
    code.builtinCode = schema.BuiltinOperator.STABLEHLO_COMPOSITE
    code.deprecatedBuiltinCode, code.version = 127, 1
    outer.operators, model.subgraphs = [operator], [outer, inner]
    model.operatorCodes.append(code)
    return packed(model)


def test_a_composite_is_what_it_is_made_of(tmp_path: Path) -> None:
    path = tmp_path / "composite.tflite"
    path.write_bytes(_composite())
    model = load(path)
    ((output, expected),) = model({"t0": X}).items()
    found = results_of(model.graph({"t0": X.shape}), {"t0": X})[output]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def _with_variable() -> bytes:
    """A model that changes a variable in each call."""

    class Module(tf.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.total = tf.Variable([1.0, 2.0, 3.0])

        @tf.function(input_signature=[tf.TensorSpec((2, 3), tf.float32, "x")])  # type: ignore[untyped-decorator, unused-ignore]
        def call(self, x: Any) -> Any:
            return x * self.total.assign_add(x[0])

    module = Module()
    traced = module.call.get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced], module)
    converter.experimental_enable_resource_variables = True
    return bytes(converter.convert())


def test_variables_that_calls_change_are_state(tmp_path: Path) -> None:
    """Each call reads what the one before has written."""
    path = tmp_path / "changed.tflite"
    path.write_bytes(_with_variable())
    model = load(path)
    made = model.graph({"x": (2, 3)})
    (variable,) = made.state
    np.testing.assert_array_equal(variable.value, [1, 2, 3])
    calls = [{"x": _RANDOM.normal(size=(2, 3)).astype(np.float32)} for _ in range(3)]
    loaded = innermost(model)
    assert isinstance(loaded, StatefulModel)
    restore = loaded.snapshot()
    expected = [model(inputs) for inputs in calls]
    for results, wanted in zip(results_of(made, *calls), expected, strict=True):
        for name, values in wanted.items():
            np.testing.assert_allclose(results[name], values, rtol=1e-6)
    total = np.array([1, 2, 3], np.float32) + sum(inputs["x"][0] for inputs in calls)
    np.testing.assert_allclose(variable.read(), total, rtol=1e-6)
    restore()
    np.testing.assert_array_equal(variable.read(), [1, 2, 3])


def test_variables_without_a_first_value_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "unknown.tflite"
    path.write_bytes(without(_with_variable(), schema.BuiltinOperator.CALL_ONCE))
    with pytest.raises(UnsupportedModelError, match="without a value before the first call"):
        load(path).graph({"x": (2, 3)})


def test_variables_that_hold_weights_are_constants(tmp_path: Path) -> None:
    path = tmp_path / "weights.tflite"
    path.write_bytes(without(_with_variable(), schema.BuiltinOperator.ASSIGN_VARIABLE))
    _compare(path, (2, 3))


@pytest.mark.parametrize("module", ["keras", "tf_keras"])
@pytest.mark.parametrize("layer", ["LSTM", "GRU"])
def test_recurrent_layers(module: str, layer: str, tmp_path: Path) -> None:
    """As loops that put rows into lists, and as one operator."""
    keras = pytest.importorskip(module)
    path = tmp_path / "recurrent.tflite"
    given = keras.Input((12, 6), batch_size=1)
    make = getattr(keras.layers, layer)
    biases = keras.initializers.RandomUniform(seed=1)
    network = keras.Model(given, make(5, return_sequences=True, bias_initializer=biases)(given))
    if module == "keras":
        converter = tf.lite.TFLiteConverter.from_keras_model(network)
    else:
        traced = tf.function(network).get_concrete_function(tf.TensorSpec((1, 12, 6), name="x"))
        converter = tf.lite.TFLiteConverter.from_concrete_functions([traced], network)
    path.write_bytes(converter.convert())
    used = {operator.op for graph in read_file(path).graphs for operator in graph.operators}
    assert ("UNIDIRECTIONAL_SEQUENCE_LSTM" in used) == (module == "tf_keras" and layer == "LSTM")
    _compare(path, (1, 12, 6))


def test_constants_that_grow_are_not_computed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "large.tflite"
    model = schema.ModelT.InitFromPackedBuf(single("PRELU"), 0)
    (graph,), code = model.subgraphs, model.operatorCodes[0]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.MAXIMUM
    for tensor, shape in zip(graph.tensors, ([70_000, 1], [1, 70_000]), strict=False):
        tensor.shape, tensor.buffer = shape, len(model.buffers)
        model.buffers.append(schema.BufferT())
        model.buffers[-1].data = np.zeros(4 * 70_000, np.uint8)
    graph.inputs = []
    path.write_bytes(packed(model))
    made = load(path).graph({})
    assert "Maximum" in {node.op for node in made.graph_def.node}


def test_rows_may_be_free(tmp_path: Path) -> None:
    path = tmp_path / "rows.tflite"
    function = lambda x: tf.reshape(tf.matmul(x, _weights(6, 4)), [tf.shape(x)[0], 2, 2])
    path.write_bytes(_converted(function, (None, 6)))
    assert load(path).info.inputs[0].shape == (None, 6)
    for rows in (1, 5):
        _compare(path, (rows, 6))


def test_sizes_may_be_free(tmp_path: Path) -> None:
    """The file is read, also where an operator is converted for known sizes only."""
    path = tmp_path / "sizes.tflite"
    function = lambda x: tf.image.resize(x, 2 * tf.shape(x)[1:3])
    path.write_bytes(_converted(function, (1, None, None, 3)))
    assert load(path).info.inputs[0].shape == (1, None, None, 3)
    for extent in (5, 8):
        _compare(path, (1, extent, 6, 3))


def test_weights_of_16_bits_become_constants(tmp_path: Path) -> None:
    path = tmp_path / "half.tflite"
    target = tf.lite.TargetSpec(supported_types=[tf.float16])
    options = {"optimizations": [tf.lite.Optimize.DEFAULT], "target_spec": target}
    path.write_bytes(_converted(_convolutions, (1, 14, 15, 3), **options))
    made = _compare(path, (1, 14, 15, 3))
    assert not [node for node in made.graph_def.node if node.op == "Cast"]


def test_custom_operators_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "custom.tflite"
    path.write_bytes(_converted(tf.math.erfc, (2, 3), allow_custom_ops=True))
    with pytest.raises(UnsupportedModelError, match=r"operators .*\(CUSTOM Erfc\)"):
        load(path)


def test_subgraphs_that_call_themselves_are_refused(tmp_path: Path, files: dict[str, Path]) -> None:
    model = schema.ModelT.InitFromPackedBuf(files["control"].read_bytes(), 0)
    for graph in model.subgraphs:
        for operator in graph.operators:
            if isinstance(operator.builtinOptions, schema.IfOptionsT):
                operator.builtinOptions.thenSubgraphIndex = 0
    path = tmp_path / "endless.tflite"
    path.write_bytes(packed(model))
    with pytest.raises(UnsupportedModelError, match="call each other more than"):
        load(path)


@pytest.mark.parametrize("name", ["convolutions", "control"])
@pytest.mark.parametrize("kept", [0, 4, 8, 100, 0.5, 0.9])
def test_a_truncated_file_is_refused(
    name: str, kept: float, tmp_path: Path, files: dict[str, Path]
) -> None:
    content = files[name].read_bytes()
    path = tmp_path / "cut.tflite"
    path.write_bytes(content[: int(kept if kept > 1 or not kept else kept * len(content))])
    with pytest.raises(UnsupportedModelError, match=r"cut\.tflite|the file"):
        load(path)


def test_sparse_constants() -> None:
    # Rows are dense; of their columns, two by two in blocks, only some are there.
    levels = [_level(2), _level(segments=[0, 1, 3], indices=[1, 0, 2]), _level(2)]
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder, sparsity.blockMap, sparsity.dimMetadata = [0, 1, 2], [1], levels
    elements = np.arange(1, 7, dtype=np.float32)
    expected = [[0, 0, 1, 2, 0, 0], [3, 4, 0, 0, 5, 6]]
    assert dense(elements, (2, 6), sparsity).tolist() == expected
    with pytest.raises(ValueError, match="other elements"):
        dense(elements[:-1], (2, 6), sparsity)


def _level(
    size: int = 0, segments: list[int] | None = None, indices: list[int] | None = None
) -> schema.DimensionMetadataT:
    level = schema.DimensionMetadataT()
    level.format = (
        schema.DimensionType.DENSE if indices is None else schema.DimensionType.SPARSE_CSR
    )
    level.denseSize = size
    level.arraySegments, level.arrayIndices = (_vector(segments or []), _vector(indices or []))
    return level


def _vector(values: list[int]) -> schema.Int32VectorT:
    vector = schema.Int32VectorT()
    vector.values = values
    return vector


def test_a_wheel(modelwheel: Modelwheel, files: dict[str, Path], tmp_path: Path) -> None:
    modelwheel("new", "lite", "--model", files["convolutions"], "--out", tmp_path)
    built = modelwheel("build", tmp_path / "lite.yaml", "--out", tmp_path / "dist")
    assert list((tmp_path / "dist").glob("*.whl")), built
