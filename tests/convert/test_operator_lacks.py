# SPDX-License-Identifier: Apache-2.0
"""Operators, element types and domains that a runtime lacks."""

from __future__ import annotations

from dataclasses import replace

from checked import checked
from opshift.convert.runtime import (
    form_lacks,
    operator_lacks,
    version_lacks,
)
from opshift.convert.runtime.lack import Seen
from opshift.opsets import targets
from runtime_rows import ORT_2, PLAIN, Misreading, of_document, sentences, without_imports
from text_models import model


def test_a_domain_that_a_runtime_lacks():
    proto = model(
        "(float[2] x) => (float[2] y) { a = ai.onnx.ml.Scaler(x) y = Neg(a) }",
        more=', "ai.onnx.ml" : 1',
    )
    assert of_document(operator_lacks.lacking, proto, PLAIN) == []
    row = replace(PLAIN, imports={"": 15}, closed=True)
    assert of_document(operator_lacks.lacking, proto, row) == [
        "it==1.0 has no domain ai.onnx.ml, to which Scaler belongs ('a')"
    ]
    assert (
        of_document(operator_lacks.lacking, proto, replace(row, imports={}))[1:]
        == ["it==1.0 has no domain ai.onnx, to which Neg belongs ('y')"]
        or len(of_document(operator_lacks.lacking, proto, replace(row, imports={}))) == 2
    )


def test_operators_that_a_runtime_does_not_read():
    row = replace(PLAIN, without=(targets.Lacking("Neg"),))
    text = "(float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Neg(b) }"
    assert of_document(operator_lacks.lacking, model(text, 13), row) == [
        "it==1.0 does not read Neg 13 ('a' and 1 more)"
    ]
    document = checked(model(text, 13)).document
    ((root, key, says),) = operator_lacks.unread(document, row)
    assert (root, key, says) == (document.roots[0], ("", "Neg"), "it==1.0 does not read Neg 13")
    assert not operator_lacks.reads(document.model.graph.node, document.roots[0], row)
    assert operator_lacks.reads(document.model.graph.node, document.roots[0], PLAIN)


def test_an_operator_that_only_other_releases_have():
    proto = model(
        "(float[2] x) => (float[2] y) { y = com.microsoft.QuickGelu(x) }",
        more=', "com.microsoft" : 1',
    )
    assert of_document(operator_lacks.lacking, proto, targets.find(ORT_2)) == [
        "onnxruntime==1.2 has no operator com.microsoft.QuickGelu ('y')"
    ]


def test_a_field_that_a_release_does_not_know():
    text = """(float[1,2,8] q, float[1,2,8] k, float[1,2,8] v) => (float[1,2,8] y)
        { y = com.microsoft.MultiHeadAttention<num_heads = 2, unidirectional = 1>(q, k, v) }"""
    proto = model(text, more=', "com.microsoft" : 1')
    row = targets.find("onnxruntime==1.14")
    document = checked(proto).document
    ((key, says), places), *rest = operator_lacks.unknown_fields(document, row).items()
    assert (key, rest) == (("com.microsoft", "MultiHeadAttention"), [])
    assert [scope.node(at).output[0] for scope, at in places] == ["y"]
    assert of_document(operator_lacks.lacking, proto, row) == [
        f"{row.shown} has no operator com.microsoft.MultiHeadAttention with {says} ('y')"
    ]
    assert operator_lacks.unknown_fields(document, PLAIN) == {}


def test_an_attribute_that_no_measured_release_knows():
    proto = model(
        "(float[2] x, float[2] b) => (float[2] y) { y = com.microsoft.BiasGelu<later = 1>(x, b) }",
        more=', "com.microsoft" : 1',
    )
    for release in ("1.10", "1.32"):
        row = targets.find(f"onnxruntime=={release}")
        assert of_document(operator_lacks.lacking, proto, row) == [
            f"{row.shown} has no operator com.microsoft.BiasGelu with an attribute later ('y')"
        ]
    assert (
        of_document(operator_lacks.lacking, proto, replace(row, kernels="", provider="cuda")) == []
    )
    newer = replace(targets.find("onnxruntime==1.32"), asked="1.99")
    assert of_document(operator_lacks.lacking, proto, newer) == []


