# SPDX-License-Identifier: Apache-2.0
"""FlexAttention: attention whose scores and probabilities a graph may change."""

from opshift.adapter import Builder, Node, Result, example, leaving

PREVIEW = "ai.onnx.preview"
INPUTS = "({0}[1,4,3,8] q, {0}[1,{1},5,8] k, {0}[1,{1},5,6] v) => ({0}[1,4,3,6] y) "
CALL = "{{ y = ai.onnx.preview.FlexAttention{}(q, k, v) }}"


@leaving("FlexAttention", domain=PREVIEW, since=18)
@example("one head for each query", INPUTS.format("float", 4) + CALL.format(""), atol=1e-5)
def flex_attention(node: Node, op: Builder) -> Result:
    """FlexAttention is written as the function that onnx defines for it."""
    return op.expand(node)
