"""Operations of the domain ai.onnx.ml, for `tests.models.onnx_operations`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tests.models.onnx_cases import Case, case, ints
from tests.support.onnx_models import random

CLASSICAL = "ai.onnx.ml"

_ml = partial(case, domain=CLASSICAL)


def classical() -> Iterator[Case]:
    """Features, encoders and linear models."""
    x = random(5, 3)
    zero = x.copy()
    zero[1] = 0
    missing = x.copy()
    missing[0, 1] = missing[3, 0] = np.nan
    numbers = np.array([[1, 5], [3, 9]], np.int64)
    yield _ml("Scaler", x, offset=[0.1, 0.2, 0.3], scale=[1.0, 2.0, 3.0])
    yield _ml("Scaler", numbers, to="of integers", offset=[0.1], scale=[2.0])
    for norm in ("MAX", "L1", "L2"):
        yield _ml("Normalizer", zero, to=norm, norm=norm)
    yield _ml("Binarizer", x, threshold=0.2)
    yield _ml(
        "Imputer",
        missing,
        imputed_value_floats=[1.0, 2.0, 3.0],
        replaced_value_float=float("nan"),
    )
    yield _ml("FeatureVectorizer", x, random(5, 2, seed=3), inputdimensions=[3, 4])
    yield _ml("ArrayFeatureExtractor", x, w=(ints(2, 0),))
    yield _ml("OneHotEncoder", numbers, cats_int64s=[1, 3, 5])
    yield _ml(
        "LabelEncoder",
        numbers,
        keys_int64s=[1, 3, 5],
        values_floats=[0.1, 0.3, 0.5],
        default_float=9.0,
    )
    yield from _linear_models()


def _linear_models() -> Iterator[Case]:
    x, types = random(5, 3), (np.int64, np.float32)
    for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        for targets in (1, 2):
            yield _ml(
                "LinearRegressor",
                x,
                to=f"{transform} {targets}",
                coefficients=random(3 * targets).tolist(),
                intercepts=[0.05, 0.2][:targets],
                targets=targets,
                post_transform=transform,
            )
        for scores in (1, 2, 3):
            yield _ml(
                "LinearClassifier",
                x,
                to=f"{transform} {scores}",
                n=2,
                types=types,
                coefficients=random(3 * scores).tolist(),
                intercepts=[0.1, -0.2, 0.3][:scores],
                classlabels_ints=[3, 7, 9][: max(scores, 2)],
                post_transform=transform,
            )
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        yield _ml(
            "SVMRegressor",
            x,
            to=kernel,
            n_supports=4,
            support_vectors=random(12, seed=7).tolist(),
            coefficients=random(4).tolist(),
            kernel_type=kernel,
            kernel_params=[0.3, 0.2, 3.0],
            rho=[0.1],
        )
