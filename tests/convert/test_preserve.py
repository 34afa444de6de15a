# SPDX-License-Identifier: Apache-2.0
"""Names, notes, weights and unknown fields survive, and equal inputs give equal bytes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto, helper, numpy_helper
from opshift import convert_file, convert_version
from text_models import model, ops

NEWER = hasattr(ModelProto(), "configuration")
"""Whether this onnx has the fields for several devices, which onnx 1.18 added."""

TEXT = "(float[2,3,4] x) => (float[2,3,4] y) <float[2,3,4] w, float[4] v = {1,2,3,4}> { a = Add(x, w) b = Add(a, v) y = Softmax(b) }"


def rich() -> ModelProto:
    """Returns a model with content in every field that a converter might lose."""
    proto = model(TEXT.replace("float[2,3,4] w, ", ""), ir=11 if NEWER else 10)
    proto.graph.initializer.append(
        numpy_helper.from_array(np.arange(24, dtype=np.float32).reshape(2, 3, 4), "w")
    )
    proto.producer_name, proto.producer_version, proto.model_version = "maker", "7", 42
    proto.doc_string, proto.domain = "about the model", "org.example"
    proto.metadata_props.add(key="licence", value="free")
    graph = proto.graph
    graph.doc_string = "about the graph"
    graph.metadata_props.add(key="g", value="1")
    for i, node in enumerate(graph.node):
        node.name, node.doc_string = f"node {i}", f"about {i}"
        node.metadata_props.add(key="n", value=str(i))
        if NEWER:
            node.device_configurations.add(configuration_id="c", pipeline_stage=i)
    graph.input[0].doc_string = "about x"
    graph.input[0].type.denotation = "TENSOR"
    graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    graph.input[0].metadata_props.add(key="i", value="1")
    graph.value_info.append(helper.make_tensor_value_info("a", 1, [2, 3, 4]))
    graph.initializer[0].doc_string = "about v"
    note = graph.quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="v")
    sparse = graph.sparse_initializer.add(dims=[3])
    sparse.values.CopyFrom(numpy_helper.from_array(np.array([1.0], np.float32), "sp"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([1], np.int64)))
    if NEWER:
        proto.configuration.add(name="c", num_devices=1)
    training = proto.training_info.add()
    training.initialization_binding.add(key="v", value="y")
    proto.opset_import.add(domain="acme", version=3)
    return proto


def with_unknown_fields(proto: ModelProto) -> ModelProto:
    """Adds fields of a future release to the model, the graph, a node, a tensor and a value."""
    field = b"\xfa\x3f\x03new"  # number 1023, three bytes
    for part in (
        proto,
        proto.graph,
        proto.graph.node[0],
        proto.graph.initializer[0],
        proto.graph.input[0],
    ):
        part.MergeFromString(field)
    return proto


def stripped(proto: ModelProto) -> ModelProto:
    """Returns the model without all parts that a step may change."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    del copy.graph.node[:]
    del copy.opset_import[:]
    copy.ir_version = 0
    return copy


@pytest.mark.parametrize("target", [13, 14])
def test_everything_else_survives(target):
    before = with_unknown_fields(rich())
    after = convert_version(before, target)
    assert stripped(after) == stripped(before)
    assert stripped(after).SerializeToString(deterministic=True) == stripped(
        before
    ).SerializeToString(deterministic=True)
    assert {i.domain: i.version for i in after.opset_import} == {"": target, "acme": 3}
    assert after.ir_version == 7  # the rest of its content computes nothing


def test_what_computes_nothing_holds_up_no_ir_version_and_is_noted_once(tmp_path):
    onnx.save(rich(), tmp_path / "in.onnx")
    report = convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 9, ir_version=7)
    (note,) = (text for text in report.notes if "that readers of IR 7 ignore" in text)
    for kind in ("node", "graph", "value"):
        assert f"metadata of a {kind}" in note
    assert "device configuration of a node" in note or not NEWER
    proto = onnx.load(tmp_path / "out.onnx")
    assert stripped(proto).graph.metadata_props == rich().graph.metadata_props


def test_a_rewritten_node_keeps_its_notes_and_its_companions_their_stage():
    after = convert_version(rich(), 13)
    assert ops(after) == "Add Add Flatten Softmax Shape Reshape"
    (softmax,) = [n for n in after.graph.node if n.op_type == "Softmax"]
    assert (softmax.name, softmax.doc_string) == ("node 2", "about 2")
    assert softmax.metadata_props[0].value == "2"
    if NEWER:
        stages = [n.device_configurations[0].pipeline_stage for n in after.graph.node]
        assert stages == [0, 1, 2, 2, 2, 2]


def test_an_untouched_node_is_untouched():
    before = with_unknown_fields(rich())
    after = convert_version(before, 13)
    assert after.graph.node[0].SerializeToString() == before.graph.node[0].SerializeToString()


def test_the_source_object_is_not_touched():
    before = rich()
    text = before.SerializeToString(deterministic=True)
    convert_version(before, 13)
    assert before.SerializeToString(deterministic=True) == text


def test_in_place_gives_the_same_model():
    before, same = rich(), rich()
    after = convert_version(before, 13)
    assert convert_version(same, 13, inplace=True) is same
    assert same == after


def test_refusing_in_place_leaves_the_object_alone():
    before = model("(double[2,3,4] x) => (double[2,3,4] y) { y = Erf(x) }", 13)
    text = before.SerializeToString()
    with pytest.raises(RuntimeError):
        convert_version(before, 8, inplace=True)
    assert before.SerializeToString() == text


@pytest.mark.parametrize("target", [12, {"": 12}, {"ai.onnx": 12}])
def test_the_version_it_has_is_the_identity(target):
    before = with_unknown_fields(rich())
    assert convert_version(before, target).SerializeToString() == before.SerializeToString()


def test_bytes_repeat(tmp_path):
    onnx.save(rich(), tmp_path / "in.onnx")
    for name in ("one", "two"):
        convert_file(tmp_path / "in.onnx", tmp_path / name, 13)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    first, second = (
        convert_version(rich(), 13).SerializeToString(deterministic=True) for _ in "12"
    )
    assert first == second


def test_file_and_object_give_the_same_model(tmp_path):
    onnx.save(with_unknown_fields(rich()), tmp_path / "in.onnx")
    convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 13)
    assert onnx.load(tmp_path / "out.onnx") == convert_version(with_unknown_fields(rich()), 13)


def test_a_path_gives_a_loaded_model(tmp_path):
    onnx.save(rich(), tmp_path / "in.onnx")
    assert convert_version(tmp_path / "in.onnx", 13) == convert_version(rich(), 13)


def test_an_onnx_ir_model_comes_back_as_one():
    onnx_ir = pytest.importorskip("onnx_ir")
    before = onnx_ir.from_proto(
        model(
            TEXT.replace(
                "float[2,3,4] w, ",
                "float[2,3,4] w = {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23}, ",
            )
        )
    )
    after = convert_version(before, 13)
    assert isinstance(after, onnx_ir.Model)
    assert after.opset_imports[""] == 13


def test_anything_else_is_a_type_error():
    with pytest.raises(
        TypeError, match=r"ModelProto, a path, an onnx_ir\.Model or an ONNXProgram, not int"
    ):
        convert_version(3, 13)


def test_a_constant_another_node_reads_stays():
    text = "(float[2,1,3] x) => (float[2,3] y, int64[1] z) <int64[1] a = {1}> { y = Squeeze(x, a) z = Neg(a) }"
    assert [t.name for t in convert_version(model(text, 13), 12).graph.initializer] == ["a"]
