# SPDX-License-Identifier: Apache-2.0
"""Nodes that the specification forbids although onnx's checker and inference accept them."""

from math import prod

from opshift.adapter import Node, flaw, np
from opshift.objections import alike, at_least, axes, per_axis, positive, ranks, singles, sizes

from opshift_adapters._lib.by_place import unfit_updates
from opshift_adapters._lib.contrib import MICROSOFT
from opshift_adapters._lib.known_sizes import differ
from opshift_adapters.facts.illegal_attributes import POOLS, REDUCING

VECTORS = (
    "starts ends axes steps shape pads roi scales sizes split repeats condition window"
    " image_shape block_shape output_shape nonpad_kv_seqlen"
)
WITH_VECTORS = (
    "Attention CenterCropPad Col2Im Compress Expand MaxUnpool Pad Reshape Resize STFT Slice Split"
    f" Tile Upsample {REDUCING}"
)
RANKS = (
    ranks(
        "Attention", Q="3 4", K="3 4", V="3 4", attn_mask="1 2 3 4", past_key="4", past_value="4"
    ),
    ranks(WITH_VECTORS, **dict.fromkeys(VECTORS.split(), "1")),
    ranks("AffineGrid EyeLike", input="2", theta="3", size="1"),
    ranks("ConstantOfShape TopK", input="1", K="1"),
    ranks("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", weight="1", weights="1"),
    ranks("Gemm", A="2", B="2", C="0 1 2"),
    ranks("GRU LSTM RNN", X="3", W="3", R="3", B="2", P="2", initial_h="3", initial_c="3"),
    ranks("GRU LSTM RNN Scan", sequence_lens="1"),  # sequence_lens of Scan exists only at opset 8
    ranks("DepthToSpace SpaceToDepth", input="4"),
    ranks("MaxRoiPool RoiAlign", X="4", rois="2", batch_indices="1"),
    ranks("NonMaxSuppression", boxes="3", scores="3"),
    ranks("GroupNormalization InstanceNormalization", X="2+", input="2+"),
    ranks("GroupNormalization InstanceNormalization", scale="1", bias="1", B="1"),
    ranks("Conv ConvTranspose DeformConv QLinearConv", B="1"),
    ranks("ConvInteger QLinearConv", x_zero_point="0 1", w_zero_point="0 1"),
    ranks("QLinearConv", x_scale="0 1", w_scale="0 1"),
    ranks("LinearAttention", query="3", key="3", value="3", decay="3", beta="3"),
    ranks("RotaryEmbedding", X="3 4", cos_cache="2 3", sin_cache="2 3", position_ids="2"),
    ranks("SplitToSequence Squeeze Unsqueeze", axes="0 1", split="0 1"),
    ranks("TensorScatter", past_cache="2+", update="2+"),
)

POSITIVE = (
    positive("MelWeightMatrix TopK", "K num_mel_bins dft_length sample_rate"),
    positive("Resize Upsample", "scales sizes"),
)
WITH_SINGLES = (
    "BlackmanWindow Clip CumProd CumSum DFT HammingWindow HannWindow MelWeightMatrix Trilu"
    " NonMaxSuppression OneHot Pad Range STFT SequenceAt SequenceErase SequenceInsert Tile TopK"
)
SINGLES = singles(
    WITH_SINGLES,
    "K axis constant_value delta depth dft_length frame_length frame_step iou_threshold k limit"
    " lower_edge_hertz max max_output_boxes_per_class min num_mel_bins position sample_rate"
    " score_threshold size start tiles upper_edge_hertz",
)

