# SPDX-License-Identifier: Apache-2.0
"""Calls onnx's checker for a node or a model, and ignores errors that opshift handles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from opshift.author import corrected, fit, safe_inference
from opshift.author.model_bytes import ModelBytes
from opshift.author.registry import Registry
from opshift.author.traits import DeclaredRules
from opshift.convert.change import Step
from opshift.model import imports, repair
from opshift.model.document import Document
from opshift.model.functions import functions_of
from opshift.model.scope import Imports, Root, call_id
from opshift.model.walk import HOLDERS, Container, named, nodes_in
from opshift.model.weights import Weights
from opshift.opsets import changelog, schemas
from opshift.protos import (
    IR_VERSION,
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    onnx_checker,
)
from opshift.protos.copies import as_model, copied
from opshift.protos.shape_inference import InferenceError

_DEALT_WITH = (
    "Field 'shape' of 'type' is required",
    "Field 'type' of 'value_info' is required",
    "is not compatible with the version imported by model",
)
_OF_OPERATORS = ("deprecated", "No Op registered")
_NO_NAMES = onnx_checker.LexicalScopeContext()
_EMPTY_GRAPH = GraphProto(name="checked_on_its_own")


def rejected(document: Document, step: Step) -> Iterator[str]:
    """Yields the checker's errors on nodes that a step wrote, or kept under a new schema."""
    contexts: dict[Root, onnx_checker.CheckerContext] = {}
    for (scope, position), by in step.touched.items():
        node = scope.node(position)
        context = contexts.get(scope.root)
        if context is None:
            context = contexts[scope.root] = _context(document, scope.root.imports)
        if (error := check_node(document, context, node)) is not None:
            yield f"{named(node)}, which {by} wrote or kept: {error}"


def in_order(document: Document) -> ModelProto:
    """Returns a copy of the model between two steps, with all nodes in topological order.

    The IR version of the copy is raised, because its content is not yet rewritten for the target.
    """
    copy = ModelProto()
    copy.CopyFrom(document.model)
    copy.ir_version = max(copy.ir_version, IR_VERSION)
    tops: list[Container] = [copy.graph, *copy.functions]
    for root, top in zip(document.roots, tops, strict=False):
        root.put_in_order(top, root.top.proto)
    return copy


def by_node(document: Document, kind: str | None = None) -> Iterator[tuple[NodeProto, str]]:
    """Yields each node that onnx's checker rejects, with the error; `kind` limits the graphs."""
    for root in document.roots:
        context = _context(document, root.imports)
        for scope in root.scopes if kind in (None, root.kind) else ():
            for node in scope.proto.node:
                if (error := check_node(document, context, node)) is not None:
                    yield node, error


def check_node(
    document: Document, context: onnx_checker.CheckerContext, node: NodeProto
) -> str | None:
    """Returns the checker's error on one node; nodes in subgraphs are checked separately."""
    key = (schemas.normal(node.domain), node.op_type)
    if document.functions and document.is_call(node):
        return None
    if not schemas.history(*key):
        return None
    if schemas.is_documented(key[0]):
        return _unfit(node, context.opset_imports, is_inner=False)
    shown = _without_contents(node) if any(a.type in HOLDERS for a in node.attribute) else node
    try:
        onnx_checker.check_node(shown.SerializeToString(), context, _NO_NAMES)
    except onnx_checker.ValidationError as error:
        return _first_line(error)
    return None


def _without_contents(node: NodeProto) -> NodeProto:
    """Returns a copy of the node with empty subgraphs and without the bytes of external tensors."""
    bare = NodeProto()
    bare.CopyFrom(node)
    for attribute in bare.attribute:
        if attribute.type == AttributeProto.GRAPH:
            attribute.g.CopyFrom(_EMPTY_GRAPH)
        del attribute.graphs[:]
        sparse = attribute.sparse_tensor
        for tensor in (attribute.t, *attribute.tensors, sparse.values, sparse.indices):
            if Weights.is_stub(tensor):
                kind = tensor.data_type
                tensor.Clear()
                tensor.CopyFrom(TensorProto(data_type=kind, dims=[0]))
    return bare


def _context(document: Document, imported: Imports) -> onnx_checker.CheckerContext:
    context = onnx_checker.CheckerContext()
    context.ir_version = max(0, min(document.model.ir_version, onnx_checker.LARGEST_VERSION))
    context.opset_imports = onnx_checker.held_versions(dict(imported))
    return context


def whole(view: bytes | ModelProto, adapters: Registry, *, full: bool) -> str | None:
    """Returns the checker's error on a model, or None."""
    if full and safe_inference.is_at_risk(seen := ModelBytes.of(view), adapters):
        return whole(view, adapters, full=False) or types(seen, adapters)
    error = _objection(lambda: onnx_checker.check_model(view, full_check=full))
    return error or _of_documents(view)


