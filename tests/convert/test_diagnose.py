# SPDX-License-Identifier: Apache-2.0
"""If a conversion fails, opshift finds out whether the model or an adapter is at fault."""

from __future__ import annotations

from types import SimpleNamespace

import onnx
import pytest
from checked import checked
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, helper
from opshift import AdapterBug, InvalidModel, convert_version
from opshift.author import registry
from opshift.convert.legal import diagnose
from opshift.errors import FaultyChange
from opshift.model import weights
from text_models import model, ops

ADAPTERS = registry.default()


def opened(proto: ModelProto) -> SimpleNamespace:
    """A conversion that has just begun."""
    view = proto.SerializeToString()
    skeleton, large_tensors = weights.carve_model(proto)
    return SimpleNamespace(skeleton=skeleton, weights=large_tensors, view=view, adapters=ADAPTERS)


def declared(proto: ModelProto, name: str, shape, kind=TensorProto.FLOAT) -> ModelProto:
    """The model with a declaration of a value."""
    proto.graph.value_info.append(helper.make_tensor_value_info(name, kind, shape))
    return proto


SOUND = "(float[2] x) => (float[2] y) { h = Neg(x) y = Abs(h) }"
WRONG = "(float[2] x) => (bool[2] y) { h = Neg(x) y = Not(h) }"
REASON = "the model contradicts itself: "


# -- errors of protobuf ----------------------------------------------------------------------------


def test_errors_of_protobuf_are_explained():
    with (
        pytest.raises(InvalidModel, match="a string in the model is not UTF-8"),
        diagnose.protobuf_errors(),
    ):
        b"\xff".decode()
    with pytest.raises(MemoryError, match="alloc failed"), diagnose.protobuf_errors():
        raise DecodeError("alloc failed")
    with pytest.raises(DecodeError, match="truncated"), diagnose.protobuf_errors():
        raise DecodeError("truncated")
    with diagnose.protobuf_errors():
        pass


# -- a conversion that fails -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [AdapterBug("a bug"), FaultyChange("a bug", None), MemoryError("full")]
)
def test_a_bug_is_the_fault_of_a_model_that_contradicts_itself(error):
    with pytest.raises(InvalidModel, match=REASON), diagnose.on_the_model(opened(model(WRONG))):
        raise error
    with pytest.raises(type(error)), diagnose.on_the_model(opened(model(SOUND))):
        raise error


@pytest.mark.parametrize("error", [AttributeError("a bug"), TypeError("a bug")])
def test_other_errors_are_the_fault_of_a_model_only_if_a_text_is_broken(error):
    with pytest.raises(type(error)), diagnose.on_the_model(opened(model(WRONG))):
        raise error
    broken = model(SOUND)
    broken.graph.node[0].attribute.append(helper.make_attribute("mode", b"\xff"))
    broken.graph.node[0].op_type = "GridSample"
    with pytest.raises((InvalidModel, type(error))), diagnose.on_the_model(opened(broken)):
        raise error


def test_without_its_source_a_model_is_not_judged():
    attempt = opened(model(WRONG))
    attempt.view = b""
    with pytest.raises(AdapterBug), diagnose.on_the_model(attempt):
        raise AdapterBug("a bug")


def test_only_the_part_behind_a_faulty_change_is_judged():
    text = "(float[2] x) => (float[2] y, bool[2] z) { y = Neg(x) z = Not(x) }"
    with pytest.raises(FaultyChange), diagnose.on_the_model(opened(model(text))):
        raise FaultyChange("a bug", frozenset({"y"}))
    with pytest.raises(InvalidModel), diagnose.on_the_model(opened(model(text))):
        raise FaultyChange("a bug", frozenset({"z"}))
    with pytest.raises(InvalidModel), diagnose.on_the_model(opened(model(text))):
        raise FaultyChange("a bug", None)


def test_the_failure_itself_is_raised_if_the_search_for_its_reason_fails(monkeypatch):
    def fails(*_, **__):
        raise ValueError("no reason")

    monkeypatch.setattr(diagnose, "contradiction", fails)
    with pytest.raises(AdapterBug, match="a bug"), diagnose.on_the_model(opened(model(SOUND))):
        raise AdapterBug("a bug")
    for kept in (InvalidModel("invalid"), FaultyChange("a change", None)):
        with pytest.raises(type(kept)), diagnose.explaining(AdapterBug("a bug")):
            raise kept


