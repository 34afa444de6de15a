# SPDX-License-Identifier: Apache-2.0
"""What an adapter trips over is the model's mistake where the model is shown to be illegal, and a bug elsewhere."""

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
    """An adapter that trips over whatever it is asked about."""

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


def test_nobody_is_asked_where_all_goes_well():
    assert convert_version(model(COMPRESS.replace("SHAPE", "2,2")), 13)


IF = "(bool c, float[2] x) => (float[2] y, float[2] z) { y, z = If(c) <then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }> s = Softmax<axis=-1>(x) }"


def test_inference_is_asked_first(clumsy):
    with pytest.raises(InvalidModel, match="the model contradicts itself"):
        convert_version(model(IF), 13)


def test_a_body_computes_every_output(clumsy):
    body = "i = b (float[2] s, float[2] e) => () { t = Add(s, e) }"
    text = f"(float[2] s, float[2,2] x) => (float[2] t, float[2,2] y) {{ t, y = Scan<num_scan_inputs=1, {body.replace('i =', 'body =')}>(s, x) z = Softmax(x) }}"
    with pytest.raises(InvalidModel, match="body computes 0 of 2 outputs"):
        convert_version(model(text), 13)


def test_a_training_graph_is_checked_like_any_other():
    made = model("(float[2] x) => (float[2] y) { y = Softmax(x) }")
    node = made.training_info.add().algorithm.node.add(op_type="Softmax", input=["y"], output=["z"])
    node.attribute.add(name="axis", type=onnx.AttributeProto.INT, i=0, ints=[3])
    made.training_info[0].algorithm.name = "training"
    with pytest.raises(InvalidModel, match="Softmax 'z': type field and data field mismatch"):
        convert_version(made, 13)


def test_a_function_called_like_an_operator_is_written_out_where_inference_takes_it_for_that():
    text = """<ir_version: 8, opset_import: ["" : 14]> g (int64[4,5] x) => (int64[4,5] y) { y = Relu(x) }
<domain: "", opset_import: ["" : 14]> Relu (x) => (y) { y = Trilu(x) }"""
    if onnx.defs.onnx_opset_version() >= 14:
        made = convert_version(onnx.parser.parse_model(text), 12)
        assert not made.functions
        assert "Relu" not in ops(made)


def test_a_negative_dimension_is_an_unknown_one(with_adapters):
    seen = []

    @adapter("Softmax", 12, 13)
    def look(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        seen.append(node["input"].dims)
        return KEEP

    with_adapters(look)
    made = model("(float[N,3] x) => (float[N,3] y) { y = Softmax(x) }")
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    convert_version(made, 13)
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
            "scales holds [1.0, inf], but may hold only numbers above 0",
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
    """An attribute or an input that a version lacks is no question there."""
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
    found = [one.text for one in rules.check_model(model(text, 13)).found]
    assert found == ["Squeeze 'y': it removes 2 axes of an input with 1"]
