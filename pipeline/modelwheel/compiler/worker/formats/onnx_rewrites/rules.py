"""Which operations are written in another way, and by what."""

from __future__ import annotations

from collections.abc import Mapping

from . import control, quantized, recurrent, resize, simple
from .expand import EXPANDED, expand
from .straight import Rule

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(sorted(EXPANDED), expand),
    "ConvInteger": quantized.conv_integer,
    "DequantizeLinear": quantized.dequantize_linear,
    "Dropout": simple.dropout,
    "GRU": recurrent.gru,
    "Hardmax": simple.hardmax,
    "If": control.if_,
    "LSTM": recurrent.lstm,
    "Loop": control.loop,
    "MatMulInteger": quantized.mat_mul_integer,
    "MaxPool": simple.max_pool,
    "QLinearConv": quantized.q_linear_conv,
    "QLinearMatMul": quantized.q_linear_mat_mul,
    "QuantizeLinear": quantized.quantize_linear,
    "RNN": recurrent.rnn,
    "Resize": resize.resize,
    "Scan": control.scan,
}
