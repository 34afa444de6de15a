# SPDX-License-Identifier: Apache-2.0
"""A verdict contains each reason and each doubt that the parts of the search find."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import opshift
import pytest
from checked import checked
from opshift.convert.runtime import (
    form_lacks,
    kernel_lacks,
    open_questions,
    operator_lacks,
    version_lacks,
)
from opshift.convert.runtime.lack import Seen
from opshift.convert.runtime.support import ComparedModel, Support, support_of
from text_models import model

REASONS = {
    "stamps": version_lacks,
    "below_floor": version_lacks,
    "lacking": operator_lacks,
    "forms": form_lacks,
    "kernels": kernel_lacks,
}
DOUBTS = {
    "called_functions": open_questions,
    "flawed": open_questions,
    "unknown": open_questions,
    "in_doubt": kernel_lacks,
}
RELEASE = SimpleNamespace(shown="a runtime 1.0", next_release=None)


SEEN = Seen()
INNER = "with its functions written out"
MODEL = ComparedModel("as it is", INNER, SEEN)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple]:
    """Replaces each part of the search by one that yields its name, and returns its arguments."""
    given: dict[str, tuple] = {}

    def part(name):
        def find(*words):
            given[name] = words
            return [name]

        return find

    for name, module in {**REASONS, **DOUBTS}.items():
        monkeypatch.setattr(module, name, part(name))
    monkeypatch.setattr(version_lacks, "without_imports", lambda *_: (["rejected"], ["doubted"]))
    return given


def test_each_part_adds_its_reasons(parts):
    """The rules for kernels and forms see the functions at their calls."""
    support = support_of(MODEL, RELEASE)
    assert (support.target, support.reasons) == ("a runtime 1.0", tuple(REASONS))
    assert parts.keys() == REASONS.keys(), "nobody has asked what is not known"
    assert (support.unknown, support.differing) == (tuple(DOUBTS), ())
    for name in ("stamps", "below_floor", "lacking", "called_functions"):
        assert parts[name] == (MODEL.document, RELEASE)
    for name in ("forms", "kernels", *tuple(DOUBTS)[1:]):
        assert parts[name] == (INNER, RELEASE, SEEN)
        assert parts[name][2] is SEEN


def test_an_import_that_was_added_is_judged_too(parts):
    support = support_of(replace(MODEL, added=[""]), RELEASE)
    assert support.reasons == ("rejected", *REASONS)
    assert support.unknown == ("doubted", *DOUBTS)


@pytest.mark.parametrize("reasons", [((), ()), (("a",), ()), ((), ("b",)), (("a",), ("b",))])
def test_a_release_between_two_rows_has_the_answer_of_both(parts, monkeypatch, reasons):
    last = SimpleNamespace(shown="a runtime 3.0", next_release=None)
    first = SimpleNamespace(shown="a runtime 1.0", next_release=last, stands_for="a runtime 2.0")
    by_row = dict(zip((first.shown, last.shown), reasons, strict=True))
    for name, module in {**REASONS, **DOUBTS}.items():
        monkeypatch.setattr(module, name, lambda *_: [])
    monkeypatch.setattr(operator_lacks, "lacking", lambda _, row: by_row[row.shown])
    support = support_of(MODEL, first)
    answer = support.in_words
    assert answer.target == "a runtime 2.0"
    if all(reasons):
        assert (answer.answer, support.differing) == ("no", ())
    elif any(reasons):
        assert (answer.answer, support.differing) == ("not known", reasons[0] + reasons[1])
        assert "2.0: " + support.differing[0] in answer.unknown[0]
    else:
        assert answer.answer == "yes"


def test_functions_are_written_out_if_the_model_calls_them():
    plain = checked(model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)).facts
    assert ComparedModel.of(plain).computed is plain
    text = """(float[2] x) => (float[2] y) { y = f.F(x) }
        <domain: "f", opset_import: ["": 13]> F (a) => (b) { b = Neg(a) }"""
    judged = ComparedModel.of(checked(model(text, 13, more=', "f": 1')).facts)
    ops = [[n.op_type for n in one.document.model.graph.node] for one in (judged, judged.computed)]
    assert ops == [["F"], ["Neg"]]


def test_equal_reasons_are_told_once():
    found = Support("a runtime 1.0", ("one", "two", "one"), lambda: ("perhaps",)).in_words
    assert tuple(found.reasons) == ("one", "two")


def test_a_classifier_without_labels_is_illegal():
    """Catboost writes such a model for several targets, which no onnxruntime loads."""
    trees = (
        'nodes_treeids=[0], nodes_nodeids=[0], nodes_featureids=[0], nodes_modes=["LEAF"],'
        " nodes_values=[0.0], nodes_truenodeids=[0], nodes_falsenodeids=[0], class_treeids=[0],"
        " class_nodeids=[0], class_ids=[0], class_weights=[1.0]"
    )
    text = "(float[2,3] x) => (y, z) { y, z = ai.onnx.ml.TreeEnsembleClassifier<TREES>(x) }"
    for labels, answer in ("", "not known"), (", classlabels_int64s=[0]", "yes"):
        proto = model(text.replace("TREES", trees + labels), 13, more=', "ai.onnx.ml" : 1')
        assert opshift.accepts(proto, "onnxruntime==1.20").answer == answer