# -- contradictions --------------------------------------------------------------------------------


def test_a_sound_model_has_no_contradiction():
    assert diagnose.contradiction(opened(model(SOUND))) is None
    attempt = opened(model(SOUND))
    attempt.view = model(SOUND)  # the message instead of its bytes
    assert diagnose.contradiction(attempt) is None


def test_a_contradiction_in_a_function_is_found_at_its_calls():
    text = """(float[2] x) => (float[2] y) { y = acme.F(x) }
        <opset_import: ["" : 12], domain: "acme"> F (a) => (b) { b = CumSum(a, k) k = Constant<value = int64 {9}>() }"""
    body = text.replace(
        "b = CumSum(a, k) k = Constant<value = int64 {9}>()",
        "k = Constant<value = int64 {9}>() b = CumSum(a, k)",
    )
    contradiction = diagnose.contradiction(opened(model(body, more=', "acme" : 1')))
    assert contradiction is not None
    assert "axis is 9" in contradiction


def test_a_contradiction_in_training_is_found():
    proto = model(SOUND)
    proto.training_info.add().algorithm.CopyFrom(model(SOUND).graph)
    assert diagnose.contradiction(opened(proto)) is None
    for name in ("initialization", "algorithm"):
        for before in ((), (SOUND,)):
            proto = model(SOUND)
            for sound in before:
                proto.training_info.add().algorithm.CopyFrom(model(sound).graph)
            getattr(proto.training_info.add(), name).CopyFrom(model(WRONG).graph)
            contradiction = diagnose.contradiction(opened(proto))
            assert contradiction is not None, name
            assert "Not" in contradiction


def test_functions_of_training_are_known():
    proto = model(SOUND, more=', "acme" : 1')
    text = """(float[2] x) => (bool[2] y) { h = acme.F(x) y = Not(h) }
        <opset_import: ["" : 12], domain: "acme"> F (a) => (b) { b = Neg(a) }"""
    trained = model(text, more=', "acme" : 1')
    proto.functions.extend(trained.functions)
    proto.training_info.add().algorithm.CopyFrom(trained.graph)
    assert diagnose.contradiction(opened(proto)) is not None


RETIRED = (
    "(float[1,1,2,2] x, float[4] s) => (float[a,b,c,d] y, float[4] z) { y = Upsample(x, s) BESIDE }"
)


def test_an_operator_that_a_conversion_replaces_is_no_contradiction_without_retired():
    """Upsample is deprecated at opset 10; only onnx's checker rejects it."""
    proto = model(RETIRED.replace("BESIDE", "k = Neg(s) z = Relu(k)"), 10)
    assert diagnose.contradiction(opened(proto), retired=False) is None
    assert diagnose.contradiction(opened(proto)) is not None
    both = model(RETIRED.replace("BESIDE", "z = Relu<unknown = 1>(s)"), 10)
    for retired in (False, True):
        contradiction = diagnose.contradiction(opened(both), retired=retired)
        assert contradiction is not None
        assert "unknown" in contradiction


# -- functions -------------------------------------------------------------------------------------

FUNCTIONS = """(float[2] x) => (float[2] y) { h = acme.F(x) k = acme.F(h) y = acme.G(k) }
    <opset_import: ["" : 12], domain: "acme"> F (a) => (b) { c = Neg(a) b = Abs(c) }
    <opset_import: ["" : 13], domain: "acme"> G (a) => (b) { b = Exp(a) }"""


def test_functions_of_the_versions_of_the_model_are_written_out():
    proto = model(FUNCTIONS, more=', "acme" : 1')
    diagnose.write_out_functions(proto)
    assert ops(proto) == "Neg Abs Neg Abs G"
    names = [name for node in proto.graph.node for name in node.output]
    assert len(set(names)) == len(names)


def test_a_fault_in_a_function_that_is_never_called_is_the_fault_of_the_model():
    proto = model(
        """(float[2] x) => (float[2] y) { y = Neg(x) }
        <opset_import: ["" : 9], domain: "acme"> F (s, x) => (t, z) {
            t, z = Scan<num_scan_inputs = 1, body = b (float[2] u, float[2] e) => () {
                d = Add(u, e) }, scan_output_axes = [1]>(s, x) }""",
        9, more=', "acme" : 1',
    )  # fmt: skip
    with pytest.raises(InvalidModel, match="Scan 't': body computes only 0 of 2 outputs"):
        convert_version(proto, 8)


