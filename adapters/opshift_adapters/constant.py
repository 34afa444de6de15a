"""Constant, ConstantOfShape, EyeLike, Range and the random generators; Cast, CastLike, BitCast."""

from opshift.adapter import boundary

CONSTANT_13 = boundary(13, "Constant:04a9fc Cast:f9f68c")
CONSTANT_19 = boundary(19, "Constant:b35179 Cast:24656c")
CONSTANT_21 = boundary(21, "Constant:e1958b Cast:666a21")
CONSTANT_23 = boundary(23, "Constant:607500 Cast:d12ac8")
CONSTANT_24 = boundary(24, "Constant:2254bf Cast:f1ca9f")
CONSTANT_25 = boundary(25, "Constant:54abdd Cast:65e127")
CAST_28 = boundary(28, "Cast:a43dff")
CONSTANT_12 = boundary(12, "Constant:882c28", directions="up")
CONSTANT_11 = boundary(11, "Constant:c0237c", directions="up")
CONSTANT_9 = boundary(9, "Constant:d85bdf Cast:88bcd8")
