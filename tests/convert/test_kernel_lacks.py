# SPDX-License-Identifier: Apache-2.0
"""Element types for which a runtime has no kernel."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest
from checked import checked
from opshift import convert_version
from opshift.adapter import T, adapter
from opshift.convert.runtime import (
    kernel_lacks,
    lack,
)
from opshift.opsets import probed, targets
from opshift.opsets.kernels import Missing
from runtime_rows import NEG, PLAIN, of_facts, without
from steps import stepper
from text_models import model


def test_a_node_of_a_type_without_a_kernel():
    row = without(Neg_13=Missing(("T",), frozenset({("double",), ("float16",)})))
    text = "(double[2] x, float[2] z) => (double[2] y, float[2] w) { a = Neg(x) y = Neg(a) w = Neg(z) }"
    opened = checked(model(text, 13))
    (lack,) = kernel_lacks.kernels(opened.facts, row)
    assert str(lack) == "Neg of double has no kernel in it 1.0 ('a' and 1 more)"
    assert (lack.op, lack.domain, lack.count, lack.types) == ("Neg", "", 2, "double=float")
    ((place, key, types, missing), (other, *_)) = kernel_lacks.without_kernel(opened.facts, row)
    assert (key, types, missing) == (("", "Neg"), ("double",), row.no_kernels(("", "Neg"), 13))
    assert [place[0].node(place[1]).output[0], other[0].node(other[1]).output[0]] == ["a", "y"]


def test_no_change_of_types_is_offered_that_has_no_kernel_either():
    every = Missing(("T",), frozenset({("double",)}), frozenset({("float",)}))
    opened = checked(model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13))
    (lack,) = kernel_lacks.kernels(opened.facts, without(Neg_13=every))
    assert lack.types in ("", "double=float16", "double=bfloat16")
    assert lack.types != "double=float"


def test_the_outcome_of_a_probe_is_named():
    missing = Missing(("T",), frozenset({("double",)}), outcomes={("double",): probed.DIES})
    opened = checked(model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13))
    (lack,) = kernel_lacks.kernels(opened.facts, without(Neg_13=missing))
    assert str(lack) == "Neg of double crashes the process of it 1.0 ('y')"


TWO = Missing(("T1", "T2"), frozenset({("float", "int32")}))


def test_several_types_are_listed():
    opened = checked(model("(float[2] x) => (int32[2] y) { y = Cast<to = 6>(x) }", 13))
    (lack,) = kernel_lacks.kernels(opened.facts, without(Cast_13=TWO))
    assert str(lack) == "Cast of float, int32 has no kernel in it 1.0 ('y')"


def test_types_are_looked_up_once_for_many_releases():
    opened = checked(model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13))
    seen = lack.Seen()
    row = without(Neg_13=Missing(("T",), frozenset({("double",)})))
    assert len(kernel_lacks.kernels(opened.facts, row, seen)) == 1
    ((asked, types),) = seen.types.items()
    assert (asked[1:], types) == ((("", "Neg"), ("T",)), [("double",)])
    seen.types[asked] = [("float",)]
    assert kernel_lacks.kernels(opened.facts, row, seen) == []


def test_a_type_in_doubt_or_not_tried():
    doubt = Missing(("T",), frozenset({("float16",)}), frozenset({("double",)}))
    proto = model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13)
    assert of_facts(kernel_lacks.in_doubt, proto, without(Neg_13=doubt)) == [
        "whether it 1.0 has a kernel for Neg of double ('y')"
    ]
    plain = model(NEG, 13)
    assert of_facts(kernel_lacks.in_doubt, plain, without(Neg_13=doubt)) == []
    lacks = Missing(("T",), frozenset({("double",)}))
    assert of_facts(kernel_lacks.in_doubt, proto, without(Neg_13=lacks)) == []


def test_a_value_of_unknown_type_may_be_of_each_type_in_the_model():
    text = "(double[2] x) => (y, z) { y = acme.Op(x) z = Neg(y) }"
    proto = model(
        "(double[2] x) => (double[2] w) { y = acme.Op(x) z = Neg(y) w = Abs(x) }",
        13,
        more=', "acme" : 1',
    )
    assert text
    for lacked, told in (("double", True), ("float16", False)):
        row = without(Neg_13=Missing(("T",), frozenset({(lacked,)})))
        assert (
            of_facts(kernel_lacks.in_doubt, proto, row)
            == ["whether it 1.0 has a kernel for Neg of an unknown type ('z')"] * told
        )
        doubted = without(Neg_13=Missing(("T",), frozenset(), frozenset({(lacked,)})))
        assert bool(of_facts(kernel_lacks.in_doubt, proto, doubted)) == told


@pytest.mark.parametrize("probed_only", [True, False])
def test_a_probe_names_its_doubts_itself(probed_only):
    doubt = Missing(("T",), frozenset(), frozenset({("double",)}))
    row = replace(
        without(Neg_13=doubt), probed=object(), kernels="" if probed_only else "onnxruntime"
    )
    proto = model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13)
    assert bool(of_facts(kernel_lacks.in_doubt, proto, row)) != probed_only


def test_types_that_the_measurement_left_out_are_not_tried():
    """If an operator has many type variables, the measurement tried only common types."""
    found = checked(model(NEG, 13)).document.roots[0]
    assert kernel_lacks.is_tried(found, ("", "Neg"), ("T",), ("double",))
    assert kernel_lacks.is_tried(found, ("", "Neg"), ("T",), ("",))
    for kinds, tried in (
        (("float", "int32"), True),
        (("float", "uint16"), False),
        (("", ""), True),
    ):
        assert kernel_lacks.is_tried(found, ("", "Cast"), ("T1", "T2"), kinds) == tried


def test_an_absent_input_has_the_type_that_a_kernel_takes():
    """The bounds of Clip have the type of its input; the region of Resize has its own type."""
    text = "(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Resize(x, , s) }"
    one = frozenset({("float", "float"), ("float", "double")})
    assert (
        of_facts(
            kernel_lacks.kernels, model(text, 13), without(Resize_13=Missing(("T1", "T2"), one))
        )
        == []
    )
    every = one | {("float", "float16")}
    messages = of_facts(
        kernel_lacks.kernels, model(text, 13), without(Resize_13=Missing(("T1", "T2"), every))
    )
    assert len(messages) == 1
    assert "Resize of float" in messages[0]
    unnamed = frozenset({("float", "")})  # a probe ran models without the input
    for missing in (Missing(("T1", "T2"), unnamed), Missing(("T1", "T2"), frozenset(), unnamed)):
        told = of_facts(kernel_lacks.kernels, model(text, 13), without(Resize_13=missing))
        assert told == ["Resize of float has no kernel in it 1.0 ('y')"] * bool(missing.choices)
        doubts = of_facts(kernel_lacks.in_doubt, model(text, 13), without(Resize_13=missing))
        assert bool(doubts) == (not missing.choices)


def test_a_doubtful_type_is_better_than_none_for_an_absent_input():
    text = "(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Resize(x, , s) }"
    missing = Missing(
        ("T1", "T2"),
        frozenset({("float", "float"), ("float", "double")}),
        frozenset({("float", "float16")}),
    )
    row = without(Resize_13=missing)
    assert of_facts(kernel_lacks.kernels, model(text, 13), row) == []
    assert of_facts(kernel_lacks.in_doubt, model(text, 13), row) == [
        "whether it 1.0 has a kernel for Resize of float, float16 ('y')"
    ]


def test_untried_types_are_listed_on_demand(monkeypatch):
    opened = checked(model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13))
    row = without(Neg_13=Missing(("T",), frozenset({("float16",)})))
    monkeypatch.setattr(kernel_lacks, "_left_out", lambda *_: {"T": {"double"}})
    assert kernel_lacks.without_kernel(opened.facts, row) == []
    assert len(kernel_lacks.without_kernel(opened.facts, row, untried=True)) == 1
    assert of_facts(
        kernel_lacks.in_doubt, model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13), row
    ) == ["whether it 1.0 has a kernel for Neg of double ('y')"]
    monkeypatch.setattr(kernel_lacks, "_left_out", lambda *_: {})
    assert kernel_lacks.without_kernel(opened.facts, row, untried=True) == []


def test_contrib_operators_without_a_kernel_on_the_cpu():
    proto = model(
        "(float[1,3,32] q, float[1,3,16] k, float[1,3,16] v, float[1,2,4,8] a, float[1,2,4,8] b,"
        " int32[1] s, int32 t) => (float[1,3,32] y, float[1,2,4,8] c, float[1,2,4,8] d)"
        " { y, c, d = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2>(q, k, v, a, b, s, t) }",
        17,
        more=', "com.microsoft" : 1',
    )
    says = "com.microsoft.GroupQueryAttention has no kernel on the CPU in onnxruntime 1.16 ('y')"
    assert of_facts(kernel_lacks.kernels, proto, targets.find("onnxruntime==1.16")) == [says]
    assert of_facts(kernel_lacks.kernels, proto, targets.find("onnxruntime==1.18")) == []
    half = onnx.ModelProto.FromString(proto.SerializeToString().replace(b"", b""))
    assert half == proto


@pytest.mark.parametrize(
    ("write", "kind", "offer"),
    [
        (lambda op, x: op.Cast(op.Neg(op.Cast(x, to=T.DOUBLE)), to=T.FLOAT), "float", ""),
        (lambda op, x: op.Exp(op.Neg(op.Abs(x))), "double", "double=float"),
        (lambda op, x: op.Neg(op.Abs(x)), "double", "double=float"),
        (lambda op, x: op.Exp(op.Neg(_twice(op, op.Cast(x, to=T.DOUBLE)))), "float", ""),
        (lambda op, x: op.Exp(op.Neg(op.Clip(op.Cast(x, to=T.DOUBLE), None, None))), "float", ""),
        (lambda op, x: op.Exp(op.Neg(op.Cast(op.Abs(x), to=T.DOUBLE))), "float", ""),
        (lambda op, x: op.Exp(op.Neg(_twice(op, op.Abs(x)))), "double", "double=float"),
    ],
)
def test_no_change_of_types_is_offered_for_a_type_that_an_adapter_chose(
    write, kind, offer, with_adapters
):
    @adapter("Gelu", 20, 19)
    def gelu(node, op):
        """Writes other nodes."""
        return write(op, node["X"])

    with_adapters(gelu)
    done = stepper(
        model(f"({kind}[2] x) => ({kind}[2] y) {{ h = Gelu(x) y = Sqrt(h) }}", 20), 20, 19
    )
    done.checks = False
    done.run()
    row = without(Neg_13=Missing(("T",), frozenset({("double",)})))
    (lack,) = kernel_lacks.kernels(done.facts, row)
    assert (lack.op, lack.types) == ("Neg", offer)


def test_a_sure_type_is_better_than_a_doubtful_one_for_an_absent_input():
    text = "(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Resize(x, , s) }"
    missing = Missing(
        ("T1", "T2"), frozenset({("float", "float")}), frozenset({("float", "float16")})
    )
    row = without(Resize_13=missing)
    assert of_facts(kernel_lacks.kernels, model(text, 13), row) == []
    assert of_facts(kernel_lacks.in_doubt, model(text, 13), row) == []


def test_one_unknown_type_of_two():
    proto = model(
        "(double[2] x) => (float[2] z) { y = acme.Op(x) z = Cast<to = 1>(y) w = Abs(x) }",
        13,
        more=', "acme" : 1',
    )
    for choice, told in ((("double", "float"), True), (("double", "int32"), False)):
        row = without(Cast_13=Missing(("T1", "T2"), frozenset({choice})))
        assert (
            of_facts(kernel_lacks.in_doubt, proto, row)
            == ["whether it 1.0 has a kernel for Cast of an unknown type, float ('z')"] * told
        )


def test_a_contrib_operator_without_a_kernel_for_one_type(monkeypatch):
    proto = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)
    place = checked(proto).document.roots[0].index["", "Neg"][0]
    key = ("com.microsoft", "Op")
    for element, of in (("float", " of float"), ("", "")):
        monkeypatch.setattr(
            kernel_lacks,
            "contrib_without_kernel",
            lambda *_, element=element: [(place, key, element)],
        )
        assert of_facts(kernel_lacks.kernels, proto, PLAIN) == [
            f"com.microsoft.Op{of} has no kernel on the CPU in it 1.0 ('y')"
        ]


def test_a_lacking_type_that_was_not_tried_is_not_in_doubt(monkeypatch):
    monkeypatch.setattr(kernel_lacks, "_left_out", lambda *_: {"T": {"double"}})
    proto = model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13)
    row = without(Neg_13=Missing(("T",), frozenset({("double",)})))
    assert of_facts(kernel_lacks.in_doubt, proto, row) == []


HALF_ELU = "(bfloat16[2] x) => (bfloat16[2] y) { y = Elu(x) }"


@pytest.mark.parametrize(
    ("text", "opset", "target", "illegal"),
    [
        (HALF_ELU, 13, "onnxruntime==1.17", "Elu of bfloat16"),
        (HALF_ELU, 13, "opencv==5.0", ""),  # its kernels are not all known
        (HALF_ELU, 22, "onnxruntime==1.20", ""),
        ("(float16[2] x) => (float16[2] y) { y = Celu(x) }", 17, "ort 1.17", "Celu of float16"),
        ("(int32[2] x) => (int32[2] y) { y = Erf(x) }", 13, "ort 1.10", ""),  # onnx 1.20 removed it
        ("(string[2] x) => (float[2] y) { y = Cast<to = 1>(x) }", 13, "ort 1.17", ""),
    ],
)
def test_a_type_that_an_operator_does_not_accept_does_not_load(text, opset, target, illegal):
    row = targets.find(target)
    lacks = of_facts(kernel_lacks.kernels, model(text, opset), row)
    wanted = f"{row.shown}: {illegal} is illegal at this opset and does not load ('y')"
    assert [lack for lack in lacks if "illegal" in lack] == ([wanted] if illegal else [])


def test_a_type_that_an_operator_does_not_accept_becomes_a_wider_one():
    result = convert_version(model(HALF_ELU, 13), "onnxruntime==1.17")
    assert [node.op_type for node in result.graph.node] == ["Cast", "Elu", "Cast"]


def _twice(op, x):
    return op.Add(x, x)


# -- models without imports ------------------------------------------------------------------------
