"""Every layer of Keras 2 in all that changes what it computes, for keras_meanings.py. Needs tf_keras."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tf_keras import layers as k

IMAGE, STEPS, ROW, VOLUME = (8, 8, 4), (6, 4), (5,), (6, 6, 6, 2)
FRAMES, SERIES = (3, 8, 8, 2), (3, 8, 2)


@dataclass(frozen=True)
class Case:
    """A layer, and the inputs of one row that it takes."""

    layer: Any
    shapes: tuple[tuple[int, ...], ...] = (STEPS,)
    dtype: str = "float32"
    as_list: bool = True
    """Whether it takes several inputs as one list."""
    top: int = 3
    """The first integer that it does not take."""


def _one(*layers: Any, of: tuple[int, ...] = STEPS, **options: Any) -> list[Case]:
    return [Case(layer, (of,), **options) for layer in layers]


def _dense() -> dict[str, list[Case]]:
    return {
        "Dense": _one(k.Dense(3), k.Dense(3, use_bias=False, activation="relu")),
        "EinsumDense": _one(
            k.EinsumDense("abc,cd->abd", (None, 7), bias_axes="d"),
            k.EinsumDense("abc,cd->abd", (None, 7), activation="tanh"),
        ),
        "Embedding": _one(k.Embedding(9, 3), of=(4,), dtype="int32", top=9),
        "LocallyConnected1D": _one(
            k.LocallyConnected1D(3, 2), k.LocallyConnected1D(3, 2, strides=2)
        ),
        "LocallyConnected2D": _one(k.LocallyConnected2D(3, 2), of=IMAGE),
        "RandomFourierFeatures": _one(k.experimental.RandomFourierFeatures(4, scale=2.0), of=ROW),
        "Lambda": [],
    }


def _activations() -> dict[str, list[Case]]:
    return {
        "Activation": _one(k.Activation("tanh")),
        "ELU": _one(k.ELU(), k.ELU(0.3)),
        "LeakyReLU": _one(k.LeakyReLU(), k.LeakyReLU(0.1), k.Dense(3, activation=k.LeakyReLU(0.2))),
        "PReLU": _one(k.PReLU(), k.PReLU(shared_axes=[1])),
        "ReLU": _one(k.ReLU(), k.ReLU(1.0, 0.1, 0.2), k.ReLU(None, 0.1)),
        "Softmax": _one(k.Softmax(), k.Softmax(1), k.Softmax([1, 2])),
        "ThresholdedReLU": _one(k.ThresholdedReLU(), k.ThresholdedReLU(0.3)),
    }


def _convolutions() -> Iterator[tuple[str, list[Case]]]:
    by_rank = ((1, STEPS), (2, IMAGE), (3, VOLUME))
    for rank, shape in by_rank:
        convolution, transposed = getattr(k, f"Conv{rank}D"), getattr(k, f"Conv{rank}DTranspose")
        yield (
            f"Conv{rank}D",
            _one(
                convolution(3, 2),
                convolution(4, 3, strides=2, padding="same", activation="relu"),
                convolution(4, 2, dilation_rate=2, groups=2, use_bias=False),
                of=shape,
            ),
        )
        yield (
            f"Conv{rank}DTranspose",
            _one(
                transposed(3, 2),
                transposed(3, 3, strides=2, padding="same", activation="relu"),
                transposed(3, 3, strides=2),
                transposed(3, 3, strides=2, output_padding=1, padding="same"),
                of=shape,
            ),
        )
    causal = _one(
        k.Conv1D(3, 2, padding="causal"), k.Conv1D(3, 3, padding="causal", dilation_rate=2)
    )
    yield "Conv1D", causal
    for rank, shape in by_rank[:2]:
        separable, depthwise = (
            getattr(k, f"SeparableConv{rank}D"),
            getattr(k, f"DepthwiseConv{rank}D"),
        )
        yield (
            f"SeparableConv{rank}D",
            _one(
                separable(3, 2),
                separable(3, 3, strides=2, padding="same", depth_multiplier=2, activation="relu"),
                separable(3, 2, dilation_rate=2),
                *([separable(3, 2, padding="causal")] if rank == 1 else []),
                of=shape,
            ),
        )
        yield (
            f"DepthwiseConv{rank}D",
            _one(
                depthwise(2),
                depthwise(3, strides=2, padding="same", depth_multiplier=2, activation="relu"),
                depthwise(2, dilation_rate=2, use_bias=False),
                of=shape,
            ),
        )


def _pooling() -> Iterator[tuple[str, list[Case]]]:
    for rank, shape in ((1, STEPS), (2, IMAGE), (3, VOLUME)):
        for kind in ("Average", "Max"):
            pooling = getattr(k, f"{kind}Pooling{rank}D")
            variants = pooling(), pooling(3, strides=2, padding="same"), pooling(3, strides=1)
            yield f"{kind}Pooling{rank}D", _one(*variants, of=shape)
            whole = getattr(k, f"Global{kind}Pooling{rank}D")
            yield whole.__name__, _one(whole(), whole(keepdims=True), of=shape)
        cropping, padding = getattr(k, f"Cropping{rank}D"), getattr(k, f"ZeroPadding{rank}D")
        yield (
            f"Cropping{rank}D",
            _one(cropping(), cropping((1, 0) if rank == 1 else ((1, 0),) * rank), of=shape),
        )
        yield (
            f"ZeroPadding{rank}D",
            _one(padding(2), padding((1, 0) if rank == 1 else ((1, 0),) * rank), of=shape),
        )
        yield f"UpSampling{rank}D", _one(getattr(k, f"UpSampling{rank}D")(3), of=shape)
    methods = (
        "nearest",
        "bilinear",
        "area",
        "bicubic",
        "gaussian",
        "lanczos3",
        "lanczos5",
        "mitchellcubic",
    )
    yield (
        "UpSampling2D",
        _one(*(k.UpSampling2D((2, 3), interpolation=m) for m in methods), of=IMAGE),
    )


def _recurrent() -> Iterator[tuple[str, list[Case]]]:
    for kind in (k.SimpleRNN, k.LSTM, k.GRU):
        yield (
            kind.__name__,
            _one(
                kind(3),
                kind(3, return_sequences=True, go_backwards=True),
                kind(3, dropout=0.3, recurrent_dropout=0.3, use_bias=False),
                kind(3, activation="relu", unroll=True),
                *([kind(3, reset_after=False)] if kind is k.GRU else []),
                *([kind(3, unit_forget_bias=False, implementation=1)] if kind is k.LSTM else []),
            ),
        )
        cell = getattr(k, f"{kind.__name__}Cell")
        yield (
            cell.__name__,
            _one(k.RNN(cell(3)), k.RNN(cell(3), return_sequences=True, go_backwards=True)),
        )
    yield "RNN", _one(k.RNN(k.SimpleRNNCell(2), return_sequences=True))
    yield "StackedRNNCells", _one(k.RNN(k.StackedRNNCells([k.LSTMCell(3), k.LSTMCell(2)])))
    yield (
        "Bidirectional",
        _one(
            *(
                k.Bidirectional(k.LSTM(3, return_sequences=True), merge_mode=mode)
                for mode in ("concat", "sum", "ave", "mul")
            ),
            k.Bidirectional(k.GRU(3)),
            k.Bidirectional(k.GRU(3), backward_layer=k.GRU(3, go_backwards=True)),
        ),
    )
    yield (
        "TimeDistributed",
        [
            *_one(k.TimeDistributed(k.Dense(3))),
            *_one(
                k.TimeDistributed(k.Conv2D(2, 3)),
                k.TimeDistributed(k.BatchNormalization()),
                of=FRAMES,
            ),
        ],
    )
    for rank, shape in ((1, SERIES), (2, FRAMES), (3, (2, 5, 5, 5, 2))):
        kind = getattr(k, f"ConvLSTM{rank}D")
        yield (
            kind.__name__,
            _one(
                kind(2, 3, recurrent_activation="sigmoid"),
                kind(
                    2,
                    3,
                    return_sequences=True,
                    padding="same",
                    strides=2,
                    recurrent_activation="sigmoid",
                    dropout=0.2,
                ),
                of=shape,
            ),
        )


def _attention() -> dict[str, list[Case]]:
    pair, three = ((4, 3), (5, 3)), ((4, 3), (5, 3), (5, 3))
    return {
        "Attention": [
            Case(k.Attention(), pair),
            Case(k.Attention(use_scale=True), three),
            Case(k.Attention(score_mode="concat"), pair),
            Case(k.Attention(dropout=0.3), pair),
        ],
        "AdditiveAttention": [
            Case(k.AdditiveAttention(), pair),
            Case(k.AdditiveAttention(use_scale=False), three),
        ],
        "MultiHeadAttention": [
            Case(k.MultiHeadAttention(2, 3), pair, as_list=False),
            Case(k.MultiHeadAttention(2, 3, value_dim=4, output_shape=5), three, as_list=False),
            Case(k.MultiHeadAttention(2, 3, use_bias=False, dropout=0.2), pair, as_list=False),
            Case(
                k.MultiHeadAttention(2, 3, attention_axes=(1, 2)), ((3, 4, 2),) * 2, as_list=False
            ),
        ],
    }


def _normalization() -> dict[str, list[Case]]:
    return {
        "BatchNormalization": [
            *_one(
                k.BatchNormalization(),
                k.BatchNormalization(axis=1, epsilon=0.1),
                k.BatchNormalization(scale=False, center=False),
            ),
            *_one(k.BatchNormalization(axis=[1, 2]), of=IMAGE),
        ],
        "SyncBatchNormalization": _one(k.experimental.SyncBatchNormalization()),
        "LayerNormalization": [
            *_one(
                k.LayerNormalization(),
                k.LayerNormalization(axis=1, epsilon=0.1),
                k.LayerNormalization(scale=False),
            ),
            *_one(
                k.LayerNormalization(axis=[1, 2]),
                k.LayerNormalization(axis=[2, 3], center=False),
                of=IMAGE,
            ),
        ],
        "GroupNormalization": _one(
            k.GroupNormalization(2), k.GroupNormalization(-1, epsilon=0.1), of=IMAGE
        ),
        "UnitNormalization": _one(k.UnitNormalization(), k.UnitNormalization([1, 2])),
        "SpectralNormalization": [],  # it cannot be made: its input_spec is of another library's class
        "Normalization": [
            *_one(
                k.Normalization(),
                k.Normalization(axis=None),
                k.Normalization(axis=1),
                k.Normalization(invert=True),
            ),
            *_one(k.Normalization(mean=[1.0, 2.0, 3.0, 4.0], variance=[2.0, 3.0, 0.5, 1.0])),
        ],
    }


def _preprocessing() -> dict[str, list[Case]]:
    methods = (
        "nearest",
        "bilinear",
        "bicubic",
        "area",
        "lanczos3",
        "lanczos5",
        "gaussian",
        "mitchellcubic",
    )
    integers = {"dtype": "int32"}
    return {
        "Rescaling": _one(k.Rescaling(0.25), k.Rescaling([0.5, 1.0, 2.0, 3.0], offset=-1.0)),
        "Resizing": _one(
            *(k.Resizing(5, 11, interpolation=method) for method in methods),
            k.Resizing(5, 11, crop_to_aspect_ratio=True),
            of=IMAGE,
        ),
        "CenterCrop": _one(k.CenterCrop(5, 3), k.CenterCrop(10, 4), of=IMAGE),
        "CategoryEncoding": [
            *_one(
                k.CategoryEncoding(6, "multi_hot"),
                k.CategoryEncoding(6, "count"),
                of=(4,),
                **integers,
            ),
            *_one(k.CategoryEncoding(6, "one_hot"), of=(1,), **integers),
        ],
        "Discretization": _one(
            k.Discretization([-0.5, 0.0, 0.5]),
            k.Discretization([-0.5, 0.0, 0.5], output_mode="multi_hot"),
            k.Discretization([-0.5, 0.0, 0.5], output_mode="count"),
            of=ROW,
        ),
        "Hashing": _one(
            k.Hashing(5), k.Hashing(5, salt=7), k.Hashing(5, mask_value=0), of=ROW, **integers
        ),
        "HashedCrossing": [
            Case(k.HashedCrossing(5), ((1,), (1,)), "int32"),
            Case(k.HashedCrossing(5, output_mode="one_hot"), ((1,), (1,)), "int32"),
        ],
        "IntegerLookup": [],
        "StringLookup": [],
        "TextVectorization": [],
    }


def _augmentation() -> dict[str, list[Case]]:
    return {
        "RandomBrightness": _one(k.RandomBrightness(0.2), of=IMAGE),
        "RandomContrast": _one(k.RandomContrast(0.2), of=IMAGE),
        "RandomCrop": _one(k.RandomCrop(5, 3), k.RandomCrop(10, 4), of=IMAGE),
        "RandomFlip": _one(k.RandomFlip(), of=IMAGE),
        "RandomHeight": _one(k.RandomHeight(0.2), of=IMAGE),
        "RandomRotation": _one(k.RandomRotation(0.2), of=IMAGE),
        "RandomTranslation": _one(k.RandomTranslation(0.2, 0.2), of=IMAGE),
        "RandomWidth": _one(k.RandomWidth(0.2), of=IMAGE),
        "RandomZoom": _one(k.RandomZoom(0.2), of=IMAGE),
        "Dropout": _one(k.Dropout(0.3)),
        "AlphaDropout": _one(k.AlphaDropout(0.3)),
        "GaussianDropout": _one(k.GaussianDropout(0.3)),
        "GaussianNoise": _one(k.GaussianNoise(0.3)),
        "SpatialDropout1D": _one(k.SpatialDropout1D(0.3)),
        "SpatialDropout2D": _one(k.SpatialDropout2D(0.3), of=IMAGE),
        "SpatialDropout3D": _one(k.SpatialDropout3D(0.3), of=VOLUME),
    }


def _structure() -> dict[str, list[Case]]:
    pair, uneven = (STEPS, STEPS), (STEPS, (1, 4))
    merging = (k.Add, k.Average, k.Maximum, k.Minimum, k.Multiply)
    return {
        **{
            kind.__name__: [
                Case(kind(), pair),
                Case(kind(), uneven),
                Case(kind(), (STEPS, STEPS, (4,))),
            ]
            for kind in merging
        },
        "Subtract": [Case(k.Subtract(), pair), Case(k.Subtract(), uneven)],
        "Concatenate": [Case(k.Concatenate(), pair), Case(k.Concatenate(1), (STEPS, (3, 4)))],
        "Dot": [
            Case(k.Dot(2), pair),
            Case(k.Dot((2, 2), normalize=True), (STEPS, (3, 4))),
            Case(k.Dot(1), ((4,), (4,))),
        ],
        "Flatten": [*_one(k.Flatten()), *_one(k.Flatten("channels_first"), of=IMAGE)],
        "Identity": _one(k.Identity()),
        "ActivityRegularization": _one(k.ActivityRegularization(0.1)),
        "Masking": _masking(),
        "Permute": _one(k.Permute((2, 1))),
        "RepeatVector": _one(k.RepeatVector(3), of=ROW),
        "Reshape": _one(k.Reshape((4, 6)), k.Reshape((-1, 3))),
        "InputLayer": _one(k.Dense(2)),
        # Without a meaning of their own, or only with columns of features, which files do not hold.
        **{name: [] for name in ("Layer", "Wrapper", "AbstractRNNCell", "PreprocessingLayer")},
        **{name: [] for name in ("DenseFeatures", "SequenceFeatures", "LinearModel")},
        **{name: [] for name in ("WideDeepModel", "DynamicEmbedding", "DynamicLookup")},
    }


def _masking() -> list[Case]:
    """What each layer that steps pass through makes of the mask."""
    between: list[Any] = [
        k.Identity(), k.Dense(3), k.Conv1D(3, 2), k.LSTM(3, return_sequences=True), k.BatchNormalization(),
        k.LayerNormalization(), k.Bidirectional(k.GRU(3, return_sequences=True)), k.TimeDistributed(k.Dense(3)),
    ]  # fmt: skip
    last = (
        lambda: k.LSTM(2),
        k.GlobalAveragePooling1D,
        lambda: k.Bidirectional(k.GRU(2)),
    )
    return _one(*(Chain(k.Masking(), layer, end()) for layer in between for end in last))


class Chain:
    """Layers one after another."""

    def __init__(self, *layers: Any) -> None:
        self.layers = layers

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def cases() -> dict[str, list[Case]]:
    """All variants by the name of a class."""
    found: dict[str, list[Case]] = {}
    groups = (
        _dense(),
        _activations(),
        _attention(),
        _normalization(),
        _preprocessing(),
        _augmentation(),
        _structure(),
    )
    pairs = (
        *(pair for group in groups for pair in group.items()),
        *_convolutions(),
        *_pooling(),
        *_recurrent(),
    )
    for name, variants in pairs:
        found.setdefault(name, []).extend(variants)
    return found
