# SPDX-License-Identifier: Apache-2.0
"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from opshift.adapter import Builder, Node, Result, T, Value, adapter, alternative, boundary, misread
from opshift.combinators import cast_around

OPS = "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"


@adapter(OPS, 12, 11, in_other_words=True)
def loss_12_11(node: Node, op: Builder) -> Result:
    """Below opset 12, a loss operator is written as GatherElements, Mul and a reduction."""
    scores, labels, weights = (*node.inputs, None)[:3]
    assert scores is not None
    assert labels is not None
    logarithms = log_softmax(op, scores) if node.op == "SoftmaxCrossEntropyLoss" else scores
    loss = reduced(node, op, logarithms, op.Unsqueeze(labels, axes=[1]), weights)
    return (loss, logarithms)[: node.n_outputs]


@misread(OPS, "onnxruntime 1.3..1.8", source="2026-11-30 170 models")
def has_no_reduction(node: Node) -> bool:
    """{op} without `reduction` crashes."""
    return not node.has("reduction")


@misread(OPS, "onnxruntime 1.3..1.5", source="2026-11-30 170 models")
def is_of_double(node: Node) -> bool:
    """{op} of double does not load."""
    gathers = node.op == "NegativeLogLikelihoodLoss" and node.str("reduction") == "none"
    return not gathers and node.outputs[0] is not None and node.outputs[0].elem_type == T.DOUBLE


@alternative(OPS, runtime="onnxruntime==1.7")
def with_reduction(node: Node, op: Builder) -> Result:
    """A loss operator gets its default `reduction`, which its function body reads."""
    return op.same(node, reduction=node.str("reduction"))


def log_softmax(op: Builder, x: Value) -> Value:
    """Writes LogSoftmax along axis 1; below opset 13, the operator does so only for a matrix."""
    if x.rank_or_none == 2:
        return op.LogSoftmax(x, axis=1)
    below = x - op.ReduceMax(x, axes=[1])
    return below - op.Log(op.ReduceSum(op.Exp(below), axes=[1]))


def reduced(node: Node, op: Builder, x: Value, target: Value, weights: Value | None) -> Value:
    """Writes the loss from log-probabilities; `target` has size 1 on the class axis."""
    ignored = each = None
    if node.has("ignore_index"):
        ignored = op.Equal(target, op.const(node.int("ignore_index"), like=target))
        target = op.Where(ignored, op.const(0, like=target), target)
    loss = -op.GatherElements(x, target, axis=1)
    if weights is not None:
        each = op.Gather(weights, target, axis=0)
        loss = loss * each
    if ignored is not None:
        none = op.const(0, like=x)
        loss = op.Where(ignored, none, loss)
        each = op.Where(ignored, none, op.const(1, like=x) if each is None else each)
    reduction = node.str("reduction")
    if reduction == "none":
        return op.Squeeze(loss, axes=[1])
    if reduction == "sum":
        return op.ReduceSum(loss, keepdims=0)
    if each is None:
        return op.ReduceMean(loss, keepdims=0)
    return op.ReduceSum(loss, keepdims=0) / op.ReduceSum(each, keepdims=0)


LOSS_13 = boundary(13, "NegativeLogLikelihoodLoss:0a5ca9 SoftmaxCrossEntropyLoss:6dfbd3")
LOSS_22 = boundary(22, "NegativeLogLikelihoodLoss:b56557", cast=cast_around("float"))
