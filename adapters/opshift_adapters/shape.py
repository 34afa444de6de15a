"""Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Concat, Shape, Size, Identity, Expand."""

from opshift.adapter import KEEP, Builder, Node, Result, Why, adapter, boundary, example

SHAPE_13 = boundary(
    13,
    (
        "Concat:961c13 Expand:505986 Flatten:17f24e Identity:42b4bb Reshape:de35a2 Shape:fcabfe "
        "Size:a2977a Transpose:e93d32"
    ),
)


@adapter("Squeeze Unsqueeze", 12, 13)
@example("axes", "(float[2,1,3] x) => (float[2,3] y) { y = Squeeze<axes=[1]>(x) }", gives="Squeeze")
@example("no axes", "(float[2,1,3] x) => (float[2,3] y) { y = Squeeze(x) }", gives="Squeeze")
@example("unsqueeze", "(float[2,3] x) => (float[2,1,3] y) { y = Unsqueeze<axes=[1]>(x) }", gives="Unsqueeze")
def squeeze_12_13(node: Node, op: Builder) -> Result:
    """The attribute `axes` became an input."""
    axes = node.ints_or_none("axes")
    if not axes:
        return op.same(node, axes=None)
    return op.same(node, inputs={"axes": op.const(axes)}, axes=None)


@adapter("Squeeze Unsqueeze", 13, 12)
@example("computed axes", "(float[2,1,3] x, int64[1] axes) => (float[2,3] y) { y = Squeeze(x, axes) }", refuses=Why.NEEDS_CONSTANT)
@example("constant axes", "(float[2,1,3] x) => (float[2,3] y) <int64[1] axes = {1}> { y = Squeeze(x, axes) }", gives="Squeeze")
@example("constant node", "(float[2,1,3] x) => (float[2,3] y) { axes = Constant<value_ints=[1]>() y = Squeeze(x, axes) }", gives="Squeeze")
def squeeze_13_12(node: Node, op: Builder) -> Result:
    """`axes` was an attribute, so its value must be known."""
    axes = node.input("axes")
    if axes is None:
        return KEEP
    return op.same(node, inputs={"axes": None}, axes=axes.const().tolist())


RESHAPE_14 = boundary(14, "Reshape:b32ca2 Identity:6d4702")
SHAPE_15 = boundary(15, "Shape:9d1b71")
IDENTITY_16 = boundary(16, "Identity:b3a2c0")
SHAPE_19 = boundary(19, "Identity:e58e3b Reshape:3de5a8 Shape:b3131e Size:b39098")
SHAPE_21 = boundary(
    21,
    (
        "Flatten:443813 Identity:855313 Reshape:aded5e Shape:e76a81 Size:4a37dc Squeeze:04451a "
        "Transpose:2345ed Unsqueeze:97a1a4"
    ),
)
SHAPE_23 = boundary(
    23,
    (
        "Flatten:03e5cd Identity:55d9bd Reshape:896b48 Shape:fa6172 Size:f4fc98 Squeeze:3c4191 "
        "Transpose:a18234 Unsqueeze:3e77e5"
    ),
)
SHAPE_24 = boundary(
    24,
    (
        "Flatten:555226 Identity:fa20ed Reshape:a2ebe7 Shape:7e83f1 Size:3a86e2 Squeeze:a55538 "
        "Transpose:8978f3 Unsqueeze:485f9a"
    ),
)
SHAPE_25 = boundary(
    25,
    (
        "Flatten:a6476d Identity:5e5318 Reshape:e34f79 Shape:d95a96 Size:e2adf1 Squeeze:81d4aa "
        "Transpose:58d6a0 Unsqueeze:0fa17b"
    ),
)
SHAPE_11 = boundary(
    11, "Concat:bcd325 Flatten:5fda33 Squeeze:63e6b2 Unsqueeze:be25f9", directions="up"
)
FLATTEN_9 = boundary(9, "Flatten:021954", directions="up")
