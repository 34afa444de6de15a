# SPDX-License-Identifier: Apache-2.0
"""The types that onnx infers in a result alone, because a later opset tells more of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from opshift.author import safe_inference
from opshift.convert.classes.facets import without_symbols
from opshift.convert.classes.frames import framed
from opshift.convert.classes.memo import MOST_CLASSES
from opshift.convert.classes.nested import holds_graphs
from opshift.convert.classes.rows import GraphField, Unproven, names_of
from opshift.convert.classes.shown_bytes import described, graph_input
from opshift.convert.classes.strict_inference import StrictInference
from opshift.convert.ir.features import BARE
from opshift.convert.quotient.template import CONSTANT, FRESH, INPUT, NOTHING, OUTPUT, Template
from opshift.model.bytes import wire
from opshift.opsets.types import tells_more
from opshift.protos import TypeProto

if TYPE_CHECKING:
    from opshift.convert.classes.proof import Proof
    from opshift.convert.quotient.class_plan import ClassPlan, Key
    from opshift.convert.quotient.template import Answer

Kinds: TypeAlias = tuple[bytes | None, ...]
"""Serialized types of some values; None where nothing more is known than before."""

_NODE, _TENSOR_NAME = 1 << 3 | 2, 8 << 3 | 2


class LaterTypes:
    """What onnx knows more of the outputs of classes at the goal than before the conversion."""

    def __init__(self, plan: ClassPlan) -> None:
        self.plan = plan
        imports = [(domain, version if domain else plan.to) for domain, version in plan.imports]
        self.inference = StrictInference(tuple(imports), BARE.ir)
        self._known: dict[tuple[Key, Kinds], Kinds | None] = {}

    def of(self, key: Key, given: Kinds, template: Template | None) -> Kinds | None:
        """The types of the outputs of a class whose inputs have these; None if it is not sure."""
        asked = key, given
        if asked not in self._known:
            if len(self._known) >= MOST_CLASSES:
                self._known.clear()
            try:
                self._known[asked] = self._found(key[0], given, template)
            except Unproven:
                self._known[asked] = None
        return self._known[asked]

    def _found(self, row: Sequence[int], given: Kinds, template: Template | None) -> Kinds | None:
        plan = self.plan
        operation, facets = plan.operations[row[0]], [plan.facets[number] for number in row[1:]]
        inputs, outputs = operation.inputs, names_of(operation.signature[2], "o")
        if holds_graphs(operation.signature) or (template is not None and template.inside):
            return None
        graph = []
        for name, facet, later in zip(inputs, facets, given, strict=False):
            kind = later or facet.kind
            if name and kind is None and facet.value is None:
                return None
            if name and kind is not None and (facet.value is None or facet.listed):
                graph.append(graph_input(name, kind))
            if name and facet.value is not None:
                graph.append(_tensor(facet.value, name))
        kinds = [plan.facets[number].kind for number in plan.classes[tuple(row)]]
        for name, kind in zip(outputs, kinds, strict=True):
            if name and kind is not None:
                graph.append(wire.framed(GraphField.VALUE_INFO, described(name, kind)))
        graph += [operation.written] if template is None else _written(template, inputs, outputs)
        types = self._inferred(b"".join(graph))
        found = (types.get(name.decode()) for name in outputs)
        return tuple(map(_more, found, kinds))

    def _inferred(self, graph: bytes) -> Mapping[str, TypeProto]:
        """The types that strict inference finds; inference must not object."""
        model = self.inference.model(graph)
        try:
            found = safe_inference.infer(model, self.plan.adapters, strict=True)
        except safe_inference.COMPLAINTS:
            raise Unproven("an objection of inference to a class") from None
        return {info.name: info.type for info in found.graph.value_info}


def follow(
    proof: Proof,
    classes: Sequence[tuple[int, ...]],
    keys: Mapping[int, Key],
    answers: Mapping[int, Answer],
    known: LaterTypes,
) -> bool:
    """Whether onnx has certainly nothing against the types that it infers in the result alone.

    A node that no step looked at has the meaning that it had, so only its inputs can tell more.
    """
    later: dict[bytes, bytes] = {}
    rows = proof.rows
    for row, one in enumerate(classes):
        inputs = rows.inputs_of(row)
        if row not in keys and later.keys().isdisjoint(inputs):
            continue
        template = answers[row].template if row in keys else None
        key = keys.get(row, (one, 0, False))
        found = known.of(key, tuple([later.get(name) for name in inputs]), template)
        if found is None:
            return False
        for name, kind in zip(rows.outputs_of(row), found, strict=True):
            if name and kind is not None:
                later[name] = kind
    return True


def _written(
    template: Template, inputs: Sequence[bytes], outputs: Sequence[bytes]
) -> Iterator[bytes]:
    """The nodes of a template and its constants as fields of a graph."""
    constants = [b"c%d" % number for number in range(len(template.constants))]
    fresh = [b"f%d" % number for number in range(len(template.hints))]
    sides = {INPUT: inputs, OUTPUT: outputs, FRESH: fresh, CONSTANT: constants, NOTHING: [b""]}
    for node in template.nodes:
        places = [framed(tag, sides[side][number]) for tag, side, number in node.places]
        yield framed(_NODE, b"".join([*places, node.rest]))
    for content, name in zip(template.constants, constants, strict=True):
        yield _tensor(content, name)


def _tensor(content: bytes, name: bytes) -> bytes:
    """A tensor without a name as a named initializer."""
    return wire.framed(GraphField.INITIALIZER, content + framed(_TENSOR_NAME, name))


def _more(found: TypeProto | None, kind: bytes | None) -> bytes | None:
    """A type, if it tells more than what was known."""
    return without_symbols(found) if found is not None and tells_more(found, kind) else None
