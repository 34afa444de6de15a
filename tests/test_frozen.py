# SPDX-License-Identifier: Apache-2.0
"""Files of earlier releases can still be read and converted; docs/explain/compatibility.md."""

from __future__ import annotations

import json
import random
import sqlite3
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from opshift import codes, convert_file, convert_version
from opshift.cli.entry import main
from opshift.opsets.changelog import Changelog
from opshift.verify import oracle
from opshift.zoo.marks import Mark
from opshift.zoo.outcome import Fate, Outcome

from tools.author import freeze, frozen_forms, frozen_names
from tools.author.frozen_values import decoded, encoded

FOLDER = freeze.FOLDER
RELEASES = sorted(path for path in FOLDER.iterdir() if path.is_dir())
SAMPLE, SEED = 40, 3


def test_frozen_files_are_never_edited_and_all_are_listed():
    listed = dict(
        reversed(line.split()) for line in (FOLDER / freeze.DIGESTS).read_text().splitlines()
    )
    present = {
        p.relative_to(FOLDER).as_posix(): freeze.digest(p) for p in FOLDER.rglob("*") if p.is_file()
    }
    del present[freeze.DIGESTS]
    assert present == listed


def test_there_is_a_release():
    assert [path.name for path in RELEASES][:1] == ["0.2.0"]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_frozen_models_are_read_and_converted_with_equal_results(release):
    rows = [row for row in freeze.read(release) if freeze.readable(row)]
    told = []
    for row in random.Random(SEED).sample(rows, SAMPLE):
        told += freeze.broken(row)[0]
    assert not told


def test_a_result_that_differs_is_seen():
    row = next(one for one in freeze.read(RELEASES[0]) if one["operators"] == ["ai.onnx.Relu:14"])
    if oracle.doubtful(freeze.model_of(row)):
        pytest.skip("the reference of this onnx is too old to judge")
    assert freeze.broken(row)[0] == []
    changed = {**row, "outputs": [encoded(decoded(row["outputs"][0]) + 1)]}
    assert freeze.broken(changed)[0]
    refused = {**row, "conversions": {"999": "refused"}}
    assert freeze.broken(refused) == ([], 0)


@pytest.mark.parametrize(
    "value",
    [
        np.float32([[1, np.nan]]), np.array(["a", "b"], object), [np.int64([3]), None],
        {"k": np.float16(2)}, np.zeros((0, 2), bool),
    ],
    ids=str,
)  # fmt: skip
def test_values_survive(value):
    text = json.dumps(encoded(value))
    assert json.loads(json.dumps(encoded(decoded(json.loads(text))))) == json.loads(text)


@pytest.fixture
def folder(tmp_path):
    frozen_forms.prepare(tmp_path)
    return tmp_path


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
@pytest.mark.parametrize("command", frozen_forms.COMMANDS)
@pytest.mark.usefixtures("models_run_here")
def test_no_json_form_lost_a_field(release, command, folder, monkeypatch):
    before = json.loads((release / freeze.FORMS).read_text())
    if command not in before:
        pytest.skip(f"{release.name} did not have it")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    words = [*frozen_forms.COMMANDS[command].split(), "--output-format", "json"]
    done = CliRunner().invoke(main, words)
    assert list(frozen_forms.lost(before[command], json.loads(done.stdout))) == []
    if (ends := names(release).get("exit_codes")) is not None:
        assert done.exit_code == ends[command]


def names(release):
    """Returns the names that callers of a release use; the first releases did not list them."""
    path = release / freeze.NAMES
    return json.loads(path.read_text()) if path.exists() else {}


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_no_function_option_or_code_is_gone(release):
    now = {
        "python": frozen_names.python(),
        "options": frozen_names.options(),
        "codes": codes.names(),
    }
    before = {key: value for key, value in names(release).items() if key in now}
    assert list(frozen_names.gone(before, now)) == []


