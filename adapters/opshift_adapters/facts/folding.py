# SPDX-License-Identifier: Apache-2.0
"""Constant folding of operators that move elements or fill tensors, as in shape computations.

A folding function returns None, or raises a Refusal or an error, if it cannot compute the value.
Depending on the opset, a parameter may be an attribute or an input.
"""

import contextlib
import math
from collections.abc import Sequence
from typing import Any

from opshift.adapter import Array, Node, Refusal, T, Value, fold, np
from opshift.objections import LARGEST_RANK

MAX_ELEMENTS = 1 << 16  # the largest constant that folding reads
MAX_FILLED = 1 << 20


def small(value: Value) -> Array:
    """Returns the value of a small constant; raises ValueError for a large one, slow to read."""
    shape = None if value.computed else value.shape_or_none
    if shape is not None and math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(shape)
    return value.const()


def numpy_type(kind: int) -> str:
    """Returns the name of the numpy type that computes as this element type does, or ""."""
    has_numbers = T.has(kind) and kind not in (T.UNDEFINED, T.STRING)
    return T(kind).element.numpy if has_numbers else ""


def known(node: Node, position: int) -> Array:
    """Returns the constant at an input; raises an error if the input is omitted or computed."""
    value = node.inputs[position]
    if value is None:
        raise IndexError(position)
    return small(value)


def numbers(node: Node, position: int) -> Array:
    """Returns the constant at an input; raises ValueError if it has no ints, floats or bools."""
    constant = known(node, position)
    if constant.dtype.kind not in "iufb":
        raise ValueError(constant.dtype)
    return constant


def setting(node: Node, name: str, default: Any = None) -> Any:
    """Returns an attribute, or the default if the attribute is absent or not in this version."""
    return node.attr(name) if name in node.attributes else default


def listed(node: Node, name: str, position: int) -> list[int] | None:
    """Returns a list of integers, which is an attribute in some opsets and an input in others."""
    if name in node.attributes:
        return [int(v) for v in node.attr(name)]
    if position < len(node.inputs) and node.inputs[position] is not None:
        return [int(v) for v in known(node, position).ravel()]
    return None


def row(node: Node, position: int) -> list[int]:
    """Returns the integers of a constant vector; raises an error for any other constant."""
    constant = known(node, position)
    if constant.ndim != 1 or constant.dtype.kind not in "iu":
        raise ValueError(constant.shape)
    return [int(number) for number in constant]


