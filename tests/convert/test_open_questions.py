# SPDX-License-Identifier: Apache-2.0
"""Missing measurements that would decide whether a runtime runs a model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from onnx import helper
from opshift import terms
from opshift.adapter import T
from opshift.convert.runtime import (
    open_questions,
    operator_lacks,
)
from opshift.opsets import targets
from runtime_rows import (
    ELU,
    FOREIGN,
    NEG,
    PLAIN,
    Misreading,
    of_document,
    of_facts,
    only_misread,
    probe,
    without_imports,
)
from text_models import model


def test_a_domain_of_which_nothing_is_known():
    proto = model(FOREIGN, more=', "acme" : 1')
    (domain, operators) = of_facts(open_questions.unknown, proto, PLAIN)
    assert domain == "whether it==1.0 has the domain acme (3 nodes)"
    assert operators == "which operators it==1.0 runs: " + operators.partition(": ")[2]
    known = replace(PLAIN, imports={"": 15, "acme": 1})
    assert of_facts(open_questions.unknown, proto, known)[:2] == [
        "whether it==1.0 has acme.Abs ('y')", "whether it==1.0 has acme.Neg ('a' and 1 more)"
    ]  # fmt: skip
    assert of_facts(open_questions.unknown, proto, replace(PLAIN, closed=True))[0].endswith(
        "(3 nodes)"
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "only its supported versions are known"),
        ({"provider": "cuda"}, "only the CPU was measured"),
        ({"only": (targets.Lacking("Neg"),)}, "its operators are known, but not their element types and forms"),
        ({"without": (targets.Lacking("Abs"),)}, "only some operators were measured"),
        ({"name": "onnxruntime", "versions": "1.10"}, "only some operators were measured"),
    ],
)  # fmt: skip
def test_what_is_known_of_the_operators_of_a_runtime(more, why):
    row = replace(PLAIN, **more)
    assert of_facts(open_questions.unknown, model(NEG), row) == [
        f"which operators {row.shown} runs: {why}"
    ]


def test_nothing_is_unknown_of_a_measured_runtime_or_of_no_node():
    assert of_facts(open_questions.unknown, model(NEG), replace(PLAIN, name="onnx")) == []
    empty = model("(float[2] x) => (float[2] x) { }")
    assert of_facts(open_questions.unknown, empty, PLAIN) == []


def test_sizes_that_are_not_fixed():
    text = "(float[N,2] a, float[N,M] b, float[] c, float d, seq(float[N]) e) => (float[N,2] y) <float[2] w = {1, 2}> { y = Neg(a) }"
    proto = model(text, 13)
    proto.graph.input.append(helper.make_tensor_value_info("w", T.FLOAT, ["K"]))
    proto.graph.input.append(helper.make_tensor_value_info("u", T.FLOAT, None))
    row = replace(PLAIN, name="onnx", columns={"fixed_sizes": True})
    messages = of_facts(open_questions.unknown, proto, row)
    fix = f"it needs fixed sizes, as in {terms.option('shape', 'u=1,3,224,224')}"
    assert [message for message in messages if "'u'" in message] == [
        f"whether onnx==1.0 reads 'u': {fix}"
    ]
    sizes = [message for message in messages if "the size" in message]
    assert sizes == [
        f"whether onnx==1.0 reads the size {size!r}: it needs fixed sizes, as in"
        f" {terms.option('dim', f'{size}=1')}"
        for size in "NM"
    ]
    assert (
        of_facts(open_questions.unknown, proto, replace(row, columns={"fixed_sizes": False})) == []
    )


UNCERTAIN = "handles this node correctly, which depends on values that are not known"


@pytest.mark.parametrize(
    ("processors", "provider", "answer", "doubt"),
    [
        ("x86", "", True, "computes the same on all processors"),
        ("", "cuda", True, "shares this fault of the CPU provider"),
        ("", "", None, UNCERTAIN),
    ],
)
def test_a_form_that_is_perhaps_misread(processors, provider, answer, doubt, monkeypatch):
    only_misread(monkeypatch, Misreading(processors, answer))
    text = "(float[2] x) => (float[2] y) { a = Neg(x) y = Neg(a) }"
    row = replace(PLAIN, name="onnx", provider=provider)
    assert of_facts(open_questions.unknown, model(text, 13), row)[:1] == [
        f"whether {row.shown} {doubt}: it misreads Neg ('a' and 1 more)"
    ]


def test_nodes_that_no_probe_has_run():
    row = replace(PLAIN, probed=probe("runs double\nruns @alpha"))
    assert of_facts(open_questions.unknown, model(ELU, 13), row) == [
        "whether it==1.0 runs Elu 6 of float ('a' and 1 more)"
    ]
    row = replace(PLAIN, probed=probe("runs float"))
    text = ELU.replace("y = Elu(a)", "b = Elu(a) c = Neg(b) y = Neg(c)")
    with_negs = of_facts(open_questions.unknown, model(text, 13), row)
    assert "whether it==1.0 runs Neg 13 ('c' and 1 more)" in with_negs
    assert any(with_neg.startswith("whether it==1.0 runs Elu 6 with") for with_neg in with_negs)
    foreign = model(FOREIGN, more=', "acme" : 1')
    alone = (
        "whether it==1.0 runs the nodes in this model: a probe ran each of these nodes only in a"
        " model of one node"
    )
    assert of_facts(open_questions.unknown, foreign, row)[1:] == [alone]
    assert of_facts(open_questions.unknown, model("(float[2] x) => (float[2] x) { }"), row) == []


def test_nodes_that_ran_alone_may_fail_together():
    row = replace(PLAIN, probed=probe("runs float\nruns @rank=1"))
    proto = model("(float[2] x) => (float[2] y) { y = Elu(x) }", 13)
    assert of_facts(open_questions.unknown, proto, row) == [
        "whether it==1.0 runs the nodes in this model: a probe ran each of these nodes only in a"
        " model of one node"
    ]


def test_an_operator_that_the_release_does_not_read_is_not_unknown():
    row = replace(PLAIN, probed=probe("refused float"))
    proto = model("(float[2] x) => (float[2] y) { y = Elu(x) }", 13)
    assert not any("Elu" in fact for fact in of_facts(open_questions.unknown, proto, row))
    assert of_document(operator_lacks.lacking, proto, row) == [
        "Elu 6 does not run in it==1.0 ('y')"
    ]


def test_an_operator_of_a_vendor_without_an_import_is_named():
    proto = without_imports("(float[2] x) => (float[2] y) { y = com.microsoft.Nope(x) }")
    assert of_facts(open_questions.unknown, proto, targets.find("onnxruntime==1.10")) == [
        "whether onnxruntime==1.10 has com.microsoft.Nope ('y')"
    ]


def test_an_operator_that_onnx_lacks_is_no_question_about_a_vendor():
    proto = model("(float[2] x) => (float[2] y) { y = Nope(x) }", 13)
    assert of_facts(open_questions.unknown, proto, replace(PLAIN, name="onnx")) == []
