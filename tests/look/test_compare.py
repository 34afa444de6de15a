# SPDX-License-Identifier: Apache-2.0
"""`opshift diff`: the differences of two models, and whether one is converted from the other."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import numpy_helper
from opshift import ModelVersion, convert_file, convert_version, diff
from opshift.cli.entry import main
from opshift.look.compare import MOST_ROWS, Diff, Difference
from opshift.model.model_version import Level
from opshift.model.signature import SignatureChange
from opshift.opsets import targets
from opshift.text import Role
from text_models import model

SOFTMAX = """(float[2,3,4] x) => (float[2,3,4] y) {
    a = Softmax(x) b = com.acme.Twice(a) c = Add(b, w) y = Softmax(c) }
    <opset_import: ["" : 13], domain: "com.acme"> Twice (v) => (u) { u = Add(v, v) }"""


def weighted(value=1.0, size=4, opset=13):
    proto = model(SOFTMAX, opset, more=', "com.acme" : 1')
    proto.graph.initializer.append(numpy_helper.from_array(np.full(size, value, np.float32), "w"))
    return proto


def rows(found, kind):
    return {
        difference.name: (difference.before, difference.after)
        for difference in found.differences
        if difference.kind == kind
    }


@pytest.mark.parametrize("to", [11, 12, 15, 18])
def test_a_conversion_is_recognised(to):
    before = weighted()
    after = convert_version(before, to)
    difference = diff(before, after)
    assert f"a conversion of the first model to ai.onnx {to}" in difference.same
    assert rows(difference, "version")["ai.onnx"] == ("13", str(to))
    assert not rows(difference, "weight")
    assert {change.reason for change in difference.changes} == {
        "the models have different versions"
    }
    need = "" if to < 13 else f" if their runtime reads opset {to}"
    assert str(difference).startswith(f"PATCH: users of the first model can use the second{need}")
    assert bool(difference.lost) == (to == 18)


def test_a_conversion_that_prunes_or_lowers_the_ir_is_recognised():
    before = weighted()
    assert diff(before, convert_version(before, 12, ir_version=6)).same
    before.opset_import.add(domain="ai.onnx.ml", version=2)
    assert diff(before, convert_version(before, 12, prune_imports=True)).same


def test_a_file_with_large_weights(tmp_path):
    big = weighted(size=1)
    big.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((2, 3, 4), np.float32), "w"))
    extra = numpy_helper.from_array(np.arange(50_000, dtype=np.float32), "big")
    big.graph.initializer.append(extra)
    onnx.save(big, tmp_path / "a.onnx", save_as_external_data=True, size_threshold=1000)
    convert_file(tmp_path / "a.onnx", tmp_path / "b.onnx", 11, external="inline")
    assert diff(tmp_path / "a.onnx", tmp_path / "b.onnx").same
    assert diff(onnx.load(tmp_path / "a.onnx"), tmp_path / "b.onnx").same


def spoil_a_weight(proto):
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full(4, 3, np.float32), "w"))


def spoil_a_node(proto):
    next(node for node in proto.graph.node if node.op_type == "Add").op_type = "Sub"


def spoil_a_function(proto):
    proto.functions[0].node[0].op_type = "Mul"


@pytest.mark.parametrize("spoil", [spoil_a_weight, spoil_a_node, spoil_a_function])
@pytest.mark.parametrize("to", [13, 12])
def test_another_computation_is_never_called_the_same(spoil, to):
    after = convert_version(weighted(), to)
    spoil(after)
    difference = diff(weighted(), after)
    assert not difference.same
    assert "the models may compute different results" in str(difference)
    assert "is not known" in str(difference)


def test_everything_that_differs_is_listed(tmp_path):
    before, after = weighted(), weighted(2.0)
    before.metadata_props.add(key="author", value="A")
    after.producer_name = "exporter"
    after.graph.node[0].op_type = "LogSoftmax"
    after.graph.initializer.append(numpy_helper.from_array(np.zeros(3), "more"))
    after.model_version = ModelVersion(2, 0, 0).pack()
    difference = diff(before, after)
    assert rows(difference, "nodes") == {"Softmax": ("2", "1"), "LogSoftmax": ("", "1")}
    assert rows(difference, "metadata") == {"author": ("'A'", "")}
    assert rows(difference, "version") == {
        "producer": ("", "exporter"),
        "model version": ("0", "2.0.0"),
    }
    weights = rows(difference, "weight")
    assert weights.keys() == {"'w'", "'more'"}
    assert weights["'more'"][1].startswith("double[3] ")
    assert weights["'w'"][0] != weights["'w'"][1]
    for name, proto in (("a", before), ("b", after)):
        onnx.save(proto, tmp_path / f"{name}.onnx")
    words = ["diff", f"{tmp_path}/a.onnx", f"{tmp_path}/b.onnx", "--output-format", "json"]
    document = json.loads(CliRunner().invoke(main, words).stdout)
    assert document["same_computation"] is False
    assert {"kind": "nodes", "name": "LogSoftmax", "before": "", "after": "1"} in document[
        "differences"
    ]
    assert document["advice"].startswith("Advice: set the model version to 1.")


def test_models_of_one_content_are_the_same():
    difference = diff(weighted(), weighted())
    assert difference.same == "both models have the same nodes and weights"
    assert difference.level.name == "NONE"
    assert str(difference).splitlines()[-1].startswith("Advice: keep the model version 0")


TEXTED = """(float[2] x, bool c) => (float[2] y) {
    a = com.acme.Twice(x) k = Constant<value = float[2] {1.0, 2.0}>() b = Add(a, k)
    y = If(c) <then_branch = t () => (float[2] u) { u = Relu(b) },
               else_branch = e () => (float[2] v) { v = Neg(b) }> }
    <opset_import: ["" : 13], domain: "com.acme"> Twice (v) => (u) { u = Add(v, v) }"""


def messages(message):
    """A message and every message inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if isinstance(value, type(message).__mro__[1]) else value:
                yield from messages(part)


