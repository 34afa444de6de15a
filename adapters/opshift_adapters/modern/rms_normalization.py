# SPDX-License-Identifier: Apache-2.0
"""RMSNormalization from the mean of squares."""

from typing import Any

from opshift.adapter import Formula, Found, T, Term, example, modern

from opshift_adapters.modern.layer_normalization import mean, stretches

RMS = (
    "(float[2,3,4] x, float[4] s) => (float[2,3,4] y) <float e = {0.00001}, float two ="
    " {2}, int64[1] a = {-1}> "
)
SQUARES = "{ p = Pow(x, two) v = ReduceMean(p, a) w = Add(v, e) r = Sqrt(w) "


def rms_fits(found: Found) -> dict[str, Any] | None:
    """The attributes, if the quotient has the type of `x` and the scale does not enlarge it.

    Else None. A formula in float16 is refused, because runtimes compute RMSNormalization in float.
    """
    told = found.numbers
    if told.pop("kind") != found["x"].elem_type_or_none or told["stash_type"] == T.FLOAT16:
        return None
    return told if stretches(found["x"], found["scale"], told["axis"]) else None


@modern("RMSNormalization", since=23, when=rms_fits)
@example(
    "divided", RMS + SQUARES + "n = Div(x, r) y = Mul(n, s) }", gives="RMSNormalization", atol=1e-5
)
@example(
    "times the reciprocal",
    RMS + SQUARES + "i = Reciprocal(r) n = Mul(x, i) y = Mul(s, n) }",
    gives="RMSNormalization",
    atol=1e-5,
)
def rms_normalization(op: Formula, x: Term, scale: Term) -> Term:
    """x / Sqrt(mean of x * x + epsilon) * scale."""
    wide = op.cast(x, "stash_type")
    root = op.Sqrt(mean(op, wide * wide) + op.number("epsilon"))
    return op.cast(op.cast(wide / root, "kind")) * scale
