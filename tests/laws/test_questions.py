# SPDX-License-Identifier: Apache-2.0
"""Law: what is asked about values before a step makes no result longer."""

from __future__ import annotations

import pytest
from onnx import ModelProto
from opshift import convert_version
from opshift.convert.step import Stepper
from text_models import model

# Opset 13 has no LayerNormalization, as onnxruntime wrote it there: inference knows nothing of it.
EARLY = """(float[2,4,8] x, float[8] s, float[8] b) => (float[2,n,8] y, float[2,4,1] z)
    <int64[1] start = {{-3}}, int64[1] end = {{-1}}, int64[1] axes = {{1}}>
    {{ h = LayerNormalization<axis=-1>(x, s, b)  r = Relu(h)
       {0} }}"""
READERS = (
    "y = Slice(r, start, end, axes)  z = ReduceMean<axes=[-1]>(r)",
    "t = Shape(r)  v = Reshape(x, t)  y = Slice(v, start, end, axes)  z = ReduceMax<axes=[-1]>(v)",
)


def ask_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each step, the types and constants of all values are asked for."""
    run = Stepper.run

    def asked(self: Stepper) -> object:
        for root in self.document.roots:
            for scope in root.scopes:
                for node in (n for i, n in enumerate(scope.proto.node) if i not in scope.removed):
                    for name in filter(None, (*node.input, *node.output)):
                        self.facts.type(scope, name)
                        self.facts.constant(scope, name)
        return run(self)

    monkeypatch.setattr(Stepper, "run", asked)


def nodes(before: ModelProto, to: int) -> int:
    return len(convert_version(before, to).graph.node)


@pytest.mark.parametrize("to", [12, 11, 10, 9, 7])
@pytest.mark.parametrize("readers", READERS)
def test_early_questions_make_no_result_longer(readers, to, monkeypatch):
    before = model(EARLY.format(readers), 13)
    expected = nodes(before, to)
    ask_all(monkeypatch)
    assert nodes(before, to) <= expected