# -- declarations ----------------------------------------------------------------------------------


def told_of(before: ModelProto, after: ModelProto | None = None) -> str | None:
    """Returns the fault in a declaration, which is the same for a message and for its bytes."""
    after = before if after is None else after
    texts = before.SerializeToString(), after.SerializeToString()
    declarations = diagnose.declarations(before, after, "an error", ADAPTERS)
    assert declarations == diagnose.declarations(*texts, "an error", ADAPTERS)
    assert (before.SerializeToString(), after.SerializeToString()) == texts
    return declarations


def test_a_wrong_declaration_is_the_fault_of_the_model():
    messages = told_of(declared(model(SOUND), "h", [3]))
    assert messages is not None
    assert "contradicts the operators of the model: an error; correct the declaration" in messages


def test_a_result_that_the_checker_rejects_without_types_has_another_fault():
    broken = declared(model(SOUND), "h", [3])
    broken.graph.node[0].op_type = "NoOperator"
    assert told_of(declared(model(SOUND), "h", [3]), broken) is None


def test_a_result_that_is_wrong_without_declarations_has_another_fault():
    assert told_of(declared(model(WRONG), "h", [3])) is None


def test_confirmed_declarations_are_not_to_blame():
    assert told_of(declared(model(SOUND), "h", [2])) is None
    assert told_of(declared(model(SOUND), "h", [2]), declared(model(SOUND), "h", [3])) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda proto: proto.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_value"),
        lambda made: declared(made, "h", [3]),
        lambda made: declared(made, "nothing", [3]),
        lambda proto: proto.graph.output[0].type.tensor_type.shape.dim.add(),
    ],
    ids=["an unknown length", "another length", "a value without a node", "another rank"],
)
def test_a_declaration_that_inference_does_not_find_in_the_source_may_be_wrong(spoil):
    before = declared(model(SOUND), "h", [2])
    spoil(before)
    assert told_of(before, declared(model(SOUND), "h", [3])) is not None


def test_an_element_type_that_inference_only_repeats_is_not_confirmed():
    before = model("(float[2] x) => (double[2] y) { y = Abs(x) }", 5)
    before.graph.node[0].CopyFrom(helper.make_node("Cast", ["x"], ["y"], to="INT32"))
    after = model("(float[2] x) => (double[2] y) { y = Cast<to = 6>(x) }", 6)
    assert told_of(before, after) is not None
    before.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    after.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    assert told_of(before, after) is not None  # an operator of opset 5 has no inference


def test_a_declaration_in_a_function_is_not_confirmed():
    text = """(float[2] x) => (float[2] y) { y = acme.F(x) }
        <opset_import: ["" : 12], domain: "acme"> F (a) => (b) { c = Neg(a) b = Abs(c) }"""
    before = model(text, more=', "acme" : 1', ir=10)
    assert told_of(before) is None
    before.functions[0].value_info.append(
        helper.make_tensor_value_info("c", TensorProto.FLOAT, [2])
    )
    assert told_of(before) is not None


def test_a_name_that_two_graphs_define_is_not_confirmed():
    """Inference finds one type for the name, but the two graphs may define two types."""
    text = """(float[2] x, bool c) => (float[2] y) {
        h = Neg(x)
        y = If (c) <then_branch = t () => (float[2] r) { k = Abs(x) r = Neg(k) },
                    else_branch = e () => (float[2] s) { k = Exp(x) s = Neg(k) }> }"""
    before = declared(model(text), "k", [7])
    assert told_of(before, declared(model(text), "h", [3])) is None
    assert told_of(declared(before, "h", [9]), declared(model(text), "h", [3])) is not None


INNER = """(float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
    y = If (c) <then_branch = t () => (float[2] r) { k = Add(x, w) r = Neg(k) },
                else_branch = e () => (float[2] s) { s = Abs(x) }> }"""


def test_declarations_in_branches_are_left_out():
    proto = model(INNER)
    branch = proto.graph.node[0].attribute[0].g
    branch.value_info.append(helper.make_tensor_value_info("k", TensorProto.FLOAT, [3]))
    assert told_of(declared(proto, "h", [3])) is not None
    wrong = model(INNER)
    wrong.graph.node[0].attribute[0].g.node[0].op_type = "Not"
    assert told_of(declared(wrong, "h", [3])) is None


