# SPDX-License-Identifier: Apache-2.0
"""What becomes of names, annotations and shardings when all steps are done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opshift.model.rename import rename_own
from opshift.model.scope import Place, Root, Scope
from opshift.protos import GraphProto, NodeProto, TensorProto
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.model.document import Document


@dataclass(frozen=True, slots=True)
class Heritage:
    """The name of a constant that another one takes the place of, and what is said about it."""

    owner: Scope
    name: str
    doc_string: str
    metadata: tuple[tuple[str, str], ...]


def heritage_of(owner: Scope, tensor: TensorProto, name: str) -> Heritage:
    """What a constant leaves to the one that takes its place."""
    noted = getattr(tensor, "metadata_props", ())
    return Heritage(owner, name, tensor.doc_string, tuple((p.key, p.value) for p in noted))


def settle(document: Document) -> list[str]:
    """Removes what is left unread, and mends or drops what refers to it; returns the notes."""
    document.sweep()
    for root in document.roots if document.heirs else ():
        _inherit(document, root)
    notes = [note for scope, note in _drop_annotations(document)]
    if notes:
        document.sweep()  # what only the dropped annotations read
    return notes + list(_drop_shardings(document))


def _inherit(document: Document, root: Root) -> None:
    """Gives constants that took the place of others the names of those, where they are free."""
    names: dict[str, str] = {}
    for own in list(root.top.initializers):
        left = _left_to(document, own)
        if left is not None and left.name not in names.values() and _is_free(document, left, root):
            names[own] = left.name
            tensor = root.top.rename_initializer(own, left.name)
            tensor.doc_string = left.doc_string or tensor.doc_string
            for key, value in left.metadata:
                tensor.metadata_props.add(key=key, value=value)
    for scope in root.scopes if names else ():
        for node in scope.proto.node:
            if not names.keys().isdisjoint(node.input):
                rename_own(node, names)


def _left_to(document: Document, name: str) -> Heritage | None:
    """What a new constant inherits, also by way of one that an earlier step wrote."""
    left = document.heirs.get(name)
    while left is not None and document.is_fresh(left.name):
        left = document.heirs.get(left.name)
    return left


def _is_free(document: Document, left: Heritage, root: Root) -> bool:
    """Whether a name has left the model, and no graph that sees the constant uses it."""
    if left.name not in document.gone.get(left.owner, ()):
        return False
    return not any(
        left.name in names
        for one in document.names.family(root)
        for scope in one.scopes
        for names in (scope.initializers, scope.inputs, scope.producers, scope.sparse)
    )


def _drop_annotations(document: Document) -> Iterator[tuple[Scope, str]]:
    """Drops the quantization annotations of tensors that have left the model."""
    for scope in [scope for root in document.roots for scope in root.scopes]:
        if not document.gone or not isinstance(scope.proto, GraphProto):
            continue
        notes = scope.proto.quantization_annotation
        for i in range(len(notes) - 1, -1, -1):
            name = notes[i].tensor_name
            if scope.owner(name) is None and any(name in gone for gone in document.gone.values()):
                document.orphan(scope, [e.value for e in notes[i].quant_parameter_tensor_names])
                del notes[i]
                document.generation += 1
                yield scope, f"dropped: the quantization annotation of {name!r}, which is removed"


def move_shardings(document: Document, place: Place, companions: list[NodeProto]) -> None:
    """Gives nodes that are written beside another one the shardings of the values they hold."""
    scope, position = place
    node = scope.node(position)
    for configuration in getattr(node, "device_configurations", ()):
        if configuration.sharding_spec:
            document.sharded[place] = None
        for i in range(len(configuration.sharding_spec) - 1, -1, -1):
            spec = configuration.sharding_spec[i]
            found = [one for one in companions if holds(one, spec.tensor_name)]
            for one in found:
                for same in one.device_configurations:
                    if same.configuration_id == configuration.configuration_id:
                        same.sharding_spec.append(spec)
            if found and not holds(node, spec.tensor_name):
                del configuration.sharding_spec[i]


def _drop_shardings(document: Document) -> Iterator[str]:
    """Drops the shardings of values that the rewritten nodes neither read nor write any more."""
    for scope, position in document.sharded:
        node = scope.node(position)
        for configuration in () if position in scope.removed else node.device_configurations:
            for i in range(len(configuration.sharding_spec) - 1, -1, -1):
                name = configuration.sharding_spec[i].tensor_name
                if not holds(node, name):
                    del configuration.sharding_spec[i]
                    called = node.name or next((o for o in node.output if o), "")
                    yield (
                        f"dropped: the sharding of {name!r} at {node.op_type} {called!r}, which"
                        " neither reads nor writes it any more"
                    )


def holds(node: NodeProto, name: str) -> bool:
    """Whether a node reads or writes a value itself."""
    return name in node.input or name in node.output
