# SPDX-License-Identifier: Apache-2.0
"""Models with functions go by the classes of their nodes, with the results of each node."""

from __future__ import annotations

import numpy as np
import onnx
import opshift
import opshift_adapters
import pytest
from by_classes import why_not
from onnx import ModelProto, TensorProto, helper, numpy_helper
from opshift import testing
from opshift.author import registry
from opshift.author.present_types import collect_present_types
from opshift.convert.api import node_by_node
from opshift.convert.classes import memo as memos
from opshift.convert.classes import proof
from opshift.convert.quotient import conversion, function_conversion, model_types
from opshift.convert.request import Request
from opshift.model import numbering
from opshift.model.document import Document
from opshift.opsets import schemas

pytestmark = pytest.mark.usefixtures("small_models_go_by_classes")

NEWEST = schemas.latest("") or 1
TARGETS = [to for to in (7, 8, 9, 11, 12, 13, 17, 18, 21, 23, 26) if to <= NEWEST]

GATE = """<opset_import: ["": OPSET], domain: "com.acme">
    Gate <alpha> (X) => (Y) {
        S = Sigmoid(X)  T = LeakyRelu <alpha: float = @alpha> (S)  Y = Mul(X, T)
    }"""
TOTAL = """<opset_import: ["": OPSET], domain: "com.acme">
    Total (X) => (Y) { R = ReduceSum <axes = [1], keepdims = 1> (X)  Y = Sub(X, R) }"""
TWICE = """<opset_import: ["": OPSET, "com.acme": 1], domain: "com.acme">
    Twice (X) => (Y) { A = com.acme.Total(X)  Y = com.acme.Total(A) }"""
CALLS = """g (float[2,3] x) => (float[2,3] y) {
    a = com.acme.Gate <alpha = 0.5> (x)
    b = com.acme.Total(a)
    c = ReduceSum <axes = [1]> (b)
    d = com.acme.Gate <alpha = 0.5> (c)
    e = com.acme.Gate <alpha = 0.25> (d)
    f = com.acme.Total(e)
    y = Add(f, a)
}"""


def model(graph: str, *functions: str, opset: int = 11, ir: int = 10) -> ModelProto:
    head = f'<ir_version: {ir}, opset_import: ["": {opset}, "com.acme": 1]>'
    text = "\n".join([head, graph, *functions]).replace("OPSET", str(opset))
    found = onnx.parser.parse_model(text)
    onnx.checker.check_model(found, full_check=True)
    return found


def why(subject: ModelProto, to: int, **wishes: object) -> str:
    """Why classes do not tell the result; nothing if they do, and it is that of the nodes."""
    return why_not(subject, Request(to, **wishes))


@pytest.mark.parametrize("to", TARGETS)
def test_calls_are_of_classes(to):
    """The functions change on the way up, and the new names in them come behind the graph's."""
    subject = model(CALLS, GATE, TOTAL)
    if to != 11:
        assert why(subject, to) == ""


@pytest.mark.parametrize("to", [7, 13, 21])
def test_functions_call_functions(to):
    graph = """g (float[2,3] x, double[4,5] z) => (float[2,3] y, double[4,5] w) {
        a = com.acme.Twice(x)  y = com.acme.Twice(a)  b = com.acme.Twice(z)  w = com.acme.Total(b)
    }"""
    assert why(model(graph, TWICE, TOTAL), to) == ""


def test_the_numbers_of_new_names_go_on_behind_the_graph():
    found = opshift.convert(model(CALLS, GATE, TOTAL), 13).model
    names = numbering.new_names(found, "opshift_")
    inside = [one for one in found.functions[1].node if one.op_type == "Constant"]
    assert [name for name in names if name in inside[0].output] == names[-1:]
    assert len(names) > 1


