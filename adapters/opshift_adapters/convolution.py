"""Conv, ConvTranspose, DeformConv."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

BFLOAT16_22 = boundary(22, "Conv:fa6396 ConvTranspose:ec0d21 DeformConv:3b4cba", cast=cast_around("float"))
TEXT_11 = boundary(11, "Conv:2d0976 ConvTranspose:52a9e2")
