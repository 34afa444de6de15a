# SPDX-License-Identifier: Apache-2.0
"""The import of a model that has none, if every opset of its IR version means the same."""

from __future__ import annotations

from opshift import versions
from opshift.author.registry import Registry
from opshift.convert import guard
from opshift.convert.step import is_idle
from opshift.model.walk import nodes
from opshift.opsets import schemas
from opshift.protos import ModelProto


def add(model: ModelProto, adapters: Registry) -> list[str]:
    """Imports the newest opset of the IR version; returns a note if it did."""
    if model.opset_import or model.functions:
        return []
    opsets = [one.onnx for one in versions.RELEASES if one.ir == model.ir_version]
    if not opsets or not all(
        _is_one(key, min(opsets), max(opsets), adapters)
        for key in {(schemas.normal(node.domain), node.op_type) for node in nodes(model)}
    ):
        return []
    model.opset_import.add(version=max(opsets))
    return [
        f"the model imports no operator set; opset {max(opsets)} was added, because its operators"
        f" mean the same in every opset of IR {model.ir_version}"
    ]


def _is_one(key: tuple[str, str], low: int, high: int, adapters: Registry) -> bool:
    """Whether an operator of ONNX means the same in every opset between two."""
    domain, op = key
    if domain or schemas.schema(domain, op, low) is None:
        return False
    begins = [one.since for one in schemas.history(domain, op) if low < one.since <= high]
    return all(_stays(adapters, (domain, op, since - 1, since)) for since in begins)


def _stays(adapters: Registry, crossing: tuple[str, str, int, int]) -> bool:
    """Whether two schemas prove that no node of an operator changes over a boundary."""
    adapter, derived = adapters.get(*crossing), guard.derive(*crossing)
    return adapter is not None and derived is not None and is_idle(adapter, derived)
