# SPDX-License-Identifier: Apache-2.0
"""Adapters that are added for one test, and small models that go by classes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from opshift.author import registry
from opshift.author.traits import Fold
from opshift.author.verdicts import Adapter
from opshift.convert import api
from opshift.convert.quotient import conversion


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


@pytest.fixture
def small_models_go_by_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models of some tests are small."""
    monkeypatch.setattr(api, "FEWEST_NODES", 0)
    monkeypatch.setattr(api, "MANY_NODES", 0)
    monkeypatch.setattr(conversion, "ALIKE", 1)