WINDOWS = "ConvTransposeWithDynamicPads FusedConv NhwcMaxPool QLinearAveragePool QLinearConv"
HEADS = "Attention GroupQueryAttention MultiHeadAttention QAttention RotaryEmbedding"
CONVOLUTIONS = "Conv ConvInteger ConvTranspose DeformConv QLinearConv"
LEAST = (
    at_least(f"Col2Im {CONVOLUTIONS} {POOLS}", strides=1, dilations=1, kernel_shape=1),
    at_least(CONVOLUTIONS, group=1, offset_group=1),
    at_least("DequantizeLinear QuantizeLinear", block_size=0, output_dtype=0, precision=0),
    at_least("GlobalLpPool GroupNormalization LpPool", num_groups=1, p=1),
    at_least(HEADS, domain=MICROSOFT, kv_num_heads=1, num_heads=1),
    at_least("GatherBlockQuantized MatMulNBits", domain=MICROSOFT, bits=1, block_size=1),
    at_least(WINDOWS, domain=MICROSOFT, dilations=1, kernel_shape=1, strides=1),
)

ALIKE = (
    alike("Attention", "Q K V", ranks_only=True),
    alike("DeformConv", "X W offset mask", ranks_only=True),
    alike("MaxUnpool", "X I"),
    alike("Scatter ScatterElements", "data indices", ranks_only=True),
    alike("Scatter ScatterElements", "indices updates"),
    sizes("Attention", Q="B ...", K="B ...", V="B ...", past_key="B ...", past_value="B ..."),
    sizes("Attention", K="... N k", V="... N v", past_key="... P i", past_value="... P j"),
    sizes("DeformConv", X="N ...", offset="N ..."),
)
COUNTS = (
    per_axis("CenterCropPad", "shape"),
    per_axis("Pad", "pads", each=2),
    per_axis("Tile", "repeats"),
)

AXES = (
    axes(
        "ArgMax ArgMin Compress Concat ConcatFromSequence CumProd CumSum DFT Gather GatherElements"
        " Hardmax LayerNormalization LogSoftmax RMSNormalization ScatterElements Scatter Softmax"
        " Split SplitToSequence Tile TopK"
    ),
    axes("QLinearSoftmax", domain=MICROSOFT),
    axes("QLinearConcat", domain=MICROSOFT, data=2),
    axes("Flatten OneHot", extra=1),
    axes(f"Pad Slice Squeeze {REDUCING}", "axes"),
    axes("ReverseSequence", "batch_axis time_axis"),
)


@flaw("Concat Einsum Loop Max Mean Min Sum")
def gaps(node: Node) -> str | None:
    """Concat, Einsum, Loop, Max, Mean, Min and Sum must not omit an input of their input list."""
    first = 2 if node.op == "Loop" else 0
    lost = [at for at, value in enumerate(node.inputs) if at >= first and value is None]
    return f"the required input {lost[0]} is omitted" if lost else None


@flaw("Concat")
def parts_of_other_ranks(node: Node) -> str | None:
    """The inputs of Concat must have equal ranks, which onnx may not check below opset 6."""
    ranks = {value.rank_or_none for value in node.inputs if value is not None} - {None}
    return f"the inputs have the ranks {' and '.join(map(str, ranks))}" if len(ranks) > 1 else None


@flaw("GatherND ScatterND")
def places_beyond_the_data(node: Node) -> str | None:
    """Each row of indices (GatherND, ScatterND) needs at least one number, at most one per axis."""
    rank, dims = node["data"].rank_or_none, node["indices"].dims_or_none
    if dims == ():
        return "the indices are a scalar, but must have at least one axis"
    named = dims[-1] if dims else None
    wrong = rank is not None and isinstance(named, int) and not 0 < named <= rank
    return f"each of the indices has {named} numbers for {rank} axes" if wrong else None


updates_of_other_ranks = flaw("ScatterND")(unfit_updates)


@flaw("OneHotEncoder", domain="ai.onnx.ml")
def categories(node: Node) -> str | None:
    """The categories of OneHotEncoder must be either integers or strings."""
    names = [name for name in ("cats_int64s", "cats_strings") if name in node.attributes]
    rule = "the node must have exactly one of cats_int64s and cats_strings"
    return rule if len(names) != 1 else None


@flaw("ConstantOfShape")
def fillings(node: Node) -> str | None:
    """`value` of ConstantOfShape must have exactly one element."""
    count = node.tensor("value").size if "value" in node.attributes else 1
    return f"value has {count} elements, but must have 1" if count != 1 else None


