# SPDX-License-Identifier: Apache-2.0
"""The corpus tool tells every kind of outcome apart, on a corpus made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from tools.corpus import convert as corpus
from tools.corpus.conversion_child import execute, flat
from tools.corpus.corpus_tables import markdown, report
from tools.corpus.judge import judge
from tools.corpus.model import BlockerText, Model, ModelVerdict, Settings, Status, models_of
from tools.corpus.same_results import difference

X = np.array([[-1.0, 0.5, 2.0]], np.float32)
RELU = np.maximum(X, 0)


def write_model(folder: Path, body: str, outputs: dict[str, np.ndarray], opset: int = 13) -> None:
    """One model of a corpus, with one input `x`."""
    folder.mkdir()
    header = f'<ir_version: 8, opset_import: ["": {opset}]> g (float[1,3] x) => '
    onnx.save(parser.parse_model(header + body), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=X)
    np.savez(folder / "expected.npz", **outputs)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A corpus with two models."""
    write_model(tmp_path / "relu", "(float[1,3] y) { y = Relu(x) }", {"y": RELU})
    write_model(tmp_path / "abs", "(float[1,3] y) { y = Abs(x) }", {"y": abs(X)})
    return tmp_path


def judged(folder: Path, converter: str, target: int = 18, model: str = "relu") -> ModelVerdict:
    """The verdict on one model under a converter of this file."""
    settings = Settings(converter=f"{__name__}:{converter}", seconds=60)
    return judge(Model(model, folder / model), target, settings)


def restamp(src: str, dst: str, target: int) -> None:
    """A converter that is right about Relu."""
    model = onnx.load(src)
    model.opset_import[0].version = target
    onnx.save(model, dst)


def mistaken(src: str, dst: str, target: int) -> None:
    """A converter that changes the meaning."""
    model = onnx.load(src)
    model.opset_import[0].version = target
    model.graph.node[0].op_type = "Neg"
    onnx.save(model, dst)


def illegal(src: str, dst: str, target: int) -> None:
    """A converter that writes what the checker rejects."""
    model = onnx.load(src)
    model.graph.node[0].op_type = "Nonsense"
    onnx.save(model, dst)


def refusing(src: str, dst: str, target: int) -> tuple[BlockerText, ...]:
    """A converter that says no."""
    return (BlockerText("NEEDS_RANK", "Relu", (13, 14), "n", "rank unknown"),)


def rejecting(src: str, dst: str, target: int) -> None:
    """A converter that does not accept the model."""
    raise type("InvalidModel", (ValueError,), {})("no graph")


def failing(src: str, dst: str, target: int) -> None:
    """A converter with a bug."""
    raise KeyError("axis")


def dying(src: str, dst: str, target: int) -> None:
    """A converter that takes its process along."""
    import os

    os.abort()


def endless(src: str, dst: str, target: int) -> None:
    """A converter that does not come back."""
    import time

    time.sleep(60)


@pytest.mark.parametrize(
    ("converter", "status", "detail"),
    [
        ("restamp", Status.EQUAL, ""),
        ("mistaken", Status.WRONG, "output 'y': max error 4, 3 of 3 elements differ"),
        ("illegal", Status.INVALID, "Nonsense"),
        ("rejecting", Status.REJECTED, "InvalidModel: no graph"),
        ("failing", Status.CRASHED, "KeyError: 'axis'"),
        ("dying", Status.CRASHED, "SIGABRT"),
    ],
)
def test_each_outcome_is_told_apart(
    folder: Path, converter: str, status: Status, detail: str
) -> None:
    verdict = judged(folder, converter)
    assert (verdict.status, detail in verdict.detail) == (status, True), verdict


def test_a_refusal_keeps_its_reasons(folder: Path) -> None:
    verdict = judged(folder, "refusing")
    assert verdict.status is Status.REFUSED
    assert verdict.refusals == refusing("", "", 18)


def test_a_conversion_has_a_time_limit(folder: Path) -> None:
    settings = Settings(converter=f"{__name__}:endless", seconds=0.5)
    verdict = judge(Model("relu", folder / "relu"), 18, settings)
    assert (verdict.status, verdict.detail) == (Status.CRASHED, "not finished in 0.5 s")


