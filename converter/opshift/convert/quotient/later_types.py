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
from opshift.convert.classes.rows import GraphField, names_of
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

Told: TypeAlias = tuple[tuple[int, bytes], ...]
"""The outputs of which more is known, and their types."""

_NODE, _TENSOR_NAME = 1 << 3 | 2, 8 << 3 | 2


class LaterTypes:
    """What onnx knows more of the outputs of classes at the goal than before the conversion."""

    def __init__(self, plan: ClassPlan) -> None:
        self.plan = plan
        imports = [(domain, version if domain else plan.to) for domain, version in plan.imports]
        self.inference = StrictInference(tuple(imports), BARE.ir)
        self._known: dict[tuple[Key, Kinds], Told | None] = {}

    def of(self, key: Key, given: Kinds, template: Template | None) -> Told | None:
        """The types of the outputs of a class whose inputs have these; None if it is not sure."""
        asked, known = (key, given), self._known
        try:
            return known[asked]
        except KeyError:
            found = self._found(key[0], given, template)
        if len(known) >= MOST_CLASSES:
            known.clear()
        known[asked] = found
        return found

    def _found(self, row: tuple[int, ...], given: Kinds, template: Template | None) -> Told | None:
        plan = self.plan
        operation = plan.operations[row[0]]
        outputs = names_of(operation.signature[2], "o")
        kinds = [plan.facets[number].kind for number in plan.classes[row]]
        read = self._read(row, given)
        if read is None or holds_graphs(operation.signature) or (template and template.inside):
            return None
        declared = [
            wire.framed(GraphField.VALUE_INFO, described(name, kind))
            for name, kind in zip(outputs, kinds, strict=True)
            if name and kind is not None
        ]
        nodes = [operation.written]
        if template is not None:
            nodes = [*_written(template, operation.inputs, outputs)]
        types = self._inferred(b"".join([*read, *declared, *nodes]))
        if types is None:
            return None
        more = enumerate(map(_more, (types.get(name.decode()) for name in outputs), kinds))
        return tuple((place, kind) for place, kind in more if kind is not None)

    def _read(self, row: tuple[int, ...], given: Kinds) -> list[bytes] | None:
        """What a node of a class reads, as fields of a graph; None if a type is unknown."""
        found = []
        names = self.plan.operations[row[0]].inputs
        for name, number, later in zip(names, row[1:], given, strict=False):
            facet = self.plan.facets[number]
            kind = later or facet.kind
            if name and kind is None and facet.value is None:
                return None
            if name and kind is not None and (facet.value is None or facet.listed):
                found.append(graph_input(name, kind))
            if name and facet.value is not None:
                found.append(_tensor(facet.value, name))
        return found

    def _inferred(self, graph: bytes) -> Mapping[str, TypeProto] | None:
        """The types that strict inference finds; None if it objects."""
        model = self.inference.model(graph)
        try:
            found = safe_inference.infer(model, self.plan.adapters, strict=True)
        except safe_inference.COMPLAINTS:
            return None
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
    inputs, outputs, told = proof.rows.inputs, proof.rows.outputs, later.get
    at = out_at = 0
    ends = zip(classes, proof.rows.input_ends, proof.rows.output_ends, strict=True)
    for row, (one, end, out_end) in enumerate(ends):  # for every node: most tell nothing
        given = tuple(map(told, inputs[at:end]))
        key = keys.get(row)
        if key is not None or any(given):
            template = answers[row].template if key is not None else None
            found = known.of(key or (one, 0, False), given, template)
            if found is None:
                return False
            for place, kind in found:
                later[outputs[out_at + place]] = kind
        at, out_at = end, out_end
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
