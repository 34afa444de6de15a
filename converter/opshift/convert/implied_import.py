# SPDX-License-Identifier: Apache-2.0
"""Adds missing imports, if the model's operators mean the same in every possible version."""

from __future__ import annotations

from opshift import versions
from opshift.author.registry import Registry
from opshift.convert import guard
from opshift.convert.step import is_idle
from opshift.model import imports
from opshift.model.walk import nodes, nodes_in
from opshift.opsets import schemas
from opshift.protos import ModelProto


def add(model: ModelProto, adapters: Registry) -> list[str]:
    """Imports the newest opset of the IR version into a model without imports; returns the note."""
    if model.opset_import or model.functions:
        return []
    opsets = [release.onnx for release in versions.RELEASES if release.ir == model.ir_version]
    if not opsets or not all(
        not domain
        and schemas.schema("", op, min(opsets)) is not None
        and _is_same("", op, min(opsets), max(opsets), adapters)
        for domain, op in {(schemas.normal(node.domain), node.op_type) for node in nodes(model)}
    ):
        return []
    model.opset_import.add(version=max(opsets))
    return [
        f"the model imports no operator set; opset {max(opsets)} was added, because every opset of"
        f" IR {model.ir_version} defines the operators of the model in the same way"
    ]


def add_domains(model: ModelProto, adapters: Registry) -> list[str]:
    """Adds missing imports of domains to a model with other imports; returns the notes.

    onnxruntime writes and reads models without these imports.
    """
    notes = []
    for domain, ops in sorted(lacking(model).items()):
        if (version := _first(domain, ops, adapters)) is not None:
            model.opset_import.add(domain=domain, version=version)
            notes.append(
                f"the model does not import {domain}; version {version} was added, because"
                " all versions define the operators of the model in the same way"
            )
    return notes


def lacking(model: ModelProto) -> dict[str, set[str]]:
    """Returns the operators of each domain that the model uses without importing the domain."""
    known_domains = {
        *imports.versions(model),
        *(function.domain for function in model.functions),
        "",
    }
    ops_by_domain: dict[str, set[str]] = {}
    for node in nodes_in(model.graph) if model.opset_import else ():
        if (domain := schemas.normal(node.domain)) not in known_domains:
            ops_by_domain.setdefault(domain, set()).add(node.op_type)
    return ops_by_domain


def _first(domain: str, ops: set[str], adapters: Registry) -> int | None:
    """Returns the first domain version that has all these operators; None if one changed later."""
    begins = [schemas.known().history(domain, op) for op in ops]
    newest = schemas.known().newest(domain)
    if newest is None or not all(begins):
        return None
    first = max(history[0].operator.since_version for history in begins)
    return first if all(_is_same(domain, op, first, newest, adapters) for op in ops) else None


def _is_same(domain: str, op: str, low: int, high: int, adapters: Registry) -> bool:
    """Returns whether schemas prove that no node of an operator changes from `low` to `high`."""
    for since in (schema.since for schema in schemas.history(domain, op)):
        if low < since <= high:
            crossing = (domain, op, since - 1, since)
            adapter, derived = adapters.get(*crossing), guard.derive(*crossing)
            if adapter is None or derived is None or not is_idle(adapter, derived):
                return False
    return True
