# SPDX-License-Identifier: Apache-2.0
"""DequantizeLinear of blocks without zero points: its form below opset 21."""

from opshift.adapter import Formula, Term, example, modern

from opshift_adapters.modern.dequantize_blocks import BLOCKS, blocks, spread


@modern("DequantizeLinear", since=21, when=blocks)
@example(
    "blocks without a zero point",
    BLOCKS.replace(", uint8[3,2] z", "")
    .replace(" zf = Cast<to=1>(z) uz = Unsqueeze(zf, n) ez = Expand(uz, r) fz = Reshape(ez, g)", "")
    .replace("d = Sub(a, fz) y = Mul(d, fs)", "y = Mul(a, fs)"),
    gives="DequantizeLinear",
)
def dequantize_blocks_around_zero(op: Formula, x: Term, x_scale: Term) -> Term:
    """x * scale, with a scale for each block."""
    return op.cast(op.cast(x, "kind") * op.cast(spread(op, x_scale), "kind"))
