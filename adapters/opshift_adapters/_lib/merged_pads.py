# SPDX-License-Identifier: Apache-2.0
"""Pads of zeros that onnxruntime merges into the pads of the pooling that reads them."""

from opshift.adapter import Node, Surroundings, Value, np

from opshift_adapters._lib.windows import knows


def merged_pads(node: Node, around: Surroundings) -> list[int]:
    """Returns the sum of the pads of a pooling and of the Pads before it; [] if not merged."""
    if node.str("auto_pad") != "NOTSET":
        return []
    total, added = node.ints_or_none("pads"), _spatial_zeros(node["X"], around)
    if not any(added):
        return []
    return [a + b for a, b in zip(total or [0] * len(added), added, strict=True)]


def _spatial_zeros(x: Value, around: Surroundings) -> list[int]:
    """Returns how many zeros the Pads before a pooling add to each side; [] if that is unknown."""
    pad = x.producer
    if pad is None or pad.op != "Pad" or len(pad.inputs) > 3:  # a Pad with axes is not merged
        return []
    if around.is_output(x) or len(around.readers(x)) > 1 or around.is_read_within(x):
        return []
    every, half = _zeros(pad), len(_zeros(pad)) // 2
    if any(every[:2] + every[half : half + 2]) or min(every, default=0) < 0:
        return []
    own, before = every[2:half] + every[half + 2 :], _spatial_zeros(pad["data"], around)
    return [a + b for a, b in zip(own, before, strict=True)] if before else own


def _zeros(pad: Node) -> list[int]:
    """Returns the pads of a Pad if they are known and the added elements are zeros, else []."""
    if pad.str("mode") != "constant":
        return []
    if knows(pad, "pads"):
        return [] if pad.float("value") else pad.ints("pads")
    given, filled = pad["pads"].const_or_none(), pad.input("constant_value")
    value = np.zeros(1) if filled is None else filled.const_or_none()
    return [] if given is None or value is None or value.any() else given.tolist()


def reach_the_kernel(pads: list[int], node: Node) -> bool:
    """Returns whether a pad is as long as the kernel, which onnxruntime rejects."""
    kernel = node.ints("kernel_shape")
    return any(pad >= size for pad, size in zip(pads, kernel * 2, strict=True))


def differ_by_side(pads: list[int]) -> bool:
    """Returns whether an axis has different pads at its start and at its end."""
    half = len(pads) // 2
    return pads[:half] != pads[half:]
