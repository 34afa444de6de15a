# SPDX-License-Identifier: Apache-2.0
"""The JSON form of the versions of operators, and of their changes between versions."""

from __future__ import annotations

from opshift.json_form import Form
from opshift.opsets.changelog import Delta, Entry
from opshift.opsets.schema_changes import SchemaChange
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class DeltaForm(Form):
    """An operator whose implementations at two versions differ."""

    MERGED = ("delta",)

    delta: Delta
    changes: tuple[SchemaChange, ...]
    """The changes of the operator."""
    breaks: bool
    """Whether a change can make a model illegal or wrong."""


@dataclass(frozen=True, slots=True)
class Implementations(Form):
    """The implementations of operators.

    Printed by `opshift ops`.
    """

    KIND = "ops"

    domain: str
    """The domain."""


@dataclass(frozen=True, slots=True)
class OperatorChanges(Implementations):
    """The operators that changed in a range of versions."""

    deltas: tuple[DeltaForm, ...]
    """For a range of versions: each operator that changed."""


@dataclass(frozen=True, slots=True)
class OperatorVersions(Implementations):
    """The versions of one operator."""

    entries: tuple[Entry, ...]
    """For one operator: each version."""
