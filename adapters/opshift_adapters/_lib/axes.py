# SPDX-License-Identifier: Apache-2.0
"""Lists of axes in the form that every runtime reads: ascending and counted from the front."""

from functools import partial

from opshift.adapter import KEEP, Builder, Node, Result, Value, misread, np

EMPTY_NAME = partial(
    misread, says="{op} with an empty name as the input `axes` is not supported", since=13
)


def in_order(
    node: Node, op: Builder, along: tuple[str, ...] = (), *, inserted: bool = False
) -> Result:
    """Returns the node with ascending, non-negative `axes`, if the axes and the rank are known.

    Inputs in `along` have one or two entries per axis and are sorted, too; if such an input is
    computed, the axes keep their order. With `inserted`, axes are counted along the output.
    """
    if "axes" in node.attributes:
        axes = node.ints("axes")
        ordered = sorted(_from_front(node, axes, inserted))
        return KEEP if axes == ordered else op.same(node, axes=ordered)
    positions = node.schema.input_positions if node.schema is not None else {}
    axes_input = node.input("axes") if "axes" in positions else None
    constant = axes_input.const_or_none() if axes_input is not None else None
    if constant is None or constant.ndim != 1 or not constant.size:
        return KEEP
    counted = np.array(_from_front(node, constant.tolist(), inserted), constant.dtype)
    new = {}
    if counted.min() >= 0 and (np.diff(counted) < 0).any():
        entries = {name: value for name in along if (value := node.input(name)) is not None}
        lists = {
            name: found
            for name, value in entries.items()
            if (found := value.const_or_none()) is not None
        }
        if len(lists) == len(entries):
            counted = counted[order := np.argsort(counted, kind="stable")]
            for name, found in lists.items():
                moved = found.reshape(-1, len(order))[:, order].ravel()
                if (moved != found).any():
                    new[name] = op.const(moved, like=entries[name])
    if (counted == constant).all():
        return KEEP
    return op.same(node, inputs={"axes": op.const(counted, like=axes_input), **new})


def _from_front(node: Node, axes: list[int], inserted: bool) -> list[int]:
    """Converts negative axes to non-negative axes; needs the rank only if an axis is negative."""
    if not any(axis < 0 for axis in axes) or (rank := node["data"].rank_or_none) is None:
        return axes
    if inserted:
        rank += len(axes)
    return [axis + rank if axis < 0 else axis for axis in axes]


def has_empty_list(node: Node) -> bool:
    """Returns whether the attribute `axes` is an empty list."""
    return "axes" in node.attributes and node.ints("axes") == []


def has_empty_name(node: Node) -> bool:
    """Returns whether the node omits the input `axes` by an empty name."""
    return len(node.inputs) == 2 and node.inputs[1] is None


def without_empty(node: Node, op: Builder) -> Value | None:
    """Returns the node without `axes` if these are an empty list or an empty name, else None."""
    if has_empty_list(node) or has_empty_name(node):
        attributes = {name: node.attr(name) for name in node.attributes if name != "axes"}
        only: Value = op.emit(node.op, node["data"], **attributes)
        return only
    return None
