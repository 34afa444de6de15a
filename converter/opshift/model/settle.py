# SPDX-License-Identifier: Apache-2.0
"""Updates names, annotations and shardings after the last step."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.model.document import Document, Heritage
from opshift.model.rename import rename_own
from opshift.model.scope import Place, Root, tensor_type
from opshift.model.sweep import sweep
from opshift.model.walk import named
from opshift.protos import GraphProto, NodeProto, TypeProto


def settle(document: Document) -> list[str]:
    """Removes unread nodes and constants, and references to them; returns the notes."""
    sweep(document)
    for root in document.roots if document.inherited else ():
        _inherit(document, root)
    notes = list(_drop_annotations(document))
    if notes:
        sweep(document)  # removes constants that only the removed annotations read
    return notes + list(_drop_shardings(document))


def _inherit(document: Document, root: Root) -> None:
    """Gives a new constant the name of the constant that it replaced, if the name is free."""
    names, kinds = dict[str, str](), dict[str, TypeProto]()
    for name_now in list(root.top.initializers):
        heritage = _left_to(document, name_now)
        if (
            heritage is not None
            and heritage.name not in names.values()
            and _is_free(document, heritage, root)
        ):
            names[name_now] = heritage.name
            tensor = root.top.rename_initializer(name_now, heritage.name)
            if heritage.doc_string:
                tensor.doc_string = heritage.doc_string
            for key, value in heritage.metadata:
                tensor.metadata_props.add(key=key, value=value)
            kinds[heritage.name] = tensor_type(tensor)
    for scope in root.scopes if names else ():
        for info in scope.proto.value_info:  # an inner graph may also declare it
            if info.name in kinds:
                info.type.CopyFrom(kinds[info.name])
        for node in scope.proto.node:
            if not names.keys().isdisjoint(node.input):
                rename_own(node, names)


def _left_to(document: Document, name: str) -> Heritage | None:
    """Returns the properties that a new constant inherits from constants that it replaced."""
    heritage = document.inherited.get(name)
    while heritage is not None and document.is_fresh(heritage.name):
        heritage = document.inherited.get(heritage.name)
    return heritage


def _is_free(document: Document, heritage: Heritage, root: Root) -> bool:
    """Returns whether a name is unused in the graphs that can read the constant."""
    return not any(
        heritage.name in names
        for relative in document.names.family(root)
        for scope in relative.scopes
        for names in (scope.initializers, scope.inputs, scope.producers, scope.sparse)
    )


def _drop_annotations(document: Document) -> Iterator[str]:
    """Removes the quantization annotations of tensors that the conversion removed."""
    for scope in list(document.scopes()):
        if not document.gone or not isinstance(scope.proto, GraphProto):
            continue
        notes = scope.proto.quantization_annotation
        for i in range(len(notes) - 1, -1, -1):
            name = notes[i].tensor_name
            if scope.owner(name) is None and any(
                name in removed for removed in document.gone.values()
            ):
                document.mark_unread(
                    scope, [e.value for e in notes[i].quant_parameter_tensor_names]
                )
                del notes[i]
                document.note_change()
                text = f"removed the quantization annotation of {name!r}"
                yield f"{text}: the result does not contain this tensor"


def move_shardings(document: Document, place: Place, companions: list[NodeProto]) -> None:
    """Moves the shardings of a node to those new nodes that read or write the sharded values."""
    scope, position = place
    node = scope.node(position)
    for configuration in getattr(node, "device_configurations", ()):
        if configuration.sharding_spec:
            document.sharded[place] = None
        for i in range(len(configuration.sharding_spec) - 1, -1, -1):
            spec = configuration.sharding_spec[i]
            readers = [companion for companion in companions if holds(companion, spec.tensor_name)]
            for companion in readers:
                for same in companion.device_configurations:
                    if same.configuration_id == configuration.configuration_id:
                        same.sharding_spec.append(spec)
            if readers and not holds(node, spec.tensor_name):
                del configuration.sharding_spec[i]


def _drop_shardings(document: Document) -> Iterator[str]:
    """Removes the shardings of values that a rewritten node no longer reads or writes."""
    for scope, position in document.sharded:
        node = scope.node(position)
        for configuration in () if position in scope.removed else node.device_configurations:
            for i in range(len(configuration.sharding_spec) - 1, -1, -1):
                name = configuration.sharding_spec[i].tensor_name
                if not holds(node, name):
                    del configuration.sharding_spec[i]
                    yield (
                        f"removed the sharding of {name!r} from {named(node)}: the"
                        " node no longer reads or writes this value"
                    )


def holds(node: NodeProto, name: str) -> bool:
    """Returns whether a node reads or writes a value, apart from its subgraphs."""
    return name in node.input or name in node.output
