# SPDX-License-Identifier: Apache-2.0
"""The rules that a model breaks in its head: a class does not depend on a name of a domain."""

from __future__ import annotations

from opshift.author.registry import Registry
from opshift.convert.legal import rules
from opshift.convert.legal.findings import Findings
from opshift.model.document import Document

_HARMLESS = frozenset(("DOMAIN_NAME",))


def notes(document: Document, adapters: Registry) -> list[str] | None:
    """The notes about a model without its nodes; None if it breaks a rule of another kind."""
    return harmless(rules.at_end(document, adapters, visit_all=False))


def harmless(found: Findings) -> list[str] | None:
    """The notes about some findings; None if one of them is of another kind."""
    return found.notes if _HARMLESS.issuperset(one.rule for one in found.found) else None