@pytest.mark.parametrize("to", [9, 13, 18])
def test_overloads_are_functions_of_their_own(to):
    subject = model(CALLS, GATE, TOTAL)
    other = subject.functions.add()
    other.CopyFrom(subject.functions[1])
    other.overload, other.node[1].op_type = "added", "Add"
    for node in subject.graph.node[5:6]:
        node.overload = "added"
    assert why(subject, to) == ""


@pytest.mark.parametrize("to", [9, 13, 18])
def test_attributes_with_a_default_stay(to):
    subject = model(CALLS, GATE, TOTAL)
    subject.functions[0].ClearField("attribute")
    subject.functions[0].attribute_proto.append(helper.make_attribute("alpha", 0.125))
    del subject.graph.node[0].attribute[:]
    assert why(subject, to) == ""


@pytest.mark.parametrize("to", [9, 13, 18])
def test_metadata_and_unknown_fields_of_functions_stay(to):
    subject = model(CALLS, GATE, TOTAL)
    one = subject.functions[1]
    one.metadata_props.add(key="a", value="b")
    one.node[0].metadata_props.add(key="c", value="d")
    one.doc_string = "told"
    one.value_info.add(name="R").type.tensor_type.elem_type = TensorProto.FLOAT
    one.MergeFromString(b"\xfa\x07\x03abc")
    subject.functions[0].MergeFromString(b"\xfa\x07\x03def")
    assert why(subject, to) == ""
    found = opshift.convert(subject, to).model
    assert b"\xfa\x07\x03abc" in found.functions[1].SerializeToString()


@pytest.mark.parametrize(("ir", "wish"), [(8, "auto"), (9, "auto"), (9, "keep"), (9, 9), (9, 7)])
def test_functions_hold_up_the_ir_version(ir, wish):
    told = why(model(CALLS, GATE, TOTAL, ir=ir), 13, ir_version=wish)
    assert told == ("functions with a choice" if wish == 7 else "")


@pytest.mark.parametrize("to", [9, 13, 18])
def test_a_function_that_nothing_calls_is_converted(to):
    assert why(model(CALLS, GATE, TOTAL, TWICE), to) == ""


def test_calls_that_the_model_lacks_are_not_needed():
    assert why(model("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }", TOTAL), 13) == ""


def test_a_domain_without_a_dot_is_noted():
    text = model(CALLS, GATE, TOTAL).SerializeToString().replace(b"com.acme", b"com_acme")
    subject = ModelProto.FromString(text)
    assert why(subject, 18) == ""
    assert "reverse DNS name" in opshift.convert(subject, 18).report.notes[0]


def test_a_function_that_is_refused_goes_node_by_node():
    """What the function does not tell is known at its calls, where the nodes are written out."""
    more = """<opset_import: ["": OPSET], domain: "com.acme">
        More <by> (X) => (Y) { C = Constant <value_float: float = @by> ()  Y = Add(X, C) }"""
    graph = "g (float[2,3,4] x) => (float[2,3,4] y) { y = com.acme.More <by = 0.5> (x) }"
    subject = model(graph, more, opset=13)
    assert why(subject, 11) == "functions that are refused"
    assert opshift.convert(subject, 11).report.inlined == ("com.acme::More",)


def test_a_call_in_a_graph_of_a_node_goes_node_by_node():
    graph = """g (bool c, float[2,3] x) => (float[2,3] y) {
        y = If (c) <
            then_branch = t () => (float[2,3] u) { u = com.acme.Total(x) },
            else_branch = e () => (float[2,3] v) { v = Neg(x) }
        >
    }"""
    assert why(model(graph, TOTAL), 13) == "a call inside of a node"


def test_a_function_may_hold_graphs():
    chosen = """<opset_import: ["": OPSET, "com.acme": 1], domain: "com.acme">
        Chosen (C, X) => (Y) {
            Y = If (C) <
                then_branch = t () => (U) { U = com.acme.Total(X) },
                else_branch = e () => (V) { V = ReduceSum <axes = [1]> (X) }
            >
        }"""
    graph = """g (bool c, float[2,3] x) => (float[a,b] y) {
        z = com.acme.Chosen(c, x)  y = com.acme.Chosen(c, z)
    }"""
    subject = model(graph, chosen, TOTAL)
    assert why(subject, 13) == ""
    subject.graph.name = "t"
    assert why(subject, 13) == "a rule that the model breaks"


