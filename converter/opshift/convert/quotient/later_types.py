# SPDX-License-Identifier: Apache-2.0
"""The types that onnx infers in a result alone, because a later opset tells more of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from opshift.author import safe_inference
from opshift.convert.classes.facets import without_symbols
from opshift.convert.classes.local_functions import NONE, LocalFunctions
from opshift.convert.classes.memo import MOST_CLASSES
from opshift.convert.classes.nested import holds_graphs
from opshift.convert.classes.rows import GraphField, names_of
from opshift.convert.classes.shown_bytes import described, graph_input
from opshift.convert.classes.strict_inference import StrictInference
from opshift.convert.ir.features import BARE, FUNCTIONS
from opshift.convert.quotient import Key, Templates
from opshift.convert.quotient.template import Template, initializer, written
from opshift.model.bytes import wire
from opshift.opsets.types import tells_more
from opshift.protos import TypeProto

if TYPE_CHECKING:
    from opshift.convert.classes.node_class import NodeClass
    from opshift.convert.quotient.class_plan import ClassPlan

Kinds: TypeAlias = tuple[bytes | None, ...]
"""Serialized types of some values; None where nothing more is known than before."""

MOST_KINDS = 64  # so many inputs of a class may differ by what is told of them later
_NOTHING = frozenset((None,))


class LaterTypes:
    """What onnx knows more of the outputs of classes at the goal than before the conversion."""

    def __init__(self, plan: ClassPlan, functions: LocalFunctions = NONE) -> None:
        self.plan = plan
        self.functions = functions
        imports = [(domain, version if domain else plan.to) for domain, version in plan.imports]
        ir_version = FUNCTIONS.ir if functions.protos else BARE.ir
        self.inference = StrictInference(tuple(imports), ir_version)
        self._known: dict[tuple[Key, Kinds], Kinds | None] = {}

    def of(self, key: Key, given: Kinds, template: Template | None) -> Kinds | None:
        """The types of the outputs of a class whose inputs have these; None if it is not sure."""
        signature = key[0].signature
        written = self.plan.operations[signature].calls or self.plan.touches(signature)
        if not any(given) and not written:
            return (None,) * len(key[0].outputs)
        try:
            return self._known[key, given]
        except KeyError:  # threads share what is known, and any of them may forget it
            found = self._found(key[0], given, template)
        if len(self._known) >= MOST_CLASSES:
            self._known.clear()
        self._known[key, given] = found
        return found

    def _found(self, one: NodeClass, given: Kinds, template: Template | None) -> Kinds | None:
        plan = self.plan
        operation = plan.operations[one.signature]
        outputs = names_of(operation.signature[2], "o")
        kinds = [plan.facets[number].kind for number in one.outputs]
        read = self._read(one, given)
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
        functions = self.functions.behind(operation.proto)
        types = self._inferred(b"".join([*read, *declared, *nodes]), functions)
        if types is None:
            return None
        return tuple(map(_more, (types.get(name.decode()) for name in outputs), kinds))

    def _read(self, one: NodeClass, given: Kinds) -> list[bytes] | None:
        """What a node of a class reads, as fields of a graph; None if a type is unknown."""
        found = []
        names = self.plan.operations[one.signature].inputs
        for name, number, later in zip(names, one.inputs, given, strict=True):
            facet = self.plan.facets[number]
            kind = later or facet.kind
            if name and kind is None and facet.value is None:
                return None
            if name and kind is not None and (facet.value is None or facet.listed):
                found.append(graph_input(name, kind))
            if name and facet.value is not None:
                found.append(initializer(facet.value, name))
        return found

    def _inferred(self, graph: bytes, functions: bytes) -> Mapping[str, TypeProto] | None:
        """The types that strict inference finds; None if it objects."""
        model = self.inference.model(graph, functions)
        try:
            found = safe_inference.infer(model, self.plan.adapters, strict=True)
        except safe_inference.COMPLAINTS:
            return None
        return {info.name: info.type for info in found.graph.value_info}


def follow(templates: Templates, known: LaterTypes) -> bool:
    """Whether onnx has certainly nothing against the types that it infers in the result alone.

    Each class of the model meets all types that its inputs may have then. One that no step looked
    at has the meaning that it had, so only its inputs can tell more.
    """
    following, before = _Following(templates, known), -1
    while before != len(following.done):
        before = len(following.done)
        if not all(following.is_sure(*which) for which in templates):
            return False
    return True


class _Following:
    """The types that values may have later, and what their readers were asked with them."""

    def __init__(self, templates: Templates, known: LaterTypes) -> None:
        computed = {number for one, _ in templates for number in one.outputs}
        self.templates = templates
        self.known = known
        self.later: dict[int, set[bytes | None]] = {
            number: set() for number in computed
        }  # by facet
        self.done: set[tuple[NodeClass, Key, Kinds]] = set()

    def is_sure(self, one: NodeClass, key: Key) -> bool:
        """Whether each answer of a class is sure for the types that its inputs may have by now."""
        kinds = [self.later.get(number, _NOTHING) for number in one.inputs]
        if math.prod(map(len, kinds)) > MOST_KINDS:
            return False
        for given in itertools.product(*kinds):
            if (one, key, given) in self.done:
                continue
            found = self.known.of(key, given, self.templates[one, key])
            if found is None:
                return False
            self.done.add((one, key, given))
            for number, kind in zip(one.outputs, found, strict=True):
                self.later[number].add(kind)
        return True


def _more(found: TypeProto | None, kind: bytes | None) -> bytes | None:
    """A type, if it tells more than what was known."""
    return without_symbols(found) if found is not None and tells_more(found, kind) else None
