# SPDX-License-Identifier: Apache-2.0
"""A conversion by classes gives what the conversion of each node gives."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import onnx
import opshift
import opshift_adapters
import pytest
from by_classes import why_not
from onnx import ModelProto, TensorProto, helper, numpy_helper
from opshift import InvalidModel, convert_version, testing
from opshift.author import registry
from opshift.author.node import Value
from opshift.convert import api
from opshift.convert.classes import memo as memos
from opshift.convert.classes import proof
from opshift.convert.classes.rows import LARGE
from opshift.convert.look import rehearse
from opshift.convert.quotient import class_plan, conversion
from opshift.convert.quotient.template import Answer
from opshift.convert.request import Request
from opshift.model import arrays
from opshift.model.weights import carve_model
from opshift.report import Report

from tools.bench.workloads import layers, nested, transformer

WORKLOADS = [
    pytest.param(build, nodes, start, to, id=f"{build.__name__} {start} to {to}")
    for build, nodes in ((transformer, 120), (layers, 40), (nested, 80))
    for start, to in ((13, 18), (11, 21), (21, 13), (7, 28), (9, 10), (18, 9), (13, 8), (18, 7))
]


pytestmark = pytest.mark.usefixtures("small_models_go_by_classes")


def by_classes(model: ModelProto, to: int) -> tuple[ModelProto, Report] | None:
    found = conversion.convert(model.SerializeToString(), Request(to), registry.default()).result
    return None if found is None else (ModelProto.FromString(found[0]), found[1])


def by_nodes(model: ModelProto, to: int) -> tuple[ModelProto, Report]:
    with api.node_by_node():
        found = opshift.convert(model, to)
    return found.model, found.report


def plain(model: ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


def assert_same(model: ModelProto, to: int, *, taken: bool = False) -> bool:
    """Both ways agree about the model and the report; says if the classes told the answer."""
    found = by_classes(model, to)
    assert found is not None or not taken
    if found is None:
        return False
    wanted, report = by_nodes(model, to)
    assert plain(found[0]) == plain(wanted)
    assert found[1].as_dict() == report.as_dict()
    onnx.checker.check_model(found[0], full_check=True)
    return True


def forget() -> None:
    memos.forget()


TAKEN_NOT = {
    ("transformer", 18, 9), ("transformer", 7, 28), ("nested", 7, 28),
    ("transformer", 13, 8), ("transformer", 18, 7), ("nested", 18, 7),
}  # fmt: skip


@pytest.mark.parametrize(("build", "nodes", "start", "to"), WORKLOADS)
def test_a_workload_has_one_result(build, nodes, start, to, monkeypatch):
    if to > onnx.defs.onnx_opset_version():
        pytest.skip("the installed onnx does not know this opset")
    taken = (build.__name__, start, to) not in TAKEN_NOT
    assert_same(build(start, nodes), to, taken=taken)


@pytest.fixture
def without_numpy(monkeypatch):
    """A process in which values are not folded before somebody asks; lists when that is."""
    asked: list[bool] = []
    monkeypatch.setattr(arrays, "is_loaded", lambda: bool(asked))
    monkeypatch.setattr(arrays, "load", lambda: asked.append(True))
    forget()
    yield asked
    forget()


@pytest.mark.parametrize(("to", "folds"), [(18, False), (9, True)])
def test_values_are_folded_where_a_step_asks_for_them(without_numpy, to, folds):
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 13]> g (float[2,3,4] x) => (float[2,3,1,4] y, float[2] z)
        { s = Shape(x) zero = Constant<value_ints=[0]>() two = Gather(s, zero)
        y = Unsqueeze(x, two) z = ReduceMax<axes=[1,2],keepdims=0>(x) }"""
    )
    assert_same(made, to, taken=True)
    assert bool(without_numpy) == folds


def _examples() -> Iterator[tuple[ModelProto, int]]:
    for adapter, example in testing.examples(opshift_adapters.__name__):
        target = testing.example_target(adapter, example)
        to = target.get("", 0) if isinstance(target, dict) else 0
        if to and not example.approximate:
            with contextlib.suppress(onnx.parser.ParseError):  # types that an older onnx lacks
                yield testing.example_model(adapter, example), to


