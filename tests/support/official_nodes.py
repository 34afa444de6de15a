# SPDX-License-Identifier: Apache-2.0
"""The official node tests of the installed onnx, whose large poolings are computed quickly."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from onnx.reference.ops import op_pool_common

from tools.conformance import node_tests

LOOPS = op_pool_common.pool
OVER = {
    "AVG": lambda windows, axes, p: windows.mean(axes),
    "MAX": lambda windows, axes, p: windows.max(axes),
    "LPPOOL": lambda windows, axes, p: (np.abs(windows) ** p).sum(axes) ** (1.0 / p),
}


@functools.cache
def collected() -> list[Any]:
    """Collects the tests once for all modules; the loops of onnx would take most of the time."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(op_pool_common, "pool", pool)
        return node_tests.collected()


def pool(
    padded: Any, shape: Any, kernel: Any, strides: Any, out: Any, kind: str, *rest: Any, **more: Any
) -> Any:
    """Computes a pooling without padding and strides at once, and every other one by the loops."""
    p = more.get("p", 1)
    if rest or more.keys() - {"p"} or set(strides) != {1}:
        return LOOPS(padded, shape, kernel, strides, out, kind, *rest, **more)
    axes = tuple(range(2, len(shape)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axes)
    inner = tuple(range(len(shape), windows.ndim))
    return OVER[kind](windows, inner, p).astype(padded.dtype)
