# SPDX-License-Identifier: Apache-2.0
"""Which element types can occur at all decides which guards are asked."""

from collections.abc import Callable

import pytest
from onnx import TensorProto
from opshift import Refused, convert_version
from opshift.adapter import Builder, Node, Result, adapter
from opshift.author.present_types import collect_present_types
from opshift.model.document import Document
from text_models import model, ops


@adapter("Ceil", 13, 12)
def ceil_13_12(node: Node, op: Builder) -> Result:
    """Makes integers in a model that had none."""
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
    """Asks for the type of something that no schema describes."""
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
