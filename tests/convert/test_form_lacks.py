# SPDX-License-Identifier: Apache-2.0
"""Legal nodes that a runtime rejects or computes wrongly."""

from __future__ import annotations

from dataclasses import replace

from checked import checked
from opshift.convert.runtime import (
    form_lacks,
    lack,
    runnable,
)
from opshift.opsets import targets
from runtime_rows import ELU, NEG, PLAIN, Misreading, builder_of, of_facts, probe, sentences
from text_models import model


def test_types_that_a_runtime_casts_by_itself():
    row = replace(PLAIN, columns={"casts": {"int64": "int32", "double": "float"}})
    graph = model("(int64[2] x) => (float[2] y) { y = Cast<to = 1>(x) }").graph
    says = "it==1.0 computes int64 as int32 and clamps numbers beyond it"
    assert form_lacks.casts_by_itself(graph, row) == {"int64=int32": says}


def test_inputs_and_outputs_that_the_package_does_not_pass():
    row = replace(PLAIN, columns={"inputs": ("double",), "outputs": ("int64",)})
    proto = model(
        "(double[2] x, int64[2] z) => (double[2] y, int64[2] w) { y = Neg(x) w = Neg(z) }", 13
    )
    forms = form_lacks.forms(checked(proto).facts, row, lack.Seen())
    assert sentences(forms) == [
        "it==1.0: its Python package cannot accept a tensor of double, such as 'x'",
        "it==1.0: its Python package cannot return a tensor of int64, such as 'w'",
    ]
    assert all((form.op, form.domain, form.node, form.count) == ("", "", "", 1) for form in forms)


def test_a_declared_shape_that_a_strict_runtime_rejects():
    proto = model("(float[2] x) => (float[3] y) { y = Neg(x) }", 15)
    strict = replace(PLAIN, columns={"strict": True})
    (message,) = of_facts(form_lacks.forms, proto, strict)
    assert message.startswith(
        "it==1.0: at opset 15 it rejects a declared shape that inference contradicts: "
    )
    assert of_facts(form_lacks.forms, proto, PLAIN) == []
    assert of_facts(form_lacks.forms, model(NEG, 15), strict) == []
    assert (
        of_facts(form_lacks.forms, model("(float[2] x) => (float[3] y) { y = Neg(x) }", 14), strict)
        == []
    )


def test_forms_are_looked_for_once_for_many_releases():
    text = "(float[2] x) => (y) { s = Constant<value = int64[1] {-1}>() y = Reshape<allowzero = 1>(x, s) }"
    found, seen = checked(model(text, 14)), lack.Seen()
    rows = [targets.find(f"onnxruntime=={release}") for release in ("1.9", "1.10")]
    assert len(form_lacks.forms(found.facts, rows[0], seen)) == 1
    for place in seen.places:
        seen.places[place] = []
    assert form_lacks.forms(found.facts, rows[1], seen) == []
    assert len(form_lacks.forms(found.facts, rows[1], lack.Seen())) == 1


def test_a_form_that_a_release_misreads():
    text = "(float[1,1,4,4] x) => (float[1,1,2,2] y) { y = MaxPool<kernel_shape = [2,2], strides = [2,2], ceil_mode = 1>(x) }"
    row = targets.find("onnxruntime==1.10")
    opened = checked(model(text, 12))
    for key, one, places in form_lacks.misread_nodes(opened.facts, row):
        assert [scope.node(at).op_type for scope, at in places] == [key[1]]
        assert f"{row.shown}: {one.described(key[1])} ('y')" in sentences(
            form_lacks.forms(opened.facts, row, lack.Seen())
        )


def test_each_place_of_a_misread_form_is_listed(monkeypatch):
    opened = checked(model("(float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Neg(b) }", 13))
    looked = []

    def declared(rules, row, key):
        looked.append(key)
        return [Misreading()]

    monkeypatch.setattr(form_lacks, "misreadings", declared)
    ((key, _, places),) = form_lacks.misread_nodes(opened.facts, PLAIN)
    assert key == ("", "Neg")
    assert [scope.node(at).output[0] for scope, at in places] == ["a", "y"]
    assert looked == [("", "Abs"), ("", "Neg")]


def test_a_form_with_which_no_model_ran():
    row = replace(PLAIN, probed=probe("runs float\nrefused @alpha"))
    opened = checked(model(ELU, 13))
    ((key, says), places), *rest = form_lacks.failed_forms(opened.facts, row).items()
    assert (key, says, rest) == (("", "Elu"), "Elu 6 with alpha does not run in it==1.0", [])
    assert [scope.node(at).output[0] for scope, at in places] == ["a"]
    assert sentences(form_lacks.forms(opened.facts, row, lack.Seen())) == [f"{says} ('a')"]
    assert form_lacks.failed_forms(opened.facts, PLAIN) == {}
    nodes, op, rules = builder_of(model(ELU, 13))
    assert not runnable.runs(nodes, op, row, rules)
    assert runnable.runs([nodes[1]], op, row, rules)


def test_the_rank_of_the_first_input_is_a_feature():
    row = replace(PLAIN, probed=probe("runs float\ndies @rank=1"))
    assert of_facts(form_lacks.forms, model(ELU, 13), row) == [
        "Elu 6 with rank=1 crashes the process of it==1.0 ('a' and 1 more)"
    ]
    nodes, op, rules = builder_of(model(ELU, 13))
    assert not runnable.runs(nodes, op, row, rules)
    proto = model(ELU.replace("[2]", "[2,2]"), 13)
    assert of_facts(form_lacks.forms, proto, row) == []


def test_a_node_without_inputs_has_no_rank():
    row = replace(PLAIN, probed=probe("runs float\nrefused @rank=1"))
    text = "(float[2] x) => (float[2] y) { c = Constant<value_float = 1.0>() h = Elu(x) y = Add(h, c) }"
    assert of_facts(form_lacks.forms, model(text, 13), row) == [
        "Elu 6 with rank=1 does not run in it==1.0 ('h')"
    ]
    nodes, op, rules = builder_of(model(text, 13))
    assert runnable.runs([nodes[0]], op, row, rules)
