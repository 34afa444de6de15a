# SPDX-License-Identifier: Apache-2.0
"""A probe of a runtime: its results, its row, and conversions that use the row."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import onnx
import opshift
import pytest
from click.testing import CliRunner
from fake_runtimes import fake_python
from opshift import toml
from opshift.author import registry
from opshift.cli.entry import main
from opshift.errors import BadTarget
from opshift.opsets import probed, schemas, targets
from opshift.opsets.probed import DIES, REFUSED, RUNS, WRONG
from opshift.opsets.wanted import Wanted
from opshift.probe import probing, row
from opshift.probe.probe_models import ProbeResult, case, models
from opshift.probe.probing import probe, tabulated
from text_models import model

pytestmark = pytest.mark.usefixtures("forked_runtimes")
ADAPTERS = registry.default()
OPS = ("Neg", "Abs", "Celu", "Sign", "ReduceMax")
RULES = {"Abs": "wrong", "Celu": "refuses", "Sign": "dies"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, forked_runtimes: None) -> probing.Probing:
    """A probe of a runtime with one fault of each kind, under a new name."""
    python = fake_python(tmp_path_factory.mktemp("fake"), RULES)
    return complete(probe(python, "edge-box==2.0.0", ops=OPS, sample=34))


def complete(sample: probing.Probing) -> probing.Probing:
    """Marks a sample as a probe of all models."""
    return replace(sample, unfinished=frozenset())


@pytest.fixture
def own(found, tmp_path, monkeypatch) -> Path:
    path = tmp_path / "row.toml"
    row.write(path, found)
    monkeypatch.setenv(targets.CONFIG, str(path))
    return path


def test_each_operator_has_its_outcome(found):
    outcomes = {op: {o.outcome for o in found.results if o.key == ("", op)} for op in OPS}
    assert outcomes["Neg"] == outcomes["ReduceMax"] == {RUNS}
    assert outcomes["Celu"] == {REFUSED}
    assert outcomes["Sign"] == {DIES}
    assert WRONG in outcomes["Abs"]
    assert found.target == "edge-box==2.0"
    assert sum(astuple(found.counts)) == len(found.results)


def test_a_row_can_be_used_at_once(own, tmp_path):
    answers = {}
    for op in OPS[:4]:
        path = tmp_path / f"{op}.onnx"
        onnx.save(model(f"(float[2] x) => (float[2] y) {{ y = {op}(x) }}", 13), path)
        answers[op] = opshift.accepts(path, "edge-box==2.0")
    assert answers["Neg"].answer == "not known"
    assert "a probe ran each of these nodes only" in answers["Neg"].unknown[0]
    for op, text in (
        ("Abs", "other numbers"),
        ("Celu", "not run"),
        ("Sign", "crashes the process"),
    ):
        assert answers[op].answer == "no"
        assert text in answers[op].reasons[0]
    path = tmp_path / "Exp.onnx"
    onnx.save(model("(float[2] x) => (float[2] y) { y = Exp(x) }", 13), path)
    answer = opshift.accepts(path, "edge-box==2.0")
    assert answer.answer == "not known"
    assert answer.unknown == ("whether edge-box==2.0 runs Exp 13 ('y')",)


@pytest.mark.parametrize(("outcome", "answer"), [(RUNS, "not known"), (REFUSED, "no")])
def test_an_input_that_is_absent_in_a_probe_and_in_the_model_is_no_gap(
    found, tmp_path, monkeypatch, outcome, answer
):
    resize = model(
        '(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Resize(x, "", s) }', 13
    )
    schema = schemas.schema("", "Resize", 13)
    features = probed.features(resize.graph.node[0], schema, 4)
    result = ProbeResult(("", "Resize"), 13, ("float", ""), features, outcome)
    assert probed.variables(schema) == ("T1", "T2")
    path = tmp_path / "row.toml"
    row.write(path, type(found)("edge-box", "3.0", *_rest(found)[:2], (result,), 0))
    monkeypatch.setenv(targets.CONFIG, str(path))
    verdict = opshift.accepts(resize, "edge-box==3.0")
    assert verdict.answer == answer, verdict
    assert len(verdict.unknown) == 1  # that the node ran alone, and no gap


def test_a_conversion_avoids_what_a_probe_saw_fail(own):
    source = model("(float[2] x) => (float[2] y) { y = Celu(x) }", 13)
    result = opshift.convert(source, "edge-box==2.0")
    assert "Celu" not in {node.op_type for node in result.model.graph.node}


def test_a_conversion_does_not_go_below_the_opset_in_which_operators_broadcast(
    tmp_path, monkeypatch
):
    path = tmp_path / "row.toml"
    path.write_text(
        "[box]\nprobed = '''\nruntime box\nrelease 2.0 2026-01-02 us\nAdd 13 T; refused 2.0 f4\n"
        "Add 7 T; refused 2.0 f4\nAdd 6 T; runs 2.0 f4\n'''\n[[box.releases]]\nversions = \"2.0\"\n"
    )
    monkeypatch.setenv(targets.CONFIG, str(path))
    wanted = Wanted.of("box==2.0", {}, {})
    assert wanted.goal({"": 13}, [("", "Add")]).get("", 13) == 14  # nothing is known of Add 14
    assert wanted.goal({"": 6}, [("", "Add")]).get("", 6) == 6


def test_a_conversion_for_what_runs_changes_nothing(own):
    source = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)
    assert opshift.convert(source, "edge-box==2.0").model == source


def test_a_probe_of_a_known_runtime_adds_to_its_row(found, tmp_path, monkeypatch):
    before = targets.find("opencv==4.8")
    path = tmp_path / "row.toml"
    for release in ("4.8", "9.1"):
        row.write(path, type(found)("opencv", release, *_rest(found)))
    assert [one["versions"] for one in toml.loads(path.read_text())["opencv"]["releases"]] == [
        "9.1"
    ]
    monkeypatch.setenv(targets.CONFIG, str(path))
    after = targets.find("opencv==4.8")
    assert after.without == before.without
    assert after.probed is not None
    assert targets.find("opencv==9.1").probed is not None
    assert targets.find("opencv==4.5.5").probed is None or before.probed is not None


def _rest(found: probing.Probing) -> tuple[object, ...]:
    return found.python, found.date, found.results, found.left, found.reads


def test_a_file_of_another_kind_stays(found, tmp_path):
    path = tmp_path / "notes.toml"
    path.write_text("[mine]\n")
    with pytest.raises(BadTarget, match="was not written by"):
        row.write(path, found)
    assert path.read_text() == "[mine]\n"


def test_an_interrupted_probe_keeps_its_results(tmp_path):
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    python = fake_python(tmp_path, {})
    part = probe(python, ops=("Neg", "Abs", "ReduceMax"), sample=150, progress=stop)
    assert part.left > 0
    assert {result.outcome for result in part.results} == {RUNS}


def test_a_probe_continues_after_the_results_of_a_file(tmp_path):
    """An interrupted probe leaves batches, and perhaps a part of a line."""
    log, path = tmp_path / "log", tmp_path / "results.jsonl"
    python = fake_python(tmp_path, {**RULES, "log": str(log)})
    asked = {"ops": OPS, "sample": 70}
    expected = probe(python, **asked)
    every = log.read_text().splitlines()

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    log.unlink()
    part = probe(python, **asked, path=path, progress=stop)
    with path.open("a") as file:
        file.write('{"done": 5, "of": [')
    assert part.left > expected.left
    whole = probe(python, **asked, path=path)
    assert (whole.results, whole.reads, whole.left) == (
        expected.results, expected.reads, expected.left
    )  # fmt: skip
    assert sorted(log.read_text().splitlines()) == sorted(every)
    with pytest.raises(BadTarget, match="contains results of other models or of another"):
        probe(python, ops=("Abs",), path=path)


def test_numbers_of_an_example_that_a_copy_cannot_hold_are_replaced():
    """Every operator of which an example has negative numbers has copies for unsigned types."""
    for op in ("Mod", "Abs", "OneHot"):
        of = [case(model, ADAPTERS) for model in models(ADAPTERS, (op,)) if "uint8" in model.types]
        assert any(of), op


def test_an_interrupt_keeps_the_results(tmp_path, monkeypatch):
    run, path = probing.run, tmp_path / "row.toml"

    def ended(runtime, batch, limits):
        if path.with_suffix(".began").exists():
            os.kill(os.getpid(), signal.SIGINT)
        path.with_suffix(".began").touch()
        return run(runtime, batch, limits)

    monkeypatch.setattr(probing, "run", ended)
    ops = [word for op in ("Neg", "Abs", "ReduceMax") for word in ("--op", op)]
    words = ["probe", fake_python(tmp_path, {}), "-o", str(path), "--sample", "150", *ops]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "models did not run" in done.output
    assert "onnxruntime" in toml.loads(path.read_text())


def test_an_operator_is_lost_only_if_no_release_around_runs_it():
    """If one release refuses double and a later one runs it, the operator is not lost."""
    text = (
        "runtime box\nrelease 1.0 2026-11-28 s\nrelease 3.0 2026-11-28 s\n"
        "Abs 13 T; runs 3.0 f4; refused 1.0..3.0 f8; refused 1.0 f4\n"
        "Neg 13 T; refused 1.0..3.0 f4 f8"
    )
    table = probed.read(text).at("2.0")
    assert table is not None
    assert table.unread(("", "Abs"), 13) == ""
    assert table.unread(("", "Neg"), 13) == REFUSED


def test_the_installed_onnxruntime(tmp_path):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "row.toml"
    words = ["probe", sys.executable, "--op", "Relu", "--op", "Clip", "-o", str(path)]
    done = CliRunner().invoke(main, [*words, "--sample", "40"])
    assert done.exit_code == 0, done.output
    onnx.save(model("(float[2] x) => (float[2] y) { y = Relu(x) }", 13), tmp_path / "m.onnx")
    release = toml.loads(path.read_text())["onnxruntime"]["probed"].split("release ")[1].split()[0]
    asked = ["accepts", str(tmp_path / "m.onnx"), "--for", f"onnxruntime=={release}"]
    assert CliRunner().invoke(main, [*asked, "--targets", str(path)]).exit_code == 0


def test_an_unknown_operator_or_release_is_named(tmp_path):
    python = fake_python(tmp_path, {})
    with pytest.raises(BadTarget, match="no operator has the name Reluu"):
        probe(python, ops=("Reluu",))
    with pytest.raises(
        BadTarget, match=r"is not a number; give the release, as in --name edge==1\.0"
    ):
        probe(python, "edge==new")


def result(outcome: str, *features: str, types: tuple[str, ...] = ("float",)) -> ProbeResult:
    return ProbeResult(("", "Resize"), 13, types, frozenset(features), outcome)


def test_a_feature_is_blamed_if_nothing_else_is_new():
    group = [
        result(RUNS, "@mode", "@mode=linear", "@rank=4"),
        result(WRONG, "@mode", "@mode=cubic", "@rank=4"),
        result(REFUSED, "@axes", "@axes=1,2", "@rank=4"),
        result(REFUSED, "@axes", "@axes=2,3", "@rank=4"),
        result(REFUSED, "@layout", "@layout=1", "@rank=4"),
        result(REFUSED, "@layout", "@layout=2", "@mode", "@mode=cubic", "@rank=4"),
        result(DIES, "@rank=1"),
    ]
    found = tabulated(group)["", "Resize"][13]
    assert set(found.features) == {
        (RUNS, "@mode"), (WRONG, "@mode=cubic"), (REFUSED, "@axes"), (REFUSED, "@layout=1"),
        (DIES, "@rank=1"),
    }  # fmt: skip
    assert set(found.types) == {(RUNS, ("float",))}


@pytest.mark.parametrize(
    ("tried", "fails"),
    [
        (["@auto_pad @auto_pad=SAME_UPPER @strides @strides=2,2"], set()),
        (["@auto_pad @auto_pad=SAME_UPPER", "@auto_pad @auto_pad=VALID"], {"@auto_pad"}),
        (["@auto_pad @auto_pad=SAME_UPPER", ""], {"float"}),
        (["@rank=3", "@rank=4 @kernel_shape @kernel_shape=2,2"], {"float"}),
    ],
)  # fmt: skip
def test_a_form_that_was_not_tried_does_not_fail(tried, fails):
    """Perhaps only the forms of ConvTranspose with auto_pad fail, but not the usual form."""
    key = ("", "ConvTranspose")
    group = [ProbeResult(key, 11, ("float",), frozenset(one.split()), WRONG) for one in tried]
    found = tabulated(group)[key][11]
    assert {of for _, (of,) in found.types} | {of for _, of in found.features} == fails


def test_element_types_whose_other_models_were_left_out_do_not_fail():
    """Perhaps only some forms fail, and the plain form was not tried."""
    key = ("", "MaxPool")
    failed = [ProbeResult(key, 12, ("float",), frozenset({"@rank=3"}), REFUSED)]
    assert tabulated(failed)[key][12].types == {(REFUSED, ("float",)): frozenset({0})}
    assert not tabulated(failed, {(key, 12, ("float",))})[key][12].types
    assert tabulated(failed, {(key, 12, ("int8",))})[key][12].types


def test_a_failure_without_an_explanation_is_kept():
    types = ("float", "float")
    group = [
        result(RUNS, types=types),
        result(WRONG, types=types),
        result(RUNS, types=("int8", "")),
    ]
    found = tabulated(group)["", "Resize"][13]
    assert set(found.types) == {("partly", types), (RUNS, ("int8", ""))}


def test_every_model_has_what_it_says():
    """The sample is in order: each version of an operator comes before its other types."""
    asked = models(ADAPTERS, ("Softmax", "Clip", "Not"))
    seen = {(one.key, one.since) for one in asked[: len({(o.key, o.since) for o in asked})]}
    assert seen == {(one.key, one.since) for one in asked}
    assert {one.since for one in asked if one.key[1] == "Softmax"} == {1, 11, 13}
    for one in asked[::9]:
        made = case(one, ADAPTERS)
        if made is not None:
            assert made.expected.keys() == {info.name for info in made.model.graph.output}


def test_the_examples_of_all_adapters_give_models():
    """Other tests use chosen operators, and so would miss an example that ends a probe."""
    probed_ops = {model.key for model in models(ADAPTERS)}
    known = {("", op) for op in ("Add", "Conv", "GatherND", "Resize", "Softmax", "TopK")}
    assert probed_ops >= known | {("ai.onnx.ml", "TreeEnsembleRegressor")}


def test_releases_are_compared(tmp_path):
    pythons = []
    for name, rules in (("one", {}), ("two", {"Abs": "refuses"})):
        (tmp_path / name).mkdir()
        pythons.append(fake_python(tmp_path / name, rules))
    tables = []
    for python, release in zip(pythons, ("1.0", "1.1"), strict=True):
        found = complete(probe(python, f"edge=={release}", ops=("Abs", "Neg"), sample=4))
        tables.append(found.table)
    lines = [str(line.text) for line in row.differences(tables)]
    assert [line.split(";")[0].strip() for line in lines[1:]] == ["Abs 6 T", "Abs 13 T"]
    assert "runs 1.0 f4" in lines[1]
    assert "refused 1.1 f4" in lines[1]


def test_a_table_is_shipped_with_common_types(found, tmp_path):
    path = tmp_path / "probed.txt"
    path.write_text("# a head\n")
    for _ in range(2):
        row.write(path, found)
    text = path.read_text()
    assert text.startswith("# a head\n\nruntime edge-box\nrelease 2.0 ")
    assert text.count("runtime ") == 1
    for word in (" u4", " i2", "# wrong"):
        assert word not in text
    for since, one in probed.read(text.partition("\n\n")[2]).outcomes["", "Neg"].items():
        assert one.running(frozenset({0})), since


def test_inputs_after_the_first_are_also_constants():
    """A runtime may read weights and axes only as constants."""
    asked = [model for model in models(ADAPTERS, ("MatMul",)) if model.types == ("float",)]
    counts = {len(one.model.graph.initializer) for one in asked if one.since == 13}
    assert counts == {0, 1}
    for one in asked:
        made = case(one, ADAPTERS)
        assert made is None or len(made.inputs) == len(made.model.graph.input)


@pytest.mark.parametrize("op", ["GatherND", "GatherElements", "ScatterND", "ScatterElements"])
def test_negative_indices_are_a_form_of_their_own(op):
    """A runtime that does not count indices from the end may run the operator nevertheless."""
    results, forms = [], set[bool]()
    for one in models(ADAPTERS, (op,)):
        if (
            one.since == 13
            and one.types[0] == "float"
            and (made := case(one, ADAPTERS)) is not None
        ):
            has = probed.NEGATIVE in one.features
            if "i" in made.inputs:
                assert has == bool(np.any(made.inputs["i"] < 0))
            forms.add(has)
            outcome = WRONG if has else RUNS
            results.append(ProbeResult(one.key, 13, one.types, one.features, outcome))
    assert forms == {True, False}
    table = probed.ProbeTable(
        "own", (probed.ProbedRelease("1.0", "2026-11-29", "a test"),), tabulated(results)
    )
    text = "\n".join(probed.written(table))
    assert f"wrong 1.0 {probed.NEGATIVE}" in text
    types = next(result.types for result in results)
    assert (RUNS, types) in probed.read(text).outcomes["", op][13].types
    assert "with negative indices" in " ".join(map(str, results))


@pytest.mark.parametrize(
    ("shape", "same"), [((3, 1), True), ((1, 3), True), ((3,), True), ((2, 3), False)]
)
def test_axes_of_one_element_do_not_count(shape, same):
    one = next(model for model in models(ADAPTERS, ("Neg",)) if model.types == ("float",))
    made = probing.ProbeCase(one, one.model, {}, {"y": np.ones(3, np.float32)}, frozenset())
    assert (probing._difference(made, {"y": np.ones(shape, np.float32)}) == "") is same


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (np.array([1.0, 2.0], np.float32), True),
        (np.array([1, 2], np.int32), True),
        (np.array([1.5, 2.0], np.float32), False),
        (np.array([1, 3], np.int32), False),
    ],
)
def test_the_element_type_of_an_output_does_not_count(value, same):
    """OpenCV has float tensors only, and MNN has no int64."""
    one = next(model for model in models(ADAPTERS, ("Neg",)) if model.types == ("int64",))
    made = probing.ProbeCase(one, one.model, {}, {"y": np.array([1, 2])}, frozenset())
    assert (probing._difference(made, {"y": value}) == "") is same
