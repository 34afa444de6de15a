# SPDX-License-Identifier: Apache-2.0
"""A failing adapter is a bug, unless a flaw shows that the model is illegal."""

from __future__ import annotations

import functools
import re

import onnx
import pytest
from onnx import ModelProto, TensorProto, helper
from opshift import AdapterBug, InvalidModel, convert_version
from opshift.adapter import KEEP, Builder, Flaw, Node, Result, adapter
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.convert.legal import author_rules, rules
from opshift.convert.legal.findings import Checked
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.opsets import schemas
from text_models import model, ops

COMPRESS = (
    "(float[4] x, bool[SHAPE] c) => (float[n] y) { y = Compress(x, c) z = Softmax<axis=-1>(y) }"
)


@pytest.fixture
def clumsy(with_adapters):
    """Returns an adapter that fails when it reads a certain property of its node."""

    @adapter("Softmax", 12, 13)
    def trip(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return (op.Identity(node["input"]),)[7]

    with_adapters(trip)


@pytest.mark.usefixtures("clumsy")
def test_a_trip_on_a_legal_model_is_a_bug():
    with pytest.raises(AdapterBug, match="tuple index out of range"):
        convert_version(model(COMPRESS.replace("SHAPE", "4")), 13)


@pytest.mark.usefixtures("clumsy")
def test_a_trip_on_an_illegal_model_is_the_models_mistake():
    with pytest.raises(InvalidModel, match="condition 'c' has 2 dimensions, but must have 1"):
        convert_version(model(COMPRESS.replace("SHAPE", "2,2")), 13)


@pytest.mark.usefixtures("clumsy")
@pytest.mark.parametrize(
    "late", ["", "v = Softmax<axis=0>(w) ", "w2 = Neg(w) v = Softmax<axis=0>(w2) "]
)
def test_only_the_part_of_the_model_before_the_node_can_be_at_fault(late):
    """A flaw in a node after the failing one cannot be the reason for the failure."""
    text = COMPRESS.replace("SHAPE", "2,2").replace(
        "Softmax<axis=-1>(y)", "Neg(y) w = Abs(x) " + late
    )
    if not late:
        assert convert_version(model(text), 13)
        return
    with pytest.raises(AdapterBug, match="trip raised IndexError"):
        convert_version(model(text), 13)


def test_nobody_is_asked_where_all_goes_well():
    assert convert_version(model(COMPRESS.replace("SHAPE", "2,2")), 13)


IF = "(bool c, float[2] x) => (float[2] y, float[2] z) { y, z = If(c) <then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }> s = Softmax<axis=-1>(y) }"


def test_inference_is_asked_first(clumsy):
    with pytest.raises(InvalidModel, match="the model contradicts itself"):
        convert_version(model(IF), 13)


def test_a_body_computes_every_output(clumsy):
    body = "i = b (float[2] s, float[2] e) => () { t = Add(s, e) }"
    text = f"(float[2] s, float[2,2] x) => (float[2] t, float[2,2] y) {{ t, y = Scan<num_scan_inputs=1, {body.replace('i =', 'body =')}>(s, x) z = Softmax(y) }}"
    with pytest.raises(InvalidModel, match="body computes only 0 of 2 outputs"):
        convert_version(model(text), 13)


def test_a_training_graph_is_checked_like_any_other():
    proto = model("(float[2] x) => (float[2] y) { y = Softmax(x) }")
    node = proto.training_info.add().algorithm.node.add(
        op_type="Softmax", input=["y"], output=["z"]
    )
    node.attribute.add(name="axis", type=onnx.AttributeProto.INT, i=0, ints=[3])
    proto.training_info[0].algorithm.name = "training"
    with pytest.raises(InvalidModel, match="Softmax 'z': type field and data field mismatch"):
        convert_version(proto, 13)


def test_a_function_called_like_an_operator_is_written_out_where_inference_takes_it_for_that():
    text = """<ir_version: 8, opset_import: ["" : 14]> g (int64[4,5] x) => (int64[4,5] y) { y = Relu(x) }
<domain: "", opset_import: ["" : 14]> Relu (x) => (y) { y = Trilu(x) }"""
    if onnx.defs.onnx_opset_version() >= 14:
        converted = convert_version(onnx.parser.parse_model(text), 12)
        assert not converted.functions
        assert "Relu" not in ops(converted)


def test_a_negative_dimension_is_an_unknown_one(with_adapters):
    seen = []

    @adapter("Softmax", 12, 13)
    def look(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        seen.append(node["input"].dims)
        return KEEP

    with_adapters(look)
    proto = model("(float[N,3] x) => (float[N,3] y) { y = Softmax(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    convert_version(proto, 13)
    assert seen == [(None, 3)]


@pytest.mark.usefixtures("clumsy")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "(float[4] x) => (float[4] y) <int64[2] a = {0,1}> { y = CumSum(x, a)",
            "axis 'a' has the shape [2], but must hold one number",
        ),
        (
            "(float[4] x) => (float[4] y) <int64 a = {4}> { y = CumSum(x, a)",
            "axis is 4, but the input has 1 dimensions",
        ),
        (
            "(float[1,1,4] x) => (float[1,1,4] y) { y = LpPool<kernel_shape=[1], p=0>(x)",
            "p holds 0, but must be at least 1",
        ),
        (
            "(float[1,4] x, float[0] r) => (float[1,n] y) <float[2] s = {1.0,inf}> { y = Resize(x, r, s)",
            "scales holds [1.0, inf], but must hold only numbers above 0",
        ),
        (
            "(float[4,2] x) => (float[n,2] y) <int64 s = {1}, int64 e = {2}> { y = Slice(x, s, e)",
            "starts 's' has 0 dimensions, but must have 1",
        ),
    ],
)
def test_what_onnx_does_not_check_is_known(text, words):
    with pytest.raises(InvalidModel, match=re.escape(words)):
        convert_version(model(text + " z = Softmax<axis=0>(y) }"), 13)


