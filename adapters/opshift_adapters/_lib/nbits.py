# SPDX-License-Identifier: Apache-2.0
"""Codes of 4 and 8 bits that are packed into bytes."""

from opshift.adapter import Builder, T, Value


def unpacked(op: Builder, packed: Value, bits: int, shape: list[int], kind: int) -> Value:
    """Unpacks codes from bytes; of two 4-bit codes, the code in the lower half comes first."""
    wide = op.Cast(packed, to=T.INT32)
    if bits == 4:
        sixteen = op.const(16, T.INT32)
        high = wide / sixteen
        low = wide - high * sixteen
        pair = [op.Unsqueeze(half, op.const([-1])) for half in (low, high)]
        wide = op.Concat(*pair, axis=-1)
    return op.Reshape(op.Cast(wide, to=kind), op.const(shape))
