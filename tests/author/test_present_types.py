# SPDX-License-Identifier: Apache-2.0
"""A guard on an element type applies only if the type can occur in the model."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from opshift import Refused, convert_version
from opshift.adapter import Builder, Node, Result, adapter
from opshift.author.present_types import (
    IMPLIED_TYPES,
    attribute_types,
    collect_present_types,
    fixed_types,
)
from opshift.model.document import Document
from opshift.opsets import schemas
from text_models import model, ops


@adapter("Ceil", 13, 12)
def ceil_13_12(node: Node, op: Builder) -> Result:
    """Makes the first integer of the model."""
    whole = op.Neg(op.Cast(node["X"], to=TensorProto.INT16))
    return op.Cast(whole, to=TensorProto.FLOAT)


def test_a_type_that_a_step_brings_in_is_guarded_at_the_next(
    with_adapters: Callable[..., None],
) -> None:
    with_adapters(ceil_13_12)
    before = model("(float[2] x) => (float[2] y) { y = Ceil(x) }", opset=13)
    assert ops(convert_version(before, 6)) == "Cast Neg Cast"
    assert "Neg" not in ops(convert_version(before, 5))


@adapter("Ceil", 13, 12)
def typed_ceil_13_12(node: Node, op: Builder) -> Result:
    """Reads the type of a value that no schema describes."""
    assert node["X"].elem_type == TensorProto.FLOAT
    return op.same(node)


def test_an_unknown_type_is_the_only_one_that_fits_and_occurs(
    with_adapters: Callable[..., None],
) -> None:
    with_adapters(typed_ceil_13_12)
    graph = "(float[2] x, {other}[2] z) => (float[2] y) {{ f = custom.Op(x, z) y = Ceil(f) }}"
    before = model(graph.format(other="int32"), opset=13, more=', "custom" : 1')
    assert ops(convert_version(before, 12)) == "Op Ceil"
    with pytest.raises(Refused, match="element type of 'f' is unknown"):
        convert_version(model(graph.format(other="double"), opset=13, more=', "custom" : 1'), 12)


def test_an_unknown_type_is_that_of_what_it_is_multiplied_with() -> None:
    graph = "(float[2] x, {w}[2,2] w, int32[2] z) => (float[2] y) {{ f = custom.Op(x, z) {y} }}"
    more = ', "custom" : 1'
    floats = graph.format(w="float", y="y = MatMul(f, w)")
    assert ops(convert_version(model(floats, opset=9, more=more), 8)) == "Op MatMul"
    two_unknown = graph.format(
        w="float", y="g = custom.Op(x, z) p = MatMul(f, g) y = custom.Op(p, z)"
    )
    with pytest.raises(Refused, match="element type of 'f' is unknown"):
        convert_version(model(two_unknown, opset=9, more=more), 8)


@pytest.mark.parametrize(
    ("value", "kind"),
    [("value_float=2.0", "float"), ("value_ints=[1]", "int64"), ('value_string="a"', "string")],
)
def test_a_constant_brings_the_type_of_its_value_alone(value: str, kind: str) -> None:
    graph = f"(float16[2] x) => (float16[2] y) {{ c = Constant<{value}>() y = Neg(x) }}"
    assert collect_present_types(Document(model(graph, opset=13))) == {"float16", kind}


def types_of_attributes(node: NodeProto, version: int) -> set[str]:
    schema = schemas.schema(node.domain, node.op_type, version)
    assert schema is not None
    return attribute_types(node, schema) - {""}


EIGHT_BITS = numpy_helper.from_array(np.array([1], np.int8))
SPARSE = helper.make_sparse_tensor(
    numpy_helper.from_array(np.array([1], np.int16), "v"),
    numpy_helper.from_array(np.array([0])),
    [3],
)
STATED = {
    "a number": (helper.make_node("Cast", [], [], to=TensorProto.DOUBLE), 13, {"double"}),
    "a word": (helper.make_node("Cast", [], [], to="FLOAT16"), 1, {"float16"}),
    "a tensor": (helper.make_node("Constant", [], [], value=EIGHT_BITS), 13, {"int8"}),
    "a sparse tensor": (helper.make_node("Constant", [], [], sparse_value=SPARSE), 13, {"int16"}),
    "a type": (
        helper.make_node(
            "Optional",
            [],
            [],
            type=helper.make_sequence_type_proto(helper.make_tensor_type_proto(16, None)),
        ),
        15,
        {"seq", "bfloat16"} | IMPLIED_TYPES,
    ),
    "a tensor of a filled shape": (
        helper.make_node("ConstantOfShape", [], [], value=EIGHT_BITS),
        9,
        {"int8"} | IMPLIED_TYPES,
    ),
    "nothing": (helper.make_node("EyeLike", [], [], k=1), 9, set(IMPLIED_TYPES)),
}


@pytest.mark.parametrize("form", STATED)
def test_a_node_brings_the_types_that_its_attributes_state(form: str) -> None:
    node, version, types = STATED[form]
    assert types_of_attributes(node, version) == types


@pytest.mark.parametrize(
    ("graph", "types"),
    [
        ("(seq(float16[2]) s) => (int64 y) { y = SequenceLength(s) }", {"seq", "float16", "int64"}),
        (
            "(int64[1] s) => (int64[1] y)"
            " { c = ConstantOfShape<value = int8[1] {1}>(s) y = Shape(c) }",
            {"int64", "int8"} | IMPLIED_TYPES,
        ),
    ],
)
def test_a_model_has_the_types_of_its_containers_and_of_filled_shapes(
    graph: str, types: set[str]
) -> None:
    assert collect_present_types(Document(model(graph, opset=13))) == types


def test_an_output_of_two_possible_types_has_the_usual_one() -> None:
    assert fixed_types("ai.onnx.ml", "CategoryMapper", 1) == {"int64"}
    assert fixed_types("", "Shape", 13) == {"int64"}
    assert fixed_types("", "Cast", 13) == frozenset()  # the attribute names it
