# SPDX-License-Identifier: Apache-2.0
"""Models with weights in data files, and the content of a folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper, parser

SIZE = 3000
TEXT = f"""<ir_version: 7, opset_import: ["": 12]> g (float[{SIZE}] x) => (float[{SIZE}] y)
{{ h = Add(x, w) y = Softmax<axis = 0>(h) }}"""


def weight(seed: int = 1) -> bytes:
    return np.random.RandomState(seed).rand(SIZE).astype("<f4").tobytes()


def model(location: str = "", offset: int = 0, *, seed: int = 1) -> ModelProto:
    """Returns a model with one weight, inside of the model or at a position in a file."""
    proto = parser.parse_model(TEXT)
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[SIZE])
    if not location:
        tensor.raw_data = weight(seed)
        return proto
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", 4 * SIZE)):
        tensor.external_data.add(key=key, value=str(value))
    return proto


def save(path: Path, location: str = "", offset: int = 0, *, seed: int = 1) -> Path:
    """Writes such a model and its data file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model(location, offset, seed=seed).SerializeToString())
    if location:
        data = path.parent / location
        data.parent.mkdir(parents=True, exist_ok=True)
        data.write_bytes(b"\7" * offset + weight(seed))
    return path


def load(path: Path) -> tuple[int, bytes]:
    """Loads a model with onnx; returns its opset and its weight."""
    loaded = onnx.load(path)
    return loaded.opset_import[0].version, numpy_helper.to_array(loaded.graph.initializer[0]).tobytes()  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every regular file below a folder."""
    return {
        os.path.relpath(os.path.join(here, name), folder): Path(here, name).read_bytes()
        for here, _, names in os.walk(folder)
        for name in names
        if os.path.isfile(os.path.join(here, name))
    }
