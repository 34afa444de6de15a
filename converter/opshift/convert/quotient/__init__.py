# SPDX-License-Identifier: Apache-2.0
"""Converts models by the classes of their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from opshift.convert.classes.node_class import NodeClass

if TYPE_CHECKING:
    from opshift.convert.quotient.template import Template
    from opshift.errors import Refused
    from opshift.report import Report


class ClassAnswer(NamedTuple):
    """What the classes of a model tell: without a result, it must be converted node by node."""

    result: tuple[bytes, Report] | None
    sound: bool  # whether onnx has certainly nothing against the model
    why: str = ""  # there is no result
    refused: Refused | None = None  # in place of a result


Key: TypeAlias = tuple[NodeClass, int, bool, tuple[int, ...]]
"""A class of nodes, which of its outputs nothing reads, whether the node has a name, and the first
position of each input; the positions are left out where no value is read twice.
"""


Templates: TypeAlias = "dict[tuple[NodeClass, Key], Template | None]"
"""What becomes of each class, by the class as it came and the key that has the answer."""


def untouched(one: NodeClass) -> Key:
    """The key of a class that no step looks at."""
    return one, 0, False, ()
