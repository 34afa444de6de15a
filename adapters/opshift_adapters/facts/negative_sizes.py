# SPDX-License-Identifier: Apache-2.0
"""Operators for which onnx's inference finds negative sizes, and operators that cannot have one.

`tests/author/test_shrinking.py` shows that there are no others (OPSHIFT_INFERENCE).
"""

from collections.abc import Callable

from opshift.adapter import Node, Value, fatal_sizes, np, shrinks

FATAL = fatal_sizes("GatherND Slice")


def unless_negative(names: str) -> Callable[[Node], bool]:
    """A size is negative only if one of these attributes or constants holds a negative number."""

    def excluded(node: Node) -> bool:
        for name in names.split():
            given = np.asarray(_given(node, name))
            if given.dtype.kind in "if" and np.any(given < 0):
                return False  # pragma: no cover: no example has a negative size
        return True

    return excluded


def _given(node: Node, name: str) -> object:
    """An attribute, or the value of a constant input; None if it is absent or computed."""
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
    """Their sizes depend on several inputs."""
    return False


@shrinks("AveragePool Conv ConvInteger DeformConv LpPool MaxPool QLinearConv")
def windows(node: Node) -> bool:
    """A window that covers at most its pads and one stride fits into an input of any size."""
    if _has(node, "auto_pad") and node.str("auto_pad").startswith("SAME"):
        return True  # pragma: no cover: no example has this window and a Slice
    spans, strides, pads = _windows(node)
    rows = zip(spans, strides, pads, strict=True)
    return all(span - pad <= stride for span, stride, pad in rows)


@shrinks("ConvTranspose")
def transposed(node: Node) -> bool:  # pragma: no cover: no example has it and a Slice
    """The size without input is not negative."""
    if node.ints_or_none("output_shape"):
        return min(node.ints("output_shape")) >= 0
    if node.str("auto_pad").startswith("SAME"):
        return True
    spans, strides, pads = _windows(node)
    more = node.ints_or_none("output_padding") or [0] * len(spans)
    rows = zip(spans, strides, pads, more, strict=True)
    return all(span + extra - pad >= stride for span, stride, pad, extra in rows)


def _windows(node: Node) -> tuple[list[int], list[int], list[int]]:
    """The spans, the strides and the pads of both sides, for each axis."""
    kernel = node.ints_or_none("kernel_shape") if _has(node, "kernel_shape") else None
    sizes = kernel or list(_weights(node).shape[2:])
    strides, dilations = (_each(node, name, len(sizes)) for name in ("strides", "dilations"))
    valid = _has(node, "auto_pad") and node.str("auto_pad") == "VALID"
    pads = (None if valid else node.ints_or_none("pads")) or [0] * (2 * len(sizes))
    begins, ends = pads[: len(sizes)], pads[len(sizes) :]
    spans = [(size - 1) * step + 1 for size, step in zip(sizes, dilations, strict=True)]
    return spans, strides, [a + b for a, b in zip(begins, ends, strict=True)]


def _has(node: Node, attribute: str) -> bool:
    return node.schema is not None and attribute in node.schema.attributes


def _each(node: Node, name: str, count: int) -> list[int]:
    return (node.ints_or_none(name) if _has(node, name) else None) or [1] * count


def _weights(node: Node) -> Value:
    assert node.schema is not None
    return node["W" if "W" in node.schema.input_positions else "w"]
