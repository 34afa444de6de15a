# SPDX-License-Identifier: Apache-2.0
"""The conversion as a pass of onnx_ir."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import opshift
import pytest
from onnx import parser

ir = pytest.importorskip("onnx_ir", reason="onnx_ir is not installed: opshift[ir]")
from opshift.onnx_ir import ConvertVersionPass  # noqa: E402

GRAPH = """<ir_version: 8, opset_import: ["" : 18]> g (float[2, 4] x) => (float[2, 1] y) {
  axes = Constant <value = int64[1] {1}> ()
  unused = Relu(x)
  y = ReduceMean(x, axes) }"""


@pytest.fixture
def model():
    return ir.from_proto(parser.parse_model(GRAPH))


def test_it_is_a_functional_pass(model):
    done = ConvertVersionPass(13)
    assert isinstance(done, ir.passes.FunctionalPass)
    found = done(model)
    assert found.modified
    assert (found.model.opset_imports[""], model.opset_imports[""]) == (13, 18)
    assert done.report.result == {"": 13}
    assert not done(found).modified


def test_it_runs_between_other_passes_and_keeps_the_numbers(model):
    ort = pytest.importorskip("onnxruntime")
    common = pytest.importorskip("onnx_ir.passes.common")
    passes = ir.passes.Sequential(
        common.RemoveUnusedNodesPass(), ConvertVersionPass(11), common.NameFixPass()
    )
    result = ir.to_proto(passes(model).model)
    onnx.checker.check_model(result, full_check=True)
    assert [node.op_type for node in result.graph.node] == ["ReduceMean"]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    before, after = (
        ort.InferenceSession(one.SerializeToString()).run(None, {"x": x})[0]
        for one in (parser.parse_model(GRAPH), result)
    )
    np.testing.assert_array_equal(before, after)


def test_a_refusal_names_what_blocks():
    text = GRAPH.replace("float", "bfloat16").replace("ReduceMean(x, axes)", "Relu(x)")
    with pytest.raises(opshift.Refused, match="bfloat16"):
        ConvertVersionPass(12)(ir.from_proto(parser.parse_model(text)))


def test_a_target_that_cannot_be_meant_fails_where_it_is_written():
    with pytest.raises(opshift.BadTarget):
        ConvertVersionPass("nothing==1")
    with pytest.raises(TypeError):
        ConvertVersionPass(13, no_such_option=True)


def test_without_onnx_ir_the_extra_is_named():
    code = (
        "import sys; sys.modules['onnx_ir'] = None\nimport opshift\n"
        "try:\n    import opshift.onnx_ir\n"
        "except opshift.MissingExtra as missing:\n    print(missing)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "onnx_ir is missing; run `pip install 'opshift[ir]'`\n"
