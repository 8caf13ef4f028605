"""Modules of StableHLO in canonical form: text before and after."""

from __future__ import annotations

import re

import pytest

from modelwheel.compiler.stablehlo import canonical, mlir_text
from modelwheel.compiler.stablehlo.canonical import canonical_form
from modelwheel.compiler.stablehlo.mlir_text import Function

_X, _Y = "tensor<64x2x48xf32>", "tensor<64x2x96xf32>"


def _module(arguments: str, body: str, result: str, kind: str) -> str:
    lines = "\n".join(f"    {line.strip()}" for line in body.strip().split("\n"))
    return (
        f"module {{\n  func.func public @main({arguments}) -> {kind} {{\n{lines}\n"
        f"    return {result} : {kind}\n  }}\n}}\n"
    )


def _body(text: str) -> list[str]:
    """The operations, with new values numbered in their order."""
    names = dict.fromkeys(re.findall(r"%canonical_\d+", text))
    for number, name in enumerate(names):
        text = re.sub(rf"{name}\b", f"%new{number}", text)
    return [line.strip() for line in text.split("\n")[2:-4]]


def _changed(arguments: str, body: str, result: str, kind: str, *constants: int) -> list[str]:
    return _body(canonical_form(_module(arguments, body, result, kind), constants))


def _assert_kept(arguments: str, body: str, result: str, kind: str, *constants: int) -> None:
    text = _module(arguments, body, result, kind)
    assert canonical_form(text, constants) == text


