# SPDX-License-Identifier: Apache-2.0
"""The values that attribute references can have."""

import opshift
import pytest
from onnx import ModelProto, helper, parser


def test_values_behind_references_are_checked_like_written_ones() -> None:
    def einsum(*, default: bool, levels: int = 1, left_out: bool = True) -> ModelProto:
        node = helper.make_node("Einsum", ["a"], ["b"])
        node.attribute.add(name="equation", ref_attr_name="eq", type=3)
        imports = [helper.make_opsetid("", 13), helper.make_opsetid("f", 1)]
        given = {"attribute_protos": [helper.make_attribute("eq", "i.j->i")]}
        bound = given if default else {"attributes": ["eq"]}
        functions = [helper.make_function("f", "F0", ["a"], ["b"], [node], imports, **bound)]
        for i in range(1, levels):
            call = helper.make_node(f"F{i - 1}", ["a"], ["b"], domain="f")
            call.attribute.add(name="eq", ref_attr_name="eq", type=3)
            functions.append(
                helper.make_function("f", f"F{i}", ["a"], ["b"], [call], imports, attributes=["eq"])
            )
        own = {} if default and left_out else {"eq": "ij->i" if default else "i.j->i"}
        call = helper.make_node(f"F{levels - 1}", ["x"], ["y"], domain="f", **own)
        made = parser.parse_model(
            '<ir_version: 9, opset_import: ["": 13, "f": 1]> g (float[3,4] x) => (float y) { }'
        )
        made.graph.node.append(call)
        made.functions.extend(functions)
        return made

    for made in (einsum(default=True), einsum(default=False), einsum(default=False, levels=4)):
        found = [one for one in opshift.check(made).found if one.rule == "ATTRIBUTE_VALUE"]
        assert len(found) == 1
        with pytest.raises(opshift.InvalidModel, match="not an ellipsis"):
            opshift.convert_version(made, 12)
    fine = einsum(default=True, left_out=False)
    assert not [one for one in opshift.check(fine).found if one.rule == "ATTRIBUTE_VALUE"]