def beyond_the_runtime(folder: Path, converter: str) -> ModelVerdict:
    """The verdict where onnxruntime does not know the target."""
    settings = Settings(f"{__name__}:{converter}", seconds=60, newest=(17, 10))
    return judge(Model("relu", folder / "relu"), 18, settings)


@pytest.mark.parametrize(
    ("converter", "status", "detail"),
    [
        ("restamp", Status.EQUAL, ""),
        ("mistaken", Status.WRONG, "output 'y': max error 4, 3 of 3 elements differ"),
    ],
)
def test_targets_beyond_the_runtime_have_our_own_judge(
    folder: Path, converter: str, status: Status, detail: str
) -> None:
    verdict = beyond_the_runtime(folder, converter)
    assert verdict.status is status
    assert detail in verdict.detail


def test_an_operator_that_nobody_knows_leaves_a_model_unverified(tmp_path: Path) -> None:
    write_model(tmp_path / "relu", "(float[1,3] y) { y = com.acme.Relu(x) }", {"y": RELU})
    model = onnx.load(tmp_path / "relu" / "model.onnx")
    model.opset_import.add(domain="com.acme", version=1)
    onnx.save(model, tmp_path / "relu" / "model.onnx")
    verdict = beyond_the_runtime(tmp_path, "restamp")
    assert verdict.status is Status.UNVERIFIED
    assert "judge: OracleError: com.acme 1 has no operator Relu" in verdict.detail
    assert "round trip: " in verdict.detail


@pytest.mark.parametrize(("converter", "same"), [(restamp, True), (mistaken, False)])
def test_there_and_back_shows_what_is_wrong(folder: Path, converter: Any, same: bool) -> None:
    converted = folder / "converted.onnx"
    converter(str(folder / "relu" / "model.onnx"), str(converted), 18)
    outputs = execute("round trip", str(converted), str(folder / "relu" / "inputs.npz"))
    assert (difference(outputs, {"y": RELU}) == "") is same


def test_an_engine_that_differs_on_the_original_too_is_not_our_fault(tmp_path: Path) -> None:
    write_model(tmp_path / "relu", "(float[1,3] y) { y = Relu(x) }", {"y": RELU + 1})
    verdict = judged(tmp_path, "restamp")
    assert verdict.status is Status.EQUAL
    assert verdict.detail.startswith("engine difference: output 'y': max error 1")
    verdict = judged(tmp_path, "mistaken")
    assert verdict.status is Status.WRONG
    assert "the original here: output 'y': max error 1" in verdict.detail


def test_without_expected_outputs_nothing_is_verified(folder: Path) -> None:
    (folder / "relu" / "expected.npz").unlink()
    verdict = judged(folder, "restamp")
    assert (verdict.status, verdict.detail) == (Status.UNVERIFIED, "no expected outputs")


def test_every_set_of_inputs_counts(folder: Path) -> None:
    np.savez(folder / "relu" / "inputs_2.npz", x=-X)
    np.savez(folder / "relu" / "expected_2.npz", y=np.maximum(-X, 0))
    assert len(Model("relu", folder / "relu").sets()) == 2
    assert judged(folder, "restamp").status is Status.EQUAL


def test_sequences_of_maps_become_arrays() -> None:
    arrays = dict(flat({"p": [{0: 0.25, 1: 0.75}, {0: 1.0, 1: 0.0}], "s": [X, X]}))
    assert arrays["p#keys"].tolist() == [[0, 1], [0, 1]]
    assert arrays["p#values"].tolist() == [[0.25, 0.75], [1.0, 0.0]]
    assert list(arrays) == ["p#keys", "p#values", "s#0", "s#1"]


