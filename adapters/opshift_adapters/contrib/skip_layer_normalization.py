# SPDX-License-Identifier: Apache-2.0
"""SkipLayerNormalization and similar operators: sums that are normalized over the last axis."""

from opshift.adapter import Builder, Node, Refusal, Result, T, Value, Why, leaving

from opshift_adapters._lib.contrib import (
    MICROSOFT,
    layer_normalized,
    named,
    root_mean_square_normalized,
)


@leaving("SkipLayerNormalization", domain=MICROSOFT, since=11)
def skip_layer_normalization(node: Node, op: Builder) -> Result:
    """SkipLayerNormalization becomes Add and LayerNormalization; the sum may be an output, too."""
    total, epsilon = _total(op, node), node.float("epsilon")
    count = 1 if node.output("mean") is None and node.output("inv_std_var") is None else 3
    result = layer_normalized(op, total, node["gamma"], node.input("beta"), epsilon, count)
    return *(result * 3)[:3], total


@leaving("SkipSimplifiedLayerNormalization", domain=MICROSOFT, since=11)
def skip_simplified_layer_normalization(node: Node, op: Builder) -> Result:
    """SkipSimplifiedLayerNormalization becomes Add and RMS normalization of the sum."""
    if any(output is not None and output.used for output in node.outputs[1:3]):
        raise Refusal(Why.NOT_EXPRESSIBLE, f"no specification defines the statistics of {node.op}")
    total = _total(op, node)
    y = root_mean_square_normalized(op, total, node["gamma"], node.float("epsilon"))
    return y, y, y, total


def _total(op: Builder, node: Node) -> Value:
    total, bias = node["input"] + node["skip"], node.input("bias")
    return total if bias is None else total + bias


UNREAD = {"mask_index_type": "`mask_index_type` has only one defined value"}


@leaving("EmbedLayerNormalization", domain=MICROSOFT, since=13, ignores=UNREAD)
def embed_layer_normalization(node: Node, op: Builder) -> Result:
    """EmbedLayerNormalization becomes Gather of embeddings, Add and LayerNormalization."""
    ids, words, places = named(node, "input_ids word_embedding position_embedding")
    segments, kinds = node.input("segment_ids"), node.input("segment_embedding")
    total = op.Gather(words, ids, axis=0)
    total = total + op.Gather(places, _positions(op, ids, node.input("position_ids")), axis=0)
    if segments is not None and kinds is not None:
        total = total + op.Gather(kinds, segments, axis=0)
    (y,) = layer_normalized(op, total, node["gamma"], node["beta"], node.float("epsilon"))
    return (y, _mask_index(node, op, ids), total)[: node.n_outputs]


def _positions(op: Builder, ids: Value, positions: Value | None) -> Value:
    """Returns the positions of the words, by default 0, 1, 2, ..."""
    if positions is not None:
        return positions
    length = op.Gather(op.Shape(ids), op.const(1), axis=0)
    return op.Range(op.const(0), length, op.const(1))


def _mask_index(node: Node, op: Builder, ids: Value) -> Value:
    mask = node.input("mask")
    if mask is None:  # onnxruntime then returns 0
        mask = op.Cast(ids, to=T.INT32) * op.const(0, T.INT32)
    return op.ReduceSum(mask, op.const([1]), keepdims=0)


@leaving("QEmbedLayerNormalization", domain=MICROSOFT, since=13)
def q_embed_layer_normalization(node: Node, op: Builder) -> Result:
    """QEmbedLayerNormalization becomes EmbedLayerNormalization of dequantized tables."""
    ids, segments = node["input_ids"], node.input("segment_ids")
    places = _positions(op, ids, None)
    total = _looked_up(node, op, "word_embedding_quant", ids)
    total = total + _looked_up(node, op, "position_embedding_quant", places)
    if segments is not None:
        total = total + _looked_up(node, op, "segment_embedding", segments)
    scale, bias = (
        op.DequantizeLinear(*_quantized(node, name)) for name in ("gamma_quant", "beta_quant")
    )
    (y,) = layer_normalized(op, total, scale, bias, node.float("epsilon"))
    return (y, _mask_index(node, op, ids))[: node.n_outputs]


def _quantized(node: Node, name: str) -> tuple[Value, Value, Value]:
    """Returns a quantized input with its scale and its zero point."""
    plain = name.removesuffix("_quant")
    return node[name], node[f"{plain}_scale"], node[f"{plain}_zero_point"]


def _looked_up(node: Node, op: Builder, name: str, places: Value) -> Value:
    """Gathers rows of a quantized embedding table and dequantizes them."""
    codes, scale, zero = _quantized(node, name)
    return op.DequantizeLinear(op.Gather(codes, places, axis=0), scale, zero)