@flaw("DequantizeLinear QuantizeLinear")
def zero_points_of_other_shapes(node: Node) -> str | None:
    """Zero points must have the shape of the scales; a scalar and a vector of size 1 are equal."""
    shapes = [value and value.shape_or_none for value in node.inputs[1:]]
    shapes_found = [() if shape == (1,) else shape for shape in shapes if shape is not None]
    words = " and the zero points ".join(f"have the shape {list(shape)}" for shape in shapes_found)
    if len(set(shapes_found)) > 1:
        return f"the scales {words}"
    ranks = [value and value.rank_or_none for value in node.inputs[1:]]
    told = [rank for rank in ranks if rank is not None]
    other = len(set(told)) > 1 and max(told) > 1
    return f"the scales have {told[0]} axes, the zero points have {told[1]}" if other else None


@flaw("DequantizeLinear QuantizeLinear")
def scales_along_no_axis(node: Node) -> str | None:
    """A vector of quantization scales needs one scale for each index along `axis`."""
    dims, scales = (one and one.dims_or_none for one in node.inputs[:2])
    if dims is None or scales is None or scales in ((), (1,)):
        return None
    if node.schema is None or "axis" not in node.schema.attributes:
        return f"the node has {scales[0]} scales, but must have 1 before opset 13"
    axis = node.int("axis")
    if not -len(dims) <= axis < len(dims):
        return f"axis is {axis}, but the input has {len(dims)} axes"
    pair = dims[axis], scales[0]
    other = len(scales) == 1 and all(isinstance(one, int) for one in pair) and len(set(pair)) > 1
    words = f"the node has {scales[0]} scales for axis {axis} of size {dims[axis]}"
    return words if other else None


@flaw("DequantizeLinear QuantizeLinear")
def blocks_of_other_ranks(node: Node) -> str | None:
    """With `block_size`, scales and zero points must have the rank of the data."""
    inputs = (node.input_at(at) for at in range(3))
    data, scales, zeros = (value and value.rank_or_none for value in inputs)
    blocked = "block_size" in node.attributes and node.int("block_size")
    for given, name in ((scales, "scales"), (zeros, "zero points")):
        if blocked and given and data not in (None, given):
            return f"with block_size, the {name} need {data} axes like the data, not {given}"
    return None


@flaw("Slice")
def bounds_of_other_counts(node: Node) -> str | None:
    """Slice needs one start, one end and one step for each axis in `axes`."""
    lists = zip(("starts", "ends", "axes", "steps"), node.inputs[1:], strict=False)
    dims = {name: value.dims_or_none for name, value in lists if value is not None}
    counts = {name: one[0] for name, one in dims.items() if one and isinstance(one[0], int)}
    listed = " and ".join(f"{count} {name}" for name, count in counts.items())
    if len(set(counts.values())) > 1:
        return f"the node has lists of different lengths: {listed}"
    rank = node["data"].rank_or_none
    wrong = rank is not None and max(counts.values(), default=0) > rank
    return f"the node has {listed}, but the input has {rank} axes" if wrong else None


@flaw("Resize")
def no_size(node: Node) -> str | None:
    """Resize needs the input `scales` or the input `sizes`."""
    given = [value for value in node.inputs[2:4] if value and value.shape_or_none != (0,)]
    return "the node has neither scales nor sizes" if len(node.inputs) > 2 and not given else None


@flaw("Reshape")
def elements_lost(node: Node) -> str | None:
    """The new shape of a Reshape must have as many elements as the input."""
    data, listed = node.input_at(0), node.input_at(1)
    dims = data and data.dims_or_none
    sizes = listed and listed.const_or_none()
    if sizes is None and listed is not None and listed.shape_or_none == (0,):
        sizes = np.zeros(0, np.int64)
    if dims is None or sizes is None or sizes.ndim != 1 or any(size < 0 for size in sizes):
        return None
    copied = "allowzero" not in node.attributes or not node.int("allowzero")
    at_zero = enumerate(sizes.tolist())
    lengths = [dims[at] if copied and not size and at < len(dims) else size for at, size in at_zero]
    if not all(isinstance(length, int) for length in (*dims, *lengths)):
        return None
    counts = prod(dims), prod(lengths)  # type: ignore[arg-type]
    words = f"the node reshapes {counts[0]} elements to {counts[1]}"
    return words if len(set(counts)) > 1 else None


