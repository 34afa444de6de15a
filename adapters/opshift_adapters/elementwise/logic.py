# SPDX-License-Identifier: Apache-2.0
"""And, Or, Xor and Not."""

from opshift.adapter import Builder, Node, Result, T, boundary, in_other_words

from opshift_adapters._lib.legacy_broadcast import drop_legacy_broadcast, to_legacy_broadcast

BROADCAST_7 = boundary(
    7, "And:90fa16 Or:c5376e Xor:284f6c", up=drop_legacy_broadcast, down=to_legacy_broadcast
)


@in_other_words("And Or Xor")
def logic_in_numbers(node: Node, op: Builder) -> Result:
    """And is written as the product of 0 and 1, Or as Max, and Xor as Sub cast to bool."""
    a, b = (op.Cast(node[name], to=T.FLOAT) for name in "AB")
    result = {"And": op.Mul, "Or": op.Max, "Xor": op.Sub}[node.op](a, b)
    return op.Cast(result, to=T.BOOL)


@in_other_words("Not")
def one_minus(node: Node, op: Builder) -> Result:
    """Not is written as 1 - x, with Casts from bool to float and back."""
    return op.Cast(op.const(1, T.FLOAT) - op.Cast(node["X"], to=T.FLOAT), to=T.BOOL)
