# SPDX-License-Identifier: Apache-2.0
"""Output types of the operators that the quantizer and the optimizer of onnxruntime write.

onnx has no schemas for them. The positions are those of the inputs that share the output's type.
A rank is that of the first output: the largest one of these inputs, or a number.
"""

from opshift.adapter import output_types

MICROSOFT = "com.microsoft"

QUANTIZED = (
    output_types(MICROSOFT, "QLinearAdd QLinearMul", (0, 2, 3, 5, 7), rank=(0, 3)),
    output_types(
        MICROSOFT,
        "QLinearSigmoid QLinearLeakyRelu QLinearSoftmax QLinearAveragePool QLinearGlobalAveragePool",
        (0, 2, 4),
        rank=(0,),
    ),
    output_types(MICROSOFT, "QLinearReduceMean", (0, 2, 4)),
    output_types(MICROSOFT, "QLinearConcat", (1,), rank=(2,)),
    output_types(MICROSOFT, "QLinearConv", (7,), rank=(0,)),
    output_types(MICROSOFT, "QLinearWhere", (1, 3, 4, 6, 8)),
    output_types(MICROSOFT, "QAttention", (3, 2, 4), (3, 2, 4), rank=(0,)),
    output_types(MICROSOFT, "MatMulIntegerToFloat", (2, 3, 6), rank=(0, 1)),
    output_types(MICROSOFT, "DynamicQuantizeMatMul", "float", rank=(0, 1)),
    output_types(MICROSOFT, "DynamicQuantizeLSTM", "float", "float", "float", rank=4),
    output_types(MICROSOFT, "DequantizeLinear", (1,), rank=(0,)),
    output_types(MICROSOFT, "QuantizeLinear", (2,), rank=(0,)),
    output_types(MICROSOFT, "QEmbedLayerNormalization", "float", "int32", rank=3),
)
EARLY = (  # onnxruntime takes these below opset 17, and SimplifiedLayerNormalization at any opset
    output_types("", "LayerNormalization", (1, 2), rank=(0,)),
    output_types("", "SimplifiedLayerNormalization", (1,), rank=(0,)),
)
OPTIMIZED = (
    output_types(
        MICROSOFT,
        "BiasAdd BiasGelu BiasSplitGelu FastGelu Gelu QuickGelu FusedConv FusedGemm NhwcConv"
        " Inverse MoE",
        (0, 1, 2),
        rank=(0,),
    ),
    output_types(
        MICROSOFT, "FusedMatMul FusedMatMulActivation TransposeMatMul", (0, 1, 2), rank=(0, 1)
    ),
    output_types(MICROSOFT, "Attention PackedAttention", (0, 1, 2), rank=(0,)),
    output_types(MICROSOFT, "MultiHeadAttention", (0, 1, 2), rank=3),
    output_types(MICROSOFT, "GroupQueryAttention", (0, 1, 2), (3,), (4,), rank=(0,)),
    output_types(MICROSOFT, "CDist", (0,), rank=2),
    output_types(MICROSOFT, "RemovePadding RestorePadding", (0,)),
    output_types(
        MICROSOFT, "GroupNorm NhwcMaxPool Pad QMoE RotaryEmbedding", (0,), rank=(0,)
    ),
    output_types(MICROSOFT, "MatMulNBits MatMulBnb4", (0, 2), rank=(0,)),
    output_types(MICROSOFT, "GatedAdd", (0, 1, 2, 3)),
    output_types(MICROSOFT, "GatedRMSNorm", (0, 1, 2)),
    output_types(MICROSOFT, "ScaledSiLU", (0,), rank=(0,)),
    output_types(MICROSOFT, "LinearAttentionGate", (0, 3), (0, 3)),
    output_types(MICROSOFT, "GatherBlockQuantized", (2,)),
    output_types(MICROSOFT, "Unique", (0,), "int64", "int64"),
    output_types(MICROSOFT, "EmbedLayerNormalization", (2, 3, 4, 5, 6), "int32", (2, 3, 4), rank=3),
    output_types(
        MICROSOFT,
        "SkipLayerNormalization SkipSimplifiedLayerNormalization",
        (0, 1, 2), "float", "float", (0, 1, 2), rank=(0,),
    ),
    output_types(
        "com.microsoft.nchwc",
        "Conv MaxPool AveragePool GlobalMaxPool GlobalAveragePool ReorderInput ReorderOutput Upsample",
        "float",
    ),
)
