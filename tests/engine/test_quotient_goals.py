# SPDX-License-Identifier: Apache-2.0
"""For a runtime or an IR version, a conversion by classes gives what that of each node gives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random

import onnx
import opshift
import opshift_adapters
import pytest
from by_classes import why_not
from onnx import ModelProto
from opshift import testing
from opshift.convert.request import Request

from tools.bench.workloads import layers, nested, transformer

RUNTIMES = (
    "onnxruntime==1.4", "onnxruntime==1.10", "onnxruntime==1.16", "onnxruntime==1.20",
    "openvino==2022.1", "openvino==2023.0", "tensorrt==8.6", "onnx==1.12", "opencv==4.5.5",
)  # fmt: skip


pytestmark = pytest.mark.usefixtures("small_models_go_by_classes")


def parsed(text: str, opset: int, ir: int = 8, more: str = "") -> ModelProto:
    """A model of a text with these imports."""
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}{more}]> {text}')


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("build", "opset"), [(transformer, 13), (transformer, 21), (layers, 11)])
def test_a_workload_for_a_runtime_has_one_result(build, opset, runtime):
    assert why_not(build(opset, 60), Request.of(runtime)) in ("", "versions")


@pytest.mark.parametrize("runtime", ["onnxruntime==1.20", "openvino==2023.0", "tensorrt==8.6"])
def test_graphs_that_no_step_writes_have_one_result(runtime):
    assert why_not(nested(13, 80), Request.of(runtime)) == ""


@pytest.mark.parametrize(("to", "ir"), [(18, 8), (18, 9), (18, 5), (11, 7), (17, "keep")])
def test_an_ir_version_is_met_by_classes(to, ir):
    model = transformer(13, 60)
    assert why_not(model, Request(to, ir_version=ir)) == ""
    model.ir_version = 10
    model.graph.node[0].metadata_props.add(key="k", value="v")
    assert why_not(model, Request(to, ir_version=ir)) == ""


def test_an_ir_version_without_bare_initializers_is_left_to_the_nodes():
    assert why_not(transformer(13, 60), Request(18, ir_version=3)) == "the IR version"


def test_a_type_above_an_ir_version_is_left_to_the_nodes():
    text = "g (float[2] x) => (float8e4m3fn[2] y) { y = Cast<to = 17>(x) }"
    told = "Cast: refused, and a refusal that is not of a step"
    assert why_not(parsed(text, 19, 9), Request(21, ir_version=8)) == told


def _examples() -> Iterator[ModelProto]:
    for adapter, example in testing.examples(opshift_adapters.__name__):
        with contextlib.suppress(onnx.parser.ParseError):  # types that an older onnx lacks
            yield testing.example_model(adapter, example)


@pytest.mark.parametrize("share", range(3))
def test_a_sample_of_the_examples_has_one_result_for_runtimes(share):
    choose, taken = Random(share), 0
    for model in choose.sample(list(_examples()), 60):
        with contextlib.suppress(opshift.OpshiftError):  # the nodes say why
            taken += why_not(model, Request.of(choose.choice(RUNTIMES))) == ""
    assert taken > 5


UNFIT = "a node that the runtime may not run"
CASTS = "g (float[3] x) => (float[3] y) { a = Cast<to = 7>(x) y = Cast<to = 1>(a) }"
RESHAPED = """g (float[n,6] x) => (float[a,b] y) <int64[2] s = {-1, 3}> {
    y = Reshape<allowzero = 1>(x, s) }"""


@pytest.mark.parametrize(
    ("text", "opset", "runtime", "told"),
    [
        ("g (float[3] x) => (float[3] y) { y = Cos(x) }", 13, "onnxruntime==1.10", ""),
        ("g (double[3] x) => (double[3] y) { y = Selu(x) }", 13, "onnxruntime==1.10", UNFIT),
        ("""g (bool[6] v, int64[n] s, bool[3] a, bool b) => (bool[k,l] y) {
            c = Reshape(v, s) y = Where(c, a, b) }""", 9, "onnxruntime==1.23", UNFIT),
        (RESHAPED, 14, "onnxruntime==1.10", "a form that a class does not tell"),
        (CASTS, 13, "onnxruntime==1.16", "two Casts that meet"),
        (CASTS, 13, "tensorrt==8.6", ""),
        ("g (float[3] x) => (float[3] y) { y = Gelu(x) }", 20, "openvino==2023.0", ""),
        ("g (float[1,1,3,3] x, float[1,3,3,2] g) => (float[1,1,3,3] y) { y = GridSample(x, g) }",
         16, "onnxruntime==1.14", "a version to visit on the way"),
        ("g (float[3] x) => (float16[3] y) { y = Cast<to = 10>(x) }", 9, "onnxruntime==0.4",
         "an output that the runtime does not hand out"),
    ],
)  # fmt: skip
def test_what_a_runtime_may_not_run_is_left_to_the_nodes(text, opset, runtime, told):
    assert why_not(parsed(text, opset), Request.of(runtime)) == told


def test_an_import_that_no_node_needs_goes():
    model = parsed("g (float[3] x) => (float[3] y) { y = Cos(x) }", 13, more=', "ai.onnx.ml": 2')
    assert why_not(model, Request.of("onnxruntime==1.10")) == ""
    found = opshift.convert(model, "onnxruntime==1.10")
    assert [one.domain for one in found.model.opset_import] == [""]
    assert found.report.notes == ("removed the unused import ai.onnx.ml 2",)
