# SPDX-License-Identifier: Apache-2.0
"""LayerNormalization from means and squares."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, Value, example, modern

LAYER = (
    "(float[2,3,4] x, float[4] s, float[4] b) => (float[2,3,4] y) <float e = {0.00001},"
    " float two = {2}, int64[1] a = {-1}> "
)
MEANS = (
    "{ m = ReduceMean(x, a) d = Sub(x, m) p = Pow(d, two) v = ReduceMean(p, a) w = Add(v,"
    " e) r = Sqrt(w) n = Div(d, r) "
)
AT_18 = {"": 18}
STASHES = (T.FLOAT, T.BFLOAT16)  # types of the mean and the deviation of LayerNormalization


def stretches(x: Value, part: Value, axis: int) -> bool:
    """Whether a scale or a bias is known to broadcast to the last axes of x."""
    dims, own = x.dims_or_none, part.shape_or_none
    if own is None or len(own) > -axis:
        return False
    if all(size == 1 for size in own):
        return True
    if dims is None:
        return False
    wide = dims[len(dims) - len(own) :]
    return all(size in (1, length) for size, length in zip(own, wide, strict=True))


def fits(found: Found) -> dict[str, Any] | None:
    """The attributes, if scale and bias do not make the result larger than `x`, else None."""
    told = found.numbers
    parts = [found[name] for name in ("scale", "bias") if name in found]
    if told["stash_type"] not in STASHES:
        return None
    return told if all(stretches(found["x"], part, told["axis"]) for part in parts) else None


def mean(op: Formula, x: Term) -> Term:
    """The mean along the last axes, which keep size 1."""
    return op.ReduceMean(x, axes=op.last_axes("axis"), keepdims=1)


def normal(op: Formula, x: Term) -> Term:
    """(x - mean) / Sqrt(variance + epsilon), computed in `stash_type`."""
    x = op.cast(x, "stash_type")
    gap = x - mean(op, x)
    return op.cast(gap / op.Sqrt(mean(op, gap * gap) + op.number("epsilon")))


@modern("LayerNormalization", since=17, when=fits)
@example(
    "as torch writes it",
    LAYER + MEANS + "t = Mul(n, s) y = Add(t, b) }",
    gives="LayerNormalization",
    atol=1e-5,
    imports=AT_18,
)
@example(
    "axes as an attribute",
    "(float[2,3,4] x, float[3,4] s, float[4] b) => (float[2,3,4] y) <float e = {0.5}> { m ="
    " ReduceMean<axes=[1, 2]>(x) d = Sub(x, m) p = Mul(d, d) v = ReduceMean<axes=[-2, -1]>(p) w ="
    " Add(e, v) r = Sqrt(w) n = Div(d, r) t = Mul(n, s) y = Add(t, b) }",
    gives="LayerNormalization",
    atol=1e-5,
)
def layer_normalization(op: Formula, x: Term, scale: Term, bias: Term) -> Term:
    """(x - mean) / Sqrt(variance + epsilon) * scale + bias."""
    return normal(op, x) * scale + bias


@modern("LayerNormalization", since=17, when=fits)
@example(
    "no bias",
    LAYER.replace(", float[4] b", "") + MEANS + "y = Mul(s, n) }",
    gives="LayerNormalization",
    atol=1e-5,
    imports=AT_18,
)
def layer_normalization_without_bias(op: Formula, x: Term, scale: Term) -> Term:
    """(x - mean) / Sqrt(variance + epsilon) * scale."""
    return normal(op, x) * scale
