# SPDX-License-Identifier: Apache-2.0
"""Shared by the engine's tests: adapters added for one test, models written as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from onnx import ModelProto
from opshift.author import registry
from opshift.author.traits import Fold
from opshift.author.verdicts import Adapter
from opshift.testing.text import parse_model


@pytest.fixture
def with_adapters(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Adds adapters to a copy of the registry, in place of those they collide with."""

    def add(*declared: Adapter | Fold) -> None:
        branch = registry.default().branch()
        for one in declared:
            if isinstance(one, Adapter):
                for op in one.ops:
                    branch._verdicts.pop((one.domain, op, one.start, one.to), None)
            branch.add(one)
        monkeypatch.setattr(registry, "default", lambda: branch)

    return add


def model(text: str, opset: int = 12, ir: int = 8, more: str = "") -> ModelProto:
    """A model from `(inputs) => (outputs) { nodes }`, with functions behind it."""
    return parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}{more}]> g {text}')


def ops(proto: ModelProto) -> str:
    return " ".join(node.op_type for node in proto.graph.node)
