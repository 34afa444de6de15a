# SPDX-License-Identifier: Apache-2.0
"""The answers of an adapter about one node."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from opshift.author.node import Value


class Keep(enum.Enum):
    """The one answer that is not a value: the node stays exactly as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP
Result: TypeAlias = "Value | tuple[Value, ...] | Keep"
