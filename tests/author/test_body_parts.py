# SPDX-License-Identifier: Apache-2.0
"""Inference of a function in parts finds what inference of the whole function finds."""

from __future__ import annotations

import pytest
from growth_families import FAMILIES
from onnx import ModelProto, parser
from opshift import check
from opshift.author import piecewise
from opshift.author.body_parts import LongFunctions
from opshift.author.model_bytes import ModelBytes
from opshift.model.functions import functions_of
from opshift.model.walk import graphs_of, reads
from opshift.protos.shape_inference import InferenceError

HEAD = '<ir_version: 9, opset_import: ["": 18, "f": 1]> g '
FUNCTION = '<domain: "f", opset_import: ["": 18, "f": 1]> '


def either(name: str, expression: str) -> str:
    """Returns an If with a value of this name in both branches."""
    inner = f"() => (t_{name}) {{ t_{name} = {expression} }}"
    return f"If(c) <then_branch = t {inner}, else_branch = e {inner}> "


BODIES = {
    "an attribute": "F <axis> (a, c) => (b) { x = Relu(a) y = "
    + either("y", "Neg(x)")
    + "b = Softmax<axis: int = @axis>(y) }",
    "a constant of another part": "F (a, c) => (b) { k = Constant<value = int64[1] {6}>() x = "
    + either("x", "Neg(a)")
    + "b = Reshape(x, k) }",
    "a constant that is an output": "F (a, c) => (k, b)"
    + " { k = Constant<value = int64[1] {6}>() x = "
    + either("x", "Neg(a)")
    + "b = Reshape(x, k) }",
    "an input that is an output": "F (a, c) => (a, b) { x = "
    + either("x", "Neg(a)")
    + "b = Abs(x) }",
    "a value from around a graph": "F (a, c) => (b) { x = Shape(a) y = "
    + either("y", "Identity(x)")
    + "b = Add(x, y) }",
    "an output that is read again": "F (a, c) => (b, d) { b = "
    + either("b", "Neg(a)")
    + "d = Size(b) }",
}
CALLS = {
    "once": "(float[2,3] x, bool c) => ({0}) {{ {0} = f.F{1}(x, c) }}",
    "twice": "(float[2,3] x, bool c) => ({0}) {{ {2} = f.F{1}(x, c) {0} = f.F{1}({3}, c) }}",
    "in a function": "(float[2,3] x, bool c) => ({0}) {{ {0} = f.G(x, c) }}",
    "in a graph": "(float[2,3] x, bool c) => ({0}) {{ {0} = If(c) <then_branch = t () => ({2})"
    " {{ {2} = f.F{1}(x, c) }}, else_branch = e () => ({2}) {{ {2} = f.F{1}(x, c) }}> }}",
}


def called(body: str, call: str) -> ModelProto:
    """Returns a model with a function of `a` and `c`, which a graph or another function calls."""
    text = BODIES[body]
    width = text[: text.index("{")].partition("=>")[2].count(",") + 1
    outputs, inner = (", ".join(names[:width]) for names in (["y", "z"], ["v", "w"]))
    axis, last = "<axis = 0>" if "<axis>" in text else "", ["v", "w"][width - 1]
    around = f"G (a, c) => ({outputs}) {{ {outputs} = f.F{axis}(a, c) }}"
    graph = CALLS[call].format(outputs, axis, inner, last)
    return parser.parse_model(HEAD + graph + FUNCTION + text + FUNCTION + around)


@pytest.fixture
def always_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"MOST_COPIES": -1, "SMALL": 0, "PIECE": 1}.items():
        monkeypatch.setattr(piecewise, name, size)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("body", BODIES)
def test_parts_have_the_types_of_the_whole(
    body: str, call: str, request: pytest.FixtureRequest
) -> None:
    data = ModelBytes(called(body, call).SerializeToString())
    whole = piecewise.infer(data, strict=True)
    request.getfixturevalue("always_in_parts")
    parts = piecewise.infer(data, strict=True)
    assert types(parts) == types(whole)
    assert parts.graph.node == whole.graph.node
    assert parts.functions == whole.functions


