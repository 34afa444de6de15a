# SPDX-License-Identifier: Apache-2.0
"""An illegal node makes the model invalid, and the adapter of the node is not blamed.

onnx checks the nodes of its own domains. Only opshift checks the nodes of a vendor's database or of
an operator-set document, and adapters rely on these descriptions.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, TypeProto, helper
from opshift import AdapterBug, InvalidModel, Refused, check, convert_version, testing
from opshift.opsets import layouts
from opshift.opsets.schemas import element_name
from opshift.testing import example_models

DOMAIN = "com.microsoft"
DEEP = "OPSHIFT_PROPERTIES" in os.environ
PARTS = 4 if DEEP else 24
NUMBERS = [kind for kind in TensorProto.DataType.values() if kind]
VALUES = (3, -1, 0, 2.5, "x", [1, -1], [0.5], ["a"], 2**62, float("nan"))


def described() -> list[tuple[str, ModelProto, int]]:
    """Returns each example of an adapter that leaves a domain, and the position of its node."""
    found = []
    for adapter, example in testing.examples("opshift_adapters"):
        legal = example.refuses is None and example.invalid is None
        if adapter.domain == DOMAIN and legal and not example_models.too_new(adapter, example):
            model = testing.example_model(adapter, example)
            places = [at for at, node in enumerate(model.graph.node) if node.op_type in adapter.ops]
            found += [(f"{adapter.ops[0]} {example.title}", model, at) for at in places]
    return found


EXAMPLES = described()


def changed(model: ModelProto, at: int) -> tuple[ModelProto, NodeProto]:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy, copy.graph.node[at]


def type_of(model: ModelProto, name: str) -> TypeProto | None:
    for tensor in model.graph.initializer:
        if tensor.name == name:
            return helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return next((value.type for value in model.graph.input if value.name == name), None)


def of_other_types(model: ModelProto, at: int) -> Iterator[tuple[str, ModelProto]]:
    """Returns the node with another type of one input: one legal type, and one illegal type."""
    node = model.graph.node[at]
    schema = layouts.layout(DOMAIN, node.op_type, 1)
    for i, name in enumerate(node.input):
        param, kind = schema.input_at(i), type_of(model, name)
        if param is None or kind is None or not kind.HasField("tensor_type"):
            continue
        others = [number for number in NUMBERS if number != kind.tensor_type.elem_type]
        listed = [other for other in others if f"tensor({element_name(other)})" in param.types]
        params = [schema.input_at(j) for j, n in enumerate(node.input) if n and j != i]
        shared = any(
            parameter is not None and parameter.variable == param.variable for parameter in params
        )
        unlisted = [other for other in others if other not in listed]
        for word, kinds in (("mixed", listed if shared else []), ("unlisted", unlisted)):
            for one in kinds[:1]:
                copy, own = changed(model, at)
                own.input[i] = "odd"
                copy.graph.input.add(name="odd").type.CopyFrom(kind)
                copy.graph.input[-1].type.tensor_type.elem_type = one
                yield f"{word} {param.name} {element_name(one)}", copy


def of_other_forms(model: ModelProto, at: int) -> Iterator[tuple[str, ModelProto]]:
    """The node with fewer or omitted inputs, and with other attributes."""
    node = model.graph.node[at]
    for i in range(len(node.input)):
        copy, own = changed(model, at)
        own.input[i] = ""
        yield f"without input {i}", copy
        copy, own = changed(model, at)
        del own.input[i:]
        yield f"with {i} inputs", copy
    for i, attribute in enumerate(node.attribute):
        copy, own = changed(model, at)
        del own.attribute[i]
        yield f"without {attribute.name}", copy
        for value in VALUES:
            copy, own = changed(model, at)
            own.attribute[i].CopyFrom(helper.make_attribute(attribute.name, value))
            yield f"{attribute.name}={value!r}", copy


def fate(model: ModelProto) -> str:
    """Returns the outcome of a conversion to plain ONNX; undocumented errors fail the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            convert_version(model, domains=["ai.onnx", "ai.onnx.ml"])
    except (InvalidModel, Refused) as error:
        return type(error).__name__
    return "converted"


@pytest.mark.parametrize("part", range(PARTS if DEEP else 2))
def test_types_that_contradict_the_description(part: int) -> None:
    for title, model, at in EXAMPLES[part::PARTS]:
        for what, variant in of_other_types(model, at):
            wanted = "InvalidModel" if what.startswith("mixed") else "Refused"
            assert fate(variant) == wanted, (title, what)


@pytest.mark.parametrize("part", range(PARTS if DEEP else 2))
def test_forms_that_contradict_the_description(part: int) -> None:
    for title, model, at in EXAMPLES[part::PARTS]:
        for what, variant in of_other_forms(model, at):
            assert fate(variant), (title, what)


def test_two_types_of_one_variable_are_named() -> None:
    """A converter to float16 may leave a cosine of float16 next to data of float."""
    (model, at) = next((m, at) for t, m, at in EXAMPLES if t.startswith("RotaryEmbedding"))
    found = dict(of_other_types(model, at))
    variant = next(one for what, one in found.items() if what.startswith("mixed cos_cache"))
    with pytest.raises(InvalidModel, match=r"of type tensor\(float\) and 'odd' of type .* as one"):
        convert_version(variant, domains=["ai.onnx"])
    findings = [finding for finding in check(variant).found if finding.rule == "VENDOR_NODE"]
    assert [finding.level for finding in findings] == ["warning"]
    assert "'odd'" in findings[0].text
    assert not [finding for finding in check(model).found if finding.rule == "VENDOR_NODE"]


def test_a_type_that_a_later_release_may_accept_is_refused_and_not_invalid() -> None:
    (model, at) = next((m, at) for t, m, at in EXAMPLES if t.startswith("BiasGelu"))
    for what, variant in of_other_types(model, at):
        if what.startswith("unlisted"):
            with pytest.raises(Refused, match="which its adapter does not support"):
                convert_version(variant, domains=["ai.onnx"])
            assert not [
                finding for finding in check(variant).found if finding.rule == "VENDOR_NODE"
            ]


@pytest.mark.parametrize("op", ["Add", "Where", "Max", "Clip"])
def test_operators_of_onnx_have_one_type_for_each_variable(op: str) -> None:
    """The model is at fault, also if the mixed types are in a subgraph."""
    names = {"Add": "xy", "Where": "cxy", "Max": "xy", "Clip": "xy"}[op]
    kinds = {"x": TensorProto.FLOAT, "y": TensorProto.INT64, "c": TensorProto.BOOL}
    inputs = [helper.make_tensor_value_info(n, kinds[n], []) for n in names]
    output = helper.make_tensor_value_info("z", TensorProto.FLOAT, [])
    graph = helper.make_graph([helper.make_node(op, [*names], ["z"])], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (texts,) = [finding.text for finding in check(model).found if finding.level == "error"]
    assert texts == f"{op} 'z' reads 'x' of type tensor(float) and 'y' of type tensor(int64) as one type"  # fmt: skip
    for target in (21, 13, 11, 7, 1):
        try:
            convert_version(model, target)
        except AdapterBug:
            pytest.fail(f"the adapter is blamed at {target}")
        except (InvalidModel, Refused):
            pass


def test_an_unknown_attribute_may_be_of_a_later_release() -> None:
    (model, at) = next((m, at) for t, m, at in EXAMPLES if t.startswith("BiasGelu"))
    variant, node = changed(model, at)
    node.attribute.add(name="later", type=AttributeProto.INT)
    with pytest.raises(Refused, match="'later', which its adapter does not support"):
        convert_version(variant, domains=["ai.onnx"])
