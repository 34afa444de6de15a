# SPDX-License-Identifier: Apache-2.0
"""Round from the next whole number above."""

from typing import Any

from opshift.adapter import Formula, Found, Term, dtype_of, example, modern, np

UP = "(float[2,3] x) => (float[2,3] y) <float h = {0.5}, float e = {5.9604645e-08}> { a = Ceil(x) b = Mul(a, h) f = Floor(b) o = Sub(b, f) d = Sub(a, x) p = Mul(o, e) l = Sub(h, p) g = Greater(d, l) c = Cast<to=1>(g) y = Sub(a, c) }"
AS_WRITTEN = "Ceil Mul Floor Sub Sub Mul Sub Greater Cast Sub"
HALVES = {"x": [[0.5, 1.5, -0.5], [2.5, 0.49999997, -1.5000001]]}


def smallest_step(found: Found) -> dict[str, Any] | None:
    """An empty dict if the step is the one below 1 in the type of the data, else None."""
    kind, step = found["X"].elem_type_or_none, found.numbers["step"]
    return {} if kind is not None and step == np.finfo(dtype_of(kind)).epsneg else None


@modern("Round", since=11, when=smallest_step)
@example("halves to the even number", UP, gives="Round", inputs=HALVES)
@example("the even number also above", UP.replace("Mul(o, e)", "Mul(e, o)"), gives="Round", inputs=HALVES)
@example("another step", UP.replace("5.9604645e-08", "0.25"), gives=AS_WRITTEN)
@example("a step of another type", UP.replace("5.9604645e-08", "0.00048828125"), gives=AS_WRITTEN)
@example("another value below", UP.replace("[2,3] x)", "[2,3] x, float[2,3] z)").replace("Sub(a, x)", "Sub(a, z)"), gives=AS_WRITTEN)
def round_from_above(op: Formula, X: Term) -> Term:  # noqa: N803 (the name of the input)
    """Ceil(x), minus 1 where that is nearer: above an odd number, a half counts as nearer."""
    above = op.Ceil(X)
    halves = above * 0.5
    odd = halves - op.Floor(halves)
    return above - op.cast(op.Greater(above - X, 0.5 - odd * op.number("step")))
