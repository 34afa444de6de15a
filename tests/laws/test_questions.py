# SPDX-License-Identifier: Apache-2.0
"""Law: a fact depends on the model alone, so earlier questions change neither result nor report."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import laws
import onnx
import pytest
from onnx import ModelProto
from opshift.convert.request import Request
from opshift.convert.step import Stepper
from opshift.opsets import schemas
from opshift.testing import example_target
from text_models import model

import examples
from tools.corpus.replay import CORPUS

SEED = 20261128
EXAMPLES, MODELS = (80, 12) if "OPSHIFT_PROPERTIES" in os.environ else (40, 6)
# Opset 13 has no LayerNormalization, as onnxruntime wrote it there: inference knows nothing of it.
EARLY = """(float[2,4,8] x, float[8] s, float[8] b) => (float[2,n,8] y, float[2,4,1] z)
    <int64[1] start = {{-3}}, int64[1] end = {{-1}}, int64[1] axes = {{1}}>
    {{ h = LayerNormalization<axis=-1>(x, s, b)  r = Relu(h)
       {0} }}"""
READERS = (
    "y = Slice(r, start, end, axes)  z = ReduceMean<axes=[-1]>(r)",
    "t = Shape(r)  v = Reshape(x, t)  y = Slice(v, start, end, axes)  z = ReduceMax<axes=[-1]>(v)",
)


@pytest.fixture
def ask_all(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Reads every fact about every value before each step."""
    run = Stepper.run

    def asked(self: Stepper) -> object:
        for root in self.document.roots:
            for scope in root.scopes:
                for node in (n for i, n in enumerate(scope.proto.node) if i not in scope.removed):
                    for name in filter(None, (*node.input, *node.output)):
                        self.facts.type(scope, name)
                        self.facts.constant(scope, name)
                        self.facts.bounds(scope, name)
                        self.facts.is_assumed(scope, name)
        return run(self)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "run", asked)
        yield patch


def tasks() -> Iterator[tuple[ModelProto, Request]]:
    """Models in which inference is silent, examples, and real models, with targets."""
    draw = random.Random(SEED)
    for readers in READERS:
        yield from ((model(EARLY.format(readers), 13), Request.of(to)) for to in (12, 11, 9, 7))
    cases = [c for c in examples.cases() if not (c.example.invalid or examples.too_new(c))]
    for case in draw.sample(cases, EXAMPLES):
        target = example_target(case.adapter, case.example)
        yield examples.model_of(case), Request.of(target, **case.example.options)
    newest = schemas.latest("") or 0
    for path in draw.sample(sorted(CORPUS.glob("*/model.onnx")), MODELS) if CORPUS.is_dir() else ():
        proto = onnx.load(path, load_external_data=False)
        if path.stat().st_size < 1 << 19 and laws.opset_of(proto) <= newest:
            yield proto, Request.of(draw.choice([7, 9, 13]))


def test_questions_before_a_step_change_no_answer(ask_all: pytest.MonkeyPatch) -> None:
    given = list(tasks())
    asked = [laws.answer(*task) for task in given]
    ask_all.undo()
    for task, found in zip(given, asked, strict=True):
        assert laws.answer(*task) == found