def types(proto: ModelProto) -> dict[str, str]:
    """The types by name, without the names of unknown lengths."""
    texts = {}
    for info in (*proto.graph.value_info, *proto.graph.output):
        for dim in info.type.tensor_type.shape.dim:
            dim.ClearField("dim_param")
        texts[info.name] = str(info.type)
    return texts


@pytest.mark.usefixtures("always_in_parts")
def test_a_part_has_few_nodes() -> None:
    proto = called("a value from around a graph", "once")
    cut = LongFunctions(proto, lambda body: body.name == "F", "new_", 1).cut()
    added = [function for function in cut.functions if function.name.startswith("new_")]
    assert [len(function.node) for function in added] == [2, 1]
    assert [node.op_type for node in cut.graph.node] == [function.name for function in added]


@pytest.mark.usefixtures("always_in_parts")
def test_a_fault_in_a_part_is_told_as_a_fault_of_the_function() -> None:
    proto = called("a value from around a graph", "once")
    proto.functions[0].node[-1].op_type = "MatMul"
    proto.functions[0].node[-1].input[:] = ["x", "a"]
    with pytest.raises(InferenceError) as error:
        piecewise.infer(ModelBytes(proto.SerializeToString()), strict=True)
    assert "op_type:F" in str(error.value)
    assert check(proto).fails(strict=False)


@pytest.mark.parametrize("body", BODIES)
def test_a_part_passes_on_only_the_values_that_are_read_later(body: str) -> None:
    proto = called(body, "once")
    function = functions_of(proto)["f", "F", ""]
    (parts,) = LongFunctions(proto, lambda body: body.name == "F", "new_", 1).parts.values()
    assert len(parts) == 2
    constants = {node.output[0] for node in function.node if node.op_type == "Constant"} - {
        *function.output
    }
    later = {*function.output}
    for part in reversed(parts):
        ends = {*function.output} if part is parts[-1] else set()
        read = {name for node in part.node for name in reads(node)}
        written = {name for node in part.node for name in node.output}
        assert {*part.input} <= read - constants | ends
        assert {*part.output} <= later & written | ends
        later |= {*part.input}
    handed = {*function.input}
    for part in parts:
        assert {*part.input} <= handed
        handed |= {*part.output}


@pytest.mark.parametrize(("graphs", "counts"), [(2, [2] * 7), (4, [4, 4, 4, 2]), (5, [6, 6, 2])])
def test_a_part_ends_as_soon_as_it_has_enough_graphs(graphs: int, counts: list[int]) -> None:
    proto = FAMILIES["conditions in a function"](7)
    (parts,) = LongFunctions(proto, lambda body: True, "new_", graphs).parts.values()
    assert [sum(len([*graphs_of(node)]) for node in part.node) for part in parts] == counts


@pytest.mark.parametrize("held", ["input", "output"])
def test_a_call_with_too_many_values_stays(held: str) -> None:
    proto = called("an attribute", "once")
    getattr(proto.graph.node[0], held).append("x")
    cut = LongFunctions(proto, lambda body: True, "new_", 1).cut()
    assert cut.graph.node == proto.graph.node


@pytest.mark.parametrize("place", ["output", "input"])
def test_a_function_with_two_writers_of_a_value_stays_whole(place: str) -> None:
    proto = called("an attribute", "once")
    body = functions_of(proto)["f", "F", ""]
    body.node[0].output[0] = {"output": "y", "input": "a"}[place]
    assert not LongFunctions(proto, lambda function: function.name == "F", "new_", 1).parts


def test_a_function_with_many_graphs_is_long() -> None:
    large = FAMILIES["conditions in a function"](1200)
    assert piecewise.is_slow(ModelBytes(large.SerializeToString()))
    small = FAMILIES["conditions in a function"](400)
    assert not piecewise.is_slow(ModelBytes(small.SerializeToString()))
