# SPDX-License-Identifier: Apache-2.0
"""SwiGLU from Swish or from Sigmoid."""

from opshift.adapter import Formula, Found, Term, example, modern


def equal_shapes(found: Found) -> dict[str, object] | None:
    """The attributes, if both shapes are equal, because SwiGLU does not broadcast; else None."""
    a, b = found["a"].dims_or_none, found["b"].dims_or_none
    if a is None or a != b or None in a:
        return None
    return found.numbers


@modern("SwiGLU", since=28, when=equal_shapes)
@example(
    "of Swish",
    "(float[2,3] x, float[2,3] b) => (float[2,3] y) { s = Sigmoid(x) w = Mul(s, x) y = Mul(w, b) }",
    gives="SwiGLU",
    atol=1e-6,
)
@example(
    "alpha",
    "(float[2,3] x, float[2,3] b) => (float[2,3] y) { w = Swish<alpha=1.5>(x) y = Mul(b, w) }",
    gives="SwiGLU",
    atol=1e-6,
)
def swiglu(op: Formula, a: Term, b: Term) -> Term:
    """Swish(a, alpha) * b."""
    return op.Swish(a, alpha=op.attribute("alpha")) * b
