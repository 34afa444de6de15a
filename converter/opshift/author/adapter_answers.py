# SPDX-License-Identifier: Apache-2.0
"""Defines the possible answers of an adapter for one node."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from opshift.author.node import Value


class Keep(enum.Enum):
    """The answer of an adapter that keeps the node exactly as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP
Result: TypeAlias = "Value | tuple[Value, ...] | Keep"
