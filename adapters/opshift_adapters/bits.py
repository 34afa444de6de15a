"""BitShift, the bitwise operators and BitCast."""

from opshift.adapter import boundary

SHIFT_28 = boundary(28, "BitShift:f10e36", directions="up")
