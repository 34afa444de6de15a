# SPDX-License-Identifier: Apache-2.0
"""Only the IR version: what the header alone can say is never more than what the engine would do."""

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
from text_models import model

PLAIN = "(float[2] x) => (float[2] y) { y = Neg(x) }"


def weight(name, size=2):
    return numpy_helper.from_array(np.ones(size, np.float32), name)


def nested(graph):
    """A branch of a new If."""
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
