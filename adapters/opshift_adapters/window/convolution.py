# SPDX-License-Identifier: Apache-2.0
"""Conv and ConvTranspose."""

from opshift.adapter import boundary, example, shown
from opshift.combinators import cast_around

BFLOAT16_22 = boundary(
    22,
    "Conv:fa6396 ConvTranspose:ec0d21",
    cast=shown(
        cast_around("float"),
        example(
            "bfloat16",
            "(bfloat16[1,2,6] x, bfloat16[3,2,3] w, bfloat16[3] b) => (bfloat16[1,3,4] y)"
            " { y = Conv(x, w, b) }",
            gives="Cast Cast Cast Conv Cast",
        ),
        example(
            "bfloat16, transposed",
            "(bfloat16[1,2,6] x, bfloat16[2,3,3] w) => (bfloat16[1,3,8] y) { y ="
            " ConvTranspose(x, w) }",
            gives="Cast Cast ConvTranspose Cast",
        ),
    ),
)
# The text of opset 1 puts the odd pad of ConvTranspose at the other end; no runtime does.
TEXT_11 = boundary(11, "Conv:2d0976 ConvTranspose:52a9e2")
