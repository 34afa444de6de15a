# SPDX-License-Identifier: Apache-2.0
"""Results of many models for other programs: rows as JSON Lines and CSV, JUnit and SARIF."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest
from click.testing import CliRunner
from json_schema import SCHEMA, faults
from onnx import parser
from opshift import Why
from opshift.cli.entry import main
from opshift.results import FORMATS, FORMULA, ModelResult, as_csv
from opshift.text import printable
from opshift.zoo.migrate import migrate

NEG = '<ir_version: 7, opset_import: ["" : 13]> g (double[2] x) => (double[2] y) { y = Neg(x) }'
BAD = "a<b>&\"'\u202e,\n.onnx"  # a name that no format may be broken by


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    home = tmp_path / "zoo"
    home.mkdir()
    onnx.save(parser.parse_model(NEG), home / "good.onnx")
    onnx.save(parser.parse_model(NEG.replace("Neg", "Erf")), home / "erf.onnx")
    wrong = parser.parse_model(NEG)
    wrong.graph.node[0].input[0] = "nobody"
    onnx.save(wrong, home / BAD)
    (home / "text.onnx").write_text("no model\n")
    return home


def run(*words: object):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def written(zoo: Path, tmp_path: Path) -> dict[str, Path]:
    paths = {ending: tmp_path / f"out{ending}" for ending in FORMATS}
    words = [word for path in paths.values() for word in ("--results", path)]
    done = run("batch", zoo, "--dry-run", "--to", "8", *words)
    assert done.exit_code == 1, done.output
    return paths


def test_a_line_for_each_model(written):
    rows = [json.loads(line) for line in written[".jsonl"].read_text("utf-8").splitlines()]
    assert {row["model"].partition("<")[0]: row["outcome"] for row in rows} == {
        "good.onnx": "ok", "erf.onnx": "refused", "text.onnx": "invalid", "a": "invalid",
    }  # fmt: skip
    for row in rows:
        assert not list(faults(row))
    erf = next(row for row in rows if row["model"] == "erf.onnx")
    assert erf["blockers"][0]["op"] == "Erf"


def test_the_columns_are_the_fields_of_a_row(written):
    with written[".csv"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    fields = SCHEMA["$defs"]["row"]["properties"].keys() - {"schema_version", "kind"}
    assert rows[0].keys() == fields
    erf = next(row for row in rows if row["model"] == "erf.onnx")
    assert (erf["outcome"], erf["source"], erf["blockers"]) == ("refused", "opset 13", "1")


def test_no_cell_is_a_formula():
    """A spreadsheet runs a text that begins with one of these, also after spaces or at full width."""
    rng, letters = random.Random(0), "=+-@'\t\r\n \uff1d\uff0b\uff0d\uff20aé1,\""
    texts = ["".join(rng.choices(letters, k=rng.randint(0, 5))) for _ in range(5000)]
    rows = [{"model": text, "source": {text: 1}, "bytes": -1} for text in texts]
    cases = [ModelResult(row["model"], "passed", row) for row in rows]
    told = list(csv.DictReader(io.StringIO(as_csv(cases, ""), newline="")))
    pairs = [*zip(told, texts, strict=True)]
    cells = [(row["model"], printable(text)) for row, text in pairs]
    cells += [(row["source"], f"{printable(text) or 'opset'} 1") for row, text in pairs]
    for cell, text in cells:
        assert cell.strip(" ")[:1] not in set("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
        assert cell == (f"'{text}" if re.match(FORMULA, cell) else text)  # it is found again
    assert {row["bytes"] for row in told} == {"-1"}  # a number is none


def test_a_suite_with_a_test_for_each_model(written):
    suite = ElementTree.parse(written[".xml"]).getroot()
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "4", "3")
    cases = {case.get("name"): case for case in suite}
    assert len(cases["good.onnx"]) == 0
    failure = cases["erf.onnx"].find("failure")
    assert failure.get("type") in {why.name for why in Why}
    assert "Erf" in failure.text


def test_a_log_of_sarif(written):
    log = json.loads(written[".sarif"].read_text("utf-8"))
    assert log["version"] == "2.1.0"
    (one,) = log["runs"]
    rules = {rule["id"]: rule for rule in one["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in one["results"]} == rules.keys()
    for result in one["results"]:
        place = result["locations"][0]["physicalLocation"]
        assert set(place["artifactLocation"]["uri"]).isdisjoint(' <>"')
        assert place["region"]["startLine"] == 1
        assert result["message"]["text"]
        assert result["level"] in ("error", "warning", "note")
    assert any("help" in rule for rule in rules.values())


def uris(log: Path, *words: object) -> set[str]:
    run(*words, "--results", log)
    (results,) = (each["results"] for each in json.loads(log.read_text("utf-8"))["runs"])
    places = [result["locations"][0]["physicalLocation"] for result in results]
    return {place["artifactLocation"]["uri"] for place in places}


@pytest.mark.parametrize("absolute", [False, True])
def test_paths_of_sarif_are_relative_to_the_working_directory(absolute, zoo, tmp_path, monkeypatch):
    monkeypatch.chdir(zoo.parent)
    source = zoo if absolute else Path(zoo.name)
    log = tmp_path / "r.sarif"
    assert uris(log, "check", source / "text.onnx") == {"zoo/text.onnx"}
    named = uris(log, "batch", source, "--to", "8", "--dry-run")
    assert named > {"zoo/erf.onnx", "zoo/text.onnx"}
    assert all(uri.startswith("zoo/") for uri in named)
    monkeypatch.chdir(zoo.parents[1])
    assert uris(log, "check", zoo / "text.onnx") == {f"{zoo.parent.name}/zoo/text.onnx"}
    monkeypatch.chdir(Path(__file__).parent)
    assert uris(log, "check", zoo / "text.onnx") == {(zoo / "text.onnx").as_uri()}


def test_check_writes_all_formats(zoo, tmp_path):
    paths = {ending: tmp_path / f"out{ending}" for ending in FORMATS}
    words = [word for path in paths.values() for word in ("--results", path)]
    done = run("check", *sorted(zoo.iterdir()), *words)
    assert done.exit_code == 2
    rows = [json.loads(line) for line in paths[".jsonl"].read_text("utf-8").splitlines()]
    assert sorted(row["kind"] for row in rows) == ["check", "check", "check", "error"]
    assert not [fault for row in rows for fault in faults(row)]
    suite = ElementTree.parse(paths[".xml"]).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "1")
    log = json.loads(paths[".sarif"].read_text("utf-8"))
    assert {"TEXT_FILE"} < {result["ruleId"] for result in log["runs"][0]["results"]}
    with paths[".csv"].open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 4


def test_a_model_that_is_in_order_has_no_result(zoo, tmp_path):
    assert run("check", zoo / "good.onnx", "--results", tmp_path / "r.sarif").exit_code == 0
    assert json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"] == []


@pytest.mark.parametrize("verb", ["check", "batch"])
def test_an_unknown_ending_is_an_error_before_any_work(verb, zoo, tmp_path):
    words = ["--dry-run", "--to", "13"] if verb == "batch" else []
    source = zoo if verb == "batch" else zoo / "good.onnx"
    done = run(verb, source, *words, "--results", tmp_path / "r.yaml")
    assert done.exit_code == 2
    assert ".jsonl, .csv, .xml, .sarif" in done.stderr
    assert not done.stdout


def test_python_writes_them_too(zoo, tmp_path):
    migrate(zoo, tmp_path / "out", 13, results=[tmp_path / "r.csv"])
    migrate(zoo, tmp_path / "out", 13, results=[tmp_path / "r.xml"])
    suite = ElementTree.parse(tmp_path / "r.xml").getroot()
    assert int(suite.get("skipped")) == 2
