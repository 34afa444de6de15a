"""What the text of an operator rules out, and onnx's checker and inference let pass."""

from opshift.adapter import Node, flaw
from opshift.combinators import ranks

REDUCING = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"

RANKS = (
    ranks("Attention", Q="3 4", K="3 4", V="3 4", past_key="4", past_value="4"),
    ranks(REDUCING, axes="1"),
    ranks("Gemm", A="2", B="2", C="0 1 2"),
    ranks("NegativeLogLikelihoodLoss", weight="1"),
    ranks("SoftmaxCrossEntropyLoss", weights="1"),
    ranks("GRU LSTM RNN", X="3", W="3", R="3", B="2", P="2"),
    ranks("GRU LSTM RNN", sequence_lens="1", initial_h="3", initial_c="3"),
    ranks("Resize", roi="1", scales="1", sizes="1"),
    ranks("Upsample", scales="1"),
    ranks("Col2Im", image_shape="1", block_shape="1"),
    ranks("CenterCropPad Expand Reshape", shape="1"),
    ranks("ConstantOfShape", input="1"),
    ranks("Compress", condition="1"),
    ranks("Tile", repeats="1"),
    ranks("TopK", K="1"),
    ranks("Split", split="1"),
    ranks("DepthToSpace SpaceToDepth", input="4"),
    ranks("MaxRoiPool RoiAlign", X="4", rois="2", batch_indices="1"),
    ranks("NonMaxSuppression", boxes="3", scores="3"),
    ranks("GroupNormalization InstanceNormalization", scale="1", bias="1", B="1"),
)


@flaw("Attention")
def half_a_past(node: Node) -> str | None:  # pragma: no cover: asked only when several boundaries are crossed
    """Keys and values of the past are of no use alone."""
    if (node.input("past_key") is None) == (node.input("past_value") is None):
        return None
    return "past_key and past_value must be provided together"


@flaw("Scan Loop If")
def results_of_nobody(node: Node) -> str | None:
    """A body computes every output of its node."""
    silent = 1 if node.op == "Loop" else 0  # whether to go on is no output
    for name in ("body", "then_branch", "else_branch"):
        if name in node.attributes and (count := len(node.results(name)) - silent) < node.n_outputs:
            return f"{name} computes {max(count, 0)} of {node.n_outputs} outputs"
    return None


@flaw("DepthToSpace")
def channels_left_over(node: Node) -> str | None:
    """Each block is made of whole channels."""
    dims, size = node["input"].dims_or_none, node.int("blocksize") ** 2
    channels = dims[1] if dims is not None and len(dims) == 4 else None
    left_over = isinstance(channels, int) and size > 0 and channels % size > 0
    return f"{channels} channels are not a multiple of {size}" if left_over else None
