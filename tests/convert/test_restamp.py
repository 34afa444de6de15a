# SPDX-License-Identifier: Apache-2.0
"""A change of only the IR version never claims more from the header than the engine would do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from opshift import BadDestination, InvalidModel, Refused, convert_file
from opshift.cli.entry import main
from opshift.convert.cheapest_strategy import convert
from opshift.convert.ir import restamp
from opshift.convert.request import Request
from opshift.model import weights
from opshift.model.bytes import place, wire
from opshift.model.bytes.source import Opened
from opshift.versions import NEWEST_IR
from text_models import model

PLAIN = "(float[2] x) => (float[2] y) { y = Neg(x) }"


def weight(name, size=2):
    return numpy_helper.from_array(np.ones(size, np.float32), name)


def nested(graph):
    """Returns a branch of a new If."""
    value = helper.make_tensor_value_info("t", TensorProto.FLOAT, [2])
    branch = helper.make_graph([helper.make_node("Identity", ["x"], ["t"])], "b", [], [value])
    node = helper.make_node(
        "If", ["c"], [f"z{len(graph.node)}"], then_branch=branch, else_branch=branch
    )
    graph.node.append(node)
    return graph.node[-1].attribute[0].g


FEATURES = {
    "initializer": lambda m: m.graph.initializer.append(weight("w")),
    "input too": lambda m: (
        m.graph.initializer.append(weight("v")),
        m.graph.input.append(helper.make_tensor_value_info("v", TensorProto.FLOAT, [2])),
    ),
    "heavy": lambda m: m.graph.initializer.append(weight("h", 5000)),
    "nested": lambda m: nested(m.graph).initializer.append(weight("n")),
    "nested note": lambda m: nested(m.graph).node[0].metadata_props.add(key="k", value="v"),
    "small type": lambda m: m.graph.initializer.append(
        helper.make_tensor("i4", TensorProto.INT4, [2], [1, 2])
    ),
    "cast": lambda m: m.graph.node.append(
        helper.make_node("Cast", ["x"], ["f8"], to=TensorProto.FLOAT8E5M2)
    ),
    "group": lambda m: m.graph.node.append(helper.make_node("Gather", ["x", "x"], ["g"], axis=17)),
    "declared": lambda m: m.graph.value_info.append(
        helper.make_tensor_sequence_value_info("s", TensorProto.BFLOAT16, None)
    ),
    "sequence": lambda m: m.graph.node.append(helper.make_node("SequenceConstruct", ["x"], ["q"])),
    "empty sequence": lambda m: m.graph.node.append(helper.make_node("SequenceEmpty", [], ["e"])),
    "note": lambda m: m.graph.node[0].metadata_props.add(key="k", value="v"),
    "empty note": lambda m: m.graph.node[0].metadata_props.add(),
    "value note": lambda m: m.graph.input[0].metadata_props.add(key="k", value="v"),
    "model note": lambda m: m.metadata_props.add(key="k", value="v"),
    "annotation": lambda m: m.graph.quantization_annotation.add(tensor_name="x"),
    "training": lambda m: m.training_info.add(),
    "sparse": lambda m: m.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            weight("sp", 1), helper.make_tensor("at", TensorProto.INT64, [1], [0]), [2]
        )
    ),
    "function": lambda m: m.functions.append(
        helper.make_function(
            "acme", "F", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])],
            [helper.make_opsetid("", 21)],
        )
    ),
    "overload": lambda m: setattr(m.graph.node[0], "overload", "o"),
    "type": lambda m: m.graph.node.append(
        helper.make_node("Optional", [], ["o"], type=helper.make_tensor_type_proto(1, [2]))
    ),
}  # fmt: skip


@pytest.mark.parametrize("feature", FEATURES)
def test_the_header_never_says_more_than_the_engine_does(tmp_path, feature):
    for to in range(3, 13):
        never_more_than_the_engine(tmp_path, [feature], to)


@settings(max_examples=100, deadline=None)
@given(st.sets(st.sampled_from(sorted(FEATURES)), min_size=2, max_size=4), st.integers(3, 12))
def test_nor_about_several_things_at_once(tmp_path_factory, features, to):
    never_more_than_the_engine(tmp_path_factory.mktemp("m"), sorted(features), to)


def never_more_than_the_engine(folder, features, to):
    before = model(PLAIN, 21, ir=10)
    for name in features:
        FEATURES[name](before)
    onnx.save(before, folder / "in.onnx")
    asked = Request({}, to)
    stamp = restamp.header_change(folder / "in.onnx", asked, folder / "out.onnx", "keep")
    try:
        after, _, report = convert(lambda: weights.carve_file(folder / "in.onnx"), asked)
    except (Refused, InvalidModel):  # nothing defines the condition of the nested graphs
        assert stamp is None
        return
    if stamp is None:
        return
    assert after.ir_version == to
    assert len(report.notes) <= 1  # at most one, about what readers skip
    assert stamp.report == report
    stamp.write(folder / "out.onnx")
    written = onnx.load(folder / "out.onnx")
    assert written.ir_version == to
    written.ir_version = before.ir_version
    assert written == before


@pytest.mark.parametrize(
    "features", [(), ("heavy", "initializer", "nested", "model note"), ("note", "value note")]
)
@pytest.mark.parametrize("to", [4, 9, 13])
def test_what_is_plain_is_not_left_to_the_engine(tmp_path, features, to):
    before = model(PLAIN, 13, ir=10)
    for name in features:
        FEATURES[name](before)
    onnx.save(before, tmp_path / "in.onnx")
    asked = Request({}, to)
    assert (
        restamp.header_change(tmp_path / "in.onnx", asked, tmp_path / "o.onnx", "keep") is not None
    )


@pytest.mark.parametrize("to", [5, 9, 12])
def test_it_costs_no_import_of_onnx(tmp_path, to):
    before = model(
        "(float[2,3] x) => (float[2,3] y) { z = Softmax<axis=1>(x) y = Add(z, w) }", 13, ir=8
    )
    before.graph.initializer.append(weight("w", 3))
    onnx.save(before, tmp_path / "in.onnx")
    words = ["convert", f"{tmp_path}/in.onnx", "-o", f"{tmp_path}/out.onnx", "--ir", str(to)]
    code = f"import sys; from opshift.cli.entry import main; main({words}, standalone_mode=False)"
    watched = f"import atexit, sys; atexit.register(lambda: print({{'onnx', 'numpy'}} & set(sys.modules))); {code}"
    done = subprocess.run(
        [sys.executable, "-c", watched], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] == "set()", done.stdout + done.stderr
    assert onnx.load(tmp_path / "out.onnx").ir_version == to


def in_place(path, to):
    done = CliRunner().invoke(main, ["convert", str(path), "--in-place", "--ir", str(to)])
    assert done.exit_code == 0, done.stderr
    return onnx.load(path).ir_version


def test_in_place_one_byte_is_written(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model(PLAIN, 13, ir=8), path)
    before, number = path.read_bytes(), os.stat(path).st_ino
    assert in_place(path, 7) == 7
    assert os.stat(path).st_ino == number
    assert sum(a != b for a, b in zip(before, path.read_bytes(), strict=True)) == 1


def test_the_file_with_a_second_name_stays_under_it(tmp_path):
    path, other = tmp_path / "m.onnx", tmp_path / "other.onnx"
    onnx.save(model(PLAIN, 13, ir=8), path)
    os.link(path, other)
    assert in_place(other, 7) == 7
    assert onnx.load(path).ir_version == 8


def test_in_place_goes_through_a_link(tmp_path):
    path, other = tmp_path / "m.onnx", tmp_path / "other.onnx"
    onnx.save(model(PLAIN, 13, ir=8), path)
    other.symlink_to(path)
    assert in_place(other, 7) == 7
    assert other.is_symlink()
    assert onnx.load(path).ir_version == 7


def test_the_version_a_model_has_already_changes_nothing(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model(PLAIN, 13, ir=8), path)
    before = os.stat(path)
    assert in_place(path, 8) == 8
    after = os.stat(path)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_check_writes_nothing(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model(PLAIN, 13, ir=8), path)
    for to, code in ((7, 4), (8, 0)):
        assert (
            CliRunner().invoke(main, ["convert", str(path), "--check", "--ir", str(to)]).exit_code
            == code
        )
    assert onnx.load(path).ir_version == 8


def test_external_data_is_not_left_behind(tmp_path):
    before = model("(float[2] x) => (float[2] y) { y = Add(x, w) }", 13, ir=8)
    before.graph.initializer.append(weight("w"))
    onnx.save(
        before, tmp_path / "in.onnx", save_as_external_data=True, location="d", size_threshold=0
    )
    (tmp_path / "sub").mkdir()
    with pytest.raises(BadDestination, match='`external="copy"`, `external="inline"` or'):
        convert_file(tmp_path / "in.onnx", tmp_path / "sub" / "o.onnx", ir_version=9)
    convert_file(tmp_path / "in.onnx", tmp_path / "o.onnx", ir_version=9)
    convert_file(tmp_path / "in.onnx", tmp_path / "sub" / "o.onnx", ir_version=7, external="inline")
    np.testing.assert_array_equal(
        numpy_helper.to_array(onnx.load(tmp_path / "sub" / "o.onnx").graph.initializer[0]), [1, 1]
    )


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda data: data[:-3], "not a readable ONNX model"),
        (lambda data: b"hello world", "not a readable ONNX model"),
        (lambda data: b"", "the file is empty"),
        (lambda data: onnx.ModelProto(ir_version=8).SerializeToString(), "the model has no graph"),
    ],
)
def test_what_is_no_model(tmp_path, spoil, sentence):
    path = tmp_path / "m.onnx"
    path.write_bytes(spoil(model(PLAIN, 13, ir=8).SerializeToString()))
    with pytest.raises(InvalidModel, match=sentence):
        convert_file(path, tmp_path / "o.onnx", ir_version=7)
    assert [p.name for p in Path(tmp_path).iterdir()] == ["m.onnx"]


def test_a_version_written_twice_is_left_to_the_engine(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(
        model(PLAIN, 13, ir=8).SerializeToString()
        + onnx.ModelProto(ir_version=10).SerializeToString()
    )
    convert_file(path, tmp_path / "o.onnx", ir_version=9)
    assert onnx.load(tmp_path / "o.onnx").ir_version == 9


def test_a_folder_that_is_not_there_is_named(tmp_path):
    onnx.save(model(PLAIN, 13, ir=8), tmp_path / "m.onnx")
    words = ["convert", f"{tmp_path}/m.onnx", "-o", f"{tmp_path}/none/o.onnx", "--ir", "7"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert f"{tmp_path}/none/o.onnx: there is no folder {tmp_path}/none; create" in done.stderr


# --- the header -----------------------------------------------------------------------------------


def header(proto, more=b"", to=9):
    return restamp._header(proto.SerializeToString() + more, to)


def test_the_header_of_a_file():
    before = model(PLAIN, 13, ir=8, more=', "acme" : 3')
    before.model_version = 2
    (start, end), version, imports = header(before)
    assert before.SerializeToString()[start:end] == b"\x08\x08"
    assert (version, imports) == (8, {"": 13, "acme": 3})


def field(number, kind, value=b"\x01"):
    return wire.varint(number << 3 | kind) + value


@pytest.mark.parametrize(
    ("more", "usual"),
    [
        (b"", True),
        (field(5, 0), True),  # a number
        (field(5, 2, b"\x00"), False),
        (field(1, 0), False),  # a second version
        (field(7, 2, b"\x00"), False),  # a second graph
        (field(7, 0), False),
        (field(8, 2, b"\x02\x10\x0d"), False),  # a second import of ai.onnx
        (field(26, 0), False),
        (field(26, 2, b"\x00"), True),
        (field(27, 0), True),  # a field of a later onnx
        (field(25, 2, b"\x04\x4a\x02\x10\x0d"), True),  # a function
        (field(25, 2, b"\x08\x4a\x02\x10\x0d\x4a\x02\x10\x0e"), False),  # with two imports
    ],
)
def test_an_unusual_file_is_left_to_the_engine(more, usual):
    assert (header(model(PLAIN, 13, ir=8), more) is not None) is usual


@pytest.mark.parametrize("field", ["graph", "opset_import", "ir_version"])
def test_a_file_without_a_part_is_left_to_the_engine(field):
    before = model(PLAIN, 13, ir=8)
    before.ClearField(field)
    assert header(before) is None


@pytest.mark.parametrize(
    ("version", "usual"), [(2, False), (3, True), (NEWEST_IR, True), (NEWEST_IR + 1, False)]
)
def test_a_version_that_onnx_never_had_is_left_to_the_engine(version, usual):
    assert (header(model(PLAIN, 13, ir=version)) is not None) is usual


@pytest.mark.parametrize(
    ("before", "to", "functions", "usual"),
    [
        (7, 8, True, False),
        (7, 7, True, True),
        (8, 9, True, True),
        (7, 8, False, True),
    ],
)
def test_functions_get_a_meaning_at_one_version(before, to, functions, usual):
    proto = model(PLAIN, 13, ir=before)
    if functions:
        FEATURES["function"](proto)
    assert (header(proto, to=to) is not None) is usual


# --- which files are left to the engine -----------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    onnx.save(model(PLAIN, 13, ir=8), tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


def change(path, dst="out.onnx", external="keep", to=7, **options):
    return restamp.header_change(path, Request({}, to, **options), path.parent / dst, external)


@pytest.mark.parametrize("options", [{}, {"bump_model_version": True}, {"stamp": True}])
def test_labels_are_left_to_the_engine(options, path):
    assert (change(path, **options) is None) is bool(options)


def test_another_opset_is_left_to_the_engine(path):
    assert restamp.header_change(path, Request(14, 7), path.parent / "o.onnx", "keep") is None
    assert change(path, external="one-file") is None


@pytest.mark.parametrize(("source", "result"), [("in.onnx", "o.textproto"), ("a.json", "o.onnx")])
def test_texts_are_left_to_the_engine(source, result, path):
    path = path.rename(path.with_name(source))
    assert change(path, result) is None


def test_a_result_in_place_of_another_model_is_left_to_the_engine(path):
    (path.parent / "out.onnx").write_bytes(path.read_bytes())
    assert change(path) is None
    assert change(path, "in.onnx") is not None


def test_a_file_that_is_too_large_is_left_to_the_engine(path, monkeypatch):
    monkeypatch.setattr(wire, "LIMIT", path.stat().st_size)
    assert change(path) is not None
    monkeypatch.setattr(wire, "LIMIT", path.stat().st_size - 1)
    assert change(path) is None


@pytest.mark.parametrize("to", [7, 9])
def test_a_plan_that_is_not_shipped_is_left_to_the_engine(to, path, monkeypatch):
    monkeypatch.setattr(restamp.ir_plan, "in_table", lambda *, down: down)
    assert (change(path, to=to) is not None) is (to < 8)


@pytest.fixture
def external(tmp_path):
    proto = model("(float[2] x) => (float[2] y) { y = Add(x, w) }", 13, ir=8)
    proto.graph.initializer.append(weight("w"))
    path = tmp_path / "in.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="d", size_threshold=0)
    (tmp_path / "sub").mkdir()
    return path


@pytest.mark.parametrize("to", [7, 9])
@pytest.mark.parametrize(
    ("dst", "how", "moves"),
    [
        ("o.onnx", "keep", False),
        ("o.onnx", "inline", True),
        ("sub/o.onnx", "keep", True),
        ("in.onnx", "keep", False),
    ],
)
def test_data_that_move_are_left_to_the_engine(dst, how, moves, to, external):
    assert (change(external, dst, how, to=to) is None) is moves
    alone = external.with_name("alone.onnx")
    onnx.save(model(PLAIN, 13, ir=8), alone)
    assert change(alone, dst.replace("in", "alone"), how, to=to) is not None


def test_data_do_not_follow_a_stream(external):
    for stream in (place.Stream("out"), place.Stream("out", 1)):
        assert restamp.header_change(external, Request({}, 9), stream, "keep") is None


def test_data_of_a_pipe_are_not_found(external):
    piped = Opened(str(external), os.open(external, os.O_RDONLY))
    assert restamp.header_change(piped, Request({}, 9), external.parent / "o", "keep") is None


def test_names_without_a_folder_are_in_the_working_folder(external, monkeypatch):
    monkeypatch.chdir(external.parent)
    assert restamp.header_change("in.onnx", Request({}, 9), "o.onnx", "keep") is not None
    assert not restamp._same_folder("in.onnx", os.path.join("none", "o.onnx"))


# --- the change in place --------------------------------------------------------------------------


@pytest.mark.parametrize(("to", "written"), [(8, b"\x08"), (7, b"\x07")])
def test_a_file_is_written_with_the_version(to, written, path):
    before = path.read_bytes()
    change(path, to=to).write(path.parent / "out.onnx")
    assert (path.parent / "out.onnx").read_bytes() == before.replace(
        b"\x08\x08", b"\x08" + written, 1
    )
    assert path.read_bytes() == before


def test_a_version_may_be_anywhere_in_the_header(path):
    path.write_bytes(path.read_bytes().removeprefix(b"\x08\x08") + b"\x08\x08")
    change(path).write(path.parent / "out.onnx")
    assert (path.parent / "out.onnx").read_bytes() == path.read_bytes()[:-1] + b"\x07"


def test_a_stream_gets_the_whole_file(path):
    stream = path.with_name("stream")
    stream.touch()
    restamp.header_change(path, Request({}, 7), path.with_name("o.onnx"), "keep").write(
        place.Stream(str(stream))
    )
    assert onnx.load(stream).ir_version == 7


def test_the_source_is_replaced_only_in_place(path):
    with pytest.raises(BadDestination, match="the source itself"):
        change(path, "in.onnx").write(path)


def test_a_version_that_is_written_longer_replaces_the_file(path):
    """The IR version has one byte more than necessary, so the file is written again."""
    path.write_bytes(path.read_bytes().replace(b"\x08\x08", b"\x08\x88\x00", 1))
    stamp, number = change(path, "in.onnx"), path.stat().st_ino
    stamp.write(path, in_place=True)
    assert onnx.load(path).ir_version == 7
    assert path.stat().st_ino != number


def test_a_file_that_was_replaced_is_not_changed(path):
    stamp, other = change(path, "in.onnx"), path.with_name("other")
    onnx.save(model(PLAIN, 14, ir=8), other)
    before = other.read_bytes()
    other.replace(path)
    with pytest.raises(InvalidModel, match="the file changed"):
        stamp.write(path, in_place=True)
    assert path.read_bytes() == before


def test_a_link_that_is_not_a_file_is_not_overwritten(path):
    link = path.with_name("link")
    link.symlink_to(path)
    assert not change(link, "link")._overwrite()


def test_a_file_that_cannot_be_opened_is_not_overwritten(path, monkeypatch):
    stamp = change(path, "in.onnx")

    def fail(*_):
        raise PermissionError

    monkeypatch.setattr(os, "open", fail)
    assert not stamp._overwrite()


def test_a_write_that_fails_is_undone(path, monkeypatch):
    before, stamp = path.read_bytes(), change(path, "in.onnx")

    def fail(_):
        raise OSError(5, "disk")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk"):
        stamp.write(path, in_place=True)
    assert path.read_bytes() == before


# --- what the content says ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feature", "to", "options", "left"),
    [
        ("note", 9, {}, False),
        ("note", 9, {"strict_ir": True}, True),
        ("note", 10, {"strict_ir": True}, False),
        ("function", 7, {}, True),
        ("function", 8, {}, False),
        ("note", 9, {"drop_metadata": True}, True),
        ("training", 6, {"drop_training": True}, True),
        ("training", 6, {}, True),
        ("sequence", 7, {}, True),
        ("sequence", 8, {}, False),
        ("initializer", 7, {}, False),
    ],
)
def test_content_that_a_version_lacks(feature, to, options, left, tmp_path):
    before = model(PLAIN, 21, ir=10)
    FEATURES[feature](before)
    onnx.save(before, tmp_path / "in.onnx")
    assert (change(tmp_path / "in.onnx", to=to, **options) is None) is left


def test_a_later_version_skips_nothing(tmp_path):
    """The IR version of the source ignores the content, both before and after the change."""
    before = model(PLAIN, 21, ir=8)
    FEATURES["note"](before)
    onnx.save(before, tmp_path / "in.onnx")
    assert change(tmp_path / "in.onnx", to=9, external="inline").report.notes == ()
    assert change(tmp_path / "in.onnx", to=7, external="inline").report.notes
