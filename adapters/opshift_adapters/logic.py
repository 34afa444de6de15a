"""And, Or, Xor, Not, the comparisons and Where (their broadcasting at 7 is in broadcast.py)."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

COMPARISON_13 = boundary(13, "Equal:b27392 Greater:dce3c3 Less:724d71")
ORDER_16 = boundary(16, "GreaterOrEqual:09b5d4 LessOrEqual:bd57a3 Where:ecbbd0", cast=cast_around("float"))
ORDER_9 = boundary(9, "Greater:537f4f Less:ae8854", directions="up")
EQUAL_11 = boundary(11, "Equal:8edd25", directions="up")
EQUAL_19 = boundary(19, "Equal:3e5525", directions="up")