def test_flaws_can_be_asked_at_every_version_of_an_operator():
    """A flaw does not read attributes or inputs that the version of the operator lacks."""
    asked, adapters = 0, registry.default()
    for domain, op in sorted(adapters.traits(Flaw)):
        for schema in schemas.history(domain, op):
            names = [f"x{i}" for i in range(schema.min_input)]
            node = helper.make_node(op, names, ["y"], domain=domain)
            inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names]
            graph = helper.make_graph([node], "g", inputs, [])
            imports = [helper.make_opsetid(domain, schema.since)]
            proto = helper.make_model(graph, opset_imports=imports)
            document = Document(proto)
            facts = Facts(
                document,
                Weights(),
                adapters,
                functools.partial(ModelProto.FromString, proto.SerializeToString()),
            )
            list(author_rules.flaws(Checked(document, adapters, facts)))
            asked += 1
    assert asked > 100


def test_squeeze_names_each_axis_once():
    text = "(float[4] x, int64[2] axes) => (float y) { y = Squeeze(x, axes) }"
    texts = [finding.text for finding in rules.check(model(text, 13)).found]
    assert texts == ["Squeeze 'y': the node removes 2 axes from an input of rank 1"]


QKV = "(float[2,{q},3,{e}] q, float[2,{k},5,4] k, float[2,{v},5,6] v{more}) => (y) {{ y = Attention(q, k, v{names}) }}"
UNPOOL = (
    "(float[1,1,{n}] x, int64[1,1,{n}] i) => (y) {{ y = MaxUnpool<kernel_shape={k}{more}>(x, i) }}"
)
TURNED = "(float[2,3,4,{d}] x, float{c} c, float{s} s{p}) => (y) {{ y = RotaryEmbedding<{a}>(x, c, s{n}) }}"


def heads(q: int = 4, k: int = 2, v: int = 2, e: int = 4, more: str = "", names: str = "") -> str:
    return QKV.format(q=q, k=k, v=v, e=e, more=more, names=names)


def turned(
    d: int = 8, c: str = "[2,4,4]", s: str = "", a: str = "interleaved=0", p: str = ""
) -> str:
    return TURNED.format(d=d, c=c, s=s or c, a=a, p=p, n=", p" if p else "")


