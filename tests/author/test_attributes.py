# SPDX-License-Identifier: Apache-2.0
"""Attributes get the type that their schema states."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from onnx import AttributeProto, SparseTensorProto, helper, numpy_helper
from opshift.author.attributes import CONSTANT_FORMS, is_default, make_attribute, make_attributes
from opshift.opsets import schemas

GRAPH = helper.make_graph([], "g", [], [])
TENSOR = numpy_helper.from_array(np.ones(2, np.float32))
TYPE = helper.make_tensor_type_proto(1, [2])


@pytest.mark.parametrize(
    ("op", "name", "value", "result"),
    [
        ("Gemm", "alpha", 2, 2.0),
        ("Gemm", "alpha", np.float32(1.5), 1.5),
        ("Gemm", "transA", True, 1),
        ("Gemm", "transA", np.int64(1), 1),
        ("Resize", "mode", "linear", b"linear"),
        ("Resize", "mode", b"linear", b"linear"),
        ("Constant", "value", np.ones(2, np.float32), TENSOR),
        ("Constant", "value", TENSOR, TENSOR),
        ("Constant", "value_ints", np.array([1, 2]), [1, 2]),
        ("Constant", "value_ints", (np.int32(1), True), [1, 1]),
        ("Constant", "value_floats", [1, np.float64(2)], [1.0, 2.0]),
        ("Constant", "value_floats", np.array([1, 2]), [1.0, 2.0]),
        ("Constant", "value_strings", ["a", b"b"], [b"a", b"b"]),
        ("Constant", "sparse_value", SparseTensorProto(dims=[2]), SparseTensorProto(dims=[2])),
        ("If", "then_branch", GRAPH, GRAPH),
        ("Optional", "type", TYPE, TYPE),
    ],
)
def test_a_value_becomes_what_the_schema_states(op, name, value, result):
    schema = schemas.schema("", op, 18)
    made = make_attribute(schema, name, value)
    assert (made.name, made.type) == (name, schema.attributes[name].kind)
    assert helper.get_attribute_value(made) == result
    renamed = make_attribute(schema, "other", made)
    assert (renamed.name, made.name) == ("other", name)
    assert helper.get_attribute_value(renamed) == result


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, AttributeProto.INT),
        (1.0, AttributeProto.FLOAT),
        ("a", AttributeProto.STRING),
        ([1], AttributeProto.INTS),
        (np.ones(1), AttributeProto.TENSOR),
    ],
)
def test_without_a_stated_type_the_value_decides(value, kind):
    schema = dataclasses.replace(schemas.schema("", "Gemm", 13), stated=False)
    assert make_attribute(schema, "alpha", value).type == kind


def test_values_that_are_none_are_left_out():
    schema = schemas.schema("", "Gemm", 13)
    made = make_attributes(schema, {"alpha": None, "transA": 0, "transB": 1})
    assert [(attribute.name, attribute.i) for attribute in made] == [("transA", 0), ("transB", 1)]


def test_the_forms_of_constant_have_the_type_of_their_attribute():
    attributes = schemas.schema("", "Constant", 13).attributes
    others = {"value", "sparse_value"}
    assert CONSTANT_FORMS.keys() == attributes.keys() - others


@pytest.mark.parametrize(
    ("op", "proto", "default"),
    [
        ("Gemm", helper.make_attribute("alpha", 1.0), True),
        ("Gemm", helper.make_attribute("alpha", 2.0), False),
        ("Gemm", helper.make_attribute("unknown", 1.0), False),
        ("Gemm", AttributeProto(name="alpha", type=1, ref_attr_name="a", f=1.0), False),
        ("Resize", helper.make_attribute("mode", "nearest"), True),
        ("Resize", helper.make_attribute("mode", "linear"), False),
        ("TopK", helper.make_attribute("axis", -1), True),
    ],
)
def test_an_attribute_with_its_default_can_be_omitted(op, proto, default):
    assert is_default(schemas.schema("", op, 18), proto) == default
    assert not is_default(None, proto)