@pytest.mark.parametrize("share", range(4))
def test_a_sample_of_the_examples_has_one_result(share, monkeypatch):
    """The examples of the adapters; `python -m tools.corpus replay` compares all, and real models."""
    sample = Random(share).sample(list(_examples()), 60)
    taken = 0
    for model, to in sample:
        try:
            taken += assert_same(model, to)
        except opshift.OpshiftError:
            continue  # the classes do not tell, and the nodes say why
    assert taken > 5


def test_nodes_that_several_classes_write_are_of_their_classes():
    """The names that the steps give stay as they are until each node has its class."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[2,3,4] x) => (float[2,3,4] y) <float[4] s = {1, 2, 3, 4}, float[4] b = {0, 1, 0, 1}> {
        a = Add(x, x)
        n = LayerNormalization(a, s, b)
        c = Mul(n, a)
        y = LayerNormalization <epsilon = 0.5> (c, s)
    }"""
    assert_same(onnx.parser.parse_model(text), 13, taken=True)


@pytest.mark.parametrize("to", [10, 11, 18, 21])
def test_a_constant_with_a_large_payload_is_of_a_class(to, monkeypatch):
    """Its payload is carved; two payloads of one type are one class and stay apart."""
    values = [np.full((2000,), at, np.float32) for at in (1, 2, 3)]
    nodes = [
        helper.make_node("Constant", [], [f"c{i}"], value=numpy_helper.from_array(one))
        for i, one in enumerate(values)
    ]
    nodes += [
        helper.make_node("Add", [f"y{i}" if i else "x", f"c{i}"], [f"y{i + 1}"]) for i in range(3)
    ]
    io = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2000]) for name in ("x", "y3")]
    graph = helper.make_graph(nodes, "g", io[:1], io[1:])
    imports = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    found = opshift.convert(model, to)
    wanted, report = by_nodes(model, to)
    assert plain(found.model) == plain(wanted)
    assert found.report.as_dict() == report.as_dict()
    skeleton, _ = carve_model(model)
    assert by_classes(skeleton, to) is not None


def test_the_result_does_not_depend_on_what_is_remembered(monkeypatch):
    model = transformer(11, 120)
    forget()
    first = by_classes(model, 21)
    again = by_classes(model, 21)
    other = by_classes(layers(11, 30), 21)
    assert other is not None
    mixed = by_classes(model, 21)
    assert first is not None
    assert again is not None
    assert mixed is not None
    for found in (again, mixed):
        assert found[0].SerializeToString() == first[0].SerializeToString()
        assert found[1] == first[1]


def test_a_fresh_process_gives_the_same_bytes(tmp_path):
    model = layers(11, 40)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    assert by_classes(transformer(11, 60), 21) is not None
    mine = opshift.convert_version(model, 21).SerializeToString(deterministic=True)
    code = (
        "import sys, onnx, opshift;"
        "m = opshift.convert_version(onnx.load(sys.argv[1]), 21);"
        "sys.stdout.buffer.write(m.SerializeToString(deterministic=True))"
    )
    args = [sys.executable, "-c", code, str(tmp_path / "model.onnx")]
    assert subprocess.run(args, check=True, stdout=subprocess.PIPE).stdout == mine


def test_a_memo_that_begins_anew_changes_nothing(monkeypatch):
    model = transformer(13, 120)
    forget()
    first = by_classes(model, 18)
    monkeypatch.setattr(memos, "MOST_CLASSES", 3)
    for _ in range(3):
        found = by_classes(model, 18)
        assert first is not None
        assert found is not None
        assert found[0] == first[0]
    held = memos.memo((("", 13),), model.ir_version, registry.default())
    assert len(held.classes) < 200


def test_threads_share_a_memo():
    model, results = transformer(13, 120), []
    forget()

    def work() -> None:
        results.append(by_classes(model, 18))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    taken = [one for one in results if one is not None]
    assert taken
    assert all(one == taken[0] for one in taken)