CONV = "(uint8[1,2,5] x, float p, uint8 i, uint8[3,2,2] w, float{} q, uint8{} j, float s, uint8 k, int32{} b) => (y) {{ y = QLinearConv(x, p, i, w, q, j, s, k, b) }}"
PRODUCT = "(uint8[2,5] x, float{} p, uint8{} i, uint8[5,4] w, float{} q, uint8 j, float s, uint8 k) => (y) {{ y = QLinearMatMul(x, p, i, w, q, j, s, k) }}"

SIZES = [
    ("(float[2,3] x, float{} s) => (y) {{ y = LayerNormalization(x, s) }}", 17, "[3]", "[2]", "Scale of the shape [2] does not broadcast to [2, 3]"),
    ("(float[2,3] x, float{} s) => (y) {{ y = RMSNormalization(x, s) }}", 23, "[1]", "[1,2,3]", "does not broadcast"),
    ("(float[2,5] a, float[{},4] b) => (y) {{ y = Einsum<equation=\"ij,jk\">(a, b) }}", 12, "1", "3", "axes with the letter 'j' have the sizes 5 and 3"),
    ("(float[2,3,5] a, float[{},5,4] b) => (y) {{ y = Einsum<equation=\"...ij,...jk\">(a, b) }}", 12, "1", "3", "axes with the letter '...-1' have the sizes 2 and 3"),
    ("(float[3,2] a, float[4,{}] b, float[2,1] c) => (y) {{ y = Gemm<transA=1, transB=1>(a, b, c) }}", 11, "3", "2", "A has 3 columns, but B has 2 rows"),
    ("(float[2,3] a, float[3,4] b, float{} c) => (y) {{ y = Gemm(a, b, c) }}", 11, "[1,4]", "[2,3]", "C of the shape [2, 3] does not broadcast to [2, 4]"),
    (heads(e=4), 23, "", heads(e=8), "Q has heads of 8 numbers, but K has heads of 4 numbers"),
    (heads(), 23, "", heads(v=1), "K has 2 heads, but V has 1 heads"),
    (heads(), 23, "", heads(q=3), "Q has 3 heads, not a multiple of the 2 heads of K"),
    ("(float[2,3,{}] q, float[2,5,8] k, float[2,5,8] v) => (y) {{ y = Attention<q_num_heads=2, kv_num_heads=2>(q, k, v) }}", 23, "8", "9", "the last axis of Q has size 9, not a multiple of its 2 heads"),
    (heads(more=", float[3,5] m", names=", m"), 23, "", heads(more=", float[3,4] m", names=", m"), "the mask has 4 keys instead of 5"),
    (heads(more=", float[3,4] m", names=", m"), 24, "", heads(more=", float[3,6] m", names=", m"), "the mask has 6 keys instead of 5"),
    (heads(more=", float[1,5] m", names=", m"), 23, "", heads(more=", float[2,5] m", names=", m"), "the mask has 2 queries instead of 3"),
    (turned(), 23, "", turned(c="[2,4,3]"), "a cache has the shape [2, 4, 3], but must end in [2, 4, 4]"),
    (turned(), 23, "", turned(c="[2,4,4]", s="[2,4,1]"), "the two caches have the shapes [2, 4, 4] and [2, 4, 1]"),
    (turned(a="rotary_embedding_dim=6", c="[2,4,3]"), 23, "", turned(a="rotary_embedding_dim=5", c="[2,4,3]"), "the node rotates 5 of the 8 numbers of a head"),
    (turned(c="[9,4]", p=", int64[2,4] p"), 23, "", turned(c="[9,4]", p=", int64[2,3] p"), "position_ids has the shape [2, 3] instead of [2, 4]"),
    (turned(c="[9,4]", p=", int64[2,4] p"), 23, "", turned(c="[9,4]"), "a cache has rank 2, but must have rank 3"),
    ("(float[2,4,{}] x, float[2,4,4] c) => (y) {{ y = RotaryEmbedding<num_heads=3>(x, c, c) }}", 23, "24", "25", "the last axis of X has size 25, not a multiple of its 3 heads"),
    ("(float[2,3] a, float[2,{}] b) => (y) {{ s = SequenceConstruct(a, b) y = ConcatFromSequence<axis=0>(s) }}", 11, "3", "4", "the node joins tensors of the shapes [2, 3] and [2, 4]"),
    ("(float[{},6] x) => (y) <int64 n = {{2}}> {{ s = SplitToSequence(x, n) y = ConcatFromSequence<axis=1>(s) }}", 11, "4", "5", "the node concatenates parts of sizes 2 and 1 along another axis"),
    ("(float[5,2] x, int64[{}] s) => (y) {{ y = CenterCropPad(x, s) }}", 18, "2", "3", "shape holds 3 numbers for 2 axes, but must hold 2"),
    (UNPOOL.format(n=3, k="[2]", more=""), 11, "", UNPOOL.format(n=3, k="[2,2]", more=""), "kernel_shape has 2 sizes for 1 axes"),
    (UNPOOL.format(n=3, k="[2]", more=",pads=[1,1]"), 11, "", UNPOOL.format(n=3, k="[2]", more=",pads=[1,4]"), "the pads crop 3 elements of an axis of size 2"),
    ("(float[1,2,4,4] x, float[{},1,2,2] w, float[1,8,3,3] o) => (y) {{ y = DeformConv<group=2>(x, w, o) }}", 19, "4", "3", "the 3 output channels do not divide into 2 groups"),
    ("(float[1,2,4,4] x, float[4,2,2,2] w, float[1,8,3,3] o, float[4] b, float[1,4,3,{}] m) => (y) {{ y = DeformConv(x, w, o, b, m) }}", 19, "3", "2", "the offset has the shape [1, 8, 3, 3], the mask has [1, 4, 3, 2]"),
    ("(float{} x, float[3] s) => (y) {{ y = InstanceNormalization(x, s, s) }}", 6, "[2,3]", "[3]", "input 'x' has 1 dimensions, but must have 2 or more"),
    (CONV.format("[3]", "[1]", "[3]"), 10, "", CONV.format("[3]", "[1]", "[4]"), "B has 4 numbers for 3 channels"),
    (CONV.format("", "", "[3]"), 10, "", CONV.format("[2]", "[2]", "[3]"), "w_scale has 2 numbers for 3 channels"),
    (PRODUCT.format("[2]", "[2]", "[4]"), 10, "", PRODUCT.format("[3]", "[3]", ""), "a_scale has the shape [3] instead of [2]"),
    (PRODUCT.format("", "[1]", "[1]"), 10, "", PRODUCT.format("", "", "[5]"), "b_scale has the shape [5] instead of [4]"),
    (PRODUCT.format("", "", "").replace("float p, uint8 i", "float[2,1] p, uint8[2,1] i"), 21, "", PRODUCT.format("[2]", "[5]", ""), "a_zero_point has the shape [5] instead of [2]"),
    ("(uint8[2,5] x, uint8[5,4] w, uint8{} z) => (y) {{ y = MatMulInteger(x, w, , z) }}", 10, "[4]", "[5]", "b_zero_point has the shape [5] instead of [4]"),
    ("(int8[2,2,3] a, int8[3,4] b, int8{} p) => (y) {{ y = MatMulInteger(a, b, p) }}", 10, "[2,2,1]", "[3,2,1]", "a_zero_point has the shape [3, 2, 1] instead of [2, 2, 1]"),
    ("(float[4,3] x, int64{} n) => (y) {{ y = ReverseSequence(x, n) }}", 10, "[3]", "[4]", "the node has 4 lengths for 3 sequences"),
    ("(float[3,3] x, int64[3] n) => (y) {{ y = ReverseSequence<batch_axis={}>(x, n) }}", 10, "1", "0", "batch_axis and time_axis are both 0"),
    ("(float[1,2,5] x, float[2,3,2] w, float{} b) => (y) {{ y = ConvTranspose<group=2>(x, w, b) }}", 11, "[6]", "[3]", "B has 3 numbers for 6 channels"),
    (UNPOOL.format(n=3, k="[2]", more=""), 11, "", "(float[1,1,3] x, int64[1,1,2] i) => (y) { y = MaxUnpool<kernel_shape=[2]>(x, i) }", "X has the shape [1, 1, 3], but I has [1, 1, 2]"),
    ("(float[1,6,4] b, float[{},2,6] s) => (y) {{ y = NonMaxSuppression(b, s) }}", 11, "1", "2", "axis 0 of scores 's' has the size 2, but must have 1 because of axis 0 of boxes"),
    ("(float[1,6,{}] b, float[1,2,6] s) => (y) {{ y = NonMaxSuppression(b, s) }}", 11, "4", "5", "axis 2 of boxes 'b' has the size 5, but must have 4"),
    ("(float[1,{},4] x) => (y) <int64[2] i = {{3,3}}, int64[2] k = {{2,2}}> {{ y = Col2Im(x, i, k) }}", 18, "8", "6", "axis 1 has size 6, not a multiple of the block size 4"),
    ("(float[1,8,{}] x) => (y) <int64[2] i = {{3,3}}, int64[2] k = {{2,2}}> {{ y = Col2Im(x, i, k) }}", 18, "4", "5", "the node has 5 blocks, but the image has 4"),
    ("(float[3,5] s, int64[{}] l) => (y) {{ y = SoftmaxCrossEntropyLoss(s, l) }}", 13, "3", "4", "the shapes of scores and labels are [3, 5] and [4]"),
    ("(float[1,1,4,4] x, float[{}] r) => (y) <int64[4] n = {{1,1,2,2}}> {{ y = Resize<coordinate_transformation_mode=\"tf_crop_and_resize\">(x, r, , n) }}", 13, "8", "6", "the roi has 6 numbers for 4 axes"),
    (heads(more=", float[2,1,3,5] m", names=", m"), 23, "", heads(more=", float[3,1,3,5] m", names=", m"), "the mask has the shape [3, 1, 3, 5]"),
    ("(float[1,1,{}] x) => (y) {{ y = AveragePool<kernel_shape=[1]>(x) }}", 13, "1", "0", "axis 2 of the input has size 0"),
    ("(float[1,1,4,4] x, float[2,1,2,2] w, float[1,8,{},3] o) => (y) {{ y = DeformConv(x, w, o) }}", 19, "3", "4", "the offset has size 4 on axis 2, but the result has 3"),
    ("(float[1,3,5] x, float[4,3,{}] w) => (y) {{ y = Conv<kernel_shape=[3]>(x, w) }}", 13, "3", "2", "kernel_shape is [3], but the weights have the shape [4, 3, 2]"),
    ("(float[5] x, int64[{}] i, float[{}] u) => (y) {{ y = ScatterElements(x, i, u) }}".replace("[5] x", "[5,2] x").replace("[{}]", "[3,{0}]"), 18, "2", "3", "the node has 3 indices along axis 1, which has size 2"),
    ("(float[{},1,3] x, float[1,2,3] w, float[1,2,2] r) => (y) <int32[1] n = {{4}}> {{ y = RNN<hidden_size=2>(x, w, r, , n) }}", 13, "4", "3", "a sequence length is 4, but axis 0 has size 3"),
    ("(float[4,1,3] x, float[1,2,3] w, float[1,2,2] r, float[1,{}] b) => (y) {{ y = RNN<hidden_size=2>(x, w, r, b) }}", 13, "4", "3", "axis 1 of B 'b' has the size 3, but must have 4 because of axis 1 of R"),
    ("(float[2,{}] x) => (y) {{ y = Pad<mode=\"reflect\", pads=[0,-1,0,2]>(x) }}", 10, "4", "3", "the mode reflect adds 2 elements to axis 1, which has only 2"),
    ("(float[2,{}] x) => (y) <int64[2] p = {{1,0}}, int64[1] a = {{-1}}> {{ y = Pad<mode=\"reflect\">(x, p, , a) }}", 18, "2", "1", "the mode reflect adds 1 elements to axis 1, which has only 1"),
    ("(float[2,{}] x) => (y) <int64[4] p = {{0,-1,0,3}}> {{ y = Pad<mode=\"edge\">(x, p) }}", 13, "2", "1", "the mode edge adds 3 elements to axis 1, which has only 0"),
    ("(float[5] x, int64[{}] i, float[3] u) => (y) {{ y = ScatterElements(x, i, u) }}", 18, "3", "2", "indices has the shape [2], but updates has [3]"),
    ("(float{} x, int64[1,1] i, float[1,1] u) => (y) {{ y = ScatterElements(x, i, u) }}", 18, "[2,2]", "[2]", "data has 1 dimensions, but indices has 2"),
    ("(float[2,3] x, int64[{}] r) => (y) {{ y = Tile(x, r) }}", 13, "2", "3", "repeats holds 3 numbers for 2 axes, but must hold 2"),
    ("(float[2,3] x, int64[{}] p) => (y) {{ y = Pad(x, p) }}", 13, "4", "3", "pads holds 3 numbers for 2 axes, but must hold 4"),
    ("(float[2,3] x, int64[{}] p, int64[1] a) => (y) {{ y = Pad(x, p, , a) }}", 18, "2", "4", "pads holds 4 numbers for 1 axes, but must hold 2"),
    ("(float[2,3,4] x, int64[{}] s) => (y) {{ y = CenterCropPad<axes=[0]>(x, s) }}", 18, "1", "3", "shape holds 3 numbers for 1 axes, but must hold 1"),
    ("(float[2,3,8] q, float[2,5,8] k, float[2,{},8] v) => (y) {{ y = Attention<q_num_heads=2, kv_num_heads=2>(q, k, v) }}", 23, "5", "4", "axis 1 of V 'v' has the size 4, but must have 5 because of axis 1 of K"),
    ("(float[2,3,8] q, float[{},5,8] k, float[{},5,8] v) => (y) {{ y = Attention<q_num_heads=2, kv_num_heads=2>(q, k, v) }}".replace("[{}", "[{0}"), 23, "2", "1", "axis 0 of K 'k' has the size 1, but must have 2 because of axis 0 of Q"),
    ("(float[2,3,8] q, float{} k, float{} v) => (y) {{ y = Attention<q_num_heads=2, kv_num_heads=2>(q, k, v) }}".replace("{} ", "{0} "), 23, "[2,5,8]", "[2,2,5,4]", "Q has 3 dimensions, but K has 4"),
    ("(float[1,1,4,4] x, float[2,1,2,2] w, float[{},8,3,3] o) => (y) {{ y = DeformConv(x, w, o) }}", 19, "1", "2", "axis 0 of offset 'o' has the size 2, but must have 1 because of axis 0 of X"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "opset", "good", "bad", "words"), SIZES)
