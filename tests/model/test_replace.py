# SPDX-License-Identifier: Apache-2.0
"""Replaced nodes leave the tables of a document."""

from __future__ import annotations

from collections.abc import Sequence

import opshift
import pytest
from growth_families import FAMILIES
from onnx import GraphProto
from opshift.model.document import Document


def test_graphs_of_all_replaced_nodes_are_forgotten_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each time looks at all graphs of the model."""
    original = Document.forget_scopes
    seen: list[Sequence[GraphProto]] = []

    def forget_scopes(document: Document, graphs: Sequence[GraphProto]) -> None:
        seen.append(graphs)
        original(document, graphs)

    monkeypatch.setattr(Document, "forget_scopes", forget_scopes)

    def times(conditions: int) -> int:
        seen.clear()
        opshift.convert_version(FAMILIES["conditions in a function"](conditions), 10)
        return len(seen)

    assert times(3) == times(9)
    assert max(len(graphs) for graphs in seen) == 2 * 9
