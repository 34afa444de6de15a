# SPDX-License-Identifier: Apache-2.0
"""Adapters that are added for one test."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from opshift.author import registry
from opshift.author.traits import Fold
from opshift.author.verdicts import Adapter


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
