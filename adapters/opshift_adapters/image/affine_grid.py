# SPDX-License-Identifier: Apache-2.0
"""AffineGrid and ImageDecoder."""

from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, adapter, impossible

from opshift_adapters._lib.blocks import arange, column, element, part
from opshift_adapters._lib.kinds import as_type

REASON = "ImageDecoder has no older form, because no operator decodes images"
CASES = [("any", "(uint8[N] x) => (uint8[H,W,C] y) { y = {op}(x) }")]
IMAGE_DECODER_20 = impossible("ImageDecoder", 20, 19, REASON, cases=CASES)


@adapter("AffineGrid", 20, 19, in_other_words=True)
def affine_grid_20_19(node: Node, op: Builder) -> Result:
    """Below opset 20, AffineGrid becomes the product of evenly spaced positions and theta."""
    theta, size, kind = node["theta"], node["size"], node["theta"].elem_type
    work = T.DOUBLE if kind == T.DOUBLE else T.FLOAT
    count = size.shape[0] - 2
    lines = [_line(node, op, element(op, size, 2 + i), work) for i in range(count)]
    matrix = as_type(op, theta, work)
    sizes = part(op, size, 2)
    moved = op.MatMul(_places(op, lines, sizes, work), op.Transpose(matrix, perm=[0, 2, 1]))
    if sizes.const_or_none() is not None:
        shape = op.const([-1, *sizes.const().tolist(), count])
    else:
        shape = op.Concat(op.const([-1]), sizes, op.const([count]), axis=0)
    grid = op.Reshape(moved, shape)
    return as_type(op, grid, kind)


def _line(node: Node, op: Builder, size: Value, kind: int) -> Value:
    """Returns the pixel centres along one axis; the edges, or the end centres, are -1 and 1."""
    corners, constant = node.int("align_corners"), size.const_or_none()
    if corners and constant is not None and constant == 1:
        raise Refusal(
            Why.AMBIGUOUS, "AffineGrid with align_corners is not defined for an axis of size 1"
        )
    at = op.Cast(arange(op, size), to=kind) * 2
    length = op.Cast(size, to=kind)
    if corners:
        return at / op.Max(length - 1, op.const(1, kind)) - 1
    return (at + 1) / length - 1


def _places(op: Builder, lines: list[Value], sizes: Value, kind: int) -> Value:
    """Returns each position as a row of coordinates, last axis first, followed by a 1."""
    columns = [column(op, line, len(lines), i) for i, line in enumerate(lines)][::-1]
    columns.append(op.const(1, kind))
    last = op.const([-1])
    spread = [op.Unsqueeze(op.Expand(column, sizes), last) for column in columns]
    return op.Reshape(op.Concat(*spread, axis=-1), op.const([1, -1, len(lines) + 1]))
