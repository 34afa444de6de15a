# SPDX-License-Identifier: Apache-2.0
"""Tests the readers of a value, the nodes that may replace it, and free names."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, helper
from opshift import Refused, Why, convert_version
from opshift.adapter import Builder, Node, Result, adapter
from opshift.errors import Refusal
from opshift.model.document import Document
from opshift.model.names import bound_names, unused_prefix
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
    """A new text field of onnx fails this test until a person decides if it names a value."""
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


TRAINING = ', "ai.onnx.preview.training" : 1'


def reads(document: Document, place: int = 0) -> dict[tuple[str | None, str], int]:
    """Returns how often each value is read, by the graph of the value and its name."""
    root = document.roots[place]
    counts = document.names.readers(root)
    for (owner, name), count in counts.items():
        assert document.names.count((owner, name), root) == count
        assert owner is None or document.names.is_read(owner, name)
    return {(owner and owner.proto.name, name): n for (owner, name), n in counts.items() if name}


def test_inputs_of_nodes_and_outputs_of_the_graph_are_reads():
    document = Document(
        model("(float[2] x) => (float[2] y, float[2] a) { a = Add(x, x) y = Sub(a, x) u = Neg(z) }")
    )
    assert reads(document) == {
        ("g", "x"): 3, ("g", "a"): 2, ("g", "y"): 1, (None, "z"): 1,
    }  # fmt: skip
    assert not document.names.is_read(document.main, "u")


def test_removed_nodes_read_nothing():
    document = Document(model("(float[2] x) => (float[2] y) { a = Neg(x) y = Abs(x) }"))
    assert reads(document)["g", "x"] == 2
    document.remove([(document.main, 0)])
    assert reads(document)["g", "x"] == 1
    assert not document.names.is_read(document.main, "a")


LOOP = """(float[2] x, int64 n, bool t) => (float[2] y) { a = Neg(x)
    y = Loop (n, t, a) <body = l (int64 i, bool k, float[2] BODY) => (bool q, float[2] r) {
        q = Identity(k) p = Add(BODY, a) r = Mul(p, x) }> }"""


def test_a_subgraph_reads_the_values_around_it():
    assert reads(Document(model(LOOP.replace("BODY", "v")))) == {
        ("g", "x"): 2, ("g", "n"): 1, ("g", "t"): 1, ("g", "a"): 2, ("g", "y"): 1,
        ("l", "k"): 1, ("l", "v"): 1, ("l", "p"): 1, ("l", "q"): 1, ("l", "r"): 1,
    }  # fmt: skip


def test_a_name_of_the_subgraph_hides_the_value_around_it():
    counts = reads(Document(model(LOOP.replace("BODY", "a"))))
    assert (counts["g", "a"], counts["l", "a"]) == (1, 2)


def test_each_branch_has_values_of_its_own():
    document = Document(
        model("""(float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] r) { s = Neg(x) r = Mul(s, s) },
                    else_branch = e () => (float[2] r) { s = Abs(x) r = Add(s, x) }> }""")
    )
    counts = reads(document)
    assert (counts["t", "s"], counts["e", "s"], counts["g", "x"]) == (2, 1, 3)


def test_each_function_is_counted_alone():
    document = Document(model("""(float[2] x) => (float[2] y) { a = Neg(x) y = own.F(a) }
        <opset_import: ["" : 18], domain: "own"> F (x) => (y) { a = Add(x, x) y = Mul(a, x) }""",
        18, more=', "own" : 1'))  # fmt: skip
    assert reads(document) == {("g", "x"): 1, ("g", "a"): 1, ("g", "y"): 1}
    assert reads(document, 1) == {("F", "x"): 3, ("F", "a"): 1, ("F", "y"): 1}
    assert [document.names.family(root) for root in document.roots] == [
        [root] for root in document.roots
    ]


def test_annotations_read_their_scales():
    for text in (
        "(float[2] x) => (float[2] y) <float s = {1}> { y = Neg(x) }",
        LOOP.replace("BODY", "v"),
    ):
        proto = model(text)
        note = proto.graph.quantization_annotation.add(tensor_name="y")
        note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x")
        assert reads(Document(proto))["g", "x"] == reads(Document(model(text)))["g", "x"] + 1


def trained(*, algorithm: bool = True, initialization: bool = True, ir: int = 8) -> ModelProto:
    """A model whose second training algorithm sets two weights, one of them its own."""
    proto = model(
        "(float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] k = {3, 4}> { y = Mul(x, w) }",
        18, ir, TRAINING,
    )  # fmt: skip
    proto.training_info.add()
    info = proto.training_info.add()
    if initialization:
        first = model("() => (float[2] w0) { w0 = Constant<value = float[2] {0, 0}>() }").graph
        first.name = "first"
        info.initialization.CopyFrom(first)
    if algorithm:
        step = model("""() => (float[2] w1, float r1) <float r = {1}> { z = Sub(y, w) r1 = Neg(r)
            d = ai.onnx.preview.training.Gradient<xs = ["w"], y = "z">(w) w1 = Mul(d, r) }""").graph
        step.name = "step"
        info.algorithm.CopyFrom(step)
    info.initialization_binding.add(key="w", value="w0")
    info.update_binding.add(key="w", value="w1" if algorithm else "y")
    if algorithm:
        info.update_binding.add(key="r", value="r1")
    return proto


def test_training_reads_the_values_of_the_main_graph_and_those_it_binds():
    document = Document(trained())
    main, first, step = document.roots
    assert reads(document) == {
        ("g", "x"): 1,
        ("g", "w"): 1 + 2 + 1 + 2,  # Mul, two nodes of the algorithm, Gradient's name, bindings
        ("g", "y"): 1 + 1,
        ("step", "z"): 1,  # in an attribute of Gradient
        ("step", "d"): 1,
        ("step", "r"): 2 + 1,
        ("step", "w1"): 1 + 1,
        ("step", "r1"): 1 + 1,
    }
    assert reads(document, 1) == {("first", "w0"): 1 + 1}
    assert reads(document, 2) == reads(document)
    family = document.names.family
    assert [family(root) for root in (main, first, step)] == [[main, step], [first], [main, step]]


def test_training_without_an_algorithm_binds_values_of_the_main_graph():
    document = Document(trained(algorithm=False))
    assert reads(document) == {("g", "x"): 1, ("g", "w"): 1 + 2, ("g", "y"): 1 + 1}
    assert reads(document, 1) == {("first", "w0"): 1 + 1}


def test_a_binding_to_a_value_that_does_not_exist_reads_nothing_else():
    document = Document(trained(initialization=False))
    assert len(document.roots) == 2
    assert reads(document)["g", "w"] == 6
    assert not [name for _, name in reads(document) if name == "w0"]


def test_strings_of_other_operators_are_no_names():
    text = '(float[2] x) => (float[2] y) { y = own.Run<xs = ["x"], y = "x">(x) }'
    assert reads(Document(model(text, more=', "own" : 1')))["g", "x"] == 1


@pytest.mark.parametrize(("ir", "expected"), [(3, False), (4, True), (8, True)])
def test_an_initializer_that_is_an_input_is_a_default_from_ir_4_on(ir, expected):
    proto = model("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }", ir=ir)
    proto.graph.input.append(helper.make_tensor_value_info("w", 1, [2]))
    document = Document(proto)
    assert document.names.may_be_set(document.main, "w") is expected


def test_training_may_set_what_it_binds_and_nothing_else():
    document = Document(trained(ir=3))
    main, _, step = (root.top for root in document.roots)
    assert document.names.bound == {(main, "w"), (step, "r")}
    assert [document.names.may_be_set(main, name) for name in ("w", "k")] == [True, False]
    assert document.names.may_be_set(step, "r")
    assert bound_names(trained()) == {"w", "r"}
    plain = Document(model("(float[2] x) => (float[2] y) { y = Neg(x) }"))
    assert plain.names.bound == set() == bound_names(plain.model)


@pytest.mark.parametrize("number", range(4))
def test_the_prefix_of_new_names_is_in_no_name_of_the_model(number):
    taken = [b"opshift_", b"opshift1_", b"opshift2_", b"opshift3_"]
    prefix = unused_prefix(b" ".join(taken[:number]))
    assert prefix.encode() == taken[number]


CLIP = "(float[4] x) => (float[4] y) <float low = {0}, float high = {6}> { y = Clip(x, low, high) }"
COMPUTED = """(float[4] x) => (float[4] y) <float low = {0}, float one = {3}>
    { high = Add(one, one) y = Clip(x, low, high) }"""


def _trained(text: str, name: str, binding: str) -> ModelProto:
    proto = model(text, 12)
    training = proto.training_info.add()
    part = "initialization" if binding == "initialization_binding" else "algorithm"
    graph = "step () => (float new) { new = Constant<value = float {3.0}>() }"
    getattr(training, part).CopyFrom(onnx.parser.parse_graph(graph))
    getattr(training, binding).add(key=name, value="new")
    return proto


@pytest.mark.parametrize("binding", ["initialization_binding", "update_binding"])
@pytest.mark.parametrize(("text", "name"), [(CLIP, "high"), (COMPUTED, "one")])
def test_what_training_sets_is_no_constant(text, name, binding):
    after = convert_version(_trained(text, name, binding), 9)
    assert "Min" in ops(after)
    assert name in [tensor.name for tensor in after.graph.initializer]


def test_a_refusal_says_that_training_may_change_the_value(with_adapters):
    @adapter("Squeeze", 13, 12)
    def demanding(node: Node, op: Builder) -> Result:
        """An adapter that needs the axes as constants."""
        return op.same(node, inputs={"axes": None}, axes=node["axes"].const().tolist())

    with_adapters(demanding)
    text = "(float[2,1,3] x) => (float[2,3] y) <int64[1] a = {1}> { y = Squeeze(x, a) }"
    made = _trained(text, "a", "update_binding")
    made.opset_import[0].version = 13
    with pytest.raises(Refused, match="training may change it"):
        convert_version(made, 12)


def test_what_a_training_algorithm_reads_stays():
    proto = model(CLIP, 12)
    text = "step () => (float seen) { seen = Neg(high) }"
    proto.training_info.add().algorithm.CopyFrom(onnx.parser.parse_graph(text))
    after = convert_version(proto, 10)
    assert ops(after) == "Clip"
    assert [tensor.name for tensor in after.graph.initializer] == ["high"]


def test_what_an_operator_names_in_an_attribute_stays():
    proto = model(CLIP, 12, more=', "ai.onnx.preview.training" : 1')
    step = proto.training_info.add().algorithm
    step.node.append(
        helper.make_node(
            "Gradient", ["x"], ["d"], xs=["high"], y="y", domain="ai.onnx.preview.training"
        )
    )
    step.name = "step"
    after = convert_version(proto, 10, check=False)
    assert [tensor.name for tensor in after.graph.initializer] == ["high"]


def test_what_an_annotation_names_as_a_parameter_stays():
    proto = model(CLIP, 12)
    note = proto.graph.quantization_annotation.add(tensor_name="y")
    note.quant_parameter_tensor_names.add(key="MAX", value="high")
    after = convert_version(proto, 10)
    assert [tensor.name for tensor in after.graph.initializer] == ["high"]


def test_what_only_removed_nodes_read_is_removed_with_its_types():
    proto = model(
        """(float[2,3] x) => (float[a,b] y) <int64[1] k = {1}> {
            s = Shape(x) e = Gather(s, k) e2 = Identity(e) dead = Neg(e2)
            y = Slice(x, k, e2, k) }""",
        10,
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("e2", TensorProto.INT64, [1]))
    after = convert_version(proto, 9)
    # Slice-1 has its ends as attributes; `dead` was unread before, and it still reads e2.
    assert {"Shape", "Neg"} <= set(ops(after).split())
    del proto.graph.node[3]
    after = convert_version(proto, 9)
    assert ops(after) == "Slice"
    assert not after.graph.value_info
    assert not after.graph.initializer


def test_a_node_that_nobody_reads_any_more_blocks_nothing(with_adapters):
    @adapter("Max", 12, 11)
    def impossible(node: Node, op: Builder) -> Result:
        """An adapter that always refuses."""
        raise Refusal(Why.NOT_EXPRESSIBLE, "for this test")

    with_adapters(impossible)
    text = """(float[2,1,3] x) => (float[2,3] y) <int64[1] a = {1}> {
        axes = Max(a, a) y = Squeeze(x, axes) MORE }"""
    after = convert_version(model(text.replace("MORE", ""), 13), 11)
    assert ops(after) == "Squeeze"
    with pytest.raises(Refused):  # what nobody read before is the model's own
        convert_version(model(text.replace("MORE", "dead = Max(a, a)"), 13), 11)
