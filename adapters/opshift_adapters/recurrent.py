"""RNN, GRU, LSTM."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

BFLOAT16_22 = boundary(22, "RNN:fd4c07 GRU:405f19 LSTM:40d096", cast=cast_around("float"))
LAYOUT_14 = boundary(14, "RNN:228454 GRU:452a0a LSTM:ec6f5e", directions="up")
