# SPDX-License-Identifier: Apache-2.0
"""A command imports numpy, the package onnx and adapters only if it needs them."""

from __future__ import annotations

import os
import subprocess
import sys

import onnx
import onnx.numpy_helper
import pytest

HEAVY = ("numpy", "ml_dtypes", "networkx", "onnx", "onnx.defs", "onnx.helper")
ENGINE = ("opshift.convert.api", "opshift.author.registry", "opshift.opsets.schemas")
PROGRAM = """
import sys
from opshift.cli.entry import main
sys.argv = ["opshift", *sys.argv[1:]]
try:
    main()
except SystemExit as done:
    assert done.code in (0, None), done.code
print("\\n".join(sorted(sys.modules)), file=sys.stderr)
"""
MODEL = """<ir_version: 8, opset_import: ["": 13]> g (float[1,3,8,8] x, float[4,3,3,3] w)
 => (float[1,4,6,6] y) { c = Conv(x, w)  r = Relu(c)  s = Add(r, r)  y = Identity(s) }"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    return path


def imported(*words, folder):
    """Returns the modules that are imported when a command ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["convert", "--help"], ["ops", "--help"]], ids=" ".join
)
def test_help_needs_no_engine(tmp_path, words):
    module = imported(*words, folder=tmp_path)
    slow = {"google.protobuf", "importlib.metadata", "importlib.resources", "tomllib"}
    assert not sorted(module & {*HEAVY, *ENGINE, *slow})


def test_info_needs_no_engine(model):
    module = imported("info", model, folder=model.parent)
    slow = {"importlib.metadata", "importlib.resources"}
    assert not sorted(module & {*HEAVY, *ENGINE, *slow})


def test_another_ir_version_needs_no_engine(model):
    result = model.parent / "result.onnx"
    module = imported("convert", model, "--ir", "9", "-o", result, folder=model.parent)
    assert onnx.load(result).ir_version == 9
    slow = {"importlib.metadata", "importlib.resources", "onnx.onnx_ml_pb2"}
    assert not sorted(module & {*HEAVY, *ENGINE, *slow})


def test_a_conversion_that_computes_nothing_needs_no_numpy(model):
    result = model.parent / "result.onnx"
    module = imported("convert", model, "--to", "21", "-o", result, folder=model.parent)
    assert onnx.load(result).opset_import[0].version == 21
    unused = {"opshift.opsets.targets", "opshift.opsets.kernels", "tomllib"}  # no runtime is named
    assert not sorted(module & {*HEAVY, *unused, "importlib.metadata", "importlib.resources"})


def test_a_conversion_for_a_runtime_that_has_each_operator_needs_no_graphs(model):
    result = model.parent / "result.onnx"
    words = ["convert", model, "--for", "onnxruntime==1.10", "-o", result]
    assert "networkx" not in imported(*words, folder=model.parent)


def test_a_conversion_imports_the_adapters_of_its_operators_alone(model):
    result = model.parent / "result.onnx"
    module = imported("convert", model, "--to", "14", "-o", result, folder=model.parent)
    families = {n.split(".")[1] for n in module if n.startswith("opshift_adapters.")}
    assert "elementwise" in families  # Relu and Add
    assert not sorted(families & {"contrib", "image", "ml", "normalize", "quantize", "text"})
    assert not sorted(module & {"opshift.author.formula", "opshift.author.unify"})  # --modernize


def test_the_adapters_need_no_numpy():
    """Examples compute their values with numpy only when a test or page reads them."""
    program = """
import importlib, pkgutil, sys
import opshift_adapters
for one in pkgutil.walk_packages(opshift_adapters.__path__, "opshift_adapters."):
    importlib.import_module(one.name)
    assert "numpy" not in sys.modules, one.name
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_rewritten_node_needs_no_numpy(tmp_path):
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 11]> g (float[2,4] x) => (float[2,4] y)
        { y = Softmax<axis=1>(x) }"""
    )
    path = tmp_path / "softmax.onnx"
    onnx.save(proto, path)
    words = ["convert", path, "--to", "13", "-o", tmp_path / "result.onnx"]
    assert "numpy" not in imported(*words, folder=tmp_path)


SIZES = """<ir_version: 8, opset_import: ["": 13]>
    g (float[2,3,4] x) => (float[2,12] y, float[2,3,1] m) {{
        {relus}
        s = Shape(a{last})  zero = Constant<value_ints=[0]>()  b = Gather(s, zero)
        rest = Constant<value_ints=[-1]>()  two = Concat<axis=0>(b, rest)
        y = Reshape(a{last}, two)  m = {reduced}
    }}"""


def sizes(path, reduced):
    """A model of 30 nodes that computes a size of its own shape."""
    relus = " ".join(f"a{i} = Relu({f'a{i - 1}' if i else 'x'})" for i in range(24))
    onnx.save(onnx.parser.parse_model(SIZES.format(relus=relus, last=23, reduced=reduced)), path)


def test_sizes_that_no_step_asks_for_are_not_computed(tmp_path):
    path, result = tmp_path / "model.onnx", tmp_path / "result.onnx"
    sizes(path, "ReduceMean<axes=[2]>(x)")
    assert "numpy" not in imported("convert", path, "--to", "17", "-o", result, folder=tmp_path)
    assert onnx.load(result).opset_import[0].version == 17


def test_a_size_that_a_step_asks_for_is_computed(tmp_path):
    """Below opset 13, the axes of ReduceSum are an attribute; here a shape determines them."""
    path, result = tmp_path / "model.onnx", tmp_path / "result.onnx"
    sizes(path, "ReduceSum(x, b)")
    assert "numpy" in imported("convert", path, "--to", "12", "-o", result, folder=tmp_path)
    summed = next(node for node in onnx.load(result).graph.node if node.op_type == "ReduceSum")
    assert list(summed.input) == ["x"]
    assert list(summed.attribute[0].ints) == [2]