def test_a_name_that_is_gone_is_seen():
    before = {"python": {"opshift": ["a", "b"], "opshift.a": ["x"]}, "codes": ["C"]}
    now = {"python": {"opshift": ["b", "d"]}, "codes": ["C", "D"]}
    told = ["python: opshift: a", "python: opshift.a: x"]
    assert list(frozen_names.gone(before, now)) == told


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_the_files_of_a_vendor_are_read(release, tmp_path):
    with zipfile.ZipFile(release / freeze.VENDOR) as archive:
        archive.extractall(tmp_path)
    sets = [f"--opset {one}" for one in (frozen_names.SET_1, frozen_names.SET_2)]
    words = f"convert {frozen_names.MODEL} -o o.onnx --to {frozen_names.DOMAIN}=2"
    assert frozen_forms.done(tmp_path, " ".join([words, *sets])).returncode == 0
    imports = {opset.domain: opset.version for opset in onnx.load(tmp_path / "o.onnx").opset_import}
    assert imports == {"": 13, frozen_names.DOMAIN: 2}
    known = Changelog()
    known.add((tmp_path / frozen_names.DATABASE).read_bytes(), frozen_names.DATABASE)
    assert known.newest(frozen_names.DOMAIN) == 2
    (same,) = known.history(frozen_names.DOMAIN, "Same")
    assert (same.operator.since_version, same.details.stated) == (1, True)


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_a_frozen_model_at_its_own_versions_stays_byte_for_byte(release, tmp_path):
    rows = [row for row in freeze.read(release) if freeze.readable(row)]
    for row in random.Random(SEED).sample(rows, SAMPLE):
        model = freeze.model_of(row)
        own = {
            opset.domain: opset.version
            for opset in model.opset_import
            if opset.domain == row["domain"]
        }
        data = model.SerializeToString(deterministic=True)
        (tmp_path / "m.onnx").write_bytes(data)
        assert convert_version(model, own).SerializeToString(deterministic=True) == data
        convert_file(tmp_path / "m.onnx", tmp_path / "o.onnx", own)
        assert (tmp_path / "o.onnx").read_bytes() == data


def test_a_lost_field_is_seen():
    before = {"a": 1, "b": [{"c": "x"}], "d": None}
    assert list(frozen_forms.lost(before, {"a": 1.5, "b": [{"c": "y", "e": 1}], "d": 2})) == []
    assert list(frozen_forms.lost(before, {"a": "1", "b": [{}], "d": 2})) == [
        ".a was number and is str",
        ".b[].c is gone",
    ]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_marks_and_journals_are_read(release, tmp_path):
    with zipfile.ZipFile(release / freeze.BATCH) as archive:
        archive.extractall(tmp_path)
    mark = Mark.decoded((tmp_path / "out" / ".opshift" / "marks" / "a.onnx.json").read_bytes())
    assert mark is not None
    assert [name for name, *_ in mark.writes] == ["a.onnx"]
    with sqlite3.connect(tmp_path / "journal.sqlite3") as rows:
        texts = [text for (text,) in rows.execute("SELECT outcome FROM outcomes ORDER BY name")]
    found = [Outcome.from_dict(json.loads(text)) for text in texts]
    assert [(outcome.name, outcome.fate) for outcome in found] == [
        ("a.onnx", Fate.OK),
        ("b.onnx", Fate.REFUSED),
    ]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_a_batch_of_an_earlier_release_is_continued(release, tmp_path):
    """A later release converts again only models whose results may differ."""
    with zipfile.ZipFile(release / freeze.BATCH) as archive:
        archive.extractall(tmp_path)
    before = onnx.load(tmp_path / "out" / "a.onnx")
    said = frozen_forms.run(tmp_path, frozen_forms.COMMANDS["batch"])
    assert (said["total"], said["fates"]["refused"], said["left"]) == (2, 1, 0)
    assert said["fates"]["ok"] + said["fates"]["skipped"] == 1
    inputs = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    expected, actual = (
        oracle.evaluate(one, inputs) for one in (before, onnx.load(tmp_path / "out" / "a.onnx"))
    )
    assert oracle.compare(expected, actual, rtol=freeze.RTOL, atol=freeze.ATOL) is None
    again = frozen_forms.run(tmp_path, frozen_forms.COMMANDS["batch"])
    assert again["fates"]["skipped"] == 1
    assert Path(tmp_path, "journal.sqlite3").exists()
