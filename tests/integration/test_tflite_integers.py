"""Files of TensorFlow Lite with 8-bit integers: graphs that compute the integers that its interpreter does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from modelwheel.compiler.formats.tflite.lite_modules import WRITTEN
from modelwheel.compiler.formats.tflite.tflite_file import read_file
from modelwheel.errors import UnsupportedModelError
from tests.support.commands import Modelwheel
from tests.support.lite import load, operators_of, packed, results_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Statistics for quantized inputs"),
]

_RANDOM = np.random.default_rng(11)
_SHAPE = (1, 12, 10, 8)


def _weights(*shape: int) -> Any:
    return tf.constant(_RANDOM.normal(size=shape) * 0.3, tf.float32)


def _convolutions(x: Any) -> Any:
    y = tf.nn.relu6(tf.nn.conv2d(x, _weights(3, 3, 8, 16), [1, 2, 2, 1], "SAME") + _weights(16))
    z = tf.nn.relu(tf.nn.depthwise_conv2d(y, _weights(3, 3, 16, 1), [1] * 4, "SAME") + _weights(16))
    y = y + tf.nn.conv2d(z, _weights(1, 1, 16, 16), 1, "VALID")
    y = tf.nn.conv2d(y, _weights(2, 3, 16, 8), 1, "VALID", dilations=[1, 2, 1, 1]) + _weights(8)
    return tf.matmul(tf.reshape(y, [1, -1]), _weights(4 * 3 * 8, 7)) + _weights(7)


def _elements(x: Any) -> Any:
    y = x * _weights(8) - _weights(1, 1, 1, 8)
    values = [tf.nn.relu(x), tf.nn.relu6(y), tf.clip_by_value(y, -1.0, 1.0), tf.tanh(x)]
    values += [tf.sigmoid(y), tf.nn.elu(x), tf.nn.leaky_relu(y, 0.2), tf.abs(x), tf.exp(y * 0.5)]
    values += [y * tf.nn.relu6(y + 3.0) / 6.0, tf.maximum(x, x * 0.5), tf.nn.relu(x + y)]
    return tf.stack(values)


def _pools(x: Any) -> Any:
    y = tf.nn.max_pool2d(x, 3, 2, "SAME")
    z = tf.nn.avg_pool2d(x, [3, 2], [2, 1], "SAME")
    values = [y, z, tf.nn.relu(tf.nn.max_pool2d(x, 2, 2, "VALID")), tf.reduce_mean(x, [1, 2])]
    values += [tf.reduce_sum(x, -1), tf.reduce_max(x, -1)]
    return tf.concat([tf.reshape(v, [1, -1]) for v in values], -1)


def _movements(x: Any) -> Any:
    a, b = tf.split(x, 2, -1)
    c, d, e = tf.split(x, [2, 5, 5], 1)
    joined = tf.concat([a, b * 3.0, tf.tanh(a)], -1)
    values = [joined, tf.concat([d, e], 2), tf.transpose(c, [0, 3, 1, 2]), x[:, 2:9:3, ::2, 1]]
    values += [
        tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]]),
        tf.slice(x, [0, 1, 0, 2], [1, 3, -1, 4]),
    ]
    values += [tf.squeeze(x, 0), tf.expand_dims(a, 2), tf.gather(x, [3, 1], axis=1), x[..., ::-1]]
    values += [tf.nn.depth_to_space(x, 2), tf.image.resize(x, [24, 20])]
    values += [tf.compat.v1.image.resize_nearest_neighbor(x, [24, 20]), tf.nn.softmax(x)]
    return tf.concat([tf.reshape(v, [1, -1]) for v in values], -1)


def _products(x: Any) -> Any:
    up = tf.nn.conv2d_transpose(x, _weights(3, 3, 4, 8), [1, 24, 20, 4], 2)
    rows = tf.reshape(x, [12, 80])
    values = [up, tf.matmul(rows, rows, transpose_b=True), tf.matmul(rows, _weights(80, 5))]
    return tf.concat([tf.reshape(v, [1, -1]) for v in values], -1)


_MODELS: dict[str, Callable[[Any], Any]] = {
    "convolutions": _convolutions,
    "elements": _elements,
    "movements": _movements,
    "pools": _pools,
    "products": _products,
}
_NEAR = {"elements": 1, "movements": 1, "pools": 1, "products": 1}
"""Integers that results may differ by: other kernels of TensorFlow Lite have rougher arithmetic than their definitions."""


def _converted(function: Callable[[Any], Any], kind: Any, shape: Any = _SHAPE) -> bytes:
    traced = tf.function(function).get_concrete_function(tf.TensorSpec(shape, tf.float32, "x"))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]

    def samples() -> Iterator[list[Any]]:
        for _ in range(6):
            yield [_RANDOM.normal(size=[n or 1 for n in shape]).astype(np.float32)]

    converter.representative_dataset = samples
    if kind is not None:
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = kind
    return bytes(converter.convert())


def _inputs(model: Any, shape: Any, seed: int = 3) -> dict[str, Any]:
    (tensor,) = model.info.inputs
    random = np.random.default_rng(seed)
    if tensor.dtype == "float32":
        return {tensor.name: random.normal(size=shape).astype(np.float32)}
    kind = np.iinfo(tensor.dtype)
    return {tensor.name: random.integers(kind.min, kind.max + 1, shape).astype(tensor.dtype)}


def _compare(path: Path, shape: Any, near: int = 0) -> None:
    model = load(path)
    inputs = _inputs(model, shape)
    results = results_of(model.graph(dict.fromkeys(inputs, shape)), inputs)
    for output, expected in model(inputs).items():
        difference = np.abs(results[output].astype(np.float64) - expected)
        assert difference.max() <= near, (output, difference.max(), np.mean(difference > 0))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The models as files."""
    directory = tmp_path_factory.mktemp("bytes")
    made = {name: directory / f"{name}.tflite" for name in _MODELS}
    for name, path in made.items():
        path.write_bytes(_converted(_MODELS[name], tf.int8))
    return made


