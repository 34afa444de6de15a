# SPDX-License-Identifier: Apache-2.0
"""And, Or and Xor."""

from opshift.adapter import Builder, Node, Result, T, adapter, example, in_other_words

from opshift_adapters._lib.legacy_broadcast import drop_legacy_broadcast, to_legacy_broadcast


@adapter("And Or Xor", 6, 7)
@example(
    "axis",
    "(bool[2,3,4] a, bool[3] b) => (bool[2,3,4] y) { y = {op}<broadcast=1, axis=1>(a, b) }",
    gives="Unsqueeze {op}",
)
def logic_6_7(node: Node, op: Builder) -> Result:
    """Opset 7 changed broadcasting to numpy's; instead of `axis`, B gets axes of size 1."""
    return drop_legacy_broadcast(node, op)


@adapter("And Or Xor", 7, 6)
@example("both stretched", "(bool[3,1] a, bool[N] b) => (bool[3,N] y) { y = {op}(a, b) }")
def logic_7_6(node: Node, op: Builder) -> Result:
    """Below opset 7 only B broadcasts, along one block of axes of A; other inputs are expanded."""
    return to_legacy_broadcast(node, op)


BOTH = "(bool[2,2] a, bool[2] b) => (bool[2,2] y) { y = {op}(a, b) }"
TRUTH = {"a": [[True, False], [False, True]], "b": [True, False]}


@in_other_words("And Or Xor")
@example("numbers", BOTH, inputs=TRUTH)
def logic_in_numbers(node: Node, op: Builder) -> Result:
    """And is a product of 0 and 1, Or the larger one, and Xor a difference that is not 0."""
    a, b = (op.Cast(node[name], to=T.FLOAT) for name in "AB")
    found = {"And": op.Mul, "Or": op.Max, "Xor": op.Sub}[node.op](a, b)
    return op.Cast(found, to=T.BOOL)


@in_other_words("Not")
@example("numbers", "(bool[2] x) => (bool[2] y) { y = Not(x) }", gives="Cast Sub Cast")
def one_minus(node: Node, op: Builder) -> Result:
    """Not is written as 1 - x in numbers."""
    return op.Cast(op.const(1, T.FLOAT) - op.Cast(node["X"], to=T.FLOAT), to=T.BOOL)
