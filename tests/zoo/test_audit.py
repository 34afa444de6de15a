# SPDX-License-Identifier: Apache-2.0
"""`opshift audit` finds wrong results by stamps, reports, marks, journals and versions."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import zipfile
from pathlib import Path

import onnx
import opshift
import pytest
from click.testing import CliRunner
from onnx import parser
from opshift.advisories import advisories
from opshift.cli.entry import main
from opshift.convert.stamp import KEY
from opshift.release import BUILD

FROZEN = Path(__file__).parents[1] / "frozen" / "0.2.0"
LABELS = (
    '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 4]> g (string[4] x) => (int64[4] y)'
    ' { y = ai.onnx.ml.LabelEncoder<keys_strings=["a","b"],values_int64s=[5,6],default_int64=7>(x) }'
)
ADAPTER = "ai.onnx.ml.LabelEncoder-4-3"
ADVISORY = "label-encoder-default-tensor"
OLD = "0.2.0"


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """One advisory about an adapter, and the advisories about runtimes of one release."""
    kept = tuple(
        advisory for advisory in advisories() if advisory.runtimes or advisory.id == ADVISORY
    )
    monkeypatch.setattr("opshift.zoo.audit.advisories", lambda: kept)


@pytest.fixture
def labels(tmp_path):
    path = tmp_path / "labels.onnx"
    onnx.save(parser.parse_model(LABELS), path)
    return path


def converted(path, to, release=BUILD):
    """Returns a stamped result that names an earlier release."""
    result = opshift.convert_version(parser.parse_model(LABELS), {"ai.onnx.ml": to}, stamp=True)
    for entry in result.metadata_props:
        entry.value = entry.value.replace(BUILD, release)
    onnx.save(result, path)
    return path


def told(found):
    return [
        (suspect.answer, suspect.advisory, suspect.release, suspect.adapters)
        for suspect in found.suspects
    ]


def test_a_stamp_names_the_release_and_the_adapters(tmp_path):
    path = converted(tmp_path / "old.onnx", 3, OLD)
    assert told(opshift.audit(path)) == [("yes", ADVISORY, OLD, (ADAPTER,))]
    assert opshift.audit(converted(path, 3)).suspects == ()


def test_each_line_of_a_stamp_is_one_conversion(tmp_path):
    path = converted(tmp_path / "old.onnx", 3, OLD)
    again = opshift.convert_version(onnx.load(path), {"ai.onnx.ml": 2}, stamp=True)
    onnx.save(again, path)
    assert told(opshift.audit(path)) == [("yes", ADVISORY, OLD, (ADAPTER,))]


@pytest.mark.parametrize(
    ("way", "answer"),
    [("ai.onnx.ml 4 -> 3", "not known"), ("ai.onnx.ml 4 -> removed, IR 8 -> 7", "not known"),
     ("ai.onnx.ml 3 -> 2", "no"), ("opset 18 -> 13", "no"), ("the form of the model", "no")],
)  # fmt: skip
def test_a_stamp_of_an_old_release_names_only_versions(way, answer, tmp_path):
    converted = opshift.convert_version(parser.parse_model(LABELS), {"ai.onnx.ml": 3})
    converted.metadata_props.add(key=KEY, value=f"opshift {OLD}: {way}")
    onnx.save(converted, tmp_path / "m.onnx")
    assert opshift.audit(tmp_path / "m.onnx").answer == answer


def test_without_a_stamp_the_versions_name_what_may_have_been_crossed(labels, tmp_path):
    assert opshift.audit(labels).suspects == ()
    bare = opshift.convert_version(parser.parse_model(LABELS), {"ai.onnx.ml": 3})
    onnx.save(bare, tmp_path / "bare.onnx")
    assert told(opshift.audit(tmp_path / "bare.onnx")) == [("not known", ADVISORY, "", (ADAPTER,))]


def test_a_source_and_a_target_name_what_is_crossed(labels):
    assert told(opshift.audit(labels, {"ai.onnx.ml": 3})) == [
        ("not known", ADVISORY, "", (ADAPTER,))
    ]
    assert opshift.audit(labels, {"": 13}).suspects == ()


@pytest.mark.parametrize(
    ("build", "answer"), [({"opshift_version": OLD}, "yes"), ({}, "yes"), (None, "no")]
)
def test_a_report_names_its_build_from_0_3_on(build, answer, labels, tmp_path):
    report = opshift.convert(labels, {"ai.onnx.ml": 3}).report.as_dict()
    if build is not None:
        del report["opshift_version"]
        report |= build
    (tmp_path / "r.json").write_text(json.dumps(report))
    (tmp_path / "several.json").write_text(json.dumps({"kind": "several", "results": [report] * 2}))
    assert opshift.audit(tmp_path / "r.json").answer == answer
    assert opshift.audit(tmp_path / "several.json").answer == answer
    assert opshift.audit(tmp_path / "several.json").results == 2


@pytest.mark.parametrize("release", [OLD, BUILD])
def test_a_batch_leaves_its_build_in_marks_journal_and_rows(release, labels, tmp_path):
    out, rows = tmp_path / "out", tmp_path / "rows.jsonl"
    words = ["batch", labels, out, "--to", "ai.onnx.ml=3", "--results", rows, "--workers", "1"]
    done = CliRunner().invoke(main, list(map(str, words)))
    assert done.exit_code == 0, done.output
    mark = out / ".opshift" / "marks" / "labels.onnx.json"
    for path in (mark, rows):
        text = path.read_text()
        assert BUILD in text
        path.write_text(text.replace(BUILD, release))
    for found, name in (
        (opshift.audit(out), out / labels.name),
        (opshift.audit(rows), labels.name),
    ):
        assert found.results == 1
        assert [suspect.result for suspect in found.suspects] == [str(name)] * (release == OLD)
        assert found.answer == ("yes" if release == OLD else "no")
    assert opshift.audit(out / ".opshift" / "journal.sqlite").answer == "no"


def test_a_mark_of_another_file_does_not_count(labels, tmp_path):
    out = tmp_path / "out"
    done = CliRunner().invoke(main, ["batch", str(labels), str(out), "--to", "ai.onnx.ml=3"])
    assert done.exit_code == 0, done.output
    converted(out / labels.name, 3, OLD)
    assert opshift.audit(out).answer == "yes"


def test_the_batch_of_an_old_release_is_read(tmp_path):
    with zipfile.ZipFile(FROZEN / "batch.zip") as packed:
        packed.extractall(tmp_path)
    (journal,) = tmp_path.rglob("journal.sqlite3")
    before = journal.read_bytes()
    assert opshift.audit(journal).results == 1
    assert journal.read_bytes() == before
    assert opshift.audit(tmp_path).results > 0
    report = json.loads((FROZEN / "forms.json").read_text())["report"]
    (tmp_path / "r.json").write_text(json.dumps(report))
    audit_result = opshift.audit(tmp_path / "r.json")
    assert audit_result.answer == "not known"  # it names no runtime, but each adapter
    assert all(advisory.runtimes for advisory in audit_result.advisories)


def test_a_file_in_a_folder_that_is_no_model_is_named(tmp_path, labels):
    (tmp_path / "text.onnx").write_text("no model")
    audit_result = opshift.audit(tmp_path)
    assert list(audit_result.unread) == [str(tmp_path / "text.onnx")]
    assert audit_result.results == 1


FAULTY = {
    "cut": "{",
    "cut line": '{"kind": "report"}\n{',
    "text": "no model",
    "deep": '{"a": ' + "[" * 100_000,
    "long number": '{"kind": ' + "1" * 5_000 + "}",
    "no fields": '{"kind": "report"}',
    "fields of other types": '{"kind": "row", "outcome": "ok", "result": 1, "source": {}}',
    "kind of another type": '{"kind": []}',
    "line of another type": '{"kind": "report"}\n[1]',
    "list of another type": '{"kind": "several", "results": 1}',
    "no objects": '{"kind": "several", "results": [1]}',
}


@pytest.mark.parametrize("text", FAULTY.values(), ids=FAULTY)
def test_a_file_of_another_kind_is_an_error(text, tmp_path):
    (tmp_path / "f").write_text(text)
    with pytest.raises(opshift.InvalidModel):
        opshift.audit(tmp_path / "f")


def test_a_file_about_something_else_than_conversions_is_an_error(tmp_path):
    (tmp_path / "rows.csv").write_text("model,outcome\n")
    with pytest.raises(opshift.InvalidModel, match="reads results only as JSON Lines"):
        opshift.audit(tmp_path / "rows.csv")
    (tmp_path / "checks.jsonl").write_text('{"kind": "check", "model": "a.onnx"}\n')
    with pytest.raises(opshift.InvalidModel, match=r"output of another command \(check\)"):
        opshift.audit(tmp_path / "checks.jsonl")
    (tmp_path / "refused.json").write_text('{"kind": "refused"}')
    assert opshift.audit(tmp_path / "refused.json").results == 0


def test_the_command_has_an_exit_code_for_each_answer(labels, tmp_path):
    old = converted(tmp_path / "old.onnx", 3, OLD)
    unsure = tmp_path / "unsure.onnx"
    shutil.copy(old, unsure)
    model = onnx.load(unsure)
    del model.metadata_props[:]
    onnx.save(model, unsure)
    for words, code in (([labels], 0), ([old], 1), ([unsure], 5), ([labels, old, unsure], 1),
                        ([labels, "--to", "ai.onnx.ml=3"], 5),
                        ([labels, "--to", "13", "--for", "onnxruntime==1.10"], 2)):  # fmt: skip
        done = CliRunner().invoke(main, ["audit", *map(str, words)])
        assert done.exit_code == code, done.output
    assert "must be converted again" in CliRunner().invoke(main, ["audit", str(old)]).output


def test_a_database_of_another_program_is_an_error(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "other")) as db:
        db.execute("CREATE TABLE told (name TEXT)")
    with pytest.raises(OSError, match="is not a readable journal"):
        opshift.audit(tmp_path / "other")
