# SPDX-License-Identifier: Apache-2.0
"""The rules of ONNX's IR specification that onnx's checker does not check."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from opshift.convert.ir import places
from opshift.convert.legal import device_rules, function_rules, value_rules
from opshift.convert.legal.findings import (
    ERROR,
    INFO,
    WARNING,
    Checked,
    NamedText,
    Phase,
    Rule,
    several,
    some,
)
from opshift.model.document import Document
from opshift.model.names import TRAINING_PARTS
from opshift.model.scope import Scope
from opshift.opsets import schemas
from opshift.opsets.types import parts_of, tensors_in
from opshift.protos import (
    FunctionProto,
    GraphProto,
    TensorAnnotation,
    TrainingInfoProto,
    TypeProto,
    ValueInfoProto,
)
from opshift.text import counted

TYPE_DENOTATIONS = frozenset({"TENSOR", "IMAGE", "AUDIO", "TEXT"})
DIMENSION_DENOTATIONS = frozenset(
    {
        "DATA_BATCH", "DATA_CHANNEL", "DATA_TIME", "DATA_FEATURE", "FILTER_IN_CHANNEL",
        "FILTER_OUT_CHANNEL", "FILTER_SPATIAL",
    }
)  # fmt: skip

QUANTIZATION_KEYS = ("SCALE_TENSOR", "ZERO_POINT_TENSOR")


def _where(scope: Scope) -> str:
    kind = "function" if isinstance(scope.proto, FunctionProto) else "graph"
    return f"{kind} {scope.proto.name!r}"


# -- names ---------------------------------------------------------------------------------------


def _node_names(document: Document) -> Iterator[NamedText]:
    for scope in document.scopes():
        if repeated := scope.repeated_names:
            text = f"several nodes of {_where(scope)} share the {some(repeated, 'name')}; give each"
            yield repeated, f"{text} node its own name"


def _graph_names(document: Document) -> Iterator[NamedText]:
    """Checks that the names of graphs are unique within a model."""
    names = Counter(s.proto.name for s in document.scopes() if isinstance(s.proto, GraphProto))
    if names[""]:
        yield "", f"{counted(names.pop(''), 'graph')} without a name; add a name"
    for name, count in sorted(names.items()):
        if count > 1:
            yield name, f"{count} graphs are called {name!r}; give each its own name"


_DOMAIN = re.compile(r"\w([\w-]*\w)?(\.\w([\w-]*\w)?)+", re.ASCII)


def _domain_names(document: Document) -> Iterator[NamedText]:
    named = {document.model.domain, *(domain for domain, _, _ in document.functions)}
    for root in document.roots:
        named.update(root.imports)
        named.update(domain for domain, _ in root.index)
    for domain in sorted(named - {""}):
        if not _DOMAIN.fullmatch(domain):
            yield (
                domain,
                f"domain {domain!r} is not a reverse DNS name; use a name such as com.acme",
            )


def _import_versions(document: Document) -> Iterator[NamedText]:
    """Checks that imports have a version; the version of a known domain has its own rule."""
    for entry in (
        *document.model.opset_import,
        *(entry for function in document.functions.values() for entry in function.opset_import),
    ):
        if not entry.HasField("version") and schemas.latest(schemas.normal(entry.domain)) is None:
            text = f"the import of domain {entry.domain!r} has no version; state it"
            yield entry.domain, text


def _keys(document: Document) -> Iterator[NamedText]:
    """Checks that the metadata keys of the model, and of each part of it, are unique."""
    for where, part in places.metadata(document.model):
        for key, count in several(entry.key for entry in part):
            yield key, f"the metadata of {where} has {count} entries {key!r}; keep one"


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


def _graph_identifiers(document: Document) -> Iterator[NamedText]:
    """Checks the names of graphs and functions."""
    graphs = {s.proto.name for s in document.scopes() if isinstance(s.proto, GraphProto)}
    yield from _identifiers("graph", graphs)
    yield from _identifiers("function", {name for _, name, _ in document.functions})


def _attribute_identifiers(document: Document) -> Iterator[NamedText]:
    """Checks the names of attributes of nodes and functions."""
    nodes = (node for scope in document.scopes() for node in scope.proto.node)
    names = {attribute.name for node in nodes for attribute in node.attribute}
    for function in document.functions.values():
        names.update(function_rules.attribute_names(function))
    return _identifiers("attribute", names)


def _operator_identifiers(document: Document) -> Iterator[NamedText]:
    return _identifiers("operator", {op for root in document.roots for _, op in root.index})


def _dimension_identifiers(document: Document) -> Iterator[NamedText]:
    return _identifiers("dimension", value_rules.dimension_names(document.model))


def _identifiers(what: str, names: Iterable[str]) -> Iterator[NamedText]:
    """Finds names that are not C identifiers; the specification requires them, runtimes do not."""
    bad = frozenset(name for name in names if name and not _IDENTIFIER.fullmatch(name))
    if bad:
        article = "an" if what[0] in "ao" else "a"
        text = f"{article} {what} name is not a C identifier"
        if len(bad) > 1:
            text = f"{len(bad)} {what} names are not C identifiers"
        yield bad, f"{text}, such as {min(bad)!r}"


# -- names without a definition ------------------------------------------------------------------


def _bindings(document: Document) -> Iterator[NamedText]:
    """Checks the bindings of initializers to the outputs of graphs for training."""
    tops = {root.name: root.top for root in document.roots if root.kind == "training"}
    keys = ({entry.key: None for entry in t.update_binding} for t in document.model.training_info)
    for key, count in several(itertools.chain.from_iterable(keys)):
        yield key, f"{count} update_bindings set {key!r}; keep one of them"
    for i, training in enumerate(document.model.training_info):
        where = f"training_info[{i}]"
        first, step = (tops.get(f"{where}.{part}") for part in TRAINING_PARTS)
        yield from _binding(document, where, training, "initialization_binding", first, step)
        yield from _binding(document, where, training, "update_binding", step, step)


def _initializations(document: Document) -> Iterator[NamedText]:
    """Checks that the graph for the initial values of training has no inputs."""
    for i, training in enumerate(document.model.training_info):
        if names := frozenset(info.name for info in training.initialization.input):
            text = f"the initialization of training_info[{i}] has {some(names, 'input')}, but"
            yield names, f"{text} a caller cannot provide inputs; use an initializer"


def _binding(
    document: Document, where: str, training: TrainingInfoProto, field: str,
    source: Scope | None, step: Scope | None,
) -> Iterator[NamedText]:  # fmt: skip
    """Checks that keys are initializers, and that values are outputs of the graph `source`.

    A training step runs the main graph and the algorithm, so that it may bind outputs of both.
    """
    entries = getattr(training, field)
    graphs = [source, document.main] if field == "update_binding" else [source]
    outputs = {name for graph in graphs if graph is not None for name in graph.outputs}
    owners = [document.main] if step is None else [document.main, step]
    for entry in entries:
        if not any(
            entry.key in owner.initializers or entry.key in owner.sparse for owner in owners
        ):
            text = (
                f"{where}.{field} sets {entry.key!r}, which is not an initializer; correct the key"
            )
            yield entry.key, text
        if entry.value not in outputs:
            part = "the initialization" if field == "initialization_binding" else "the algorithm"
            text = f"{where}.{field} reads {entry.value!r}, which is not an output of {part}"
            yield entry.value, f"{text}; correct the value"
    for key, count in several(entry.key for entry in entries):
        yield key, f"{where}.{field} sets {key!r} {count} times; keep one"


def _value_infos(document: Document) -> Iterator[NamedText]:
    for scope in document.scopes():
        infos: Iterable[ValueInfoProto] = getattr(scope.proto, "value_info", ())
        stated = {value.name for value in infos}
        lost = frozenset(name for name in stated if scope.owner(name) is not scope)
        if lost:
            text = f"value_info of {_where(scope)} describes {some(lost, 'value')}, which is not"
            yield lost, f"{text} defined; remove the entry"


def _repeated_infos(document: Document) -> Iterator[NamedText]:
    for scope in document.scopes():
        infos: Iterable[ValueInfoProto] = getattr(scope.proto, "value_info", ())
        if repeated := frozenset(dict(several(value.name for value in infos))):
            text = f"value_info of {_where(scope)} describes {some(repeated, 'value')} twice; keep"
            yield repeated, f"{text} one entry"


def _annotations(document: Document) -> Iterator[NamedText]:
    for scope in document.scopes():
        notes = getattr(scope.proto, "quantization_annotation", ())
        yield from _repeated_annotations(scope, notes)
        for note in notes:
            if scope.owner(note.tensor_name) is not scope:
                text = f"a quantization annotation of {_where(scope)} describes"
                advice = "which is not defined; remove it"
                yield note.tensor_name, f"{text} {note.tensor_name!r}, {advice}"
            for entry in note.quant_parameter_tensor_names:
                if scope.owner(entry.value) is None:
                    text = f"the quantization annotation of {note.tensor_name!r} names"
                    fault = f"{entry.value!r} as its {entry.key}, but this value is not defined"
                    yield entry.value, f"{text} {fault}; correct the name"


def _repeated_annotations(scope: Scope, notes: Sequence[TensorAnnotation]) -> Iterator[NamedText]:
    """Checks that each tensor has one annotation, and each annotation one entry for a key."""
    for name, count in several(note.tensor_name for note in notes):
        yield name, f"{_where(scope)} has {count} quantization annotations of {name!r}; keep one"
    for note in notes:
        called = f"the quantization annotation of {note.tensor_name!r}"
        keys = Counter(entry.key for entry in note.quant_parameter_tensor_names)
        for key, count in keys.items():
            if count > 1:
                yield note.tensor_name, f"{called} has {count} entries {key}; keep one"
            if key not in QUANTIZATION_KEYS:
                text = f"{called} has the key {key!r}, which ONNX does not define; use one of"
                yield note.tensor_name, f"{text} {', '.join(QUANTIZATION_KEYS)}"


# -- denotations ---------------------------------------------------------------------------------


def _denotations(document: Document) -> Iterator[NamedText]:
    unknown: dict[str, str] = {}
    for value in places.values(document.model):
        for word in _unknown_denotations(value.type):
            unknown.setdefault(word, places.words_of(value))
    for word, where in sorted(unknown.items()):
        text = f"{where} has the denotation {word!r}, which ONNX does not define;"
        yield word, f"{text} remove it, or use one that ONNX defines"


def _unknown_denotations(kind: TypeProto) -> Iterator[str]:
    yield from {part.denotation for part in parts_of(kind)} - {"", *TYPE_DENOTATIONS}
    of_axes = {dim.denotation for tensor in tensors_in(kind) for dim in tensor.shape.dim}
    yield from of_axes - {"", *DIMENSION_DENOTATIONS}


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
    _rule("IMPORT_VERSION", WARNING, _import_versions),
    _rule("NODE_IDENTIFIER", WARNING, _node_identifiers, visits_all=True),
    _rule("VALUE_IDENTIFIER", WARNING, _value_identifiers, visits_all=True),
    _rule("GRAPH_IDENTIFIER", WARNING, _graph_identifiers, visits_all=True),
    _rule("ATTRIBUTE_IDENTIFIER", WARNING, _attribute_identifiers, visits_all=True),
    _rule("OPERATOR_IDENTIFIER", WARNING, _operator_identifiers),
    _rule("DIMENSION_IDENTIFIER", WARNING, _dimension_identifiers, visits_all=True),
    _rule("METADATA_TWICE", WARNING, _keys, visits_all=True),
    _rule("TRAINING_BINDING", ERROR, _bindings),
    _rule("TRAINING_INPUT", ERROR, _initializations),
    _rule("VALUE_INFO_OF_NOTHING", WARNING, _value_infos, visits_all=True),
    _rule("VALUE_INFO_TWICE", WARNING, _repeated_infos, visits_all=True),
    _rule("ANNOTATION_OF_NOTHING", WARNING, _annotations),
    _rule("DEVICE_OF_NOTHING", WARNING, device_rules.of_nothing, visits_all=True),
    _rule("SHARDING", WARNING, device_rules.shardings, visits_all=True),
    _rule("DEVICE_CONFIGURATION", WARNING, device_rules.configurations),
    _rule("UNKNOWN_DENOTATION", WARNING, _denotations, visits_all=True),
    _rule("FUNCTION_CALL", ERROR, function_rules.calls),
    _rule("FUNCTION_OVERLOAD", ERROR, function_rules.overloads, visits_all=True),
    _rule("FUNCTION_ATTRIBUTE", WARNING, function_rules.attributes, visits_all=True),
    _rule("FUNCTION_REFERENCE", WARNING, function_rules.references, visits_all=True),
    _rule("UNUSED_FUNCTION", INFO, function_rules.unused),
)