@flaw("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
def labels_of_other_ranks(node: Node) -> str | None:
    """The scores of a loss operator must have one axis more than the labels (the classes)."""
    scores, labels = (value and value.rank_or_none for value in node.inputs[:2])
    if scores is not None and scores < 2:
        return f"the scores have {scores} axes, but must have 2 or more"
    wrong = None not in (scores, labels) and scores != (labels or 0) + 1
    return f"the scores have {scores} axes, so the labels cannot have {labels}" if wrong else None


@flaw("Resize Upsample")
def scales_of_other_counts(node: Node) -> str | None:
    """Resize needs a scale or a size for each axis in `axes`, or for every axis of X."""
    rank = node["X"].rank_or_none
    axes = node.ints("axes") if "axes" in node.attributes else None
    expected = rank if axes is None else len(axes)
    for value in node.inputs[1:2] if len(node.inputs) == 2 else node.inputs[2:]:
        dims = value and value.dims_or_none
        count = dims[0] if dims and len(dims) == 1 else None
        if isinstance(count, int) and expected is not None and count not in (expected, 0):
            return f"the node has {count} scales or sizes for {expected} axes"
        if count == 0 and len(node.inputs) == 2:
            return "the node has no scales"
    return None


@flaw("Resize")
def regions_of_other_counts(node: Node) -> str | None:
    """`roi` of a cropping Resize needs a start and an end per axis in `axes`, or per axis of X."""
    roi, rank = node.input_at(1) if len(node.inputs) > 2 else None, node["X"].rank_or_none
    dims = roi and roi.dims_or_none
    known = [len(node.ints("axes"))] if "axes" in node.attributes else []
    crops = node.attributes.get("coordinate_transformation_mode") is not None
    if not crops or node.str("coordinate_transformation_mode") != "tf_crop_and_resize" or not rank:
        return None
    wrong = dims and isinstance(dims[0], int) and dims[0] not in [2 * one for one in (*known, rank)]
    return f"the roi has {dims[0]} numbers for {[*known, rank][0]} axes" if dims and wrong else None


@flaw("Scan")
def scalars_to_scan(node: Node) -> str | None:
    """A value that Scan iterates over must have at least one axis."""
    count = node.int("num_scan_inputs")
    scanned = node.inputs[-count:] if 0 < count <= len(node.inputs) else ()
    scalars = [value.name for value in scanned if value is not None and value.rank_or_none == 0]
    return f"the scan input {scalars[0]!r} is a scalar" if scalars else None


@flaw("Squeeze")
def more_axes_than_there_are(node: Node) -> str | None:
    """Squeeze may list each axis of its input at most once."""
    axes, rank = node.input_at(1), node["data"].rank_or_none
    named = (axes.dims_or_none or (1,))[0] if axes is not None else 0
    wrong = isinstance(named, int) and rank is not None and named > rank
    return f"the node removes {named} axes from an input of rank {rank}" if wrong else None


@flaw("MelWeightMatrix")
def bands_of_nothing(node: Node) -> str | None:
    """`lower_edge_hertz` of MelWeightMatrix must be from 0 to `upper_edge_hertz`."""
    low, high = node["lower_edge_hertz"].const_or_none(), node["upper_edge_hertz"].const_or_none()
    wrong = low is not None and high is not None and not np.all((low >= 0) & (low <= high))
    return f"lower_edge_hertz is {low} and upper_edge_hertz is {high}" if wrong else None


@flaw(POOLS)
def windows_of_other_ranks(node: Node) -> str | None:
    """A pooling needs one size, stride and dilation and two pads for each spatial axis."""
    rank = (data := node.input_at(0)) and data.rank_or_none
    spatial = len(node.ints("kernel_shape")) if rank is None else rank - 2
    sizes = {"kernel_shape": spatial, "strides": spatial, "dilations": spatial, "pads": 2 * spatial}
    for name, size in sizes.items():
        if name in node.attributes and len(node.ints(name)) != size:
            return f"{name} has {len(node.ints(name))} numbers for {spatial} spatial axes"
    return None


windows_of_vendors = flaw(WINDOWS, domain=MICROSOFT)(windows_of_other_ranks.find_objection)


@flaw("BatchNormalization")
def parameters_of_other_ranks(node: Node) -> str | None:
    """From opset 9 on, each parameter of BatchNormalization must be a vector."""
    new = node.schema is not None and node.schema.since >= 9
    ranks = [value and value.rank_or_none for value in node.inputs[1:5]]
    wrong_ranks = [rank for rank in ranks if rank not in (None, 1)] if new else []
    return f"a parameter has rank {wrong_ranks[0]}, but must have rank 1" if wrong_ranks else None


@flaw("GridSample")
def more_axes_than_known(node: Node) -> str | None:
    """Before opset 20, X of GridSample must have 4 axes."""
    rank = node["X"].rank_or_none if node.schema and node.schema.since < 20 else None
    return f"X has {rank} axes, but must have 4 before opset 20" if rank not in (None, 4) else None


@flaw("Attention")
def half_a_past(node: Node) -> str | None:
    """Attention must have both past_key and past_value, or neither."""
    alone = (node.input("past_key") is None) != (node.input("past_value") is None)
    return "past_key and past_value must be provided together" if alone else None


@flaw("Add And Div Equal Greater Less Max Mean Min Mul Or Pow Sub Sum Xor")
def larger_later_input(node: Node) -> str | None:
    """Before opset 7 or 8, no input of Add, Max and similar operators is larger than the first."""
    if node.schema is None or node.schema.since >= 7:
        return None
    a, *later = (value and value.dims_or_none for value in node.inputs)
    if a is None:
        return None
    at_end = "axis" not in node.attributes or not node.int("broadcast") or node.int("axis") == -1
    opset = 7 if "broadcast" in node.schema.attributes else 8
    for b in filter(None, later):
        pairs = zip(a[::-1], b[::-1], strict=False)
        longer = at_end and any(of_a == 1 != of_b and isinstance(of_b, int) for of_a, of_b in pairs)
        if longer or len(b) > len(a):
            return f"an input is larger than the first; this is legal from opset {opset} on"
    return None


@flaw("AffineGrid")
def matrix_of_another_size(node: Node) -> str | None:
    """`theta` of AffineGrid needs a row for each spatial axis, and one column more than rows."""
    matrix, sizes = node["theta"].dims_or_none, node["size"].dims_or_none
    if matrix is None or len(matrix) != 3 or not sizes or not isinstance(sizes[0], int):
        return None
    axes = sizes[0] - 2
    found, expected = matrix[1:], (axes, axes + 1)
    wrong = any(map(differ, found, expected))
    shown = " by ".join("?" if size is None else str(size) for size in found)
    return f"theta is {shown}, but must be {axes} by {axes + 1}" if wrong else None


@flaw("If Loop Scan SequenceMap")
def results_of_nobody(node: Node) -> str | None:
    """A body or branch must compute a value for each output of its node."""
    silent = 1 if node.op == "Loop" else 0  # the condition is not an output of the node
    for name in ("body", "then_branch", "else_branch"):
        if name in node.attributes and (count := len(node.results(name)) - silent) < node.n_outputs:
            return f"{name} computes only {max(count, 0)} of {node.n_outputs} outputs"
    return None


@flaw("Loop")
def conditions_that_are_no_tensors(node: Node) -> str | None:
    """In the body of a Loop, the condition (as input and as output) must be a tensor."""
    body = node.attr("body") if "body" in node.attributes else None
    infos = (*body.input[1:2], *body.output[:1]) if body is not None else ()
    wrong = [one.name for one in infos if one.type.WhichOneof("value") not in (None, "tensor_type")]
    return f"the condition {wrong[0]!r} of the body is not a tensor" if wrong else None


@flaw("DepthToSpace")
def channels_left_over(node: Node) -> str | None:
    """The number of channels of DepthToSpace must be a multiple of blocksize * blocksize."""
    dims, size = node["input"].dims_or_none, node.int("blocksize") ** 2
    channels = dims[1] if dims is not None and len(dims) == 4 else None
    left_over = isinstance(channels, int) and size > 0 and channels % size > 0
    return f"the {channels} channels are not a multiple of {size}" if left_over else None


@flaw("SpaceToDepth")
def places_left_over(node: Node) -> str | None:
    """Height and width of the input of SpaceToDepth must be multiples of `blocksize`."""
    dims, size = node["input"].dims_or_none, node.int("blocksize")
    if dims is None or len(dims) != 4 or size < 1:
        return None
    left = [axis for axis in (2, 3) if isinstance(one := dims[axis], int) and one % size]
    return f"the size {dims[left[0]]} of axis {left[0]} is no multiple of {size}" if left else None


@flaw("Conv ConvInteger DeformConv QLinearConv")
def channels_of_other_groups(node: Node) -> str | None:
    """The input of a convolution must have `group` times as many channels as the kernel."""
    at = 3 if node.op == "QLinearConv" else 1
    data, kernel = (value and value.dims_or_none for value in (node.input_at(0), node.input_at(at)))
    if data is None or kernel is None or min(len(data), len(kernel)) < 2:
        return None
    pair, groups = (data[1], kernel[1]), node.int("group")
    wrong = isinstance(pair[0], int) and isinstance(pair[1], int) and pair[0] != pair[1] * groups
    words = f"the node has {pair[0]} input channels, but {groups} groups of {pair[1]}"
    return words if wrong else None


@flaw("CumProd CumSum")
def sums_along_no_axis(node: Node) -> str | None:
    """The input of CumSum and CumProd must not be a scalar."""
    return "the input is a scalar, which has no axis" if node["x"].rank_or_none == 0 else None


@flaw("If")
def branches_of_other_ranks(node: Node) -> str | None:
    """Before opset 11, the outputs of both branches of If must have equal ranks."""
    old = node.schema is not None and node.schema.since < 11
    pairs = zip(node.results("then_branch"), node.results("else_branch"), strict=False)
    for first, second in pairs if old else ():
        found = first.rank_or_none, second.rank_or_none
        if None not in found and len(set(found)) > 1:
            return f"the branches return the ranks {found[0]} and {found[1]}, which needs opset 11"
    return None


@flaw("DeformConv")
def offsets_of_other_groups(node: Node) -> str | None:
    """`offset` of DeformConv needs 2 channels per kernel element in each offset group."""
    offset, kernel = node["offset"].dims_or_none, node["W"].dims_or_none
    places = [] if kernel is None else [size for size in kernel[2:] if isinstance(size, int)]
    if offset is None or len(offset) < 2 or kernel is None or len(places) < len(kernel) - 2:
        return None
    channels, expected = offset[1], 2 * node.int("offset_group") * prod(places)
    wrong = isinstance(channels, int) and channels != expected
    return f"the offset has {channels} channels, but must have {expected}" if wrong else None


@flaw("Col2Im")
def blocks_beyond_the_image(node: Node) -> str | None:
    """The dilated block of Col2Im must fit into the padded image."""
    image, block = node["image_shape"].const_or_none(), node["block_shape"].const_or_none()
    if image is None or block is None:
        return None
    count = len(image)
    pads = node.ints_or_none("pads") or [0] * (2 * count)
    dilations = node.ints_or_none("dilations") or [1] * count
    if (len(block), len(pads), len(dilations)) != (count, 2 * count, count):
        return (
            f"the node has {count} spatial axes, but {len(block)} block sizes and {len(pads)} pads"
        )
    for axis, (size, span, gap) in enumerate(zip(image, block, dilations, strict=False)):
        room, reach = int(size) + pads[axis] + pads[axis + count], (int(span) - 1) * gap + 1
        if reach > room:
            return f"a block spans {reach} pixels, but the padded image has {room}"
    return None
