# SPDX-License-Identifier: Apache-2.0
"""Generates the table of solved verdicts that conversions follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import opshift
from opshift.author import registry
from opshift.convert import plan_table, verdict_edges
from opshift.convert.ir import ir_plan

PATH = Path(opshift.__file__).parent / "convert" / plan_table.TABLE


def files() -> Mapping[Path, Callable[[], str]]:
    """The generated file."""
    return {PATH: table}


def table() -> str:
    """The verdicts of operators, and then those of the features of the IR."""
    return verdict_edges.table_of(registry.default()) + ir_plan.table()
