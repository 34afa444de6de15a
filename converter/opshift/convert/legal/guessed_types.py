# SPDX-License-Identifier: Apache-2.0
"""Guesses element types for the inputs of an uncalled function from its nodes.

Values that share a type variable of an operator have equal types. Therefore the type of one input
of a function restricts the types of other inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opshift.author.attributes import CONSTANT_FORMS
from opshift.model.walk import nodes_in
from opshift.opsets import schemas
from opshift.opsets.elements import ELEMENTS
from opshift.protos import FunctionProto, NodeProto

LIKELY = ("float", "double", "float16", "string", "bool", "uint8", "int32", "int64")
EVERY = (*LIKELY, *(row.name for row in ELEMENTS.values() if row.name not in LIKELY))
_NAMES = {"float32": "float", "object": "string"}  # numpy's names of types

Choices = dict[str, frozenset[str]]
Group = tuple[tuple[str, ...], frozenset[str]]  # names with equal types, and the possible types


def guesses(function: FunctionProto) -> Iterator[list[str]]:
    """Yields input types that all nodes accept together: floats first, then integers."""
    groups = list(_groups(function))
    for order in (EVERY, (*reversed(LIKELY), *EVERY[len(LIKELY) :])):
        told = _narrowed({}, groups)
        for name in function.input:
            kind = next((one for one in order if one in told.get(name, EVERY)), "")
            told = _narrowed({**told, name: frozenset({kind})}, groups)
        if all(told.values()):
            yield [next(iter(told[name])) for name in function.input]


def _narrowed(known: Choices, groups: Sequence[Group]) -> Choices:
    """Returns the types that each value may still have."""
    found, before = dict(known), None
    while found != before:
        before = dict(found)
        for names, types in groups:
            common = types.intersection(*(found.get(name, types) for name in names))
            found.update(dict.fromkeys(names, common))
    return found


def _groups(function: FunctionProto) -> Iterator[Group]:
    """Yields values that share a type variable of a node, with the types that it allows."""
    imports = {schemas.normal(one.domain): one.version for one in function.opset_import}
    for node in nodes_in(function):
        domain = schemas.normal(node.domain)
        schema = schemas.schema(domain, node.op_type, imports.get(domain, 0))
        if schema is None:
            continue
        shared: dict[tuple[str, frozenset[str]], list[str]] = {}
        for at, values in ((schema.input_at, node.input), (schema.output_at, node.output)):
            for i, name in enumerate(values):
                param = at(i)
                types = frozenset(one for one in EVERY if param and f"tensor({one})" in param.types)
                if name and param is not None and types:
                    apart = "" if param.homogeneous else name
                    shared.setdefault((param.variable + apart, types), []).append(name)
        for (_, types), names in shared.items():
            yield tuple(names), types
        yield from _constant(node)


def _constant(node: NodeProto) -> Iterator[Group]:
    """Yields the type of a constant, from the attribute with its value."""
    for one in node.attribute if len(node.output) == 1 else ():
        kind = CONSTANT_FORMS.get(one.name)
        if one.name == "value":
            kind = schemas.element_name(one.t.data_type)
        if kind is not None:
            yield (node.output[0],), frozenset({_NAMES.get(kind, kind)})
