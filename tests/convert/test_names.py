# SPDX-License-Identifier: Apache-2.0
"""The index of names knows every field of ONNX's messages that can hold the name of a value."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, helper
from opshift import Refused, Why, convert_file, convert_version
from opshift.adapter import Builder, Node, Result, adapter
from opshift.errors import Refusal
from text_models import model, ops

# What each text field of ONNX's messages is to the index of names.
READS = {
    "NodeProto.input", "FunctionProto.output", "TrainingInfoProto.initialization_binding",
    "TrainingInfoProto.update_binding", "TensorAnnotation.quant_parameter_tensor_names",
    "AttributeProto.s", "AttributeProto.strings",  # of operators that differentiate
}  # fmt: skip
DEFINES = {"NodeProto.output", "FunctionProto.input", "TensorProto.name", "ValueInfoProto.name"}
DESCRIBES = {"TensorAnnotation.tensor_name", "ShardingSpecProto.tensor_name"}
OTHER = {
    "AttributeProto.doc_string", "AttributeProto.name", "AttributeProto.ref_attr_name",
    "DeviceConfigurationProto.device", "DeviceConfigurationProto.name", "Dimension.denotation",
    "Dimension.dim_param", "FunctionProto.attribute", "FunctionProto.doc_string",
    "FunctionProto.domain", "FunctionProto.metadata_props", "FunctionProto.name",
    "FunctionProto.overload", "GraphProto.doc_string", "GraphProto.metadata_props",
    "GraphProto.name", "ModelProto.doc_string", "ModelProto.domain", "ModelProto.metadata_props",
    "ModelProto.producer_name", "ModelProto.producer_version",
    "NodeDeviceConfigurationProto.configuration_id", "NodeProto.doc_string", "NodeProto.domain",
    "NodeProto.metadata_props", "NodeProto.name", "NodeProto.op_type", "NodeProto.overload",
    "Opaque.domain", "Opaque.name", "OperatorSetIdProto.domain", "SimpleShardedDimProto.dim_param",
    "TensorProto.doc_string", "TensorProto.external_data", "TensorProto.metadata_props",
    "TensorProto.raw_data", "TensorProto.string_data", "TypeProto.denotation",
    "ValueInfoProto.doc_string", "ValueInfoProto.metadata_props",
}  # fmt: skip


def test_every_field_that_holds_text_is_known():
    """A field of a later onnx fails here until somebody says whether it holds a value's name."""
    found, waiting = set(), [ModelProto.DESCRIPTOR]
    seen = {ModelProto.DESCRIPTOR.name}
    while waiting:
        message = waiting.pop()
        for field in message.fields:
            inner = field.message_type
            entry = inner is not None and inner.name == "StringStringEntryProto"
            if entry or field.type in (field.TYPE_STRING, field.TYPE_BYTES):
                found.add(f"{message.name}.{field.name}")
            elif inner is not None and inner.name not in seen:
                seen.add(inner.name)
                waiting.append(inner)
    assert found <= READS | DEFINES | DESCRIBES | OTHER


CLIP = "(float[4] x) => (float[4] y) <float low = {0}, float high = {6}> { y = Clip(x, low, high) }"
COMPUTED = """(float[4] x) => (float[4] y) <float low = {0}, float one = {3}>
    { high = Add(one, one) y = Clip(x, low, high) }"""


def _trained(text: str, name: str, binding: str) -> ModelProto:
    made = model(text, 12)
    training = made.training_info.add()
    part = "initialization" if binding == "initialization_binding" else "algorithm"
    graph = "step () => (float new) { new = Constant<value = float {3.0}>() }"
    getattr(training, part).CopyFrom(onnx.parser.parse_graph(graph))
    getattr(training, binding).add(key=name, value="new")
    return made


@pytest.mark.parametrize("binding", ["initialization_binding", "update_binding"])
@pytest.mark.parametrize(("text", "name"), [(CLIP, "high"), (COMPUTED, "one")])
def test_what_training_sets_is_no_constant(text, name, binding):
    after = convert_version(_trained(text, name, binding), 9)
    assert "Min" in ops(after)
    assert name in [tensor.name for tensor in after.graph.initializer]


