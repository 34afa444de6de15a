# SPDX-License-Identifier: Apache-2.0
"""Rehearsals open a model once and continue each other, with the results of single conversions."""

from __future__ import annotations

import dataclasses
import os
import random

import opshift
import pytest
from growth_families import FAMILIES
from opshift.author import registry
from opshift.convert import model_opening
from opshift.convert.attempt import Conversion
from opshift.convert.cheapest_strategy import convert, opener_of
from opshift.convert.request import Request
from opshift.convert.step import Stepper
from opshift.errors import InvalidModel, Refused
from opshift.look.accepts import survey
from opshift.look.rehearse import Rehearsals
from opshift.model.document import Document
from opshift.model.scope import Root, Scope
from opshift.opsets import schemas
from text_models import model

LAYER = "m = ReduceMean<axes = [1], keepdims = 1>(x) c = Sub(x, m) y = LayerNormalization<axis = -1>(c, w)"
LOOP = "<body = b (int64 i, bool k, float[2] p) => (bool o, float[2] q) { o = Identity(k) q = Gelu(p) }>"
MODELS = {
    "layer": (f"(float[2,4] x, float[4] w) => (float[2,4] y) {{ {LAYER} }}", 17, ""),
    "shapes": ("(float[N,4] x, int64[2] s) => (float[A,B] y) { r = Reshape(x, s) g = Gelu(r) y = Neg(g) }", 20, ""),
    "loop": (f'(float[2] x) => (float[2] y) <int64 n = {{3}}> {{ y = Loop(n, "", x) {LOOP} }}', 20, ""),
    "reduced": ("(float[2,4] x, int64[1] a) => (float[2,1] y) { y = ReduceL1(x, a) }", 18, ""),
    "no way": ("(string[3] x) => (string[3] y) { y = StringNormalizer(x) }", 13, ""),
    "half": ("(bfloat16[2,3] x) => (bfloat16[2,3] y) { s = Softmax<axis = 1>(x) y = Clip(s) }", 16, ""),
    "foreign": ("(float[2] x) => (float[2] y) { y = com.microsoft.QuickGelu(x) }", 17, ', "com.microsoft" : 1'),
    "learned": ("(float[1,4] x) => (float[1,4] y) { n = ai.onnx.ml.Normalizer<norm = \"L2\">(x) y = Gelu(n) }", 20, ', "ai.onnx.ml" : 3'),
}  # fmt: skip
NEWEST = schemas.latest("") or 0
EVERY = "OPSHIFT_PROPERTIES" in os.environ
"""Whether each structure meets each request and each release is asked; else a part by number."""
STRUCTURES = sorted({*FAMILIES} - {"functions in a circle"})
pytestmark = pytest.mark.skipif(NEWEST < 20, reason="the installed onnx is too old")


def text_model(name):
    text, opset, more = MODELS[name]
    return model(text, opset, more=more)


def outcome(open_skeleton, request, opened=None):
    """Returns the result and the report of one conversion, its refusals, or the error."""
    try:
        skeleton, _, report = convert(open_skeleton, request, opened)
    except InvalidModel as error:
        return str(error)
    except Refused as refused:
        told = [refusal.as_dict() for refusal in refused.refusals]
        return told, refused.nearest, refused.target, refused.steps, refused.dead_ends
    return skeleton.SerializeToString(deterministic=True), report


def requests():
    yield from (Request.of(to) for to in (1, 7, 9, 11, 12, 13, 16, 18, 19, NEWEST))
    yield from (
        Request.of(name) for name in ("onnxruntime==1.2", "onnxruntime==1.10", "opencv==4.5")
    )
    yield Request.of(13, ir_version=6)
    yield Request.of(9, allow_approximate=True)


@pytest.mark.parametrize("name", MODELS)
def test_a_rehearsal_gives_what_a_conversion_alone_gives_in_any_order(name):
    _compare(text_model(name), orders=3 if EVERY else 2)


