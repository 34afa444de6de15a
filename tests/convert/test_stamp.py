# SPDX-License-Identifier: Apache-2.0
"""Producer notes: only on request, deterministic, and one line for each conversion."""

from __future__ import annotations

import onnx
import opshift
import pytest
from click.testing import CliRunner
from onnx import parser
from opshift.cli.entry import main

KEY = "opshift.conversions"
SOFTMAX = '<ir_version: 7, opset_import: ["" : 12]> g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }'


def softmax(ir: int = 7) -> onnx.ModelProto:
    return parser.parse_model(SOFTMAX.replace("7", str(ir), 1))


def notes(model: onnx.ModelProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in model.metadata_props}


def test_a_result_holds_no_note_by_default():
    """Apart from the names of new values, the result does not mention opshift."""
    converted = opshift.convert_version(softmax(), 13)
    for node in converted.graph.node:
        node.ClearField("input")
        node.ClearField("output")
    assert b"opshift" not in converted.SerializeToString()
    assert (converted.producer_name, converted.doc_string) == ("", "")
    raised = opshift.convert_version(softmax(8), ir_version=9)
    assert b"opshift" not in raised.SerializeToString()


def test_the_stamp_names_the_release_and_the_versions():
    converted = opshift.convert_version(softmax(), 13, stamp=True)
    line = f"opshift {opshift.__version__}: opset 12 -> 13; adapters ai.onnx.Softmax-12-13"
    assert notes(converted) == {KEY: line}
    assert converted == opshift.convert_version(softmax(), 13, stamp=True)
    del converted.metadata_props[:]
    assert converted == opshift.convert_version(softmax(), 13)


def test_each_conversion_adds_its_line_and_other_metadata_stays():
    model = softmax()
    model.metadata_props.add(key="author", value="me")
    first = opshift.convert_version(model, 13, stamp=True)
    second = opshift.convert_version(first, 15, stamp=True)
    messages = notes(second)
    assert list(messages) == ["author", KEY]
    assert [line.partition(": ")[2].split(";")[0].split(",")[0] for line in messages[KEY].splitlines()] == [
        "opset 12 -> 13", "opset 13 -> 15",
    ]  # fmt: skip
    assert notes(opshift.convert_version(second, 13)) == messages


def test_the_stamp_names_the_runtime_and_says_that_no_adapter_ran():
    result = opshift.convert(softmax(8), "onnxruntime==1.5", stamp=True)
    line = notes(result.model)[KEY]
    assert f"; for {result.report.origin.runtime};" in line
    assert result.report.origin.runtime.startswith("onnxruntime")
    assert line.endswith("; adapters none")


def test_the_version_of_the_model_grows_only_if_asked_for():
    model = softmax()
    model.model_version = 3
    plain = opshift.convert(model, 13)
    assert plain.model.model_version == 3
    bumped = opshift.convert(model, 13, bump_model_version=True)
    assert bumped.model.model_version > 3
    assert [note for note in bumped.report.notes if note not in plain.report.notes] == [
        "model version 3 -> 4"
    ]


def test_what_does_not_change_gets_no_stamp():
    model = softmax()
    assert opshift.convert_version(model, 12, stamp=True) == model


@pytest.mark.parametrize("words", [["--to", "13"], ["--ir", "8"], ["--to", "13", "--ir", "8"]])
def test_the_command_stamps_a_file_also_where_only_its_header_changes(words, tmp_path):
    onnx.save(softmax(), tmp_path / "m.onnx")
    for stamp in ([], ["--stamp"]):
        run = ["convert", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "o.onnx"), *words, *stamp]
        done = CliRunner().invoke(main, run)
        assert done.exit_code == 0, done.output
        assert (KEY in notes(onnx.load(tmp_path / "o.onnx"))) == bool(stamp)


def test_a_batch_stamps(tmp_path):
    (tmp_path / "zoo").mkdir()
    onnx.save(softmax(), tmp_path / "zoo" / "m.onnx")
    run = ["batch", str(tmp_path / "zoo"), str(tmp_path / "out"), "--to", "13", "--stamp"]
    done = CliRunner().invoke(main, run)
    assert done.exit_code == 0, done.output
    assert KEY in notes(onnx.load(tmp_path / "out" / "m.onnx"))
