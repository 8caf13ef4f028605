"""Which files of Keras 2 Keras 3 may read: those that name nothing but what means the same in both.

Keras 3 reads some classes and functions of Keras 2 as others of the same name, without an error: `hard_sigmoid` has
another slope, masks end elsewhere. The tables are what was seen to agree; whatever else a file names is read by
Keras 2 itself. tests/integration/test_keras_versions.py derives them from both libraries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

SAME_LAYERS = frozenset(
    {
        *("Activation", "ActivityRegularization", "Add", "AdditiveAttention", "AlphaDropout"),
        *("Attention", "Average", "AveragePooling1D", "AveragePooling2D", "AveragePooling3D"),
        *("BatchNormalization", "Bidirectional", "CategoryEncoding", "CenterCrop", "Concatenate"),
        *("Conv1D", "Conv2D", "Conv3D", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"),
        *("Cropping1D", "Cropping2D", "Cropping3D", "Dense", "Dot", "Dropout", "ELU"),
        *("EinsumDense", "Embedding", "Flatten", "GRU", "GRUCell", "GaussianDropout"),
        *("GaussianNoise", "GlobalAveragePooling1D", "GlobalAveragePooling2D"),
        *("GlobalAveragePooling3D", "GlobalMaxPooling1D", "GlobalMaxPooling2D"),
        *("GlobalMaxPooling3D", "GroupNormalization", "HashedCrossing", "Hashing", "Identity"),
        *("InputLayer", "LSTM", "LSTMCell", "LayerNormalization", "LeakyReLU", "MaxPooling1D"),
        *("MaxPooling2D", "MaxPooling3D", "Maximum", "Minimum", "Multiply", "Normalization"),
        *("PReLU", "Permute", "RNN", "ReLU", "RepeatVector", "Rescaling", "Reshape"),
        *("SimpleRNN", "SimpleRNNCell", "StackedRNNCells", "Subtract", "TimeDistributed"),
        *("UpSampling1D", "UpSampling3D", "ZeroPadding1D", "ZeroPadding2D"),
        "ZeroPadding3D",
    }
)
"""Layers of Keras 2 that Keras 3 computes alike, where it reads them at all."""
OTHER_LAYERS = frozenset(
    {
        *("AbstractRNNCell", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
        *("DenseFeatures", "DepthwiseConv1D", "DepthwiseConv2D", "Discretization"),
        *("DynamicEmbedding", "DynamicLookup", "IntegerLookup", "Lambda", "Layer", "LinearModel"),
        *("LocallyConnected1D", "LocallyConnected2D", "Masking", "MultiHeadAttention"),
        *("PreprocessingLayer", "RandomBrightness", "RandomContrast", "RandomCrop", "RandomFlip"),
        *("RandomFourierFeatures", "RandomHeight", "RandomRotation", "RandomTranslation"),
        *(
            "RandomWidth",
            "RandomZoom",
            "Resizing",
            "SeparableConv1D",
            "SeparableConv2D",
            "SequenceFeatures",
        ),
        *("Softmax", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
        *("SpectralNormalization", "StringLookup", "SyncBatchNormalization", "TextVectorization"),
        *("ThresholdedReLU", "UnitNormalization", "UpSampling2D", "WideDeepModel", "Wrapper"),
    }
)
"""All other layers of Keras 2: they differ, or Keras 3 lacks them or does not read them."""
SAME_ACTIVATIONS = frozenset(
    {
        *("elu", "exponential", "gelu", "linear", "mish", "relu", "selu", "sigmoid", "softmax"),
        *("softplus", "softsign", "swish", "tanh"),
    }
)

_MODELS = frozenset({"Functional", "Model", "Sequential"})
_TRAINING = re.compile(r"\w+_(initializer|regularizer|constraint)|compile_config|build_config")
"""Fields that do not matter once the weights are read."""
_DIFFERENT_VALUES = {"mask_zero": True, "stateful": True, "training": True}
"""Masks end at other layers, state is kept elsewhere, and a layer that was called for training is so only in Keras 2."""


_FIRST_DEFAULTS: Mapping[str, Mapping[str, Any]] = {"GRU": {"reset_after": False}}
"""Fields that files of the first versions lack, because the layer had no choice yet, where Keras has another default now."""


def with_first_defaults(value: Any) -> Any:
    """A model as JSON, or a part of it, whose layers say what the first versions of Keras 2 did not write."""
    if isinstance(value, list):
        return [with_first_defaults(item) for item in value]
    if not isinstance(value, dict):
        return value
    known = {field: with_first_defaults(item) for field, item in value.items()}
    missing = _FIRST_DEFAULTS.get(str(value.get("class_name")))
    if missing and isinstance(known.get("config"), dict):
        known["config"] = {**missing, **known["config"]}
    return known


def differs(config: Mapping[str, Any]) -> bool:
    """Whether a model of Keras 2 names anything that Keras 3 was not seen to compute alike.

    Args:
        config: The model, as JSON.
    """
    return any(_differences(config))


def _differences(value: Any) -> Iterator[bool]:
    if isinstance(value, list):
        for item in value:
            yield from _differences(item)
    if not isinstance(value, dict):
        return
    name = value.get("class_name")
    if isinstance(name, str) and name != "function":
        yield name not in SAME_LAYERS and name not in _MODELS
    for field, item in value.items():
        if field == "dtype":
            yield _dtype_of(item) not in ("float32", "int32", "int64", "bool", None)
        elif field.endswith("activation") and item is not None:
            yield from _activation_differences(item)
        elif field in _DIFFERENT_VALUES:
            yield item == _DIFFERENT_VALUES[field]
        elif not _TRAINING.fullmatch(field):
            yield from _differences(item)


def _activation_differences(value: Any) -> Iterator[bool]:
    """Of a name, of a function as an object, or of a layer."""
    if isinstance(value, dict) and value.get("class_name") == "function":
        value = value.get("config")
    if isinstance(value, dict):
        yield from _differences(value)
    else:
        yield value not in SAME_ACTIVATIONS


def _dtype_of(value: Any) -> Any:
    """`float32`, also of the policy of that name."""
    if isinstance(value, dict):
        config = value.get("config")
        return config.get("name") if isinstance(config, dict) else value
    return value