def test_an_implementation_that_onnx_added_after_the_release(monkeypatch):
    text = "(float[2] x) => (float[2] y) { a = Identity(x) y = Neg(a) }"
    from opshift.opsets import late_changes

    monkeypatch.setattr(
        late_changes,
        "added_after",
        lambda domain, op, since, built: (
            "1.99" if op == "Identity" and built == row.built_on else None
        ),
    )
    monkeypatch.setattr(operator_lacks, "is_beyond", lambda node, before: True)
    row = replace(PLAIN, imports={"": 13})
    assert of_document(operator_lacks.lacking, model(text, 13), row) == [
        "it==1.0 has Identity-1 in this opset; onnx 1.99 added Identity-13 ('a')"
    ]
    assert of_document(operator_lacks.lacking, model(text, 12), row) == [
        "it==1.0 has no Identity in this opset; onnx 1.99 added Identity-1 ('a')"
    ]
    assert of_document(operator_lacks.lacking, model(text, 13), replace(PLAIN, imports={})) == []
    monkeypatch.setattr(operator_lacks, "is_beyond", lambda node, before: False)
    assert of_document(operator_lacks.lacking, model(text, 13), row) == []


def test_element_types_that_a_runtime_lacks():
    proto = model(
        "(double[2] x, bfloat16[2] z) => (double[2] y, bfloat16[2] w) { y = Neg(x) w = Neg(z) }", 13
    )
    row = replace(PLAIN, columns={"types": ("double", "int8")}, ir=3)
    found = operator_lacks.lacking(checked(proto).document, row)
    assert (
        sentences(found)
        == [
            "it==1.0 has no kernels for double",
            "it==1.0 does not read bfloat16, which IR 4 introduced",
        ]
        or sentences(found)[0] == "it==1.0 has no kernels for double"
    )
    assert found[0].types == "double=float"
    assert (found[0].op, found[0].domain, found[0].node, found[0].count) == ("", "", "", 1)
    lacks_both = operator_lacks.lacking(
        checked(proto).document, replace(row, columns={"types": ("double", "float", "float16")})
    )
    assert lacks_both[0].types in ("", "double=float16") or "float" not in lacks_both[0].types
    assert (
        of_document(operator_lacks.lacking, proto, replace(PLAIN, columns={"types": ()}, ir=None))
        == []
    )
    assert (
        of_document(operator_lacks.lacking, proto, replace(PLAIN, columns={"types": ()}, ir=20))
        == []
    )


def test_a_type_that_a_later_ir_version_introduced():
    proto = model("(float8e5m2[2] x) => (float8e5m2[2] y) { y = Identity(x) }", 19, ir=9)
    for ir, told in ((8, True), (9, False), (None, False)):
        row = replace(PLAIN, imports={"": 19}, ir=ir)
        messages = of_document(operator_lacks.lacking, proto, row)
        assert messages == ["it==1.0 does not read float8e5m2, which IR 9 introduced"] * told


def test_a_model_without_imports_is_read_at_version_1(monkeypatch):
    proto = without_imports("(float[2] x) => (float[2] y) { y = Pad<paddings = [0, 0]>(x) }")
    row = replace(PLAIN, without=(targets.Lacking("Pad"),))
    assert of_document(operator_lacks.lacking, proto, row) == ["it==1.0 does not read Pad 1 ('y')"]
    seen = []

    class Form(Misreading):
        def is_form(self, node, version, around=None):
            seen.append(version)
            return False

    opened = checked(proto)
    monkeypatch.setattr(form_lacks, "misreadings", lambda *_: [Form()])
    assert not [*form_lacks.misread_nodes(opened.facts, PLAIN)]
    assert seen == [1]
    assert of_document(version_lacks.below_floor, proto, replace(PLAIN, floors={"": 7})) == []


def test_findings_about_the_whole_model_count_once():
    proto = model("(float[2] x) => (float[3] y) { y = Neg(x) }", 15)
    opened = checked(proto)
    (shape,) = form_lacks.forms(opened.facts, replace(PLAIN, columns={"strict": True}), Seen())
    assert (shape.node, shape.count) == ("", 1)
    (passed,) = form_lacks.forms(
        opened.facts, replace(PLAIN, columns={"inputs": ("float",)}), Seen()
    )
    assert (passed.node, passed.count) == ("", 1)
    late = model("(float8e5m2[2] x) => (float8e5m2[2] y) { y = Identity(x) }", 19, ir=9)
    (kind,) = operator_lacks.lacking(checked(late).document, replace(PLAIN, imports={"": 19}))
    assert (kind.node, kind.count) == ("", 1)
