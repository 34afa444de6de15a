# SPDX-License-Identifier: Apache-2.0
"""Finds the domains, operators and element types of a model that a runtime does not support."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from opshift import terms, versions
from opshift.author.builder import Builder
from opshift.author.facts import Facts
from opshift.author.misreadings import (
    Misread,
    all_misreadings,
    misreadings,
)
from opshift.author.node import Node
from opshift.author.present_types import collect_present_types
from opshift.author.surroundings import Surroundings, node_at, readers
from opshift.author.traits import DeclaredRules
from opshift.codes.refusals import Why
from opshift.convert.legal import author_rules, checker
from opshift.convert.legal.model_rules import is_beyond
from opshift.errors import RefusedNode
from opshift.lazy import deferred
from opshift.model import walk, weights
from opshift.model.document import Document
from opshift.model.scope import Key, Place, Root, Scope
from opshift.model.walk import name_of, named
from opshift.opsets import layouts, schemas
from opshift.opsets.elements import ELEMENTS
from opshift.opsets.type_pairs import BY_NAMES, replacements
from opshift.opsets.types import dims_of, element_of, elements_by_variable, rank_of
from opshift.protos import FunctionProto, GraphProto, NodeProto, TypeProto
from opshift.records import dataclass
from opshift.text import counted, qualified

if TYPE_CHECKING:
    from opshift.opsets import probed
    from opshift.opsets.kernels import Missing, Types
    from opshift.opsets.probed import ReleaseTable
    from opshift.opsets.targets import RuntimeRelease

else:
    probed = deferred("opshift.opsets.probed")  # only a conversion for a runtime needs it

# the marker for a type variable without an input or output
ABSENT = "absent"

SIZE = 8  # the example size of a free axis in a message
SHOWN = 3  # the number of functions that a message names


@dataclass(slots=True)
class Seen:
    """Cached data about one model that do not depend on the release of a runtime.

    A caller that checks one model for many releases passes the same object each time.
    """

    # the element types of nodes, by graph or function, operator and type variables
    types: dict[tuple[int, Key, tuple[str, ...]], list[Types]] = field(default_factory=dict)
    # the nodes that a runtime misreads, or perhaps (None), by the misread form and the operator
    places: dict[tuple[int, Key], list[tuple[Place, bool | None]]] = field(default_factory=dict)
    # the objection of inference to declared shapes, or ""
    contradiction: str | None = None
    # the nodes of illegal element types
    unaccepted: list[tuple[Place, Key, Types, Missing]] | None = None
    # messages on the nodes that break a rule of their operator
    flaws: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class RuntimeLack:
    """A reason why a runtime cannot run a model, and the nodes to which it applies."""

    op: str
    domain: str
    node: str  # the first of these nodes
    count: int
    says: str
    types: str = ""  # a change of types that would help, such as bfloat16=float
    shape: str = ""  # a fixed input shape that may turn the nodes into constants

    def __str__(self) -> str:
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        return f"{self.says} ({self.node!r}{more})" if self.node else self.says

    def as_refusal(self, version: int) -> RefusedNode:
        """Returns the reason as the refusal of a conversion."""
        boundary = (version, version)
        why = Why.TARGET_LACKS
        return RefusedNode(
            self.node, self.op, self.domain, boundary, why, self.says, types=self.types,
            shape=self.shape,
        )  # fmt: skip


def lacking(document: Document, row: RuntimeRelease) -> list[RuntimeLack]:
    """Returns the domains, operators, element types and functions that a runtime lacks."""
    return [
        *_domains(document, row), *_operators(document, row), *_types(document, row),
        *_added_late(document, row), *_functions(document, row),
    ]  # fmt: skip


def _functions(document: Document, row: RuntimeRelease) -> Iterator[RuntimeLack]:
    for name, says in unloaded(document.model.functions, row):
        yield RuntimeLack("", "", name, 1, says)


def called_functions(document: Document, row: RuntimeRelease) -> list[str]:
    """Returns a note on called functions if a measured runtime rejects some functions."""
    called = sorted({name for root in document.roots for _, name, *_ in root.calls})
    if row.functions or not row.is_measured or not called:
        return []
    shown = ", ".join(map(repr, called[:SHOWN])) + (" and others" if len(called) > SHOWN else "")
    return [f"whether {row.shown} loads the functions {shown}: it rejects some legal functions"]


def forms(facts: Facts, row: RuntimeRelease, seen: Seen | None = None) -> list[RuntimeLack]:
    """Returns the legal nodes that a runtime rejects or computes wrongly."""
    seen = Seen() if seen is None else seen
    misread = misread_nodes(facts, row, seen=seen)
    failed = failed_forms(facts, row).items()
    return [
        *(_lack(key, at, f"{row.shown}: {form.described(key[1])}") for key, form, at in misread),
        *(_lack(key, places, says) for (key, says), places in failed),
        *_not_passed(facts.document, row),
        *_contradicted(facts, row, seen),
    ]


def _contradicted(facts: Facts, row: RuntimeRelease, seen: Seen) -> list[RuntimeLack]:
    """Returns a declared shape that inference contradicts, if the runtime rejects such shapes."""
    opset = facts.document.imports.get("")
    if not row.is_strict_at(opset):
        return []
    if seen.contradiction is None:
        contradiction = checker.contradicted(
            weights.checkable(facts.document.model), facts.adapters
        )
        seen.contradiction = contradiction or ""
    error = seen.contradiction
    says = f"{row.shown}: at opset {opset} it rejects a declared shape that inference contradicts"
    return [RuntimeLack("", "", "", 1, f"{says}: {error}")] if error else []


def _not_passed(document: Document, row: RuntimeRelease) -> list[RuntimeLack]:
    """Returns inputs and outputs whose types the runtime's Python package cannot pass."""
    graph = document.model.graph
    sides = (
        ("accept", graph.input, row.texts("inputs")),
        ("return", graph.output, row.texts("outputs")),
    )
    return [
        RuntimeLack(
            "", "", "", 1,
            f"{row.shown}: its Python package cannot {does} a tensor of {kind}, such as"
            f" {info.name!r}",
        )
        for does, infos, unpassed in sides
        for info in infos
        if (kind := element_of(info.type)) in unpassed
    ]  # fmt: skip


