# SPDX-License-Identifier: Apache-2.0
"""FlexAttention: attention with subgraphs that change the scores and the probabilities."""

from opshift.adapter import Builder, Node, Result, leaving

PREVIEW = "ai.onnx.preview"


@leaving("FlexAttention", domain=PREVIEW, since=18)
def flex_attention(node: Node, op: Builder) -> Result:
    """FlexAttention is written as the function body that onnx defines for this operator."""
    return op.expand(node)
