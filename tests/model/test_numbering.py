# SPDX-License-Identifier: Apache-2.0
"""The numbers in new names are found in each place that mentions a name."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, checker, helper
from opshift import convert
from opshift.model import numbering
from text_models import model as parsed


def test_names_are_numbered_as_the_nodes_mention_them():
    inner = helper.make_graph(
        [helper.make_node("Add", ["opshift_9_c", "x"], ["opshift_4_y"], name="opshift_2_Add")],
        "body",
        [],
        [helper.make_tensor_value_info("opshift_4_y", TensorProto.FLOAT, [])],
    )
    nodes = [
        helper.make_node("If", ["opshift_30_b"], ["y"], then_branch=inner, else_branch=inner),
        helper.make_node("Neg", ["opshift1_1_z"], ["opshift_80"]),
    ]
    constant = TensorProto(name="opshift_9_c")
    model = ModelProto()
    model.graph.CopyFrom(helper.make_graph(nodes, "g", [], [], [constant, TensorProto()]))
    names = numbering.number(model, ["opshift_", "opshift1_"])
    assert names == {
        "opshift_30_b": "opshift_1_b",
        "opshift_9_c": "opshift_2_c",
        "opshift_4_y": "opshift_3_y",
        "opshift_2_Add": "opshift_4_Add",
        "opshift1_1_z": "opshift_5_z",
    }
    (branch, neg) = model.graph.node
    body = branch.attribute[1].g
    assert list(branch.input) == ["opshift_1_b"]
    assert (list(body.node[0].input), body.node[0].name) == (["opshift_2_c", "x"], "opshift_4_Add")
    assert body.output[0].name == "opshift_3_y"
    assert (list(neg.input), list(neg.output)) == (["opshift_5_z"], ["opshift_80"])
    assert model.graph.initializer[0].name == "opshift_2_c"
    assert not model.graph.initializer[1].HasField("name")
    assert numbering.number(model, ["opshift_"]) == {}


def test_a_function_that_is_first_taken_to_the_opset_of_the_model_names_each_value_once():
    """One function is inlined; another one is converted twice and stays."""
    bounds = "".join(f"c{i} = Clip<min = 0.0, max = {i}.0>(c{i - 1}) " for i in range(1, 9))
    before = parsed(
        f"""(float[2,3] x) => (float[a,b] y, float[c,d] z) {{
            y = own.Soft<axis = 1>(x) z = own.Bounded(x) }}
        <opset_import: ["" : 12], domain: "own"> Soft <axis> (x) => (y) {{
            y = Softmax<axis: int = @axis>(x) }}
        <opset_import: ["" : 10], domain: "own"> Bounded (x) => (y) {{
            c0 = Relu(x) {bounds} a = Unsqueeze<axes = [0]>(c8) y = Squeeze<axes = [0]>(a) }}""",
        more=', "own" : 1',
    )
    result = convert(before, 13)
    assert result.report.inlined == ("own::Soft",)
    checker.check_model(result.model)
    (bounded,) = result.model.functions
    written = [name for node in bounded.node for name in node.output]
    assert len(set(written)) == len(written)
    assert [name for name in written if name.startswith("opshift_")] == [
        f"opshift_{i}_Constant" for i in range(1, 19)
    ]


def test_graphs_in_the_defaults_of_a_function_are_numbered_after_its_nodes():
    model = ModelProto()
    function = model.functions.add(name="f", domain="local")
    function.node.append(helper.make_node("Neg", ["opshift_7_a"], ["opshift_5_b"]))
    inner = helper.make_graph(
        [helper.make_node("Abs", ["opshift_2_c"], ["opshift_9_d"])], "opshift_3_e", [], []
    )
    function.attribute_proto.append(helper.make_attribute("branch", inner))
    names = numbering.number(model, ["opshift_"])
    assert names == {
        "opshift_7_a": "opshift_1_a",
        "opshift_5_b": "opshift_2_b",
        "opshift_2_c": "opshift_3_c",
        "opshift_9_d": "opshift_4_d",
        "opshift_3_e": "opshift_5_e",
    }
    (kept,) = function.attribute_proto
    assert (kept.g.name, list(kept.g.node[0].output)) == ("opshift_5_e", ["opshift_4_d"])


def test_an_annotation_of_a_renamed_value_has_its_new_name():
    model = ModelProto()
    model.graph.node.append(helper.make_node("Neg", ["x"], ["opshift_7_a"]))
    annotation = model.graph.quantization_annotation.add(tensor_name="opshift_7_a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="opshift_7_a")
    assert numbering.number(model, ["opshift_"]) == {"opshift_7_a": "opshift_1_a"}
    assert annotation.tensor_name == "opshift_1_a"
    assert annotation.quant_parameter_tensor_names[0].value == "opshift_1_a"