def test_sizes_that_inference_does_not_compare(text, opset, good, bad, words):
    """In each pair, the first model is legal, and the second one has a wrong size."""
    if onnx.defs.onnx_opset_version() < opset:
        pytest.skip("the installed onnx lacks the operator")

    def flaws(graph: str) -> list[str]:
        found = rules.check(model(graph, opset)).found
        return [one.text for one in found if one.rule == "OPERATOR_FLAW"]

    legal, wrong = (text.format(good), text.format(bad)) if good else (text, bad)
    assert flaws(legal) == []
    assert len(flaws(wrong)) == 1
    assert words in flaws(wrong)[0]


def test_parts_of_other_ranks_are_the_fault_of_the_model():
    """onnx does not infer Cast below opset 6; its inference of Concat fails only at opset 7."""
    proto = model(
        '(float[2] x, int32[4,2] a) => (int32[6] y) { h = Cast<to = "INT32">(x)'
        " y = Concat<axis = 0>(h, a) }", 4,
    )  # fmt: skip
    texts = [
        finding.text for finding in rules.check(proto).found if finding.rule == "OPERATOR_FLAW"
    ]
    assert texts == ["Concat 'y': the inputs have the ranks 1 and 2"]
    with pytest.raises(InvalidModel, match="contradicts the operators of the model"):
        convert_version(proto, 7)
