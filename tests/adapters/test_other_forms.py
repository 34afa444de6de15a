# SPDX-License-Identifier: Apache-2.0
"""Each node of an example can be written in an equal form, as a runtime may reject any node."""

from __future__ import annotations

import os
import random
import re

import opshift
import pytest
from opshift.author import registry
from opshift.author.verdicts import ALTERNATIVE
from opshift.convert.request import Request
from opshift.opsets.targets import RuntimeRelease
from opshift.opsets.wanted import Wanted
from opshift.testing.example_models import example_model, examples, too_new
from text_models import model

OPERATORS = {
    op
    for adapter in registry.default().adapters()
    if (adapter.start, adapter.to) == ALTERNATIVE
    for op in adapter.ops
}
LOWEST = 7  # below it, onnx's inference rejects some of the examples themselves
CASES = [
    (adapter, example, named)
    for adapter, example in examples("opshift_adapters")
    if example.invalid is None and not too_new(adapter, example)
    if (named := OPERATORS.intersection(re.findall(r"\w+", f"{example.graph} {example.functions}")))
]
MOST = len(CASES) if "OPSHIFT_PROPERTIES" in os.environ else 8  # examples of an operator


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_another_form_of_any_node_is_legal(op):
    tried, having = 0, [case for case in CASES if op in case[2]]
    for adapter, example, _ in random.Random(op).sample(having, min(MOST, len(having))):
        source = example_model(adapter, example)
        opset = {opset.domain: opset.version for opset in source.opset_import}.get("", LOWEST)
        if opset < LOWEST:
            continue
        row = RuntimeRelease("edge", "", {}, None, "", other_forms=(op,))
        request = Request(Wanted(row), keep_unrunnable=True, check="full")
        try:
            opshift.convert(source, request)
        except opshift.Refused:
            continue
        tried += 1
    assert tried


def test_gemm_keeps_the_attribute_broadcast():
    shapes = "(float[2,3] a, float[3,4] b, float[1] c) => (float[2,4] y)"
    source = model(f"{shapes} {{ y = Gemm<broadcast = 1>(a, b, c) }}", 6)
    row = RuntimeRelease("edge", "", {}, None, "", other_forms=("Gemm",))
    converted = opshift.convert(source, Request(Wanted(row), keep_unrunnable=True))
    assert [node.op_type for node in converted.model.graph.node] == ["Gemm"]
