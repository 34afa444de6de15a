# SPDX-License-Identifier: Apache-2.0
"""Attention, found as two products and a Softmax."""

import math
from typing import Any

from opshift.adapter import Formula, Found, Term, Value, dtype_of, modern, np


def fits(found: Found) -> dict[str, Any] | None:
    """Returns the scale if the inputs are 4-D with equal batches and heads and the mask fits."""
    q, k, v = (found[name].dims_or_none for name in ("q", "k", "v"))
    if q is None or k is None or v is None or not len(q) == len(k) == len(v) == 4:
        return None
    if None in (*q[:2], *k[:3]) or q[:2] != k[:2] or v[:3] != k[:3]:
        return None
    if "mask" in found and not reaches(found["mask"], (q[0], q[1], q[2], k[2])):
        return None
    return scaled(found.numbers, found["q"])


def reaches(mask: Value, scores: tuple[Any, ...]) -> bool:
    """Returns whether a mask covers all keys and broadcasts to the scores."""
    dims = mask.dims_or_none
    if dims is None or not 2 <= len(dims) <= 4 or dims[-1] is None or dims[-1] != scores[3]:
        return False
    own = scores[4 - len(dims) :]
    return all(a is not None and a in (1, b) for a, b in zip(dims, own, strict=True))


def scaled(numbers: dict[str, Any], q: Value) -> dict[str, Any] | None:
    """Returns {"scale": number}, {} for the default scale, or None if the scale is not positive."""
    root, width, kind = numbers.get("root"), q.dims[3], dtype_of(q.elem_type)
    given = numbers["scale"] if root is None else root
    if not given > 0:
        return None
    if isinstance(width, int):
        usual = 1 / np.sqrt(np.float64(width))
        if given == float((usual if root is None else np.sqrt(usual)).astype(kind)):
            return {}
    if root is None:
        return {"scale": given}
    scale = np.float32(root * root)
    return {"scale": float(scale)} if root == float(np.sqrt(scale).astype(kind)) else None


# not derived: exporters scale the product, and the root that the adapter writes is no attribute
@modern("Attention", since=23, when=fits)
def attention(op: Formula, q: Term, k: Term, v: Term) -> Term:
    """Matches MatMul(Softmax(scaled scores), V)."""
    return op.MatMul(op.Softmax(scores(op, q, k), axis=-1), v)


def shows(found: Found) -> dict[str, Any] | None:
    """Returns the scale if a constant mask shows at least one key to each query, else None."""
    known = found["mask"].const_or_none()
    if known is None or known.dtype.kind != "f" or not np.isfinite(known).any(axis=-1).all():
        return None
    return None if (known == np.inf).any() or np.isnan(known).any() else fits(found)


def caps(found: Found) -> dict[str, Any] | None:
    """Returns the scale and `softcap` if one positive number divides and multiplies the scores."""
    told, cap = fits(found), found.numbers["softcap"]
    return None if told is None or not 0 < cap < math.inf else {**told, "softcap": cap}


# not derived: the adapter writes this form only if the mask has certain constant values
@modern("Attention", since=23, when=shows)
def attention_with_a_known_mask(op: Formula, q: Term, k: Term, v: Term, mask: Term) -> Term:
    """Matches MatMul(Softmax(scaled scores + mask), V) if the mask leaves each query a key."""
    return op.MatMul(op.Softmax(scores(op, q, k) + mask, axis=-1), v)


# not derived: exporters scale the product, as without a cap
@modern("Attention", since=23, when=caps)
def attention_with_a_soft_cap(op: Formula, q: Term, k: Term, v: Term) -> Term:
    """Matches MatMul(Softmax(capped scores), V), where capped is Tanh(scores / cap) * cap."""
    return op.MatMul(op.Softmax(capped(op, q, k), axis=-1), v)


# not derived: the form depends on the values of a constant mask
@modern("Attention", since=23, when=lambda found: None if shows(found) is None else caps(found))
def attention_with_a_soft_cap_and_a_mask(
    op: Formula, q: Term, k: Term, v: Term, mask: Term
) -> Term:
    """Matches MatMul(Softmax(capped scores + mask), V) if the mask leaves each query a key."""
    return op.MatMul(op.Softmax(capped(op, q, k) + mask, axis=-1), v)


NO_KEYS = "Attention returns zeros, not NaN, for a query whose keys are all hidden"


# not derived: the adapter writes zeros for a query without keys, where exporters get NaN
@modern("Attention", since=23, when=fits, differs=NO_KEYS)
def attention_with_a_mask(op: Formula, q: Term, k: Term, v: Term, mask: Term) -> Term:
    """Matches MatMul(Softmax(scaled scores + mask), V)."""
    return op.MatMul(op.Softmax(scores(op, q, k) + mask, axis=-1), v)


# not derived: exporters scale the product; the root of the scale is no attribute
@modern("Attention", since=23, when=fits)
def attention_that_hides(op: Formula, q: Term, k: Term, v: Term, mask: Term) -> Term:
    """Matches MatMul(Softmax(scaled scores + mask), V), with 0 if all keys are hidden."""
    chances = op.Softmax(scores(op, q, k) + mask, axis=-1)
    hidden = op.Equal(op.ReduceMax(mask, axes=[-1], keepdims=1), -math.inf)
    return op.MatMul(op.Where(hidden, 0, chances), v)


# not derived: exporters scale the product, as with a mask of numbers
@modern("Attention", since=23, when=fits)
def attention_of_what_is_shown(op: Formula, q: Term, k: Term, v: Term, mask: Term) -> Term:
    """Matches MatMul(Softmax(masked scores), V), with 0 for a query whose keys are all hidden."""
    bias = op.Where(mask, 0, -math.inf)
    chances = op.Softmax(scores(op, q, k) + bias, axis=-1)
    hidden = op.Equal(op.ReduceMax(bias, axes=[-1], keepdims=1), -math.inf)
    return op.MatMul(op.Where(hidden, 0, chances), v)


def scores(op: Formula, q: Term, k: Term) -> Term:
    """Matches the scaled product of Q and K, or the product of Q and K that are both scaled."""
    turned, root = op.Transpose(k, perm=[0, 1, 3, 2]), op.number("root")
    return op.either(op.MatMul(q, turned) * op.number("scale"), op.MatMul(q * root, turned * root))


def capped(op: Formula, q: Term, k: Term) -> Term:
    """Matches scores of attention with a soft cap, Tanh(scores / cap) * cap."""
    cap = op.number("softcap")
    return op.Tanh(scores(op, q, k) / cap) * cap
