# SPDX-License-Identifier: Apache-2.0
"""The zoos that `bench_zoo.py` measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.workloads import Graph, model_of, nested, transformer_block, weighty

LARGE = 1536  # MiB


def small(folder: Path, count: int) -> Path:
    """What people have: tens of nodes and 10 to 200 KB, each another kind, size and opset."""
    folder.mkdir()
    for i in range(count):
        opset, nodes = (9, 11, 12, 13, 15, 17)[i % 6], 15 + 8 * (i // 3 % 9)
        if i % 10 == 9:
            model = nested(max(opset, 11), nodes)
        else:
            model = (classifier, encoder, classifier)[i % 3](opset, nodes)
        (folder / f"m{i:05}.onnx").write_bytes(model.SerializeToString())
    return folder


def large(folder: Path) -> Path:
    """One model with large weights."""
    folder.mkdir()
    (folder / "m.onnx").write_bytes(weighty(11, LARGE).SerializeToString())
    return folder


def classifier(opset: int, nodes: int) -> Any:
    """Convolutions, as an image model has them."""
    g, x, width, before = Graph(opset), "x", 16, 3
    while len(g.nodes) < nodes - 4:
        at = f"conv{len(g.nodes)}"
        kernel = g.weight(at, np.full((width, before, 3, 3), 0.1, np.float32))
        scales = [g.weight(f"{at}.{n}", np.ones(width, np.float32)) for n in ("s", "b", "m", "v")]
        x = g("Conv", x, kernel, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        x = g("Relu", g("BatchNormalization", x, *scales))
        before = width
    pooled = g("Flatten", g("GlobalAveragePool", x), axis=1)
    dense = g.weight("dense", np.full((width, 1000), 0.1, np.float32))
    y = g("Softmax", g("Gemm", pooled, dense, g.weight("bias", np.zeros(1000, np.float32))), axis=1)
    return model_of(g, {"x": ["n", 3, 64, 64]}, {y: ["n", 1000]})


def encoder(opset: int, nodes: int) -> Any:
    """Attention, behind and before something wide."""
    g, wide, layer = Graph(opset), 50 * nodes, 0
    up, down = np.full((4, wide), 0.1, np.float32), np.full((wide, 4), 0.1, np.float32)
    x = g("MatMul", g("MatMul", "x", g.weight("up", up)), g.weight("down", down))
    while len(g.nodes) < nodes:
        x = transformer_block(g, x, layer)
        layer += 1
    return model_of(g, {"x": ["b", 3, 4], "mask": ["b", 3]}, {x: ["b", 3, 4]})
