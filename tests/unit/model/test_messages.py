"""TensorFlow's messages without its markup of nodes and functions."""

from __future__ import annotations

from typing import Any

import pytest

from modelwheel.model.messages import blame, cause_of, without_node_markup

_UNSUPPORTED = "No registered 'Switch' OpKernel for XLA_CPU_JIT devices compatible with node"
_EAGER = "{{function_node __wrapped__MatMul_device_/job:localhost/replica:0/device:CPU:0}}"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Graph execution error:\nat while/Switch", "Graph execution error:\nat while/Switch"),
        (f"{_EAGER} In[0]: [4,4] [Op:MatMul]", "In[0]: [4,4] [Op:MatMul]"),
        (
            f"{_UNSUPPORTED} {{{{node {{{{function_node __inference_f_7}}}}while/Switch}}}}",
            f"{_UNSUPPORTED} while/Switch",
        ),
        (
            f"{_UNSUPPORTED} {{{{function_node __inference_f_7}}}}{{{{node while/Switch}}}}\n",
            f"{_UNSUPPORTED} while/Switch\n",
        ),
        ("6 values\n\t [[{{node model/Reshape}}]]", "6 values\n\t [[model/Reshape]]"),
        ("{{function_node __a_1}} {{node a}}, {{function_node __b}} {{node b}}", "a, b"),
        (
            f"{_UNSUPPORTED} {{{{node while/bessel_j0/BesselJ0}}}})while/bessel_j0/BesselJ0",
            f"{_UNSUPPORTED} while/bessel_j0/BesselJ0)while/bessel_j0/BesselJ0",
        ),
        ("cut short {{function_node __inference_serving_def", "cut short "),
        ('a set {1, 2} and JSON {"a": {"b": 1}}', 'a set {1, 2} and JSON {"a": {"b": 1}}'),
    ],
)
def test_markup_is_removed(text: str, plain: str) -> None:
    assert without_node_markup(text) == plain


def test_the_cause_is_not_the_name_of_the_node() -> None:
    text = (
        "Graph execution error:\n\nDetected at node 'XlaCallModule' defined at (most recent call last):\n"
        "<stack traces unavailable>\nNode: 'XlaCallModule'\nthe product has no kernel\n\t [[{{node XlaCallModule}}]]"
    )
    assert cause_of(text) == "the product has no kernel"


def test_who_failed_is_the_library_that_was_called_last() -> None:
    def raised(name: str) -> Exception:
        called: dict[str, Any] = {"__name__": name}
        exec("def call(): raise ValueError('x')", called)  # noqa: S102 - a frame of another module
        try:
            called["call"]()
        except ValueError as error:
            return error
        raise AssertionError

    assert blame(raised("tensorflow.python.ops")) == "TensorFlow failed"
    assert blame(raised("torch_mlir.ir")) == "torch-mlir failed"
    own = "internal error of modelwheel, please report it"
    assert blame(raised("modelwheel.compiler.reference.rows")) == own
    assert blame(KeyError("x")) == own
