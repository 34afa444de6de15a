# SPDX-License-Identifier: Apache-2.0
"""Extracts the part of a model that onnx's inference judges.

After a node whose operator onnx lacks, inference ignores the errors of all nodes. Therefore an
error may appear only when a conversion replaces the operator, although the source model is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

from opshift.author.traits import DeclaredRules
from opshift.convert.legal import checker
from opshift.model import imports, walk
from opshift.model.functions import behind, callers_of, calls_of, functions_of
from opshift.model.scope import FunctionId, call_id
from opshift.opsets import schemas
from opshift.protos import ModelProto, NodeProto
from opshift.protos.copies import as_model, copied


def types(
    model: bytes | ModelProto, adapters: DeclaredRules, *, data_prop: bool = False
) -> str | None:
    """Returns the error of inference on a model or on its inferred part, or None."""
    error = checker.types(model, adapters, data_prop=data_prop)
    return error or hidden(model, adapters, data_prop=data_prop)


def hidden(
    model: bytes | ModelProto, adapters: DeclaredRules, *, data_prop: bool = False
) -> str | None:
    """Returns the error of inference that nodes of unknown operators hide, or None."""
    whole = as_model(model)
    part = inferred_part(whole)
    return None if part is whole else checker.types(part, adapters, data_prop=data_prop)


def inferred_part(model: ModelProto) -> ModelProto:
    """Returns a model without the nodes that inference skips, and without their readers.

    If inference skips no node, the result is the model itself.
    """
    functions = functions_of(model)
    imported = {which: imports.versions(body) for which, body in functions.items()}
    direct = {
        which
        for which, body in functions.items()
        if any(_is_lacking(node, imported[which], functions) for node in walk.nodes_in(body))
    }
    skipped_calls = direct | behind(callers_of(calls_of(functions)), *direct)
    versions, lost, kept = imports.versions(model), set[str](), []
    for node in model.graph.node:
        if lost.isdisjoint(walk.reads(node)) and not any(
            call_id(inner) in skipped_calls or _is_lacking(inner, versions, functions)
            for inner in (node, *walk.nodes_inside(node))
        ):
            kept.append(node)
        else:
            lost.update(node.output)
    if len(kept) == len(model.graph.node):
        return model
    part = copied(model)
    del part.graph.node[:]
    part.graph.node.extend(kept)
    return part


def _is_lacking(
    node: NodeProto, versions: Mapping[str, int], functions: Mapping[FunctionId, object]
) -> bool:
    """Returns whether a node is no call of a function and onnx lacks its operator."""
    if call_id(node) in functions:
        return False
    domain = schemas.normal(node.domain)
    version = versions.get(domain)
    return (
        version is None
        or schemas.is_documented(domain)
        or schemas.schema(domain, node.op_type, version) is None
    )