BODY = """<opset_import: ["": OPSET], domain: "com.acme">
    Body (X) => (Y) { Y = %s }"""
ONE = "g (float[2,3] x) => (float[2,3] y) { y = com.acme.Body(x) }"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: setattr(one.functions[0].opset_import[0], "version", 12), "another version"),
        (lambda one: setattr(one, "ir_version", 7), "old IR version"),
        (lambda one: one.functions[0].opset_import.add(domain="ai.onnx", version=11), "imports"),
        (lambda one: setattr(one.graph.node[0], "overload", "none"), "overload of no function"),
        (lambda one: one.functions.append(one.functions[0]), "cannot be opened"),
        (lambda one: one.graph.node[0].input.append("x"), "a note about"),
    ],
)
def test_what_is_rare_goes_node_by_node(change, told):
    subject = model(ONE, BODY % "Softsign(X)")
    change(subject)
    assert (
        told in conversion.convert(subject.SerializeToString(), Request(13), registry.default()).why
    )


def test_a_function_with_the_name_of_an_operator_goes_node_by_node():
    subject = model(ONE, BODY % "Softsign(X)")
    subject.functions[0].domain = subject.graph.node[0].domain = ""
    subject.functions[0].name = subject.graph.node[0].op_type = "Softplus"
    assert why(subject, 13) == "a function with the name of an operator"


def test_functions_that_call_each_other_without_end_are_rejected():
    loop = BODY.replace("OPSET]", 'OPSET, "com.acme": 1]') % "Relu(X)"
    subject = model(ONE, loop)
    subject.functions[0].node[0].domain, subject.functions[0].node[0].op_type = "com.acme", "Body"
    assert why(subject, 13) == "functions that call themselves"
    with pytest.raises(opshift.InvalidModel, match="calls itself"):
        opshift.convert(subject, 13)


def test_calls_that_stand_for_too_many_nodes_are_rejected():
    subject = model(ONE, BODY % "Relu(X)")
    for i in range(20):
        one = subject.functions.add(name=f"F{i}", domain="com.acme", input=["X"], output=["Y"])
        one.opset_import.extend(subject.opset_import)
        inner = f"F{i - 1}" if i else "Body"
        one.node.add(op_type=inner, domain="com.acme", input=["X"], output=["Z"])
        one.node.add(op_type=inner, domain="com.acme", input=["Z"], output=["Y"])
    subject.graph.node[0].op_type = "F19"
    told = conversion.convert(subject.SerializeToString(), Request(13), registry.default())
    assert told.why == "functions that stand for many nodes"
    subject.graph.node[0].op_type = "F17"
    for node in (*subject.functions[19].node, *subject.functions[20].node):
        node.op_type = "Body"
    for _ in range(2):
        subject.graph.node.add(op_type="F17", domain="com.acme", input=["x"], output=[f"o{_}"])
    told = conversion.convert(subject.SerializeToString(), Request(13), registry.default())
    assert told.why == "calls that stand for many nodes"


def test_a_payload_in_a_function_goes_node_by_node():
    value = numpy_helper.from_array(np.ones(3000, np.float32))
    subject = model(ONE, BODY % "Relu(X)")
    subject.functions[0].node.insert(0, helper.make_node("Constant", [], ["C"], value=value))
    found = opshift.convert(subject, 13)
    with node_by_node():
        other = opshift.convert(subject, 13)
    assert found.model == other.model
    assert found.report.as_dict() == other.report.as_dict()


