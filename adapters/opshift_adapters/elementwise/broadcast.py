"""Binary operators at 7: before, only the second operand stretched, along `axis`, on request."""

from typing import Any

from opshift.adapter import KEEP, Builder, Node, Refusal, Result, Value, Why, adapter, example

from opshift_adapters._lib.blocks import EXPAND, UNSIGNED, common_shape, expand_to, shape_of

SYMMETRIC = ("Add", "Mul", "And", "Or", "Xor", "Equal")
MIRRORED = {"Less": "Greater", "Greater": "Less", **{op: op for op in SYMMETRIC}}
ARITHMETIC = "Add Sub Mul Div Pow"
LOGIC = "And Or Xor"
ORDER = "Less Greater"
RANKLESS = "(float[24] v, int64[n] s, float[3] b) => (float[a,b,c] y) { a = Reshape(v, s) "
SHAPE = {"s": [2, 3, 4]}

Dims = tuple[int | str | None, ...]


def drop_legacy_broadcast(node: Node, op: Builder) -> Result:
    """`axis` and `broadcast` gave way to numpy's rules: an operand is lengthened by ones instead."""
    a, b = node.inputs
    assert a is not None
    assert b is not None
    axis = node.attr("axis")
    if axis is not None and axis < -1 and node.int("broadcast"):
        raise Refusal(Why.AMBIGUOUS, f"axis={axis} never had a meaning before opset 7")
    aligned_at_end = not node.int("broadcast") or axis in (None, -1)
    one_element = b.dims_or_none is not None and set(b.dims) <= {1}
    if aligned_at_end or one_element:
        return op.same(node, axis=None, broadcast=None)
    if a.rank_or_none is not None and b.rank_or_none is not None:
        missing = a.rank - axis - b.rank
        if missing > 0:
            b = op.Unsqueeze(b, axes=list(range(b.rank, b.rank + missing)))
        return _binary(op, node.op, a, b)
    ranks = op.Sub(op.Shape(op.Shape(a)), op.Shape(op.Shape(b)))
    ones = op.Tile(op.const([1]), op.Sub(ranks, op.const([axis])))
    longer = op.Reshape(b, op.Concat(op.Shape(b), ones, axis=0))
    return _binary(op, node.op, a, longer)


def _binary(op: Builder, name: str, a: Value, b: Value, **legacy: Any) -> Value:
    made: Value = op.emit(name, a, b, **legacy)
    return made


UP_EMITS = ("Unsqueeze", "Shape", "Sub", "Tile", "Concat", "Reshape")


@adapter(ARITHMETIC, 6, 7, emits=UP_EMITS)
@example("equal shapes", "(float[2,3] a, float[2,3] b) => (float[2,3] y) { y = {op}(a, b) }", gives="{op}")
@example("suffix", "(float[2,3,4] a, float[3,4] b) => (float[2,3,4] y) { y = {op}<broadcast=1>(a, b) }", gives="{op}")
@example("axis at the end", "(float[2,3,4] a, float[4] b) => (float[2,3,4] y) { y = {op}<broadcast=1, axis=2>(a, b) }", gives="{op}")
@example("axis at the start", "(float[2,3,4] a, float[2] b) => (float[2,3,4] y) { y = {op}<broadcast=1, axis=0>(a, b) }", gives="Unsqueeze {op}")
@example("a block in the middle", "(float[2,3,4,5] a, float[3,4] b) => (float[2,3,4,5] y) { y = {op}<broadcast=1, axis=1>(a, b) }", gives="Unsqueeze {op}")
@example("equal sizes, another axis", "(float[3,3,3] a, float[3] b) => (float[3,3,3] y) { y = {op}<broadcast=1, axis=1>(a, b) }", gives="Unsqueeze {op}")
@example("scalar", "(float[2,3] a, float b) => (float[2,3] y) { y = {op}<broadcast=1, axis=0>(a, b) }", gives="{op}")
@example("one element", "(float[2,3] a, float[1,1] b) => (float[2,3] y) { y = {op}<broadcast=1, axis=1>(a, b) }", gives="{op}")
@example("symbolic", "(float[N,3,M] a, float[3] b) => (float[N,3,M] y) { y = {op}<broadcast=1, axis=1>(a, b) }", gives="Unsqueeze {op}")
@example("unknown rank", RANKLESS + "y = {op}<broadcast=1, axis=1>(a, b) }", gives="Reshape Shape Shape Shape Shape Sub Sub Tile Shape Concat Reshape {op}", inputs=SHAPE)
@example("no elements", "(float[2,0,4] a, float[2,0] b) => (float[2,0,4] y) { y = {op}<broadcast=1, axis=0>(a, b) }", gives="Unsqueeze {op}")
@example("negative axis", "(float[2,3,4] a, float[2] b) => (float[2,3,4] y) { y = {op}<broadcast=1, axis=-3>(a, b) }", refuses=Why.AMBIGUOUS)
def arithmetic_6_7(node: Node, op: Builder) -> Result:
    """The second operand was stretched along `axis`; now both are, aligned at the end."""
    return drop_legacy_broadcast(node, op)


