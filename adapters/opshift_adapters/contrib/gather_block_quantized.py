# SPDX-License-Identifier: Apache-2.0
"""GatherBlockQuantized: rows of a table that is quantized in blocks."""

from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, leaving

from opshift_adapters._lib.contrib import MICROSOFT
from opshift_adapters._lib.nbits import unpacked


@leaving("GatherBlockQuantized", domain=MICROSOFT, since=13)
def gather_block_quantized(node: Node, op: Builder) -> Result:
    """GatherBlockQuantized becomes Gather of packed rows, which are then unpacked and scaled."""
    data, scale, zero = node["data"], node["scales"], node.input("zero_points")
    bits, size = node.int("bits"), node.int("block_size")
    along = node.int("quantize_axis") % 2, node.int("gather_axis")
    blocks, width = scale.shape[-1], data.shape[-1] * 8 // bits
    if data.elem_type != T.UINT8 or bits not in (4, 8) or data.rank != 2 or along != (1, 0):
        raise Refusal(
            Why.NOT_EXPRESSIBLE,
            f"{node.op} needs 2-D uint8 data with blocks along the rows in ai.onnx",
        )
    if width != blocks * size:
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"{node.op} with an incomplete last block is impossible in ai.onnx"
        )
    indices, kind = node["indices"], scale.elem_type
    codes = unpacked(op, op.Gather(data, indices, axis=0), bits, [-1, blocks, size], kind)
    moved = codes - _points(op, zero, indices, bits, blocks, kind)
    scales = op.Reshape(op.Gather(scale, indices, axis=0), op.const([-1, blocks, 1]))
    rank = indices.rank
    shape = op.Concat(op.Shape(indices), op.const([width]), axis=0) if rank else op.const([width])
    return op.Reshape(moved * scales, shape)


def _points(
    op: Builder, zero: Value | None, indices: Value, bits: int, blocks: int, kind: int
) -> Value:
    """Returns the zero points of the gathered rows, one per block; by default the middle code."""
    if zero is None:
        return op.const(1 << (bits - 1), kind)
    width = zero.shape[-1] * 8 // bits
    points = unpacked(op, op.Gather(zero, indices, axis=0), bits, [-1, width, 1], kind)
    if width != blocks:
        points = op.Slice(points, op.const([0]), op.const([blocks]), op.const([1]))
    return points
