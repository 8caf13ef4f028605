"""Which operations are written in another way, and by what."""

from __future__ import annotations

from collections.abc import Mapping

from . import control, recurrent, resize
from .straight import Rule

RULES: Mapping[str, Rule] = {
    "If": control.if_,
    "Loop": control.loop,
    "Resize": resize.resize,
    "Scan": control.scan,
    "GRU": recurrent.gru,
    "LSTM": recurrent.lstm,
    "RNN": recurrent.rnn,
}
