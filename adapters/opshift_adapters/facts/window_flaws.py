# SPDX-License-Identifier: Apache-2.0
"""Nodes whose windows do not fit into the input, for which onnx infers sizes of 0 or 1."""

from opshift.adapter import Node, flaw

from opshift_adapters._lib.known_sizes import differ, dims_of
from opshift_adapters._lib.windows import knows, windows_of

CONVOLUTIONS = "Conv ConvInteger DeformConv QLinearConv"


def _dims(node: Node) -> tuple[int | str | None, ...] | None:
    """Returns the dimensions of the first input, or None if the rank is unknown."""
    first = node.input_at(0)
    return first and first.dims_or_none


@flaw(f"{CONVOLUTIONS} ConvTranspose")
def kernels_of_other_sizes(node: Node) -> str | None:
    """`kernel_shape` of a convolution must be equal to the spatial sizes of the weights."""
    weights = dims_of(node, "W") or dims_of(node, "w")
    stated = node.ints_or_none("kernel_shape")
    if not weights or not stated or not any(map(differ, weights[2:], stated)):
        return None
    return f"kernel_shape is {stated}, but the weights have the shape {list(weights)}"


@flaw(CONVOLUTIONS)
def windows_beyond_the_input(node: Node) -> str | None:
    """A kernel must not be larger than the padded input, whose spatial axes must not be empty."""
    dims, same = _dims(node), node.str("auto_pad") if knows(node, "auto_pad") else ""
    if dims is None:
        return None
    spans, _, pads = windows_of(node)
    for axis, (size, span, pad) in enumerate(zip(dims[2:], spans, pads, strict=False), 2):
        whole = size + pad if isinstance(size, int) else None
        if whole is not None and (size == 0 or (whole < span and not same.startswith("SAME"))):
            return f"the kernel spans {span} elements, but the padded axis {axis} has {whole}"
    return None


@flaw("AveragePool LpPool MaxPool")
def windows_over_nothing(node: Node) -> str | None:
    """A pooling must not have an empty axis, unless the batch is empty."""
    dims = _dims(node) or ()
    empty = [axis for axis, size in enumerate(dims) if axis and size == 0]
    return f"axis {empty[0]} of the input has size 0" if empty and dims[0] != 0 else None


@flaw("DeformConv")
def offsets_of_other_sizes(node: Node) -> str | None:
    """`offset` of DeformConv must have the spatial sizes of the result."""
    dims, offset = _dims(node), dims_of(node, "offset")
    if dims is None or offset is None or len(offset) != len(dims):
        return None
    spans, strides, pads = windows_of(node)
    for axis, (size, span, stride, pad) in enumerate(
        zip(dims[2:], spans, strides, pads, strict=False), 2
    ):
        if isinstance(size, int) and differ(offset[axis], (size + pad - span) // stride + 1):
            count = (size + pad - span) // stride + 1
            return f"the offset has size {offset[axis]} on axis {axis}, but the result has {count}"
    return None


@flaw("STFT")
def frames_beyond_the_signal(node: Node) -> str | None:
    """A frame of STFT must not be longer than the signal."""
    dims, length, window = dims_of(node, "signal"), node.input("frame_length"), node.input("window")
    known, shape = length and length.const_or_none(), window and window.dims_or_none
    count = int(known) if known is not None and known.size == 1 else shape[0] if shape else None
    size = dims[1] if dims is not None and len(dims) > 1 else None
    if not isinstance(size, int) or not isinstance(count, int) or count <= size:
        return None
    return f"a frame has {count} elements, but the signal has {size}"
