# SPDX-License-Identifier: Apache-2.0
"""The properties that a constant passes on to its replacement."""

from __future__ import annotations

from opshift.model.scope import Scope
from opshift.protos import TensorProto
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Heritage:
    """The name, the documentation and the metadata of a constant that another one replaces."""

    owner: Scope
    name: str
    doc_string: str
    metadata: tuple[tuple[str, str], ...]


def heritage_of(owner: Scope, tensor: TensorProto, name: str) -> Heritage:
    """The names and texts that a constant inherits from the constant that it replaces."""
    noted = getattr(tensor, "metadata_props", ())
    return Heritage(owner, name, tensor.doc_string, tuple((p.key, p.value) for p in noted))
