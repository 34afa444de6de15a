# SPDX-License-Identifier: Apache-2.0
"""Activations from their formulas: HardSwish, Mish, Celu, Swish and SwiGLU."""

from opshift.adapter import Formula, Found, Term, example, modern

CUT = "(float[2,3] x) => (float[2,3] y) <float three = {3}, float zero = {0}, float six = {6}> "


@modern("HardSwish", since=14)
@example("of HardSigmoid", "(float[2,3] x) => (float[2,3] y) { h = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, h) }", gives="HardSwish", atol=1e-6)
@example("another slope", "(float[2,3] x) => (float[2,3] y) { h = HardSigmoid(x) y = Mul(x, h) }", gives="HardSigmoid Mul")
@example("of Clip", CUT + "{ a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six) }", gives="HardSwish", atol=1e-6)
@example("divided first", CUT + "{ a = Add(x, three) c = Clip(a, zero, six) d = Div(c, six) y = Mul(x, d) }", gives="HardSwish", atol=1e-6)
def hard_swish(op: Formula, x: Term) -> Term:
    """x * HardSigmoid(x, alpha=1/6, beta=0.5), or x * Clip(x + 3, 0, 6) / 6."""
    return op.either(x * op.HardSigmoid(x, alpha=1 / 6, beta=0.5), x * op.Clip(x + 3, 0, 6) / 6)


@modern("Mish", since=18)
@example("of Softplus", "(float[2,3] x) => (float[2,3] y) { s = Softplus(x) t = Tanh(s) y = Mul(x, t) }", gives="Mish", atol=1e-6)
def mish(op: Formula, x: Term) -> Term:
    """x * Tanh(Softplus(x))."""
    return x * op.Tanh(op.Softplus(x))


@modern("Celu", since=12)
@example("of Elu", "(float[2,3] x) => (float[2,3] y) <float a = {0.25}> { n = Neg(x) r = Relu(n) m = Neg(r) d = Div(m, a) e = Elu(d) b = Mul(e, a) p = Relu(x) y = Add(p, b) }", gives="Celu", atol=1e-6)
def celu(op: Formula, x: Term) -> Term:
    """Relu(x) + alpha * Elu(-Relu(-x) / alpha)."""
    alpha = op.number("alpha")
    return op.Relu(x) + alpha * op.Elu(op.Neg(op.Relu(op.Neg(x))) / alpha)


@modern("Swish", since=24)
@example("of Sigmoid", "(float[2,3] x) => (float[2,3] y) { s = Sigmoid(x) y = Mul(s, x) }", gives="Swish", atol=1e-6)
@example("of another value", "(float[2,3] x, float[2,3] z) => (float[2,3] y) { s = Sigmoid(z) y = Mul(s, x) }", gives="Sigmoid Mul")
@example("alpha", "(float[2,3] x) => (float[2,3] y) <float a = {1.5}> { m = Mul(x, a) s = Sigmoid(m) y = Mul(x, s) }", gives="Swish", atol=1e-6)
def swish(op: Formula, x: Term) -> Term:
    """x * Sigmoid(alpha * x)."""
    return x * op.Sigmoid(op.either(x, op.number("alpha") * x))


def equal_shapes(found: Found) -> dict[str, object] | None:
    """The attributes, if both shapes are equal, because SwiGLU does not broadcast; else None."""
    a, b = found["a"].dims_or_none, found["b"].dims_or_none
    if a is None or a != b or None in a:
        return None
    return found.numbers


@modern("SwiGLU", since=28, when=equal_shapes)
@example("of Swish", "(float[2,3] x, float[2,3] b) => (float[2,3] y) { s = Sigmoid(x) w = Mul(s, x) y = Mul(w, b) }", gives="SwiGLU", atol=1e-6)
@example("alpha", "(float[2,3] x, float[2,3] b) => (float[2,3] y) { w = Swish<alpha=1.5>(x) y = Mul(b, w) }", gives="SwiGLU", atol=1e-6)
@example("a gate that broadcasts", "(float[2,3] x, float[3] b) => (float[2,3] y) { w = Swish(x) y = Mul(w, b) }", gives="Swish Mul")
def swiglu(op: Formula, a: Term, b: Term) -> Term:
    """Swish(a, alpha) * b."""
    return op.Swish(a, alpha=op.attribute("alpha")) * b
