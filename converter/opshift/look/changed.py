# SPDX-License-Identifier: Apache-2.0
"""Finds the changes of an operator between two versions, in its schema and in its behaviour."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.author import registry
from opshift.author.registry import Registry
from opshift.opsets import schema_changes, schemas
from opshift.opsets.schema_changes import SchemaChange


def between(domain: str, op: str, start: int, to: int) -> tuple[SchemaChange, ...]:
    """Returns the changes as sentences; a rewrite by an adapter also counts as a change."""
    found = schema_changes.between(domain, op, start, to)
    return (*found, *_behaviour(domain, op, start, to, registry.default()))


def _behaviour(
    domain: str, op: str, start: int, to: int, adapters: Registry
) -> Iterator[SchemaChange]:
    for schema in schemas.history(domain, op):
        if not start < schema.since <= to:
            continue
        adapter = adapters.get(domain, op, schema.since - 1, schema.since)
        if adapter is not None and adapter.rewrites:
            told = adapter.summary.rstrip(".")
            yield SchemaChange(f"the behaviour changed at {schema.since}: {told}", True)