@pytest.mark.parametrize(("start", "to"), [(13, 18), (11, 21), (21, 13)])
def test_what_the_schemas_prove_to_stay_a_conversion_keeps(start, to, monkeypatch):
    """A step counts it as kept, and writes and asks nothing."""
    asked: list[dict[class_plan.Key, Answer]] = []
    known = class_plan.ClassPlan._idle

    def watched(plan, keys, ir_version):
        found = known(plan, keys, ir_version)
        plan._learn(list(found), ir_version)
        asked.extend([found, {key: plan.answers[key] for key in found}])
        return found

    monkeypatch.setattr(class_plan.ClassPlan, "_idle", watched)
    forget()
    assert by_classes(transformer(start, 120), to) is not None
    without_numbers = [{key: _kept(one) for key, one in found.items()} for found in asked]
    assert len(asked[0]) > 3
    assert without_numbers[0::2] == without_numbers[1::2]


def _kept(answer: Answer) -> Answer:
    """The answer without the numbers of the steps."""
    kept = sorted(((0, *where[1:]), op, count) for where, op, count in answer.kept)
    return dataclasses.replace(answer, kept=tuple(kept))


def test_neighbours_do_not_change_the_answer(monkeypatch):
    """Two nodes of one class with different neighbours, and each alone."""
    template = layers(11, 30)
    for position in range(0, len(template.graph.node), 3):
        model = ModelProto()
        model.CopyFrom(template)
        node = model.graph.node[position]
        extra = helper.make_node("Identity", [node.output[0]], ["other"], "other")
        model.graph.node.insert(position + 1, extra)
        types = {
            one.name: one.type for one in onnx.shape_inference.infer_shapes(model).graph.value_info
        }
        model.graph.output.add(name="other").type.CopyFrom(types["other"])
        assert_same(model, 21, taken=True)


def test_a_value_that_a_step_makes_constant_is_left_to_the_nodes():
    """No class of a reader knows what the step made of the node before it."""
    text = '<ir_version: 8, opset_import: ["": 18]> g (int32[3] x) => (int32[3] y) '
    text += "<int32[3] c = {1, 2, 3}> { m = BitwiseNot(c) n = BitwiseNot(m) y = Add(x, n) }"
    model = onnx.parser.parse_model(text)
    found = conversion.convert(model.SerializeToString(), Request(9), registry.default())
    assert found.result is None
    assert found.why == "a value that a step makes constant"
    assert plain(convert_version(model, 9)) == plain(by_nodes(model, 9)[0])


def _pair(op: str, opset: int, **attributes: object) -> ModelProto:
    nodes = [
        helper.make_node(op, ["x"], ["y"], "a", **attributes),
        helper.make_node(op, ["y"], ["z"], "b", **attributes),
    ]
    last = 1 if op == "ReduceMean" else 4
    graph = helper.make_graph(
        nodes, "pair",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 4])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 3, last])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("name", ["", "same"])
def test_names_of_nodes_are_part_of_the_answer(name, monkeypatch):
    model = _pair("ReduceMean", 13, axes=[2], keepdims=1)
    for node in model.graph.node:
        node.name = name
    assert_same(model, 18, taken=True)


def test_metadata_and_unknown_fields_stay(monkeypatch):
    model = _pair("ReduceMean", 13, axes=[2], keepdims=1)
    model.ir_version = 10
    model.graph.node[0].doc_string = "a note"
    model.graph.node[0].metadata_props.add(key="k", value="v")
    model.graph.metadata_props.add(key="k", value="v")
    for to in (18, 21):
        assert_same(model, to, taken=True)


def test_a_constant_that_only_replaced_nodes_read_goes(monkeypatch):
    model = _pair("Relu", 21)
    shape = numpy_helper.from_array(np.array([2], np.int64), "axes")
    model.graph.initializer.append(shape)
    model.graph.node[0].CopyFrom(
        helper.make_node("ReduceMean", ["x", "axes"], ["y"], "a", keepdims=1)
    )
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 1
    assert_same(model, 13, taken=True)
    found = by_classes(model, 13)
    assert found is not None
    assert not found[0].graph.initializer


SEEN = {
    "axis": "axis",
    "type": "17->18",
    "undefined": "17->18, .* on ReduceMean 'a': .*reads 'nobody', which nothing defines",
    "foreign": "ReduceMean 'a'",
}


