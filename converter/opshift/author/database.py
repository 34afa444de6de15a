# SPDX-License-Identifier: Apache-2.0
"""Builds the operator database from the installed onnx and from installed packages."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.author import registry
from opshift.author.registry import Registry
from opshift.opsets import schema_changes, schemas
from opshift.opsets.operator_set import Operator
from opshift.opsets.opset_changelog_pb2 import Change, Domain, OpsetChangelog
from opshift.opsets.schema_changes import SchemaChange

_SITE = "https://onnx.ai/onnx/operators"
PAGES = {
    "": f"{_SITE}/onnx__{{op}}.html",
    "ai.onnx.ml": f"{_SITE}/onnx_aionnxml_{{op}}.html",
    "ai.onnx.preview.training": f"{_SITE}/onnx_aionnxpreviewtraining_{{op}}.html",
    "ai.onnx.preview": f"{_SITE}/onnx_aionnxpreview_{{op}}.html",
}


def build(domains: tuple[str, ...]) -> OpsetChangelog:
    """Builds the entries of these domains from the installed onnx, without the shipped data."""
    database, adapters = OpsetChangelog(), registry.default()
    for name in domains:
        schemas_of_domain = schemas.installed(name)
        if not schemas_of_domain:
            continue
        domain = database.domains.add(name=name, documentation=PAGES.get(name, ""))
        for version in range(1, schemas.newest_installed(name) + 1):
            changes = [
                change(
                    [
                        one
                        for one in schemas_of_domain
                        if one.name == schema.name and one.since <= version
                    ],
                    adapters,
                )
                for schema in schemas_of_domain
                if schema.since == version
            ]
            domain.versions.add(version=version, changes=changes)
    return database


def change(history: list[schemas.Schema], adapters: Registry) -> Change:
    """Builds the database entry for the last schema in the history of an operator."""
    schema = history[-1]
    domain, op, version = schema.domain, schema.name, schema.since
    instead = adapters.get(domain, op, version - 1, version)
    entry = Operator(schema, *schemas.prose(domain, op, version)).change()
    entry.replaced_by.extend(sorted(instead.emits) if instead and schema.deprecated else [])
    entry.fingerprint = schemas.fingerprint_of(history[-2:])
    return entry


def changes_between(domain: str, op: str, start: int, to: int) -> tuple[SchemaChange, ...]:
    """Returns the changes as sentences; a rewrite by an adapter also counts as a change."""
    changes = schema_changes.between(domain, op, start, to)
    return (*changes, *_rewritten(domain, op, start, to, registry.default()))


def _rewritten(
    domain: str, op: str, start: int, to: int, adapters: Registry
) -> Iterator[SchemaChange]:
    for schema in schemas.history(domain, op):
        if not start < schema.since <= to:
            continue
        adapter = adapters.get(domain, op, schema.since - 1, schema.since)
        if adapter is not None and adapter.rewrites:
            summary = adapter.summary.rstrip(".")
            yield SchemaChange(f"the behaviour changed at {schema.since}: {summary}", True)


def merged(old: OpsetChangelog, new: OpsetChangelog) -> OpsetChangelog:
    """Returns the old entries, and the new entries for versions after the newest old version."""
    result = OpsetChangelog()
    result.CopyFrom(old)
    present = {domain.name: domain for domain in result.domains}
    for domain in new.domains:
        domain_entry: Domain = present.get(domain.name) or result.domains.add(name=domain.name)
        newest = max((version.version for version in domain_entry.versions), default=0)
        domain_entry.versions.extend(
            version for version in domain.versions if version.version > newest
        )
    return result
