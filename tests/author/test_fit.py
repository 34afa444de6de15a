# SPDX-License-Identifier: Apache-2.0
"""No function of an author gets a node that does not fit its schema."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

import onnx
import pytest
from onnx import AttributeProto, NodeProto, helper, numpy_helper
from opshift import AdapterBug, check, convert_version
from opshift.adapter import Builder, Flaw, Fold, Node, Result, adapter
from opshift.author import fit
from opshift.author.traits import Trait
from opshift.convert.legal.findings import UNJUDGED
from opshift.opsets import schemas
from text_models import model

np = pytest.importorskip("numpy")
NEWEST = schemas.latest("") or 0
READERS = "a = Reshape(x, y) b = Slice(x, y, y, y, y) c = Expand(x, y) d = Tile(x, y) e = Pad(x, y)"


def malformed(schema: schemas.Schema) -> Iterator[NodeProto]:
    """Nodes with wrong numbers of inputs and outputs, and with wrong attributes."""
    least, most = schema.min_input, max(schema.min_input, len(schema.inputs))
    for inputs, outputs in ((0, 1), (least - 1, 1), (most + 1, 1), (least, 0), (least, 9)):
        if inputs >= 0:
            yield helper.make_node(
                schema.name, ["k"] * inputs, [*"y", *"opqrstuvw"][:outputs], domain=schema.domain
            )
    for name in (*[*schema.attributes][:2], "no_such_attribute"):
        node = helper.make_node(schema.name, ["k"] * least, ["y"], domain=schema.domain)
        attribute = AttributeProto(name=name, type=AttributeProto.STRINGS, strings=[b"a"])
        node.attribute.extend([attribute, attribute])
        yield node


def holder(node: NodeProto) -> onnx.ModelProto:
    """A model in which other nodes read the node's output as a constant."""
    proto = model(f"(float[2,3] x) => (float z) {{ {READERS} z = Neg(a) }}", NEWEST)
    if node.domain:
        proto.opset_import.add(domain=node.domain, version=schemas.latest(node.domain) or 1)
    proto.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], "i8"), "k"))
    proto.graph.node.insert(0, node)
    return proto


OPERATORS = [
    (domain, op) for domain in ("", "ai.onnx.ml") for op in sorted(schemas.operators(domain))
]


@pytest.mark.parametrize("part", range(4))
def test_no_malformed_node_stops_the_check_of_a_model(part: int) -> None:
    """The other rules still check the rest of the model."""
    for domain, op in OPERATORS[part :: 4 if "OPSHIFT_PROPERTIES" in os.environ else 9]:
        schema = schemas.schema(domain, op, schemas.latest(domain) or 0)
        for node in malformed(schema) if schema is not None else ():
            findings = check(holder(node)).found
            assert UNJUDGED not in {finding.rule for finding in findings}, (op, findings)
            if not fit.fits(node, schema):
                assert any(op in finding.text for finding in findings), (op, node)


def test_folds_see_only_nodes_that_fit(with_adapters) -> None:
    seen: list[int] = []

    def run(node: Node) -> None:
        seen.append(len(node.proto.input))

    with_adapters(Fold(ops=("CumSum",), run=run))
    for inputs in (["k"], ["k", "k"], ["k", "k", "k"]):
        check(holder(helper.make_node("CumSum", inputs, ["y"])))
    assert set(seen) == {2}


def trip(node: Node) -> None:
    raise KeyError("trip")


@pytest.mark.parametrize("kind", [Flaw, Fold], ids=["flaw", "fold"])
def test_an_exception_of_an_author_is_a_finding(kind: type[Trait], with_adapters) -> None:
    told = {"find_objection": trip} if kind is Flaw else {"run": trip}
    with_adapters(kind(ops=("CumSum",), **told))
    made = holder(helper.make_node("CumSum", ["k", "k"], ["y"]))
    made.graph.node.add(op_type="Sofmax", input=["x"], output=["w"])
    found = {finding.rule: finding for finding in check(made).found}
    assert "cannot be judged" in found[UNJUDGED].text
    assert "fails on CumSum 'y': KeyError('trip')" in found[UNJUDGED].text
    assert found[UNJUDGED].level == "warning"
    assert "OPERATOR" in found, "the other rules go on"