def test_a_call_that_nothing_reads_any_more_goes_node_by_node():
    """The ratio of a Dropout becomes an attribute; the call that computed it is removed."""
    ratio = """<opset_import: ["": OPSET], domain: "com.acme">
        Ratio (X) => (Y) { Y = Identity(X) }"""
    graph = """g (float[2,3] x) => (float[2,3] y) <float r = {0.5}, bool t = {0}> {
        a = com.acme.Ratio(r)
        y = Dropout(x, a, t)
    }"""
    with node_by_node():
        wanted = opshift.convert(model(graph, ratio, opset=13), 15)
    assert opshift.convert(model(graph, ratio, opset=13), 15).model == wanted.model
    why(model(graph, ratio, opset=13), 11)


def test_the_body_of_a_function_is_part_of_what_is_remembered():
    for body in ("Softsign(X)", "ReduceSum <axes = [1], keepdims = 1> (X)", "Softsign(X)"):
        graph = ONE if body.startswith("Soft") else ONE.replace("[2,3] y", "[2,1] y")
        assert why(model(graph, BODY % body), 13) == ""


def test_what_is_known_of_functions_depends_on_their_calls():
    """A step down may lose the type of a value that one model has and another has not."""
    body = BODY % "Abs(X)"
    wide = "g (float[2] x, bfloat16[2] z) => (float[2] y, bfloat16[2] w) {%s}"
    for calls in (
        "y = com.acme.Body(x) w = Identity(z)",
        "y = com.acme.Body(x) w = com.acme.Body(z)",
    ):
        subject = model(wide % calls, body, opset=13)
        told = conversion.convert(subject.SerializeToString(), Request(12), registry.default())
        assert told.result is None
    assert why(model(ONE, body, opset=13), 12) == ""


def test_functions_are_converted_once_for_one_set_of_calls(monkeypatch):
    memos.forget()
    seen, own = [], function_conversion.convert
    monkeypatch.setattr(function_conversion, "convert", lambda *a: seen.append(1) or own(*a))
    for graph in (CALLS, CALLS.replace("y = Add(f, a)", "h = com.acme.Total(f) y = Add(h, a)")):
        assert why(model(graph, GATE, TOTAL), 13) == ""
    assert len(seen) == 1
    assert why(model(CALLS.replace("0.25", "2.0"), GATE, TOTAL), 13) == ""
    assert len(seen) == 2


def test_the_types_of_a_model_are_those_of_its_classes():
    """Steps ask which types can occur: as many as the whole model has, and no other."""
    looked = 0
    for adapter, example in list(testing.examples(opshift_adapters.__name__))[::40]:
        try:
            subject = testing.example_model(adapter, example)
            found = proof.prove(
                subject.SerializeToString(), registry.default(), budget=proof.ANY, to_convert=True
            )
        except (proof.Unproven, onnx.parser.ParseError):
            continue
        assert model_types.types_of(found) == collect_present_types(Document(subject))
        looked += 1
    assert looked > 10


def test_the_bug_of_an_adapter_in_a_function_is_seen(monkeypatch):
    """What the whole check says of each call, it says with the types of the call."""
    subject = model(ONE, BODY % "Identity(X)")
    known = function_conversion.Conversion._finish

    def spoilt(self, *, moved):
        for one in self.skeleton.functions:
            one.node[0].op_type = "Shape"
        known(self, moved=moved)

    monkeypatch.setattr(function_conversion.Conversion, "_finish", spoilt)
    told = conversion.convert(subject.SerializeToString(), Request(13), registry.default())
    assert told.why == "functions that are refused"


def test_a_large_result_with_functions_is_proved():
    """The check of a result by classes covers its functions."""
    data = model(CALLS, GATE, TOTAL).SerializeToString()
    assert proof.proves(data, registry.default(), at_any_cost=True)
    wrong = ModelProto.FromString(data)
    wrong.functions[1].node[1].op_type = "Transpose"
    assert not proof.proves(wrong.SerializeToString(), registry.default(), at_any_cost=True)
    untyped = ModelProto.FromString(data)
    untyped.functions[1].node[0].op_type = "NonZero"
    assert not proof.proves(untyped.SerializeToString(), registry.default(), at_any_cost=True)
