"""Dropout: a copy in inference; how it is told to drop changed at 7 and 12."""

from opshift.adapter import boundary

TYPES_22 = boundary(22, "Dropout:b67e2d", directions="up")
BFLOAT16_13 = boundary(13, "Dropout:03e4f9")
