# SPDX-License-Identifier: Apache-2.0
"""Versions of a model that are too new or too old for a runtime."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checked import checked
from opshift.convert.runtime import (
    version_lacks,
)
from runtime_rows import NEG, PLAIN, of_document, sentences
from text_models import model


@pytest.mark.parametrize(
    ("ir", "opset", "row", "expected"),
    [
        (8, 15, PLAIN, []),
        (9, 15, PLAIN, ["the model has IR 9; it==1.0 reads IR only up to 8"]),
        (9, 15, replace(PLAIN, ir=None), []),
        (8, 16, PLAIN, ["the model imports ai.onnx 16; it==1.0 reads ai.onnx only up to 15"]),
        (8, 16, replace(PLAIN, imports={}), []),
        (
            9,
            16,
            replace(PLAIN, columns={"compares": False}),
            [
                "the model has IR 9; it==1.0 loads the model unchecked, but supports IR only up to 8",
                "the model imports ai.onnx 16; it==1.0 loads the model unchecked, but supports ai.onnx only"
                " up to 15",
            ],
        ),
    ],
)
def test_versions_above_those_of_a_runtime(ir, opset, row, expected):
    stamps = version_lacks.stamps(checked(model(NEG, opset, ir)).document, row)
    assert sentences(stamps) == expected
    assert all(
        (stamp.op, stamp.domain, stamp.node, stamp.count) == ("", "", "", 1) for stamp in stamps
    )


def test_another_domain_is_named():
    proto = model(NEG, more=', "ai.onnx.ml" : 3')
    assert of_document(version_lacks.stamps, proto, PLAIN) == [
        "the model imports ai.onnx.ml 3; it==1.0 reads ai.onnx.ml only up to 2"
    ]


def test_operators_below_the_oldest_kernels():
    row = replace(PLAIN, floors={"": 7, "acme": 3})
    text = "(float[2] x) => (float[2] y) { a = Add(x, x) b = Add(a, x) c = Neg(b) y = Relu(c) }"
    assert of_document(version_lacks.below_floor, model(text, 6), row) == [
        "it==1.0 has no kernels for Add of ai.onnx 6; it has kernels from ai.onnx 7 on ('a' and 1 more)"
    ]
    assert of_document(version_lacks.below_floor, model(text, 7), row) == []
    assert of_document(version_lacks.below_floor, model(text, 6), PLAIN) == []


@pytest.mark.parametrize(
    ("added", "row", "reasons", "doubts"),
    [
        ([""], PLAIN, [], ["whether it==1.0 reads a model that imports no operator set"]),
        ([""], replace(PLAIN, name="onnx"), ["the model imports no operator set"], []),
        (["b", "a"], PLAIN, [], [f"whether it==1.0 reads a model without an import of {d}" for d in "ab"]),
        (["a"], replace(PLAIN, kernels="onnxruntime"), [], []),
    ],
)  # fmt: skip
def test_a_model_without_imports(added, row, reasons, doubts):
    found, doubted = version_lacks.without_imports(row, added)
    assert (sentences(found), doubted) == (reasons, doubts)
    assert all((one.op, one.domain, one.node, one.count) == ("", "", "", 1) for one in found)


def test_operators_above_the_oldest_kernels_are_not_below_them():
    text = "(float[2] x) => (float[2] y) { y = Add(x, x) }"
    assert (
        of_document(version_lacks.below_floor, model(text, 13), replace(PLAIN, floors={"": 7}))
        == []
    )
