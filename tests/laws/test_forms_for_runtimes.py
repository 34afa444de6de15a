# SPDX-License-Identifier: Apache-2.0
"""No conversion for a runtime is refused because of an operator that the conversion wrote itself.

Where an operator is refused that the model does not have at that version, no lower opset has a
result that the runtime reads.
"""

from __future__ import annotations

import os

import pytest
from onnx import ModelProto
from opshift import OpshiftError, Refused, accepts, convert_version
from opshift.codes.refusals import Why
from opshift.convert.runtime import operator_lacks
from opshift.model.document import Document
from opshift.opsets import schemas, targets
from text_models import model, ops

from examples import cases, model_of, too_new

TARGETS = [
    "opencv==4.1.2", "opencv==4.5.5", "opencv==4.8", "openvino==2022.1", "openvino==2023.0",
    "tensorrt==8.4", "tract", "onnxruntime==1.14", "onnxruntime==1.4",
]  # fmt: skip
EVERY = int(os.environ.get("OPSHIFT_FORMS", "120"))  # the step between two examples of a target


def operators(proto: ModelProto) -> set[tuple[str, str]]:
    """The operators of all graphs and functions of a model."""
    return {key for root in Document(proto).roots for key in root.index}


def reads(proto: ModelProto, opset: int, target: str) -> bool:
    """Whether the conversion to an opset has operators and forms that a runtime reads."""
    try:
        converted = convert_version(proto, opset)
    except OpshiftError:
        return False
    if operator_lacks.lacking(Document(converted), targets.find(target)):
        return False
    return accepts(converted, target).answer != "no"


@pytest.mark.parametrize("target", TARGETS)
def test_an_operator_that_the_conversion_wrote_is_no_reason_for_a_refusal(target):
    found = []
    for case in cases()[2 * TARGETS.index(target) % EVERY :: EVERY]:
        if case.example.refuses is not None or too_new(case):
            continue
        before = model_of(case)
        try:
            convert_version(before, target)
        except Refused as refused:
            lacking = {
                (r.domain, r.op)
                for r in refused.refusals
                if r.why is Why.TARGET_LACKS and "does not read" in r.detail
            }
            if lacking and not lacking & operators(before):
                opset = max(opset.version for opset in before.opset_import if not opset.domain)
                found += [
                    f"{case.id}: {v}" for v in range(opset, 6, -1) if reads(before, v, target)
                ]
        except OpshiftError:
            continue  # the model is at fault, whatever the target
    assert not found


@pytest.mark.skipif((schemas.latest("") or 0) < 20, reason="the installed onnx lacks Gelu")
@pytest.mark.parametrize(
    ("graph", "opset", "target", "at", "written"),
    [
        # QuantizeLinear by axis is written with Clip, which this release reads below opset 11 only,
        # but Max and Min at 12 take fewer nodes.
        ("(float[2,3] x, float[2] s, int8[2] z, float[1,3] r) => (int8[2,3] y, float[3] q) { y = QuantizeLinear<axis=0>(x, s, z) q = Squeeze(r) }", 13, "opencv==4.5.5", 12, "Reshape Div Round Cast Reshape Add Max Min Cast Squeeze"),
        # Integers are clipped with Where at 11, which this release does not read, but with Max at 8.
        ("(int32[3] x) => (int32[3] y) <int32 l = {0}> { y = Clip(x, l) }", 12, "opencv==4.5.5", 10, None),
        # Gelu is written out at its own opset, although this runtime has no highest opset.
        ("(float[2] x) => (float[2] y) { y = Gelu(x) }", 20, "opencv==4.5.5", 20, "Div Erf Mul Add Mul"),
        # ReduceL1 with computed axes is written with ReduceSum, which is read below opset 13 only.
        ("(float[2,3] x, int64[1] a) => (float[2,1] y) { y = ReduceL1(x, a) }", 18, "opencv==4.5.5", 12, None),
    ],
)  # fmt: skip
def test_the_conversion_goes_to_where_its_own_operators_are_read(graph, opset, target, at, written):
    after = convert_version(model(graph, opset), target)
    assert after.opset_import[0].version == at
    assert written is None or ops(after) == written
    assert not operator_lacks.lacking(Document(after), targets.find(target))