@adapter(LOGIC, 6, 7, emits=UP_EMITS)
@example("axis", "(bool[2,3,4] a, bool[3] b) => (bool[2,3,4] y) { y = {op}<broadcast=1, axis=1>(a, b) }", gives="Unsqueeze {op}")
def logic_6_7(node: Node, op: Builder) -> Result:
    """The second operand was stretched along `axis`; now both are, aligned at the end."""
    return drop_legacy_broadcast(node, op)


@adapter(f"{ORDER} Equal", 6, 7, emits=UP_EMITS)
@example("order", "(float[2,3,4] a, float[3] b) => (bool[2,3,4] y) { y = Less<broadcast=1, axis=1>(a, b) }", gives="Unsqueeze Less")
@example("reversed order", "(float[2,3,4] a, float[3,4] b) => (bool[2,3,4] y) { y = Greater<broadcast=1>(a, b) }", gives="Greater")
@example("equality", "(int64[2,3,4] a, int64[2] b) => (bool[2,3,4] y) { y = Equal<broadcast=1, axis=0>(a, b) }", gives="Unsqueeze Equal")
def comparison_6_7(node: Node, op: Builder) -> Result:
    """The second operand was stretched along `axis`; now both are, aligned at the end."""
    return drop_legacy_broadcast(node, op)


def to_legacy_broadcast(node: Node, op: Builder) -> Result:
    """The second operand repeats along a block of the first; else swapped, or written out whole."""
    name, (a, b) = node.op, node.inputs
    assert a is not None
    assert b is not None
    if a.name == b.name or _equal(a.dims_or_none, b.dims_or_none):
        return KEEP
    block = _block(a.dims_or_none, b.dims_or_none)
    if block is not None:
        return _stretched(op, name, a, b, block)
    block = _block(b.dims_or_none, a.dims_or_none)
    if block is not None and name in MIRRORED:
        return _stretched(op, MIRRORED[name], b, a, block)
    if block is not None and name == "Sub" and a.elem_type not in UNSIGNED:
        return _stretched(op, "Add", op.Neg(b), a, block)
    if _covers(a.dims, b.dims):
        return _binary(op, name, a, expand_to(op, b, shape_of(op, a)))
    if _covers(b.dims, a.dims):
        return _binary(op, name, expand_to(op, a, shape_of(op, b)), b)
    shape = common_shape(op, a, b)
    return _binary(op, name, expand_to(op, a, shape), expand_to(op, b, shape))


def _equal(a: Dims | None, b: Dims | None) -> bool:
    """Whether two shapes are the same whatever their symbols stand for."""
    return a is not None and a == b and None not in a


def _block(large: Dims | None, small: Dims | None) -> tuple[int, int] | None:
    """The part of `small` that repeats a part of `large`, without ones around it; None if none does."""
    if small == ():
        return 0, 0
    if large is None or small is None or len(small) > len(large):
        return None
    if set(small) == {1}:
        return 0, len(small)
    whole = large[len(large) - len(small) :]
    if _equal(whole, small):
        return 0, len(small)
    long = [i for i, d in enumerate(small) if d != 1]
    start, stop = long[0], long[-1] + 1
    return (start, stop) if _equal(whole[start:stop], small[start:stop]) else None


def _stretched(op: Builder, name: str, a: Value, b: Value, block: tuple[int, int]) -> Value:
    start, stop = block
    outside = [*range(start), *range(stop, b.rank)]
    if not outside:
        return _binary(op, name, a, b, broadcast=1)
    small = op.Squeeze(b, axes=outside)
    if stop == b.rank:
        return _binary(op, name, a, small, broadcast=1)
    return _binary(op, name, a, small, broadcast=1, axis=a.rank - b.rank + start)


def _covers(large: Dims, small: Dims) -> bool:
    """Whether the common shape is surely that of `large`."""
    if len(small) > len(large):
        return False
    pairs = zip(large[len(large) - len(small) :], small, strict=True)
    return all(s == 1 or (s == d and s is not None) for d, s in pairs)


DOWN_EMITS = ("Squeeze", "Neg", *EXPAND)


