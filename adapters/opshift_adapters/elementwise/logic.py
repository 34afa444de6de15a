# SPDX-License-Identifier: Apache-2.0
"""And, Or and Xor."""

from opshift.adapter import Builder, Node, Result, adapter, example

from opshift_adapters._lib.legacy_broadcast import (
    drop_legacy_broadcast,
    to_legacy_broadcast,
)


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
@example(
    "block",
    "(bool[2,3,4] a, bool[3,1] b) => (bool[2,3,4] y) { y = {op}(a, b) }",
    gives="Squeeze {op}",
)
@example("both stretched", "(bool[3,1] a, bool[N] b) => (bool[3,N] y) { y = {op}(a, b) }")
def logic_7_6(node: Node, op: Builder) -> Result:
    """Below opset 7 only B broadcasts, along one block of axes of A; other inputs are expanded."""
    return to_legacy_broadcast(node, op)