def test_only_inputs_may_keep_their_declarations():
    """The output contradicts the input, which onnx's checker accepts without inference."""
    wrong_input = model("(float[3] x) => (float[2] y) { h = Neg(x) y = Abs(h) }")
    assert told_of(wrong_input) is not None
    onnx.checker.check_model(wrong_input)


@pytest.mark.parametrize("of_input", [False, True])
def test_an_input_with_a_wrong_shape_is_to_blame(of_input):
    proto = model(
        "(float[1,3] x) => (float[1,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }"
    )
    if of_input:
        proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 2]))
    messages = told_of(proto)
    assert messages is not None
    assert "contradicts the operators of the model" in messages


def test_an_input_that_is_not_a_tensor_has_no_shape_to_forget():
    proto = model(
        "(seq(float[2]) x, float[1,3] z) => (float[2] y, float[a,b] v) <float[2,2] w = {1, 2, 3, 4}> {"
        " i = Constant<value = int64 {0}>() y = SequenceAt(x, i) v = MatMul(z, w) }"
    )
    assert told_of(proto) is not None


def test_training_graphs_are_inferred_one_by_one():
    proto = model(SOUND)
    proto.training_info.add().algorithm.CopyFrom(model(SOUND).graph)
    assert diagnose._in_training(proto, ADAPTERS) is None
    proto.training_info.add().algorithm.CopyFrom(model(WRONG).graph)
    assert "Not" in str(diagnose._in_training(proto, ADAPTERS))


def test_the_type_of_a_weight_is_known_without_declarations():
    proto = model(
        "(float[2] x) => (float[2] y, bool[2] z) <float[2] w = {1, 2}> { h = Neg(x) y = Abs(h) z = Not(w) }"
    )
    assert told_of(declared(proto, "h", [3])) is None


# -- the source of a failed conversion -------------------------------------------------------------


FRESH = SimpleNamespace(is_fresh=lambda name: name.startswith("_"))


def sources(text: str, at: int, scope: int = 0, more: str = "") -> str | None:
    """The names on which the node at a position depends, sorted."""
    scopes = [*checked(model(text, 13, more=more)).document.scopes()]
    found = diagnose.sources(FRESH, (scopes[scope], at))
    return None if found is None else " ".join(sorted(found))


@pytest.mark.parametrize(
    ("nodes", "at", "expected"),
    [
        ("a = Neg(x) y = Abs(a)", 0, "a x"),
        ("a = Neg(x) y = Abs(a)", 1, "a y"),
        ("a = Neg(x) _b = Abs(a) y = Add(_b, w)", 2, "a w y"),
        ("a = Neg(x) _b = Abs(a) _c = Abs(_b) y = Add(_c, _c)", 3, "a y"),
        ("_b = Neg(x) _c = Abs(_b) y = Add(_c, w)", 0, "x y"),
        ("_b = Neg(x) y = Abs(_b) z = Abs(y)", 0, "x y"),
        ("_b = Neg(x) y, _c = Op(_b) z = Abs(_c)", 0, "x y z"),
        ("_b = Neg(_loop) _loop = Neg(_b) y = Abs(_b)", 2, "y"),
        ('y = Clip(x, "", w)', 0, "w x y"),
        ("_n = Neg(_absent) y = Neg(_n)", 1, "y"),
    ],
)
def test_names_of_the_conversion_lead_to_those_of_the_source_model(nodes, at, expected):
    assert sources(f"(float[2] x, float[2] w) => (float[2] y) {{ {nodes} }}", at) == expected


def test_a_node_of_a_graph_inside_stands_for_the_node_that_holds_it():
    text = """(float[2] x, bool c) => (float[2] y) { a = Neg(x)
        y = If(c) <then_branch = t () => (float[2] p) { p = Abs(a) },
            else_branch = e () => (float[2] q) { q = If(c)
                <then_branch = u () => (float[2] r) { r = Neg(x) },
                 else_branch = v () => (float[2] s) { s = Neg(x) }> }> }"""
    assert sources(text, 0, 1) == sources(text, 1) == "a c x y"
    assert sources(text, 0, 3) == "a c x y"


def test_there_are_no_names_of_the_source_model_in_a_function():
    text = """(float[2] x) => (float[2] y) { y = f.F(x) }
        <domain: "f", opset_import: ["": 13]> F (a) => (b) { b = Neg(a) }"""
    assert sources(text, 0, 1, ', "f": 1') is None
    assert sources(text, 0, 0, ', "f": 1') == "x y"