def test_a_module_is_read_once_for_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of unrolled recurrent models have tens of thousands of lines."""
    texts = list[str]()

    def read_functions(text: str) -> dict[str, Function]:
        texts.append(text)
        return mlir_text.read_functions(text)

    monkeypatch.setattr(canonical, "read_functions", read_functions)
    kind = "tensor<4xf32>"
    _assert_kept(f"%arg0: {kind}", f"%0 = stablehlo.tanh %arg0 : {kind}", "%0", kind)
    assert len(texts) == 1


# --- a matrix that is repeated for a batch --------------------------------------------------------


def test_products_with_one_matrix_are_one_product() -> None:
    """As torch-mlir writes a linear layer of a sequence."""
    found = _changed(
        f"%arg0: {_X}, %arg1: tensor<96x48xf32>",
        f"""
        %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<96x48xf32>) -> tensor<48x96xf32>
        %1 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<48x96xf32>) -> tensor<64x48x96xf32>
        %2 = stablehlo.dot_general %arg0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : ({_X}, tensor<64x48x96xf32>) -> {_Y}
        """,
        "%2",
        _Y,
    )
    assert found == [
        "%0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<96x48xf32>) -> tensor<48x96xf32>",
        f"%2 = stablehlo.dot_general %arg0, %0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : ({_X}, tensor<48x96xf32>) -> {_Y}",
    ]


def test_a_matrix_repeated_and_reshaped_is_found() -> None:
    """`expand`, `view` and `bmm` of PyTorch."""
    found = _changed(
        "%arg0: tensor<6x4x5xf32>, %arg1: tensor<1x5x7xf32>",
        """
        %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<1x5x7xf32>) -> tensor<2x3x5x7xf32>
        %1 = stablehlo.reshape %0 : (tensor<2x3x5x7xf32>) -> tensor<6x5x7xf32>
        %2 = stablehlo.dot_general %arg0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<6x4x5xf32>, tensor<6x5x7xf32>) -> tensor<6x4x7xf32>
        """,
        "%2",
        "tensor<6x4x7xf32>",
    )
    assert found == [
        "%new0 = stablehlo.reshape %arg1 : (tensor<1x5x7xf32>) -> tensor<5x7xf32>",
        "%2 = stablehlo.dot_general %arg0, %new0, contracting_dims = [2] x [0] : (tensor<6x4x5xf32>, tensor<5x7xf32>) -> tensor<6x4x7xf32>",
    ]


def test_a_matrix_of_each_head_stays_one_of_a_batch() -> None:
    """Repeated for sequences, not for heads: what is left of the batch comes first."""
    found = _changed(
        "%arg0: tensor<2x3x4x5xf32>, %arg1: tensor<3x5x7xf32>",
        """
        %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 3] : (tensor<3x5x7xf32>) -> tensor<2x3x5x7xf32>
        %1 = stablehlo.dot_general %arg0, %0, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x3x4x5xf32>, tensor<2x3x5x7xf32>) -> tensor<2x3x4x7xf32>
        """,
        "%1",
        "tensor<2x3x4x7xf32>",
    )
    assert found == [
        "%new0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [1] x [0], contracting_dims = [3] x [1] : (tensor<2x3x4x5xf32>, tensor<3x5x7xf32>) -> tensor<3x2x4x7xf32>",
        "%1 = stablehlo.transpose %new0, dims = [1, 0, 2, 3] : (tensor<3x2x4x7xf32>) -> tensor<2x3x4x7xf32>",
    ]


@pytest.mark.parametrize(("columns", "folded"), [(2, True), (64, False)])
def test_a_first_operand_is_folded_if_it_is_larger_than_what_is_copied(
    columns: int, folded: bool
) -> None:
    x, y = f"tensor<8x32x{columns}xf32>", f"tensor<8x32x{columns}xf32>"
    found = _changed(
        f"%arg0: {x}, %arg1: tensor<32x32xf32>",
        f"""
        %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<32x32xf32>) -> tensor<8x32x32xf32>
        %1 = stablehlo.dot_general %0, %arg0, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<8x32x32xf32>, {x}) -> {y}
        """,
        "%1",
        y,
    )
    assert any("broadcast_in_dim" in line for line in found) != folded


def test_a_batch_of_two_operands_that_differ_is_kept() -> None:
    _assert_kept(
        "%arg0: tensor<2x4x5xf32>, %arg1: tensor<2x5x7xf32>",
        "%0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x5xf32>, tensor<2x5x7xf32>) -> tensor<2x4x7xf32>",
        "%0",
        "tensor<2x4x7xf32>",
    )


# --- factors and summands around layers -----------------------------------------------------------

_FEATURES = "tensor<1x8x8x6xf32>"
_CONVOLUTION = (
    "stablehlo.convolution({}) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{stride = [1, 1], "
    "pad = [[{pad}, {pad}], [{pad}, {pad}]], lhs_dilate = [1, 1]}} {{batch_group_count = 1 : i64, "
    "feature_group_count = 1 : i64}}"
)
_IMAGE = f"%arg0: {_FEATURES}, %arg1: tensor<1x1x6x6xf32>, %arg2: tensor<6xf32>"


def _layer(operands: str, pad: int = 0) -> str:
    kinds = f"({_FEATURES}, tensor<1x1x6x6xf32>) -> {_FEATURES}"
    return f"{_CONVOLUTION.format(operands, pad=pad)} : {kinds}"


def test_a_factor_behind_a_bias_goes_into_weights_and_bias() -> None:
    found = _changed(
        _IMAGE,
        f"""
        %0 = stablehlo.constant dense<5.000000e-01> : {_FEATURES}
        %1 = {_layer("%arg0, %arg1")}
        %2 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<6xf32>) -> {_FEATURES}
        %3 = stablehlo.add %1, %2 : {_FEATURES}
        %4 = stablehlo.multiply %3, %0 : {_FEATURES}
        %5 = stablehlo.tanh %4 : {_FEATURES}
        """,
        "%5",
        _FEATURES,
        *(1, 2),
    )
    assert found == [
        "%new0 = stablehlo.constant dense<5.000000e-01> : tensor<f32>",
        "%new1 = stablehlo.broadcast_in_dim %new0, dims = [] : (tensor<f32>) -> tensor<6xf32>",
        "%new2 = stablehlo.multiply %arg2, %new1 : tensor<6xf32>",
        "%new3 = stablehlo.broadcast_in_dim %new1, dims = [3] : (tensor<6xf32>) -> tensor<1x1x6x6xf32>",
        "%new4 = stablehlo.multiply %arg1, %new3 : tensor<1x1x6x6xf32>",
        f"%new5 = {_layer('%arg0, %new4')}",
        f"%new6 = stablehlo.broadcast_in_dim %new2, dims = [3] : (tensor<6xf32>) -> {_FEATURES}",
        f"%4 = stablehlo.add %new5, %new6 : {_FEATURES}",
        f"%5 = stablehlo.tanh %4 : {_FEATURES}",
    ]


def test_two_biases_are_one() -> None:
    """A summand before a layer, multiplied by its weights, is added beside the layer's own bias."""
    found = _changed(
        f"{_IMAGE}, %arg3: tensor<6xf32>",
        f"""
        %0 = {_layer("%arg0, %arg1")}
        %1 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<6xf32>) -> {_FEATURES}
        %2 = stablehlo.add %0, %1 : {_FEATURES}
        %3 = stablehlo.broadcast_in_dim %arg3, dims = [3] : (tensor<6xf32>) -> {_FEATURES}
        %4 = stablehlo.add %2, %3 : {_FEATURES}
        """,
        "%4",
        _FEATURES,
        *(1, 2, 3),
    )
    assert found == [
        "%new0 = stablehlo.add %arg2, %arg3 : tensor<6xf32>",
        f"%new1 = {_layer('%arg0, %arg1')}",
        f"%new2 = stablehlo.broadcast_in_dim %new0, dims = [3] : (tensor<6xf32>) -> {_FEATURES}",
        f"%4 = stablehlo.add %new1, %new2 : {_FEATURES}",
    ]