def misread_nodes(
    facts: Facts,
    row: RuntimeRelease,
    *,
    doubtful: bool = False,
    seen: Seen | None = None,
) -> Iterator[tuple[Key, Misread, list[Place]]]:
    """Yields the nodes that a runtime rejects or computes wrongly, by operator and by the fault.

    With `doubtful`, the function yields nodes that only some processors or providers may compute
    wrongly, and nodes for which the fault depends on an unknown fact.
    """
    read_by, cached_places = readers(), Seen().places if seen is None else seen.places
    roots = facts.document.roots
    for key in sorted({key for root in roots for key in root.index}):
        for misread in misreadings(facts.adapters, row, key):
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
            uncertain = misread.is_uncertain(row)
            places = [
                place
                for place, answer in cached_places[id(misread), key]
                if (uncertain or answer is None) == doubtful
            ]
            if places:
                yield key, misread, places


def kernels(facts: Facts, row: RuntimeRelease, seen: Seen | None = None) -> list[RuntimeLack]:
    """Returns operators that occur with element types for which a runtime has no kernel."""
    document, lacks = facts.document, dict[str, tuple[Key, list[Place], str, str]]()
    for (scope, at), key, types, missing in _asked_of_table(facts, row, seen):
        if types not in missing.choices:
            continue
        kinds = ", ".join(kind for kind in types if kind)
        fate = probed.WORDS.get(missing.outcomes.get(types, ""), "has no kernel in {}")
        says = f"{qualified(*key)} of {kinds} {fate.format(f'{row.name} {row.release}')}"
        offer, shape = _other_types(types, missing), ""
        if offer and _has_own_type(node_at(facts, scope, at), offer.partition("=")[0], document):
            offer, shape = "", _fixed_shape(document.model.graph)
        lacks.setdefault(says, (key, [], offer, shape))[1].append((scope, at))
    for place, key, types, _ in _unaccepted(facts, row, seen):
        kinds = ", ".join(kind for kind in types if kind not in ("", ABSENT))
        says = f"{row.shown}: {key[1]} of {kinds} is illegal at this opset and does not load"
        lacks.setdefault(says, (key, [], "", ""))[1].append(place)
    for place, key, element in contrib_without_kernel(facts, row):
        of = f" of {element}" if element else ""
        says = f"{key[0]}.{key[1]}{of} has no kernel on the CPU in {row.name} {row.release}"
        lacks.setdefault(says, (key, [], "", ""))[1].append(place)
    return [_lack(key, places, says, *offers) for says, (key, places, *offers) in lacks.items()]