def sized(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape; raises ValueError if a tensor of this shape is too large to be folded."""
    if math.prod(shape) > MAX_FILLED:
        raise ValueError(shape)
    return tuple(int(size) for size in shape)


def sizes(node: Node) -> list[int | str | None]:
    """Returns the output of a Shape node: numbers, symbolic dimensions, or None if unknown."""
    return list(node["data"].dims)[setting(node, "start", 0) : setting(node, "end")]


def static(entries: Array) -> Array | None:
    """Returns the sizes in `entries` as int64 if each of them is known, else None."""
    if not all(isinstance(size, int) and size >= 0 for size in entries.ravel()):
        return None
    return entries.astype(np.int64)


def entries(value: Value) -> Array:
    """Returns a constant, or the output of a Shape node, in which some sizes may be unknown."""
    with contextlib.suppress(Refusal):
        return small(value)
    node = value.producer
    if node is None or node.proto.domain not in ("", "ai.onnx") or node.op != "Shape":
        raise ValueError(value.name)
    return np.array(sizes(node), dtype=object)


def picked(result: Array) -> Array | None:
    return static(result) if result.dtype == object else result


@fold("Shape", sizes=(0,))
def shape(node: Node) -> Array | None:
    return static(np.array(sizes(node), dtype=object))


@fold("Size", sizes=(0,))
def size(node: Node) -> Array | None:
    value = node["data"]
    found = value.shape_or_none
    return np.array(math.prod(value.const().shape if found is None else found), dtype=np.int64)


@fold("Gather", sizes=(0,))
def gather(node: Node) -> Array | None:
    data = entries(node["data"])
    axis, indices = setting(node, "axis", 0) % data.ndim, numbers(node, 1).astype(np.int64)
    result = data.take(indices.ravel(), axis=axis)
    return picked(result.reshape(data.shape[:axis] + indices.shape + data.shape[axis + 1 :]))


@fold("Slice", sizes=(0,))
def slice_(node: Node) -> Array | None:
    data = entries(node["data"])
    starts, ends = listed(node, "starts", 1) or [], listed(node, "ends", 2) or []
    axes, steps = listed(node, "axes", 3), listed(node, "steps", 4) or [1] * len(starts)
    cut = [slice(None)] * data.ndim
    for axis, *bounds in zip(axes or range(len(starts)), starts, ends, steps, strict=True):
        cut[axis] = slice(*bounds)
    return picked(data[tuple(cut)])


@fold("Concat")
def concat(node: Node) -> Array | None:
    parts = [known(node, i) for i in range(len(node.inputs))]
    return np.concatenate(parts, axis=setting(node, "axis", 1))


@fold("Squeeze")
def squeeze(node: Node) -> Array | None:
    axes = listed(node, "axes", 1)
    if axes == []:
        return None  # runtimes differ in the result
    return known(node, 0).squeeze(None if axes is None else tuple(axes))


@fold("Unsqueeze")
def unsqueeze(node: Node) -> Array | None:
    axes = listed(node, "axes", 1)
    if axes is None or len(axes) > LARGEST_RANK:
        return None  # pragma: no cover: numpy needs quadratic time to reject so many axes
    return np.expand_dims(known(node, 0), tuple(axes))


@fold("Reshape")
def reshape(node: Node) -> Array | None:
    data, wanted = known(node, 0), listed(node, "shape", 1) or []
    if not setting(node, "allowzero", 0):
        wanted = [data.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    return data.reshape(wanted)


@fold("Flatten")
def flatten(node: Node) -> Array | None:
    data, axis = known(node, 0), setting(node, "axis", 1)
    return data.reshape(math.prod(data.shape[:axis]), math.prod(data.shape[axis:]))


@fold("Transpose")
def transpose(node: Node) -> Array | None:
    return known(node, 0).transpose(setting(node, "perm"))


@fold("Expand")
def expand(node: Node) -> Array | None:
    data = known(node, 0)
    wanted = np.broadcast_shapes(data.shape, sized(row(node, 1)))
    return np.array(np.broadcast_to(data, sized(wanted)))


@fold("Tile")
def tile(node: Node) -> Array | None:
    if len(node.inputs) != 2:
        return None
    data, repeats = known(node, 0), row(node, 1)
    sized([n * times for n, times in zip(data.shape, repeats, strict=True)])
    return np.tile(data, repeats)


@fold("NonZero")
def non_zero(node: Node) -> Array | None:
    data = numbers(node, 0)
    return np.array(np.nonzero(data), dtype=np.int64) if data.ndim else None


@fold("Trilu")
def trilu(node: Node) -> Array | None:
    data = numbers(node, 0)
    if data.ndim < 2:
        return None
    k = int(known(node, 1).item()) if len(node.inputs) == 2 and node.inputs[1] is not None else 0
    chosen = np.triu(data, k) if setting(node, "upper", 1) else np.tril(data, k)
    return chosen.astype(data.dtype)


@fold("ConstantOfShape")
def constant_of_shape(node: Node) -> Array | None:
    filler = node.tensor("value") if node.has("value") else np.zeros(1, dtype=np.float32)
    return np.full(sized(row(node, 0)), filler.flat[0], dtype=filler.dtype)


@fold("Range", ignores={"stash_type": "integers are exact"})
def range_(node: Node) -> Array | None:
    start, limit, delta = (numbers(node, i) for i in range(3))
    if start.dtype.kind != "i" or not delta:
        return None
    steps = range(int(start.item()), int(limit.item()), int(delta.item()))
    sized([len(steps)])
    return np.array(steps, dtype=start.dtype)
