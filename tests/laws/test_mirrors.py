# SPDX-License-Identifier: Apache-2.0
"""A derived rule of `--modernize` is the inverse of its adapter, for all types and attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from onnx import ModelProto, NodeProto, helper
from opshift import Request, convert, convert_version
from opshift.author import registry
from opshift.author.verdicts import Mirror
from opshift.convert.mirror import AXIS, FLOATS, KINDS, SHAPE, choices
from opshift.opsets import schemas
from opshift.opsets.elements import T
from opshift.opsets.targets import Lacking, RuntimeRelease
from opshift.opsets.wanted import Wanted

ADAPTERS = registry.default()
# the operator computes in another type than these nodes, so that they stay
STAYS = {
    ("LayerNormalization", "stash_type"): (T.FLOAT16, T.DOUBLE),
    ("RMSNormalization", "stash_type"): (T.FLOAT16,),
}


def nodes(mirror: Mirror, schema: schemas.Schema) -> Iterator[NodeProto]:
    """Yields nodes for each number of inputs and each choice of attributes; no float is a default."""
    least = sum(not param.optional for param in schema.inputs)
    floats = iter(FLOATS)
    numbers: dict[str, Any] = {
        name: next(floats) for name, attribute in schema.attributes.items()
        if isinstance(attribute.default, float)
    }  # fmt: skip
    numbers |= {"axis": AXIS} if "axis" in schema.attributes else {}
    for count in range(least, len(schema.inputs) + 1):
        names = [param.name for param in schema.inputs[:count]]
        for chosen in choices(mirror, ADAPTERS):
            yield helper.make_node(mirror.op, names, ["result"], **chosen, **numbers)


def models(mirror: Mirror, kind: int) -> Iterator[ModelProto]:
    schema = schemas.schema("", mirror.op, mirror.since)
    assert schema is not None
    if f"tensor({T(kind).element.name})" not in schema.inputs[0].types:
        return
    scale = SHAPE[AXIS:] if "axis" in schema.attributes else SHAPE
    for node in nodes(mirror, schema):
        inputs = [
            helper.make_tensor_value_info(name, kind, scale if at else SHAPE)
            for at, name in enumerate(node.input)
        ]
        outputs = [helper.make_tensor_value_info("result", kind, SHAPE)]
        graph = helper.make_graph([node], "law", inputs, outputs)
        opsets = [helper.make_opsetid("", mirror.since)]
        yield helper.make_model(graph, opset_imports=opsets, ir_version=10)


def written_out(mirror: Mirror, model: ModelProto) -> ModelProto:
    """Returns the model after the adapter of the rule replaced the operator."""
    if mirror.down.at_boundary:
        return convert_version(model, mirror.to)
    without = RuntimeRelease("edge", "", {}, None, "", without=(Lacking(mirror.op),))
    return convert(model, Request(Wanted(without))).model


def attributes(node: NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _bytes(default: Any) -> Any:
    return default.encode() if isinstance(default, str) else default


def stated(model: ModelProto, mirror: Mirror) -> list[tuple[str, list[str], dict[str, Any]]]:
    """Returns operator, inputs and attributes of each node, with default attributes."""
    schema = schemas.schema("", mirror.op, mirror.since)
    assert schema is not None
    usual = {name: _bytes(attribute.default) for name, attribute in schema.attributes.items()}
    usual = {
        name: value.encode() if isinstance(value, str) else value for name, value in usual.items()
    }
    return [(n.op_type, [*n.input], {**usual, **attributes(n)}) for n in model.graph.node]


@pytest.mark.parametrize(
    "mirror", ADAPTERS.each(Mirror), ids=[mirror.op for mirror in ADAPTERS.each(Mirror)]
)
def test_modernizing_what_the_adapter_writes_gives_the_operator(mirror: Mirror) -> None:
    if mirror.since > (schemas.latest("") or 0) or not schemas.history("", mirror.op):
        pytest.skip("the installed onnx is older than the operator")
    returned = 0
    for model in (model for kind in KINDS for model in models(mirror, kind)):
        older = written_out(mirror, model)
        if len(older.graph.node) < 2:
            continue  # a single node is never replaced
        again = convert_version(older, mirror.since, modernize=True)
        given = attributes(model.graph.node[0])
        if any(given.get(name) in kinds for (op, name), kinds in STAYS.items() if op == mirror.op):
            assert mirror.op not in {node.op_type for node in again.graph.node}
            continue
        assert stated(again, mirror) == stated(model, mirror)
        returned += 1
    assert returned > 0
