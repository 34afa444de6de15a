# SPDX-License-Identifier: Apache-2.0
"""com.microsoft.nchwc: layers whose channels are stored in blocks that suit one processor."""

from opshift.adapter import Builder, Node, Refusal, Result, Why, example, leaving

NCHWC = "com.microsoft.nchwc"
LAYOUT = (
    "the weights and channels lie in blocks whose width depends on the processor, and the model does"
    " not hold it; optimise the original at level extended (ORT_ENABLE_EXTENDED) instead of all"
)


@leaving("Conv MaxPool AveragePool GlobalMaxPool GlobalAveragePool Upsample ReorderInput ReorderOutput", domain=NCHWC)
@example("any", "(float[1,8,4,4] x) => (float[1,8,a,b] y) { y = com.microsoft.nchwc.{op}(x) }", refuses=Why.NOT_EXPRESSIBLE)
def blocks_of_channels(node: Node, op: Builder) -> Result:
    """The data layout depends on the processor of the optimization, so no other form exists."""
    raise Refusal(Why.NOT_EXPRESSIBLE, f"{node.op} of {NCHWC}: {LAYOUT}")