@pytest.mark.parametrize("name", _MODELS)
def test_a_graph_computes_the_integers_of_the_interpreter(
    name: str, files: dict[str, Path]
) -> None:
    _compare(files[name], _SHAPE, _NEAR.get(name, 0))


def test_every_operator_is_in_a_model(files: dict[str, Path]) -> None:
    assert WRITTEN.keys() - operators_of(files.values()) == _SINGLE.keys()


_SINGLE: dict[str, tuple[str, dict[str, Any]]] = {
    "EXPAND_DIMS": ("ExpandDimsOptionsT", {}),
    "GELU": ("GeluOptionsT", {"approximate": False}),
    "LOG": ("", {}),
    "RELU_0_TO_1": ("", {}),
    "RSQRT": ("", {}),
    "SQUEEZE": ("SqueezeOptionsT", {"squeezeDims": [0]}),
}
"""What the converter does not make of such models: the type of the attributes, and these."""


def _single(op: str) -> bytes:
    """A file with one operator."""
    operator, graph, model = schema.OperatorT(), schema.SubGraphT(), schema.ModelT()
    kind, options = _SINGLE[op]
    if kind:
        operator.builtinOptions = getattr(schema, kind)()
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind.removesuffix("T"))
        for field, value in options.items():
            setattr(operator.builtinOptions, field, value)
    axis = np.array([1], np.int32)
    shapes = {"EXPAND_DIMS": [1, 1, 6], "SQUEEZE": [6]}
    model.buffers = [schema.BufferT(), schema.BufferT()]
    model.buffers[1].data = np.frombuffer(axis.tobytes(), np.uint8)
    graph.tensors = [_tensor("x", [1, 6]), _tensor("y", shapes.get(op, [1, 6])), schema.TensorT()]
    last = graph.tensors[2]
    last.name, last.shape, last.type, last.buffer = "axis", [1], schema.TensorType.INT32, 1
    operator.opcodeIndex, operator.outputs = 0, [1]
    operator.inputs = [0, 2] if op == "EXPAND_DIMS" else [0]
    graph.operators, graph.inputs, graph.outputs = [operator], [0], [1]
    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, op)
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.version = 1 if op in ("EXPAND_DIMS", "RELU_0_TO_1") else 2
    model.version, model.subgraphs, model.operatorCodes = 3, [graph], [code]
    return packed(model)