def texted():
    proto = model(TEXTED, 13, more=', "com.acme" : 1')
    proto.graph.value_info.add(name="b").type.CopyFrom(proto.graph.input[0].type)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    return proto


def write(message, field):
    """Writes a text, and returns whether the message has a field for it."""
    if field not in message.DESCRIPTOR.fields_by_name:
        return False
    if field == "metadata_props":
        message.metadata_props.add(key="k", value="v")
    else:
        setattr(message, field, "a text")
    return True


@pytest.mark.parametrize("field", ["doc_string", "metadata_props", "denotation"])
def test_a_text_is_a_difference_and_no_change_of_the_computation(field):
    """The test writes to each text field of every message, in both directions."""
    written = 0
    for number, _ in enumerate(messages(texted())):
        plain, noted = texted(), texted()
        if not write(list(messages(noted))[number], field):
            continue
        written += 1
        for pair in ((plain, noted), (noted, plain)):
            difference = diff(*pair)
            assert difference.same == "both models have the same nodes and weights"
            assert difference.level.name != "NONE"
            assert len(rows(difference, "metadata")) == 1
    assert written > 5


def test_an_empty_text_is_no_difference():
    plain, empty = texted(), texted()
    for message in list(messages(empty)):
        if "doc_string" in message.DESCRIPTOR.fields_by_name:
            message.doc_string = ""
    assert empty != plain
    assert not rows(diff(plain, empty), "metadata")


def test_a_lost_denotation_is_a_breaking_change():
    before, after = texted(), texted()
    before.graph.input[0].type.denotation = "IMAGE"
    before.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_CHANNEL"
    difference = diff(before, after)
    assert difference.level.name == "MAJOR"
    assert "the denotation of input 'x' changed: IMAGE -> none" in str(difference)
    assert "the denotation of dimension 0 of input 'x' changed: DATA_CHANNEL -> none" in str(
        difference
    )
    assert diff(after, before).level.name == "MINOR"


@pytest.mark.parametrize(("opset", "ir"), [(21, 10), (13, 8), (21, 8), (13, 12)])
def test_releases_that_read_only_the_first_model_are_named(opset, ir):
    before = model("(float[2] x) => (float[2] y) { y = Relu(x) }", 13, ir=7)
    after = model("(float[2] x) => (float[2] y) { y = Relu(x) }", opset, ir=ir)
    difference = diff(before, after)
    lost = " ".join(difference.lost)
    for row in targets.table():
        old, new = row.reads({"": 13}, 7), row.reads({"": opset}, ir)
        if old and not new:
            assert f"{row.name} " in f"{lost} "
            assert row.versions in lost
    assert difference.lost
    assert "can use the second if their runtime reads" in str(difference)
    assert not diff(after, before).lost


def test_the_json_of_a_comparison_is_its_dictionary():
    difference = diff(weighted(), weighted(2.0))
    assert json.loads(difference.to_json()) == difference.as_dict()


def test_a_long_value_is_shortened_in_the_text_and_whole_in_the_json():
    before, after = weighted(), weighted()
    value = "layer norm of the encoder " * 20
    after.metadata_props.add(key="namespace", value=value)
    difference = diff(before, after)
    (line,) = [line for line in str(difference).splitlines() if "namespace" in line]
    assert "layer norm of the encoder" in line
    assert len(line) < 100
    assert repr(value) in [row["after"] for row in difference.as_dict()["differences"]]


@pytest.mark.parametrize("ir", [1, 99])
def test_a_model_with_an_ir_version_that_no_conversion_writes_is_compared(ir):
    other = weighted()
    other.ir_version = ir
    difference = diff(weighted(), other)
    assert rows(difference, "version")["IR"][1] == str(ir)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [("", "1", "added 1"), ("1", "", "removed 1"), ("1", "2", "1 -> 2")],
)
def test_a_difference_is_added_removed_or_both(before, after, shown):
    assert str(Difference("nodes", "Relu", before, after)) == f"Relu: {shown}"