def _other_types(types: Types, missing: Missing) -> str:
    """Returns a change such as `double=float` after which the runtime has a kernel, or ""."""
    lacked = missing.choices | missing.in_doubt
    for start, to in BY_NAMES:
        if start in types and tuple(to if kind == start else kind for kind in types) not in lacked:
            return f"{start}={to}"
    return ""


def _has_own_type(node: Node, element: str, document: Document) -> bool:
    """Returns whether a new node computes in an element type that only new nodes introduced.

    Changing element types of the source model would not change such a node.
    """
    if not all(document.is_written(name) for name in node.proto.output):
        return False
    waiting, visited = list(node.inputs), set[str]()
    while waiting:
        current = waiting.pop()
        if current is None or current.name in visited or element_of(current.type) != element:
            continue
        visited.add(current.name)
        if not document.is_written(current.name):
            return False
        waiting.extend(current.producer.inputs if current.producer is not None else ())
    return True


def _fixed_shape(graph: GraphProto) -> str:
    """Returns the option that fixes the shape of the first input with unknown sizes, or ""."""
    for info in graph.input:
        if rank_of(info.type) and not all(isinstance(size, int) for size in dims_of(info.type)):
            sizes = (size if isinstance(size, int) else SIZE for size in dims_of(info.type))
            return f"{info.name}={','.join(map(str, sizes))}"
    return ""


def without_kernel(
    facts: Facts, row: RuntimeRelease, *, untried: bool = False
) -> list[tuple[Place, Key, Types, Missing]]:
    """Returns the nodes with element types for which a runtime has no kernel, and these types.

    With `untried`, the result also has nodes whose element types were not measured.
    """
    return _unaccepted(facts, row, None) + [
        (place, key, types, missing)
        for place, key, types, missing in _asked_of_table(facts, row, None)
        if types in missing.choices
        or (untried and not is_tried(place[0].root, key, missing.variables, types))
    ]


def is_tried(root: Root, key: Key, variables: Sequence[str], types: Types) -> bool:
    """Returns whether the kernels were measured for these element types."""
    left_out = _left_out(*key, _since(root, key))
    pairs = zip(variables, types, strict=True)
    return not any(kind in left_out.get(variable, ()) for variable, kind in pairs)


@functools.cache
def _left_out(domain: str, op: str, since: int) -> dict[str, set[str]]:
    """Returns, for each type variable of an operator, the element types that were not measured."""
    from opshift.opsets import kernels  # only conversions for a runtime need the table

    schema, accepted = schemas.schema(domain, op, since), dict[str, set[str]]()
    for param in (*schema.inputs, *schema.outputs) if schema is not None else ():
        accepted[param.variable] = {t for t in kernels.SHORT if f"tensor({t})" in param.types}
    pairs = zip(accepted.items(), kernels.tried(accepted.values()), strict=True)
    return {variable: types.difference(tried) for (variable, types), tried in pairs}


def in_doubt(facts: Facts, row: RuntimeRelease, seen: Seen | None = None) -> list[str]:
    """Returns notes on nodes for which it is not known whether the runtime has a kernel."""
    doubted: dict[str, list[Place]] = {}
    present = facts.present_types
    for place, key, types, missing in _asked_of_table(facts, row, seen):
        if row.probed is not None and not row.kernels:
            break  # `unknown` reports operators that were not probed
        if types in missing.choices:
            continue
        possible = (*missing.choices, *missing.in_doubt) if "" in types else ()
        doubt = types in missing.in_doubt or any(
            _may_be(types, choice, present) for choice in possible
        )
        if doubt or not is_tried(place[0].root, key, missing.variables, types):
            of = ", ".join(kind or "an unknown type" for kind in types)
            says = f"whether {row.name} {row.release} has a kernel for {qualified(*key)} of {of}"
            doubted.setdefault(says, []).append(place)
    return [str(_lack(("", ""), places, says)) for says, places in doubted.items()]


def _may_be(types: Types, choice: Types, present: Collection[str]) -> bool:
    """Returns whether element types may be equal to `choice`; "" stands for an unknown type."""
    pairs = zip(types, choice, strict=True)
    return all(chosen in present if kind == "" else kind == chosen for kind, chosen in pairs)