@pytest.mark.parametrize("family", STRUCTURES)
def test_a_rehearsal_of_each_structure_gives_what_a_conversion_alone_gives(family):
    _compare(FAMILIES[family](4), 1, part(STRUCTURES.index(family) % 2, 2))


def part(first, step):
    """Each request or release of a part of them; all of them if many are wanted."""
    return slice(None) if EVERY else slice(first, None, step)


def _compare(proto, orders, chosen=slice(None)):
    open_skeleton = opener_of(proto)
    asked = [(request, outcome(open_skeleton, request)) for request in [*requests()][chosen]]
    for order in range(orders):
        random.Random(order).shuffle(asked)
        runs = Rehearsals(open_skeleton, Request(), registry.default())
        for one, alone in asked:
            assert outcome(open_skeleton, one, runs.opened) == alone, one.target


QUESTIONS = {
    "plan": lambda one: opshift.plan(one, 13),
    "lowest": opshift.lowest_versions,
    "targets": survey,
    "accepts": lambda one: opshift.accepts(one, "onnxruntime==1.10"),
}


@pytest.mark.parametrize("name", ["layer", "loop", "half", "foreign"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_opens_the_model_once(question, name, monkeypatch):
    opened = []
    own = model_opening.open_content
    monkeypatch.setattr(model_opening, "open_content", lambda one: opened.append(one) or own(one))
    QUESTIONS[question](text_model(name))
    assert len(opened) == 1


@pytest.mark.parametrize("question", ["plan", "lowest"])
def test_each_boundary_is_crossed_once(question, monkeypatch):
    crossed = []
    run = Stepper.run
    monkeypatch.setattr(
        Stepper, "run", lambda one: crossed.append((one.domain, *one.boundary)) or run(one)
    )
    QUESTIONS[question](model("(float[2] x) => (float[2] y) { y = Relu(x) }", 15))
    steps = [boundary for boundary in crossed if boundary[1] != boundary[2]]
    assert len(steps) == len({*steps}) == NEWEST - 1


def test_an_opened_model_stays_as_it_is():
    """The tables of a copy do not refer to scopes of the original model."""
    opened = Conversion(*opener_of(text_model("loop"))(), Request(), registry.default())
    opened.open()
    before = opened.skeleton.SerializeToString(deterministic=True)
    assert opened.document.main.producers
    twin = opened.fork()
    own = {id(one) for root in opened.document.roots for one in (root, *root.scopes)}
    own.add(id(opened.document))
    assert not [one for one in _reached([twin.document, twin.facts]) if id(one) in own]
    branch = opened.branch(Request.of(7), twin.strategy)
    branch.run()
    assert opened.skeleton.SerializeToString(deterministic=True) == before
    assert branch.skeleton.SerializeToString(deterministic=True) != before


def _reached(waiting):
    """Returns the documents, roots and scopes that the tables of some objects contain."""
    seen = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, (Document, Root, Scope)):
            yield one
        if isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, (list, tuple, set)):
            waiting += one
        elif isinstance(one, (Document, opshift.author.facts.Facts)):
            waiting += vars(one).values()
        elif isinstance(one, (Root, Scope)):
            waiting += [getattr(one, field.name) for field in dataclasses.fields(one)]


@pytest.mark.parametrize("name", ["layer", "half", "foreign", "learned"])
def test_targets_accepts_plan_and_convert_give_one_answer(name):
    proto = text_model(name)
    for fit in survey(proto).fits[part([*MODELS].index(name), 10)]:
        release = fit.target.partition(",")[0].partition("..")[0]
        planned = opshift.plan(proto, release)
        try:
            result = opshift.convert(proto, release)
        except Refused as refused:
            assert refused.refusals
            assert not planned.possible
            assert fit.after != "yes", release
            continue
        assert planned.possible
        answer = opshift.accepts(result.model, release).answer
        assert fit.after == answer == result.report.runtime.answer, release
