# SPDX-License-Identifier: Apache-2.0
"""Decides whether the model or an adapter is wrong if onnx rejects a result."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from google.protobuf.message import DecodeError

from opshift.author.facts import Facts
from opshift.author.inference import infer_all
from opshift.author.registry import Registry
from opshift.convert.legal import checker, function_rules, inferred_part, nested_lengths, rules
from opshift.convert.legal.findings import ERROR, WARNING, Checked, Phase
from opshift.convert.legal.written_rules import holder
from opshift.errors import AdapterBug, FaultyChange, InvalidModel
from opshift.model import functions, imports, walk, weights
from opshift.model.cone import cone
from opshift.model.document import Document
from opshift.model.illegible import illegible
from opshift.model.names import unused_prefix
from opshift.model.scope import FunctionId, Place, Scope
from opshift.model.walk import defined_names, reads
from opshift.model.weights import Weights
from opshift.opsets.types import confirms, rank_of
from opshift.protos import GraphProto, ModelProto, NodeProto
from opshift.protos.copies import as_model, copied


class OpenConversion(Protocol):
    """A conversion: the converted model, its weights and the source model."""

    skeleton: ModelProto
    weights: Weights
    view: bytes | ModelProto
    adapters: Registry


@contextmanager
def protobuf_errors() -> Iterator[None]:
    """Explains errors that protobuf may raise when it copies a message."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidModel(f"a string in the model is not UTF-8: {error}") from None
    except DecodeError as error:
        if "alloc failed" not in str(error):
            raise
        raise MemoryError(str(error)) from error


@contextmanager
def on_the_model(attempt: OpenConversion) -> Iterator[None]:
    """Raises InvalidModel instead of another error if the source model is at fault."""
    try:
        yield
    except (AdapterBug, AttributeError, TypeError, MemoryError) as error:
        with explaining(error):
            message = illegible(attempt.skeleton)
            if message is None and isinstance(error, AdapterBug | MemoryError) and attempt.view:
                depends_on = error.depends_on if isinstance(error, FaultyChange) else None
                message = contradiction(attempt, values=depends_on)
        if message is None:
            raise
        raise InvalidModel(message) from error


@contextmanager
def explaining(failure: Exception) -> Iterator[None]:
    """Raises the original failure if the search for its reason fails."""
    try:
        yield
    except (InvalidModel, FaultyChange):
        raise
    except Exception as error:
        raise failure from error


def contradiction(
    attempt: OpenConversion, *, retired: bool = True, values: Collection[str] | None = None
) -> str | None:
    """Returns an error of inference or of a rule on the source model, or None.

    Without `retired`, errors on operators that a conversion replaces do not count. With `values`,
    only the part of the model that computes these values counts.
    """
    before, adapters = attempt.view, attempt.adapters
    model = as_model(before)
    if values is not None:
        before = model = cone(model, values)
    skeleton = weights.with_payloads(model, attempt.skeleton)
    # Rules of adapters find types only at calls. Uncalled functions stay, to be checked themselves.
    write_out_functions(skeleton, function_rules.never_called(Document(skeleton)))
    document = Document(skeleton)
    facts = Facts(document, attempt.weights, adapters, lambda: weights.checkable(skeleton))
    checked = Checked(document, adapters, facts, attempt.weights)
    rule_broken = {
        finding.level: finding.text
        for phase in (Phase.REJECTED, Phase.FAILED)  # onnx's checker does not check all functions
        for finding in rules.first_findings(phase, checked)
    }
    error = (
        rule_broken.get(ERROR)
        or _objection(before, document, adapters, retired=retired)
        or inferred_part.types(nested_lengths.without(model), adapters, data_prop=True)
        or _in_training(model, adapters)
    )
    return f"the model contradicts itself: {error}" if error else rule_broken.get(WARNING)


def _objection(
    before: bytes | ModelProto, document: Document, adapters: Registry, *, retired: bool
) -> str | None:
    """Returns the checker's error, unless the error is about an operator that is replaced."""
    error = checker.lenient(before, adapters, full=True)
    if error is None or not checker.tolerates(document, adapters, error):
        return error
    errors = (message for _, message in checker.by_node(document))
    untolerated = next(
        (message for message in errors if not checker.tolerates(document, adapters, message)), None
    )
    return untolerated or (error if retired else None)


def write_out_functions(model: ModelProto, kept_functions: Collection[FunctionId] = ()) -> None:
    """Inlines functions that import the model's versions, except those in `kept_functions`."""
    prefix, numbers = unused_prefix(model.SerializeToString()), itertools.count()
    versions = imports.versions(model).items()
    alike = {
        which
        for which, function in functions.functions_of(model).items()
        if imports.versions(function).items() <= versions
    }
    functions.inline_functions(
        model, alike - {*kept_functions}, lambda hint: f"{prefix}{next(numbers)}_{hint}"
    )


