# SPDX-License-Identifier: Apache-2.0
"""Attribute values that the specification forbids although onnx's checker accepts them."""

from opshift.objections import LARGEST_RANK, choices, switches, within

REDUCING = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin"
    " ReduceProd ReduceSum ReduceSumSquare"
)
POOLS = "AveragePool LpPool MaxPool"
FLOATS = "1 10 11 16"
CHOICES = (
    choices("Attention", qk_matmul_output_mode="0 1 2 3", softmax_precision=FLOATS),
    choices("GroupNormalization LayerNormalization RMSNormalization", stash_type=FLOATS),
    choices("QuantizeLinear", precision=f"0 {FLOATS}"),
    choices("TreeEnsembleRegressor", domain="ai.onnx.ml", aggregate_function="AVERAGE SUM MIN MAX"),
    choices("ScatterElements ScatterND", reduction="none add mul max min"),
    choices("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", reduction="none sum mean"),
    choices("Gelu", approximate="none tanh"),
    choices("DepthToSpace", mode="DCR CRD"),
    choices("BitShift", direction="LEFT RIGHT"),
    choices("Pad", mode="constant reflect edge wrap"),
    choices("GridSample", padding_mode="zeros border reflection"),
    choices(
        "Resize",
        mode="nearest linear cubic",
        keep_aspect_ratio_policy="stretch not_larger not_smaller",
        nearest_mode="round_prefer_floor round_prefer_ceil floor ceil",
    ),
)

SWITCHES = (
    switches("Add And Div Equal Gemm Greater Less Mul Or Pow Sub Xor", "broadcast"),
    switches("AffineGrid GridSample", "align_corners"),
    switches("ArgMax ArgMin", "keepdims select_last_index"),
    switches("Attention", "is_causal"),
    switches("BatchNormalization", "is_test spatial training_mode"),
    switches("BlackmanWindow HammingWindow HannWindow", "periodic"),
    switches("Cast CastLike QuantizeLinear", "saturate"),
    switches("ConcatFromSequence", "new_axis"),
    switches("CumProd CumSum", "exclusive reverse"),
    switches("DFT STFT", "inverse onesided"),
    switches("Dropout", "is_test"),
    switches("GRU LSTM RNN", "input_forget layout linear_before_reset output_sequence"),
    switches("Gemm", "transA transB"),
    switches("IsInf", "detect_negative detect_positive"),
    switches("Mod", "fmod"),
    switches("NonMaxSuppression", "center_point_box"),
    switches("OneHotEncoder", "zeros", domain="ai.onnx.ml"),
    switches(POOLS, "ceil_mode count_include_pad storage_order"),
    switches(f"{REDUCING} SplitToSequence", "keepdims noop_with_empty_axes"),
    switches("Reshape", "allowzero"),
    switches("Resize", "antialias exclude_outside"),
    switches("RotaryEmbedding", "interleaved"),
    switches("SVMRegressor", "one_class", domain="ai.onnx.ml"),
    switches("StringNormalizer", "is_case_sensitive"),
    switches("TopK", "largest sorted"),
    switches("Trilu", "upper"),
    switches("Unique", "sorted"),
)
LIMITS = (
    within("Hardmax LayerNormalization LogSoftmax Softmax", -LARGEST_RANK, LARGEST_RANK, "axis"),
    within("DequantizeLinear QuantizeLinear", -LARGEST_RANK, LARGEST_RANK, "axis"),
    within("GatherND", 0, LARGEST_RANK, "batch_dims"),
)
