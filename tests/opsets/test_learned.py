# SPDX-License-Identifier: Apache-2.0
"""`opshift targets --learn`: a success in a user's runtime is stored for that release."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from opshift import toml
from opshift.cli import exit_codes as cli
from opshift.cli.entry import main
from opshift.errors import BadTarget
from opshift.opsets import learned, targets

FAILED = {
    "opset": 19, "other_forms": [], "without": [], "functions": True, "outcome": "no answer",
    "detail": "",
}  # fmt: skip


@pytest.fixture
def learn(tmp_path, monkeypatch):
    """Learns from a report about onnxruntime 1.15.1 whose last test model ran."""
    own = tmp_path / "targets.toml"
    own.write_text("")
    monkeypatch.setenv("OPSHIFT_TARGETS", str(own))

    def learn(*tried, runs=True, source=20):
        trials = {"target": "onnxruntime==1.15.1", "python": "/d/python", "runs": runs}
        trials |= {"trials": [{**FAILED, **one} for one in tried], "notes": []}
        report = tmp_path / "report.json"
        report.write_text(json.dumps({"source": {"": source}, "trials": trials}))
        return CliRunner().invoke(main, ["targets", "--learn", str(report)])

    learn.file = tmp_path / "learned.toml"
    return learn


def test_a_lower_opset_is_preferred(learn):
    before = targets.find("onnxruntime==1.15.1")
    done = learn({}, {"opset": 16, "other_forms": ["Where", 'odd"'], "functions": False})
    assert done.exit_code == cli.DONE, done.output
    row = targets.find("ort 1.15.1")
    assert (row.prefer, row.functions) == (16, False)
    assert row.other_forms == ("Where", 'odd"')
    assert row.facts["prefer"].source == "a model ran in /d/python"
    assert row.imports == before.imports
    assert targets.find("onnxruntime==1.15").prefer is None  # it did not run the model
    assert (
        "Where as opshift usually writes it"
        in CliRunner().invoke(main, ["targets", "ort 1.15.1"]).stdout
    )


def test_operators_in_other_words_are_lacking(learn):
    assert learn({}, {"opset": 19, "without": ["Celu"]}).exit_code == cli.DONE
    row = targets.find("onnxruntime==1.15.1")
    assert row.unread(("", "Celu"), 12)
    assert row.facts["without"].source == "a model ran in /d/python"
    assert not targets.find("onnxruntime==1.15").unread(("", "Celu"), 12)


def test_a_higher_opset_is_the_lowest(learn):
    assert learn({"opset": 13}, {"opset": 17}, source=13).exit_code == cli.DONE
    row = targets.find("onnxruntime==1.15.1")
    assert (row.floors[""], row.prefer) == (17, None)


def test_a_later_fact_replaces_that_of_the_same_target_only(learn):
    learn.file.write_text('["edge==1"]\nprefer = 9\nsource = "s"\ndate = "d"\n')
    for opset in (17, 16):
        assert learn({}, {"opset": opset}).exit_code == cli.DONE
    assert targets.find("onnxruntime==1.15.1").prefer == 16
    assert '["edge==1"]\nprefer = 9\n' in learn.file.read_text()


@pytest.mark.parametrize(
    ("tried", "runs", "sentence"),
    [
        ([{}], True, "the first result ran in onnxruntime==1.15.1, so the table"),
        ([{}, {}], False, "no result ran in onnxruntime==1.15.1; give a report whose result ran"),
    ],
)
def test_a_report_without_a_fact_is_an_error(learn, tried, runs, sentence):
    done = learn(*tried, runs=runs)
    assert done.exit_code == cli.BAD_INPUT
    assert sentence in done.stderr
    assert not learn.file.exists()


@pytest.mark.parametrize("text", ["{}", "[]", '{"kind": "report"}'])
def test_another_file_is_an_error(text, tmp_path):
    (tmp_path / "r.json").write_text(text)
    done = CliRunner().invoke(main, ["targets", "--learn", str(tmp_path / "r.json")])
    assert done.exit_code == cli.BAD_INPUT
    assert "write one with `opshift convert --runtime PYTHON --json`" in done.stderr


def test_a_file_that_cannot_be_read_is_named(learn):
    learn.file.write_text('["onnxruntime==1.15.1"]\nbest = 3\n')
    done = CliRunner().invoke(main, ["targets", "onnxruntime==1.15.1"])
    assert done.exit_code == cli.BAD_INPUT
    assert f"{learn.file} cannot be read: " in done.stderr


# --- without the command --------------------------------------------------------------------------


def recorded(path, *tried, source, runs=True):
    """The facts that a report adds to a file, without their source and date."""
    trials = {"target": "ort==1.15.1", "python": "/d/python", "runs": runs}
    trials["trials"] = [{**FAILED, **one} for one in tried]
    learned.record_settings({"source": source, "trials": trials}, "r.json", path)
    fact = toml.loads(path.read_text("utf-8"))["ort==1.15.1"]
    assert (fact.pop("source"), len(fact.pop("date"))) == ("a model ran in /d/python", 10)
    return fact


@pytest.mark.parametrize(
    ("first", "last", "source", "fact"),
    [
        ({}, {"opset": 16}, {"": 20}, {"prefer": 16}),
        ({}, {"opset": 21}, {"": 20}, {"lowest": 21}),
        ({}, {"opset": 20}, {"": 20}, {"prefer": 20}),
        ({"opset": 2}, {"opset": 1}, {"ai.onnx.ml": 3}, {"lowest": 1}),
        ({}, {"functions": False}, {"": 20}, {"functions": False}),
        ({}, {"without": ["Celu"]}, {"": 20}, {"without": ["Celu"]}),
        (
            {"opset": 20},
            {"other_forms": ["Where"], "opset": 20},
            {"": 9},
            {"other_forms": ["Where"]},
        ),
    ],
)
def test_a_fact_is_what_differs_from_the_first_result(first, last, source, fact, tmp_path):
    assert recorded(tmp_path / "new" / "folder" / "f.toml", first, last, source=source) == fact


def test_each_target_has_its_facts(tmp_path):
    path = tmp_path / "f.toml"
    assert learned.fact_about("ort==1.15.1", path) is None
    recorded(path, {}, {"opset": 16}, source={"": 20})
    recorded(path, {}, {"opset": 15}, source={"": 20})
    assert path.read_text("utf-8").startswith(learned.HEAD)
    assert learned.fact_about("ort==1.15.1", path).prefer == 15
    assert learned.fact_about("ort==1.15", path) is None


@pytest.mark.parametrize("report", [[], {}, {"trials": None}, "text"])
def test_another_report_is_an_error(report, tmp_path):
    with pytest.raises(BadTarget, match="is not a report of a run in a runtime"):
        learned.record_settings(report, "r.json", tmp_path / "f.toml")
