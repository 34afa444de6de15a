# SPDX-License-Identifier: Apache-2.0
"""The element types that can occur in a model, by its classes."""

from __future__ import annotations

from typing import NamedTuple

from opshift.author.present_types import collect_present_types
from opshift.convert.classes.proof import Proof
from opshift.convert.classes.rows import GraphField, names_in
from opshift.model.document import Document
from opshift.protos import ModelProto


class Declared(NamedTuple):
    """The element types that a model declares outside of its nodes."""

    tensors: frozenset[str]  # of its initializers
    values: frozenset[str]


def declared_in(proof: Proof) -> Declared:
    """What a model declares outside of its nodes."""
    names = names_in(proof.data, proof.others, GraphField.INITIALIZER)
    tensors = {proof.values[name] for name in names}
    parts = (map(proof.memo.tokens, {*one}) for one in (tensors, proof.declared.values()))
    return Declared(*(frozenset[str]().union(*part) for part in parts))


def types_of(proof: Proof) -> frozenset[str]:
    """What `collect_present_types` finds in the whole model."""
    known, model = proof.memo, ModelProto()
    for domain, version in known.imports:
        model.opset_import.add(domain=domain, version=version)
    model.functions.extend(known.functions.protos)
    signatures = dict.fromkeys(one.signature for one in proof.kinds)
    model.graph.node.extend(known.operations[one].proto for one in signatures)
    return frozenset(collect_present_types(Document(model))).union(*declared_in(proof))
