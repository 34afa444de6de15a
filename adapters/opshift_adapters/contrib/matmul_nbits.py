# SPDX-License-Identifier: Apache-2.0
"""MatMulNBits: a product with weights that are quantized in blocks and packed into bytes."""

from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, leaving, misread

from opshift_adapters._lib.contrib import MICROSOFT
from opshift_adapters._lib.nbits import unpacked


@leaving("MatMulNBits", domain=MICROSOFT, since=13, approximate=True)
def matmul_nbits(node: Node, op: Builder) -> Result:
    """MatMulNBits is written as MatMul with weights that are unpacked and scaled."""
    bits = node.int("bits")
    if bits not in (4, 8) or node.input("g_idx") is not None:
        raise Refusal(Why.NOT_EXPRESSIBLE, f"{node.op} needs 4 or 8 bits and no g_idx in ai.onnx")
    if node.int("accuracy_level") > 1:
        op.approximate(f"{node.op}: onnxruntime may quantize A, but the new MatMul does not")
    rows, columns = node.int("N"), node.int("K")
    scale = node["scales"]
    kind, size = scale.elem_type, node.int("block_size")
    blocks = -(-columns // size)
    whole = unpacked(op, node["B"], bits, [rows, blocks, -1], kind)
    moved = whole - _zeros(op, node.input("zero_points"), bits, rows, blocks, kind)
    wide = moved * op.Reshape(scale, op.const([rows, blocks, 1]))
    weights = op.Reshape(wide, op.const([rows, -1]))
    if columns % size:
        weights = op.Slice(weights, op.const([0]), op.const([columns]), op.const([1]))
    y, bias = op.MatMul(node["A"], op.Transpose(weights, perm=[1, 0])), node.input("bias")
    return y if bias is None else y + bias


@misread("MatMulNBits", "onnxruntime 1.16..1.22", source="2026-11-30 1.16..1.24", domain=MICROSOFT)
def has_other_bits(node: Node) -> bool:
    """MatMulNBits of 2 or 8 bits is not supported."""
    return node.int("bits") != 4


@misread("MatMulNBits", "onnxruntime 1.23", source="2026-11-30 1.16..1.32", domain=MICROSOFT)
def has_two_bits(node: Node) -> bool:
    """MatMulNBits of 2 bits does not load."""
    return node.int("bits") == 2


def _zeros(op: Builder, zero: Value | None, bits: int, rows: int, blocks: int, kind: int) -> Value:
    """Returns the zero point of each block, unpacked if needed; the default is the middle code."""
    if zero is None:
        return op.const(1 << (bits - 1), kind)
    if zero.elem_type != T.UINT8:
        return op.Reshape(zero, op.const([rows, blocks, 1]))
    points = unpacked(op, zero, bits, [rows, -1], kind)
    if bits == 4 and blocks % 2:
        points = op.Slice(points, op.const([0]), op.const([blocks]), op.const([1]))
    return op.Reshape(points, op.const([rows, blocks, 1]))