def test_a_refusal_says_that_training_may_change_the_value(with_adapters):
    @adapter("Squeeze", 13, 12)
    def demanding(node: Node, op: Builder) -> Result:
        """The axes must be known."""
        return op.same(node, inputs={"axes": None}, axes=node["axes"].const().tolist())

    with_adapters(demanding)
    text = "(float[2,1,3] x) => (float[2,3] y) <int64[1] a = {1}> { y = Squeeze(x, a) }"
    made = _trained(text, "a", "update_binding")
    made.opset_import[0].version = 13
    with pytest.raises(Refused, match="training may change it"):
        convert_version(made, 12)


def test_what_a_training_algorithm_reads_stays():
    made = model(CLIP, 12)
    text = "step () => (float seen) { seen = Neg(high) }"
    made.training_info.add().algorithm.CopyFrom(onnx.parser.parse_graph(text))
    after = convert_version(made, 10)
    assert ops(after) == "Clip"
    assert [tensor.name for tensor in after.graph.initializer] == ["high"]


def test_what_an_operator_names_in_an_attribute_stays():
    made = model(CLIP, 12, more=', "ai.onnx.preview.training" : 1')
    step = made.training_info.add().algorithm
    step.node.append(
        helper.make_node(
            "Gradient", ["x"], ["d"], xs=["high"], y="y", domain="ai.onnx.preview.training"
        )
    )
    step.name = "step"
    after = convert_version(made, 10, check=False)
    assert [tensor.name for tensor in after.graph.initializer] == ["high"]


def test_what_an_annotation_names_as_a_parameter_stays():
    made = model(CLIP, 12)
    note = made.graph.quantization_annotation.add(tensor_name="y")
    note.quant_parameter_tensor_names.add(key="MAX", value="high")
    after = convert_version(made, 10)
    assert [tensor.name for tensor in after.graph.initializer] == ["high"]


def test_what_only_removed_nodes_read_is_removed_with_its_types():
    made = model(
        """(float[2,3] x) => (float[a,b] y) <int64[1] k = {1}> {
            s = Shape(x) e = Gather(s, k) e2 = Identity(e) dead = Neg(e2)
            y = Slice(x, k, e2, k) }""",
        10,
    )
    made.graph.value_info.append(helper.make_tensor_value_info("e2", TensorProto.INT64, [1]))
    after = convert_version(made, 9)
    # Slice-1 has its ends as attributes; `dead` was unread before, and it still reads e2.
    assert {"Shape", "Neg"} <= set(ops(after).split())
    del made.graph.node[3]
    after = convert_version(made, 9)
    assert ops(after) == "Slice"
    assert not after.graph.value_info
    assert not after.graph.initializer


def test_a_node_that_nobody_reads_any_more_blocks_nothing(with_adapters):
    @adapter("Max", 12, 11)
    def impossible(node: Node, op: Builder) -> Result:
        """There is no other form."""
        raise Refusal(Why.NOT_EXPRESSIBLE, "for this test")

    with_adapters(impossible)
    text = """(float[2,1,3] x) => (float[2,3] y) <int64[1] a = {1}> {
        axes = Max(a, a) y = Squeeze(x, axes) MORE }"""
    after = convert_version(model(text.replace("MORE", ""), 13), 11)
    assert ops(after) == "Squeeze"
    with pytest.raises(Refused):  # what nobody read before is the model's own
        convert_version(model(text.replace("MORE", "dead = Max(a, a)"), 13), 11)


def _sharded(text: str, opset: int, *values: str) -> ModelProto:
    made = model(text, opset, ir=11)
    made.configuration.add(name="two", num_devices=2)
    placed = made.graph.node[0].device_configurations.add(configuration_id="two")
    for value in values:
        placed.sharding_spec.add(tensor_name=value, device=[0, 1])
    return made


def _shardings(made: ModelProto) -> list[tuple[str, str]]:
    return [
        (node.op_type, spec.tensor_name)
        for node in made.graph.node
        for configuration in node.device_configurations
        for spec in configuration.sharding_spec
    ]


needs_devices = pytest.mark.skipif(
    not hasattr(ModelProto(), "configuration"), reason="this onnx has no device configurations"
)


@needs_devices
def test_a_sharding_moves_to_the_nodes_that_have_the_value():
    text = "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis = 1>(x) }"
    after = convert_version(_sharded(text, 12, "x", "y"), 13)
    assert ops(after) == "Flatten Softmax Shape Reshape"
    assert _shardings(after) == [("Flatten", "x"), ("Shape", "x"), ("Reshape", "y")]