def test_the_scale_of_queries_goes_into_their_weights() -> None:
    """Behind a reshape that splits the features into heads; the bias is added before it."""
    found = _changed(
        "%arg0: tensor<4x6xf32>, %arg1: tensor<6x6xf32>, %arg2: tensor<6xf32>",
        """
        %0 = stablehlo.constant dense<5.000000e-01> : tensor<4x2x3xf32>
        %1 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
        %2 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>
        %3 = stablehlo.add %1, %2 : tensor<4x6xf32>
        %4 = stablehlo.reshape %3 : (tensor<4x6xf32>) -> tensor<4x2x3xf32>
        %5 = stablehlo.multiply %4, %0 : tensor<4x2x3xf32>
        """,
        "%5",
        "tensor<4x2x3xf32>",
        *(1, 2),
    )
    assert found[-3:] == [
        "%new6 = stablehlo.broadcast_in_dim %new2, dims = [1] : (tensor<6xf32>) -> tensor<4x6xf32>",
        "%new7 = stablehlo.add %new5, %new6 : tensor<4x6xf32>",
        "%5 = stablehlo.reshape %new7 : (tensor<4x6xf32>) -> tensor<4x2x3xf32>",
    ]


def test_what_the_kernels_apply_to_sums_is_kept() -> None:
    """A batch normalisation: a factor and a summand for each feature."""
    _assert_kept(
        _IMAGE,
        f"""
        %0 = {_layer("%arg0, %arg1")}
        %1 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<6xf32>) -> {_FEATURES}
        %2 = stablehlo.multiply %0, %1 : {_FEATURES}
        %3 = stablehlo.add %2, %1 : {_FEATURES}
        """,
        "%3",
        _FEATURES,
        *(1, 2),
    )


def test_what_something_else_reads_is_kept() -> None:
    _assert_kept(
        _IMAGE,
        f"""
        %0 = stablehlo.constant dense<5.000000e-01> : {_FEATURES}
        %1 = {_layer("%arg0, %arg1")}
        %2 = stablehlo.multiply %1, %0 : {_FEATURES}
        %3 = stablehlo.subtract %2, %1 : {_FEATURES}
        """,
        "%3",
        _FEATURES,
        1,
    )


def test_weights_that_are_computed_in_a_call_are_kept() -> None:
    _assert_kept(
        _IMAGE,
        f"""
        %0 = stablehlo.constant dense<5.000000e-01> : {_FEATURES}
        %1 = {_layer("%arg0, %arg1")}
        %2 = stablehlo.multiply %1, %0 : {_FEATURES}
        """,
        "%2",
        _FEATURES,
    )


