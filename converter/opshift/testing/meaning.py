# SPDX-License-Identifier: Apache-2.0
"""Which parts of an operator's meaning no example of a rewriting adapter uses, nor a variant."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.author import registry
from opshift.author.example import Example
from opshift.author.verdicts import Adapter, Rewrite
from opshift.convert.legal import checker
from opshift.model.walk import nodes_in
from opshift.opsets import schemas
from opshift.opsets.schemas import Schema
from opshift.protos import FunctionProto, GraphProto, NodeProto, helper
from opshift.records import dataclass
from opshift.testing.example_models import example_model, stands_in
from opshift.testing.variants import attributes


def gaps(package: str) -> list[str]:
    """A line for each attribute and each optional input that no example covers.

    Variants of the examples cover attributes, too; all of them have other element types, unknown
    ranks and sizes, and a use in a branch (`opshift.testing.variants`).
    """
    return [
        f"{domain or 'ai.onnx'} {op} {start}->{to}: {what}"
        for (domain, op, start, to), adapter in sorted(registry.default(), key=lambda one: one[0])
        if stands_in(package, adapter) and adapter.at_boundary
        if isinstance(adapter.verdict, Rewrite)
        for what in _missing(adapter, schemas.schema(domain, op, start))
    ]


def _missing(adapter: Adapter, left: Schema | None) -> Iterator[str]:
    """What the examples of an adapter leave out of an operator's schema at the opset left."""
    if left is None:  # the installed onnx does not describe it
        return
    uses = [use for example in adapter.examples for use in _uses(adapter, example, left)]
    unset = [
        name
        for name, attribute in left.attributes.items()
        if not attribute.is_graph and not any(use.sets(name, attribute.default) for use in uses)
    ]
    derived = _derived(adapter, left) if unset else set()
    for name in unset:
        if name not in derived:
            yield f"attribute {name} is never off its default"
    for place, param in enumerate(left.inputs):
        if param.optional:
            given = {use.gives(place) for use in uses}
            if True not in given:
                yield f"input {param.name} is never given"
            if False not in given:
                yield f"input {param.name} is always given"


@dataclass(frozen=True, slots=True)
class _Use:
    """One node of the operator in an example."""

    node: NodeProto

    def sets(self, name: str, default: object) -> bool:
        """Whether the attribute has another value than its default."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                if attribute.ref_attr_name:
                    return True
                return bool(helper.get_attribute_value(attribute) != default)
        return False

    def gives(self, place: int) -> bool:
        return place < len(self.node.input) and bool(self.node.input[place])


def _uses(adapter: Adapter, example: Example, schema: Schema) -> Iterator[_Use]:
    if example.invalid is not None:
        return
    model = example_model(adapter, example)
    parts: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    for part in parts:
        for node in nodes_in(part):
            domain = "" if node.domain == "ai.onnx" else node.domain
            if (domain, node.op_type) == (schema.domain, schema.name):
                yield _Use(node)


def _derived(adapter: Adapter, schema: Schema) -> set[str]:
    """The attributes that a legal variant of an example sets."""
    found = set[str]()
    for example in adapter.examples:
        if example.refuses is None and example.invalid is None and not example.approximate:
            model = example_model(adapter, example)
            for name, variant in attributes(model, schema.domain, (schema.name,)):
                attribute = name.partition("=")[0]
                if (
                    attribute not in found
                    and checker.whole(variant, registry.default(), full=True) is None
                ):
                    found.add(attribute)
    return found
