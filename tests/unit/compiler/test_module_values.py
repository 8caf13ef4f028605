"""Valid values of the arguments of StableHLO modules: from tables, lengths, masks, scales and shifts."""

from __future__ import annotations

from modelwheel.compiler.stablehlo.mlir_text import read_functions
from modelwheel.compiler.stablehlo.module_values import with_module_values
from modelwheel.model.inspection import SignatureInfo, TensorInfo

_INT, _FLOAT, _BOOL = "tensor<4x6xi32>", "tensor<4x6xf32>", "tensor<4x6xi1>"
_GATHER = (
    '"stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], '
    "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 4>}> "
    ": (tensor<30x4xf32>, tensor<4x6x1xi32>) -> tensor<4x6x4xf32>"
)


def _signature(kind: str, dtype: str, *lines: str) -> SignatureInfo:
    body = "\n".join(f"    {line}" for line in lines)
    text = (
        "module {\n"
        f"  func.func public @main(%arg0: {kind}) -> {kind} {{\n{body}\n    return %arg0 : {kind}\n  }}\n}}\n"
    )
    tensor = TensorInfo(name="x", dtype=dtype, shape=(4, 6))
    signature = SignatureInfo(key="serving_default", inputs=(tensor,), outputs=())
    return with_module_values(signature, read_functions(text), ["x"])


def _found(kind: str, dtype: str, *lines: str) -> str:
    return str(_signature(kind, dtype, *lines).inputs[0].valid).partition(" (")[0]


def _constant(name: str, numbers: str, kind: str) -> str:
    return f"%{name} = stablehlo.constant dense<{numbers}> : {kind}"


_WRAPPED = (
    _constant("t", "1.0", "tensor<30x4xf32>"),
    _constant("zero", "0", _INT),
    _constant("size", "30", _INT),
    f"%n = stablehlo.compare LT, %arg0, %zero, SIGNED : ({_INT}, {_INT}) -> {_BOOL}",
    f"%w = stablehlo.add %arg0, %size : {_INT}",
    f"%s = stablehlo.select %n, %w, %arg0 : {_BOOL}, {_INT}",
    f"%i = stablehlo.broadcast_in_dim %s, dims = [0, 1] : ({_INT}) -> tensor<4x6x1xi32>",
    f"%y = {_GATHER}",
)


def test_an_index_that_may_count_from_the_end() -> None:
    signature = _signature(_INT, "int32", *_WRAPPED)
    assert str(signature.inputs[0].valid).startswith("0 <= x < 30 ")
    assert [(table.rows, table.input) for table in signature.tables] == [(30, "x")]


def test_a_function_of_a_byte_is_no_table_of_weights() -> None:
    lines = (
        _constant("t", "1", "tensor<256xi8>"),
        *_WRAPPED[1:-1],
        (
            '%y = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], '
            "start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1>}> "
            ": (tensor<256xi8>, tensor<4x6x1xi32>) -> tensor<4x6xi8>"
        ),
    )
    assert _signature(_INT, "int32", *lines).tables == ()


def test_the_first_scale_and_shift_of_each_column() -> None:
    lines = (
        _constant("m", "[9.0, 2.0, 9.0, 9.0, 9.0, 9.0]", "tensor<6xf32>"),
        f"%b = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<6xf32>) -> {_FLOAT}",
        f"%c = stablehlo.subtract %arg0, %b : {_FLOAT}",
        _constant("d", "2.0", _FLOAT),
        f"%e = stablehlo.divide %c, %d : {_FLOAT}",
    )
    found = _found(_FLOAT, "float32", *lines)
    assert found.startswith(
        "5.53589838486225 <= x[0] < 12.4641016151378, -1.46410161513775 <= x[1] <"
    )
    bytes_ = (_constant("d", "255.0", _FLOAT), f"%e = stablehlo.divide %arg0, %d : {_FLOAT}")
    assert _found(_FLOAT, "float32", *bytes_) == "0 <= x < 255"


def test_what_a_loop_scales_in_each_turn_says_nothing() -> None:
    def loop(scaled: str, returned: str) -> str:
        lines = (
            _constant("start", "0", "tensor<i32>"),
            f"%w:2 = stablehlo.while(%k = %start, %v = %arg0) : tensor<i32>, {_FLOAT}",
            "cond {",
            *(_constant("end", "3", "tensor<i32>"),),
            "%c = stablehlo.compare LT, %k, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>",
            "stablehlo.return %c : tensor<i1>",
            "} do {",
            _constant("d", "255.0", _FLOAT),
            f"%e = stablehlo.divide {scaled}, %d : {_FLOAT}",
            _constant("one", "1", "tensor<i32>"),
            "%n = stablehlo.add %k, %one : tensor<i32>",
            f"stablehlo.return %n, {returned} : tensor<i32>, {_FLOAT}",
            "}",
        )
        return _found(_FLOAT, "float32", *lines)

    assert loop("%v", "%e") == "None"
    # The same in every turn.
    assert loop("%v", "%v") == loop("%arg0", "%e") == "0 <= x < 255"


def test_lengths_masks_and_integers_of_which_nothing_is_known() -> None:
    positions = (
        "%p = stablehlo.iota dim = 1 : tensor<4x6xi32>",
        f"%n = stablehlo.compare LT, %p, %arg0, SIGNED : ({_INT}, {_INT}) -> {_BOOL}",
    )
    assert _found(_INT, "int32", *positions) == "1 <= x < 7"
    mask = (
        f"%f = stablehlo.convert %arg0 : ({_INT}) -> {_FLOAT}",
        _constant("one", "1.0", _FLOAT),
        f"%m = stablehlo.subtract %one, %f : {_FLOAT}",
        _constant("low", "-1.0e+04", _FLOAT),
        f"%a = stablehlo.multiply %m, %low : {_FLOAT}",
    )
    assert _found(_INT, "int32", *mask) == "0 <= x < 2"
    assert _found(_INT, "int32", f"%s = stablehlo.multiply %arg0, %arg0 : {_INT}") == "None"
    assert _found(_INT, "int32", mask[0]) == "0 <= x < 10"
