# SPDX-License-Identifier: Apache-2.0
"""A conversion writes forms of nodes that old runtimes run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from newest_onnx import IS_OLDER
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, parser
from opshift import convert_version
from opshift.look.accepts import accepts
from opshift.verify import oracle

pytestmark = pytest.mark.skipif(
    IS_OLDER, reason="the installed onnx does not read all of these models"
)

ALLOWZERO = (
    "(float[n,4] x) => (float[a,b] y) <int64[2] s = {{{}}}> {{ y = Reshape<allowzero = 1>(x, s) }}"
)
LOOP = '(float[2] x) => (float[2] y) <int64 n = {3}> { y = Loop(n, "", x) <body = b (int64 i, bool k, float[2] p) => (bool o, float[2] q) { o = Identity(k) q = Add(p, p) } > }'


def model(opset: int, graph: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {graph}')


def nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from nodes(attribute.g)


@pytest.mark.parametrize("target", [17, "onnxruntime==1.15"])
def test_a_pad_that_wraps_before_opset_19_is_written_in_other_nodes(target):
    pad = '(float[1,3] x) => (float[1,6] y) <int64[4] p = {0, 1, 0, 2}> { y = Pad<mode = "wrap">(x, p) }'
    result = convert_version(model(18, pad), target)
    (padded,) = oracle.evaluate(result, {"x": np.array([[1, 2, 3]], np.float32)})
    assert padded.tolist() == [[3, 1, 2, 3, 1, 2]]


@pytest.mark.parametrize(
    ("opset", "target"), [(20, "onnxruntime==1.10"), (15, "onnxruntime==1.10"), (18, 14)]
)
@pytest.mark.parametrize(("shape", "kept"), [("-1, 2", False), ("0, 2", True)])
def test_allowzero_is_kept_only_beside_a_zero(opset, target, shape, kept):
    (node,) = convert_version(model(opset, ALLOWZERO.format(shape)), target).graph.node
    assert any(a.name == "allowzero" for a in node.attribute) == kept


@pytest.mark.parametrize(("opset", "target"), [(18, 17), (11, 12), (15, "onnxruntime==1.10")])
def test_every_loop_has_a_condition(opset, target):
    converted = convert_version(model(opset, LOOP), target)
    (loop,) = (node for node in nodes(converted.graph) if node.op_type == "Loop")
    assert loop.input[1]


@pytest.mark.parametrize("graph", [LOOP, ALLOWZERO.format("-1, 2")])
def test_a_conversion_to_the_version_that_a_model_has_changes_nothing(graph):
    before = model(15, graph)
    assert convert_version(before, 15) == before


def test_a_form_is_written_before_another_one_for_a_missing_kernel():
    """onnxruntime 0.4 cannot read a scalar depth, and has no kernel for int64 indices."""
    text = "(int64[2] i, float[2] v) => (float[2,3] y) <int64 d = {3}> { y = OneHot(i, d, v) }"
    after = convert_version(model(10, text), "onnxruntime==0.4")
    (hot,) = (node for node in nodes(after.graph) if node.op_type == "OneHot")
    (depth,) = (tensor for tensor in after.graph.initializer if tensor.name == hot.input[1])
    assert list(depth.dims) == [1]


@pytest.mark.parametrize("target", ["onnxruntime==0.4", "opencv==4.5.5", "opencv==4.8"])
def test_gemm_of_one_number_as_c_is_written_with_a_row(target):
    text = "(float[2,3] a, float[4,3] b) => (float[2,4] y) <float c = {0.5}> { y = Gemm<transB = 1>(a, b, c) }"
    after = convert_version(model(9, text), target)
    (gemm,) = nodes(after.graph)
    (c,) = (tensor for tensor in after.graph.initializer if tensor.name == gemm.input[2])
    assert list(c.dims) == [4]


@pytest.mark.parametrize(
    ("given", "target", "written"),
    [
        ("", "4.5.5", "MatMul Add"),
        ("<transB = 0>", "4.5.5", "MatMul Add"),
        ("", "4.8", "Gemm"),
        ("<alpha = 1.0>", "4.8", "Gemm"),
        ("<alpha = 2.0>", "4.8", "MatMul Mul Add"),
        ("<beta = 0.5>", "4.8", "MatMul Add"),
        ("<alpha = 2.0>", "4.11", "Gemm"),
    ],
)
def test_gemm_has_no_attribute_that_opencv_leaves_out(given, target, written):
    """OpenCV 4.5.5 rejects Gemm without transB, and OpenCV up to 4.8 ignores alpha and beta."""
    text = f"(float[2,3] a, float[3,4] b) => (float[2,4] y) <float[4] c = {{1,2,3,4}}> {{ y = Gemm{given}(a, b, c) }}"
    after = convert_version(model(11, text), f"opencv=={target}")
    assert " ".join(node.op_type for node in nodes(after.graph)) == written
    assert accepts(after, f"opencv=={target}").reasons == ()


@pytest.mark.parametrize("release", ["4.5.5", "4.8", "4.11", "5.0"])
@pytest.mark.parametrize(
    ("attributes", "products", "is_kept"),
    [
        ("alpha=0.16666667, beta=0.5", "y = Mul(g, h)", False),
        ("alpha=0.16666667, beta=0.5", "y = Mul(h, g)", False),
        ("alpha=0.16666667, beta=0.5", "y = Mul(h, h)", False),
        ("alpha=0.16666667, beta=0.5", "p = Mul(r, h) y = Add(p, h)", False),
        ("alpha=0.16666667, beta=0.5", "y = Mul(h, r)", True),
        ("alpha=0.16666667, beta=0.5", "y = Add(g, h)", True),
        ("alpha=0.16666667", "y = Mul(g, h)", True),
        ("alpha=0.16666667, beta=0.25", "y = Mul(g, h)", True),
        ("alpha=0.2, beta=0.5", "y = Mul(g, h)", True),
    ],
)
def test_hard_sigmoid_before_mul_has_no_beta_that_opencv_takes_for_hard_swish(
    release, attributes, products, is_kept
):
    text = "(float[1,2,3,3] x) => (float[1,2,3,3] y) { r = Relu(x) g = Sigmoid(x) "
    before = model(13, f"{text} h = HardSigmoid<{attributes}>(r) {products} }}")
    after = convert_version(before, f"opencv=={release}")
    written = [node for node in after.graph.node if node.op_type == "HardSigmoid"]
    kept = [node for node in before.graph.node if node.op_type == "HardSigmoid"]
    assert (written[0].attribute == kept[0].attribute) == is_kept
    assert is_kept or [attribute.name for attribute in written[0].attribute] == ["alpha"]
    assert accepts(after, f"opencv=={release}").reasons == ()


def test_dequantized_weights_are_a_constant_where_opencv_does_not_read_them():
    text = "(float[2,3] x) => (float[2,3] y) <int8[2,3] k = {1,-2,3,4,5,6}, float[3] s = {0.5,1,2}, int8[3] z = {0,0,0}> { d = DequantizeLinear<axis = 1>(k, s, z) y = Add(x, d) }"
    after = convert_version(model(13, text), "opencv==4.5.5")
    assert " ".join(node.op_type for node in nodes(after.graph)) == "Constant Add"


@pytest.mark.parametrize(
    ("opset", "graph", "target"),
    [
        (18, "(float16[2] x) => (float16[2] y) { a = Softmax(x) y = LogSoftmax(a) }", "1.14"),
        (22, "(bfloat16[2] x) => (bfloat16[2] y) { a = Sin(x) y = Cos(a) }", "1.16"),
    ],
)
def test_casts_that_two_other_forms_wrote_are_parted(opset, graph, target):
    """Two forms each write a Cast, and the runtime would merge these two Casts."""
    after = convert_version(model(opset, graph), f"onnxruntime=={target}")
    first, last = (node.op_type for node in model(opset, graph).graph.node)
    written = " ".join(node.op_type for node in nodes(after.graph))
    assert written == f"Cast {first} Cast Reshape Cast {last} Cast"


def test_round_is_written_without_double_which_onnxruntime_0_4_does_not_add():
    text = "(float[4] x) => (float[4] y) { y = Round(x) }"
    after = convert_version(model(11, text), "onnxruntime==0.4")
    assert accepts(after, "onnxruntime==0.4").reasons == ()
