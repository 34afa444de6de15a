# SPDX-License-Identifier: Apache-2.0
"""A refusal that is made from classes is equal to that of each node, in every field and text."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import onnx
import opshift
import opshift_adapters
import pytest
from by_classes import refusal_by_nodes, shown
from click.testing import CliRunner
from onnx import ModelProto
from opshift import Refused, testing
from opshift.adapter import Builder, Node, Result, adapter
from opshift.author import registry
from opshift.cli.entry import main
from opshift.convert import api
from opshift.convert.classes import memo as memos
from opshift.convert.quotient import ClassAnswer, conversion
from opshift.convert.request import Request

from tools.bench.workloads import Graph, model_of, nested, transformer_block

pytestmark = pytest.mark.usefixtures("small_models_go_by_classes")

POWER = "p{0} = Pow(x, e) "
"""Integers to the power of integers have no older form, 12 -> 11."""

POWERS = "(int64[4] x, int64[4] e) => (int64[4] y) {{ {0} y = Identity(p1) }}"


def parsed(text: str, opset: int, ir: int = 8) -> ModelProto:
    """A model of a graph as text."""
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}]> g {text}')


def powers(count: int, opset: int = 13) -> ModelProto:
    """A model with that many refused nodes of one class, which have no names."""
    return parsed(POWERS.format("".join(map(POWER.format, range(count)))), opset)


def named(model: ModelProto, *names: str) -> ModelProto:
    """A model whose nodes have these names, as far as there are any."""
    for node, name in zip(model.graph.node, names, strict=False):
        node.name = name
    return model


def told(model: ModelProto, target: Any, **wishes: Any) -> ClassAnswer:
    """What the classes of a model tell."""
    request = Request.of(target, **wishes)
    return conversion.convert(model.SerializeToString(), request, registry.default())


def by_nodes(model: ModelProto, target: Any, **wishes: Any) -> Refused:
    return refusal_by_nodes(model, Request.of(target, **wishes))


def same(model: ModelProto, target: Any, **wishes: Any) -> Refused:
    """The refusal, which the classes tell as the nodes do; again, and after a pickle."""
    for _ in range(2):
        found = told(model, target, **wishes)
        assert found.refused is not None, found.why
        assert shown(found.refused) == shown(by_nodes(model, target, **wishes))
    with pytest.raises(Refused) as raised:
        opshift.convert(model, target, **wishes)
    assert shown(raised.value) == shown(found.refused)
    assert shown(pickle.loads(pickle.dumps(found.refused))) == shown(found.refused)
    return found.refused


def left_to_nodes(model: ModelProto, target: Any, why: str, **wishes: Any) -> None:
    """The classes do not tell, for this reason."""
    found = told(model, target, **wishes)
    assert (found.refused, found.result) == (None, None)
    assert why in found.why


@pytest.mark.parametrize("target", [11, 9, 7, 5, 1])
def test_all_nodes_of_a_refused_class_are_named(target):
    refused = same(powers(40), target)
    assert [one.node for one in refused.refusals] == [f"p{i}" for i in range(40)]
    assert refused.nearest == {"": 12}


def test_nodes_with_names_are_of_another_class_and_stay_in_order():
    names = [f"node {i}" if i % 3 else "" for i in range(12)]
    refused = same(named(powers(12), *names), 11)
    assert [one.node for one in refused.refusals] == [
        name or f"p{i}" for i, name in enumerate(names)
    ]


def test_a_name_of_several_nodes_is_told_as_often():
    assert len(same(named(powers(3), "one", "one", "two"), 11).refusals) == 3


SEVERAL = """(int64[4] x, int64[4] e, int32[2] z, float[2,2] f, int64[1] i) => (int64[4] y) {
    s0 = Sum(f, f) p0 = Pow(x, e) p1 = Pow(z, z) c0 = Celu(f) p2 = Pow(x, e)
    a0 = SequenceConstruct(f, f) a1 = SequenceAt(a0, i) a2 = Relu(a1)
    y = Add(p0, p2) }"""


def test_several_classes_are_in_the_order_of_the_index():
    refused = same(parsed(SEVERAL, 13), 11)
    assert [one.node for one in refused.refusals] == ["p0", "p2"]
    others = same(parsed(SEVERAL.replace("Pow(z, z)", "Pow(x, x)"), 13), 11)
    assert [one.node for one in others.refusals] == ["p0", "p1", "p2"]


WITH_STEPS = """(float[2,3] x, int64[3] n, int64[3] e) => (float[a,b] y, int64[3] z) {
    axes = Constant<value = int64[1] {1}>()
    a = ReduceSum(x, axes) b = Squeeze(a, axes) c = Unsqueeze(b, axes) d = Softmax(x)
    f = ReduceSum(c, axes) y = Add(f, d) z = Pow(n, e) }"""


def test_the_steps_before_a_refusal_are_told():
    refused = same(parsed(WITH_STEPS, 13), 11)
    assert [(one.start, one.to) for one in refused.steps] == [(13, 12)]
    assert sum(work.count for work in refused.steps[0].rewritten) >= 4


HELD = """(bool c, int64[4] x, int64[4] e) => (int64[4] y) {
    p = Pow(x, e)
    y1 = If(c) <then_branch = t1 () => (int64[4] t) { q1 = Pow(x, e) t = Identity(q1) },
                else_branch = e1 () => (int64[4] u) { u = Pow(e, x) }>
    y2 = If(c) <then_branch = t2 () => (int64[4] v) { q2 = Pow(y1, e) v = Identity(q2) },
                else_branch = e2 () => (int64[4] w) { w = Pow(e, y1) }>
    y = Pow(y2, e) }"""


def test_nodes_in_the_graphs_of_nodes_follow():
    refused = same(parsed(HELD, 13), 11)
    assert [one.node for one in refused.refusals] == ["p", "y", "q1", "u", "q2", "w"]


LOOPED = """(int64 n, bool c, int64[4] x, int64[4] e) => (int64[4] y) {
    y = Loop(n, c, x) <body = b (int64 i, bool k, int64[4] v) => (bool k2, int64[4] w) {
        k2 = Identity(k) p = Pow(v, e) w = Pow(p, e) }> }"""


def test_a_loop_is_looked_into():
    assert [one.node for one in same(parsed(LOOPED, 13), 11).refusals] == ["p", "w"]


@pytest.mark.parametrize("to", [4, 11])
def test_a_workload_with_nested_graphs(to):
    model = nested(13, 40)
    nodes = parsed(POWERS.format("p1 = Pow(x, e) "), 13).graph
    model.graph.input.extend([_called(nodes.input[0], "px"), _called(nodes.input[1], "pe")])
    model.graph.node.append(onnx.helper.make_node("Pow", ["px", "pe"], ["py"], "power"))
    assert [one.node for one in same(model, to).refusals] == ["power"]


def _called(info: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    info.name = name
    return info


# -- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "opset", "to", "detail"),
    [
        (
            "(int4[4] x, float[1] s) => (float[4] y) { y = DequantizeLinear(x, s) }", 21, 20,
            "int4 does not exist there, and 'x' is no constant that another type could hold",
        ),
        (
            "(bfloat16[2] x) => (bfloat16[2] y) { z = Relu(x) y = Softmax<axis = 0>(z) }", 13, 12,
            "Relu-6 does not accept tensor(bfloat16), the type of 'x'",
        ),
        (
            "(int64[5] x) => (int64[a] y, int64[b] z, int64[c] u, int64[d] v)"
            " { y, z, u, v = Split<num_outputs = 4>(x) }", 18, 17,
            "5 elements cannot be split into 4 equal parts",
        ),
        (
            '() => (float[1] y) <string[1] s = {"seven"}> { y = Cast<to = 1>(s) }', 9, 8,
            "could not convert string to float: 'seven'",
        ),
    ],
)  # fmt: skip
def test_what_a_text_tells_of_values_is_that_of_the_row(text, opset, to, detail):
    model = parsed(text, opset, 10)
    assert detail in same(model, to).refusals[0].detail


BINS = """(int64 i, int64 j, int64[3] v) => (float[a,b] y)
    <int64 d = {16}, int64 r = {8000}, float low = {0}, float high = {4000}> {
    k = Add(j, j) m = ArgMax<keepdims = 0>(v)
    a = MelWeightMatrix(i, d, r, low, high) b = MelWeightMatrix(j, d, r, low, high)
    c = MelWeightMatrix(k, d, r, low, high) y = MelWeightMatrix(m, d, r, low, high) }"""


def test_the_reason_why_a_value_is_no_constant_is_that_of_the_row():
    model = named(parsed(BINS, 17), "", "the node")
    assert [one.detail for one in same(model, 16).refusals] == [
        "'i' must be constant, but 'i' is an input",
        "'j' must be constant, but 'j' is an input",
        "'k' must be constant, but 'j' is an input",
        "'m' must be constant, but 'm' is computed by ArgMax 'the node'",
    ]


def test_a_value_without_a_known_shape_has_its_reason():
    """The quotient has a node of no domain for it."""
    text = BINS.replace("int64[3] v)", "int64[3] v, int64[o] s)").replace(
        "m = ArgMax", "t = ArgMax"
    )
    model = parsed(text.replace("y = Mel", "m = Reshape(v, s) y = Mel"), 17)
    assert same(model, 16).refusals[-1].detail.endswith("'m' must be constant, but 'v' is an input")


def test_a_reason_in_what_a_step_has_written_is_left_to_the_nodes():
    text = BINS.replace("ArgMax<keepdims = 0>(v)", "ReduceMax<keepdims = 0>(v, no)")
    text = text.replace("high = {4000}> {", "high = {4000}, int64[1] no = {0}> {")
    left_to_nodes(parsed(text, 18), 16, "what a step has written")


def test_an_initializer_that_callers_may_replace_is_the_reason():
    model = parsed(BINS, 17)
    for name in ("i", "j"):
        model.graph.initializer.append(onnx.helper.make_tensor(name, 7, [], [1]))
    assert "'i' is an initializer that is also a graph input" in same(model, 16).refusals[0].detail


@pytest.mark.parametrize("name", ["k3", "k0i0", "k1o2", "x_k3i0", "k3i0_1", "\u00e9", "a z", "k_"])
def test_a_name_may_be_one_that_the_quotient_uses(name):
    model = parsed(BINS, 17)
    _rename(model, "i", name)
    assert repr(name) in same(model, 16).refusals[0].detail


@pytest.mark.parametrize("name", ["it's", 'a"b', "a\\b", "line\nend", "\u202e"])
def test_a_name_that_texts_show_in_another_form_is_told(name):
    """Only what is put into a text for a name must look like it."""
    model = parsed(BINS, 17)
    _rename(model, "i", name)
    if repr(name) == f"'{name}'":
        same(model, 16)
    else:
        left_to_nodes(model, 16, "a name that a text shows in another form")
        assert shown(by_nodes(model, 16)) == shown(_raised(model, 16))


def _rename(model: ModelProto, old: str, new: str) -> None:
    for node in model.graph.node:
        node.input[:] = [new if one == old else one for one in node.input]
    for info in model.graph.input:
        info.name = new if info.name == old else info.name


def _raised(model: ModelProto, target: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        opshift.convert(model, target)
    return refused.value


# -- what the nodes decide -----------------------------------------------------------------------


def _first(node: Node, op: Builder) -> Result:
    """A test's adapter, which stops reading an input."""
    assert node["B"] is not None
    return op.Neg(node["A"])


