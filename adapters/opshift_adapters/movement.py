"""Concat, Split, Slice, Tile, Trilu: pieces of tensors put together and taken apart."""

from opshift.adapter import KEEP, Builder, Node, Result, Why, adapter, boundary, example
from opshift.combinators import positive_axis

TYPES_13 = boundary(13, "Concat:961c13 Slice:2a2b15 Tile:2ac827")
AXIS_11 = boundary(11, "Concat:bcd325 Split:282133", down=positive_axis())
SLICE_11 = boundary(11, "Slice:8c259c", directions="up")
CONCAT_4 = boundary(4, "Concat:884227", directions="down")


@adapter("Concat", 3, 4)
@example("default", "(float[2,3] a, float[2,1] b) => (float[2,4] y) { y = Concat(a, b) }", gives="Concat")
@example("first axis", "(float[2,3] a, float[1,3] b) => (float[3,3] y) { y = Concat<axis=0>(a, b) }", gives="Concat")
def concat_3_4(node: Node, op: Builder) -> Result:
    """`axis` must be written; it meant 1."""
    return KEEP if node.has("axis") else op.same(node, axis=1)


@adapter("Split", 12, 13)
@example("lengths", "(float[2,6] x) => (float[2,2] a, float[2,4] b) { a, b = Split<axis=1,split=[2,4]>(x) }", gives="Split")
@example("even", "(float[2,6] x) => (float[2,3] a, float[2,3] b) { a, b = Split<axis=1>(x) }", gives="Split")
def split_12_13(node: Node, op: Builder) -> Result:
    """The attribute `split` became an input."""
    lengths = node.ints_or_none("split")
    if not lengths:
        return op.same(node, split=None)
    return op.same(node, inputs={"split": op.const(lengths)}, split=None)


@adapter("Split", 17, 18)
@example("lengths", "(float[2,6] x) => (float[2,2] a, float[2,4] b) <int64[2] s = {2,4}> { a, b = Split<axis=1>(x, s) }", gives="Split")
@example("even", "(float[2,6] x) => (float[2,3] a, float[2,3] b) { a, b = Split<axis=1>(x) }", gives="Split")
def split_17_18(node: Node, op: Builder) -> Result:
    """Without lengths the number of parts must be said."""
    if node.input("split") is not None:
        return KEEP
    return op.same(node, num_outputs=len(node.outputs))


@adapter("Slice", 9, 10)
@example("axes", "(float[4,6] x) => (float[4,3] y) { y = Slice<axes=[1],starts=[1],ends=[4]>(x) }", gives="Slice")
@example("no axes", "(float[4,6] x) => (float[2,6] y) { y = Slice<starts=[1],ends=[3]>(x) }", gives="Slice")
def slice_9_10(node: Node, op: Builder) -> Result:
    """The attributes became inputs."""
    starts, ends = node.ints("starts"), node.ints("ends")
    axes = node.ints_or_none("axes") or list(range(len(starts)))
    inputs = {"starts": op.const(starts), "ends": op.const(ends), "axes": op.const(axes)}
    return op.same(node, inputs=inputs, starts=None, ends=None, axes=None)