@needs_devices
def test_a_sharding_of_a_value_that_is_gone_is_dropped_by_name(tmp_path):
    text = "(float[2,1,3] x) => (float[2,3] y) <int64[1] a = {1}> { y = Squeeze(x, a) }"
    onnx.save(_sharded(text, 13, "x", "a"), tmp_path / "in.onnx")
    report = convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 12)
    assert _shardings(onnx.load(tmp_path / "out.onnx")) == [("Squeeze", "x")]
    assert [note for note in report.notes if "sharding of 'a' from Squeeze 'y'" in note]


INT4 = """(float[4] x) => (float[4] y) <float s = {0.5}>
    { d = DequantizeLinear(w, s) y = Add(x, d) }"""


def _int4() -> ModelProto:
    made = model(INT4, 21, ir=10)
    weight = made.graph.initializer.add(
        name="w", data_type=TensorProto.INT4, dims=[4], raw_data=b"\x12\x12", doc_string="weights"
    )
    weight.metadata_props.add(key="k", value="v")
    note = made.graph.quantization_annotation.add(tensor_name="w")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    made.graph.value_info.append(helper.make_tensor_value_info("w", TensorProto.INT4, [4]))
    return made


def test_the_constant_that_takes_the_place_of_another_inherits_its_name():
    after = convert_version(_int4(), 13, ir_version="keep")
    (weight,) = [tensor for tensor in after.graph.initializer if tensor.name == "w"]
    assert weight.data_type == TensorProto.INT8
    assert (weight.doc_string, weight.metadata_props[0].value) == ("weights", "v")
    assert after.graph.quantization_annotation[0].tensor_name == "w"
    assert "w" not in [value.name for value in after.graph.value_info]
    onnx.checker.check_model(after, full_check=True)


def test_an_inner_graph_declares_the_constant_that_inherits_a_name():
    """onnxruntime rejects a declaration in a branch that contradicts the outer weight."""
    made = model(
        """(bool c, int64[2] i) => (float[2,2] y) <float[3,2] w = {1,2,3,4,5,6}> {
        y = If (c) <then_branch = t () => (float[2,2] a) { a = Gather(w, i) },
                    else_branch = e () => (float[2,2] b) { k = Gather(w, i) b = Neg(k) }> }""",
        11,
    )
    branches = [attribute.g for attribute in made.graph.node[0].attribute]
    for branch in branches:
        branch.value_info.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3, 2]))
    after = convert_version(made, 10)
    (weight,) = [tensor for tensor in after.graph.initializer if tensor.name == "w"]
    assert list(weight.dims) == [6, 2]  # twice its rows, for indices from the end
    for attribute in after.graph.node[0].attribute:
        (info,) = attribute.g.value_info
        assert [dim.dim_value for dim in info.type.tensor_type.shape.dim] == [6, 2]


def test_a_constant_that_is_still_read_keeps_its_name_for_itself():
    made = _int4()
    other = made.graph.quantization_annotation.add(tensor_name="x")
    other.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    after = convert_version(made, 13, ir_version="keep")
    (weight,) = [tensor for tensor in after.graph.initializer if tensor.name == "w"]
    assert weight.data_type == TensorProto.INT4


def test_an_annotation_of_a_removed_tensor_is_dropped_by_name(tmp_path):
    text = "(float[2,1,3] x) => (float[2,3] y) <int64[1] a = {1}> { y = Squeeze(x, a) }"
    made = model(text, 13)
    note = made.graph.quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    made.graph.initializer.append(helper.make_tensor("s", TensorProto.FLOAT, [], [1.0]))
    onnx.save(made, tmp_path / "in.onnx")
    report = convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 12)
    after = onnx.load(tmp_path / "out.onnx")
    assert not after.graph.quantization_annotation
    assert not after.graph.initializer
    assert [note for note in report.notes if "annotation of 'a'" in note]


@pytest.mark.parametrize("bound", [False, True])
def test_a_weight_that_training_sets_keeps_its_type(bound):
    made = _int4()
    del made.graph.quantization_annotation[:]
    if bound:
        made.training_info.add().update_binding.add(key="w", value="y")
    if not bound:
        after = convert_version(made, ir_version=9)
        assert TensorProto.INT8 in [tensor.data_type for tensor in after.graph.initializer]
    else:
        with pytest.raises(Refused, match="int4"):
            convert_version(made, ir_version=9)
