"""Names of operations: without the calls around them, nested, joined."""

from __future__ import annotations

import pytest

from modelwheel.program.op_names import (
    clean_name,
    common_layer,
    join_names,
    layer_of,
    names_of,
    nested_name,
)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("StatefulPartitionedCall_2/StatefulPartitionedCall/net/dense/MatMul", "net/dense/MatMul"),
        ("XlaCallModule/dot", "dot"),
        ("XlaCallModule/jit(net)/encoder/dot_general", "encoder/dot_general"),
        ("jit(f)/while/body/closed_call/jit(relu)/max", "while/body/relu/max"),
        ("encoder/jit(vmap(relu))/max", "encoder/relu/max"),
        ("/encoder//MatMul", "encoder/MatMul"),
        ("main", ""),
        ("XlaCallModule", ""),
        ("XLA_Retvals", ""),
        ("", ""),
    ],
)
def test_names_have_no_calls_of_frameworks(written: str, name: str) -> None:
    assert clean_name(written) == name


@pytest.mark.parametrize(
    ("outer", "inner", "name"),
    [
        ("", "tanh", "tanh"),
        ("loop", "", "loop"),
        ("loop", "cell/tanh", "loop/cell/tanh"),
        ("rnn/while", "rnn/while/body/tanh", "rnn/while/body/tanh"),
        ("a/jit(relu)", "relu/max", "a/jit(relu)/max"),
        ("a/tanh", "a/tanh", "a/tanh/tanh"),
    ],
)
def test_names_in_others_repeat_nothing(outer: str, inner: str, name: str) -> None:
    assert nested_name(outer, inner) == name


def test_an_origin_has_each_name_once() -> None:
    origin = join_names("a/dot;a/add", "", "a/relu", "a/dot")
    assert origin == "a/dot;a/add;a/relu"
    assert names_of(origin) == ("a/dot", "a/add", "a/relu")
    assert names_of("") == ()


def test_layers() -> None:
    assert [layer_of(name) for name in ("a/b/dot", "dot_1", "")] == ["a/b", "dot_1", ""]
    assert common_layer(["a/b/c", "a/b/d"]) == "a/b"
    assert common_layer(["a/b", "c/b"]) == common_layer([]) == ""
