"""Constant, ConstantOfShape, EyeLike, Range: values from nothing but attributes and shapes."""

from opshift.adapter import boundary

CONSTANT_9 = boundary(9, "Constant:d85bdf", directions="up")
CONSTANT_11 = boundary(11, "Constant:c0237c", directions="up")
CONSTANT_12 = boundary(12, "Constant:882c28", directions="up")
CONSTANT_13 = boundary(13, "Constant:04a9fc")
CONSTANT_19 = boundary(19, "Constant:b35179")
CONSTANT_20 = boundary(20, "ConstantOfShape:a6421e")
CONSTANT_21 = boundary(21, "Constant:e1958b ConstantOfShape:cf0622")
EYE_22 = boundary(22, "EyeLike:899eeb", directions="up")
CONSTANT_23 = boundary(23, "Constant:607500 ConstantOfShape:5dfb78")
CONSTANT_24 = boundary(24, "Constant:2254bf ConstantOfShape:37c4c1")
CONSTANT_25 = boundary(25, "Constant:54abdd ConstantOfShape:3c555e")
RANGE_27 = boundary(27, "Range:770b92", directions="up")
