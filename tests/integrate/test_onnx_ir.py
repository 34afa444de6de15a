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

GRAPH = """<ir_version: 8, opset_import: ["" : 18]> g (float[2, 4] x) => (float[2, 1] y) {
  axes = Constant <value = int64[1] {1}> ()
  unused = Relu(x)
  y = ReduceMean(x, axes) }"""


@pytest.fixture
def ir():
    """The package, which imports sympy, so only these tests import it."""
    return pytest.importorskip("onnx_ir", reason="onnx_ir is not installed: opshift[ir]")


@pytest.fixture
def version_pass(ir):
    from opshift.onnx_ir import ConvertVersionPass

    return ConvertVersionPass


@pytest.fixture
def model(ir):
    return ir.from_proto(parser.parse_model(GRAPH))


def test_it_is_a_functional_pass(ir, version_pass, model):
    done = version_pass(13)
    assert isinstance(done, ir.passes.FunctionalPass)
    result = done(model)
    assert result.modified
    assert (result.model.opset_imports[""], model.opset_imports[""]) == (13, 18)
    assert done.report.result == {"": 13}
    assert not done(result).modified


def test_it_runs_between_other_passes_and_keeps_the_numbers(ir, version_pass, model):
    ort = pytest.importorskip("onnxruntime")
    common = pytest.importorskip("onnx_ir.passes.common")
    passes = ir.passes.Sequential(
        common.RemoveUnusedNodesPass(), version_pass(11), common.NameFixPass()
    )
    result = ir.to_proto(passes(model).model)
    onnx.checker.check_model(result, full_check=True)
    assert [node.op_type for node in result.graph.node] == ["ReduceMean"]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    before, after = (
        ort.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
        for proto in (parser.parse_model(GRAPH), result)
    )
    np.testing.assert_array_equal(before, after)


def test_a_refusal_names_what_blocks(ir, version_pass):
    text = GRAPH.replace("float", "bfloat16").replace("ReduceMean(x, axes)", "Relu(x)")
    with pytest.raises(opshift.Refused, match="bfloat16"):
        version_pass(12)(ir.from_proto(parser.parse_model(text)))


def test_a_target_that_cannot_be_meant_fails_where_it_is_written(version_pass):
    with pytest.raises(opshift.BadTarget):
        version_pass("nothing==1")
    with pytest.raises(TypeError):
        version_pass(13, no_such_option=True)


def test_without_onnx_ir_the_extra_is_named():
    code = (
        "import sys; sys.modules['onnx_ir'] = None\nimport opshift\n"
        "try:\n    import opshift.onnx_ir\n"
        "except opshift.MissingExtra as missing:\n    print(missing)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "onnx_ir is missing; run `pip install 'opshift[ir]'`\n"
