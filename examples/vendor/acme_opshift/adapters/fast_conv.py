# SPDX-License-Identifier: Apache-2.0
"""FastConv: a flag became a choice."""

from __future__ import annotations

from opshift.adapter import Builder, Node, Refusal, Result, Why, adapter, example

RELU = (
    "(float[1,1,4] x, float[1,1,3] w) => (float[1,1,2] y) { y = com.acme.FastConv<relu=1>(x, w) }"
)
GELU = """(float[1,1,4] x, float[1,1,3] w) => (float[1,1,2] y) {
    y = com.acme.FastConv<activation="gelu">(x, w)
}"""


@adapter("FastConv", 1, 2, domain="com.acme")
@example("relu", RELU, gives="FastConv")
def fast_conv_1_2(node: Node, op: Builder) -> Result:
    """The flag `relu` is now one of several choices of `activation`."""
    return op.same(node, relu=None, activation="relu" if node.int("relu") else "none")


@adapter("FastConv", 2, 1, domain="com.acme")
@example("relu", RELU.replace("relu=1", 'activation="relu"'), gives="FastConv")
@example("no counterpart", GELU, refuses=Why.NOT_EXPRESSIBLE)
def fast_conv_2_1(node: Node, op: Builder) -> Result:
    """Only `relu` and `none` could be said."""
    activation = node.str("activation")
    if activation not in ("none", "relu"):
        raise Refusal(Why.NOT_EXPRESSIBLE, f"activation {activation!r} has no counterpart")
    return op.same(node, activation=None, relu=int(activation == "relu"))
