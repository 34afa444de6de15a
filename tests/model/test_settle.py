# SPDX-License-Identifier: Apache-2.0
"""Tests the names, annotations and shardings after a conversion."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from opshift import Refused, convert_file, convert_version
from opshift.model.arrays import from_array
from opshift.model.document import Document, Heritage
from opshift.model.replace import Replacement, replace_nodes
from opshift.model.settle import holds, move_shardings, settle
from text_models import model, ops

MODEL = """(float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {3, 4}> {
    a = Mul(x, w)
    y = If (c) <then_branch = t () => (float[2] p) { p = Add(a, w) },
                else_branch = e () => (float[2] q) { q = Sub(a, v) }> }"""


class Opened:
    """A model in which nodes get constants in place of others, as adapters do it."""

    def __init__(self, text: str = MODEL) -> None:
        self.proto = model(text, 18, 10, ', "own" : 1')
        self.document = Document(self.proto)
        self.main = self.document.main

    def constant(self, *numbers: float, doc: str = "") -> str:
        """Adds a constant; returns its name."""
        tensor = from_array(np.array(numbers, "f4"))
        if doc:
            tensor.doc_string = doc
        root = self.document.roots[0]
        placed = self.document.constant(root, numbers, lambda: tensor)
        self.document.place_constant(root, placed)
        return placed.name

    def inherit(self, name: str, old: str, doc: str = "", **notes: str) -> None:
        self.document.inherited[name] = Heritage(self.main, old, doc, tuple(notes.items()))

    def read(self, name: str, *, instead: str) -> None:
        """Lets all nodes read another value."""
        for scope in self.document.scopes():
            for i, node in enumerate(scope.proto.node):
                if instead in node.input:
                    now = NodeProto()
                    now.CopyFrom(node)
                    now.input[:] = [name if value == instead else value for value in node.input]
                    replace_nodes(self.document, [Replacement((scope, i), [now])])

    def settled(self) -> dict[str, list[float]]:
        """Returns the numbers of the initializers."""
        settle(self.document)
        self.document.sort()
        onnx.checker.check_model(self.proto)
        return {
            tensor.name: onnx.numpy_helper.to_array(tensor).tolist()
            for tensor in self.proto.graph.initializer
        }


def test_a_constant_takes_the_free_name_of_the_one_it_replaced():
    """All readers, also in subgraphs, use the new name, and the notes of the old constant stay."""
    opened = Opened()
    new = opened.constant(5, 6)
    opened.inherit(new, "w", "the weights", unit="metres")
    opened.read(new, instead="w")
    branch = opened.proto.graph.node[1].attribute[0].g
    branch.value_info.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [7]))
    branch.value_info.append(helper.make_tensor_value_info("p", TensorProto.FLOAT, [2]))
    assert opened.settled() == {"w": [5, 6], "v": [3, 4]}
    weight = opened.proto.graph.initializer[1]
    assert (weight.doc_string, weight.metadata_props[0].key) == ("the weights", "unit")
    assert [info.type.tensor_type.shape.dim[0].dim_value for info in branch.value_info] == [2, 2]
    assert list(branch.node[0].input) == ["a", "w"]


def test_a_constant_keeps_its_own_words_if_the_old_one_had_none():
    opened = Opened()
    new = opened.constant(5, 6, doc="new words")
    opened.inherit(new, "w")
    opened.read(new, instead="w")
    opened.settled()
    assert opened.main.initializers["w"].doc_string == "new words"


def test_a_constant_without_words_gets_no_empty_field_for_them():
    opened = Opened()
    new = opened.constant(5, 6)
    opened.inherit(new, "w")
    opened.read(new, instead="w")
    opened.settled()
    assert not opened.main.initializers["w"].HasField("doc_string")


def test_a_constant_inherits_through_the_constants_of_earlier_steps():
    opened = Opened()
    first, second, third = (opened.constant(number, 0) for number in (5, 6, 7))
    opened.inherit(first, "w")
    opened.inherit(second, first)
    opened.inherit(third, second)
    for name, instead in ((first, "w"), (second, first), (third, second)):
        opened.read(name, instead=instead)
    assert opened.settled() == {"w": [7, 0], "v": [3, 4]}


def test_a_constant_in_place_of_a_new_one_has_no_name_to_inherit():
    opened = Opened()
    first, second = opened.constant(5, 6), opened.constant(7, 8)
    opened.inherit(second, first)
    opened.read(second, instead="w")
    assert opened.settled().keys() == {"v", second}


def test_only_one_constant_inherits_a_name():
    opened = Opened()
    first, second = opened.constant(5, 6), opened.constant(7, 8)
    for name in (first, second):
        opened.inherit(name, "w")
    opened.read(first, instead="w")
    opened.read(second, instead="v")
    assert opened.settled() == {"w": [5, 6], second: [7, 8]}


def test_a_name_that_is_still_read_is_not_free():
    opened = Opened()
    new = opened.constant(5, 6)
    opened.inherit(new, "w")
    place = (opened.main, 0)
    (made,) = model(f"(x) => (a) {{ a = Mul(x, {new}) }}").graph.node
    replace_nodes(opened.document, [Replacement(place, [made])])
    assert opened.settled() == {"w": [1, 2], "v": [3, 4], new: [5, 6]}


@pytest.mark.parametrize(
    "other",
    [
        MODEL.replace("p = Add(a, w)", "w = Neg(a) p = Add(a, w)"),
        MODEL.replace("t () => (float[2] p) {", "t () => (float[2] p) <float[2] w = {7, 7}> {"),
    ],
)
def test_a_name_that_a_subgraph_defines_is_not_free(other):
    """The subgraph would read its own value instead of the constant."""
    opened = Opened(other)
    new = opened.constant(5, 6)
    opened.inherit(new, "w")
    place = (opened.main, 0)
    (made,) = model(f"(x) => (a) {{ a = Mul(x, {new}) }}").graph.node
    replace_nodes(opened.document, [Replacement(place, [made])])
    opened.document.mark_unread(opened.main, ["w"])
    settle(opened.document)
    assert [tensor.name for tensor in opened.proto.graph.initializer] == ["v", new]


def annotate(graph, *names):
    for name in names:
        note = graph.quantization_annotation.add(tensor_name=name)
        note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=f"{name}_scale")
        graph.initializer.append(helper.make_tensor(f"{name}_scale", 1, [], [1.0]))


CALL = MODEL.replace("a = Mul(x, w)", "a = own.F(x, w)") + (
    ' <opset_import: ["" : 18], domain: "own"> F (g, h) => (k) { k = Mul(g, h) }'
)


@pytest.mark.parametrize("text", [MODEL, CALL])
def test_annotations_of_removed_values_go_with_their_scales(text):
    """Annotations of values that were not removed stay, even if the values do not exist."""
    opened = Opened(text)
    annotate(opened.proto.graph, "never", "w", "v", "x")
    branch = opened.proto.graph.node[1].attribute[1].g
    annotate(branch, "a", "w")
    opened.document = Document(opened.proto)
    opened.main = opened.document.main
    opened.read("x", instead="w")
    opened.read("a", instead="v")
    generation = opened.document.generation
    notes = settle(opened.document)
    assert [value for note in notes for value in "vw" if f"'{value}'" in note] == ["v", "w", "w"]
    assert opened.document.generation > generation
    assert annotated(opened.proto.graph) == ["never", "x"]
    assert annotated(branch) == ["a"]
    names = [tensor.name for tensor in opened.proto.graph.initializer]
    assert names == ["never_scale", "x_scale"]
    assert [tensor.name for tensor in branch.initializer] == ["a_scale"]


def annotated(graph):
    return [note.tensor_name for note in graph.quantization_annotation]


def test_a_model_that_lost_nothing_is_settled_already():
    for text in (MODEL, CALL):
        opened = Opened(text)
        annotate(opened.proto.graph, "never", "w")
        before = opened.proto.SerializeToString()
        assert settle(opened.document) == []
        assert opened.document.generation == 0
        assert opened.proto.SerializeToString() == before


def _sharded(text: str, opset: int, *values: str) -> ModelProto:
    proto = model(text, opset, ir=11)
    proto.configuration.add(name="two", num_devices=2)
    placed = proto.graph.node[0].device_configurations.add(configuration_id="two")
    for value in values:
        placed.sharding_spec.add(tensor_name=value, device=[0, 1])
    return proto


def _shardings(proto: ModelProto) -> list[tuple[str, str]]:
    return [
        (node.op_type, spec.tensor_name)
        for node in proto.graph.node
        for configuration in node.device_configurations
        for spec in configuration.sharding_spec
    ]


needs_devices = pytest.mark.skipif(
    not hasattr(ModelProto(), "configuration"), reason="this onnx has no device configurations"
)


def node(text: str, **values_by_configuration: list[str]) -> NodeProto:
    (made,) = model(f"(x) => (y) {{ {text} }}").graph.node
    for name, values in values_by_configuration.items():
        configuration = made.device_configurations.add(configuration_id=name)
        for value in values:
            configuration.sharding_spec.add(tensor_name=value)
    return made


def specs(one: NodeProto) -> dict[str, list[str]]:
    return {
        configuration.configuration_id: [s.tensor_name for s in configuration.sharding_spec]
        for configuration in one.device_configurations
    }


@needs_devices
def test_each_new_node_gets_the_shardings_of_its_values_in_the_same_configuration():
    proto = model("(float[2] x) => (float[2] y) { y = Neg(b) }", 18)
    proto.graph.node[0].CopyFrom(
        node("y = Neg(b)", two=["x", "b", "y", "gone", "lost"], four=["x"])
    )
    document = Document(proto)
    first, second = node("a = Exp(x)", two=[], four=[]), node("b = Add(a, x)", four=[])
    place = (document.main, 0)
    move_shardings(document, place, [first, second])
    assert specs(first) == {"two": ["x"], "four": ["x"]}
    assert specs(second) == {"four": ["x"]}
    assert specs(document.main.node(0)) == {"two": ["b", "y", "gone", "lost"], "four": []}
    assert document.sharded.keys() == {place}
    lost, gone = settle(document)  # these values are nowhere any more
    assert "'lost' from Neg 'y'" in lost
    assert "'gone' from Neg 'y'" in gone
    assert specs(document.main.node(0)) == {"two": ["b", "y"], "four": []}


@needs_devices
def test_a_node_without_shardings_needs_no_check():
    proto = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 18)
    proto.graph.node[0].CopyFrom(node("y = Neg(x)", two=[]))
    document = Document(proto)
    move_shardings(document, (document.main, 0), [])
    assert not document.sharded


@needs_devices
def test_shardings_of_removed_nodes_are_not_mentioned():
    proto = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 18)
    proto.graph.node[0].CopyFrom(node("y = Neg(x)", two=["gone"]))
    document = Document(proto)
    document.sharded[document.main, 0] = None
    document.remove([(document.main, 0)])
    assert settle(document) == []


def test_a_node_holds_its_inputs_and_outputs():
    (one,) = model("(x) => (y) { y = Add(x, k) }").graph.node
    assert [holds(one, name) for name in ("x", "k", "y", "z")] == [True, True, True, False]


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
    proto = model(INT4, 21, ir=10)
    weight = proto.graph.initializer.add(
        name="w", data_type=TensorProto.INT4, dims=[4], raw_data=b"\x12\x12", doc_string="weights"
    )
    weight.metadata_props.add(key="k", value="v")
    note = proto.graph.quantization_annotation.add(tensor_name="w")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    proto.graph.value_info.append(helper.make_tensor_value_info("w", TensorProto.INT4, [4]))
    return proto


def test_the_constant_that_takes_the_place_of_another_inherits_its_name():
    after = convert_version(_int4(), 13, ir_version="keep")
    (weight,) = [tensor for tensor in after.graph.initializer if tensor.name == "w"]
    assert weight.data_type == TensorProto.INT8
    assert (weight.doc_string, weight.metadata_props[0].value) == ("weights", "v")
    assert after.graph.quantization_annotation[0].tensor_name == "w"
    assert "w" not in [value.name for value in after.graph.value_info]
    onnx.checker.check_model(after, full_check=True)


def test_an_inner_graph_declares_the_constant_that_inherits_a_name():
    """onnxruntime rejects a branch with a declaration that contradicts an outer weight."""
    proto = model(
        """(bool c, int64[2] i) => (float[2,2] y) <float[3,2] w = {1,2,3,4,5,6}> {
        y = If (c) <then_branch = t () => (float[2,2] a) { a = Gather(w, i) },
                    else_branch = e () => (float[2,2] b) { k = Gather(w, i) b = Neg(k) }> }""",
        11,
    )
    branches = [attribute.g for attribute in proto.graph.node[0].attribute]
    for branch in branches:
        branch.value_info.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3, 2]))
    after = convert_version(proto, 10)
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
    proto = model(text, 13)
    note = proto.graph.quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    proto.graph.initializer.append(helper.make_tensor("s", TensorProto.FLOAT, [], [1.0]))
    onnx.save(proto, tmp_path / "in.onnx")
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
