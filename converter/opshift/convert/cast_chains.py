# SPDX-License-Identifier: Apache-2.0
"""Finds Casts that meet after the steps: some runtimes merge two Casts and skip the rounding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from opshift.model.document import Document
from opshift.opsets import cast_pairs
from opshift.opsets.elements import T
from opshift.protos import ModelProto, NodeProto

if TYPE_CHECKING:
    from opshift.convert.change import Rewritten, Step
    from opshift.model.scope import Key, Place, Root

CAST: Key = ("", "Cast")
LOWEST = 6  # below, Cast has its type as a text, and no runtime that merges Casts has kernels


def writes_casts(kinds: Iterable[Rewritten]) -> bool:
    """Whether one of these rewritings writes a Cast."""
    return any("Cast" in kind.gives for kind in kinds)


def may_lose(first: int, last: int) -> bool:
    """Whether two Casts to these types can differ from only the last Cast."""
    middle, target = T(first).name.lower(), T(last).name.lower()
    return any(cast_pairs.narrows(kind.name.lower(), middle, target) for kind in T)


def target_of(cast: NodeProto) -> int:
    """The element type to which a Cast converts, or 0 if that type does not exist."""
    number = next((one.i for one in cast.attribute if one.name == "to"), 0)
    return number if T.has(number) else 0


def meeting(
    document: Document, steps: Iterable[Step], came: bytes | ModelProto
) -> dict[Root, list[Place]]:
    """The Casts after Casts that may lose numbers, unless the source model has both."""
    if not any(writes_casts(step.rewritten) for step in steps):
        return {}
    found = {root: list(_pairs(root)) for root in document.roots}
    if not any(found.values()):
        return {}
    own = _casts_of(came if isinstance(came, ModelProto) else ModelProto.FromString(came))
    return {
        root: [place for place, *names in pairs if not own[root.name].issuperset(names)]
        for root, pairs in found.items()
    }


def _pairs(root: Root) -> Iterator[tuple[Place, str, str]]:
    """The Casts after Casts that may lose numbers, with the output names of both."""
    places = root.index.get(CAST, ()) if (root.imports.get("") or 0) >= LOWEST else ()
    for scope, position in places:
        last = scope.node(position)
        before = scope.producers.get(last.input[0])
        first = scope.node(before) if before is not None else None
        if first is None or first.op_type != "Cast" or first.domain:
            continue
        if may_lose(target_of(first), target_of(last)):
            yield (scope, position), first.output[0], last.output[0]


def _casts_of(model: ModelProto) -> Mapping[str, set[str]]:
    """The output names of the Casts of a model, by their root."""
    found = defaultdict[str, set[str]](set)
    for root in Document(model).roots:
        for scope, position in root.index.get(CAST, ()):
            found[root.name].update(scope.node(position).output)
    return found