def _of_documents(view: bytes | ModelProto) -> str | None:
    """Returns why a node breaks the description of a vendor's operator, or None."""
    if not changelog.default().documented:
        return None
    model = as_model(view)
    functions = functions_of(model)
    for body, versions in imports.bodies(model):
        for node in nodes_in(body):
            error = _unfit(node, versions, is_inner=isinstance(body, FunctionProto))
            if error is not None and call_id(node) not in functions:
                return error
    return None


def _unfit(node: NodeProto, versions: Mapping[str, int], *, is_inner: bool) -> str | None:
    """Returns why a node does not match its operator in an operator-set document, or None."""
    domain = schemas.normal(node.domain)
    if not schemas.is_documented(domain) or domain not in versions:
        return None
    schema = schemas.schema(domain, node.op_type, versions[domain])
    if schema is None or schema.deprecated or not schema.stated:
        return None
    return next(fit.unfit(node, schema, versions[domain], is_inner=is_inner), None)


def types(
    model: bytes | ModelProto | ModelBytes, adapters: DeclaredRules, *, data_prop: bool = False
) -> str | None:
    """Returns the error of strict type inference on a model, or None."""
    return _objection(
        lambda: safe_inference.infer(model, adapters, strict=True, data_prop=data_prop)
    )


def contradicted(view: bytes | ModelProto, adapters: DeclaredRules) -> str | None:
    """Returns the error of type inference on a declared shape, or None.

    An output with a shape that onnx infers wrongly contradicts nothing.
    """
    error = types(view, adapters)
    if error is None or "existing shape differ" not in error:
        return None
    return _objection(lambda: corrected.infer(view, adapters, strict=True))


def _objection(check: Callable[[], object]) -> str | None:
    """Returns the error that one of onnx's checks raises, or None."""
    try:
        check()
    except InferenceError as error:
        return _contradiction(error)
    except safe_inference.COMPLAINTS as error:
        return _first_line(error)
    return None


def lenient(view: bytes | ModelProto, adapters: Registry, *, full: bool) -> str | None:
    """Returns the checker's error on a model, but tolerates missing shapes and output types.

    Functions may import other versions than the model, because each function is converted
    separately.
    """
    error = whole(view, adapters, full=full)
    if error is None or not any(words in error for words in _DEALT_WITH):
        return error
    for part in _parts(view):
        if (error := whole(part, adapters, full=False)) is not None:
            return error
    return types(view, adapters) if full else None


def _parts(view: bytes | ModelProto) -> Iterator[ModelProto]:
    """Yields a model for each function with own imports, then the rest with added shapes."""
    model = copied(view)
    typed = [value for value in model.graph.input if value.HasField("type")]
    for value in (*typed, *model.graph.output):
        if repair.is_vague(value.type):
            value.type.tensor_type.elem_type = value.type.tensor_type.elem_type or 1
            value.type.tensor_type.shape.SetInParent()
    versions = imports.versions(model)
    apart = [f for f in model.functions if not imports.versions(f).items() <= versions.items()]
    for function in apart:
        alone = GraphProto(name=function.name or repair.UNNAMED)
        yield ModelProto(
            ir_version=model.ir_version,
            opset_import=function.opset_import,
            functions=[function],
            graph=alone,
        )
        model.functions.remove(function)
    yield model


def is_of_operators(error: str) -> bool:
    """Returns whether an error is about an operator that the opset lacks or deprecates."""
    return any(words in error for words in _OF_OPERATORS)


def tolerates(document: Document, adapters: Registry, error: str) -> bool:
    """Returns whether an error is about a retired operator, which a conversion replaces."""
    if not is_of_operators(error):
        return False
    for root in document.roots:
        for domain, op in root.index:
            version = root.imports.get(domain)
            schema = schemas.schema(domain, op, version) if version else None
            if schema is not None and schema.deprecated:
                return True
            if schema is None and adapters.retired(domain, op):
                return True
    return False


def _contradiction(error: InferenceError) -> str | None:
    """Returns the first error of inference that is not about an unknown type."""
    unknown = ("instead is null", "was 0")  # how onnx prints a missing type in two places
    lines = str(error).removeprefix("[ShapeInferenceError] Inference error(s): ").splitlines()
    return next((line for line in lines if line and not line.endswith(unknown)), None)


def _first_line(error: Exception) -> str:
    lines: Iterable[str] = str(error).strip().splitlines()
    return next(iter(lines), type(error).__name__)
