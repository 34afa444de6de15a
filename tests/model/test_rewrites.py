# SPDX-License-Identifier: Apache-2.0
"""The rewritten places of a conversion contain the whole difference of the two models."""

from __future__ import annotations

import random
from collections import Counter

import onnx
import opshift
import pytest
from onnx import parser
from opshift.errors import OpshiftError
from opshift.look.drawn import forms
from opshift.model.rewrites import CONSTANT, Body, rewrites

from examples import cases, model_of, too_new

SAMPLE = 150


def nodes_of(container):
    for node in container.node:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from nodes_of(graph)


def bare(node):
    """Returns a node without its subgraphs, whose nodes are counted separately."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for attribute in copy.attribute:
        attribute.ClearField("g")
        attribute.ClearField("graphs")
    return copy.SerializeToString(deterministic=True)


def counted(nodes):
    return Counter(bare(node) for node in nodes)


def constants(model):
    return {
        bare(node)
        for top in (model.graph, *model.functions)
        for node in nodes_of(top)
        if node.op_type == CONSTANT
    }


def flat(nodes):
    """Returns nodes and the nodes of their subgraphs, if the whole node is replaced."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from nodes_of(graph)


def converted():
    """Examples that convert, with their results."""
    chosen = random.Random(7).sample(cases(), SAMPLE)
    for case in chosen:
        if too_new(case) or case.example.refuses or case.example.invalid:
            continue
        model = model_of(case)
        wanted = {case.adapter.domain: case.adapter.to}
        try:
            yield case, model, opshift.convert_version(model, wanted, allow_approximate=True)
        except OpshiftError:
            continue


def test_the_places_are_the_whole_difference():
    seen = 0
    for case, before, after in converted():
        found = list(rewrites(before, after))
        left = counted(nodes_of(before.graph)) + counted(
            n for f in before.functions for n in nodes_of(f)
        )
        came = counted(nodes_of(after.graph)) + counted(
            n for f in after.functions for n in nodes_of(f)
        )
        if any(
            attribute.HasField("g")
            for one in found
            for n in one.removed
            for attribute in n.attribute
        ):
            continue  # what was in a graph that is gone has no place of its own
        removed = counted(node for one in found for node in one.removed)
        written = counted(node for one in found for node in flat(one.written))
        loose = constants(before) | constants(after)
        difference = (left - removed) + written
        strip = {key: n for key, n in difference.items() if key not in loose}
        expected = {key: n for key, n in came.items() if key not in loose}
        if {f.name for f in before.functions} == {f.name for f in after.functions}:
            assert strip == expected, case.id
            seen += bool(found)
    assert seen > 30


def test_a_conversion_that_writes_nothing_has_no_place():
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    assert not list(rewrites(model, opshift.convert_version(model, 14)))
    assert not list(rewrites(model, model))


NESTED = """<ir_version: 8, opset_import: ["": 12]> g (bool c, float[1,2] x) => (float[2] y) {
  y = If (c) <then_branch = t () => (float[2] a) { a = Squeeze<axes=[0]>(x) },
              else_branch = e () => (float[2] b) { n = Neg(x)  b = Squeeze<axes=[0]>(n) }>
}"""


def test_places_in_graphs_of_nodes_are_found():
    model = parser.parse_model(NESTED)
    found = list(rewrites(model, opshift.convert_version(model, 13)))
    assert [[node.op_type for node in one.removed] for one in found] == [["Squeeze"], ["Squeeze"]]
    assert [one.before.container.name for one in found] == ["t", "e"]


@pytest.mark.parametrize("count", [1, 7])
def test_places_of_one_form_are_one_drawing_with_their_number(count):
    body = " ".join(f"y{i} = Squeeze<axes=[{i % 2}]>(x)" for i in range(count))
    ends = ", ".join(f"float y{i}" for i in range(count))
    model = parser.parse_model(
        f'<ir_version: 7, opset_import: ["": 12]> g (float[1,1] x) => ({ends}) {{ {body} z = Relu(x) }}'
    )
    (form,) = forms(model, opshift.convert_version(model, 13))
    assert len(form.places) == count
    (old,), (new,) = form.before.boxes, form.after.boxes
    value = "[0]" if count == 1 else "varies"
    assert f"{count} place" in form.pair().html()
    assert old.holds == new.holds == (("axes", value),)