def _asked_of_table(
    facts: Facts, row: RuntimeRelease, seen: Seen | None
) -> Iterator[tuple[Place, Key, Types, Missing]]:
    """Yields nodes of operators that lack a kernel for some element types, and the node's types."""
    cached_types = {} if seen is None else seen.types
    for root, key, places in facts.document.operators():
        missing = row.no_kernels(key, _since(root, key), root.imports.get(key[0]) or 1)
        if missing is None or not missing.variables:
            continue
        asked = (id(root), key, missing.variables)
        if asked not in cached_types:
            cached_types[asked] = [
                _chosen(scope.node(at), root, functools.partial(facts.type, scope), asked[2])
                for scope, at in places
            ]
        for place, types in zip(places, cached_types[asked], strict=True):
            if ABSENT in types:
                types = _with_absent(root, key, types, missing)
            yield place, key, types, missing


def _unaccepted(
    facts: Facts, row: RuntimeRelease, seen: Seen | None
) -> list[tuple[Place, Key, Types, Missing]]:
    """Returns the nodes of illegal element types, which a runtime with measured kernels rejects."""
    from opshift.opsets.kernels import Missing  # only conversions for a runtime need the table

    if not row.kernels:
        return []
    if seen is not None and seen.unaccepted is not None:
        return seen.unaccepted
    illegal: list[tuple[Place, Key, Types, Missing]] = []
    for root, key, places in facts.document.operators():
        accepted = _accepted(*key, _since(root, key)) if key[0] in versions.DOMAINS else {}
        for scope, at in places if accepted else ():
            node, variables = scope.node(at), tuple(accepted)
            types = _chosen(node, root, functools.partial(facts.type, scope), variables)
            pairs = zip(accepted.values(), types, strict=True)
            if any(
                kind not in {"", ABSENT, *allowed} for allowed, kind in pairs if "(" not in kind
            ):
                illegal.append(((scope, at), key, types, Missing(variables, frozenset({types}))))
    if seen is not None:
        seen.unaccepted = illegal
    return illegal


@functools.cache
def _accepted(domain: str, op: str, since: int) -> dict[str, frozenset[str]]:
    """Returns the element types of tensors that an operator accepts, by type variable of inputs.

    The result is empty for an operator of which a release of onnx accepted other types.
    """
    from opshift.opsets import late_changes

    schema = schemas.schema(domain, op, since)
    if schema is None or late_changes.table().get((domain, op, since)):
        return {}
    accepted: dict[str, frozenset[str]] = {}
    for param in schema.inputs:
        kinds = frozenset(kind.removeprefix("tensor(").removesuffix(")") for kind in param.types)
        accepted[param.variable] = accepted.get(param.variable, frozenset()) | kinds
    return accepted


def _with_absent(root: Root, key: Key, types: Types, missing: Missing) -> Types:
    """Returns the element types of a node; absent inputs get a type for which a kernel exists.

    A runtime uses the first kernel that accepts the present inputs.
    """
    from opshift.opsets import kernels  # only conversions for a runtime need the table

    schema = schemas.schema(*key, root.imports.get(key[0]) or 1)
    params = (*schema.inputs, *schema.outputs) if schema is not None else ()
    accepted = {param.variable: param.types for param in params}
    plain = _unnamed(types)
    if plain in missing.choices or plain in missing.in_doubt:
        return plain  # a probe ran models without this input
    free = [
        [name for name in kernels.SHORT if f"tensor({name})" in accepted.get(variable, ())]
        if kind == ABSENT
        else [kind]
        for variable, kind in zip(missing.variables, types, strict=True)
    ]
    return min(
        itertools.product(*free),
        key=lambda kind: (kind in missing.choices, kind in missing.in_doubt),
        default=plain,
    )


def _unnamed(types: Types) -> Types:
    """Returns element types as a probe writes them, with "" for an absent input or output."""
    return tuple("" if kind == ABSENT else kind for kind in types)


def contrib_without_kernel(facts: Facts, row: RuntimeRelease) -> Iterator[tuple[Place, Key, str]]:
    """Yields nodes of onnxruntime's own operators without a kernel, with the element type."""
    from opshift.opsets import fields  # only conversions for a runtime need the tables

    for key, (scope, at), unknown in _in_unknown_fields(facts.document, row):
        type_of = functools.partial(_element_of, facts, scope)
        element = fields.without_kernel(scope.node(at), unknown, type_of)
        if element is not None:
            yield (scope, at), key, element


def _element_of(facts: Facts, scope: Scope, name: str) -> str:
    return element_of(facts.type(scope, name))


def reads(nodes: Iterable[NodeProto], root: Root, row: RuntimeRelease) -> bool:
    """Returns whether a runtime may know the operators of all these nodes."""
    keys = {(schemas.normal(node.domain), node.op_type) for node in nodes}
    return not any(row.unread(key, _since(root, key)) for key in keys)


