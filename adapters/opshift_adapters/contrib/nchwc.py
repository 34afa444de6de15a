# SPDX-License-Identifier: Apache-2.0
"""com.microsoft.nchwc: layers whose channels lie in blocks of a processor's width."""

from opshift.adapter import Builder, Node, Refusal, Result, Why, example, leaving

NCHWC = "com.microsoft.nchwc"
LAYOUT = (
    "the weights and channels lie in blocks whose width depends on the processor, and the model does"
    " not hold it; optimise the original at level extended (ORT_ENABLE_EXTENDED) instead of all"
)


@leaving("Conv MaxPool AveragePool GlobalMaxPool GlobalAveragePool Upsample ReorderInput ReorderOutput", domain=NCHWC)
@example("any", "(float[1,8,4,4] x) => (float[1,8,a,b] y) { y = com.microsoft.nchwc.{op}(x) }", refuses=Why.NOT_EXPRESSIBLE)
def blocks_of_channels(node: Node, op: Builder) -> Result:
    """No form: the layout of the data depends on the processor that the model was optimised on."""
    raise Refusal(Why.NOT_EXPRESSIBLE, f"{node.op} of {NCHWC}: {LAYOUT}")