@pytest.mark.parametrize("damage", ["axis", "type", "undefined", "foreign"])
def test_the_bug_of_an_adapter_is_seen_at_its_step(damage, monkeypatch):
    """The engine names the boundary, the adapter and the node, as without classes."""
    known = registry.default()
    adapter = known.get("", "ReduceMean", 17, 18)
    assert adapter is not None

    def wrong(node, op):
        node.carried()  # what it overlooks is not the damage that is looked for
        if damage == "axis":
            return op.same(node, inputs={"axes": op.const([7])}, axes=None)
        if damage == "type":
            return op.Cast(node["data"], to=TensorProto.INT32)
        if damage == "foreign":
            return op.MatMulInteger(node["data"], node["data"])
        return op.same(node, inputs={"axes": Value("nobody", op.env)}, axes=None)

    forget()
    monkeypatch.setattr(type(adapter), "__call__", lambda self, node, op: wrong(node, op))
    with pytest.raises(opshift.OpshiftError, match=SEEN[damage]):
        opshift.convert_version(_pair("ReduceMean", 17, axes=[2], keepdims=1), 18)
    forget()


def test_a_refusal_names_every_node_of_a_class():
    graph = helper.make_graph(
        [helper.make_node("Det", [f"x{i}"], [f"y{i}"], f"n{i}") for i in range(3)], "refused",
        [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [5, 9, 9]) for i in range(3)],
        [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [5]) for i in range(3)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    with pytest.raises(opshift.Refused) as caught:
        opshift.convert_version(model, 9)
    assert sorted({one.node for one in caught.value.refusals}) == ["n0", "n1", "n2"]


def test_what_stays_with_the_nodes_is_told():
    """Requests, functions and graphs in attributes that classes do not answer."""
    model = layers(11, 20)
    data = model.SerializeToString()
    for request in (
        Request(21, check="full"),
        Request(21, check="none"),
        Request({"ai.onnx.ml": 1}),
    ):
        told = conversion.convert(data, request, registry.default())
        assert told == (None, False, "the request", None)
    low = conversion.convert(data, Request(5), registry.default())
    assert (low.result, low.refused, low.why.partition(",")[0]) == (None, None, "the request")
    assert conversion.convert(data, Request(11), registry.default()) == (
        None,
        True,
        "versions",
        None,
    )


def test_a_rule_that_the_model_breaks_is_noted(monkeypatch):
    model = layers(13, 30)
    model.domain = "nowhere"
    assert_same(model, 18, taken=True)
    (note,) = opshift.convert(model, 18).report.notes
    assert "'nowhere' is no reverse DNS name" in note


def test_an_import_without_a_version_stays_as_it_is():
    model = layers(13, 30)
    model.opset_import.add(domain="com.acme")
    assert_same(model, 18, taken=True)


def test_external_data_holds_up_the_ir_version():
    model = parsed("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", 13)
    (weight,) = model.graph.initializer
    weight.ClearField("raw_data")
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights")
    found = by_classes(model, 8)
    assert found is not None
    assert found[1].as_dict() == by_nodes(model, 8)[1].as_dict()
    assert any("external data" in note for note in found[1].notes)


@pytest.mark.parametrize(
    "name",
    [
        "text_that_is_not_utf8_by_classes",
        "graph_name_that_is_not_utf8",
        "graph_attribute_without_graph",
    ],
)
def test_a_broken_node_has_no_class(name):
    """The way node by node finds the words."""
    frozen = Path(__file__).parents[1] / "corpus" / "fuzz" / f"{name}.json"
    broken = ModelProto.FromString(base64.b64decode(json.loads(frozen.read_text())["model"]))
    assert by_classes(broken, 13) is None
    with pytest.raises(opshift.InvalidModel):
        opshift.convert(broken, 13)


def parsed(text: str, opset: int) -> ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')


def test_what_a_node_computes_of_an_input_is_no_constant_whatever_it_is_added_to():
    """The class of a Gelu does not hold the bias before it, and need not ask for it."""
    bias = numpy_helper.from_array(np.ones(40, np.float32), "b")
    model = parsed("g (float[n,40] x) => (float[n,40] y) { a = Add(b, x) y = Gelu(a) }", 20)
    model.graph.initializer.append(bias)
    assert_same(model, 13, taken=True)


RESHAPED = """g (float[n,6] x, int64[1] k) => (float[a,b] y) <int64[1] r = {%d}> {
    s = Concat<axis=0>(%s) y = Reshape<allowzero=1>(x, s) }"""


