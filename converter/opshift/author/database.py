# SPDX-License-Identifier: Apache-2.0
"""Builds the operator database from the installed onnx and from installed packages."""

from __future__ import annotations

from opshift.author import registry
from opshift.author.registry import Registry
from opshift.opsets import schemas
from opshift.opsets.operator_set import Operator
from opshift.opsets.opset_changelog_pb2 import Change, Domain, OpsetChangelog

_SITE = "https://onnx.ai/onnx/operators"
PAGES = {
    "": f"{_SITE}/onnx__{{op}}.html",
    "ai.onnx.ml": f"{_SITE}/onnx_aionnxml_{{op}}.html",
    "ai.onnx.preview.training": f"{_SITE}/onnx_aionnxpreviewtraining_{{op}}.html",
    "ai.onnx.preview": f"{_SITE}/onnx_aionnxpreview_{{op}}.html",
}


def build(domains: tuple[str, ...]) -> OpsetChangelog:
    """Builds the entries of these domains from the installed onnx, without the shipped data."""
    found, adapters = OpsetChangelog(), registry.default()
    for name in domains:
        own = schemas.installed(name)
        if not own:
            continue
        domain = found.domains.add(name=name, documentation=PAGES.get(name, ""))
        for version in range(1, schemas.newest_installed(name) + 1):
            changes = [
                change(
                    [one for one in own if one.name == schema.name and one.since <= version],
                    adapters,
                )
                for schema in own
                if schema.since == version
            ]
            domain.versions.add(version=version, changes=changes)
    return found


def change(history: list[schemas.Schema], adapters: Registry) -> Change:
    """Builds the database entry for the last schema in the history of an operator."""
    schema = history[-1]
    domain, op, version = schema.domain, schema.name, schema.since
    instead = adapters.get(domain, op, version - 1, version)
    found = Operator(schema, *schemas.prose(domain, op, version)).change()
    found.replaced_by.extend(sorted(instead.emits) if instead and schema.deprecated else [])
    found.fingerprint = schemas.fingerprint_of(history[-2:])
    return found


def merged(old: OpsetChangelog, new: OpsetChangelog) -> OpsetChangelog:
    """Returns the old entries, and the new entries for versions after the newest old version."""
    result = OpsetChangelog()
    result.CopyFrom(old)
    present = {domain.name: domain for domain in result.domains}
    for domain in new.domains:
        own: Domain = present.get(domain.name) or result.domains.add(name=domain.name)
        known = max((version.version for version in own.versions), default=0)
        own.versions.extend(version for version in domain.versions if version.version > known)
    return result
