"""`opshift check`: everything that is wrong, at once."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner
from conftest import model
from onnx import TensorProto, helper, numpy_helper
from opshift import check_model, convert_file
from opshift.cli.entry import main

GOOD = "(float[2,3] x) => (float[2,3] y) { a = Softmax<axis=1>(x) y = Neg(a) }"


def texts(proto, level="error"):
    return [finding.text for finding in check_model(proto).found if finding.level == level]


def changed(change, text=GOOD, **named):
    proto = model(text, **named)
    change(proto)
    return proto


def test_a_good_model():
    assert check_model(model(GOOD)).found == ()
    assert str(check_model(model(GOOD))) == "Nothing is wrong."


def test_several_at_once():
    def spoil(proto):
        proto.graph.node[0].input[0] = "nope"
        proto.graph.node.append(helper.make_node("Sofmax", ["x"], ["z"]))
        proto.graph.output.append(helper.make_tensor_value_info("q", 1, [1]))
        proto.graph.node.append(helper.make_node("Run", ["x"], ["r"], domain="acme"))

    found = texts(changed(spoil))
    for part in (
        "reads 'nope'",
        "did you mean Softmax?",
        "'q' in graph 'g' is written by no",
        "'acme'",
    ):
        assert sum(part in text for text in found) == 1, part


BRANCH = """(bool c, float[2] x) => (float[2] y) {
    h = Neg(x)
    y = If (c) <then_branch = t () => (float[2] h) { h = Abs(x) }, else_branch = e () => (float[2] k) { k = Neg(x) }>
}"""


def test_names_along_nested_scopes():
    assert texts(model(BRANCH)) == ["'h' in graph 't' is defined around it too; rename one"]


def test_an_attribute_without_a_type():
    (text, *_) = texts(changed(lambda m: m.graph.node[0].attribute[0].ClearField("type")))[::-1]
    assert "attribute 'axis' of Softmax 'a' has no type" in text


def test_a_deprecated_operator_names_its_replacement():
    proto = model("(float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Upsample(x, s) }", 10)
    assert texts(proto) == [
        "Upsample (1 nodes in graph) is deprecated from ai.onnx 10 on; use Resize, or convert from 9"
    ]


def test_a_removed_operator_names_what_replaces_it():
    proto = model("(float[2] x) => (float[2] y) { y = Scale(x) }", 8)
    (text,) = texts(proto)[:1]
    assert text.startswith("Scale was removed from ai.onnx; a conversion writes")


def test_a_function_with_other_imports():
    text = """(float[2] x) => (float[2] y) { y = acme.Run(x) }
        <opset_import: ["" : 11], domain: "acme"> Run (v) => (w) { w = Softmax(v) }"""
    proto = model(text, 13, more=', "acme" : 1')
    assert any("imports ai.onnx 11 and the model 13, where Softmax is" in t for t in texts(proto))


def test_content_above_the_ir_version_and_names_are_warnings():
    def spoil(proto):
        proto.graph.node[0].metadata_props.add(key="k", value="v")
        proto.graph.node[0].name = "/a/b"
        proto.graph.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "w.1"))
        proto.graph.value_info.append(
            helper.make_tensor_value_info("v", TensorProto.FLOAT8E5M2, [1])
        )

    proto = changed(spoil, ir=8)
    assert texts(proto) == []
    assert texts(proto, "warning") == [
        "element type or container float8e5m2 needs IR 9, and the model says 8; raise it with --ir",
        "a node name is no C identifier, such as '/a/b'",
        "a value name is no C identifier, such as 'w.1'",
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.ClearField("graph"),
        lambda m: m.ClearField("opset_import"),
        lambda m: m.opset_import.add(domain="", version=3),
    ],
)
def test_what_cannot_be_opened_is_a_finding(change):
    assert len(texts(changed(change))) == 1


def test_what_only_the_checker_knows():
    proto = changed(lambda m: m.graph.output[0].type.tensor_type.shape.dim.add(dim_value=9))
    assert texts(proto)[0].startswith("the checker rejects it")


def test_the_command(tmp_path):
    onnx.save(changed(lambda m: setattr(m.graph.node[0], "name", "a/b")), tmp_path / "m.onnx")
    words = ["check", f"{tmp_path}/m.onnx"]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert CliRunner().invoke(main, [*words, "--strict"]).exit_code == 1
    raw = CliRunner().invoke(main, [*words, "--output-format", "json"]).stdout
    assert json.loads(raw)["findings"][0]["level"] == "warning"
    onnx.save(changed(lambda m: m.graph.node[0].input.__setitem__(0, "q")), tmp_path / "m.onnx")
    assert CliRunner().invoke(main, words).exit_code == 1


def test_a_conversion_notes_what_was_broken_and_breaks_nothing(tmp_path):
    proto = model(BRANCH.replace("(float[2] h) { h = Abs(x) }", "(float[2] z) { z = Abs(x) }"), 12)
    branch = proto.graph.node[1].attribute[0].g
    branch.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "h"))
    onnx.save(proto, tmp_path / "m.onnx")
    report = convert_file(tmp_path / "m.onnx", tmp_path / "o.onnx", 13)
    assert report.notes[0] == ("as it came: 'h' in graph 't' is defined around it too; rename one")
