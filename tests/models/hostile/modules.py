"""Models that hide what they do in the StableHLO of an XlaCallModule node, as jax2tf writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .saving import save
from .table import Victim, attack

_LOOP = """\
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<2000000000> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<?x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %z = stablehlo.sine %y : tensor<?x4xf32>
    stablehlo.return %j, %z : tensor<i32>, tensor<?x4xf32>
  }
  return %r#1 : tensor<?x4xf32>
}
"""
_INNER_LOOP = """\
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<9000> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<?x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s:3 = stablehlo.while(%j = %zero, %n = %i, %z = %y) : tensor<i32>, tensor<i32>, tensor<?x4xf32>
    cond {
      %d = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %d : tensor<i1>
    } do {
      %k = stablehlo.add %j, %one : tensor<i32>
      %e = stablehlo.sine %z : tensor<?x4xf32>
      stablehlo.return %k, %n, %e : tensor<i32>, tensor<i32>, tensor<?x4xf32>
    }
    %m = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %m, %s#2 : tensor<i32>, tensor<?x4xf32>
  }
  return %r#1 : tensor<?x4xf32>
}
"""
_CALLBACK = """\
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = stablehlo.custom_call @xla_python_cpu_callback(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
"""
_SIZE = """\
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %side = stablehlo.constant dense<65536> : tensor<1xi64>
  %twice = stablehlo.multiply %side, %side : tensor<1xi64>
  %shape = stablehlo.concatenate %twice, %side, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %all = stablehlo.dynamic_broadcast_in_dim %zero, %shape, dims = [] : (tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
  %sum = stablehlo.reduce(%all init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<?x?xf32>, tensor<f32>) -> tensor<f32>
  %y = chlo.broadcast_add %x, %sum : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
"""


@attack("effect", "calls Python from StableHLO", runs=False)
def module_callback(directory: Path, _: Victim) -> None:
    save(directory, lambda x: _call(_CALLBACK, x))


@attack("limit", "loops in StableHLO", runs=False)
def module_loop(directory: Path, _: Victim) -> None:
    save(directory, lambda x: _call(_LOOP, x))


@attack("limit", "loops in a loop of StableHLO, neither of which is long", runs=False)
def module_inner_loop(directory: Path, _: Victim) -> None:
    save(directory, lambda x: _call(_INNER_LOOP, x))


@attack("limit", "computes a size of 2^48 in StableHLO", runs=False)
def module_size(directory: Path, _: Victim) -> None:
    save(directory, lambda x: _call(_SIZE, x))


def _call(module: str, x: Any) -> Any:
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.python import xla

    with tf.name_scope("evil"):
        (result,) = xla.call_module(
            [x], version=7, module=module, Tout=[tf.float32], Sout=[[None, 4]], platforms=["CPU"]
        )
    return result
