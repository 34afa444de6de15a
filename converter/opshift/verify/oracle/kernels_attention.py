# SPDX-License-Identifier: Apache-2.0
"""Implements Attention, because onnx's reference differs from the specification."""

from typing import Any

import numpy as np

from opshift.verify.oracle import engines
from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.kernels_misc import as_version
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import Value, dtype_of


@kernel("Attention")
def attention(
    call: Call, q: np.ndarray, k: np.ndarray, v: np.ndarray, *more: Value
) -> tuple[Value, ...]:
    """onnx.reference broadcasts some Attention masks wrongly, and caps qk_matmul_output mode 0."""
    mask, past, *remaining = (*more, None, None)[: max(len(more), 2)]
    if call.since < 24 and mask is not None and mask.shape[-1] == 1:
        keys = k.shape[-2] + (0 if past is None else past.shape[2])
        mask = np.repeat(mask, keys, axis=-1)
    if mask is not None:
        mask = np.broadcast_to(mask, (*mask.shape[:-2], q.shape[-2], mask.shape[-1]))
    results = engines.reference(call, q, k, v, mask, past, *remaining)
    if call["qk_matmul_output_mode"] == 0 and call["softcap"]:
        plain = as_version(call, call.since, softcap=None)
        scores = engines.reference(plain, q, k, v, mask, past, *remaining)[3]
        return (*results[:3], scores)
    return results


@kernel("FlexAttention", domain="ai.onnx.preview", scoped=True)
def flex_attention(
    frame: Any, call: Call, q: np.ndarray, k: np.ndarray, v: np.ndarray
) -> tuple[Value, ...]:
    """onnx's function body of FlexAttention uses wrong input names inside its subgraphs."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(part, group, axis=1) for part in (k, v))
    scale = call["scale"] or 1 / np.sqrt(q.shape[-1])
    # as in the function body, both factors are scaled
    root = np.sqrt(np.float32(scale)).astype(q.dtype)
    scores = np.matmul(q * root, np.swapaxes(k, -1, -2) * root)
    precision = call["softmax_precision"]
    if precision is None:
        precision = 11 if q.dtype == np.float64 else 1
    probs = _modified(frame, call["score_mod"], scores.astype(dtype_of(precision)))
    probs = np.exp(probs - probs.max(axis=-1, keepdims=True))
    probs = _modified(frame, call["prob_mod"], probs / probs.sum(axis=-1, keepdims=True))
    return (np.matmul(probs.astype(v.dtype), v),)


def _modified(frame: Any, graph: Any, value: np.ndarray) -> np.ndarray:
    result: np.ndarray = value if graph is None else frame.subgraph(graph, [value])[0]
    return result
