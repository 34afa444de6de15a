# SPDX-License-Identifier: Apache-2.0
"""The numbers in new names tell where a result mentions them."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, helper
from opshift.model import numbering


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
