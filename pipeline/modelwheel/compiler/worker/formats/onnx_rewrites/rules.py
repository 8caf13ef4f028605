"""Which operations are written in another way, and by what."""

from __future__ import annotations

from collections.abc import Mapping

from . import control, quantized, recurrent, resize, simple, windows
from .expand import EXPANDED, expand
from .straight import Rule

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(sorted(EXPANDED), expand),
    "AveragePool": windows.average_pool,
    "ConvInteger": quantized.conv_integer,
    "ConvTranspose": windows.conv_transpose,
    "DequantizeLinear": quantized.dequantize_linear,
    "Dropout": simple.dropout,
    "GRU": recurrent.gru,
    "Hardmax": simple.hardmax,
    "If": control.if_,
    "LSTM": recurrent.lstm,
    "Loop": control.loop,
    "LpPool": windows.lp_pool,
    "MatMulInteger": quantized.mat_mul_integer,
    "MaxPool": windows.max_pool,
    "Mod": simple.mod,
    "Pad": simple.pad,
    "QLinearConv": quantized.q_linear_conv,
    "QLinearMatMul": quantized.q_linear_mat_mul,
    "QuantizeLinear": quantized.quantize_linear,
    "RNN": recurrent.rnn,
    "Resize": resize.resize,
    "Scan": control.scan,
    "Slice": simple.slice_,
    "Softsign": simple.softsign,
}
