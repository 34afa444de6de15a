# SPDX-License-Identifier: Apache-2.0
"""The types that onnx infers in a result alone, because a later opset tells more of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from opshift.author import safe_inference
from opshift.convert.classes.facets import without_symbols
from opshift.convert.classes.memo import MOST_CLASSES
from opshift.convert.classes.nested import holds_graphs
from opshift.convert.classes.rows import GraphField, names_of
from opshift.convert.classes.shown_bytes import described, graph_input
from opshift.convert.classes.strict_inference import StrictInference
from opshift.convert.ir.features import BARE
from opshift.convert.quotient import Key, untouched
from opshift.convert.quotient.template import Template, initializer, written
from opshift.model.bytes import wire
from opshift.opsets.types import tells_more
from opshift.protos import TypeProto

if TYPE_CHECKING:
    from opshift.convert.classes.proof import Proof
    from opshift.convert.quotient.class_plan import ClassPlan
    from opshift.convert.quotient.template import Answer

Kinds: TypeAlias = tuple[bytes | None, ...]
"""Serialized types of some values; None where nothing more is known than before."""

Told: TypeAlias = tuple[tuple[int, bytes], ...]
"""The outputs of which more is known, and their types."""


class LaterTypes:
    """What onnx knows more of the outputs of classes at the goal than before the conversion."""

    def __init__(self, plan: ClassPlan) -> None:
        self.plan = plan
        imports = [(domain, version if domain else plan.to) for domain, version in plan.imports]
        self.inference = StrictInference(tuple(imports), BARE.ir)
        self.known: dict[tuple[Key, Kinds], Told | None] = {}

    def learn(self, key: Key, given: Kinds, template: Template | None) -> Told | None:
        """The types of the outputs of a class whose inputs have these; None if it is not sure."""
        found = self._found(key[0], given, template)
        if len(self.known) >= MOST_CLASSES:
            self.known.clear()
        self.known[key, given] = found
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
            nodes = [*written(template, operation.inputs, outputs)]
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
                found.append(initializer(facet.value, name))
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
    inputs, outputs, told, asked, remembered = (
        proof.rows.inputs, proof.rows.outputs, later.get, keys.get, known.known
    )  # fmt: skip
    at = out_at = 0
    ends = zip(classes, proof.rows.input_ends, proof.rows.output_ends, strict=True)
    for row, (one, end, out_end) in enumerate(ends):
        given: Kinds
        if end - at == 2:  # for every node: most have one or two inputs, and tell nothing
            given = (told(inputs[at]), told(inputs[at + 1]))
        elif end - at == 1:
            given = (told(inputs[at]),)
        else:
            given = tuple(map(told, inputs[at:end]))
        key = asked(row)
        if key is not None or any(given):
            whole = key or untouched(one)
            try:
                found = remembered[whole, given]
            except KeyError:
                template = answers[row].template if key is not None else None
                found = known.learn(whole, given, template)
            if found is None:
                return False
            for place, kind in found:
                later[outputs[out_at + place]] = kind
        at, out_at = end, out_end
    return True


def _more(found: TypeProto | None, kind: bytes | None) -> bytes | None:
    """A type, if it tells more than what was known."""
    return without_symbols(found) if found is not None and tells_more(found, kind) else None
