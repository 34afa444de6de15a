# SPDX-License-Identifier: Apache-2.0
"""Finds adjacent Casts after the steps, because some runtimes merge them without rounding."""

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
LOWEST = 6  # Cast-1 has its type as a string, and no runtime that merges Casts has kernels for it


def writes_casts(kinds: Iterable[Rewritten]) -> bool:
    """Returns whether one of the rewrites writes a Cast."""
    return any("Cast" in kind.gives for kind in kinds)


def may_lose(first: int, last: int) -> bool:
    """Returns whether two Casts, to `first` and then to `last`, differ from one Cast to `last`."""
    middle, target = T(first).name.lower(), T(last).name.lower()
    return any(cast_pairs.narrows(kind.name.lower(), middle, target) for kind in T)


def target_of(cast: NodeProto) -> int:
    """The element type to which a Cast converts, or 0 if that type does not exist."""
    number = next((one.i for one in cast.attribute if one.name == "to"), 0)
    return number if T.has(number) else 0


def meeting(
    document: Document, steps: Iterable[Step], came: bytes | ModelProto
) -> dict[Root, list[Place]]:
    """Returns the second Cast of each new pair of Casts that gives other numbers when merged."""
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
    """Yields adjacent Casts that give other numbers when merged, with both output names."""
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
    """Returns the output names of all Casts of a model, by the name of their graph or function."""
    found = defaultdict[str, set[str]](set)
    for root in Document(model).roots:
        for scope, position in root.index.get(CAST, ()):
            found[root.name].update(scope.node(position).output)
    return found
