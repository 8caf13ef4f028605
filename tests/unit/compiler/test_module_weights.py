"""Weights of StableHLO modules as arguments: what MLIR prints, without megabytes of hexadecimal digits."""

from __future__ import annotations

import numpy as np

from modelwheel.compiler.stablehlo.module_weights import as_arguments, put_back, take_out

_WEIGHTS = np.random.default_rng(1).standard_normal((64, 16)).astype("<f4")
_HEX = _WEIGHTS.tobytes().hex().upper()
_KIND = "tensor<64x16xf32>"
_CONSTANT = f'%cst = stablehlo.constant dense<"0x{_HEX}"> : {_KIND}'
_DTYPES = {"f32": np.float32}


def _function(name: str, *lines: str) -> str:
    visibility = "public" if name == "main" else "private"
    body = "".join(f"    {line}\n" for line in lines)
    return (
        f'  func.func {visibility} @{name}(%arg0: tensor<2x64xf32> {{jax.name = "(x)"}}) -> tensor<2x16xf32> {{\n'
        f"{body}    return %0 : tensor<2x16xf32>\n  }}\n"
    )


_PRODUCT = f"%0 = stablehlo.dot_general %arg0, %cst, contracting_dims = [1] x [0] : (tensor<2x64xf32>, {_KIND}) -> tensor<2x16xf32>"
_CALL = "%0 = call @inner(%arg0) : (tensor<2x64xf32>) -> tensor<2x16xf32>"


def _module(*functions: str) -> str:
    return f"module @m {{\n{''.join(functions)}}}\n"


def test_a_constant_of_main_becomes_its_last_argument() -> None:
    lean = take_out(_module(_function("main", _CONSTANT, _PRODUCT)))
    assert len(lean.text) < 600
    text, weights = as_arguments(lean, _DTYPES)
    assert f'{{jax.name = "(x)"}}, %cst: {_KIND}) -> tensor<2x16xf32> {{' in text
    assert "constant" not in text
    np.testing.assert_array_equal(weights, [_WEIGHTS])


def test_a_constant_of_a_function_is_passed_through_its_callers() -> None:
    outer = _function("outer", _CALL)
    main = _function("main", _CALL.replace("inner", "outer"))
    text, weights = as_arguments(
        take_out(_module(main, outer, _function("inner", _CONSTANT, _PRODUCT))), _DTYPES
    )
    assert f"@outer(%arg0, %weights_0) : (tensor<2x64xf32>, {_KIND}) -> tensor<2x16xf32>" in text
    assert f"@inner(%arg0, %weights_0) : (tensor<2x64xf32>, {_KIND}) -> tensor<2x16xf32>" in text
    assert text.count(f"%weights_0: {_KIND}) ->") == 2
    assert text.count(f"%cst: {_KIND}) ->") == 1
    np.testing.assert_array_equal(weights, [_WEIGHTS])


def test_constants_of_functions_with_several_callers_stay() -> None:
    main = _function("main", _CALL.replace("%0", "%1"), _CALL)
    whole = _module(main, _function("inner", _CONSTANT, _PRODUCT))
    assert as_arguments(take_out(whole), _DTYPES) == (whole, ())


def test_constants_in_loops_and_of_other_types_stay() -> None:
    for lines in ((f"  {_CONSTANT}", _PRODUCT), (_CONSTANT.replace("f32", "i1"), _PRODUCT)):
        whole = _module(_function("main", *lines))
        assert as_arguments(take_out(whole), _DTYPES) == (whole, ())
        assert put_back(take_out(whole)) == whole
