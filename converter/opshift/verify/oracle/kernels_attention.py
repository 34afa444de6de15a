# SPDX-License-Identifier: Apache-2.0
"""Attention, where the reference and the text differ."""

import numpy as np

from opshift.verify.oracle import engines
from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.kernels_misc import as_version
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import Value


@kernel("Attention")
def attention(
    call: Call, q: np.ndarray, k: np.ndarray, v: np.ndarray, *more: Value
) -> tuple[Value, ...]:
    """Masks broadcast, and mode 0 gives scores without the cap; the reference differs in both."""
    mask, past, *rest = (*more, None, None)[: max(len(more), 2)]
    if call.since < 24 and mask is not None and mask.shape[-1] == 1:
        keys = k.shape[-2] + (0 if past is None else past.shape[2])
        mask = np.repeat(mask, keys, axis=-1)
    if mask is not None:
        mask = np.broadcast_to(mask, (*mask.shape[:-2], q.shape[-2], mask.shape[-1]))
    results = engines.reference(call, q, k, v, mask, past, *rest)
    if call["qk_matmul_output_mode"] == 0 and call["softcap"]:
        plain = as_version(call, call.since, softcap=None)
        scores = engines.reference(plain, q, k, v, mask, past, *rest)[3]
        return (*results[:3], scores)
    return results
