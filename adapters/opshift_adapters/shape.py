"""Reshape, Flatten, Squeeze, Unsqueeze, Expand, Transpose; Shape, Size, Identity."""

from opshift.adapter import KEEP, Builder, Node, Result, Why, adapter, boundary, example
from opshift.combinators import drop_attribute, positive_axis

TYPES_25 = boundary(25, (
    "Flatten:a6476d Identity:5e5318 Reshape:e34f79 Shape:d95a96 Size:e2adf1 Squeeze:81d4aa "
    "Transpose:58d6a0 Unsqueeze:0fa17b"
))
TYPES_24 = boundary(24, (
    "Flatten:555226 Identity:fa20ed Reshape:a2ebe7 Shape:7e83f1 Size:3a86e2 Squeeze:a55538 "
    "Transpose:8978f3 Unsqueeze:485f9a"
))
TYPES_23 = boundary(23, (
    "Flatten:03e5cd Identity:55d9bd Reshape:896b48 Shape:fa6172 Size:f4fc98 Squeeze:3c4191 "
    "Transpose:a18234 Unsqueeze:3e77e5"
))
TYPES_21 = boundary(21, (
    "Flatten:443813 Identity:855313 Reshape:aded5e Shape:e76a81 Size:4a37dc Squeeze:04451a "
    "Transpose:2345ed Unsqueeze:97a1a4"
))
TYPES_19 = boundary(19, "Identity:e58e3b Reshape:3de5a8 Shape:b3131e Size:b39098")
IDENTITY_16 = boundary(16, "Identity:b3a2c0")
SHAPE_15 = boundary(15, "Shape:9d1b71")
RESHAPE_14 = boundary(14, "Reshape:b32ca2 Identity:6d4702")
TYPES_13 = boundary(13, (
    "Expand:505986 Flatten:17f24e Identity:42b4bb Reshape:de35a2 Shape:fcabfe Size:a2977a "
    "Transpose:e93d32"
))
AXIS_11 = boundary(11, "Flatten:5fda33", down=positive_axis())
AXES_11 = boundary(11, "Squeeze:63e6b2", down=positive_axis("axes"))
UNSQUEEZE_11 = boundary(11, "Unsqueeze:be25f9", directions="up")
FLATTEN_9 = boundary(9, "Flatten:021954")


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


@adapter("Unsqueeze", 11, 10)
@example("negative", "(float[2,3] x) => (float[2,1,3,1] y) { y = Unsqueeze<axes=[-1,1]>(x) }", gives="Unsqueeze")
def unsqueeze_11_10(node: Node, op: Builder) -> Result:
    """`axes` could not count from the end of the output's rank."""
    axes = node.ints("axes")
    if min(axes, default=0) >= 0:
        return KEEP
    rank = node["data"].rank + len(axes)
    return op.same(node, axes=sorted(axis % rank for axis in axes))


@adapter("Reshape", 4, 5)
@example("shape", "(float[2,3,4] x) => (float[a,b] y) { y = Reshape<shape=[0,-1]>(x) }", gives="Reshape")
@example("scalar", "(float[1] x) => (float y) { y = Reshape(x) }", refuses=Why.NOT_EXPRESSIBLE)
def reshape_4_5(node: Node, op: Builder) -> Result:
    """The attribute `shape` became an input."""
    return op.same(node, inputs={"shape": op.const(node.ints("shape"))}, shape=None, consumed_inputs=None)


@adapter("Reshape", 5, 4)
@example("constant", "(float[2,3,4] x) => (float[a,b] y) <int64[2] s = {0,-1}> { y = Reshape(x, s) }", gives="Reshape")
@example("computed", "(float[2,3,4] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }", refuses=Why.NEEDS_CONSTANT, inputs={"s": [6, 4]})
def reshape_5_4(node: Node, op: Builder) -> Result:
    """`shape` was an attribute, so its value must be known."""
    return op.same(node, inputs={"shape": None}, shape=node["shape"].const().tolist())