def test_places_of_different_forms_are_different_drawings():
    model = parser.parse_model(
        '<ir_version: 7, opset_import: ["": 12]> g (float[1,2] x) => (float[2] y, float[2] z)'
        " <float[1,2] k = {1, 2}> { y = Squeeze<axes=[0]>(x)  z = Squeeze<axes=[0]>(k) }"
    )
    found = forms(model, opshift.convert_version(model, 13))
    assert [len(form.places) for form in found] == [1, 1]
    assert sorted(len(form.before.inputs) for form in found) == [0, 1]


def in_function(opset, nodes):
    return parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13, "own": 1]>'
        " g (float[1,2] x) => (float[2] y) { y = own.F(x) }"
        f'<opset_import: ["": {opset}], domain: "own"> F (x) => (y) {{ {nodes} }}'
    )


def test_a_place_in_a_function_has_the_imports_of_the_function():
    before, after = in_function(12, "y = Squeeze<axes=[0]>(x)"), in_function(11, "y = Flatten(x)")
    (place,) = rewrites(before, after)
    assert (place.before.imports[""], place.after.imports[""]) == (12, 11)


def test_a_place_in_a_graph_has_the_imports_of_the_model():
    model = parser.parse_model(NESTED)
    (place, _) = rewrites(model, opshift.convert_version(model, 13))
    assert (place.before.imports[""], place.after.imports[""]) == (12, 13)


def trained(name, **graphs):
    model = onnx.ModelProto()
    for graph, op in ((model.graph, "Neg"), *((None, op) for op in graphs.values())):
        graph = model.training_info.add().algorithm if graph is None else graph
        graph.node.add(op_type=op, input=["x"], output=["y"])
    model.graph.name = name
    for info, graph_name in zip(model.training_info, graphs, strict=True):
        info.algorithm.name = graph_name
    return model


def test_graphs_of_training_are_found_by_name_and_the_main_graph_by_its_position():
    before = trained("g", a="Neg", b="Sin", c="Exp")
    places = list(rewrites(before, trained("h", c="Exp", b="Cos")))
    assert [place.before.container.name for place in places] == ["b"]
    after = trained("h", a="Neg", b="Sin", c="Exp")
    after.graph.node[0].op_type = "Abs"
    places = list(rewrites(before, after))
    assert [place.written[0].op_type for place in places] == ["Abs"]


def test_a_constant_belongs_to_the_nearest_scope_that_defines_its_name():
    outer, inner = onnx.GraphProto(), onnx.GraphProto()
    outer.initializer.add(name="w")
    outer.initializer.add(name="v")
    outer.node.add(op_type=CONSTANT, output=["c"])
    outer.node.add(op_type=CONSTANT)
    outer.node.add(op_type="Neg", output=["n"])
    inner.node.add(op_type="Neg", output=["w", ""])
    inner.initializer.add(name="v")
    around = Body(outer, {})
    inside = Body(inner, {}, around)
    assert around.constant("w") == outer.initializer[0]
    assert inside.constant("w") is None
    assert inside.constant("v") is inside.tensors["v"]
    assert inside.constant("c") == outer.node[0]
    assert around.constant("n") is inside.constant("none") is around.constant("") is None
    assert Body(onnx.FunctionProto(node=[outer.node[0]]), {}).constant("c") == outer.node[0]


def test_a_node_that_two_models_write_apart_is_one_place():
    """Names of only one of the two models connect the nodes of such a place."""
    before, after = (
        parser.parse_model(
            '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y, float[2] z)'
            f" {{ {nodes} }}"
        )
        for nodes in (
            "a = Neg(x) b = Abs(a) y = Exp(b) k = Constant<value_float=1.0>() z = Add(x, k)",
            "c = Sin(x) y = Cos(c) m = Constant<value_float=2.0>() z = Add(x, m)",
        )
    )
    operators = [
        tuple([node.op_type for node in nodes] for nodes in (place.removed, place.written))
        for place in rewrites(before, after)
    ]
    assert operators == [(["Neg", "Abs", "Exp"], ["Sin", "Cos"]), (["Add"], ["Add"])]


def test_functions_of_one_name_differ_by_domain():
    before = onnx.ModelProto()
    for domain in ("one", "two"):
        function = before.functions.add(domain=domain, name="F")
        function.node.add(op_type="Neg", input=["x"], output=["y"])
    after = onnx.ModelProto()
    after.CopyFrom(before)
    after.functions[0].node[0].op_type = "Abs"
    (place,) = rewrites(before, after)
    assert (place.before.container.domain, place.after.container.domain) == ("one", "one")
