"""The checker: after each step what the step could have broken, the whole model once at the end."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, checker
from onnx.shape_inference import InferenceError

from opshift import schemas
from opshift.errors import AdapterBug
from opshift.scope import Document, Imports, Root
from opshift.step import Step

C = onnx.onnx_cpp2py_export.checker
_NO_NAMES = C.LexicalScopeContext()
_EMPTY_GRAPH = GraphProto(name="checked_on_its_own")


def after_step(document: Document, step: Step) -> None:
    """Checks what one step wrote, and what it left standing under a new schema."""
    contexts: dict[Root, C.CheckerContext] = {}
    seen: set[bytes] = set()
    for scope, position in step.touched:
        node = scope.node(position)
        context = contexts.get(scope.root)
        if context is None:
            context = contexts[scope.root] = _context(document, scope.root.imports)
        error = check_node(document, context, node, seen)
        if error is None:
            continue
        where = node.name or next((o for o in node.output if o), "")
        raise AdapterBug(
            f"after {step.domain or 'ai.onnx'} {step.start}->{step.to} the checker rejects"
            f" {node.op_type} {where!r}: {error}"
        )


def check_node(
    document: Document, context: C.CheckerContext, node: NodeProto, seen: set[bytes]
) -> str | None:
    """The checker's objection to one node; the nodes in its subgraphs are checked on their own."""
    key = (schemas.normal(node.domain), node.op_type)
    if document.functions and document.is_call(node):
        return None
    if not schemas.history(*key):
        return None
    text = node.SerializeToString()
    if any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute):
        bare = NodeProto()
        bare.CopyFrom(node)
        for attribute in bare.attribute:
            if attribute.type == AttributeProto.GRAPH:
                attribute.g.CopyFrom(_EMPTY_GRAPH)
            del attribute.graphs[:]
        text = bare.SerializeToString()
    try:
        C.check_node(text, context, _NO_NAMES)
    except checker.ValidationError as error:
        return _first_line(error)
    return None


def _context(document: Document, imports: Imports) -> C.CheckerContext:
    context = C.CheckerContext()
    context.ir_version = document.model.ir_version
    context.opset_imports = imports.as_dict()
    return context


def whole(view: bytes | ModelProto, *, full: bool) -> str | None:
    """The checker's objection to a model, None when it has none."""
    try:
        checker.check_model(view, full_check=full)
    except InferenceError as error:
        return _contradiction(error)
    except (checker.ValidationError, RuntimeError, ValueError) as error:
        return _first_line(error)
    return None


def _contradiction(error: InferenceError) -> str | None:
    """The first complaint but for types that inference cannot know, as behind Cast-1."""
    lines = str(error).removeprefix("[ShapeInferenceError] Inference error(s): ").splitlines()
    return next((one for one in lines if one and not one.endswith("instead is null")), None)


def _first_line(error: Exception) -> str:
    lines: Iterable[str] = str(error).strip().splitlines()
    return next(iter(lines), type(error).__name__)