LEFT = """(int64[4] x, int64[4] e) => (int64[4] y, int64[4] z, int64[4] w) {
    p = Pow(x, e) y = Add(x, p) z = Pow(e, x) q = Pow(x, e) w = Add(e, q) r = Pow(q, q) }"""


def test_what_nothing_reads_any_more_is_no_blocker(with_adapters):
    """A row that a step stops reading goes before its class is refused."""
    with_adapters(adapter("Add", 14, 13, emits=("Neg",))(_first))
    refused = same(parsed(LEFT, 14), 11)
    assert [one.node for one in refused.refusals] == ["z", "q", "r"]
    assert told(parsed(LEFT.replace("z = Pow(e, x)", "z = Neg(x)"), 14), 11).refused is not None
    gone = LEFT.replace("z = Pow(e, x)", "z = Neg(x)").replace("r = Pow(q, q)", "")
    left_to_nodes(parsed(gone, 14), 11, "nothing reads any more")
    assert len(opshift.convert_version(parsed(gone, 14), 11).graph.node) == 3


def test_another_way_is_left_to_the_nodes():
    text = "(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Upsample<scales = [1., 1., 2., 2.]>(x) }"
    for to in (6, 1):
        found = told(parsed(text, 7), to)
        assert found.refused is None


def test_approximations_that_are_allowed_are_left_to_the_nodes():
    left_to_nodes(powers(3), 11, "approximations", allow_approximate=True)
    assert shown(by_nodes(powers(3), 11, allow_approximate=True))[0]


