"""What is known about values that a step wrote itself."""

import pytest
from conftest import model, ops
from onnx import TensorProto
from opshift import convert_version, schemas
from opshift.adapter import adapter


def test_a_node_with_subgraphs_types_what_it_gives(with_adapters):
    seen = []

    @adapter("Add", 14, 13, emits=("If", "Neg", "Less"))
    def choose(node, op):
        """For this test."""
        a, b = node["A"], node["B"]
        inner = op.graph(
            lambda o: o.If(
                o.Less(a, b),
                then_branch=o.graph(lambda p: p.Neg(a)),
                else_branch=o.graph(lambda p: p.Neg(b)),
            )
        )
        outer = op.If(op.Less(b, a), then_branch=inner, else_branch=op.graph(lambda o: o.Neg(b)))
        return op.Neg(outer)

    @adapter("Neg", 13, 12)
    def look(node, op):
        """For this test."""
        seen.append((node["X"].elem_type, node["X"].rank_or_none))
        return op.same(node)

    with_adapters(choose, look)
    before = model("(float x, float y) => (float z) { z = Add(x, y) }", opset=14)
    after = convert_version(before, 12)
    assert ops(after) == "Less If Neg"
    assert set(seen) == {(TensorProto.FLOAT, 0)}


@pytest.mark.skipif(schemas.latest("") < 23, reason="Attention came with 23")
def test_a_name_of_the_model_is_typed_by_the_node_that_a_step_wrote_for_it():
    heads = "q_num_heads=2, kv_num_heads=2"
    before = model(
        f"(float[2,3,8] q) => (float[2,3,8] y) {{ y, k, v = Attention<{heads}>(q, q, q) }}",
        opset=23,
    )  # inference of Attention does not know k and v
    assert "Exp" not in ops(convert_version(before, 8))  # Softmax stays: its rank is known