@pytest.mark.parametrize(("given", "stays"), [("k, r", False), ("k, k", True)])
def test_the_producer_of_a_value_is_part_of_a_class(given, stays):
    """`allowzero` goes where a -1 is among the sizes, whichever of both was seen before."""
    for model in (parsed(RESHAPED % (-1, "k, r"), 14), parsed(RESHAPED % (3, given), 14)):
        assert_same(model, 18, taken=True)
    model = parsed(RESHAPED % (-1, given), 14)
    assert_same(model, 18, taken=True)
    found = by_classes(model, 18)
    assert found is not None
    assert any(one.name == "allowzero" for one in found[0].graph.node[-1].attribute) == stays


def test_an_adapter_that_compares_values_of_a_neighbour_looks_at_each_node(monkeypatch):
    adapter = registry.default().get("", "ReduceMean", 17, 18)
    assert adapter is not None
    asked = []

    def look(node, op):
        producer = node["data"].producer
        asked.append(producer.inputs[0].is_same(node["data"]))
        return op.same(node, inputs={"axes": op.const(node.ints("axes"))}, axes=None)

    forget()
    monkeypatch.setattr(type(adapter), "__call__", lambda self, node, op: look(node, op))
    text = "g (int64[3] x) => (int64[1] y) { a = Neg(x) y = ReduceMean<axes=[0]>(a) }"
    assert by_classes(parsed(text, 17), 18) is None
    assert asked
    forget()


LENGTHS = """g (float[%s,3] x, int64[2] s) => (float[a,b] y) <float[2,3] v, float[2,3] w> {
    v = Reshape(x, s) w = Neg(x) u = Add(v, w) z = ReduceMean<axes=[1]>(u) y = Neg(z) }"""


@pytest.mark.parametrize(("first", "taken"), [("2", True), ("n", False)])
def test_declared_lengths_stay_unless_the_inputs_contradict_them(first, taken):
    """The symbol of an input stands for any number, and a class does not know symbols."""
    model = parsed(LENGTHS % first, 13)
    assert assert_same(model, 18) == taken
    if not taken:
        found = opshift.convert(model, 18)
        assert any("contradict the inputs" in note for note in found.report.notes)


def test_a_declared_weight_is_a_weight():
    model = parsed("g (float[n,4] x) => (float[n,4] y) { y = LayerNormalization(x, s) }", 17)
    scale = numpy_helper.from_array(np.ones(4, np.float32), "s")
    model.graph.initializer.append(scale)
    model.graph.value_info.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [4]))
    assert_same(model, 13, taken=True)


def test_nodes_that_are_out_of_order_are_sorted_before_they_have_classes():
    model = layers(13, 30)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes[::-1])
    found = conversion.convert(model.SerializeToString(), Request(18), registry.default())
    wanted, report = by_nodes(model, 18)
    assert found.result is not None
    assert not found.sound
    assert plain(ModelProto.FromString(found.result[0])) == plain(wanted)
    assert found.result[1].as_dict() == report.as_dict()
    assert "sorted" in report.notes[0]
    model.graph.node[0].input[0] = model.graph.node[0].output[0]  # a cycle
    assert by_classes(model, 18) is None


@pytest.mark.parametrize("to", [11, 15, 18])
def test_an_operator_that_the_checker_does_not_know_is_of_a_class(to):
    """Its adapter replaces it; a result that still held it would not be proved."""
    text = """g (float[2,3,4] x, float[4] s) => (float[2,3,4] y) {
        z = SimplifiedLayerNormalization<axis=-1>(x, s) y = Neg(z) }"""
    model = parsed(text, 13)
    assert_same(model, to, taken=True)
    assert not proof.proves(model.SerializeToString(), registry.default(), at_any_cost=True)


BEHIND = """<ir_version: 8, opset_import: ["": 13, "com.example": 1]>
    g (float[2,4] x, float[4,4] w) => (float[2,4] y) {
        a = com.example.Any(x) b = MatMul(a, w) y = %s(b) }"""


def test_inference_may_lack_what_stands_behind_an_operator_without_a_schema():
    """Inference rejects a MatMul of an unknown type, unless such an operator is before it."""
    forget()
    assert_same(onnx.parser.parse_model(BEHIND % "Softmax<axis=1>"), 18, taken=True)
    assert by_classes(onnx.parser.parse_model(BEHIND % "Softmax<axis=1>"), 11) is None  # its rank
    with pytest.raises(onnx.checker.ValidationError, match="Unrecognized attribute"):
        onnx.checker.check_model(onnx.parser.parse_model(BEHIND % "Softmax<wrong=1>"))
    assert by_classes(onnx.parser.parse_model(BEHIND % "Softmax<wrong=1>"), 18) is None


