# SPDX-License-Identifier: Apache-2.0
"""Encodes inputs and outputs as JSON, for files that later releases read."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from opshift.model import arrays  # noqa: F401 - it tells numpy the small element types

TEXT = "string"


def encoded(value: Any) -> Any:
    """Returns an array, a sequence, a map or None in JSON form."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return {"sequence": [encoded(item) for item in value]}
    if isinstance(value, dict):
        return {"map": [[_plain(key), encoded(item)] for key, item in value.items()]}
    array = np.asarray(value)
    shape = list(array.shape)
    if array.dtype.kind in "OUST":
        texts = [_plain(item) for item in array.reshape(-1).tolist()]
        return {"type": TEXT, "shape": shape, "values": texts}
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"type": array.dtype.name, "shape": shape, "data": data}


def decoded(raw: Any) -> Any:
    """Returns the value that `encoded` has encoded."""
    if raw is None:
        return None
    if "sequence" in raw:
        return [decoded(item) for item in raw["sequence"]]
    if "map" in raw:
        return {key: decoded(item) for key, item in raw["map"]}
    if raw["type"] == TEXT:
        return np.array(raw["values"], dtype=object).reshape(raw["shape"])
    data = base64.b64decode(raw["data"])
    return np.frombuffer(data, np.dtype(raw["type"])).reshape(raw["shape"]).copy()


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
