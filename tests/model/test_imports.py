# SPDX-License-Identifier: Apache-2.0
"""Imports are read with one name for each domain, merged, and removed if no node needs them."""

from __future__ import annotations

import pytest
from onnx import FunctionProto, ModelProto, helper
from opshift import InvalidModel
from opshift.model import imports
from opshift.model.document import Document

opset, node = helper.make_opsetid, helper.make_node


def function(*domains: tuple[str, int], nodes=()) -> FunctionProto:
    ids = [opset(*pair) for pair in domains]
    return helper.make_function("own", "F", ["a"], ["b"], [*nodes], ids)


def model(*domains: tuple[str, int], nodes=(), functions=()) -> ModelProto:
    info = [helper.make_tensor_value_info(name, 1, [1]) for name in "xy"]
    graph = helper.make_graph([*nodes] or [node("Relu", ["x"], ["y"])], "g", info[:1], info[1:])
    ids = [opset(*pair) for pair in domains]
    return helper.make_model(graph, opset_imports=ids, functions=[*functions], ir_version=8)


def imported(owner) -> list[tuple[str, int]]:
    return [(entry.domain, entry.version) for entry in owner.opset_import]


def test_versions_are_listed_by_the_usual_name_of_a_domain():
    assert imports.versions(model(("ai.onnx", 13), ("own", 1))) == {"": 13, "own": 1}


def test_each_operator_has_the_versions_of_its_function():
    inner = function(("", 14), nodes=[node("Relu", ["a"], ["b"])])
    outer = node("F", ["x"], ["t"], domain="own"), node("Tanh", ["t"], ["y"])
    proto = model(("", 13), ("own", 1), nodes=outer, functions=[inner])
    listed = [(each.op_type, versions[""]) for each, versions in imports.operators(proto)]
    assert listed == [("Tanh", 13), ("Relu", 14)]
    assert imports.owners(proto) == [proto, inner]


def test_a_domain_that_is_imported_twice_is_merged():
    body = node("Relu", ["a"], ["b"], domain="ai.onnx")
    inner = function(("own", 2), ("own", 2), nodes=[body])
    nodes = [node("Relu", ["x"], ["y"], domain="ai.onnx")]
    proto = model(("ai.onnx", 13), ("own", 1), ("", 13), nodes=nodes, functions=[inner])
    notes = imports.merge(proto)
    assert notes == [
        f"{name} was imported twice; one import was removed" for name in ("ai.onnx", "own")
    ]
    assert imported(proto) == [("", 13), ("own", 1)]
    assert imported(proto.functions[0]) == [("own", 2)]
    assert proto.graph.node[0].domain == proto.functions[0].node[0].domain == ""


def test_imports_that_differ_are_not_merged():
    once = model(("ai.onnx", 13))
    assert imports.merge(once) == []
    assert imported(once) == [("ai.onnx", 13)]
    with pytest.raises(InvalidModel, match=r"ai\.onnx"):
        imports.merge(model(("", 13), ("ai.onnx", 14)))


@pytest.mark.parametrize(
    ("others", "allowed", "kept", "note"),
    [
        ([], [], [], []),
        (["a"], [], [], ["removed the unused import a 1"]),
        (["a", "b"], [], [], ["removed the unused imports a 1, b 1"]),
        (["a", "b"], ["b"], ["b"], ["removed the unused import a 1"]),
    ],
)
def test_imports_that_no_node_needs_are_removed(others, allowed, kept, note):
    document = Document(model(("", 13), *((other, 1) for other in others)))
    assert imports.prune(document, allowed) == note
    assert imported(document.model) == [("", 13), *((other, 1) for other in kept)]
    assert dict(document.imports) == {"": 13, **dict.fromkeys(kept, 1)}


def test_imports_stay_for_functions_and_are_removed_in_them():
    inner = function(("", 13), ("a", 1), nodes=[node("Relu", ["a"], ["b"])])
    call = node("F", ["x"], ["y"], domain="own")
    proto = model(("", 13), ("own", 1), ("b", 1), nodes=[call], functions=[inner])
    document = Document(proto)
    assert imports.prune(document) == ["removed the unused import b 1"]
    assert imported(document.model) == [("", 13), ("own", 1)]
    assert imported(document.model.functions[0]) == [("", 13)]


def test_a_function_keeps_the_import_of_a_function_that_it_calls():
    called = function(("", 13), nodes=[node("Relu", ["a"], ["b"])])
    inner = node("F", ["a"], ["b"], domain="own")
    caller = helper.make_function("own", "G", ["a"], ["b"], [inner], [opset("own", 1)])
    call = node("G", ["x"], ["y"], domain="own")
    document = Document(model(("", 13), ("own", 1), nodes=[call], functions=[called, caller]))
    imports.prune(document)
    assert [imported(f) for f in document.model.functions] == [[("", 13)], [("own", 1)]]


def test_a_model_without_nodes_keeps_its_imports():
    proto = model(("", 13))
    del proto.graph.node[:]
    document = Document(proto)
    assert imports.prune(document) == []
    assert imported(document.model) == [("", 13)]


def test_each_node_of_an_unknown_domain_is_refused():
    nodes = [node("Odd", ["x"], ["t"], name="n", domain="odd"), node("Relu", ["t"], ["y"])]
    (refusal,) = imports.unknown(Document(model(("", 13), ("odd", 3), nodes=nodes)))
    assert (refusal.op, refusal.domain, refusal.boundary) == ("Odd", "odd", (3, 3))
    assert refusal.node == "n"
    assert not imports.unknown(Document(model(("", 13))))
