"""Which operations are written in another way, and by what."""

from __future__ import annotations

from collections.abc import Mapping

from . import control, linear, quantized, recurrent, resize, sampling, simple, windows
from .expand import EXPANDED, expand
from .straight import Rule

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(sorted(EXPANDED), expand),
    "AveragePool": windows.average_pool,
    "Col2Im": simple.col2im,
    "Compress": linear.compress,
    "ConvInteger": quantized.conv_integer,
    "ConvTranspose": windows.conv_transpose,
    "DFT": linear.dft,
    "DeformConv": sampling.deform_conv,
    "DequantizeLinear": quantized.dequantize_linear,
    "Det": linear.det,
    "Dropout": simple.dropout,
    "GRU": recurrent.gru,
    "GlobalLpPool": linear.global_lp_pool,
    "GridSample": sampling.grid_sample,
    "Hardmax": simple.hardmax,
    "If": control.if_,
    "LSTM": recurrent.lstm,
    "Loop": control.loop,
    "LpPool": windows.lp_pool,
    "MatMulInteger": quantized.mat_mul_integer,
    "MaxPool": windows.max_pool,
    "MaxRoiPool": simple.max_roi_pool,
    "MaxUnpool": linear.max_unpool,
    "Mod": simple.mod,
    "Pad": simple.pad,
    "QLinearConv": quantized.q_linear_conv,
    "QLinearMatMul": quantized.q_linear_mat_mul,
    "QuantizeLinear": quantized.quantize_linear,
    "RNN": recurrent.rnn,
    "Resize": resize.resize,
    "ReverseSequence": linear.reverse_sequence,
    "RoiAlign": sampling.roi_align,
    "STFT": linear.stft,
    "Scan": control.scan,
    "ScatterElements": simple.scatter,
    "ScatterND": simple.scatter,
    "Slice": simple.slice_,
    "Softsign": simple.softsign,
    "TopK": linear.top_k,
}