def runs(
    nodes: Iterable[NodeProto],
    op: Builder,
    row: RuntimeRelease,
    rules: DeclaredRules,
    *,
    doubtful: bool = False,
) -> bool:
    """Returns whether a runtime can run these nodes, as far as is known.

    With `doubtful`, the result is also false if the runtime perhaps computes a node wrongly.
    """
    root = op.scope.root

    def type_of(name: str) -> TypeProto | None:
        return op.env.type(name)

    nodes = list(nodes)
    if not reads(nodes, root, row):
        return False
    for node in nodes:
        key = schemas.normal(node.domain), node.op_type
        since = _since(root, key)
        version = root.imports.get(key[0]) or 1
        written = Node(node, layouts.layout(*key, version), op.env)
        for misreading in misreadings(rules, row, key):
            answer = misreading.is_form(written, version)
            if answer is not False and (doubtful or (answer and not misreading.is_uncertain(row))):
                return False
        rank = rank_of(type_of(node.input[0])) if node.input and node.input[0] else None
        if _failing(node, key, since, row, rank) is not None:
            return False
        missing = row.no_kernels(key, since, version)
        if missing is None or not missing.choices:
            continue
        types = _chosen(node, root, type_of, missing.variables)
        if _with_absent(root, key, types, missing) in missing.choices:
            return False
    return True


def _chosen(
    node: NodeProto,
    root: Root,
    type_of: Callable[[str], TypeProto | None],
    variables: Sequence[str],
) -> Types:
    """Returns the element types of a node for the given type variables.

    The text "" stands for an unknown type. A type variable of an absent input or output has the
    type ABSENT.
    """
    domain = schemas.normal(node.domain)
    schema = schemas.schema(domain, node.op_type, root.imports.get(domain) or 1)
    bound = elements_by_variable(node, schema, type_of) if schema is not None else {}
    return tuple(bound.get(variable, ABSENT) for variable in variables)


def flawed(facts: Facts, row: RuntimeRelease, seen: Seen) -> list[str]:
    """Returns notes on illegal nodes, because a runtime may reject an illegal node or run it."""
    if seen.flaws is None:
        seen.flaws = tuple(
            f"{named(scope.node(at))}: {flaw}"
            for (scope, at), flaw in author_rules.flawed(facts)
            if isinstance(flaw, str)
        )
    return [f"whether {row.shown} runs an illegal node, {flaw}" for flaw in seen.flaws]


def unknown(facts: Facts, row: RuntimeRelease, seen: Seen | None = None) -> list[str]:
    """Returns notes on what is not known about a runtime and the operators of a model."""
    document = facts.document
    notes = [*_unknown_domains(document, row), *_unknown_operators(document, row)]
    notes += _perhaps_misread(facts, row, seen)
    if row.flag("fixed_sizes"):
        notes += _free_sizes(document.model.graph, row)
    if row.probed is not None and not row.kernels:
        notes += list(_unprobed(facts, row.probed, row)) or _run_alone(document, row)
    elif not row.is_measured and any(root.index for root in document.roots):
        reason = "only its supported versions are known"
        if row.provider:
            reason = "only the CPU was measured"
        elif row.only:
            reason = "its operators are known, but not their element types and forms"
        elif row.without or any(all_misreadings(facts.adapters, row)):
            reason = "only some operators were measured"
        notes.append(f"which operators {row.shown} runs: {reason}")
    return notes


def _perhaps_misread(facts: Facts, row: RuntimeRelease, seen: Seen | None) -> Iterator[str]:
    """Yields notes on nodes that a runtime may handle wrongly, which depends on unknown facts."""
    for key, misread, places in misread_nodes(facts, row, doubtful=True, seen=seen):
        if misread.processors:
            doubt = f"whether {row.shown} computes the same on all processors"
        elif row.provider:
            doubt = f"whether {row.shown} shares this fault of the CPU provider"
        else:
            doubt = (
                f"whether {row.shown} handles this node correctly, which depends on values that"
                " are not known"
            )
        says = f"{doubt}: {misread.described(key[1])}"
        yield str(_lack(key, places, says))