def comparison(level, same="", raised=(), lost=(), task="", after="1.0.0"):
    changes = (SignatureChange(level, "a change", task),) if level else ()
    old, new = ModelVersion.parse("1.0.0"), ModelVersion.parse(after)
    return Diff(changes, old, new, (), same, raised, lost)


@pytest.mark.parametrize(
    ("level", "same", "raised", "role"),
    [
        (Level.NONE, "", (), Role.GOOD),
        (Level.PATCH, "", (), Role.CAUTION),
        (Level.PATCH, "proof", (), Role.GOOD),
        (Level.PATCH, "proof", ("opset 18",), Role.CAUTION),
        (Level.MINOR, "proof", (), Role.CAUTION),
        (Level.MAJOR, "proof", (), Role.BAD),
        (Level.MAJOR, "", (), Role.BAD),
    ],
)
def test_the_first_line_names_the_level_in_its_colour(level, same, raised, role):
    first, *others = comparison(level, same, raised).lines()
    assert (first.text.partition(":")[0], first.role) == (level.name, role)
    assert all(version in first.text for version in raised)
    assert any(same and same in line.text and line.role is Role.GOOD for line in others) == bool(
        same
    )


def test_only_releases_that_are_lost_have_a_line_and_six_are_named():
    names = tuple(f"runtime {number}" for number in range(9))
    for lost in ((), names):
        lines = [
            line for line in comparison(Level.PATCH, lost=lost).lines() if names[0] in line.text
        ]
        assert [line.role for line in lines] == [Role.CAUTION] * bool(lost)
        assert all(sum(name in line.text for name in names) == 6 for line in lines)


def test_the_advice_depends_on_the_version_and_on_the_tasks_of_users():
    texts = {
        (level, after): comparison(level, after=after).advice
        for level in (Level.NONE, Level.PATCH, Level.MAJOR)
        for after in ("1.0.0", "1.0.1", "2.0.0")
    }
    advised = {Level.NONE: "1.0.0", Level.PATCH: "1.0.1", Level.MAJOR: "2.0.0"}
    for (level, after), text in texts.items():
        assert ("raised" in text) == (level is not Level.NONE and after == advised[level])
        assert advised[level] in text
        assert "Code" not in text
    assert "must pass y" in comparison(Level.MAJOR, task="must pass y").advice


@pytest.mark.parametrize("count", [MOST_ROWS, MOST_ROWS + 1, MOST_ROWS + 5])
def test_rows_beyond_the_first_ones_are_shown_with_v(count):
    proto = comparison(Level.PATCH)
    differences = tuple(Difference("nodes", f"Op{n}", "1", "2") for n in range(count))
    lines = list(dataclasses.replace(proto, differences=differences).lines())
    shown = [line for line in lines if line.text.strip().startswith("Op")]
    assert [line.more for line in shown] == [n >= MOST_ROWS for n in range(count)]
    rest = [line for line in lines if line.text.strip().startswith("and ")]
    assert [line.text.split()[1] for line in rest] == [str(count - MOST_ROWS)] * (count > MOST_ROWS)


def test_tensors_of_one_name_are_numbered():
    text = """(float[1] x) => (float[1] y) {{
        a = Constant<value = float[1] w {{1.0}}>()  b = Constant<value = float[1] w {{{0}}}>()
        c = Add(x, a)  y = Add(c, b) }}"""
    found = diff(model(text.format("2.0"), 13), model(text.format("3.0"), 13))
    assert list(rows(found, "weight")) == ["'w' (2)"]


def test_an_import_that_no_node_uses_and_that_stays_is_no_other_computation():
    before = weighted()
    before.opset_import.add(domain="ai.onnx.ml", version=2)
    after = convert_version(before, 12, prune_imports=False)
    assert any(opset.domain == "ai.onnx.ml" for opset in after.opset_import)
    assert diff(before, after).same


def test_strings_are_compared_by_their_content():
    text = """(string[1] x) => (string[1] y, string[1] z) {{
        y = Identity(x)  z = Constant<value = string[1] w {{"{0}"}}>() }}"""
    found = diff(model(text.format("a"), 13), model(text.format("b"), 13))
    assert list(rows(found, "weight")) == ["'w'"]
    assert not diff(model(text.format("a"), 13), model(text.format("a"), 13)).differences


def test_a_new_domain_is_a_raised_version_and_functions_have_rows_of_their_own():
    before, after = weighted(), weighted()
    after.opset_import.add(domain="com.new", version=1)
    after.functions[0].opset_import[0].version = 12
    found = diff(before, after)
    assert any("com.new" in version for version in found.raised)
    (row,) = (name for name in rows(found, "version") if "Twice" in name)
    assert rows(found, "version")[row] == ("13", "12")
