"""Arithmetic that computes the error function is replaced by it; other arithmetic stays."""

from __future__ import annotations

import pytest

from modelwheel.compiler.stablehlo.written_functions import restore_functions

# As torch-mlir writes it: clamped, a quotient of polynomials, clamped again.
_OVER = (
    *(-2.72614237e-10, 2.77068146e-08, -2.10102394e-06, -5.69250624e-05),
    *(-7.34990637e-04, -2.954600e-03, -0.0160960332),
)
_UNDER = (-1.45660715e-05, -2.13374049e-04, -0.00168282702, -0.00737332925, -0.0142647391)
_TYPE = "tensor<3xf32>"


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, op: str, *operands: str) -> str:
        self.lines.append(
            f"    %{len(self.lines)} = stablehlo.{op} {', '.join(operands)} : {_TYPE}"
        )
        return f"%{len(self.lines) - 1}"

    def number(self, value: float) -> str:
        return self(f"constant dense<{value}>")

    def horner(self, x: str, numbers: tuple[float, ...]) -> str:
        found = self.number(numbers[0])
        for number in numbers[1:]:
            found = self("add", self("multiply", found, x), self.number(number))
        return found


def _module(over: tuple[float, ...], limit: float = 4.0) -> str:
    w = _Writer()
    argument = w("multiply", "%arg0", w.number(0.707106781))
    x = w("clamp", w.number(-limit), argument, w.number(limit))
    square = w("multiply", x, x)
    quotient = w("divide", w("multiply", x, w.horner(square, over)), w.horner(square, _UNDER))
    result = w("clamp", w.number(-1.0), quotient, w.number(1.0))
    body = "\n".join(w.lines)
    return (
        f"module {{\n  func.func @main(%arg0: {_TYPE}) -> {_TYPE} {{\n{body}\n"
        f"    return {result} : {_TYPE}\n  }}\n}}\n"
    )


def test_the_error_function_is_found_with_its_argument() -> None:
    restored = restore_functions(_module(_OVER))
    (line,) = (line for line in restored.split("\n") if "chlo" in line)
    number = line.partition("%")[2].partition(" ")[0]
    assert line == f"    %{number} = chlo.erf %1 : {_TYPE} -> {_TYPE}"
    assert f"return %{number} : " in restored
    assert "%1 = stablehlo.multiply %arg0, %0" in restored


def test_a_limit_that_changes_the_result_stays() -> None:
    restored = restore_functions(_module(_OVER, limit=1.0))
    (argument,) = (line.split()[3] for line in restored.split("\n") if "chlo" in line)
    assert f"{argument} = stablehlo.clamp" in restored


@pytest.mark.parametrize(
    "text",
    [
        _module((*_OVER[:-1], _OVER[-1] * 1.00001)),  # a little other than the error function
        _module(_OVER).replace("f32", "f64"),  # less exact than 64 bits are
    ],
    ids=["factor", "type"],
)
def test_other_arithmetic_stays(text: str) -> None:
    assert restore_functions(text) == text
