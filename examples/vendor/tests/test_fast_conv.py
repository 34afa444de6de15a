# SPDX-License-Identifier: Apache-2.0
"""FastConv in both directions: legal, and computing the same."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from opshift import BadTarget, OperatorId, Refused, convert_version, plan
from opshift.opsets import changelog


class FastConv(OpRun):
    """Both versions of the operator, for one channel."""

    op_domain = "com.acme"

    def _run(self, x, w, relu=0, activation="none"):
        y = np.convolve(x[0, 0], w[0, 0][::-1], "valid")[None, None]
        return (np.maximum(y, 0) if relu or activation == "relu" else y,)


def model(version: int, attribute: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13, "com.acme" : {version}]>'
        " g (float[1,1,4] x, float[1,1,3] w) => (float[1,1,2] y) {"
        f" h = com.acme.FastConv<{attribute}>(x, w) y = Neg(h) }}"
    )


def result(proto: onnx.ModelProto) -> np.ndarray:
    feeds = {
        "x": np.array([[[1, -2, 3, -4]]], np.float32),
        "w": np.array([[[1, 2, 1]]], np.float32),
    }
    return ReferenceEvaluator(proto, new_ops=[FastConv]).run(None, feeds)[0]


@pytest.mark.parametrize(
    ("start", "before", "to", "after"),
    [
        (1, "relu = 1", 2, b"relu"),
        (1, "relu = 0", 2, b"none"),
        (2, 'activation = "relu"', 1, 1),
        (2, 'activation = "none"', 1, 0),
    ],
)
def test_both_versions_compute_the_same(start, before, to, after):
    source = model(start, before)
    converted = convert_version(source, {"com.acme": to})
    assert [entry.version for entry in converted.opset_import] == [13, to]
    assert onnx.helper.get_attribute_value(converted.graph.node[0].attribute[0]) == after
    np.testing.assert_array_equal(result(source), result(converted))


def test_two_domains_at_once():
    converted = convert_version(model(1, "relu = 1"), {"": 18, "com.acme": 2})
    assert [entry.version for entry in converted.opset_import] == [18, 2]


def test_what_version_1_cannot_say_is_refused():
    with pytest.raises(Refused, match="activation 'gelu' has no counterpart"):
        convert_version(model(2, 'activation = "gelu"'), {"com.acme": 1})
    assert not plan(model(2, 'activation = "gelu"'), {"com.acme": 1}).possible


def test_a_version_that_nobody_has_described():
    with pytest.raises(BadTarget, match=r"com\.acme 3 is above 2"):
        convert_version(model(1, "relu = 1"), {"com.acme": 3})


def test_the_operator_database_says_what_the_schemas_say():
    known = changelog.default()
    assert [str(entry.operator) for entry in known.history("com.acme", "FastConv")] == [
        "com.acme.FastConv:1",
        "com.acme.FastConv:2",
    ]
    assert OperatorId.of("com.acme", "FastConv", 7) == OperatorId.parse("com.acme.FastConv:2")
