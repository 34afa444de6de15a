# SPDX-License-Identifier: Apache-2.0
"""Lists what is not known about a runtime and a model."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opshift import terms, versions
from opshift.author.facts import Facts
from opshift.author.misreadings import all_misreadings
from opshift.convert.legal import author_rules
from opshift.convert.runtime.form_lacks import first_rank, misread_nodes
from opshift.convert.runtime.kernel_lacks import element_types, unnamed
from opshift.convert.runtime.lack import Form, Seen, lack_of, probed, since_of
from opshift.model.document import Document
from opshift.model.scope import Place, Scope
from opshift.model.walk import named
from opshift.opsets import layouts, schemas
from opshift.opsets.types import dims_of, rank_of
from opshift.protos import GraphProto, NodeProto
from opshift.text import counted, qualified

if TYPE_CHECKING:
    from opshift.opsets.probed import ReleaseTable
    from opshift.opsets.targets import RuntimeRelease

SHOWN = 3  # the number of functions that a message names


def unknown(facts: Facts, release: RuntimeRelease, seen: Seen) -> list[str]:
    """Returns notes on what is not known about a runtime and the operators of a model."""
    document = facts.document
    notes = [*_unknown_domains(document, release), *_unknown_operators(document, release)]
    notes += _perhaps_misread(facts, release, seen)
    if release.flag("fixed_sizes"):
        notes += _free_sizes(document.model.graph, release)
    if release.probed is not None and not release.kernels:
        notes += list(_unprobed(facts, release.probed, release, seen)) or _run_alone(
            document, release
        )
    elif not release.is_measured and any(root.index for root in document.roots):
        reason = "only its supported versions are known"
        if release.provider:
            reason = "only the CPU was measured"
        elif release.only:
            reason = "its operators are known, but not their element types and forms"
        elif release.without or any(all_misreadings(facts.adapters, release)):
            reason = "only some operators were measured"
        notes.append(f"which operators {release.shown} runs: {reason}")
    return notes


def flawed(facts: Facts, release: RuntimeRelease, seen: Seen) -> list[str]:
    """Returns notes on illegal nodes, because a runtime may reject an illegal node or run it."""
    if seen.flaws is None:
        seen.flaws = tuple(
            f"{named(scope.node(at))}: {flaw}"
            for (scope, at), flaw in author_rules.flawed(facts)
            if isinstance(flaw, str)
        )
    return [f"whether {release.shown} runs an illegal node, {flaw}" for flaw in seen.flaws]


def called_functions(document: Document, release: RuntimeRelease) -> list[str]:
    """Returns a note on called functions if a measured runtime rejects some functions."""
    called = sorted({name for root in document.roots for _, name, *_ in root.calls})
    if release.functions or not release.is_measured or not called:
        return []
    shown = ", ".join(map(repr, called[:SHOWN])) + (" and others" if len(called) > SHOWN else "")
    return [f"whether {release.shown} loads the functions {shown}: it rejects some legal functions"]


def _perhaps_misread(facts: Facts, release: RuntimeRelease, seen: Seen) -> Iterator[str]:
    """Yields notes on nodes that a runtime may handle wrongly, which depends on unknown facts."""
    for key, misread, places in misread_nodes(facts, release, doubtful=True, seen=seen):
        if misread.processors:
            doubt = f"whether {release.shown} computes the same on all processors"
        elif release.provider:
            doubt = f"whether {release.shown} shares this fault of the CPU provider"
        else:
            doubt = (
                f"whether {release.shown} handles this node correctly, which depends on values that"
                " are not known"
            )
        says = f"{doubt}: {misread.described(key[1])}"
        yield str(lack_of(key, places, says))


def _free_sizes(graph: GraphProto, release: RuntimeRelease) -> Iterator[str]:
    """Yields a note for each unknown size of an input, with the option that fixes the size."""
    fed = {tensor.name for tensor in graph.initializer}
    named: dict[str, None] = {}
    for info in graph.input:
        if info.name not in fed and info.type.HasField("tensor_type"):
            dims = dims_of(info.type) if rank_of(info.type) is not None else (None,)
            named |= dict.fromkeys(size for size in dims if isinstance(size, str))
            if None in dims:
                fix = terms.option("shape", f"{info.name}=1,3,224,224")
                doubt = f"whether {release.shown} reads {info.name!r}"
                yield f"{doubt}: it needs fixed sizes, as in {fix}"
    for size in named:
        fix = terms.option("dim", f"{size}=1")
        yield f"whether {release.shown} reads the size {size!r}: it needs fixed sizes, as in {fix}"


def _run_alone(document: Document, release: RuntimeRelease) -> Iterator[str]:
    """Yields a note that a probe runs single nodes, which does not prove that a model runs.

    In OpenCV and tract, 10 of 146 models failed although a probe ran each of their nodes in a model
    of its own.
    """
    if any(root.index for root in document.roots):
        alone = "a probe ran each of these nodes only in a model of one node"
        yield f"whether {release.shown} runs the nodes in this model: {alone}"


def _unprobed(
    facts: Facts, table: ReleaseTable, release: RuntimeRelease, seen: Seen
) -> Iterator[str]:
    """Yields notes on nodes whose operator, element types or attributes no probe has tested."""
    places_by_doubt: dict[str, list[Place]] = {}
    for root, key, places in facts.document.operators():
        since = since_of(root, key)
        schema = schemas.schema(*key, since)
        if release.unread(key, since) or schema is None:
            continue
        forms = seen.forms.setdefault((id(root), key), {})
        if not forms:
            for scope, at in places:
                form = _form(scope.node(at), schema, scope, facts)
                forms.setdefault(form, []).append((scope, at))
        for (types, features), same_places in forms.items():
            if lack := table.untried(key, since, types, features):
                says = f"whether {release.shown} runs {qualified(*key)} {since}"
                of = "" if lack == probed.AT_ALL else f" {lack}"
                places_by_doubt.setdefault(f"{says}{of}", []).extend(same_places)
    for says, places in places_by_doubt.items():
        yield str(lack_of(("", ""), places, says))


def _form(node: NodeProto, schema: schemas.Schema, scope: Scope, facts: Facts) -> Form:
    """Returns the element types and features of a node, which decide if a probe has tested it."""
    variables = probed.variables(schema)
    types = element_types(node, scope.root, functools.partial(facts.type, scope), variables)
    return unnamed(types), probed.features(node, schema, first_rank(node, scope, facts))


def _unknown_operators(document: Document, release: RuntimeRelease) -> Iterator[str]:
    """Yields notes on operators of vendor domains that no operator-set document describes."""
    for root, key, places in document.operators():
        vendor = key[0] in release.imports and key[0] not in versions.DOMAINS
        is_stated = vendor and layouts.layout(*key, root.imports.get(key[0]) or 1) is not None
        if vendor and not is_stated and not release.is_measured_of(key):
            yield str(lack_of(key, places, f"whether {release.shown} has {qualified(*key)}"))


def _unknown_domains(document: Document, release: RuntimeRelease) -> Iterator[str]:
    """Yields notes on domains of a model about which nothing is known for this runtime."""
    used = Counter[str]()
    for root in document.roots:
        for key, places in root.index.items():
            used[key[0]] += len(places)
    for domain, count in sorted(used.items()):
        if release.lacks_facts_about(domain):
            yield f"whether {release.shown} has the domain {domain} ({counted(count, 'node')})"
