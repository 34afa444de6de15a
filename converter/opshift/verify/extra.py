# SPDX-License-Identifier: Apache-2.0
"""The runtime that comes with the extra `opshift[verify]`, imported when it is needed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from opshift.errors import MissingExtra

MISSING = "onnxruntime is missing; run `pip install 'opshift[verify]'`"


def is_missing() -> bool:
    """Whether onnxruntime is not installed, which is seen without importing it."""
    return importlib.util.find_spec("onnxruntime") is None


def onnxruntime() -> Any:
    """The module onnxruntime, or a MissingExtra that says how to get it."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise MissingExtra(MISSING) from error
