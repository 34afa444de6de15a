# SPDX-License-Identifier: Apache-2.0
"""Finds the legal nodes and models that a runtime rejects or computes wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opshift.author.facts import Facts
from opshift.author.misreadings import Misread, misreadings
from opshift.author.surroundings import Surroundings, node_at, readers
from opshift.convert.legal import checker
from opshift.convert.runtime.lack import RuntimeLack, Seen, lack_of, probed, since_of
from opshift.model import weights
from opshift.model.document import Document
from opshift.model.scope import Key, Place, Scope
from opshift.opsets import schemas
from opshift.opsets.types import element_of, rank_of
from opshift.protos import GraphProto, NodeProto
from opshift.text import qualified

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease


def forms(facts: Facts, release: RuntimeRelease, seen: Seen) -> list[RuntimeLack]:
    """Returns the legal nodes that a runtime rejects or computes wrongly."""
    misread = misread_nodes(facts, release, seen=seen)
    failed = failed_forms(facts, release).items()
    return [
        *(
            lack_of(key, at, f"{release.shown}: {form.described(key[1])}")
            for key, form, at in misread
        ),
        *(lack_of(key, places, says) for (key, says), places in failed),
        *_not_passed(facts.document, release),
        *_contradicted(facts, release, seen),
    ]


def misread_nodes(
    facts: Facts, release: RuntimeRelease, *, doubtful: bool = False, seen: Seen | None = None
) -> Iterator[tuple[Key, Misread, list[Place]]]:
    """Yields the nodes that a runtime rejects or computes wrongly, by operator and by the fault.

    With `doubtful`, the function yields nodes that only some processors or providers may compute
    wrongly, and nodes for which the fault depends on an unknown fact.
    """
    read_by, cached_places = readers(), (seen or Seen()).places
    roots = facts.document.roots
    for key in sorted({key for root in roots for key in root.index}):
        for misread in misreadings(facts.adapters, release, key):
            if (id(misread), key) not in cached_places:
                cached_places[id(misread), key] = [
                    ((scope, at), answer)
                    for root in roots
                    for scope, at in root.index.get(key, ())
                    if (
                        answer := misread.is_form(
                            node_at(facts, scope, at),
                            root.imports.get(key[0]) or 1,
                            Surroundings(facts, scope, read_by),
                        )
                    )
                    is not False
                ]
            uncertain = misread.is_uncertain(release)
            places = [
                place
                for place, answer in cached_places[id(misread), key]
                if (uncertain or answer is None) == doubtful
            ]
            if places:
                yield key, misread, places


def failed_forms(facts: Facts, release: RuntimeRelease) -> dict[tuple[Key, str], list[Place]]:
    """Returns the nodes with a property, such as an attribute, that always failed in a probe."""
    places_by_form: dict[tuple[Key, str], list[Place]] = {}
    for root, key, places in facts.document.operators() if release.probed is not None else ():
        if release.probed is None or not release.probed.fails(key):
            continue
        since = since_of(root, key)
        for scope, at in places:
            node = scope.node(at)
            failed = failing(node, key, since, release, first_rank(node, scope, facts))
            if failed is not None:
                fate = probed.WORDS[failed[1]].format(release.shown)
                says = f"{qualified(*key)} {since} with {probed.named(failed[0])} {fate}"
                places_by_form.setdefault((key, says), []).append((scope, at))
    return places_by_form


def failing(
    node: NodeProto, key: Key, since: int, release: RuntimeRelease, rank: int | None
) -> tuple[str, str] | None:
    """Returns the property of a node, such as its rank, that always failed in a probe, or None."""
    schema = schemas.schema(*key, since)
    if release.probed is None or schema is None:
        return None
    return release.probed.failing(key, since, probed.features(node, schema, rank))


def first_rank(node: NodeProto, scope: Scope, facts: Facts) -> int | None:
    return rank_of(facts.type(scope, node.input[0])) if node.input and node.input[0] else None


def _contradicted(facts: Facts, release: RuntimeRelease, seen: Seen) -> list[RuntimeLack]:
    """Returns a declared shape that inference contradicts, if the runtime rejects such shapes."""
    opset = facts.document.imports.get("")
    if not release.is_strict_at(opset):
        return []
    if seen.contradiction is None:
        contradiction = checker.contradicted(
            weights.checkable(facts.document.model), facts.adapters
        )
        seen.contradiction = contradiction or ""
    error = seen.contradiction
    says = (
        f"{release.shown}: at opset {opset} it rejects a declared shape that inference contradicts"
    )
    return [RuntimeLack(f"{says}: {error}")] if error else []


def _not_passed(document: Document, release: RuntimeRelease) -> list[RuntimeLack]:
    """Returns inputs and outputs whose types the runtime's Python package cannot pass."""
    graph = document.model.graph
    sides = (
        ("accept", graph.input, release.texts("inputs")),
        ("return", graph.output, release.texts("outputs")),
    )
    return [
        RuntimeLack(
            f"{release.shown}: its Python package cannot {does} a tensor of {kind}, such as"
            f" {info.name!r}"
        )
        for does, infos, unpassed in sides
        for info in infos
        if (kind := element_of(info.type)) in unpassed
    ]


def casts_by_itself(graph: GraphProto, release: RuntimeRelease) -> dict[str, str]:
    """Returns the changes of input and output types that a runtime makes by itself."""
    kinds = {element_of(info.type) for info in (*graph.input, *graph.output)}
    return {
        f"{kind}={to}": f"{release.shown} computes {kind} as {to} and clamps numbers beyond it"
        for kind, to in release.pairs("casts").items()
        if kind in kinds
    }