def _in_training(model: ModelProto, adapters: Registry) -> str | None:
    """Returns the error of inference on training graphs, which onnx's checker skips."""
    for training in model.training_info:
        for graph in (training.initialization, training.algorithm):
            alone = ModelProto(
                ir_version=model.ir_version,
                opset_import=model.opset_import,
                functions=model.functions,
                graph=graph,
            )
            if (error := inferred_part.types(alone, adapters)) is not None:
                return error
    return None


def declarations(
    before: bytes | ModelProto, after: bytes | ModelProto, error: str, adapters: Registry
) -> str | None:
    """Returns an error message if wrong declared types are the only fault of a result, or None.

    Older operators had no inference, so a wrong declared type may show only at another version. A
    declared type that inference confirms in the source model is not wrong.
    """
    model = copied(after)
    if checker.lenient(model, adapters, full=False) is not None:
        return None
    is_legal_undeclared = checker.types(_without_declarations(model), adapters) is None
    if is_legal_undeclared and _confirmed(before, adapters):
        return None
    _weights_as_inputs(model.graph)
    _forget(model.graph)
    for function in model.functions:
        _forget(function)
    if checker.types(model, adapters) is not None:
        return None
    return (
        f"a declared type or shape contradicts the operators of the model: {error}; correct the"
        " declaration, or report the model if a runtime runs it"
    )


def _without_declarations(model: ModelProto) -> ModelProto:
    """Copies a model without declared types, except those of its inputs."""
    bare = copied(model)
    _forget(bare.graph, inputs=False)
    for function in bare.functions:
        _forget(function)
    return bare


def _confirmed(before: bytes | ModelProto, adapters: Registry) -> bool:
    """Returns whether inference of the source model confirms every declared type."""
    model = as_model(before)
    declared = {info.name: info.type for info in (*model.graph.value_info, *model.graph.output)}
    if any(function.value_info for function in model.functions):
        return False
    inferred = infer_all(_without_declarations(model), adapters)  # else it repeats unknown types
    defined = Counter(defined_names(model.graph))
    # inference skips names that several graphs define
    shared = {name for name, graphs in defined.items() if graphs > 1}
    pairs = [(inferred.types.get(name), declared[name]) for name in declared.keys() - shared]
    return not inferred.assumed and all(
        now is not None and rank_of(now) is not None and confirms(now, kind) for now, kind in pairs
    )


def _weights_as_inputs(graph: GraphProto) -> None:
    """Replaces each initializer by an input of its element type and of unknown shape."""
    input_names = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.name not in input_names:
            value = graph.input.add(name=tensor.name)
            value.type.tensor_type.elem_type = tensor.data_type
    del graph.initializer[:]


def _forget(container: walk.Container, *, inputs: bool = True) -> None:
    """Removes the declared types and shapes of a graph or function, and of its subgraphs.

    Inputs keep their element types, and without `inputs` the inputs of a graph keep their shapes.
    """
    del container.value_info[:]
    if isinstance(container, GraphProto):
        for value in container.input if inputs else ():
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
        for value in container.output:
            value.ClearField("type")
    for graph in walk.graphs_directly_in(container):
        _forget(graph)


# -- the source of a failed conversion -------------------------------------------------------------


def sources(document: Document, place: Place) -> frozenset[str] | None:
    """Returns the names in the source model that a node reads or writes; None in functions.

    For a node that the conversion wrote, the result has the names of the source node that it
    replaced. In training graphs, the result is None too.
    """
    scope, position = place
    if scope.root.kind != "graph":
        return None
    while scope.parent is not None:
        position, scope = holder(scope)
    node = scope.node(position)
    read = _behind(document, scope, [*node.output, *reads(node)])
    return frozenset(name for name in read | _before(document, scope, node) if name)


def _behind(document: Document, scope: Scope, names: list[str]) -> set[str]:
    """Returns names of the source model from which the values of `names` are computed."""
    names_behind, visited = set[str](), set[str]()
    while names:
        name = names.pop()
        if not document.is_fresh(name):
            names_behind.add(name)
        elif name not in visited and (at := scope.producers.get(name)) is not None:
            visited.add(name)
            names += reads(scope.node(at))
    return names_behind


def _before(document: Document, scope: Scope, node: NodeProto) -> set[str]:
    """Returns the source model's names that the node writes, directly or through new nodes."""
    names_before, fresh = set[str](), set(filter(document.is_fresh, node.output))
    for position in scope.sorted_positions():
        written_node = scope.node(position)
        if written_node is node or not fresh.isdisjoint(reads(written_node)):
            names_before.update(name for name in written_node.output if not document.is_fresh(name))
            fresh.update(filter(document.is_fresh, written_node.output))
    return names_before