@adapter(ARITHMETIC, 7, 6, emits=("Add", *DOWN_EMITS))
@example("equal shapes", "(float[N,3] a, float[N,3] b) => (float[N,3] y) { y = {op}(a, b) }", gives="{op}")
@example("itself, of unknown shape", "(float[24] v, int64[n] s) => (float[a,b] y) { a = Reshape(v, s) y = {op}(a, a) }", gives="Reshape {op}", inputs={"s": [4, 6]})
@example("scalar", "(float[N,3] a, float b) => (float[N,3] y) { y = {op}(a, b) }", gives="{op}")
@example("scalar against an unknown rank", "(float[24] v, int64[n] s, float b) => (float[a,b] y) { a = Reshape(v, s) y = {op}(a, b) }", gives="Reshape {op}", inputs={"s": [4, 6]})
@example("one element", "(float[2,3] a, float[1,1] b) => (float[2,3] y) { y = {op}(a, b) }", gives="{op}")
@example("suffix", "(float[N,3,4] a, float[3,4] b) => (float[N,3,4] y) { y = {op}(a, b) }", gives="{op}")
@example("channels", "(float[N,3,4,5] a, float[3,1,1] b) => (float[N,3,4,5] y) { y = {op}(a, b) }", gives="Squeeze {op}")
@example("channels with a one in front", "(float[N,3,4,5] a, float[1,3,1,1] b) => (float[N,3,4,5] y) { y = {op}(a, b) }", gives="Squeeze {op}")
@example("one in front", "(float[2,3] a, float[1,3] b) => (float[2,3] y) { y = {op}(a, b) }", gives="Squeeze {op}")
@example("ones between", "(float[3,2,4] a, float[3,1,4] b) => (float[3,2,4] y) { y = {op}(a, b) }", gives="Tile {op}")
@example("smaller on the left", "(float[3] a, float[2,3] b) => (float[2,3] y) { y = {op}(a, b) }")
@example("scalar on the left", "(float a, float[N,3] b) => (float[N,3] y) { y = {op}(a, b) }")
@example("both stretched", "(float[3,1] a, float[1,4] b) => (float[3,4] y) { y = {op}(a, b) }", gives="Tile Tile {op}")
@example("both stretched, unequal ranks", "(float[3,1] a, float[2,1,4] b) => (float[2,3,4] y) { y = {op}(a, b) }", gives="Unsqueeze Tile Tile {op}")
@example("both stretched, symbolic", "(float[N,1] a, float[M] b) => (float[N,M] y) { y = {op}(a, b) }")
@example("symbols that may be one", "(float[N,3] a, float[M,3] b) => (float[K,3] y) { y = {op}(a, b) }", inputs={"a": [[1, 2, 3]], "b": [[1, 2, 3], [2, 2, 1]]})
@example("no elements", "(float[2,0,1] a, float[1,3] b) => (float[2,0,3] y) { y = {op}(a, b) }")
@example("no elements, symbolic", "(float[N,1] a, float[M] b) => (float[N,M] y) { y = {op}(a, b) }", inputs={"b": []})
@example("unknown rank", RANKLESS + "y = {op}(a, b) }", refuses=Why.NEEDS_RANK)
@example("in a branch", "(bool c, float[2,3] a, float[1,3] b) => (float[2,3] y) { y = If (c) <then_branch = t () => (float[2,3] u) { u = {op}(a, b) }, else_branch = e () => (float[2,3] w) { w = {op}(b, a) }> }")
def arithmetic_7_6(node: Node, op: Builder) -> Result:
    """Before, only the second operand was stretched, and only along one block of the first."""
    return to_legacy_broadcast(node, op)


@adapter(LOGIC, 7, 6, emits=DOWN_EMITS)
@example("block", "(bool[2,3,4] a, bool[3,1] b) => (bool[2,3,4] y) { y = {op}(a, b) }", gives="Squeeze {op}")
@example("smaller on the left", "(bool[3] a, bool[2,3] b) => (bool[2,3] y) { y = {op}(a, b) }", gives="{op}")
@example("both stretched", "(bool[3,1] a, bool[N] b) => (bool[3,N] y) { y = {op}(a, b) }")
def logic_7_6(node: Node, op: Builder) -> Result:
    """Before, only the second operand was stretched, and only along one block of the first."""
    return to_legacy_broadcast(node, op)


@adapter(ORDER + " Equal", 7, 6, emits=("Less", "Greater", *DOWN_EMITS))
@example("order", "(float[2,3,4] a, float[3,1] b) => (bool[2,3,4] y) { y = Less(a, b) }", gives="Squeeze Less")
@example("less, smaller on the left", "(float[3] a, float[2,3] b) => (bool[2,3] y) { y = Less(a, b) }", gives="Greater")
@example("greater, smaller on the left", "(float a, float[2,3] b) => (bool[2,3] y) { y = Greater(a, b) }", gives="Less")
@example("equality", "(int64 a, int64[2,3] b) => (bool[2,3] y) { y = Equal(a, b) }", gives="Equal")
@example("both stretched", "(int32[3,1] a, int32[N] b) => (bool[3,N] y) { y = Equal(a, b) }")
def comparison_7_6(node: Node, op: Builder) -> Result:
    """Before, only the second operand was stretched, and only along one block of the first."""
    return to_legacy_broadcast(node, op)
