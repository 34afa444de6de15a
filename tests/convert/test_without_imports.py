# SPDX-License-Identifier: Apache-2.0
"""Every command answers for a model without imports as `convert` does, if its meaning is clear."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import ModelProto
from opshift import InvalidModel, accepts, convert, convert_version, plan, verify
from opshift.look.accepts import survey
from opshift.look.consumer import Consumer, may_use
from opshift.zoo import Fate, migrate
from opshift.zoo.migrate import local_engine
from text_models import model


def without_imports(ir: int) -> ModelProto:
    found: ModelProto = model("(float[2] x) => (float[2] y) { y = Neg(x) }", opset=1, ir=3)
    found.ClearField("opset_import")
    found.ir_version = ir
    return found


@pytest.fixture(params=[1, 2, 8])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "zoo" / "model.onnx"
    path.parent.mkdir()
    path.write_bytes(without_imports(request.param).SerializeToString())
    return path


def test_conversion_and_plan_accept_it(source: Path) -> None:
    assert convert(source, 13).report.result[""] == 13
    assert plan(source, 13).possible


def test_a_measured_runtime_rejects_it_as_it_is_and_runs_its_conversion(source: Path) -> None:
    answer = accepts(source, "onnxruntime==1.17")
    assert answer.answer == "no"
    assert answer.reasons[0] == "the model imports no operator set"
    (fit,) = survey(source, ["onnxruntime==1.17"]).fits
    assert (fit.now, fit.after) == ("no", "yes")


def test_it_is_not_known_whether_another_runtime_reads_it(source: Path) -> None:
    answer = accepts(source, "tensorrt==10")
    assert any("imports no operator set" in doubt for doubt in answer.unknown)


def test_a_consumer_of_newer_versions_may_use_it(source: Path) -> None:
    assert may_use(source, Consumer({"": 28}, 11)).answer == "yes"


def test_a_batch_converts_it(source: Path, tmp_path: Path) -> None:
    summary = migrate(source.parent, tmp_path / "results", 13, engine=local_engine(1))
    assert summary.fates[Fate.OK] == 1


def without_domain(domain: str, op: str) -> ModelProto:
    made: ModelProto = model("(float[2,3] x) => (float[2,3] y) { y = Neg(x) }", 13)
    made.graph.node[0].domain, made.graph.node[0].op_type = domain, op
    return made


@pytest.mark.parametrize(
    ("domain", "op"), [("com.microsoft", "Gelu"), ("ai.onnx.ml", "Normalizer")]
)
def test_the_import_of_a_domain_whose_operators_never_changed_is_added(domain: str, op: str):
    before = without_domain(domain, op)
    done = convert(before, 12)
    assert done.report.result[domain] == 1
    assert any(f"does not import {domain}" in note for note in done.report.notes)
    assert plan(before, 12).possible
    assert accepts(before, "onnxruntime==1.17").answer == "yes"
    assert any(
        f"an import of {domain}" in doubt for doubt in accepts(before, "tensorrt==10").unknown
    )
    assert may_use(before, Consumer({"": 28, domain: 1}, 11)).answer == "yes"


@pytest.mark.parametrize("op", ["TreeEnsembleClassifier", "NoSuch"])
def test_the_import_of_operators_that_changed_or_are_unknown_is_not_guessed(op: str):
    with pytest.raises(InvalidModel, match="does not import"):
        convert(without_domain("ai.onnx.ml", op), 12)


def test_a_conversion_that_adds_an_import_is_verified(tmp_path: Path) -> None:
    before = without_domain("com.microsoft", "Gelu")
    assert verify(before, convert_version(before, 12)).equal
