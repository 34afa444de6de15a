# SPDX-License-Identifier: Apache-2.0
"""Classes of nodes: what no schema and no check can tell apart is looked at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opshift.author.registry import Registry

FEWEST_NODES = 500
"""In a smaller model onnx's own calls cost less than the columns do."""


def proves(data: bytes, nodes: int, adapters: Registry) -> bool:
    """Whether `onnx.checker.check_model(data, full_check=True)` is sure to pass."""
    if nodes < FEWEST_NODES:
        return False
    from opshift.convert.classes import proof

    return proof.proves(data, adapters)
