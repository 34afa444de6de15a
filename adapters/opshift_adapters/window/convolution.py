# SPDX-License-Identifier: Apache-2.0
"""Conv and ConvTranspose."""

from opshift.adapter import boundary
from opshift.combinators import cast_around

BFLOAT16_22 = boundary(22, "Conv:fa6396 ConvTranspose:ec0d21", cast=cast_around("float"))
# The text of opset 1 puts the odd pad of ConvTranspose at the other end; no runtime does.
TEXT_11 = boundary(11, "Conv:2d0976 ConvTranspose:52a9e2")