def _free_sizes(graph: GraphProto, row: RuntimeRelease) -> Iterator[str]:
    """Yields a note for each unknown size of an input, with the option that fixes the size."""
    fed = {tensor.name for tensor in graph.initializer}
    named: dict[str, None] = {}
    for info in graph.input:
        if info.name not in fed and info.type.HasField("tensor_type"):
            dims = dims_of(info.type) if rank_of(info.type) is not None else (None,)
            named |= dict.fromkeys(size for size in dims if isinstance(size, str))
            if None in dims:
                fix = terms.option("shape", f"{info.name}=1,3,224,224")
                yield f"whether {row.shown} reads {info.name!r}: it needs fixed sizes, as in {fix}"
    for size in named:
        fix = terms.option("dim", f"{size}=1")
        yield f"whether {row.shown} reads the size {size!r}: it needs fixed sizes, as in {fix}"


def _run_alone(document: Document, row: RuntimeRelease) -> Iterator[str]:
    """Yields a note that a probe runs single nodes, which does not prove that a model runs.

    In OpenCV and tract, 10 of 146 models failed although a probe ran each of their nodes in a model
    of its own.
    """
    if any(root.index for root in document.roots):
        alone = "a probe ran each of these nodes only in a model of one node"
        yield f"whether {row.shown} runs the nodes in this model: {alone}"


def _unprobed(facts: Facts, table: ReleaseTable, row: RuntimeRelease) -> Iterator[str]:
    """Yields notes on nodes whose operator, element types or attributes no probe has tested."""
    places_by_doubt: dict[str, list[Place]] = {}
    for root, key, places in facts.document.operators():
        since = _since(root, key)
        schema = schemas.schema(*key, since)
        if row.unread(key, since) or schema is None:
            continue
        for scope, at in places:
            node = scope.node(at)
            types = _chosen(
                node, root, functools.partial(facts.type, scope), probed.variables(schema)
            )
            features = probed.features(node, schema, _rank(node, scope, facts))
            lack = table.untried(key, since, _unnamed(types), features)
            if lack:
                says = f"whether {row.shown} runs {qualified(*key)} {since}"
                of = "" if lack == probed.AT_ALL else f" {lack}"
                places_by_doubt.setdefault(f"{says}{of}", []).append((scope, at))
    for says, places in places_by_doubt.items():
        yield str(_lack(("", ""), places, says))


def failed_forms(facts: Facts, row: RuntimeRelease) -> dict[tuple[Key, str], list[Place]]:
    """Returns the nodes with a property, such as an attribute, that always failed in a probe."""
    places_by_form: dict[tuple[Key, str], list[Place]] = {}
    for root, key, places in facts.document.operators() if row.probed is not None else ():
        if row.probed is None or not row.probed.fails(key):
            continue
        since = _since(root, key)
        for scope, at in places:
            node = scope.node(at)
            failed = _failing(node, key, since, row, _rank(node, scope, facts))
            if failed is not None:
                fate = probed.WORDS[failed[1]].format(row.shown)
                says = f"{qualified(*key)} {since} with {probed.named(failed[0])} {fate}"
                places_by_form.setdefault((key, says), []).append((scope, at))
    return places_by_form


def _rank(node: NodeProto, scope: Scope, facts: Facts) -> int | None:
    return rank_of(facts.type(scope, node.input[0])) if node.input and node.input[0] else None


def _failing(
    node: NodeProto, key: Key, since: int, row: RuntimeRelease, rank: int | None
) -> tuple[str, str] | None:
    """Returns the property of a node, such as its rank, that always failed in a probe, or None."""
    schema = schemas.schema(*key, since)
    if row.probed is None or schema is None:
        return None
    return row.probed.failing(key, since, probed.features(node, schema, rank))


def _unknown_operators(document: Document, row: RuntimeRelease) -> Iterator[str]:
    """Yields notes on operators of vendor domains that no operator-set document describes."""
    for root, key, places in document.operators():
        vendor = key[0] in row.imports and key[0] not in versions.DOMAINS
        is_stated = vendor and layouts.layout(*key, root.imports.get(key[0]) or 1) is not None
        if vendor and not is_stated and not row.is_measured_of(key):
            yield str(_lack(key, places, f"whether {row.shown} has {qualified(*key)}"))


def _unknown_domains(document: Document, row: RuntimeRelease) -> Iterator[str]:
    """Yields notes on domains of a model about which nothing is known for this runtime."""
    used = Counter[str]()
    for root in document.roots:
        for key, places in root.index.items():
            used[key[0]] += len(places)
    for domain, count in sorted(used.items()):
        if row.lacks_facts_about(domain):
            yield f"whether {row.shown} has the domain {domain} ({counted(count, 'node')})"