def test_a_node_budget_counts_for_all_nodes():
    model = parsed(WITH_STEPS, 13)
    assert told(model, 11, node_budget=1000).refused is not None
    left_to_nodes(model, 11, "the node budget", node_budget=1)


def test_a_refusal_of_the_ir_version_is_left_to_the_nodes():
    text = "(float[2] x) => (float8e4m3fn[2] y) { y = Cast<to = 17>(x) }"
    model = parsed(text, 19, 9)
    assert told(model, 21, ir_version=8).refused is None
    assert by_nodes(model, 21, ir_version=8).refusals == _raised_ir(model).refusals


def _raised_ir(model: ModelProto) -> Refused:
    with pytest.raises(Refused) as refused:
        opshift.convert(model, 21, ir_version=8)
    return refused.value


def test_an_older_form_that_changes_nothing_is_no_other_way():
    """No constant has a type that the IR version lacks, so the second way ends as the first."""
    text = "(float8e4m3fn[2] x, float[2] s) => (float[2] y) { y = DequantizeLinear(x, s) }"
    assert same(parsed(text, 19, 9), 13).refusals
    constant = text.replace("{ y", "<float8e4m3fn[2] w = {1, 2}> { z = DequantizeLinear(w, s) y")
    with contextlib.suppress(onnx.parser.ParseError):
        assert told(parsed(constant, 19, 9), 13).refused is None


