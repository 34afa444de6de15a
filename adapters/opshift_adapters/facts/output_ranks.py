# SPDX-License-Identifier: Apache-2.0
"""Output ranks that follow from the lengths of inputs; onnx infers them only from values."""

from collections.abc import Sequence

from opshift.adapter import Node, output_ranks

from opshift_adapters.facts.illegal_attributes import REDUCING


def length(node: Node, name: str) -> int:
    """Returns the length of a list, which is an attribute in some opsets and an input in others."""
    if name in node.attributes:
        return len(node.ints(name))
    value = node.inputs[1] if len(node.inputs) > 1 else None
    if value is None:
        raise ValueError(f"{node.op} has no input {name}")
    (size,) = value.shape
    return size


@output_ranks("Reshape")
def reshape(node: Node) -> Sequence[int]:
    return [length(node, "shape")]


@output_ranks("Squeeze")
def squeeze(node: Node) -> Sequence[int]:
    return [node["data"].rank - length(node, "axes")]


@output_ranks("Unsqueeze")
def unsqueeze(node: Node) -> Sequence[int]:
    return [node["data"].rank + length(node, "axes")]


@output_ranks(*REDUCING.split())
def reduction(node: Node) -> Sequence[int]:
    rank = node["data"].rank
    if node.int("keepdims"):
        return [rank]
    count = length(node, "axes")
    return [rank - count] if count else []  # an empty list of axes means all axes or none


@output_ranks("Split")
def split(node: Node) -> Sequence[int]:
    return [node["input"].rank] * len(node.outputs)


@output_ranks(
    "Cast", "CenterCropPad", "GroupNormalization", "MaxUnpool", "MeanVarianceNormalization", "Pad"
)
def like_the_first_input(node: Node) -> Sequence[int]:
    first = node.inputs[0]
    return [first.rank] if first is not None else []


@output_ranks("BatchNormalization")
def batch_normalization(node: Node) -> Sequence[int]:
    """Returns the ranks of all outputs; below opset 14, onnx infers none of the statistics."""
    data, _, _, mean, _ = node.inputs
    assert data is not None  # `data` is a required input, and so is `mean`
    assert mean is not None
    return [data.rank, *[mean.rank] * (len(node.outputs) - 1)]
