# SPDX-License-Identifier: Apache-2.0
"""Small models of the kinds that exporters write in 2026: narrow types, blocks, caches, functions.

    python -m tests.support.modern_models FOLDER

writes each model to a folder of its own, for the tools that read a corpus.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
from onnx import ModelProto
from opshift.model.arrays import as_tensor
from opshift.opsets.elements import T
from opshift.testing.model_text import parse_model

WEIGHT = re.compile(r"(\+?)(\w+)\[([\d,]*)\] (\w+)(=\d+)?")  # + stands for positive numbers
NUMBERED = "custom.block.1"  # a domain that no text can name

# The imports, the graph with its functions, and the weights, which are random.
TEXTS: dict[str, tuple[str, str, str]] = {
    # -- bfloat16 and float16: language models and pictures ----------------------------------------
    "bfloat16_mlp": (
        '"" : 20',
        "(bfloat16[B,8] x) => (bfloat16[B,8] y) { h = MatMul(x, w) a = Add(h, b)"
        ' g = Gelu<approximate = "tanh">(a) y = MatMul(g, v) }',
        "bfloat16[8,16] w, bfloat16[16] b, bfloat16[16,8] v",
    ),
    "bfloat16_norm_in_float": (
        '"" : 18',
        "(bfloat16[B,S,8] x) => (bfloat16[B,S,8] y) { f = Cast<to = 1>(x)"
        " two = Constant<value = float {2}>() q = Pow(f, two) l = Constant<value = int64[1] {-1}>()"
        " m = ReduceMean(q, l) e = Constant<value = float {0.00001}>() s = Add(m, e) r = Sqrt(s)"
        " n = Div(f, r) c = Cast<to = 16>(n) y = Mul(c, w) }",
        "bfloat16[8] w",
    ),
    "bfloat16_decoder": (
        '"" : 23',
        "(int64[B,S] ids, float[B,1,S,S] mask) => (bfloat16[B,S,8] y) {"
        " e = Gather(t, ids) n = RMSNormalization<axis = -1>(e, g)"
        " q = MatMul(n, wq) k = MatMul(n, wk) v = MatMul(n, wv) b = Cast<to = 16>(mask)"
        " a = Attention<q_num_heads = 2, kv_num_heads = 1>(q, k, v, b) o = MatMul(a, wo)"
        " y = Add(e, o) }",
        "bfloat16[10,8] t, bfloat16[8] g, bfloat16[8,8] wq, bfloat16[8,4] wk, bfloat16[8,4] wv,"
        " bfloat16[8,8] wo",
    ),
    "float16_convolution": (
        '"" : 17',
        "(float16[N,3,8,8] x) => (float16[N,4] y) { c = Conv<kernel_shape = [3, 3],"
        " pads = [1, 1, 1, 1]>(x, w, b) n = BatchNormalization(c, s, b, m, v) r = Relu(n)"
        " p = GlobalAveragePool(r) y = Flatten(p) }",
        "float16[4,3,3,3] w, float16[4] b, float16[4] s, float16[4] m, +float16[4] v",
    ),
    "float16_norm_before_a_product": (
        '"" : 17',
        "(float16[B,S,8] x) => (float16[B,S,4] y) { n = LayerNormalization(x, g, b)"
        " m = MatMul(n, w) y = Add(m, c) }",
        "float16[8] g, float16[8] b, float16[8,4] w, float16[4] c",
    ),
    "float16_gru": (
        '"" : 14',
        "(float16[S,B,4] x, float16[1,B,3] h) => (float16[S,1,B,3] y, float16[1,B,3] z)"
        " { y, z = GRU<hidden_size = 3, linear_before_reset = 1>(x, w, r, b, , h) }",
        "float16[1,9,4] w, float16[1,9,3] r, float16[1,18] b",
    ),
    "float16_lstm": (
        '"" : 14',
        "(float16[S,B,4] x) => (float16[S,1,B,3] y)"
        " { y, h, c = LSTM<hidden_size = 3>(x, w, r, b) }",
        "float16[1,12,4] w, float16[1,12,3] r, float16[1,24] b",
    ),
    "float16_resize": (
        '"" : 19',
        "(float16[1,3,4,4] x) => (float16[1,3,8,8] y) { s = Constant<value = float[4] {1,1,2,2}>()"
        ' y = Resize<mode = "linear">(x, , s) }',
        "",
    ),
    # -- double and int64 ---------------------------------------------------------------------------
    "double_pipeline": (
        '"" : 15',
        "(double[N,4] x) => (double[N,2] y) { c = Sub(x, m) s = Div(c, d) y = Gemm(s, w, b) }",
        "double[4] m, +double[4] d, double[4,2] w, double[2] b",
    ),
    "double_trees": (
        '"" : 18, "ai.onnx.ml" : 3',
        "(double[N,2] x) => (float[N,1] y) { y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1,"
        " nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0],"
        " nodes_values_as_tensor = double[3] {0.5, 0, 0},"
        ' nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids = [1, 0, 0],'
        " nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0], target_nodeids = [1, 2],"
        " target_ids = [0, 0], target_weights_as_tensor = double[2] {1, -1}>(x) }",
        "",
    ),
    "double_softplus": (
        '"" : 13',
        "(double[N,4] x) => (double[N,4] y) { a = Softplus(x) t = Tanh(a) b = Mul(a, t) y = Erf(b) }",
        "",
    ),
    "int64_tokens": (
        '"" : 17',
        "(int64[1,S] ids, int64[1,S] mask) => (float[1,S,4] y, int64[1,S] best) { e = Gather(t, ids)"
        " l = Constant<value = int64[1] {2}>() f = Cast<to = 1>(mask) u = Unsqueeze(f, l)"
        " y = Mul(e, u) best = ArgMax<axis = 2, keepdims = 0>(y) }",
        "float[10,4] t",
    ),
    "int64_positions": (
        '"" : 17',
        "(int64[1,S] ids) => (float[1,S,4] y) { s = Shape(ids) o = Constant<value = int64 {1}>()"
        " z = Constant<value = int64 {0}>() n = Gather(s, o) r = Range(z, n, o)"
        " l = Constant<value = int64[1] {0}>() p = Unsqueeze(r, l) a = Gather(t, ids)"
        " b = Gather(q, p) y = Add(a, b) }",
        "float[10,4] t, float[64,4] q",
    ),
    # -- codes of 8, 4 and 2 bits -------------------------------------------------------------------
    "int4_blocks": (
        '"" : 21',
        "(float[B,8] x) => (float[B,4] y)"
        " { d = DequantizeLinear<axis = 0, block_size = 4>(w, s) y = MatMul(x, d) }",
        "int4[8,4] w, +float[2,4] s",
    ),
    "uint4_blocks": (
        '"" : 21',
        "(float16[B,8] x) => (float16[B,4] y)"
        " { d = DequantizeLinear<axis = 0, block_size = 4>(w, s, z) y = MatMul(x, d) }",
        "uint4[8,4] w, +float16[2,4] s, uint4[2,4] z",
    ),
    "int4_rows": (
        '"" : 23',
        "(bfloat16[B,8] x) => (bfloat16[B,4] y)"
        " { d = DequantizeLinear<axis = 1>(w, s) y = MatMul(x, d) }",
        "int4[8,4] w, +bfloat16[4] s",
    ),
    "float8_weights": (
        '"" : 19',
        "(float[B,8] x) => (float[B,4] y) { d = DequantizeLinear(w, s) y = MatMul(x, d) }",
        "float8e4m3fn[8,4] w, +float[] s",
    ),
    "float8_pairs": (
        '"" : 19',
        "(float16[B,8] x) => (float16[B,4] y) { q = QuantizeLinear(x, s, z)"
        " a = DequantizeLinear(q, s, z) d = DequantizeLinear<axis = 1>(w, t) y = MatMul(a, d) }",
        "+float16[] s, float8e5m2[] z=0, float8e5m2[8,4] w, +float16[4] t",
    ),
    "float8_casts": (
        '"" : 19',
        "(float[B,8] x) => (float[B,8] y) { q = Cast<to = 17>(x) y = Cast<to = 1>(q) }",
        "",
    ),
    "float4_blocks": (
        '"" : 23',
        "(float[B,8] x) => (float[B,4] y)"
        " { d = DequantizeLinear<axis = 0, block_size = 4>(w, s) y = MatMul(x, d) }",
        "float4e2m1[8,4] w, +float[2,4] s",
    ),
    # -- operators of com.microsoft -----------------------------------------------------------------
    "matmul_4_bits": (
        '"" : 17, "com.microsoft" : 1',
        "(float[B,32] x) => (float[B,4] y) { y = com.microsoft.MatMulNBits<K = 32, N = 4, bits = 4,"
        " block_size = 16>(x, w, s) }",
        "uint8[4,2,8] w, +float[8] s",
    ),
    "matmul_4_bits_with_zero_points": (
        '"" : 17, "com.microsoft" : 1',
        "(float[B,32] x) => (float[B,4] y) { h = com.microsoft.MatMulNBits<K = 32, N = 4, bits = 4,"
        " block_size = 16>(x, w, s, z) y = com.microsoft.QuickGelu<alpha = 1.0>(h) }",
        "uint8[4,2,8] w, +float[8] s, uint8[4] z",
    ),
    "grouped_query_attention": (
        '"" : 21, "com.microsoft" : 1',
        "(float[1,2,16] q, float[1,2,8] k, float[1,2,8] v, float[1,1,P,8] pk, float[1,1,P,8] pv,"
        " int32[1] last, int32 total) => (float[1,2,16] y, float[1,1,T,8] ck, float[1,1,T,8] cv)"
        " { y, ck, cv = com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1>"
        "(q, k, v, pk, pv, last, total) }",
        "",
    ),
    "skip_norm": (
        '"" : 17, "com.microsoft" : 1',
        "(float[1,S,8] x, float[1,S,8] r) => (float[1,S,8] y) {"
        " y, , , t = com.microsoft.SkipSimplifiedLayerNormalization(x, r, g) }",
        "float[8] g",
    ),
    "matmul_8_bits": (
        '"" : 17, "com.microsoft" : 1',
        "(float[B,32] x) => (float[B,4] y) { y = com.microsoft.MatMulNBits<K = 32, N = 4, bits = 8,"
        " block_size = 16>(x, w, s) }",
        "uint8[4,2,16] w, +float[8] s",
    ),
    "multi_head_attention": (
        '"" : 17, "com.microsoft" : 1',
        "(float[B,S,8] x, float[B,T,8] m) => (float[B,S,8] y) {"
        " y = com.microsoft.MultiHeadAttention<num_heads = 2>(x, m, m, b) }",
        "float[24] b",
    ),
    "codes_of_16_bits": (
        '"" : 14, "com.microsoft" : 1',
        "(float[B,8] x) => (float[B,4] y) { q = com.microsoft.QuantizeLinear(x, s, z)"
        " d = com.microsoft.DequantizeLinear(q, s, z) y = MatMul(d, w) }",
        "+float[] s, uint16[] z=32768, float[8,4] w",
    ),
    "fused_convolution_of_a_sum": (
        '"" : 15, "com.microsoft" : 1',
        "(float[N,2,6,6] x, float[N,3,4,4] r) => (float[N,3,4,4] y) {"
        ' y = com.microsoft.FusedConv<activation = "Relu", kernel_shape = [3, 3]>(x, w, b, r) }',
        "float[3,2,3,3] w, float[3] b",
    ),
    # -- forms that some releases of onnxruntime misread --------------------------------------------
    "rotary_codes": (
        '"" : 17',
        "(uint8[1,S,4] x) => (uint8[1,S,8] y) { d = DequantizeLinear(x, s, z)"
        " c = Concat<axis = -1>(d, d) y = QuantizeLinear(c, s, z) }",
        "+float[] s, uint8[] z=3",
    ),
    "bicubic_pictures": (
        '"" : 13',
        "(float[1,5,6,2] x) => (float[1,10,12,2] y) { t = Transpose<perm = [0, 3, 1, 2]>(x)"
        ' f = Constant<value = float[4] {1, 1, 2, 2}>() r = Resize<mode = "cubic">(t, , f)'
        " y = Transpose<perm = [0, 2, 3, 1]>(r) }",
        "",
    ),
    "reductions_of_nothing": (
        '"" : 18',
        "(float[B,3] x) => (float[B,3] y) { s = ReduceSumSquare<noop_with_empty_axes = 1>(x)"
        " l = ReduceL1<noop_with_empty_axes = 1>(x) y = Add(s, l) }",
        "",
    ),
    "spectrum_and_back": (
        '"" : 20',
        "(float[2,5,2] x) => (float[2,8,1] y) { y = DFT<inverse = 1, onesided = 1>(x) }",
        "",
    ),
    # -- functions, caches and the newest operators -------------------------------------------------
    "functions_of_a_domain": (
        '"" : 18, "custom.block" : 1',
        "(float[B,8] x) => (float[B,8] y) { h = custom.block.layer<k = 0.5>(x, w)"
        " y = custom.block.layer<k = 2.0>(h, w) }"
        ' <domain: "custom.block", opset_import: ["" : 18, "custom.block" : 1]>'
        " layer <k>(a, w) => (b) { m = MatMul(a, w) s = custom.block.scaled<k: float = @k>(m)"
        " b = Tanh(s) }"
        ' <domain: "custom.block", opset_import: ["" : 18]>'
        " scaled <k>(a) => (b) { c = Constant<value_float: float = @k>() b = Mul(a, c) }",
        "float[8,8] w",
    ),
    "function_in_a_numbered_domain": (
        '"" : 20, "numbered" : 1',
        "(bfloat16[B,8] x) => (bfloat16[B,8] y) { y = numbered.mlp(x, w) }"
        ' <domain: "numbered", opset_import: ["" : 20]>'
        " mlp (a, w) => (b) { m = MatMul(a, w) b = Gelu(m) }",
        "bfloat16[8,8] w",
    ),
    "attention_23_with_a_cache": (
        '"" : 23',
        "(float[1,2,S,4] q, float[1,1,S,4] k, float[1,1,S,4] v, float[1,1,P,4] pk, float[1,1,P,4] pv)"
        " => (float[1,2,S,4] y, float[1,1,T,4] ck, float[1,1,T,4] cv)"
        " { y, ck, cv = Attention<is_causal = 1>(q, k, v, , pk, pv) }",
        "",
    ),
    "attention_24_of_lengths": (
        '"" : 24',
        "(float[2,2,3,4] q, float[2,1,5,4] k, float[2,1,5,4] v) => (float[2,2,3,4] y)"
        " { n = Constant<value = int64[2] {5, 3}>() y = Attention(q, k, v, , , , n) }",
        "",
    ),
    "attention_25": (
        '"" : 25',
        "(float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v) => (float[1,2,3,4] y)"
        " { y = Attention<is_causal = 1, softcap = 5.0>(q, k, v) }",
        "",
    ),
    "attention_28_of_groups": (
        '"" : 28',
        "(bfloat16[1,4,3,8] q, bfloat16[1,2,3,8] k, bfloat16[1,2,3,8] v) => (bfloat16[1,4,3,8] y)"
        " { y = Attention<is_causal = 1, scale = 0.5>(q, k, v) }",
        "",
    ),
    "largest_of_scattered_at_16": (
        '"" : 16',  # opset 18 added the reduction, but an exporter writes it at opset 16
        "(float[3,4] x, float[2,4] u) => (float[3,4] y)"
        " { i = Constant<value = int64[2,4] {0,1,2,0,2,1,1,0}>()"
        ' y = ScatterElements<axis = 0, reduction = "max">(x, i, u) }',
        "",
    ),
    "rotary_28": (
        '"" : 28',
        "(float[1,2,3,4] x) => (float[1,2,3,4] y) { i = Constant<value = int64[1,3] {0, 1, 2}>()"
        " r = RotaryEmbedding(x, c, s, i) y = Swish(r) }",
        "float[8,2] c, float[8,2] s",
    ),
    "cache_update_24": (
        '"" : 24',
        "(float[1,2,6,4] past, float[1,2,1,4] new) => (float[1,2,6,4] y)"
        " { i = Constant<value = int64[1] {2}>() y = TensorScatter(past, new, i) }",
        "",
    ),
    "no_imports": ("", "(float[2,3] x) => (float[2,3] y) { h = Relu(x) y = Neg(h) }", ""),
    "no_import_of_the_domain": (
        '"" : 17',
        "(float[B,8] x) => (float[B,8] y) { h = MatMul(x, w) y = com.microsoft.Gelu(h) }",
        "float[8,8] w",
    ),
}


def inputs_of(name: str) -> dict[str, np.ndarray] | None:
    """Inputs, if generated ones do not fit together; None if they do."""
    if name != "grouped_query_attention":
        return None
    rng = np.random.default_rng(0)
    sizes = {
        "q": (1, 2, 16),
        "k": (1, 2, 8),
        "v": (1, 2, 8),
        "pk": (1, 1, 3, 8),
        "pv": (1, 1, 3, 8),
    }
    floats = {
        input_name: rng.normal(size=shape).astype("f4") for input_name, shape in sizes.items()
    }
    return {**floats, "last": np.array([4], "i4"), "total": np.array(5, "i4")}


def modern_model(name: str) -> ModelProto:
    """Returns one of the models, with equal content at each call."""
    imports, text, weights = TEXTS[name]
    proto: ModelProto = parse_model(f"<ir_version: 10, opset_import: [{imports}]> {name} {text}")
    for item in (*proto.opset_import, *proto.functions, *proto.graph.node):
        if item.domain == "numbered":
            item.domain = NUMBERED
    rng = np.random.default_rng(0)
    for positive, kind, sizes, label, fill in WEIGHT.findall(weights):
        shape = [int(size) for size in sizes.split(",") if size]
        number = T[kind.upper()]
        if fill:
            value = np.full(shape, int(fill[1:]))
        elif "int" in kind:
            low, high = number.element.limits
            value = rng.integers(low, high + 1, shape)
        else:
            value = rng.normal(size=shape) / 2
        tensor = as_tensor(np.abs(value) + 0.25 if positive else value, number)
        tensor.name = label
        proto.graph.initializer.append(tensor)
    return proto


def main() -> None:
    """Writes the models."""
    for name in TEXTS:
        folder = Path(sys.argv[1], name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(modern_model(name).SerializeToString())


if __name__ == "__main__":
    main()
