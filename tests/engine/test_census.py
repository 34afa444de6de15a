"""Which element types can occur at all decides which guards are asked."""

from collections.abc import Callable

from conftest import model, ops
from onnx import TensorProto
from opshift import convert_version
from opshift.adapter import Builder, Node, Result, adapter


@adapter("Ceil", 13, 12, emits=("Cast", "Neg"))
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
