# SPDX-License-Identifier: Apache-2.0
"""The rules of ONNX's IR documents that onnx's checker leaves out, one row for each rule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeAlias

from opshift.convert.ir import places
from opshift.convert.legal.findings import ERROR, INFO, WARNING, Checked, Phase, Rule
from opshift.model.document import Document
from opshift.model.names import TRAINING_PARTS
from opshift.model.scope import FunctionId, Scope
from opshift.model.walk import named
from opshift.protos import FunctionProto, GraphProto, TrainingInfoProto, TypeProto, ValueInfoProto
from opshift.text import counted

TYPE_DENOTATIONS = frozenset({"TENSOR", "IMAGE", "AUDIO", "TEXT"})
DIMENSION_DENOTATIONS = frozenset(
    {
        "DATA_BATCH", "DATA_CHANNEL", "DATA_TIME", "DATA_FEATURE", "FILTER_IN_CHANNEL",
        "FILTER_OUT_CHANNEL", "FILTER_SPATIAL",
    }
)  # fmt: skip


NamedText: TypeAlias = tuple[frozenset[str], str]
"""What breaks a rule: the names that it is about, and a sentence."""


def _where(scope: Scope) -> str:
    kind = "function" if isinstance(scope.proto, FunctionProto) else "graph"
    return f"{kind} {scope.proto.name!r}"


def _some(names: Collection[str], what: str) -> str:
    """The number of names, and the first of them."""
    first = repr(min(names))
    return f"{what} {first}" if len(names) == 1 else f"{counted(len(names), what)} such as {first}"


# -- names ---------------------------------------------------------------------------------------


def _node_names(document: Document) -> Iterator[NamedText]:
    for scope in document.scopes():
        if repeated := scope.repeated_names:
            yield (
                repeated,
                f"several nodes of {_where(scope)} have one name ({_some(repeated, 'name')}); give"
                " each node its own name",
            )


def _graph_names(document: Document) -> Iterator[NamedText]:
    """The names of graphs are unique within a model."""
    names = Counter(s.proto.name for s in document.scopes() if isinstance(s.proto, GraphProto))
    if names[""]:
        yield (frozenset({""}), f"{counted(names.pop(''), 'graph')} without a name; name it")
    for name, count in sorted(names.items()):
        if count > 1:
            yield (frozenset({name}), f"{count} graphs are called {name!r}; give each its own name")


_DOMAIN = re.compile(r"\w([\w-]*\w)?(\.\w([\w-]*\w)?)+", re.ASCII)


def _domain_names(document: Document) -> Iterator[NamedText]:
    named = {document.model.domain, *(domain for domain, _, _ in document.functions)}
    for root in document.roots:
        named.update(root.imports)
        named.update(domain for domain, _ in root.index)
    for domain in sorted(named - {""}):
        if not _DOMAIN.fullmatch(domain):
            yield (
                frozenset({domain}),
                f"domain {domain!r} is no reverse DNS name; use a name such as com.acme",
            )


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def _node_identifiers(document: Document) -> Iterator[NamedText]:
    names = {node.name for scope in document.scopes() for node in scope.proto.node}
    return _identifiers("node", names)


def _value_identifiers(document: Document) -> Iterator[NamedText]:
    names = {
        name
        for scope in document.scopes()
        for name in (*scope.inputs, *scope.initializers, *scope.producers)
    }
    return _identifiers("value", names)


def _identifiers(what: str, names: Iterable[str]) -> Iterator[NamedText]:
    """The specification wants names that C would accept; no runtime does."""
    bad = frozenset(name for name in names if name and not _IDENTIFIER.fullmatch(name))
    if bad:
        count = f"{len(bad)} {what} names are" if len(bad) > 1 else f"a {what} name is"
        yield (bad, f"{count} not written like an identifier of C, such as {min(bad)!r}")


# -- names that point at nothing -----------------------------------------------------------------


def _bindings(document: Document) -> Iterator[NamedText]:
    tops = {root.name: root.top for root in document.roots if root.kind == "training"}
    for i, training in enumerate(document.model.training_info):
        where = f"training_info[{i}]"
        first, step = (tops.get(f"{where}.{part}") for part in TRAINING_PARTS)
        yield from _binding(document, where, training, "initialization_binding", first, step)
        yield from _binding(document, where, training, "update_binding", step, step)


def _binding(
    document: Document, where: str, training: TrainingInfoProto, field: str,
    source: Scope | None, step: Scope | None,
) -> Iterator[NamedText]:  # fmt: skip
    """A key is an initializer, a value an output of the graph that computes it."""
    entries = getattr(training, field)
    graph = source.proto if source is not None else None
    outputs = {one.name for one in graph.output} if isinstance(graph, GraphProto) else set()
    owners = [document.main] if step is None else [document.main, step]
    for entry in entries:
        if not any(entry.key in one.initializers or entry.key in one.sparse for one in owners):
            text = f"{where}.{field} sets {entry.key!r}, which is no initializer; correct the key"
            yield (frozenset({entry.key}), text)
        if entry.value not in outputs:
            part = "the initialization" if field == "initialization_binding" else "the algorithm"
            text = f"{where}.{field} reads {entry.value!r}, which is no output of {part}"
            yield (frozenset({entry.value}), f"{text}; correct the value")
    for key, count in Counter(entry.key for entry in entries).items():
        if count > 1:
            yield (frozenset({key}), f"{where}.{field} sets {key!r} {count} times; keep one")


def _value_infos(document: Document) -> Iterator[NamedText]:
    for scope in document.scopes():
        infos: Iterable[ValueInfoProto] = getattr(scope.proto, "value_info", ())
        stated = {value.name for value in infos}
        lost = frozenset(name for name in stated if scope.owner(name) is not scope)
        if lost:
            yield (
                lost,
                f"value_info of {_where(scope)} describes {_some(lost, 'value')}, which nothing"
                " defines; remove the entry",
            )


def _annotations(document: Document) -> Iterator[NamedText]:
    for scope in document.scopes():
        for note in getattr(scope.proto, "quantization_annotation", ()):
            if scope.owner(note.tensor_name) is not scope:
                yield (
                    frozenset({note.tensor_name}),
                    f"a quantization annotation of {_where(scope)} describes"
                    f" {note.tensor_name!r}, which nothing defines; remove it",
                )
            for entry in note.quant_parameter_tensor_names:
                if scope.owner(entry.value) is None:
                    yield (
                        frozenset({entry.value}),
                        f"the quantization annotation of {note.tensor_name!r} names {entry.value!r}"
                        f" as its {entry.key}, and nothing defines it; correct the name",
                    )


def _devices(document: Document) -> Iterator[NamedText]:
    known = {one.name: one for one in getattr(document.model, "configuration", ())}
    for scope in document.scopes():
        for node in scope.proto.node:
            for one in getattr(node, "device_configurations", ()):
                called = named(node)
                if one.configuration_id not in known:
                    yield (
                        frozenset({one.configuration_id}),
                        f"{called} is placed by configuration {one.configuration_id!r}, which the"
                        " model does not have; add it or remove the placement",
                    )
                else:
                    yield from _device_numbers(called, one, known[one.configuration_id])
                yield from _shardings(called, one, {*node.input, *node.output})


def _device_numbers(called: str, placed: Any, configuration: Any) -> Iterator[NamedText]:
    """Devices of a sharding that are no device of the configuration, alone or in a group."""
    count = configuration.num_devices
    for spec in placed.sharding_spec:
        groups = {one.key: one.value for one in spec.index_to_device_group_map}
        listed = {*(one for one in spec.device if one not in groups)}.union(*groups.values())
        for device in sorted(one for one in listed if not 0 <= one < count):
            yield (
                frozenset({spec.tensor_name}),
                f"{called} shards {spec.tensor_name!r} over device {device}, and configuration"
                f" {configuration.name!r} has {count} devices, numbered from 0; correct the number",
            )


def _shardings(called: str, configuration: Any, values: Collection[str]) -> Iterator[NamedText]:
    for spec in configuration.sharding_spec:
        if spec.tensor_name not in values:
            yield (
                frozenset({spec.tensor_name}),
                f"{called} has a sharding of {spec.tensor_name!r}, which it neither reads nor"
                " writes; remove it",
            )


# -- denotations ---------------------------------------------------------------------------------


def _denotations(document: Document) -> Iterator[NamedText]:
    unknown: dict[str, str] = {}
    for where, value in places.values(document.model):
        for word in _unknown_denotations(value.type):  # type: ignore[union-attr]
            unknown.setdefault(word, where)
    for word, where in sorted(unknown.items()):
        yield (
            frozenset({word}),
            f"{where} has the denotation {word!r}, which ONNX does not define;"
            " remove it, or use one that ONNX defines",
        )


def _unknown_denotations(kind: TypeProto) -> Iterator[str]:
    if kind.denotation and kind.denotation not in TYPE_DENOTATIONS:
        yield kind.denotation
    held = kind.WhichOneof("value")
    if held in ("tensor_type", "sparse_tensor_type"):
        for dim in getattr(kind, held).shape.dim:
            if dim.denotation and dim.denotation not in DIMENSION_DENOTATIONS:
                yield dim.denotation
    elif held in ("sequence_type", "optional_type"):
        yield from _unknown_denotations(getattr(kind, held).elem_type)
    elif held == "map_type":
        yield from _unknown_denotations(kind.map_type.value_type)


# -- functions -----------------------------------------------------------------------------------


def _unused_functions(document: Document) -> Iterator[NamedText]:
    calls = {root.function: root.calls.keys() for root in document.roots if root.function}
    waiting = [key for root in document.roots if not root.function for key in root.calls]
    reached = set[FunctionId]()
    while waiting:
        key = waiting.pop()
        if key not in reached:
            reached.add(key)
            waiting += calls.get(key, ())
    for domain, name, _ in sorted(calls.keys() - reached):
        yield (
            frozenset({f"{domain}.{name}"}),
            f"function {name!r} of {domain or 'ai.onnx'!r} is never called; it can be removed",
        )


def _rule(
    code: str,
    level: str,
    find: Callable[[Document], Iterator[NamedText]],
    *,
    visits_all: bool = False,
) -> Rule:
    def search(checked: Checked) -> Iterator[NamedText]:
        return find(checked.document)

    return Rule(code, level, Phase.AT_END, search, visits_all)


RULES = (
    _rule("NODE_NAME_TWICE", WARNING, _node_names, visits_all=True),
    _rule("GRAPH_NAME", WARNING, _graph_names),
    _rule("DOMAIN_NAME", WARNING, _domain_names),
    _rule("NODE_IDENTIFIER", WARNING, _node_identifiers, visits_all=True),
    _rule("VALUE_IDENTIFIER", WARNING, _value_identifiers, visits_all=True),
    _rule("TRAINING_BINDING", ERROR, _bindings),
    _rule("VALUE_INFO_OF_NOTHING", WARNING, _value_infos, visits_all=True),
    _rule("ANNOTATION_OF_NOTHING", WARNING, _annotations),
    _rule("DEVICE_OF_NOTHING", WARNING, _devices, visits_all=True),
    _rule("UNKNOWN_DENOTATION", WARNING, _denotations, visits_all=True),
    _rule("UNUSED_FUNCTION", INFO, _unused_functions),
)
