# SPDX-License-Identifier: Apache-2.0
"""Declared types of computed values complete and never contradict the inferred ones."""

from __future__ import annotations

import pytest
from onnx import ModelProto, TypeProto, helper
from opshift.author import declared

FLOAT, INT64 = 1, 7
tensor, sequence = helper.make_tensor_type_proto, helper.make_sequence_type_proto
info = helper.make_tensor_value_info
UNKNOWN = TypeProto()


@pytest.mark.parametrize(
    ("inferred", "stated", "result"),
    [
        (None, None, None),
        (UNKNOWN, None, UNKNOWN),
        (None, tensor(FLOAT, [2]), tensor(FLOAT, [None])),
        (UNKNOWN, tensor(FLOAT, [2]), tensor(FLOAT, [None])),
        (tensor(FLOAT, None), tensor(FLOAT, [2]), tensor(FLOAT, [None])),
        (tensor(FLOAT, None), tensor(INT64, [2]), tensor(FLOAT, [None])),
        (tensor(FLOAT, [3]), tensor(FLOAT, [2]), tensor(FLOAT, [3])),
        (tensor(FLOAT, [3]), tensor(INT64, [2, 2]), tensor(FLOAT, [3])),
        (tensor(FLOAT, None), tensor(FLOAT, None), tensor(FLOAT, None)),
        (tensor(0, [3]), tensor(FLOAT, [2]), tensor(FLOAT, [3])),
        (tensor(0, [3]), tensor(FLOAT, None), tensor(FLOAT, [3])),
        (tensor(0, [3]), tensor(0, [2]), tensor(0, [3])),
        (tensor(0, [3]), tensor(0, None), tensor(0, [3])),
        (tensor(0, None), tensor(0, [2]), tensor(0, [None])),
        (sequence(tensor(FLOAT, None)), tensor(FLOAT, [2]), sequence(tensor(FLOAT, None))),
    ],
)
def test_a_type_is_completed_by_the_element_type_and_the_rank(inferred, stated, result):
    copies = [
        proto and TypeProto.FromString(proto.SerializeToString()) for proto in (inferred, stated)
    ]
    assert declared.completed(inferred, stated) == result
    assert copies == [inferred, stated]


def nested(out: TypeProto) -> ModelProto:
    """A model with an If and a Loop, whose graphs declare types."""
    branch = helper.make_graph(
        [helper.make_node("Relu", ["w"], ["b"])], "branch", [], [helper.make_value_info("b", out)]
    )
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Relu", ["s"], ["t"])],
        "body", [info("i", INT64, []), info("c", 9, []), info("s", FLOAT, [5])],
        [info("d", 9, []), info("t", FLOAT, [5])],
    )  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("Loop", ["", "c", "w"], ["z"], body=body),
            helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        ],
        "g", [info("c", 9, []), info("w", FLOAT, [5])],
        [helper.make_value_info("y", out), info("z", FLOAT, [7])],
        [helper.make_tensor("w", FLOAT, [5], [1.0] * 5), helper.make_tensor("v", FLOAT, [1], [1.0])],
        value_info=[info("v", FLOAT, [1]), info("w", FLOAT, [5])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)


def shapes(model: ModelProto) -> dict[str, str]:
    graphs = [model.graph, *(a.g for node in model.graph.node for a in node.attribute)]
    return {
        value.name: str(declared.dims_of(value.type))
        if declared.rank_of(value.type) is not None
        else ""
        for graph in graphs
        for value in (*graph.input, *graph.output)
    }


def test_a_copy_has_no_shapes_of_computed_values():
    model = nested(tensor(FLOAT, [5]))
    for source in (model, model.SerializeToString()):
        copy = declared.without(source)
        assert shapes(copy) == {
            "c": "", "w": "(5,)", "y": "", "z": "", "b": "", "i": "", "s": "", "d": "", "t": "",
        }  # fmt: skip
        assert not copy.graph.value_info
    flat = shapes(declared.without(model, nested=False))
    assert (flat["y"], flat["z"]) == ("", "")
    assert (flat["b"], flat["s"], flat["t"]) == ("(5,)", "(5,)", "(5,)")


@pytest.mark.parametrize(("ir", "kept"), [(3, ["w", "v"]), (4, ["v"])])
def test_an_initializer_that_a_caller_may_replace_is_an_input(ir, kept):
    model = nested(tensor(FLOAT, [5]))
    model.ir_version = ir
    copy = declared.without(model)
    assert [tensor.name for tensor in copy.graph.initializer] == kept
    assert [value.name for value in copy.graph.input] == ["c", "w"]


def test_the_only_initializer_of_a_model_may_become_an_input():
    model = nested(tensor(FLOAT, [5]))
    del model.graph.initializer[1:]
    assert not declared.without(model).graph.initializer


def test_an_initializer_that_training_changes_becomes_an_input():
    model = nested(tensor(FLOAT, [5]))
    model.ir_version = 3
    model.training_info.add().update_binding.add(key="v", value="new")
    graph = declared.without(model).graph
    assert [tensor.name for tensor in graph.initializer] == ["w"]
    assert graph.input[-1] == info("v", FLOAT, [1])


def test_declared_types_that_inference_did_not_find_are_restored():
    model = nested(tensor(FLOAT, [5]))
    inferred = declared.without(model)
    lacks = declared.lacking(inferred, model)
    declared.restore(lacks)
    restored = shapes(inferred)
    assert (restored["y"], restored["b"], restored["s"]) == ("(None,)",) * 3
    assert not declared.lacking(inferred, model)


def test_values_without_a_type_in_the_inferred_model_are_added():
    model = nested(tensor(FLOAT, [5]))
    model.graph.value_info.append(info("inner", FLOAT, [2]))
    inferred = declared.without(model)
    inferred.graph.value_info.add(name="inner")  # without a type
    del inferred.graph.output[1:]
    by_name = {lack.name: lack for lack in declared.lacking(inferred, model, nested=False)}
    assert by_name.keys() == {"y", "z", "inner"}
    assert by_name["z"].found is None
    declared.restore(by_name.values())
    types = {value.name: value.type for value in inferred.graph.value_info}
    assert types == {"inner": tensor(FLOAT, [None]), "z": tensor(FLOAT, [None])}


def test_computed_values_are_no_inputs_or_initializers():
    graph = nested(tensor(FLOAT, [5])).graph
    graph.value_info.add(name="untyped")
    graph.value_info.append(info("c", 9, []))
    assert [value.name for value in declared.computed(graph, nested=False)] == ["y", "z"]
    assert [value.name for value in declared.computed(graph, nested=True)] == ["c", "y", "z", "c"]


@pytest.mark.parametrize(
    ("stated", "inferred", "wrong"),
    [
        ([2], [3], True),
        ([2], [2], False),
        ([2], [2, 3], True),
        ([2], None, False),
        (None, [2], False),
        (["n"], [2], False),
        ([None], [2], False),
        ([2], [None], False),
        ([2], ["other"], False),
        ([2], ["own"], True),
        ([2, 3], [2, 4], True),
    ],
)
def test_a_declared_shape_that_contradicts_inference_is_corrected(stated, inferred, wrong):
    graph = nested(tensor(FLOAT, stated)).graph
    types = {"y": tensor(FLOAT, inferred)}
    names = list(declared.correct(graph, types.get, frozenset({"own"}), nested=False))
    assert names == ["y"] * wrong
    assert graph.output[0].type == tensor(FLOAT, inferred if wrong else stated)
