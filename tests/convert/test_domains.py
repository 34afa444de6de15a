# SPDX-License-Identifier: Apache-2.0
"""With `domains`, operators of all other domains are replaced by operators of ai.onnx."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import ModelProto
from opshift import (
    AdapterBug,
    BadTarget,
    InvalidModel,
    Refused,
    Why,
    convert,
    convert_version,
    plan,
)
from opshift.author import registry
from opshift.author.verdicts import LEAVE, Adapter
from opshift.cli.entry import main
from opshift.convert.blockers import StepRefused
from opshift.convert.change import Step
from opshift.convert.step import Stepper
from opshift.opsets import fields
from opshift.testing import example_model
from opshift.testing.case_files import examples_of
from text_models import model, ops
from vendor_judge import on_onnxruntime

VENDOR = ', "com.microsoft" : 1'
GELU = "(float[2,3] x) => (float[2,3] y) { y = com.microsoft.Gelu(x) }"
PLAIN = {"domains": ["ai.onnx"]}


def vendor(text: str, opset: int = 17, **more) -> ModelProto:
    return model(text, opset, more=VENDOR, **more)


def kinds(proto: ModelProto) -> set[str]:
    return {node.op_type for node in proto.graph.node}


def imports(proto: ModelProto) -> dict[str, int]:
    return {opset.domain: opset.version for opset in proto.opset_import}


def test_a_domain_that_is_not_wanted_is_left_and_no_longer_imported():
    result = convert(vendor(GELU), **PLAIN)
    assert imports(result.model) == {"": 17}
    assert kinds(result.model) == {"Div", "Erf", "Add", "Mul"}
    assert result.report.changed
    (step,) = result.report.steps
    assert (step.domain, step.rewritten[0].op) == ("com.microsoft", "Gelu")
    again = convert(result.model, **PLAIN)
    assert not again.report.changed
    assert again.model == result.model


def test_a_domain_is_left_where_its_form_is_shorter():
    """Gelu came with opset 20, so the domain is left at the opset with the shorter result."""
    assert kinds(convert_version(vendor(GELU), 20, **PLAIN)) == {"Gelu"}
    assert kinds(convert_version(vendor(GELU), 18, **PLAIN)) == {"Div", "Erf", "Add", "Mul"}
    down = convert(vendor(GELU, 20), 18, **PLAIN)
    assert down.report.steps[0].domain == "com.microsoft"


def test_a_domain_is_left_first_where_a_step_up_is_refused_beside_it(monkeypatch):
    refused = []
    run = Stepper.run

    def only_without_the_domain(self):
        if self.start == 18 and any(
            key[0] == "com.microsoft" for key in self.document.roots[0].index
        ):
            refused.append(self.start)
            raise StepRefused([], frozenset())
        return run(self)

    monkeypatch.setattr(Stepper, "run", only_without_the_domain)
    assert kinds(convert_version(vendor(GELU), 20, **PLAIN)) == {"Div", "Erf", "Add", "Mul"}
    assert refused == [18]


def test_a_domain_that_is_wanted_stays():
    before = vendor(GELU)
    assert convert_version(before, domains=["ai.onnx", "com.microsoft"]) == before
    assert "Gelu" in kinds(convert_version(before, 13))


@pytest.mark.parametrize("opset", [21, 13, 9, 7])
def test_other_versions_are_reached_in_one_conversion(opset):
    after = convert_version(vendor(GELU), opset, **PLAIN)
    assert imports(after) == {"": opset}
    values = {"x": np.linspace(-4, 4, 6, dtype=np.float32).reshape(2, 3)}
    run = on_onnxruntime()
    np.testing.assert_allclose(*run(vendor(GELU), values), *run(after, values), atol=1e-6)


def test_a_model_below_the_form_is_raised_for_it_and_comes_back():
    after = convert_version(
        vendor("(float[2,3] x) => (float[2,3] y) { y = com.microsoft.Trilu(x) }", 9), **PLAIN
    )
    assert imports(after) == {"": 9}
    assert "Trilu" not in kinds(after)


def test_what_one_node_computes_tells_what_the_next_one_needs():
    """Only the MatMul that replaces its node determines the rank of `h`."""
    text = (
        "(float[4,3] a, float[4,5] b) => (float[3,3] y) {"
        " h = com.microsoft.FusedMatMul<transA=1>(a, b)"
        " y = com.microsoft.FusedMatMul<transB=1>(h, h) }"
    )
    assert kinds(convert_version(vendor(text), **PLAIN)) == {"Transpose", "MatMul"}


def test_every_operator_without_a_form_is_a_named_blocker():
    text = (
        "(float[2,3] x) => (float[2,3] y, bool z) { h = com.microsoft.Gelu(x)"
        " y = com.microsoft.Unheard(h) z = acme.Run(y) }"
    )
    before = model(text, 17, more=VENDOR + ', "acme" : 1')
    for look in (convert_version, plan):
        try:
            refusals = look(before, **PLAIN).refusals
        except Refused as refused:
            refusals = refused.refusals
        found = {(refusal.domain, refusal.op, refusal.why) for refusal in refusals}
        assert found == {
            ("com.microsoft", "Unheard", Why.DOMAIN_LEFT),
            ("acme", "Run", Why.DOMAIN_LEFT),
        }
    converted = convert_version(before, domains=["ai.onnx", "acme", "com.microsoft"])
    assert converted == before


def test_branches_and_functions_are_left_too():
    text = (
        "(float[2,3] x, bool c) => (float[2,3] y) { h = own.f(x)"
        " y = If(c) <then_branch = t () => (float[2,3] p) { p = com.microsoft.QuickGelu(h) },"
        " else_branch = e () => (float[2,3] q) { q = Neg(h) }> }"
    )
    body = '<opset_import: ["" : 17, "com.microsoft" : 1], domain: "own"> f (a) => (b) { b = com.microsoft.Gelu(a) }'
    before = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17, "own" : 1, "com.microsoft" : 1]> g {text} {body}'
    )
    after = convert_version(before, **PLAIN)
    assert "com.microsoft" not in str(after)
    run = on_onnxruntime()
    for flag in (True, False):
        values = {"x": np.linspace(-4, 4, 6, dtype=np.float32).reshape(2, 3), "c": np.array(flag)}
        np.testing.assert_allclose(*run(before, values), *run(after, values), atol=1e-6)


def test_operators_that_a_runtime_brought_into_ai_onnx_are_left_too():
    text = "(float[2,3] x, float[3] s) => (float[2,3] y) { y = SimplifiedLayerNormalization(x, s) }"
    after = convert_version(model(text, 17), **PLAIN)
    assert "SimplifiedLayerNormalization" not in kinds(after)
    assert imports(after) == {"": 17}


EARLY = "(float16[2,3] x, float[3] s) => (float[2,3] y) { y = LayerNormalization(x, s) }"


def test_an_early_operator_of_two_types_is_written_with_a_cast():
    """onnxruntime runs a LayerNormalization below 17 whose scale is wider than its data."""
    before, run = model(EARLY, 12), on_onnxruntime()
    after = convert_version(before, 9)
    assert "Cast" in kinds(after)
    values = {"x": np.array([[1, 2, 4], [-3, 0, 5]], np.float16), "s": np.ones(3, np.float32)}
    np.testing.assert_allclose(*run(before, values), *run(after, values), atol=1e-6)


def test_an_early_operator_that_the_new_opset_rejects_is_no_result():
    with pytest.raises(InvalidModel, match=r"the check at a later opset reports: .*Scale"):
        convert_version(model(EARLY, 12), 17)


@pytest.mark.parametrize("target", ["tensorrt==8.4", "onnx==1.16"])
def test_a_runtime_without_the_domain_gets_plain_operators(target):
    after = convert_version(vendor(GELU), target)
    assert "com.microsoft" not in imports(after)
    assert "Gelu" not in kinds(after)
    assert "Gelu" in kinds(convert_version(vendor(GELU), "onnxruntime==1.17"))


@pytest.mark.parametrize("domains", ["ai.onnx", []])
def test_domains_are_a_list_of_names(domains):
    with pytest.raises(BadTarget, match="domains"):
        convert_version(vendor(GELU), domains=domains)


def test_the_command(tmp_path):
    onnx.save(vendor(GELU), tmp_path / "in.onnx")
    words = ["convert", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx")]
    done = CliRunner().invoke(main, [*words, "--domains", "ai.onnx,ai.onnx.ml"])
    assert done.exit_code == 0, done.stderr
    assert imports(onnx.load(tmp_path / "out.onnx")) == {"": 17}
    assert "Gelu x1: Div Erf Mul Add Mul" in done.stdout


DOUBLES = "(double[2,3] x, double[3,2] z) => (double[2,2] y) { y = com.microsoft.FusedMatMul<alpha=2.0>(x, z) }"


def lacking_a_kernel() -> list[tuple[Adapter, str, str]]:
    """Returns the replaceable operators, each with the last release that has no kernel for it."""
    table = fields.shipped()["onnxruntime"]
    return [
        (adapter, op, table.releases[without[-1]])
        for adapter in registry.default().adapters()
        if (adapter.start, adapter.to) == LEAVE
        for op in adapter.ops
        if (without := table.unknown.get((adapter.domain, op), {}).get("*"))
    ]


@pytest.mark.parametrize(("adapter", "op", "release"), lacking_a_kernel())
def test_an_operator_without_a_kernel_in_a_release_is_written(adapter, op, release):
    own = (example for example in examples_of(adapter) if f".{op}" in example.graph)
    example = next(one for one in own if one.refuses is None)
    converted = convert(example_model(adapter, example, {"": 13}), f"onnxruntime=={release}").model
    assert {node.domain for node in converted.graph.node} == {""}


def test_an_operator_without_a_kernel_for_the_type_is_written():
    for text, written in ((DOUBLES, {"MatMul", "Mul"}),
                          (DOUBLES.replace("double", "float"), {"FusedMatMul"})):  # fmt: skip
        assert kinds(convert(vendor(text, 13), "onnxruntime==1.10").model) == written


@pytest.mark.parametrize(
    ("runtime", "written"),
    [
        ("opencv==4.5.5", "MatMul Mul NoSuch"),
        ("tract==0.23", "MatMul Mul NoSuch"),
        ("onnxruntime==1.16", "FusedMatMul NoSuch"),
    ],
)
def test_operators_of_others_are_written_out_unless_the_runtime_has_them(runtime, written):
    """An operator without a form in ai.onnx stays, and the report has a note."""
    proto = vendor(
        "(float[2,4] x, float[4,4] w) => (float[2,4] y) {"
        " h = com.microsoft.FusedMatMul<alpha = 2.0>(x, w) y = com.microsoft.NoSuch(h) }",
        13,
    )
    result = convert(proto, runtime)
    assert ops(result.model) == written
    doubt = f"whether {runtime} has the domain com.microsoft (1 node)"
    assert (doubt in result.report.runtime.unknown) == ("onnxruntime" not in runtime)


@pytest.mark.parametrize("version", [0, -1])
@pytest.mark.parametrize("wanted", [{"target": 13, **PLAIN}, {"target": "opencv==4.5.5"}])
def test_a_version_below_the_first_one_ends_with_an_error(version, wanted):
    """No operator exists at such a version, and a search for operators would never end."""
    proto = vendor(GELU)
    proto.opset_import[1].version = version
    with pytest.raises(InvalidModel, match=f"imports com.microsoft {version}, but"):
        convert_version(proto, **wanted)


def test_an_operator_that_no_step_replaces_ends_with_an_error(monkeypatch):
    monkeypatch.setattr(Stepper, "run", lambda stepper: Step("com.microsoft", 1, 1))
    with pytest.raises(AdapterBug, match="no adapter replaces Gelu"):
        convert_version(vendor(GELU), 17, **PLAIN)
