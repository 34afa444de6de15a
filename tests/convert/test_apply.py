# SPDX-License-Identifier: Apache-2.0
"""A step writes its changes at once, and records data for later steps and the report."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from opshift import Refused, convert_version
from opshift.adapter import T, adapter
from opshift.assumptions import Assumption
from opshift.author.facts import Facts
from opshift.convert.apply import Applier, is_equal, used_constants
from steps import opened, stepper
from text_models import model, ops

TEXT = "(float[2] x) => (float[2] y) { h = Gelu(x) y = Neg(h) }"


def stepped(text, verdict, with_adapters, opset=20, more="", **options):
    """The Stepper after one step down with an adapter of Gelu."""
    with_adapters(verdict)
    done = stepper(model(text, opset, more=more), opset, opset - 1, **options)
    done.run()
    return done


# -- the report ------------------------------------------------------------------------------------


@adapter("Gelu", 20, 19, approximate=True)
def nearly(node, op):
    """Asks for permission."""
    op.approximate("nearly equal")
    return op.Neg(op.Abs(node["X"]))


@adapter("Gelu", 20, 19)
def exactly(node, op):
    """Two
    nodes.

    A report shows only the first paragraph.
    """
    return op.Neg(op.Abs(node["X"]))


@adapter("Gelu", 20, 19)
def assuming(node, op):
    """One node if no dimension is zero, else two."""
    if op.assumes(Assumption.NO_ZERO_DIMS):
        return op.Neg(node["X"])
    return op.Neg(op.Abs(node["X"]))


def test_an_exact_change_is_counted_and_is_no_approximation(with_adapters):
    text = "(float[2] x) => (float[2] y) { h = Gelu(x) y = Gelu(h) }"
    done = stepped(text, exactly, with_adapters)
    ((kind, count),) = done.step.rewritten.items()
    assert (kind.op, kind.gives, kind.why, count) == ("Gelu", ("Abs", "Neg"), "Two nodes.", 2)
    assert done.step.approximations == done.step.assumptions == []
    assert done.step.approximated == done.step.inexact == set()


def test_an_approximation_names_the_node_or_else_its_output(with_adapters):
    proto = model("(float[2] x) => (float[2] y) { h = Gelu(x) y = Gelu(h) }", 20)
    proto.graph.node[1].name = "last"
    with_adapters(nearly)
    done = stepper(proto, 20, 19, approximate=True)
    done.run()
    assert done.step.approximations == ["Gelu 'h': nearly equal", "Gelu 'last': nearly equal"]
    assert done.step.approximated == {("", "Gelu")}
    assert done.step.assumptions == []
    assert done.step.inexact == set()


def test_an_assumption_is_no_approximation(with_adapters):
    done = stepped(TEXT, assuming, with_adapters, assume=[Assumption.NO_ZERO_DIMS])
    assert done.step.assumptions == ["Gelu 'h': no dimension of a tensor is 0 (no-zero-dims)"]
    assert done.step.approximations == []
    assert done.step.approximated == done.step.inexact == set()


CALLS = """(float[2] x) => (float[2] y) { a = acme.Before(x) b = acme.Around(a) y = Gelu(b) }
    <opset_import: ["" : 20], domain: "acme"> Before (x) => (g) { g = Neg(x) }
    <opset_import: ["" : 20], domain: "acme"> Around (x) => (g) { g = Gelu(x) }"""


def test_the_functions_around_and_behind_an_approximated_node_may_avoid_it(with_adapters):
    def inexact(text):
        done = stepped(text, nearly, with_adapters, more=', "acme" : 1', approximate=True)
        return {
            name for which in done.step.inexact for name in ("Around", "Before") if name in which
        }

    behind, around = "y = Gelu(b)", "g = Gelu(x)"
    assert inexact(CALLS.replace(behind, "y = Neg(b)")) == {"Around"}
    assert inexact(CALLS.replace(around, "g = Abs(x)")) >= {"Around"}
    assert inexact(CALLS.replace(behind, "y = Neg(b)").replace(around, "g = Abs(x)")) == set()
    assert inexact(CALLS.replace(behind, "y = Gelu(x)").replace(around, "g = Abs(x)")) == set()


# -- where nodes come from -------------------------------------------------------------------------


def test_a_written_node_is_named_by_the_first_node_that_it_stands_for(with_adapters):
    @adapter("Abs", 13, 12)
    def abs_13_12(node, op):
        """Writes Abs in other operators."""
        return op.Max(node["X"], op.Neg(node["X"]))

    @adapter("Gelu", 20, 19)
    def gelu(node, op):
        """Writes Abs, which the next adapter rewrites."""
        return op.Neg(op.Abs(node["X"]))

    with_adapters(abs_13_12, gelu)
    proto = model(
        "(float[2] x) => (float[2] y, float[2] z) { h = Gelu(x) y = Neg(h) z = Gelu(h) }", 20
    )
    proto.graph.node[0].name = "first"
    attempt = opened(proto, 12)
    attempt.run()
    origins = attempt.document.origins
    assert set(origins.values()) == {"Gelu 'first'", "Gelu 'z'"}
    names = [name for name in origins if not attempt.document.is_fresh(name)]
    assert {name: origins[name] for name in names} == {"h": "Gelu 'first'", "z": "Gelu 'z'"}
    assert len(origins) == 6


def test_a_node_in_place_of_one_node_has_an_origin_if_its_operator_differs(with_adapters):
    @adapter("Gelu", 20, 19)
    def another(node, op):
        """Another operator."""
        return op.Neg(node["X"])

    @adapter("Abs", 13, 12)
    def the_same(node, op):
        """Writes the same operator with another input."""
        return op.Abs(op.Neg(node["X"]))

    done = stepped(TEXT, another, with_adapters)
    assert done.document.origins == {"h": "Gelu 'h'"}
    done = stepped(TEXT.replace("Gelu", "Abs"), the_same, with_adapters, opset=13)
    assert [*done.document.origins.values()] == ["Abs 'h'"]
    assert "h" not in done.document.origins


# -- assumptions that would have avoided a node ----------------------------------------------------


@adapter("Gelu", 20, 19)
def in_words_of_gelu(node, op):
    """With the assumption, writes one Neg; without it, also writes Abs and Add."""
    if op.assumes(Assumption.NO_ZERO_DIMS):
        return op.Neg(node["X"])
    return op.Add(op.Neg(op.Abs(node["X"])), node["X"])


def test_the_assumption_that_avoids_a_written_node_is_recorded(with_adapters):
    done = stepped(TEXT, in_words_of_gelu, with_adapters)
    names = {
        name
        for n in done.document.model.graph.node
        if n.op_type != "Neg" or n.output[0] != "y"
        for name in n.output
    }
    assert done.document.missed == dict.fromkeys(names, Assumption.NO_ZERO_DIMS)
    done = stepped(TEXT, in_words_of_gelu, with_adapters, assume=[Assumption.NO_ZERO_DIMS])
    assert done.document.missed == {}
    done = stepped(TEXT, exactly, with_adapters)
    assert done.document.missed == {}


def test_a_refusal_of_such_a_node_names_the_assumption(with_adapters):
    from opshift.adapter import impossible

    with_adapters(in_words_of_gelu, impossible("Abs", 13, 12, "it is a test", cases=[]))
    with pytest.raises(Refused) as caught:
        convert_version(model(TEXT, 20), 12)
    (refusal,) = caught.value.refusals
    assert refusal.missed is Assumption.NO_ZERO_DIMS
    assert "(written for Gelu 'h')" in refusal.node


def test_the_same_operator_in_a_new_form_needs_no_assumption_but_what_it_writes_later_does(
    with_adapters,
):
    @adapter("Abs", 13, 12)
    def abs_again(node, op):
        """With the assumption, writes Neg; without it, writes Neg and Abs."""
        if op.assumes(Assumption.NO_ZERO_DIMS):
            return op.Neg(node["X"])
        return op.Abs(op.Neg(node["X"]))

    with_adapters(abs_again)
    done = stepper(model("(float[2] x) => (float[2] y) { y = Abs(x) }", 13), 13, 12)
    done.run()
    (neg,) = (node for node in done.document.model.graph.node if node.op_type == "Neg")
    assert set(done.document.missed) == {*neg.output}
    # a node that was written for want of the assumption passes it on to all nodes in its place
    again = stepper(model("(float[2] x) => (float[2] y) { y = Abs(x) }", 13), 13, 12)
    again.document.missed["y"] = Assumption.NO_ZERO_DIMS
    again.run()
    written = {name for node in again.document.model.graph.node for name in node.output}
    assert set(again.document.missed) == written


# -- facts -----------------------------------------------------------------------------------------


def test_the_types_of_written_values_are_recorded_before_their_node_goes(
    with_adapters, monkeypatch
):
    recorded = []
    original = Facts.record_type

    def spy(self, scope, name, kind, *, claimed, counted=False):
        assert kind is not None
        recorded.append((name, kind.tensor_type.elem_type, claimed, counted))
        original(self, scope, name, kind, claimed=claimed, counted=counted)

    @adapter("Abs", 13, 12)
    def abs_13_12(node, op):
        """Writes Abs in other operators."""
        return op.Max(node["X"], op.Neg(node["X"]))

    with_adapters(abs_13_12, exactly)
    monkeypatch.setattr(Facts, "record_type", spy)
    proto = model(TEXT, 20)
    attempt = opened(proto, 12)
    attempt.run()
    assert [(kind, claimed, counted) for _, kind, claimed, counted in recorded] == [
        (T.FLOAT, False, False)
    ]
    assert recorded[0][0].startswith(attempt.document.prefix)


def test_the_element_types_that_a_step_brings_in_are_present(with_adapters):
    @adapter("Gelu", 20, 19)
    def in_double(node, op):
        """Computes in double, with a constant of another type."""
        codes = op.DequantizeLinear(op.const([1, 2], T.INT8), op.const(1.0, T.FLOAT))
        return op.Cast(op.Cast(op.Add(node["X"], codes), to=T.DOUBLE), to=T.FLOAT)

    before = stepper(model(TEXT, 20), 20, 19).facts.present_types
    done = stepped(TEXT, in_double, with_adapters)
    assert done.facts.present_types - before == {"double", "int8"}


def test_a_written_node_without_a_schema_brings_in_no_type(with_adapters):
    @adapter("Gelu", 20, 19)
    def foreign(node, op):
        """Writes an operator of another domain."""
        y = op.Neg(node["X"])
        op.made.nodes[-1].domain = "acme"
        return y

    with_adapters(foreign)
    done = stepper(model(TEXT, 20, more=', "acme" : 1'), 20, 19)
    done.checks = False
    before = done.facts.present_types
    done.run()
    assert done.facts.present_types == before
    assert [n.domain for n in done.document.model.graph.node] == ["acme", ""]


BRANCH = """(float[2] x, bool c) => (float[2] y) {
    y = If (c) <then_branch = t () => (float[2] r) { k = Cast<to = 11>(x) r = Cast<to = 1>(k) },
                else_branch = e () => (float[2] s) { s = Neg(x) }> }"""


@pytest.mark.parametrize("kept", [True, False])
def test_types_in_graphs_that_a_change_keeps_are_known_already(kept, with_adapters, monkeypatch):
    looked = []
    original = Facts.add_present_types
    monkeypatch.setattr(
        Facts,
        "add_present_types",
        lambda self, types: (looked.extend(types), original(self, types))[1],
    )

    @adapter("If", 13, 12, ignores={"else_branch": "it is a test", "cond": "it is a test"})
    def if_13_12(node, op):
        """Keeps the graphs, or writes only one of them in place of the node."""
        return op.same(node) if kept else op.inline(node.graph("then_branch"))

    with_adapters(if_13_12)
    done = stepper(model(BRANCH, 13), 13, 12)
    done.run()
    assert ("double" in looked) != kept


# -- constants that take the place of others -------------------------------------------------------


def test_constants_have_equal_elements_whatever_their_types_are():
    one, other = np.array([1, 2], np.int64), np.array([1, 2], np.float32)
    assert is_equal(one, other)
    assert not is_equal(one, np.array([1, 3], np.float32))
    texts = np.array(["1", "2"], object)
    assert not is_equal(texts, one)
    assert not is_equal(one, texts)
    assert is_equal(texts, texts.copy())


@pytest.mark.filterwarnings("error")
def test_a_number_that_is_none_equals_no_integer_and_warns_nobody():
    assert not is_equal(np.array([np.nan, 1.0]), np.array([0, 1]))


def test_only_constants_that_a_node_reads_are_used(with_adapters):
    found = []

    @adapter("Gelu", 20, 19)
    def two_constants(node, op):
        """Makes two constants, and reads one."""
        op.const(np.float32(5), T.FLOAT)
        y = op.Add(node["X"], op.const(np.float32(7), T.FLOAT))
        found.append(list(used_constants(op.made)))
        return y

    done = stepped(TEXT, two_constants, with_adapters)
    assert [onnx.numpy_helper.to_array(one).item() for one in found[-1]] == [7.0]
    assert len(done.document.model.graph.initializer) == 1


def with_constant(kind, value, text="(float[2] x) => (float[2] y) { h = Elu(x) y = Add(h, w) }"):
    """A model with a constant `w` that has notes: an initializer, an input, or a node."""
    proto = model(text, 14)
    tensor = onnx.numpy_helper.from_array(value, "w")
    tensor.doc_string = "weights"
    if kind == "node":
        tensor.name = "value"
        proto.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    elif kind == "filled":
        sizes = onnx.numpy_helper.from_array(np.array([2], np.int64), "sizes")
        proto.graph.initializer.append(sizes)
        one = onnx.numpy_helper.from_array(value[:1], "value")
        proto.graph.node.insert(0, helper.make_node("ConstantOfShape", ["sizes"], ["w"], value=one))
    elif kind == "list":
        numbers = [float(one) for one in value]
        proto.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value_floats=numbers))
    else:
        proto.graph.initializer.append(tensor)
        if kind == "input":
            proto.graph.input.append(helper.make_tensor_value_info("w", T.FLOAT, value.shape))
    return proto


OLD = np.array([1, 2], np.float32)


@pytest.mark.parametrize(
    ("kind", "new", "inherits"),
    [
        ("initializer", OLD.astype(np.float64), True),
        ("node", OLD.astype(np.float64), True),
        ("initializer", OLD, True),
        ("initializer", np.array([1, 3], np.float32), False),
        ("initializer", np.array([[1, 2]], np.float32), False),
        ("input", OLD, False),
        ("list", OLD, False),
    ],
)
def test_a_constant_of_equal_elements_inherits_from_the_one_that_goes(
    kind, new, inherits, with_adapters
):
    @adapter("Add", 14, 13, ignores={"B": "it is a test"})
    def add_14_13(node, op):
        """Reads another constant, in another operator."""
        moved = op.const(new, T.DOUBLE if new.dtype == np.float64 else T.FLOAT)
        wide = op.Cast(node["A"], to=T.DOUBLE) if new.dtype == np.float64 else node["A"]
        return op.Cast(op.Mul(wide, moved), to=T.FLOAT)

    with_adapters(add_14_13)
    done = stepper(with_constant(kind, OLD), 14, 13)
    done.run()
    inherited = list(done.document.inherited.values())
    assert [(one.name, one.doc_string) for one in inherited] == (
        [("w", "weights")] if inherits else []
    )


@pytest.mark.parametrize("kind", ["initializer", "input", "list", "filled"])
def test_a_constant_at_the_same_place_inherits_whatever_its_elements_are(kind, with_adapters):
    """A constant without a tensor, or one that a caller may replace, passes nothing on."""

    @adapter("Add", 14, 13, ignores={"B": "it is a test"})
    def add_14_13(node, op):
        """Reads another constant at the position of the old one."""
        return op.Add(node["A"], op.const(OLD + 5, T.FLOAT))

    with_adapters(add_14_13)
    done = stepper(with_constant(kind, OLD), 14, 13)
    done.run()
    assert [one.name for one in done.document.inherited.values()] == ["w"] * (kind == "initializer")


def test_a_constant_at_a_place_that_the_node_lacked_inherits_by_its_elements(with_adapters):
    @adapter("Add", 14, 13, ignores={"B": "it is a test"})
    def add_14_13(node, op):
        """Reads the constant as a third input of another node."""
        return op.Sum(node["A"], op.const(OLD + 5, T.FLOAT), op.const(OLD, T.FLOAT))

    with_adapters(add_14_13)
    done = stepper(with_constant("initializer", OLD), 14, 13)
    done.run()
    (heir,) = done.document.inherited
    (tensor,) = (tensor for tensor in done.document.model.graph.initializer if tensor.name == heir)
    assert onnx.numpy_helper.to_array(tensor).tolist() == OLD.tolist()


def test_a_constant_that_the_new_nodes_read_leaves_nothing(with_adapters):
    @adapter("Add", 14, 13, ignores={"B": "it is a test"})
    def add_14_13(node, op):
        """Reads the old constant, and an equal one."""
        return op.Sum(node["A"], node["B"], op.const(OLD, T.FLOAT))

    with_adapters(add_14_13)
    done = stepper(with_constant("initializer", OLD), 14, 13)
    done.run()
    assert done.document.inherited == {}


def test_applying_no_change_writes_nothing():
    done = stepper(model(TEXT, 20), 20, 19)
    before = done.document.model.SerializeToString(deterministic=True)
    assert Applier(done.facts, done, done.step).apply([]) == []
    assert done.document.model.SerializeToString(deterministic=True) == before
    assert ops(done.document.model) == "Gelu Neg"
