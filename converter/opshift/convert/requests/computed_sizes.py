# SPDX-License-Identifier: Apache-2.0
"""Infers types in a copy of the model in which constants replace the nodes that compute sizes.

The constants help, because onnx's inference does not follow a list of sizes through an Identity or
a Cast.
"""

from __future__ import annotations

from collections.abc import Iterator

from opshift.author.facts import Facts
from opshift.author.traits import Fold
from opshift.convert.requests.known_branches import is_legal
from opshift.convert.state import State
from opshift.model import weights
from opshift.model.arrays import from_array
from opshift.model.document import Document
from opshift.model.replace import constant_node
from opshift.model.scope import Place
from opshift.opsets.elements import T
from opshift.opsets.types import rank_of
from opshift.protos import ModelProto, NodeProto
from opshift.protos.copies import copied

LONGEST = 64  # the most elements in a list of sizes, axes or indices
CONSTANT, IDENTITY = ("", "Constant"), ("", "Identity")


def facts_of(state: State) -> Facts:
    """Returns the inferred types of a copy of the model.

    Each node has the same position in the model and in the copy.
    """
    constants = dict(_computed_lists(state))
    if not constants:
        return state.facts
    model = copied(state.skeleton)
    document = Document(model, state.document.prefix)
    twins = dict(zip(state.document.scopes(), document.scopes(), strict=True))
    for (scope, position), constant in constants.items():
        twins[scope].node(position).CopyFrom(constant)
    return facts_about(state, model)


def facts_about(state: State, model: ModelProto) -> Facts:
    """Returns the inferred types of a model, with the weights and adapters of the conversion."""
    document = Document(model, state.document.prefix)
    return Facts(document, state.weights, state.adapters, lambda: weights.checkable(model))


def _computed_lists(state: State) -> Iterator[tuple[Place, NodeProto]]:
    """Yields each node that computes a short constant list of integers, and an equal Constant."""
    rules = state.adapters.rules(Fold)
    for root in state.document.roots:
        for key, places in root.index.items() if root.kind != "function" else ():
            if key == CONSTANT or (key != IDENTITY and key not in rules):
                continue
            for scope, position in places:
                name = scope.node(position).output[0]
                kind = state.facts.type(scope, name)
                if (
                    kind is None
                    or kind.tensor_type.elem_type != T.INT64
                    or (rank_of(kind) or 0) > 1
                ):
                    continue
                evaluation = state.facts.evaluated(Facts.find_constant, scope, name)
                if evaluation.found is None or evaluation.claims or evaluation.found.size > LONGEST:
                    continue
                constant = constant_node(from_array(evaluation.found), name)
                if is_legal(constant, scope):
                    yield (scope, position), constant
