"""Places between pixels, spectra and others, for `tests.models.onnx_operations`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.models.onnx_cases import Case, X, case, ints
from tests.support.onnx_models import random

_REGIONS = np.array([[1, 2, 9, 10.5], [0, 0, 4.5, 11], [-3, 1, 2, 14]], np.float32)


def sampling() -> Iterator[Case]:
    """Places between pixels, determinants, spectra."""
    yield case("Det", random(2, 3, 4, 4))
    yield case("ReverseSequence", random(4, 3, 2), ints(4, 1, 3), time_axis=0, batch_axis=1)
    yield case(
        "MaxUnpool",
        random(1, 1, 2, 2),
        w=(np.array([[[[1, 7], [12, 18]]]], np.int64),),
        kernel_shape=[2, 3],
        strides=[2, 3],
    )
    for mode in ("avg", "max"):
        yield case(
            "RoiAlign",
            X,
            _REGIONS,
            w=(ints(0, 1, 1),),
            to=mode,
            mode=mode,
            output_height=2,
            output_width=3,
            sampling_ratio=2,
            spatial_scale=0.4,
        )
    yield case(
        "DeformConv",
        random(2, 4, 5, 6),
        random(6, 2, 3, 3, seed=4),
        random(2, 36, 3, 4, seed=3),
        random(6, seed=6),
        random(2, 18, 3, 4, seed=5),
        kernel_shape=[3, 3],
        pads=[1, 2, 1, 1],
        strides=[2, 2],
        group=2,
        offset_group=2,
    )
    for padding in ("border", "reflection"):
        grid = 1.6 * np.tanh(random(2, 4, 3, 2, seed=3))
        yield case("GridSample", X, grid, to=padding, padding_mode=padding)
    yield case("Compress", X, w=(np.array([True, False, True]),), axis=1)
    yield case("GlobalLpPool", X, p=3)
    yield case("DFT", random(2, 6, 3, 2), w=(np.array(8), np.array(1)))
    yield case("STFT", random(2, 40, 1), w=(np.array(4), np.hanning(8).astype(np.float32)))
