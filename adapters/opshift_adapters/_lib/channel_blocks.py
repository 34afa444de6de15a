# SPDX-License-Identifier: Apache-2.0
"""The blocked layout of channels (NCHWc): the block width of a model, and the blocked values.

onnxruntime writes operators of com.microsoft.nchwc if it optimizes a model for one processor. The
layout stores channels in blocks of 8 or 16 (the width) and fills the last block with zeros. No
attribute states the width, but the sizes of the inputs often fit only one width.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from opshift.adapter import Node, Refusal, Value, Why

from opshift_adapters._lib.contrib import attribute, is_known_activation

NCHWC = "com.microsoft.nchwc"
WIDTHS = (8, 16)
# Operators whose output elements depend only on the input element at the same index.
BY_PLACE = (
    "Abs Add Celu Clip Div Elu Erf Exp FastGelu Gelu HardSigmoid HardSwish Identity LeakyRelu Log"
    " Max Min Mish Mul Neg Pow QuickGelu Reciprocal Relu Selu Sigmoid Softplus Softsign Sqrt Sub"
    " Sum Swish Tanh ThresholdedRelu"
)
KNOWN = ("", "ai.onnx", "com.microsoft")  # the domains of these operators
UNPROVED = (
    "the channels lie in blocks of 8 or 16, depending on the processor that optimized the model,"
    " and every size in this model fits both; optimize the original at level extended"
    " (ORT_ENABLE_EXTENDED) instead of all"
)


PLAIN: Literal["plain"] = "plain"
Channels = int | None | Literal["plain"]  # of the output of a node, if it lies in blocks


class Misfit(Exception):  # noqa: N818 - not an error: blocks of another width may fit
    """Raised if the sizes of a node do not fit the block width that is being tested."""


def width_around(node: Node) -> int:
    """Returns the block width of the model; refuses the node if the sizes prove no single width."""
    width = node.survey(proved_width)
    if isinstance(width, int):
        return width
    why, reason = width
    raise Refusal(why, f"{node.op} of {NCHWC}: {reason}")


def round_up(channels: int, width: int) -> int:
    """Returns the number of channels, rounded up to full blocks."""
    return -(-channels // width) * width


def plain_channels(node: Node, dims: Sequence[int | str | None] | None) -> int | None:
    """Returns the number of channels in the input of ReorderInput, or None if it is unknown."""
    if dims is None or len(dims) != 4:
        return None
    channels = dims[3 if node.int("channels_last") else 1]
    return channels if isinstance(channels, int) else None


def proved_width(nodes: Iterator[Node], outputs: frozenset[str]) -> int | tuple[Why, str]:
    """Returns the only block width that fits all nodes, or the reason for a refusal."""
    members = list(nodes)
    misfits = [misfit(members, outputs, width) for width in WIDTHS]
    fitting = [width for width, why in zip(WIDTHS, misfits, strict=True) if why is None]
    if len(fitting) > 1:
        return Why.NOT_EXPRESSIBLE, UNPROVED
    if not fitting:
        return Why.NOT_EXPRESSIBLE, f"no width of the blocks fits: {misfits[0]}"
    return next((one for node in members if (one := _obstacle(node)) is not None), fitting[0])


def misfit(nodes: Iterable[Node], outputs: frozenset[str], width: int) -> str | None:
    """Returns why the blocks of a model cannot have this width, or None if they can."""
    reading = BlockReading(width)
    for node in nodes:
        names = {output.name for output in node.outputs if output is not None}
        try:
            channels = reading.channels_written(node)
        except Misfit as why:
            return f"at {node.op} {node.name!r}, {why}"
        for name in names:  # separate subgraphs may use the same name for different values
            reading.channels.pop(name, None)
        if channels != PLAIN:
            reading.channels.update(dict.fromkeys(names, channels))
            if escaping := names & outputs:
                return f"the graph output {min(escaping)!r} has the blocked layout"
    return None


def _obstacle(node: Node) -> tuple[Why, str] | None:
    """Returns why ai.onnx cannot express a node with blocked channels, or None if it can."""
    if not _has_blocks(node):
        return None
    if node.op == "ReorderInput":
        x = node["X"]
        unknown = plain_channels(node, x.claimed_dims_or_none) is None
        reason = Why.NEEDS_SHAPE, f"the number of channels of {x.name!r} is unknown"
        return reason if unknown else None
    if node.op == "Conv":
        name, numbers = attribute(node, "activation", ""), attribute(node, "activation_params", [])
        if name and not is_known_activation(name, len(numbers)):
            return Why.NOT_EXPRESSIBLE, f"ai.onnx has no operator for the activation {name!r}"
        if node["W"].const_or_none() is None:
            return Why.NEEDS_CONSTANT, f"the filter {node['W'].name!r} is not a constant"
    return None


def _has_blocks(node: Node) -> bool:
    return node.proto.domain == NCHWC and not node.is_call


@dataclass(frozen=True)
class ConvFilter:
    """The sizes of the filter of a Conv whose output has the blocked layout."""

    outputs: int
    inputs: int  # per group
    groups: int
    width: int

    @property
    def is_by_channel(self) -> bool:
        """Returns whether each group has one input channel and one output channel (depthwise)."""
        return self.inputs == 1 and self.outputs == self.groups

    @property
    def reads_blocks(self) -> bool:
        """Returns whether the input has blocked channels; few channels in one group are plain."""
        return self.groups > 1 or self.inputs >= self.width

    @property
    def has_inner_blocks(self) -> bool:
        """Returns whether the filter stores not only output channels but also inputs in blocks."""
        return self.reads_blocks and not self.is_by_channel


def filter_of(node: Node, width: int) -> ConvFilter:
    """Returns the sizes of the filter of a Conv; raises Misfit if they do not fill the blocks."""
    shape = node["W"].shape_or_none
    if shape is None or len(shape) != 4:
        raise Misfit("the shape of the filter is unknown")
    filter_ = ConvFilter(shape[0], shape[1], node.int("group"), width)
    sizes = [filter_.outputs, *([filter_.inputs] if filter_.has_inner_blocks else ())]
    sizes += [filter_.outputs // filter_.groups] if filter_.has_inner_blocks else []
    if any(size % width for size in sizes):
        raise Misfit(f"the filter of shape {list(shape)} does not fill blocks of {width}")
    return filter_


class BlockReading:
    """The number of channels of each blocked value of a model, computed for one block width."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.channels: dict[str, int | None] = {}

    def channels_written(self, node: Node) -> Channels:
        """Returns the number of channels in the blocked output of a node; PLAIN if not blocked."""
        if not _has_blocks(node):
            return self._kept(node)
        if node.op == "Conv":
            return self._of_conv(node)
        if node.op == "ReorderInput":
            plain = plain_channels(node, node["X"].dims_or_none)
            return None if plain is None else round_up(plain, self.width)
        known = self._read(node["X"])
        if node.op != "ReorderOutput":
            return known
        channels = node.int("channels")
        if known is not None and known != round_up(channels, self.width):
            raise Misfit(f"{channels} channels need another number of blocks than {known} channels")
        return PLAIN

    def _of_conv(self, node: Node) -> int:
        x, sizes, added = node["X"], filter_of(node, self.width), node.input("Sum")
        if sizes.reads_blocks:
            self._read(x, sizes.inputs * sizes.groups)
        elif x.name in self.channels:
            raise Misfit(f"the input {x.name!r} of Conv must not be blocked")
        if added is not None:
            self._read(added, sizes.outputs)
        return sizes.outputs

    def _read(self, value: Value, expected: int | None = None) -> int | None:
        """Returns the channels of a blocked value; raises Misfit if `expected` differs."""
        if value.name not in self.channels:
            raise Misfit(f"the input {value.name!r} does not have the blocked layout")
        channels = self.channels[value.name]
        if None not in (channels, expected) and channels != expected:
            raise Misfit(f"{value.name!r} has {channels} channels, and {expected} are needed")
        return expected if channels is None else channels

    def _kept(self, node: Node) -> Channels:
        """Returns the number of channels in the output of a plain operator, PLAIN if unblocked."""
        inputs = [value for value in node.inputs if value is not None]
        read = [self.channels[value.name] for value in inputs if value.name in self.channels]
        if not read:
            return PLAIN
        op = node.op if node.proto.domain in KNOWN and not node.is_call else ""
        if op == "Concat" and len(read) == len(inputs) and node.attr("axis") in (1, -3):
            return None if None in read else sum(value for value in read if value is not None)
        counts = set(read) - {None}
        plain = (value for value in inputs if value.name not in self.channels)
        if op in BY_PLACE.split() and len(counts) < 2 and all(map(_is_single, plain)):
            return next(iter(counts), None)
        raise Misfit("blocked channels are read as if they were not in blocks")


def _is_single(value: Value) -> bool:
    """Returns whether a value is one number that broadcasts to every element of an image."""
    shape = value.shape_or_none
    return shape is not None and len(shape) <= 4 and prod(shape) == 1
