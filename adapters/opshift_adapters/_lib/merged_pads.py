# SPDX-License-Identifier: Apache-2.0
"""Pads of zeros that onnxruntime adds to the pads of the pooling that reads them."""

from opshift.adapter import Node, Surroundings, Value, np

from opshift_adapters._lib.windows import knows

# Operators whose results are never below zero.
FROM_ZERO_UP = frozenset({"Abs", "Exp", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt"})


def merged_pads(node: Node, around: Surroundings) -> list[int]:
    """The pads of a pooling together with those of Pads before it; empty if these stay apart."""
    if node.str("auto_pad") != "NOTSET":
        return []
    total, added = node.ints_or_none("pads"), _spatial_zeros(node["X"], around)
    if not any(added):
        return []
    return [a + b for a, b in zip(total or [0] * len(added), added, strict=True)]


def _spatial_zeros(x: Value, around: Surroundings) -> list[int]:
    """The zeros around an image that only a pooling reads; empty if there may be anything else."""
    pad = x.producer
    if pad is None or pad.op != "Pad" or len(pad.inputs) > 3:  # a Pad with axes stays apart
        return []
    if around.is_output(x) or len(around.readers(x)) > 1 or around.is_read_within(x):
        return []
    every, half = _zeros(pad), len(_zeros(pad)) // 2
    if any(every[:2] + every[half : half + 2]) or min(every, default=0) < 0:
        return []
    own, before = every[2:half] + every[half + 2 :], _spatial_zeros(pad["data"], around)
    return [a + b for a, b in zip(own, before, strict=True)] if before else own


def _zeros(pad: Node) -> list[int]:
    """The pads of a Pad, if it adds zeros and they are known."""
    if pad.str("mode") != "constant":
        return []
    if knows(pad, "pads"):
        return [] if pad.float("value") else pad.ints("pads")
    given, filled = pad["pads"].const_or_none(), pad.input("constant_value")
    value = np.zeros(1) if filled is None else filled.const_or_none()
    return [] if given is None or value is None or value.any() else given.tolist()


def reach_the_kernel(pads: list[int], node: Node) -> bool:
    """Whether a pad is as long as the kernel, which onnxruntime rejects."""
    kernel = node.ints("kernel_shape")
    return any(pad >= size for pad, size in zip(pads, kernel * 2, strict=True))


def differ_by_side(pads: list[int]) -> bool:
    """Whether an axis has another pad at its begin than at its end."""
    half = len(pads) // 2
    return pads[:half] != pads[half:]


def is_never_negative(x: Value) -> bool:
    """Whether the operator that computes a value gives no negative numbers."""
    made = x.producer
    return made is not None and not made.proto.domain and made.op in FROM_ZERO_UP