def stamps(document: Document, row: RuntimeRelease) -> list[RuntimeLack]:
    """Returns the IR version and the imports of a model that are too new for a runtime."""
    sentences = []
    ir = document.model.ir_version
    if row.ir is not None and ir > row.ir:
        reads = "reads IR" if row.flag("compares") else "loads the model unchecked, but supports IR"
        sentences.append(f"the model has IR {ir}; {row.shown} {reads} only up to {row.ir}")
    for domain, version in sorted(document.imports.as_dict().items()):
        top = row.imports.get(domain)
        if top is not None and version > top:
            shown = domain or "ai.onnx"
            reads = f"reads {shown} only up to {top}"
            if not row.flag("compares"):
                reads = f"loads the model unchecked, but supports {shown} only up to {top}"
            sentences.append(f"the model imports {shown} {version}; {row.shown} {reads}")
    return [RuntimeLack("", "", "", 1, says) for says in sentences]


def without_imports(
    row: RuntimeRelease, added: Collection[str]
) -> tuple[list[RuntimeLack], list[str]]:
    """Returns reasons and open questions for a model whose missing imports were added.

    A model without an import of ai.onnx imports nothing, which measured runtimes reject.
    onnxruntime adds missing imports of other domains itself. The addition was measured with Gelu of
    com.microsoft in 12 releases from 1.0 to 1.32, and with Normalizer from 0.3 on.
    """
    if "" not in added:
        doubted = () if row.kernels else sorted(added)
        return [], [f"whether {row.shown} reads a model without an import of {d}" for d in doubted]
    if row.is_measured:
        return [RuntimeLack("", "", "", 1, "the model imports no operator set")], []
    return [], [f"whether {row.shown} reads a model that imports no operator set"]


def below_floor(document: Document, row: RuntimeRelease) -> list[RuntimeLack]:
    """Returns operators of versions that are too old for the kernels of a runtime."""
    lacks = []
    for domain, floor in row.floors.items():
        for root in document.roots:
            version = root.imports.get(domain)
            if version is None or version >= floor:
                continue
            for key, places in root.index.items():
                if key[0] == domain and _changed(key, version, floor):
                    says = f"{row.shown} has no kernels for {key[1]} of ai.onnx {version}; it has"
                    lacks.append(_lack(key, places, f"{says} kernels from ai.onnx {floor} on"))
    return lacks


def _changed(key: Key, version: int, floor: int) -> bool:
    return schemas.schema(*key, version) != schemas.schema(*key, floor)


def _added_late(document: Document, row: RuntimeRelease) -> Iterator[RuntimeLack]:
    """Yields nodes of operator versions that onnx added to an opset after the runtime was built."""
    from opshift.opsets import late_changes

    for root, key, places in document.operators() if row.built_on else ():
        since = _since(root, key)
        release = late_changes.added_after(*key, since, row.built_on or "")
        if release is None:
            continue
        earlier = [schema for schema in schemas.history(*key) if schema.since < since]
        before = earlier[-1] if earlier else None
        if newer := [(scope, at) for scope, at in places if is_beyond(scope.node(at), before)]:
            has = f"{key[1]}-{before.since}" if before else f"no {key[1]}"
            says = f"{row.shown} has {has} in this opset; onnx {release} added {key[1]}-{since}"
            yield _lack(key, newer, says)


def _domains(document: Document, row: RuntimeRelease) -> Iterator[RuntimeLack]:
    for _, (domain, op), places in document.operators():
        if row.lacks(domain):
            says = f"{row.shown} has no domain {domain or 'ai.onnx'}, to which {op} belongs"
            yield _lack((domain, op), places, says)


def unread(document: Document, row: RuntimeRelease) -> Iterator[tuple[Root, Key, str]]:
    """Yields operators that a runtime does not know in the model's version, with the reason."""
    for root, key, _ in document.operators():
        if says := row.unread(key, _since(root, key)):
            yield root, key, says
        elif row.is_strange(key):
            yield root, key, f"{row.shown} has no operator {key[0]}.{key[1]}"


def _operators(document: Document, row: RuntimeRelease) -> Iterator[RuntimeLack]:
    for root, key, says in unread(document, row):
        yield _lack(key, root.index[key], says)
    for (key, says), places in unknown_fields(document, row).items():
        yield _lack(key, places, f"{row.shown} has no operator {key[0]}.{key[1]} with {says}")


