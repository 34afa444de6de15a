# SPDX-License-Identifier: Apache-2.0
"""Converts models by the classes of their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from opshift.report import Report


class ClassAnswer(NamedTuple):
    """What the classes of a model tell: without a result, it must be converted node by node."""

    result: tuple[bytes, Report] | None
    sound: bool  # whether onnx has certainly nothing against the model
    why: str = ""  # there is no result