@pytest.mark.parametrize("more", ["", "\n%4 = stablehlo.abs %arg1 : tensor<300x300xf32>"])
def test_large_weights_are_not_stored_twice(more: str) -> None:
    kind = "tensor<2x300xf32>"
    body = f"""
        %0 = stablehlo.constant dense<5.000000e-01> : {kind}
        %1 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : ({kind}, tensor<300x300xf32>) -> {kind}
        %2 = stablehlo.multiply %1, %0 : {kind}
        %3 = stablehlo.tanh %2 : {kind}{more}
        """
    found = _changed(f"%arg0: {kind}, %arg1: tensor<300x300xf32>", body, "%3", kind, 1)
    assert any("multiply %1, %0" in line for line in found) == bool(more)


def _two_layers(pad: int, before: str = "stablehlo.tanh %1") -> list[str]:
    """A layer behind a factor and a summand of what is before them."""
    return _changed(
        _IMAGE,
        f"""
        %0 = stablehlo.constant dense<5.000000e-01> : {_FEATURES}
        %1 = {_layer("%arg0, %arg1")}
        %2 = {before} : {_FEATURES}
        %3 = stablehlo.multiply %2, %0 : {_FEATURES}
        %4 = stablehlo.add %3, %0 : {_FEATURES}
        %5 = {_layer("%4, %arg1", pad)}
        """,
        "%5",
        _FEATURES,
        *(1, 2),
    )


def test_a_factor_and_a_summand_before_a_layer_become_its_weights_and_a_bias() -> None:
    found = _two_layers(0)
    assert [line.split()[2] for line in found if _FEATURES in line] == [
        *("stablehlo.convolution(%arg0,", "stablehlo.tanh", "stablehlo.broadcast_in_dim"),
        *("stablehlo.convolution(%2,", "stablehlo.add"),
    ]
    assert any("stablehlo.reduce(%arg1 init:" in line for line in found)


def test_a_summand_stays_before_a_layer_with_padding() -> None:
    """A window that reaches beyond the data has zeros there, not summands."""
    assert f"%4 = stablehlo.add %3, %0 : {_FEATURES}" in _two_layers(1)


def test_a_summand_of_inputs_stays() -> None:
    """They may be so large that rounding would leave nothing of a difference."""
    found = _two_layers(0, before="stablehlo.abs %arg0")
    assert f"%4 = stablehlo.add %3, %0 : {_FEATURES}" in found


# --- activations ----------------------------------------------------------------------------------


def _activation(body: str, result: str) -> list[str]:
    lines = body.strip().split("\n")
    typed = "\n".join(f"{line} : tensor<4x6xf32>" for line in lines)
    found = _changed("%arg0: tensor<4x6xf32>", typed, result, "tensor<4x6xf32>")
    return [line.partition(" = ")[2].partition(" ")[0].removeprefix("stablehlo.") for line in found]


_SILU = ["logistic", "multiply"]
_HARD_SWISH = [
    "constant",
    "constant",
    "constant",
    "add",
    "clamp",
    "multiply",
    "constant",
    "multiply",
]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            """
            %0 = stablehlo.negate %arg0
            %1 = stablehlo.exponential %0
            %2 = stablehlo.constant dense<1.000000e+00>
            %3 = stablehlo.add %2, %1
            %9 = stablehlo.divide %arg0, %3
            """,
            _SILU,
            id="SiLU as a quotient",
        ),
        pytest.param(
            """
            %0 = stablehlo.constant dense<5.000000e-01>
            %1 = stablehlo.multiply %arg0, %0
            %2 = stablehlo.tanh %1
            %3 = stablehlo.multiply %0, %2
            %4 = stablehlo.add %3, %0
            %9 = stablehlo.multiply %arg0, %4
            """,
            _SILU,
            id="SiLU by tanh",
        ),
        pytest.param(
            """
            %0 = stablehlo.constant dense<0.16666667>
            %1 = stablehlo.constant dense<5.000000e-01>
            %2 = stablehlo.constant dense<0.000000e+00>
            %3 = stablehlo.constant dense<1.000000e+00>
            %4 = stablehlo.multiply %arg0, %0
            %5 = stablehlo.add %4, %1
            %6 = stablehlo.clamp %2, %5, %3
            %9 = stablehlo.multiply %6, %arg0
            """,
            _HARD_SWISH,
            id="hard swish by hard sigmoid",
        ),
    ],
)
def test_activations_are_written_in_one_way(body: str, expected: list[str]) -> None:
    found = _activation(body, "%9")
    assert [name for name in found if name != "constant"] == [
        n for n in expected if n != "constant"
    ]


