# SPDX-License-Identifier: Apache-2.0
"""Generates the shipped form of the table of runtimes from targets.toml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from opshift.opsets import targets

FOLDER = Path(targets.__file__).parent


def files() -> Mapping[Path, Callable[[], str]]:
    """The generated file."""
    source = FOLDER / "targets.toml"
    return {FOLDER / targets.SHIPPED: lambda: targets.shipped_of(source.read_text("utf-8"))}