def _tensor(name: str, shape: list[int]) -> schema.TensorT:
    tensor, scaling = schema.TensorT(), schema.QuantizationParametersT()
    scaling.scale, scaling.zeroPoint = np.array([0.02], np.float32), np.array([-128])
    tensor.name, tensor.shape, tensor.quantization = name, shape, scaling
    tensor.type = schema.TensorType.INT8
    return tensor


@pytest.mark.parametrize("op", _SINGLE)
def test_an_operator_alone(op: str, tmp_path: Path) -> None:
    path = tmp_path / "one.tflite"
    path.write_bytes(_single(op))
    _compare(path, (1, 6))


@pytest.mark.parametrize("kind", [tf.uint8, None])
def test_other_types_at_the_ends(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "ends.tflite"
    path.write_bytes(_converted(_convolutions, kind))
    _compare(path, _SHAPE)
    ops = {operator.op for operator in read_file(path).graphs[0].operators}
    assert "QUANTIZE" in ops


def test_rows_may_be_free(tmp_path: Path) -> None:
    path = tmp_path / "rows.tflite"
    function = lambda x: tf.nn.relu(tf.matmul(x, _weights(6, 4)) + _weights(4))
    path.write_bytes(_converted(function, tf.int8, (None, 6)))
    assert load(path).info.inputs[0].shape == (None, 6)
    for rows in (1, 5):
        _compare(path, (rows, 6))


def test_results_without_data_are_one_module(files: dict[str, Path]) -> None:
    model = load(files["convolutions"])
    (name,) = (tensor.name for tensor in model.info.inputs)
    nodes = model.graph({name: _SHAPE}).graph_def.node
    assert [node.op for node in nodes].count("XlaCallModule") == 1


def test_weights_of_8_bits_of_float_layers_are_floats(tmp_path: Path) -> None:
    path = tmp_path / "dynamic.tflite"
    traced = tf.function(lambda x: tf.matmul(x, _weights(64, 64))).get_concrete_function(
        tf.TensorSpec((1, 64), tf.float32, "x")
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    path.write_bytes(converter.convert())
    model = load(path)
    inputs = _inputs(model, (1, 64))
    results = results_of(model.graph(dict.fromkeys(inputs, (1, 64))), inputs)
    for output, expected in model(inputs).items():
        np.testing.assert_allclose(results[output], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("zero", [-129, 128])
def test_zero_points_outside_of_the_type_are_refused(
    zero: int, files: dict[str, Path], tmp_path: Path
) -> None:
    model = schema.ModelT.InitFromPackedBuf(files["convolutions"].read_bytes(), 0)
    model.subgraphs[0].tensors[0].quantization.zeroPoint = np.array([zero])
    path = tmp_path / "damaged.tflite"
    path.write_bytes(packed(model))
    with pytest.raises(UnsupportedModelError, match=r"scales and zero points of .* do not fit"):
        load(path)


def test_16_bits_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    model = schema.ModelT.InitFromPackedBuf(files["convolutions"].read_bytes(), 0)
    for tensor in model.subgraphs[0].tensors:
        data = model.buffers[tensor.buffer].data
        if tensor.type == schema.TensorType.INT8 and data is None:
            tensor.type = schema.TensorType.INT16
    path = tmp_path / "wide.tflite"
    path.write_bytes(packed(model))
    with pytest.raises(UnsupportedModelError, match="integers of 16 bits with a scale"):
        load(path)


def test_a_wheel(modelwheel: Modelwheel, files: dict[str, Path], tmp_path: Path) -> None:
    modelwheel("new", "lite", "--model", files["convolutions"], "--out", tmp_path)
    built = modelwheel("build", tmp_path / "lite.yaml", "--out", tmp_path / "dist")
    assert list((tmp_path / "dist").glob("*.whl")), built
