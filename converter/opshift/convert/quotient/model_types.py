# SPDX-License-Identifier: Apache-2.0
"""The element types that can occur in a model, by its classes."""

from __future__ import annotations

from opshift.author.present_types import collect_present_types
from opshift.convert.classes.proof import Proof
from opshift.convert.classes.rows import GraphField, names_in
from opshift.model.document import Document
from opshift.protos import ModelProto


def types_of(proof: Proof) -> frozenset[str]:
    """What `collect_present_types` finds in the whole model."""
    known, model = proof.memo, ModelProto()
    named = names_in(proof.data, proof.others, GraphField.INITIALIZER)
    numbers = {*proof.declared.values(), *(proof.values[name] for name in named)}
    for domain, version in known.imports:
        model.opset_import.add(domain=domain, version=version)
    model.functions.extend(known.functions.protos)
    signatures = dict.fromkeys(one.signature for one in proof.kinds)
    model.graph.node.extend(known.operations[one].proto for one in signatures)
    return frozenset(collect_present_types(Document(model))).union(*map(known.tokens, numbers))
