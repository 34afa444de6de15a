# SPDX-License-Identifier: Apache-2.0
"""Operators that a model uses after their deprecation, and calls of very large functions."""

from __future__ import annotations

import pytest
from onnx import ModelProto, helper
from opshift import InvalidModel, check, convert_version, plan
from text_models import model, ops

ENLARGED = "(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Upsample(x, s) }"
SCATTERED = (
    "(float[4] x, int64[1] i, float[1] u) => (float[4] y) { y = Scatter<axis = 0>(x, i, u) }"
)


@pytest.mark.parametrize(
    ("text", "opset", "target", "gives"),
    [
        (ENLARGED, 10, 13, "Resize"),
        (ENLARGED, 13, 14, "Resize"),
        (ENLARGED, 15, 11, "Resize"),
        (ENLARGED, 13, 9, "Upsample"),  # where the operator is still in force
        (SCATTERED, 13, 14, "ScatterElements"),
    ],
)
def test_a_deprecated_operator_is_replaced_where_it_is_met(text, opset, target, gives):
    after = convert_version(model(text, opset), target)
    assert gives in ops(after)
    assert not [f for f in check(after).found if f.level == "error"]


def test_nothing_is_replaced_without_a_conversion():
    before = model(ENLARGED, 13)
    assert convert_version(before, 13) == before


def doubling(depth: int, functions: bool = True) -> ModelProto:
    """Returns functions, each of which calls the next one twice."""
    imports = [helper.make_opsetid("", 13), helper.make_opsetid("d", 1)]

    def function(i):
        call = helper.make_node(f"f{i + 1}", ["a"], ["b"], domain="d")
        again = helper.make_node(f"f{i + 1}", ["b"], ["c"], domain="d")
        nodes = [call, again] if i < depth else [helper.make_node("Softmax", ["a"], ["c"])]
        return helper.make_function("d", f"f{i}", ["a"], ["c"], nodes, imports)

    proto = model("(float[2] x) => (float[2] y) { y = d.f0(x) }", 13, more=', "d" : 1')
    proto.functions.extend(function(i) for i in range(depth + 1))
    return proto


@pytest.mark.parametrize("command", [lambda m: convert_version(m, 12), lambda m: plan(m, 12)])
def test_calls_are_counted_and_not_followed(command):
    with pytest.raises(InvalidModel, match=r"calls in function 'f\d+' of 'd' stand for"):
        command(doubling(60))


def test_a_check_reports_calls_that_stand_for_too_much():
    (finding,) = check(doubling(60)).found
    assert "call the functions less often" in finding.text


def test_a_few_calls_are_followed():
    after = convert_version(doubling(6), 12)
    assert {function.opset_import[0].version for function in after.functions} == {12}


def test_functions_that_call_themselves_are_counted_too():
    proto = doubling(2)
    proto.functions[-1].node[0].CopyFrom(helper.make_node("f0", ["a"], ["c"], domain="d"))
    with pytest.raises(InvalidModel, match="calls itself"):
        convert_version(proto, 12)