def unknown_fields(document: Document, row: RuntimeRelease) -> dict[tuple[Key, str], list[Place]]:
    """Returns nodes with an attribute, input or output that a runtime does not have."""
    from opshift.opsets import fields

    places_by_field: dict[tuple[Key, str], list[Place]] = {}
    for key, (scope, at), unknown in _in_unknown_fields(document, row):
        if (says := fields.given(scope.node(at), unknown)) is not None:
            places_by_field.setdefault((key, says), []).append((scope, at))
    return places_by_field


def _in_unknown_fields(
    document: Document, row: RuntimeRelease
) -> Iterator[tuple[Key, Place, Collection[str]]]:
    """Yields the nodes of operators of which a runtime lacks an attribute, input or output."""
    for root, key, places in document.operators():
        unknown, described = row.unknown_fields(key), _described_attributes(root, key, row)
        for scope, at in places:
            lacked = unknown
            if described is not None:
                names = {attribute.name for attribute in scope.node(at).attribute}
                lacked = unknown | (names - described)
            if lacked:
                yield key, (scope, at), lacked


def _described_attributes(root: Root, key: Key, row: RuntimeRelease) -> frozenset[str] | None:
    """Returns the attributes that any measured release has for a vendor's operator, or None.

    None stands for an operator without a description, and for a release that was not measured.
    """
    if not key[0] or key[0] in versions.DOMAINS or key[0] not in row.imports:
        return None
    from opshift.opsets import fields

    table = fields.shipped().get(row.kernels)
    described = layouts.layout(*key, root.imports.get(key[0]) or 1)
    if table is None or described is None or not table.covers(row.release):
        return None
    return frozenset(described.attributes) | table.unknown.get(key, {}).keys()


def _types(document: Document, row: RuntimeRelease) -> Iterator[RuntimeLack]:
    present = collect_present_types(document)
    for name in sorted(present.intersection(row.texts("types"))):
        says = f"{row.shown} has no kernels for {name}"
        yield RuntimeLack("", "", "", 1, says, _accepted_instead(name, row))
    for element in ELEMENTS.values():
        if element.name in present and row.ir is not None and element.ir > row.ir:
            says = f"{row.shown} does not read {element.name}, which IR {element.ir} introduced"
            yield RuntimeLack("", "", "", 1, says)


def _accepted_instead(kind: str, row: RuntimeRelease) -> str:
    """Returns a change such as `bfloat16=float` to an element type that a runtime has, or ""."""
    fits = [to for to in replacements(kind) if to not in row.texts("types")]
    return f"{kind}={fits[-1]}" if fits else ""


def casts_by_itself(graph: GraphProto, row: RuntimeRelease) -> dict[str, str]:
    """Returns the changes of input and output types that a runtime makes by itself."""
    kinds = {element_of(info.type) for info in (*graph.input, *graph.output)}
    return {
        f"{kind}={to}": f"{row.shown} computes {kind} as {to} and clamps numbers beyond it"
        for kind, to in row.pairs("casts").items()
        if kind in kinds
    }


def _since(root: Root, key: Key) -> int:
    """Returns the operator version at the imported version; without a schema, the imported one."""
    imported = root.imports.get(key[0]) or 1
    schema = schemas.schema(*key, imported)
    return schema.since if schema is not None else imported


def _lack(
    key: Key, places: Sequence[Place], says: str, types: str = "", shape: str = ""
) -> RuntimeLack:
    (domain, op), (scope, at) = key, places[0]
    return RuntimeLack(op, domain, name_of(scope.node(at)), len(places), says, types, shape)


# -- functions -------------------------------------------------------------------------------------


def _has_graphs(function: FunctionProto) -> bool:
    return any(map(walk.holds_graphs, function.node))


def _has_unread_inputs(function: FunctionProto) -> bool:
    read = {*function.output, *(name for node in function.node for name in walk.reads(node))}
    return not read.issuperset(function.input)


CONTENTS = {
    "graphs": (_has_graphs, "a node that has a subgraph"),
    "unread inputs": (_has_unread_inputs, "an input that no node reads"),
}


def unloaded(functions: Iterable[FunctionProto], row: RuntimeRelease) -> Iterator[tuple[str, str]]:
    """Yields the name of each function that a runtime does not load, with the reason."""
    for function in functions:
        for name in row.texts("not_in_functions"):
            has, shown = CONTENTS[name]
            if has(function):
                yield function.name, f"{row.shown} cannot load a function with {shown}"
