# SPDX-License-Identifier: Apache-2.0
"""The runtime that comes with the extra `opshift[verify]`, imported when it is needed."""

from __future__ import annotations

import importlib
from typing import Any

from opshift.errors import MissingExtra


def onnxruntime() -> Any:
    """The module onnxruntime, or a MissingExtra that says how to get it."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise MissingExtra("onnxruntime is missing; run `pip install 'opshift[verify]'`") from error
