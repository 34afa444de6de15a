# SPDX-License-Identifier: Apache-2.0
"""Nodes whose weights do not fit the size of the input, which onnx does not check."""

from functools import partial
from math import prod
from typing import Any

from opshift.adapter import Node, flaw, np
from opshift.objections import sizes

from opshift_adapters._lib.contrib import MICROSOFT
from opshift_adapters._lib.known_sizes import differ, dims_of

STATES: dict[str, Any] = {"initial_h": "D B H", "initial_c": "D B H", "sequence_lens": "B"}
# onnxruntime has no kernel for `layout` 1 (batch first).
STATES["unless"] = lambda node: "layout" in node.attributes and node.int("layout") == 1
CHANNELS: Any = dict.fromkeys(("scale", "B", "mean", "var", "input_mean", "input_var"), "C ...")
SKIPPED: Any = {"input": "... C", "skip": "... C", "gamma": "C", "bias": "C"}
of_microsoft = partial(sizes, domain=MICROSOFT)
SIZES = (
    sizes("RNN", X="S B I", R="D H H", W="D H I", B="D 2H", **STATES),
    sizes("GRU", X="S B I", R="D 3H H", W="D 3H I", B="D 6H", **STATES),
    sizes("LSTM", X="S B I", R="D 4H H", W="D 4H I", B="D 8H", P="D 3H", **STATES),
    sizes("BatchNormalization", X="N C ...", **CHANNELS),
    sizes("InstanceNormalization", input="N C ...", scale="C", B="C"),
    sizes("ConvTranspose", X="N C ...", W="C ..."),
    sizes("NonMaxSuppression", boxes="B P 4", scores="B C P"),
    sizes("RoiAlign", rois="R 4", batch_indices="R"),
    sizes("MaxRoiPool", rois="R 5"),
    of_microsoft("ConvTransposeWithDynamicPads", X="N C ...", W="C ..."),
    of_microsoft("GatedRMSNorm", X="A B C", gate="A B C", scale="C"),
    of_microsoft("BiasGelu", A="... C", B="C"),
    of_microsoft("FastGelu", X="... C", bias="C"),
    of_microsoft("SkipLayerNormalization", **SKIPPED, beta="C"),
    of_microsoft("SkipSimplifiedLayerNormalization", **SKIPPED),
    of_microsoft("Attention", input="B S I", weights="I W", bias="W"),
    of_microsoft("MultiHeadAttention", query="B ...", key="B ...", value="B ..."),
    of_microsoft("CDist", A="M K", B="N K"),
    of_microsoft("RotaryEmbedding", cos_cache="M R", sin_cache="M R"),
)


@flaw("PRelu")
def slopes_that_do_not_broadcast(node: Node) -> str | None:
    """From opset 7 on, the slopes of PRelu must broadcast to the input in one direction."""
    dims, slope = dims_of(node, "X"), dims_of(node, "slope")
    pairs = zip((slope or ())[::-1], (dims or ())[::-1], strict=False)
    old = node.schema is not None and node.schema.since < 7  # one slope per channel
    if dims is None or slope is None or old:
        return None
    if len(slope) > len(dims) or any(a != 1 and differ(a, b) for a, b in pairs):
        return f"slopes of the shape {list(slope)} do not broadcast to {list(dims)}"
    return None


@flaw("GroupNormalization")
def channels_of_no_group(node: Node) -> str | None:
    """Channels must divide into groups; scale and bias have a number per group or channel."""
    dims, groups = dims_of(node, "X"), node.int("num_groups")
    channels = dims[1] if dims is not None and len(dims) > 1 else None
    if isinstance(channels, int) and groups > 0 and channels % groups:
        return f"the {channels} channels are not a multiple of the {groups} groups"
    by_group = node.schema is not None and node.schema.since < 21
    for name in ("scale", "bias"):
        shape = dims_of(node, name)
        wanted = groups if by_group else channels
        if shape is not None and len(shape) == 1 and differ(shape[0], wanted):
            return (
                f"{name} has {shape[0]} numbers for {wanted} {'groups' if by_group else 'channels'}"
            )
    return None


@flaw("SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss")
def more_labels_than_scores(node: Node) -> str | None:
    """A loss must not have more labels than scores; fewer labels are read by onnxruntime."""
    scores, labels = (value and value.dims_or_none for value in node.inputs[:2])
    pairs = zip(labels or (), (scores[0], *scores[2:]) if scores else (), strict=False)
    if not any(isinstance(a, int) and isinstance(b, int) and a > b for a, b in pairs):
        return None
    return f"the shapes of scores and labels are {list(scores or ())} and {list(labels or ())}"


@flaw("MatMulNBits", domain=MICROSOFT)
def rows_of_other_sizes(node: Node) -> str | None:
    """K of MatMulNBits must be the number of columns of A."""
    dims, inner = dims_of(node, "A"), node.int("K")
    return (
        f"A has {dims[-1]} columns, but K is {inner}" if dims and differ(dims[-1], inner) else None
    )


@flaw("FusedMatMul", domain=MICROSOFT)
def matrices_that_do_not_fit(node: Node) -> str | None:
    """A of FusedMatMul must have as many columns as B has rows."""
    a, b = dims_of(node, "A"), dims_of(node, "B")
    batch = node.attr("transBatchA") or node.attr("transBatchB")
    if not a or not b or min(len(a), len(b)) < 2 or batch:
        return None
    inner, rows = a[-2 if node.attr("transA") else -1], b[-1 if node.attr("transB") else -2]
    return f"A has {inner} columns, but B has {rows} rows" if differ(inner, rows) else None


@flaw("Scan")
def batches_of_two_sizes(node: Node) -> str | None:
    """At opset 8, the inputs of a Scan must have equal batch sizes (axis 0)."""
    if node.schema is None or node.schema.since > 8:
        return None
    dims_of_inputs = [value.dims_or_none for value in node.inputs[1:] if value is not None]
    batches = {dims[0] for dims in dims_of_inputs if dims and isinstance(dims[0], int)}
    return f"the inputs have different batch sizes: {sorted(batches)}" if len(batches) > 1 else None


@flaw("Col2Im")
def blocks_that_do_not_fit(node: Node) -> str | None:
    """Axis 1 of the input of Col2Im must hold whole blocks, and axis 2 every block of the image."""
    shape = dims_of(node, "input")
    block, image = (node[name].const_or_none() for name in ("block_shape", "image_shape"))
    if shape is None or len(shape) != 3 or block is None:
        return None
    elements = int(block.prod())
    if isinstance(shape[1], int) and elements > 0 and shape[1] % elements:
        return f"axis 1 has size {shape[1]}, not a multiple of the block size {elements}"
    if image is None or image.size != block.size:
        return None
    pads = np.reshape(node.ints_or_none("pads") or [0] * 2 * block.size, (2, -1)).sum(0)
    spans = (block - 1) * np.array(node.ints_or_none("dilations") or [1] * block.size) + 1
    steps = np.array(node.ints_or_none("strides") or [1] * block.size)
    count = prod(((image + pads - spans) // steps + 1).tolist())
    if not differ(shape[2], count):
        return None
    return f"the node has {shape[2]} blocks, but the image has {count}"