def test_the_element_type_that_an_adapter_tells_is_that_of_a_class():
    text = """<ir_version: 8, opset_import: ["": 20, "com.microsoft": 1]>
    g (float[2,4] x) => (float[2,4] y) { a = com.microsoft.Gelu(x) y = Identity(a) }"""
    assert_same(onnx.parser.parse_model(text), 13, taken=True)


WHOLE = """g (float[2,3,4,4] x, float[8,32] w) => (float[a,b] y) {
    s = Shape(x) at = Constant<value = int64[1] {0}>() n = Gather(s, at)
    r = Constant<value = int64[1] {%d}>() c = Concat<axis=0>(n, r)
    f = Reshape(x, c) t = Transpose<perm=[1,0]>(w) y = Trilu(f) }"""


@pytest.mark.parametrize(("length", "start", "to"), [(-1, 15, 13), (48, 15, 13), (48, 13, 18)])
def test_what_only_the_whole_model_tells_becomes_part_of_a_class(length, start, to):
    """Two models with one class by itself and two lengths, in both orders."""
    for one in (length, 12, length):
        assert_same(parsed(WHOLE % one, max(start, 14)), to, taken=True)


def test_a_type_that_a_later_step_may_tell_is_not_part_of_a_class():
    """A Reshape by an input has no rank; LayerNormalization asks for it at its step."""
    text = """g (float[n,4] x, int64[r] s, float[4] w) => (float y) {
        a = Reshape(x, s) y = LayerNormalization(a, w) }"""
    model = parsed(text, 17)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert by_classes(model, 13) is None


@pytest.mark.parametrize("to", [15, 13, 11])
def test_a_node_that_is_written_as_a_loop_is_of_a_class(to):
    text = """g (float[36,36] x, int64[36,36] i, int64[36,36] j) => (float[36,36] y) {
        a = ScatterElements<axis=1, reduction="add">(x, i, x)
        b = ScatterElements<axis=1, reduction="add">(a, j, x)
        y = Neg(b) }"""
    assert_same(parsed(text, 16), to, taken=True)


def test_a_symbol_in_a_new_graph_is_not_told_by_a_class():
    text = "g (float[N,3] x, int64 a) => (float[N,3] y) { y = CumSum(x, a) }"
    assert by_classes(parsed(text, 11), 10) is None
    assert_same(parsed(text.replace("N", "2"), 11), 10, taken=True)


def test_initializers_leave_the_inputs_of_a_model_that_goes_by_classes():
    """The note counts those of the model, and none of the small model of its classes."""
    model = _pair("ReduceMean", 8, axes=[2], keepdims=1)
    model.ir_version = 3
    scale = numpy_helper.from_array(np.ones(4, np.float32), "s")
    model.graph.initializer.append(scale)
    model.graph.input.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [4]))
    model.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "s"], ["y"], "a"))
    assert_same(model, 18, taken=True)
    found = by_classes(model, 18)
    assert found is not None
    assert [one.name for one in found[0].graph.input] == ["x"]
    assert sum("no longer among the inputs" in note for note in found[1].notes) == 1


def test_inference_sees_a_class_behind_values_of_unknown_rank():
    """A quotient has an unknown operator in front of such values, behind which inference is silent."""
    text = "(float[24] v, int64[n,n] s) => (float[a,b] y) { x = Reshape(v, s) y = ReduceL1<axes=[0]>(x) }"
    for _ in range(3):
        with pytest.raises(InvalidModel, match="shape input must be 1D"):
            convert_version(parsed("g " + text, 11), 22)