def test_another_function_is_kept() -> None:
    """x times sigmoid(1.702 x) is not GELU, and not SiLU."""
    found = _activation(
        """
        %0 = stablehlo.constant dense<1.702000e+00>
        %1 = stablehlo.multiply %arg0, %0
        %2 = stablehlo.logistic %1
        %9 = stablehlo.multiply %arg0, %2
        """,
        "%9",
    )
    assert found == ["constant", "multiply", "logistic", "multiply"]


# --- softmax --------------------------------------------------------------------------------------


def _softmax(axis: int, reduced: str, axes: str) -> str:
    kind = "tensor<1x4x5x2xf32>"
    small = f"tensor<{reduced}xf32>"
    return f"""
        %0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
        %1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %2 = stablehlo.transpose %arg0, dims = [0, 2, 3, 1] : (tensor<1x2x4x5xf32>) -> {kind}
        %3 = stablehlo.add %2, %arg1 : {kind}
        %4 = stablehlo.reduce(%3 init: %0) applies stablehlo.maximum across dimensions = [{axis}] : ({kind}, tensor<f32>) -> {small}
        %5 = stablehlo.broadcast_in_dim %4, dims = [{axes}] : ({small}) -> {kind}
        %6 = stablehlo.subtract %3, %5 : {kind}
        %7 = stablehlo.exponential %6 : {kind}
        %8 = stablehlo.reduce(%7 init: %1) applies stablehlo.add across dimensions = [{axis}] : ({kind}, tensor<f32>) -> {small}
        %9 = stablehlo.broadcast_in_dim %8, dims = [{axes}] : ({small}) -> {kind}
        %10 = stablehlo.divide %7, %9 : {kind}
        """


_SCORES = "%arg0: tensor<1x2x4x5xf32>, %arg1: tensor<1x4x5x2xf32>"


def test_a_softmax_is_along_the_last_axis() -> None:
    """Scores have heads last; without a product behind it, the other axes stay in their order."""
    found = _changed(_SCORES, _softmax(2, "1x4x2", "0, 1, 3"), "%10", "tensor<1x4x5x2xf32>")
    assert [line.partition(" = ")[2].split(" :")[0] for line in found] == [
        "stablehlo.transpose %arg0, dims = [0, 2, 1, 3]",
        "stablehlo.transpose %arg1, dims = [0, 1, 3, 2]",
        "stablehlo.add %new0, %new1",
        "stablehlo.constant dense<0xFF800000>",
        "stablehlo.reduce(%new2 init: %new3) applies stablehlo.maximum across dimensions = [3]",
        "stablehlo.broadcast_in_dim %new4, dims = [0, 1, 2]",
        "stablehlo.subtract %new2, %new5",
        "stablehlo.exponential %new6",
        "stablehlo.constant dense<0.000000e+00>",
        "stablehlo.reduce(%new7 init: %new8) applies stablehlo.add across dimensions = [3]",
        "stablehlo.broadcast_in_dim %new9, dims = [0, 1, 2]",
        "stablehlo.divide %new7, %new10",
        "stablehlo.transpose %new11, dims = [0, 1, 3, 2]",
    ]


def test_transposes_of_scores_go_if_a_product_reads_the_softmax() -> None:
    body = f"""{_softmax(2, "1x4x2", "0, 1, 3").rstrip()}
        %11 = stablehlo.dot_general %10, %arg2, batching_dims = [0, 3] x [0, 2], contracting_dims = [2] x [1] : (tensor<1x4x5x2xf32>, tensor<1x5x2x6xf32>) -> tensor<1x2x4x6xf32>
        """
    found = _changed(f"{_SCORES}, %arg2: tensor<1x5x2x6xf32>", body, "%11", "tensor<1x2x4x6xf32>")
    assert not any("transpose %arg0" in line for line in found)
    assert any("add %arg0, %new0" in line for line in found)


def test_a_softmax_along_the_last_axis_is_kept() -> None:
    body = _softmax(3, "1x4x5", "0, 1, 2")
    _assert_kept(_SCORES, body, "%10", "tensor<1x4x5x2xf32>")


