# SPDX-License-Identifier: Apache-2.0
"""The rules of ONNX's IR documents: each rule finds its faults, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from onnx import ModelProto, helper
from opshift.author import registry
from opshift.convert.legal import ir_rules
from opshift.convert.legal.findings import Checked
from opshift.model.document import Document
from text_models import model

RULES = {rule.code: rule for rule in ir_rules.RULES}
NESTED = """(bool c, float[2] x) => (float[2] y) { a = Neg(x) y = If(c)
    <then_branch = t () => (float[2] p) { p = Neg(a) }, else_branch = e () => (float[2] q) { q = Neg(a) }> }"""
FUNCTION = """(float[2] x) => (float[2] y) { a = own.d.F(x) y = own.d.F(a) }
    <domain: "own.d", opset_import: ["": 13]> F (u) => (w) { v = Neg(u) w = Neg(v) }"""
OWN = ', "own.d" : 1'


def texts(code: str, proto: ModelProto) -> list[str]:
    """Returns the messages of a rule about a model."""
    checked = Checked(Document(proto, "opshift_"), registry.default())
    return [finding.text for finding in RULES[code].findings(checked)]


def nested() -> ModelProto:
    return model(NESTED, 13, ir=8)


def branch(proto: ModelProto, number: int):
    return proto.graph.node[1].attribute[number].g


def calling() -> ModelProto:
    return model(FUNCTION, 13, ir=10, more=OWN)


def name_nodes(proto: ModelProto, *names: str) -> None:
    for node, name in zip(proto.graph.node, names, strict=False):
        node.name = name


@pytest.mark.parametrize("code", ir_rules.RULES, ids=lambda rule: rule.code)
def test_a_legal_model_breaks_no_rule(code) -> None:
    for proto in (nested(), calling()):
        assert texts(code.code, proto) == []


def two_nodes(proto: ModelProto) -> None:
    name_nodes(proto, "n", "n")


def nodes_of_a_function(proto: ModelProto) -> None:
    for node, name in zip(proto.functions[0].node, "mm", strict=True):
        node.name = name


def nodes_of_two_names(proto: ModelProto) -> None:
    proto.graph.node.extend(
        helper.make_node("Neg", ["x"], [f"z{i}"], name=f"n{i // 2}") for i in range(4)
    )


def unnamed_graphs(proto: ModelProto) -> None:
    for number in (0, 1):
        branch(proto, number).name = ""


def graphs_of_one_name(proto: ModelProto) -> None:
    branch(proto, 0).name = branch(proto, 1).name


def no_domain(proto: ModelProto) -> None:
    proto.domain = "here"


def import_of_no_domain(proto: ModelProto) -> None:
    proto.opset_import.add(domain="a b.c", version=1)


def node_of_no_domain(proto: ModelProto) -> None:
    proto.graph.node[0].domain = "-own.d"


def function_of_no_domain(proto: ModelProto) -> None:
    proto.functions[0].domain = "own"


def two_entries(proto: ModelProto) -> None:
    for key in "aba":
        proto.graph.metadata_props.add(key=key, value="v")


def node_identifier(proto: ModelProto) -> None:
    name_nodes(proto, "a-b", "good")


def node_identifiers(proto: ModelProto) -> None:
    name_nodes(proto, "a-b", "0")


def value_identifiers(proto: ModelProto) -> None:
    proto.graph.input[1].name = proto.graph.node[0].input[0] = "x/1"
    proto.graph.initializer.add(name="w:0", data_type=1, dims=[1], float_data=[1])
    branch(proto, 0).node[0].output[0] = branch(proto, 0).output[0].name = "p.q"


def graph_identifier(proto: ModelProto) -> None:
    branch(proto, 0).name = "then branch"


def function_identifier(proto: ModelProto) -> None:
    proto.functions[0].name = "F-1"


def lost_value_info(proto: ModelProto) -> None:
    branch(proto, 0).value_info.add(name="a")
    proto.graph.value_info.add(name="a")


def lost_value_infos(proto: ModelProto) -> None:
    for name in "lk":
        proto.graph.value_info.add(name=name)


def repeated_value_info(proto: ModelProto) -> None:
    for name in "aay":
        proto.graph.value_info.add(name=name)


def annotation_of_nothing(proto: ModelProto) -> None:
    note = proto.graph.quantization_annotation.add(tensor_name="lost")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="nowhere")
    note.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value="x")


def annotation_outside(proto: ModelProto) -> None:
    note = branch(proto, 0).quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="a")


def attribute_identifiers(proto: ModelProto) -> None:
    proto.graph.node[0].attribute.append(helper.make_attribute("a-b", 1))


def function_attribute_identifiers(proto: ModelProto) -> None:
    proto.functions[0].attribute.append("a.b")
    proto.functions[0].attribute_proto.append(helper.make_attribute("c d", 1))


def operator_identifier(proto: ModelProto) -> None:
    proto.graph.node[0].op_type = "1-Neg"


def dimension_identifier(proto: ModelProto) -> None:
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "batch size"


def dimension_identifier_of_a_function(proto: ModelProto) -> None:
    proto.functions[0].value_info.append(helper.make_tensor_value_info("v", 1, ["*"]))


def import_without_version(proto: ModelProto) -> None:
    proto.opset_import.add(domain="com.acme")


def unknown_quantization(proto: ModelProto) -> None:
    note = proto.graph.quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALES", value="x")


def repeated_quantization(proto: ModelProto) -> None:
    for _ in range(2):
        note = proto.graph.quantization_annotation.add(tensor_name="a")
        note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="y")


def unknown_denotation(proto: ModelProto) -> None:
    proto.graph.input[0].type.denotation = "TENSOR"
    proto.graph.input[1].type.denotation = "PICTURE"
    proto.graph.input[1].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"


def unknown_denotation_of_an_axis(proto: ModelProto) -> None:
    proto.graph.input[1].type.tensor_type.shape.dim[0].denotation = "WIDTH"


CASES: list[tuple[str, Callable[[], ModelProto], Callable[[ModelProto], None], list[str]]] = [
    ("NODE_NAME_TWICE", nested, two_nodes, ["several nodes of graph 'g' share the name 'n'; give each node its own name"]),
    ("NODE_NAME_TWICE", nested, nodes_of_two_names, ["several nodes of graph 'g' share the 2 names such as 'n0'; give each node its own name"]),
    ("NODE_NAME_TWICE", calling, nodes_of_a_function, ["several nodes of function 'F' share the name 'm'; give each node its own name"]),
    ("GRAPH_NAME", nested, unnamed_graphs, ["2 graphs without a name; add a name"]),
    ("GRAPH_NAME", nested, graphs_of_one_name, ["2 graphs are called 'e'; give each its own name"]),
    ("DOMAIN_NAME", nested, no_domain, ["domain 'here' is not a reverse DNS name; use a name such as com.acme"]),
    ("DOMAIN_NAME", nested, import_of_no_domain, ["domain 'a b.c' is not a reverse DNS name; use a name such as com.acme"]),
    ("DOMAIN_NAME", nested, node_of_no_domain, ["domain '-own.d' is not a reverse DNS name; use a name such as com.acme"]),
    ("DOMAIN_NAME", calling, function_of_no_domain, ["domain 'own' is not a reverse DNS name; use a name such as com.acme"]),
    ("METADATA_TWICE", nested, two_entries, ["the metadata of graph 'g' has 2 entries 'a'; keep one"]),
    ("NODE_IDENTIFIER", nested, node_identifier, ["a node name is not a C identifier, such as 'a-b'"]),
    ("NODE_IDENTIFIER", nested, node_identifiers, ["2 node names are not C identifiers, such as '0'"]),
    ("VALUE_IDENTIFIER", nested, value_identifiers, ["3 value names are not C identifiers, such as 'p.q'"]),
    ("GRAPH_IDENTIFIER", nested, graph_identifier, ["a graph name is not a C identifier, such as 'then branch'"]),
    ("GRAPH_IDENTIFIER", calling, function_identifier, ["a function name is not a C identifier, such as 'F-1'"]),
    ("VALUE_INFO_OF_NOTHING", nested, lost_value_info, ["value_info of graph 't' describes value 'a', which is not defined; remove the entry"]),
    ("VALUE_INFO_OF_NOTHING", nested, lost_value_infos, ["value_info of graph 'g' describes 2 values such as 'k', which is not defined; remove the entry"]),
    ("VALUE_INFO_TWICE", nested, repeated_value_info, ["value_info of graph 'g' describes value 'a' twice; keep one entry"]),
    ("ANNOTATION_OF_NOTHING", nested, annotation_of_nothing, [
        "a quantization annotation of graph 'g' describes 'lost', which is not defined; remove it",
        "the quantization annotation of 'lost' names 'nowhere' as its SCALE_TENSOR, but this value is not defined; correct the name"]),
    ("ANNOTATION_OF_NOTHING", nested, annotation_outside, ["a quantization annotation of graph 't' describes 'a', which is not defined; remove it"]),
    ("ATTRIBUTE_IDENTIFIER", nested, attribute_identifiers, ["an attribute name is not a C identifier, such as 'a-b'"]),
    ("ATTRIBUTE_IDENTIFIER", calling, function_attribute_identifiers, ["2 attribute names are not C identifiers, such as 'a.b'"]),
    ("OPERATOR_IDENTIFIER", nested, operator_identifier, ["an operator name is not a C identifier, such as '1-Neg'"]),
    ("DIMENSION_IDENTIFIER", nested, dimension_identifier, ["a dimension name is not a C identifier, such as 'batch size'"]),
    ("DIMENSION_IDENTIFIER", calling, dimension_identifier_of_a_function, ["a dimension name is not a C identifier, such as '*'"]),
    ("IMPORT_VERSION", nested, import_without_version, ["the import of domain 'com.acme' has no version; state it"]),
    ("ANNOTATION_OF_NOTHING", nested, unknown_quantization, ["the quantization annotation of 'a' has the key 'SCALES', which ONNX does not define; use one of SCALE_TENSOR, ZERO_POINT_TENSOR"]),
    ("ANNOTATION_OF_NOTHING", nested, repeated_quantization, [
        "graph 'g' has 2 quantization annotations of 'a'; keep one",
        "the quantization annotation of 'a' has 2 entries SCALE_TENSOR; keep one"]),
    ("UNKNOWN_DENOTATION", nested, unknown_denotation, ["value 'x' has the denotation 'PICTURE', which ONNX does not define; remove it, or use one that ONNX defines"]),
    ("UNKNOWN_DENOTATION", nested, unknown_denotation_of_an_axis, ["value 'x' has the denotation 'WIDTH', which ONNX does not define; remove it, or use one that ONNX defines"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "make", "change", "expected"),
    CASES,
    ids=[change.__name__ for _, _, change, _ in CASES],
)
def test_a_rule_names_what_breaks_it(
    code: str,
    make: Callable[[], ModelProto],
    change: Callable[[ModelProto], None],
    expected: list[str],
) -> None:
    proto = make()
    change(proto)
    assert texts(code, proto) == expected


# -- training ------------------------------------------------------------------------------------


def trained() -> ModelProto:
    """A model with training that sets one weight at the start and another one in each step."""
    proto = model("(float[2] x) => (float[2] y) { y = Add(x, w) }", 13, ir=8)
    proto.graph.initializer.add(name="w", data_type=1, dims=[1], float_data=[1])
    info = proto.training_info.add()
    info.initialization.CopyFrom(
        model("() => (float[1] s) { s = Constant<value = float[1] {1}>() }", 13).graph
    )
    info.algorithm.CopyFrom(model("(float[2] x) => (float[1] u) { u = Neg(m) }", 13).graph)
    info.algorithm.initializer.add(name="m", data_type=1, dims=[1], float_data=[1])
    for key in "wm":
        info.initialization_binding.add(key=key, value="s")
        info.update_binding.add(key=key, value="u")
    return proto


def test_bindings_of_initializers_to_outputs_are_legal() -> None:
    assert texts("TRAINING_BINDING", trained()) == []
    assert texts("TRAINING_INPUT", trained()) == []


@pytest.mark.parametrize(
    ("field", "part"),
    [("initialization_binding", "the initialization"), ("update_binding", "the algorithm")],
)
def test_a_binding_that_points_at_nothing_is_named(field: str, part: str) -> None:
    proto = trained()
    entries = getattr(proto.training_info[0], field)
    entries.add(key="y", value="x")
    entries.add(key="w", value="s" if field == "initialization_binding" else "u")
    at = f"training_info[0].{field}"
    assert texts("TRAINING_BINDING", proto) == [
        f"{at} sets 'y', which is not an initializer; correct the key",
        f"{at} reads 'x', which is not an output of {part}; correct the value",
        f"{at} sets 'w' 2 times; keep one",
    ]


def test_a_training_step_may_bind_an_output_of_the_main_graph() -> None:
    proto = trained()
    proto.training_info[0].update_binding[0].value = "y"
    assert texts("TRAINING_BINDING", proto) == []
    proto.training_info[0].initialization_binding[0].value = "y"
    assert len(texts("TRAINING_BINDING", proto)) == 1


def test_one_step_of_the_training_sets_an_initializer() -> None:
    proto = trained()
    proto.training_info.append(proto.training_info[0])
    del proto.training_info[1].update_binding[1]
    assert texts("TRAINING_BINDING", proto) == ["2 update_bindings set 'w'; keep one of them"]


def test_a_sparse_initializer_is_bound_and_a_missing_graph_has_no_output() -> None:
    proto = trained()
    proto.graph.sparse_initializer.add().values.name = "p"
    proto.training_info[0].update_binding.add(key="p", value="u")
    assert texts("TRAINING_BINDING", proto) == []
    proto.training_info[0].ClearField("initialization")
    assert len(texts("TRAINING_BINDING", proto)) == 2


def test_an_input_of_the_initialization_is_named() -> None:
    proto = trained()
    proto.training_info[0].initialization.input.add(name="i")
    message = "the initialization of training_info[0] has input 'i', but a caller cannot provide inputs; use an initializer"
    assert texts("TRAINING_INPUT", proto) == [message]
