# SPDX-License-Identifier: Apache-2.0
"""Tests the new names of values in subgraphs, and that each reader uses them."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper
from opshift.model.document import Document
from opshift.model.unique_names import make_unique
from text_models import model

REPEATED = {
    "the output of its node": (
        "y = If(c) <then_branch = t () => (y) { y = Neg(x) }, else_branch = e () => (k) { k = Abs(x) }>",
        ["y"],
        "y = If(c) <then_branch = t () => (y_1) { y_1 = Neg(x) }, else_branch = e () => (k) { k = Abs(x) }>",
    ),
    "a later value": (
        "h = If(c) <then_branch = t () => (p) { y = Neg(x) p = Abs(y) }, else_branch = e () => (k) { k = Abs(x) }> y = Neg(h)",
        ["y"],
        "h = If(c) <then_branch = t () => (p) { y_1 = Neg(x) p = Abs(y_1) }, else_branch = e () => (k) { k = Abs(x) }> y = Neg(h)",
    ),
    "graphs in each other": (
        """y = If(c) <then_branch = t () => (y) {
              y = If(c) <then_branch = t () => (y) { y = Neg(x) }, else_branch = e () => (h) { h = Neg(x) }> },
            else_branch = e () => (h) { h = Neg(x) }>""",
        ["y", "y"],
        """y = If(c) <then_branch = t () => (y_1) {
              y_1 = If(c) <then_branch = t () => (y_2) { y_2 = Neg(x) }, else_branch = e () => (h) { h = Neg(x) }> },
            else_branch = e () => (h) { h = Neg(x) }>""",
    ),
    "a value that an inner graph captures": (
        """h = If(c) <then_branch = t () => (p) { y = Neg(x)
              p = If(c) <then_branch = u () => (q) { q = Abs(y) }, else_branch = v () => (r) { r = Neg(y) }> },
            else_branch = e () => (k) { k = Abs(x) }> y = Neg(h)""",
        ["y"],
        """h = If(c) <then_branch = t () => (p) { y_1 = Neg(x)
              p = If(c) <then_branch = u () => (q) { q = Abs(y_1) }, else_branch = v () => (r) { r = Neg(y_1) }> },
            else_branch = e () => (k) { k = Abs(x) }> y = Neg(h)""",
    ),
    "an input of a body": (
        "h = Loop(n, c, x) <body = b (int64 i, bool g, float[2] y) => (bool on, o) { on = Identity(g) o = Neg(y) }> y = Neg(h)",
        ["y"],
        "h = Loop(n, c, x) <body = b (int64 i, bool g, float[2] y_1) => (bool on, o) { on = Identity(g) o = Neg(y_1) }> y = Neg(h)",
    ),
    "a taken number": (
        "y_1 = Neg(x) y = If(c) <then_branch = t () => (y) { y = Neg(y_1) }, else_branch = e () => (k) { k = Abs(x) }>",
        ["y"],
        "y_1 = Neg(x) y = If(c) <then_branch = t () => (y_2) { y_2 = Neg(y_1) }, else_branch = e () => (k) { k = Abs(x) }>",
    ),
    "graphs next to each other": (
        "y = If(c) <then_branch = t () => (k) { k = Neg(x) }, else_branch = e () => (k) { k = Abs(x) }>",
        [],
        "y = If(c) <then_branch = t () => (k) { k = Neg(x) }, else_branch = e () => (k) { k = Abs(x) }>",
    ),
}


def around(nodes: str) -> onnx.ModelProto:
    return model(f"(float[2] x, bool c, int64 n) => (float[2] y) {{ {nodes} }}", 13)


@pytest.mark.parametrize("case", REPEATED)
def test_a_repeated_name_becomes_a_new_one(case):
    before, names, after = REPEATED[case]
    proto = around(before)
    assert make_unique(proto) == names
    assert proto == around(after)
    assert make_unique(proto) == []


def test_initializers_and_declarations_get_the_new_name():
    proto = around(REPEATED["the output of its node"][0].replace("Neg(x)", "Add(x, c)"))
    inner = proto.graph.node[0].attribute[0].g
    inner.initializer.append(helper.make_tensor("c", TensorProto.FLOAT, [1], [1.0]))
    inner.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]))
    assert make_unique(proto) == ["c", "y"]
    assert [tensor.name for tensor in inner.initializer] == ["c_1"]
    assert [value.name for value in inner.value_info] == ["y_1"]
    assert list(inner.node[0].input) == ["x", "c_1"]


def test_a_subgraph_of_a_function_gets_new_names_too():
    body = REPEATED["the output of its node"][0]
    proto = model(
        f"(float[2] x, bool c) => (float[2] y) {{ y = acme.f(x, c) }}"
        f' <domain: "acme", opset_import: ["" : 13]> f (x, c) => (y) {{ {body} }}',
        13,
    )
    assert make_unique(proto) == ["y"]
    scopes = Document(proto).scopes()
    assert any("y_1" in scope.producers for scope in scopes)
