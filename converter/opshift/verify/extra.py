# SPDX-License-Identifier: Apache-2.0
"""Imports onnxruntime, which comes with `opshift[verify]`, when it is needed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from opshift.errors import MissingExtra

MISSING = "onnxruntime is missing; run `pip install 'opshift[verify]'`"


def is_missing() -> bool:
    """Returns whether onnxruntime is not installed, without importing it."""
    return importlib.util.find_spec("onnxruntime") is None


def onnxruntime() -> Any:
    """Returns the module onnxruntime; raises MissingExtra with the command that installs it."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise MissingExtra(MISSING) from error
