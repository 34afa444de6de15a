# SPDX-License-Identifier: Apache-2.0
"""Stores the properties of a constant that its replacement inherits."""

from __future__ import annotations

from opshift.model.scope import Scope
from opshift.protos import TensorProto
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Heritage:
    """The name, the documentation and the metadata of a constant that was replaced."""

    owner: Scope
    name: str
    doc_string: str
    metadata: tuple[tuple[str, str], ...]


def heritage_of(owner: Scope, tensor: TensorProto, name: str) -> Heritage:
    """Returns the properties that the replacement of a constant inherits."""
    noted = getattr(tensor, "metadata_props", ())
    return Heritage(owner, name, tensor.doc_string, tuple((p.key, p.value) for p in noted))