@pytest.mark.parametrize(
    ("op", "length", "ways"), [("Gelu", 2, 1), ("Add", "N", 1), ("Mean", "N", 2)]
)
def test_how_far_few_classes_go_is_known_from_them(op, length, ways, monkeypatch):
    """Mean asks below opset 8 for a symbol, which a class does not tell."""
    given = "({})" if op == "Gelu" else "({}, s)"
    lines = [f"x{i + 1} = {op}{given.format(f'x{i}')}" for i in range(60)]
    text = f"(float[{length},3] x0, float[3] s) => (float[{length},3] x60) {{ {' '.join(lines)} }}"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g {text}')
    with api.node_by_node():
        wanted = opshift.plan(model, 14)
    asked = []
    rehearsal = rehearse.rehearse
    monkeypatch.setattr(rehearse, "rehearse", lambda *given: asked.append(1) or rehearsal(*given))
    found = opshift.plan(model, 14)
    assert (found.lowest, found.highest) == (wanted.lowest, wanted.highest)
    assert len(asked) == ways  # the conversion itself, and the way down where it is not known


def test_how_far_refused_classes_go_is_known_from_the_nodes():
    model = layers(20, 400)
    model.graph.node.add(op_type="IsInf", input=[model.graph.input[0].name], output=["odd"])
    model.graph.node.add(op_type="StringSplit", input=["text"], output=["parts", "counts"])
    model.graph.input.append(helper.make_tensor_value_info("text", TensorProto.STRING, [2]))
    with api.node_by_node():
        wanted = opshift.plan(model, 20)
    found = opshift.plan(model, 20)
    assert found.lowest == wanted.lowest == {"": 20}


def test_what_is_exact_needs_no_permission():
    model = transformer(13, 120)
    asked = Request(18, allow_approximate=True, node_budget=1)
    found = conversion.convert(model.SerializeToString(), asked, registry.default()).result
    assert found is not None
    assert plain(ModelProto.FromString(found[0])) == plain(by_nodes(model, 18)[0])


@pytest.mark.parametrize("size", [-1, 2**60])
def test_a_weight_of_no_possible_size_ends_no_process(size):
    text = "(float[5] x) => (float[5] y) { y = CumSum(x, a) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 11]> g {text}')
    weight = TensorProto(name="a", data_type=TensorProto.INT64, dims=[size])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="missing.bin")
    model.graph.initializer.append(weight)
    with pytest.raises(InvalidModel, match=r"missing\.bin"):
        convert_version(model, 10)


def test_a_rank_that_only_a_declaration_in_a_graph_tells_is_not_proved_by_the_class():
    """The report tells of it; the class of the Loop must not hide that."""
    text = """g (float[6] v, int64[r] s, int64 t, bool c) => (float[a,b,d] y, float[e,f,h] z) {
        w = Loop(t, c) <body = b (int64 i, bool k) => (bool l, float[2,3] q) {
            l = Identity(k) q = Reshape(v, s) }>
        y, z = Split<axis = 1, num_outputs = 2>(w) }"""
    model = parsed(text, 18)
    assert not assert_same(model, 17)
    (note,) = by_nodes(model, 17)[1].notes
    assert note == "the rank of 'w' comes from a declaration, not confirmed by inference"


@pytest.mark.parametrize("to", [13, 18])
def test_metadata_inside_of_nodes_stays(to):
    model = nested(11 if to == 13 else 13, 80)
    model.ir_version = 10
    inner = next(one.attribute[0].g for one in model.graph.node if one.op_type == "If")
    inner.metadata_props.add(key="graph", value="v")
    for node in inner.node:
        node.metadata_props.add(key="node", value=node.op_type)
    assert_same(model, to, taken=True)
    found = by_classes(model, to)
    assert found is not None
    assert "metadata of a node" in "".join(found[1].notes)
    inner = next(one.attribute[0].g for one in found[0].graph.node if one.op_type == "If")
    assert inner.metadata_props[0].value == "v"


def test_a_large_constant_is_carved_before_its_node_goes_by_its_class(monkeypatch):
    """The bytes of a model are looked at first; a payload among its nodes is found there."""
    lines = ["a0 = Add(x, c)", "y0 = Softmax<axis=1>(a0)"]
    for i in range(1, 20):
        lines += [f"a{i} = Add(y{i - 1}, c)", f"y{i} = Softmax<axis=1>(a{i})"]
    head = '<ir_version: 8, opset_import: ["": 11]> g (float[64, 64] x) => (float[64, 64] y19)'
    model = onnx.parser.parse_model(f"{head} {{{' '.join(lines)}}}")
    payload = numpy_helper.from_array(np.ones((64, 64), np.float32))
    constant = helper.make_node("Constant", [], ["c"], value=payload)
    model.graph.node.insert(0, constant)
    convert, whys = conversion.convert, list[str]()

    def noted(*given, **how):
        found = convert(*given, **how)
        whys.append(found.why)
        return found

    monkeypatch.setattr(conversion, "convert", noted)
    made = convert_version(model, 18)
    assert whys == [LARGE, ""]
    assert made.graph.node[0] == constant


