# SPDX-License-Identifier: Apache-2.0
"""Generates the tables of the package: operators, runtimes, and the routes of conversions.

`opshift ops build` writes the operator database of a vendor's domain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import opshift
from opshift.author import registry
from opshift.author.database import build, merged
from opshift.cli import outcome_schema
from opshift.convert import plan_table, verdict_edges
from opshift.convert.ir import ir_plan
from opshift.opsets import schemas, targets
from opshift.opsets.opset_changelog_pb2 import OpsetChangelog
from opshift.versions import DOMAINS

OPSETS = Path(schemas.__file__).parent
DATABASE = OPSETS / "opset_changelog.bin"


def database_files() -> Mapping[Path, Callable[[], bytes]]:
    """Returns the operator database: the old entries, and new entries of the installed onnx."""
    return {DATABASE: _database}


def _database() -> bytes:
    old = OpsetChangelog.FromString(DATABASE.read_bytes())
    return merged(old, build(DOMAINS)).SerializeToString(deterministic=True)


def target_files() -> Mapping[Path, Callable[[], str]]:
    """Returns the shipped form of the table of runtimes."""
    source = OPSETS / "targets.toml"
    return {OPSETS / targets.SHIPPED: lambda: targets.shipped_of(source.read_text("utf-8"))}


def schema_files() -> Mapping[Path, Callable[[], str]]:
    """Returns the schema of outcomes."""
    return {Path(opshift.__path__[0], outcome_schema.FILE): outcome_schema.text}


def plan_files() -> Mapping[Path, Callable[[], str]]:
    """Returns the adapters that conversions choose: for operators and for IR features."""
    path = Path(plan_table.__file__).with_name(plan_table.TABLE)
    return {path: lambda: verdict_edges.table_of(registry.default()) + ir_plan.table()}