def test_a_runtime_asks_for_versions():
    refused = same(powers(5), "onnxruntime==1.2")
    assert refused.target[""] < 12
    assert len(refused.refusals) == 5


# -- everything that shows a refusal -------------------------------------------------------------


def _transformer(opset: int, nodes: int) -> ModelProto:
    """A transformer with a refused node in each block."""
    g, x, layer = Graph(opset), "x", 0
    while len(g.nodes) < nodes:
        x = transformer_block(g, x, layer)
        shape = g("Shape", x)
        g("Pow", shape, shape)
        layer += 1
    return model_of(g, {"x": ["b", 3, 4], "mask": ["b", 3]}, {x: ["b", 3, 4]})


@pytest.mark.parametrize("to", [11, 9, 1])
def test_a_transformer_is_refused_by_its_classes(to):
    refused = same(_transformer(13, 400), to)
    assert len(refused.refusals) > 3
    assert refused.steps[0].rewritten


def test_a_fresh_memo_tells_the_same():
    model = _transformer(13, 200)
    first = same(model, 11)
    memos.forget()
    assert shown(same(model, 11)) == shown(first)


def test_a_plan_and_the_reach_are_those_of_the_nodes():
    model = _transformer(13, 400)
    found = opshift.plan(model, 11).to_json(), opshift.lowest_versions(model).to_json()
    with api.node_by_node():
        wanted = opshift.plan(model, 11).to_json(), opshift.lowest_versions(model).to_json()
    assert found == wanted


@pytest.mark.parametrize("form", [["--json"], [], ["-v"]])
def test_the_command_shows_what_it_shows_of_the_nodes(form, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(_transformer(13, 400).SerializeToString())
    words = ["convert", str(path), "-o", str(tmp_path / "o.onnx"), "--to", "11", *form]
    found = CliRunner().invoke(main, words)
    with api.node_by_node():
        wanted = CliRunner().invoke(main, words)
    assert (found.exit_code, found.output) == (wanted.exit_code, wanted.output)
    assert found.exit_code != 0
    assert not Path(tmp_path / "o.onnx").exists()


# -- examples ------------------------------------------------------------------------------------


def _examples() -> Iterator[tuple[ModelProto, Any]]:
    for one, example in testing.examples(opshift_adapters.__name__):
        with contextlib.suppress(onnx.parser.ParseError):  # types that an older onnx lacks
            model = testing.example_model(one, example)
            yield model, testing.example_target(one, example)


@pytest.mark.parametrize("share", range(4))
def test_a_sample_of_the_examples_is_refused_alike(share):
    """Each example to its own target and to a low one; few are refused."""
    sample = Random(share).sample(list(_examples()), 150)
    taken = 0
    for model, own in sample:
        for target in (own, 9, 1):
            found = told(model, target)
            if found.refused is not None:
                assert shown(found.refused) == shown(by_nodes(model, target))
                taken += 1
    assert taken > 3