# --- text -----------------------------------------------------------------------------------------


def test_new_operations_have_the_name_of_the_layer() -> None:
    found = _changed(
        "%arg0: tensor<2x4x5xf32>, %arg1: tensor<5x7xf32>",
        """
        %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<5x7xf32>) -> tensor<2x5x7xf32>
        %1 = stablehlo.dot_general %arg0, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x5xf32>, tensor<2x5x7xf32>) -> tensor<2x4x7xf32> loc("dense")
        """,
        "%1",
        "tensor<2x4x7xf32>",
    )
    assert [line.endswith(' loc("dense")') for line in found] == [True]


def test_free_extents_are_kept() -> None:
    _assert_kept(
        "%arg0: tensor<?x4x5xf32>, %arg1: tensor<?x5x7xf32>",
        "%0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<?x4x5xf32>, tensor<?x5x7xf32>) -> tensor<?x4x7xf32>",
        "%0",
        "tensor<?x4x7xf32>",
    )


# --- products of 8-bit integers -------------------------------------------------------------------

_BYTES = "%arg0: tensor<4x48xi8>, %arg1: tensor<48x96xi8>"
_PRODUCT = "stablehlo.dot_general {}, {}, contracting_dims = [1] x [0] : (tensor<4x48xi8>, tensor<48x96xi8>) -> tensor<4x96xi32>"


def test_bytes_are_kept_apart_from_what_computes_them() -> None:
    """XLA would fuse what converts them to 32 bits."""
    product = _PRODUCT.format("%arg0", "%arg1")
    lowest, window, weights, last = _changed(_BYTES, f"%0 = {product}", "%0", "tensor<4x96xi32>", 1)
    assert lowest == "%new0 = stablehlo.constant dense<-128> : tensor<i8>"
    assert window.startswith('%new1 = "stablehlo.reduce_window"(%arg0, %new0) <{base_dilations = ')
    assert "window_strides = array<i64: 1, 2>" in window
    assert weights == "%new2 = stablehlo.optimization_barrier %arg1 : tensor<48x96xi8>"
    assert last == f"%0 = {_PRODUCT.format('%new1', '%new2')}"


def test_products_of_two_values_that_are_computed_stay() -> None:
    """The runtime's kernel needs packed weights."""
    product = _PRODUCT.format("%arg0", "%arg1")
    _assert_kept(_BYTES, f"%0 = {product}", "%0", "tensor<4x96xi32>")


def test_products_of_other_integers_stay() -> None:
    product = _PRODUCT.format("%arg0", "%arg1")
    _assert_kept(
        _BYTES.replace("i8", "i16"),
        f"%0 = {product.replace('i8', 'i16')}",
        "%0",
        "tensor<4x96xi32>",
        1,
    )


def test_padded_images_of_bytes_are_kept_apart_from_their_padding() -> None:
    """The runtime's convolution pads by itself, if what is padded is in memory."""
    convolution = "stablehlo.convolution({}, {}) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<2x8x4xi8>, tensor<3x4x16xi8>) -> tensor<2x6x16xi32>"
    body = f"""
        %0 = stablehlo.constant dense<3> : tensor<i8>
        %1 = stablehlo.pad %arg0, %0, low = [0, 1, 0], high = [0, 1, 0], interior = [0, 0, 0] : (tensor<2x6x4xi8>, tensor<i8>) -> tensor<2x8x4xi8>
        %2 = {convolution.format("%1", "%arg1")}
        """
    arguments = "%arg0: tensor<2x6x4xi8>, %arg1: tensor<3x4x16xi8>"
    lines = _changed(arguments, body, "%2", "tensor<2x6x16xi32>", 1)
    windows = [line for line in lines if "reduce_window" in line]
    (pad,) = (line for line in lines if "stablehlo.pad %new" in line)
    assert len(windows) == 2
    assert "(%arg0, " in windows[0]
    assert windows[1].split("(%")[1].startswith(pad.split(" = ")[0][1:] + ", ")
    assert "stablehlo.optimization_barrier %arg1 : tensor<3x4x16xi8>" in "".join(lines)
