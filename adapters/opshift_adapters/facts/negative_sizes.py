# SPDX-License-Identifier: Apache-2.0
"""Operators for which onnx may infer negative sizes, and conditions that exclude this."""

from collections.abc import Callable

from opshift.adapter import Node, fatal_sizes, np, shrinks

from opshift_adapters._lib.windows import knows, windows_of

FATAL = fatal_sizes("GatherND Slice")


def unless_negative(names: str) -> Callable[[Node], bool]:
    """Returns a condition: none of the named attributes and constant inputs is negative."""

    def excluded(node: Node) -> bool:
        for name in names.split():
            sizes = np.asarray(_given(node, name))
            if sizes.dtype.kind in "if" and np.any(sizes < 0):
                return False  # pragma: no cover: no example has a negative size
        return True

    return excluded


def _given(node: Node, name: str) -> object:
    """Returns an attribute or the value of a constant input; None if it is absent or computed."""
    assert node.schema is not None
    if name in node.schema.attributes:
        return node.attr(name)
    value = node.input(name) if name in node.schema.input_positions else None
    return value and value.const_or_none()


NEGATIVE = [
    shrinks("TopK")(unless_negative("k K")),
    shrinks("Pad")(unless_negative("paddings pads")),
    shrinks("Split")(unless_negative("split")),
    shrinks("Resize")(unless_negative("scales sizes")),
    shrinks("Upsample")(unless_negative("height_scale width_scale scales")),
    shrinks("RoiAlign")(unless_negative("output_height output_width")),
    shrinks("Expand")(unless_negative("shape")),
    shrinks("Col2Im")(unless_negative("image_shape")),
    shrinks("TreeEnsembleRegressor", domain="ai.onnx.ml")(unless_negative("n_targets")),
]


@shrinks("DFT MaxUnpool STFT")
def anyhow(node: Node) -> bool:
    """Returns False, because no test of one input excludes a negative output size."""
    return False


@shrinks("AveragePool Conv ConvInteger DeformConv LpPool MaxPool QLinearConv")
def windows(node: Node) -> bool:
    """Returns whether no window is longer than its pads plus a stride, so that any input fits."""
    if knows(node, "auto_pad") and node.str("auto_pad").startswith("SAME"):
        return True  # pragma: no cover: no example has this window and a Slice
    spans, strides, pads = windows_of(node)
    rows = zip(spans, strides, pads, strict=True)
    return all(span - pad <= stride for span, stride, pad in rows)


@shrinks("ConvTranspose")
def transposed(node: Node) -> bool:  # pragma: no cover: no example has it and a Slice
    """Returns whether a transposed convolution of an empty input has no negative output size."""
    if node.ints_or_none("output_shape"):
        return min(node.ints("output_shape")) >= 0
    if node.str("auto_pad").startswith("SAME"):
        return True
    spans, strides, pads = windows_of(node)
    more = node.ints_or_none("output_padding") or [0] * len(spans)
    rows = zip(spans, strides, pads, more, strict=True)
    return all(span + extra - pad >= stride for span, stride, pad, extra in rows)