def test_the_search_for_a_reason_does_not_hide_the_failure(with_adapters) -> None:
    @adapter("Softmax", 12, 13)
    def fail(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return (op.Identity(node["input"]),)[7]

    with_adapters(fail, Flaw(ops=("Neg",), find_objection=trip), Fold(ops=("Sin",), run=trip))
    text = "(float[2] x) => (float[2] y) <float[2] k = {1.0, 2.0}> { s = Sin(k) r = Add(x, s) n = Neg(r) y = Softmax<axis=0>(n) }"
    with pytest.raises(AdapterBug, match="tuple index out of range"):
        convert_version(model(text), 13)


def test_an_operator_without_a_schema_at_its_version_fits_nothing() -> None:
    node = helper.make_node("Clip", ["x"], ["y"])
    assert not fit.fits(node, None)
    assert fit.fits(helper.make_node("Clip", ["x"], ["y"], domain="acme"), None)


UNFIT = [
    ("Relu", 1, 1, {}, ""),
    ("Relu", 0, 1, {}, "has 0 inputs; at opset 13 it must have 1 to 1"),
    ("Relu", 2, 1, {}, "has 2 inputs; at opset 13 it must have 1 to 1"),
    ("Relu", 1, 0, {}, "has 0 outputs; at opset 13 it must have 1 to 1"),
    ("Clip", 3, 1, {}, ""),
    ("Clip", 4, 1, {}, "has 4 inputs; at opset 13 it must have 1 to 3"),
    ("Constant", 0, 1, {"value_int": 1}, ""),
    ("Constant", 1, 1, {"value_int": 1}, "has 1 inputs; at opset 13 it must have 0 to 0"),
    ("Max", 3, 1, {}, ""),
    ("Softmax", 1, 1, {"axis": 1}, ""),
    ("Softmax", 1, 1, {"axis": 1.0}, "attribute 'axis' is FLOAT, not INT"),
    ("Softmax", 1, 1, {"axes": 1}, "Softmax-13 has no attribute 'axes'"),
    ("Cast", 1, 1, {"to": 1}, ""),
    ("Cast", 1, 1, {}, "attribute 'to' is missing"),
]  # fmt: skip


def node_of(op: str, inputs: int, outputs: int, attributes: dict[str, object]) -> NodeProto:
    return helper.make_node(op, [*"abcd"][:inputs], [*"wxyz"][:outputs], **attributes)


@pytest.mark.parametrize(("op", "inputs", "outputs", "attributes", "sentence"), UNFIT)
def test_what_does_not_fit_is_one_sentence(op, inputs, outputs, attributes, sentence):
    schema, node = schemas.schema("", op, 13), node_of(op, inputs, outputs, attributes)
    found = [*fit.unfit(node, schema, 13)]
    assert len(found) == bool(sentence)
    assert all(one.endswith(sentence) for one in found)
    assert fit.fits(node, schema) == (not sentence)


def test_an_open_schema_limits_only_what_it_lists():
    """A later release of a vendor may have more attributes, inputs and outputs."""
    texts = []
    for op, inputs, outputs, attributes, sentence in UNFIT:
        schema = dataclasses.replace(schemas.schema("", op, 13), open=True)
        node = node_of(op, inputs, outputs, attributes)
        found = [text.partition(" ")[2] for text in fit.unfit(node, schema, 13)]
        assert fit.fits(node, schema) == (not found)
        assert sentence or not found
        texts += found
    assert texts == [
        "'w' has 0 inputs; at opset 13 it must have at least 1",
        "'' has 0 outputs; at opset 13 it must have at least 1",
        "'w': attribute 'axis' is FLOAT, not INT",
        "'w': attribute 'to' is missing",
    ]


def test_a_required_input_is_not_omitted():
    schema = schemas.schema("", "Clip", 13)
    node = helper.make_node("Clip", ["", "", "max"], ["y"])
    assert [*fit.unfit(node, schema, 13)] == ["Clip 'y' omits its input 'input', which Clip needs"]
    assert not fit.fits(node, schema)
    node.input[0] = "x"
    assert fit.fits(node, schema)


def test_the_inputs_of_one_variable_have_one_type():
    schema, node = schemas.schema("", "Where", 16), helper.make_node("Where", ["c", "x", "y"], "z")
    types = {"c": "tensor(bool)", "x": "tensor(float)", "y": "tensor(float)"}
    assert not [*fit.faults(node, schema, types.get)]
    wrong = {**types, "c": "tensor(float)", "y": "tensor(int64)"}
    assert [*fit.faults(node, schema, wrong.get)] == [
        "Where 'z' reads 'c' of type tensor(float), which the operator does not accept",
        "Where 'z' reads 'x' of type tensor(float) and 'y' of type tensor(int64) as one type",
    ]
    later = dataclasses.replace(schema, open=True)
    assert len([*fit.faults(node, later, wrong.get)]) == 1
    assert not [*fit.faults(node, schema, {}.get)]


def test_an_attribute_is_set_once():
    node = node_of("Softmax", 1, 1, {"axis": 1})
    node.attribute.append(node.attribute[0])
    (found,) = fit.unfit(node, schemas.schema("", "Softmax", 13), 13)
    assert found.endswith("attribute 'axis' is set twice")


def test_a_number_without_an_upper_limit_has_a_lower_one():
    open_ended = dataclasses.replace(schemas.schema("", "Relu", 13), max_input=-1)
    (found,) = fit.unfit(node_of("Relu", 0, 1, {}), open_ended, 13)
    assert found.endswith("has 0 inputs; at opset 13 it must have at least 1")


def test_what_a_node_gets_later_is_not_missing_and_kinds_count_outside_of_functions():
    cast = schemas.schema("", "Cast", 13)
    assert not [*fit.unfit(node_of("Cast", 1, 1, {}), cast, 13, elsewhere=["to"])]
    node = node_of("Cast", 1, 1, {"to": 1.0})
    assert [*fit.unfit(node, cast, 13)]
    assert not [*fit.unfit(node, cast, 13, is_inner=True)]


def test_attributes_count_only_if_the_schema_states_them():
    unstated = dataclasses.replace(schemas.schema("", "Relu", 13), stated=False)
    assert not [*fit.unfit(node_of("Relu", 1, 1, {"alpha": 1.0}), unstated, 13)]


def test_without_a_schema_a_node_fits_unless_other_versions_have_one():
    assert fit.fits(NodeProto(op_type="Run", domain="com.acme"), None)
    assert not fit.fits(node_of("Mish", 1, 1, {}), schemas.schema("", "Mish", 9))
