# SPDX-License-Identifier: Apache-2.0
"""DequantizeLinear of blocks without zero points: its form below opset 21."""

from opshift.adapter import Formula, Term, modern

from opshift_adapters.modern.dequantize_blocks import blocks, spread


@modern("DequantizeLinear", since=21, when=blocks)
def dequantize_blocks_around_zero(op: Formula, x: Term, x_scale: Term) -> Term:
    """x * scale, with a scale for each block."""
    return op.cast(op.cast(x, "kind") * op.cast(spread(op, x_scale), "kind"))