@pytest.mark.parametrize(
    ("got", "expected", "told"),
    [
        (X + 1e-6, X, ""),
        (X + 1e-2, X, "output 'y': max error 0.01, 3 of 3 elements differ"),
        (np.float16(1.001), np.float16(1.0), ""),
        (np.array([np.nan, np.inf]), np.array([np.nan, np.inf]), ""),
        (np.array([np.nan, 1.0]), np.array([0.0, 1.0]), "max error inf, 1 of 2"),
        (np.array([-np.inf]), np.array([np.inf]), "max error inf, 1 of 1"),
        (np.array([1, 2]), np.array([1, 3]), "1 of 2 elements differ"),
        (np.array(["a"], object), np.array(["a"]), ""),
        (np.array(["a"]), np.array(["b"]), "1 of 1 elements differ"),
        (np.array([1], np.int32), np.array([1], np.int64), "type int32, expected int64"),
        (X[0], X, "shape [3], expected [1, 3]"),
        (np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32), ""),
    ],
)
def test_comparison(got: np.ndarray, expected: np.ndarray, told: str) -> None:
    found = difference({"y": np.asarray(got)}, {"y": np.asarray(expected)})
    assert told in found
    assert bool(told) == bool(found)


def test_comparison_names_the_first_output_and_allows_the_slack_of_a_model() -> None:
    assert difference({}, {"y": X}) == "output 'y' is missing"
    assert difference({"a": X, "y": X + 1e-2}, {"a": X, "y": X}).startswith("output 'y'")
    assert difference({"y": X + 1e-2}, {"y": X}, slack=5e-3) == ""


def refused(model: str, *reasons: tuple[str, str]) -> ModelVerdict:
    """A refused model with those (why, op) at 13 -> 12."""
    refusals = tuple(BlockerText(why, op, (13, 12), "n", "because\nof") for why, op in reasons)
    return ModelVerdict(model, 11, Status.REFUSED, refusals=refusals)


def test_tables_count_models_and_nodes() -> None:
    rank, constant = ("NEEDS_RANK", "Softmax"), ("NEEDS_CONSTANT", "Squeeze")
    verdicts = [refused("a", constant, constant, rank), refused("b", rank)]
    verdicts.append(ModelVerdict("c", 11, Status.WRONG, "output 'y': max error 1", "onnxruntime"))
    counts, reasons, wrong = report(verdicts, [11]).split("\n\n")
    assert counts.splitlines()[1].split() == ["11", "3", "0", "2", "0", "0", "1", "0", "0"]
    assert [line.split()[:5] for line in reasons.splitlines()[2:]] == [
        ["2", "2", "NEEDS_RANK", "Softmax", "13->12"],
        ["1", "2", "NEEDS_CONSTANT", "Squeeze", "13->12"],
    ]
    assert reasons.splitlines()[2].endswith("a 'n': because of")
    assert wrong == "wrong\n  c -> 11 [onnxruntime] output 'y': max error 1"


def test_a_document_has_a_row_per_target_and_reason() -> None:
    verdicts = [
        refused("a", ("NEEDS_RANK", "Softmax")),
        ModelVerdict("b", 11, Status.EQUAL, "", "judge"),
    ]
    verdicts += [
        refused("c", ("NEEDS_RANK", "Softmax")),
        ModelVerdict("c", 13, Status.EQUAL, "", "onnxruntime"),
    ]
    lines = markdown(verdicts, [13, 11]).splitlines()
    assert "| 13 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 0 | 0 |" in lines
    assert "| 11 | 1 | 2 | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 0 |" in lines
    assert "| Softmax 13->12 | NEEDS_RANK | because of | 2 |" in lines


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--corpus", str(folder), "--to", "18", "--jobs", "2"]
    done = [*common, "--converter", f"{__name__}:restamp", "--json", str(folder / "out.json")]
    assert corpus.main(done) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["18", "2", "2"]
    results = json.loads((folder / "out.json").read_text())["results"]
    assert [(r["model"], r["status"]) for r in results] == [("abs", "equal"), ("relu", "equal")]
    wrong = [*common, "--converter", f"{__name__}:mistaken", "--only", "re*"]
    assert corpus.main(wrong) == 1


def test_the_command_converts_with_opshift(folder: Path) -> None:
    assert corpus.main(["--corpus", str(folder), "--to", "18", "11", "--only", "relu"]) == 0


def test_no_corpus_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus.main(["--corpus", str(tmp_path / "none"), "--to", "18"]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_samples_repeat(folder: Path) -> None:
    def sample(seed: int) -> list[str]:
        return [model.id for model in models_of(folder, [], 1, seed)]

    assert sample(1) == sample(1)
    assert {name for seed in range(8) for name in sample(seed)} == {"abs", "relu"}