@pytest.mark.parametrize("to", [11, 9])
def test_sizes_of_which_one_folds_are_followed_without_the_whole_model(to, monkeypatch):
    """A shape of two sizes, of which inference knows one, and indices that are constants."""

    def never(*_: object) -> None:
        raise AssertionError("the whole model was asked")

    monkeypatch.setattr(conversion.skeleton_facts, "of_model", never)
    assert why_not(transformer(13, 120), Request(to)) == ""


def test_the_whole_model_tells_only_the_nodes_that_lack_types(monkeypatch):
    """No class follows the numbers of an Einsum, which a length of `u` may depend on."""
    body = """h = Shape(x) e = Einsum<equation="i->i">(h) u = Reshape(x, e)
        b = Softmax<axis=1>(u) y = Softmax<axis=1>(x)"""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 13]>'
        f" g (float[2, 3] x) => (float[m, n] b, float[2, 3] y) {{ {body} }}"
    )
    told: list[int] = []
    known = conversion._Work._told
    monkeypatch.setattr(
        conversion._Work, "_told", lambda work, rows: told.extend(rows) or known(work, rows)
    )
    assert why_not(model, Request(12)) == ""
    assert told == [3]


@pytest.mark.parametrize("wish", ["stamp", "bump_model_version"])
def test_a_label_is_written_into_a_result_of_classes(wish, monkeypatch):
    asked = Request(18, **{wish: True})
    model = transformer(13, 120)
    with api.node_by_node():
        expected = opshift.convert(model, asked)
    monkeypatch.setattr(api, "Conversion", None)  # no node is asked
    found = opshift.convert(model, asked)
    assert plain(found.model) == plain(expected.model)
    assert found.report == expected.report


TWICE = {
    "one value": "y = BitwiseOr(a, a)",
    "two values": "y = BitwiseOr(a, b)",
    "both": "y = BitwiseOr(a, a) z = BitwiseOr(a, b)",
}


@pytest.mark.parametrize("nodes", TWICE.values(), ids=TWICE)
def test_a_node_that_reads_one_value_twice_is_of_another_class(nodes):
    """What is written for both inputs is written once."""
    outputs = ", ".join(f"uint32[4] {name}" for name in "yz" if f"{name} =" in nodes)
    text = f"g (uint32[4] a, uint32[4] b) => ({outputs}) {{ {nodes} }}"
    assert_same(parsed(text, 18), 10, taken=True)


def test_a_value_that_a_node_and_its_graphs_read_is_one():
    text = """g (bool x, bool z, float[4] a) => (bool[4] y, bool[4] w) {
        y = If (x) <
            then_branch = t () => (bool[4] c) { e = LessOrEqual(a, a) c = And(e, x) },
            else_branch = f () => (bool[4] d) { h = LessOrEqual(a, a) d = Or(h, x) }
        >
        w = If (x) <
            then_branch = u () => (bool[4] i) { j = LessOrEqual(a, a) i = And(j, z) },
            else_branch = o () => (bool[4] k) { l = LessOrEqual(a, a) k = Or(l, z) }
        >
    }"""
    assert_same(parsed(text, 12), 11, taken=True)


@pytest.mark.parametrize("other", ["x", "z"])
def test_a_class_tells_whether_two_of_its_inputs_are_one(other):
    """Add of opset 6 does not broadcast, and needs no shapes to add a value to itself."""
    nodes = " ".join(f"a{i} = Add(a{i - 1}, {other})" for i in range(1, 500))
    made = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 7]> g (float[N] x, float[N] z) => (float[N] y)
        {{ a0 = Add(x, {other}) {nodes} y = Add(a499, a499) }}"""
    )
    found = opshift.plan(made, 6)
    with api.node_by_node():
        assert found.as_dict() == opshift.plan(made, 6).as_dict()
