# SPDX-License-Identifier: Apache-2.0
"""Shapes of outputs for which onnx's inference finds wrong lengths, or no rank."""

from collections.abc import Sequence

from opshift.adapter import Node, ToldDims, np, output_shapes

from opshift_adapters._lib.contrib import MICROSOFT
from opshift_adapters._lib.resizing import factors


@output_shapes("Attention")
def attention(node: Node) -> Sequence[ToldDims | None]:
    """Computes the shapes of Attention; onnx reads unknown lengths as 0 and omits past keys."""
    rank = node["Q"].rank_or_none or (3 if node.attr("q_num_heads") is not None else 4)
    unknown = (None,) * rank
    queries, keys, values = (node[name].dims_or_none or unknown for name in ("Q", "K", "V"))
    if not len(queries) == len(keys) == len(values) == rank:
        return []  # pragma: no cover: no runtime takes other ranks
    batch, count, length = queries[0], queries[rank - 2], _length(node, keys[rank - 2])
    if rank == 4:
        return [(*queries[:3], values[3]), None, None, (*queries[:3], length)]
    heads, own = node.int("q_num_heads"), node.int("kv_num_heads")
    size = heads * (values[2] // own) if isinstance(values[2], int) and own else None
    return [(batch, count, size), None, None, (batch, heads, count, length)]


def _length(node: Node, keys: int | str | None) -> int | str | None:
    """Returns the number of keys, including the past keys."""
    past = node.input("past_key")
    if past is None:
        return keys
    before = past.dims[2] if past.dims_or_none is not None else None
    return keys + before if isinstance(keys, int) and isinstance(before, int) else None


@output_shapes("ReorderOutput", domain="com.microsoft.nchwc")
def reorder_output(node: Node) -> Sequence[ToldDims | None]:
    """Computes the shape of ReorderOutput of onnxruntime, whose attribute states the channels."""
    channels, last = node.int("channels") or None, node.int("channels_last")
    return [(None, None, None, channels) if last else (None, channels, None, None)]


@output_shapes("STFT")
def stft(node: Node) -> Sequence[ToldDims | None]:
    """Computes the shape of STFT; onnx reads an absent `onesided` as 0, but its default is 1."""
    if "onesided" in node.attributes:
        return [None]
    window = node.input("window")
    size = window.dims[0] if window is not None and window.dims_or_none is not None else None
    return [(..., ..., size // 2 + 1 if isinstance(size, int) else None, ...)]


@output_shapes("Resize", "Upsample")
def resize(node: Node) -> Sequence[ToldDims | None]:
    """Hides lengths that onnx computes in double, if runtimes compute others in float."""
    if "height_scale" in node.attributes or (node.inputs[3:] and node.inputs[3] is not None):
        return [None]
    by = factors(node)
    return [tuple(... if _equal(x, by.get(at)) else None for at, x in enumerate(node["X"].dims))]


def _equal(size: int | str | None, factor: float | None) -> bool:
    """Returns whether a scaled length is the same in float and in double, as far as known."""
    if not isinstance(size, int) or factor is None:
        return True
    return bool(np.floor(np.float32(size) * np.float32(factor)) == np.floor(size * factor))


@output_shapes("Compress")
def compress(node: Node) -> Sequence[ToldDims | None]:
    """Computes the shape of Compress, which onnx does not infer below opset 11."""
    axis = node.attr("axis")
    if axis is None:
        return [(None,)]
    dims = list(node["input"].dims)
    dims[axis] = None
    return [tuple(dims)]


@output_shapes("Scaler", "Imputer", "Normalizer", domain="ai.onnx.ml")
def like_the_only_input(node: Node) -> Sequence[ToldDims | None]:
    """Returns the shape of the input, because onnx infers no shape for these operators."""
    return [tuple(... if size is None else size for size in node["X"].dims)]


OF_ONE_SHAPE = (
    "BiasAdd BiasGelu FastGelu Gelu Inverse QLinearLeakyRelu QLinearSigmoid QLinearSoftmax"
    " QuickGelu RotaryEmbedding SkipLayerNormalization SkipSimplifiedLayerNormalization Trilu"
)


@output_shapes(*OF_ONE_SHAPE.split(), domain=MICROSOFT)
def like_the_first_input(node: Node) -> Sequence[ToldDims | None]:
    """Returns the shape of the first input, because onnx infers no shape for these operators."""
    first = node.inputs[0]
    return [] if first is None else [tuple(... if size is None else size for size in first.dims)]
