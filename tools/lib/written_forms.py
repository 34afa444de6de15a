# SPDX-License-Identifier: Apache-2.0
"""Finds nodes that an adapter must not write, because old runtimes compute them wrongly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes  # noqa: F401 - registers the types that numpy lacks
import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, defs, shape_inference
from opshift.model.arrays import dtype_of

from tools.lib.graphs import graphs_in, nodes_in

SUMMING = {"ReduceSum", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceSumSquare"}
INTEGERS = (TensorProto.INT32, TensorProto.INT64, TensorProto.UINT32, TensorProto.UINT64)
# onnxruntime 1.6 to 1.16 merge two Casts, unless the type in between is one of these.
NEVER_MERGED = (TensorProto.BOOL, TensorProto.STRING)
NUMBERS = (
    0, 1, -1, 0.5, 0.1, 1e-8, 100, -100, 255, 256, -129, 2049, 65535, 65536,
    2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1024,
)  # fmt: skip


def objections(before: ModelProto, after: ModelProto) -> list[str]:
    """Returns a sentence for each forbidden form in the result of a model."""
    written, old = nodes(after), {node.op_type for node in nodes(before)}
    version = next((opset.version for opset in after.opset_import if not opset.domain), 0)
    sentences = [*bare_loops(written), *negative_axes(version, nodes(before), written)]
    if any(node.op_type in (*SUMMING, "Cast") for node in written):
        types_after = types(after)
        sentences += sums(version, old, written, types_after)
        sentences += merged_casts(before, after, types_after)
    return sentences


def nodes(model: ModelProto) -> list[NodeProto]:
    return [*nodes_in(model.graph)]


def types(model: ModelProto) -> dict[str, int]:
    with contextlib.suppress(Exception):  # if inference fails, the declared types must be enough
        model = shape_inference.infer_shapes(model)
    by_name = {t.name: t.data_type for g in graphs_in(model.graph) for t in g.initializer}
    for graph in graphs_in(model.graph):
        for info in (*graph.input, *graph.value_info, *graph.output):
            by_name[info.name] = info.type.tensor_type.elem_type
    return by_name


def bare_loops(written: list[NodeProto]) -> Iterator[str]:
    """Yields every Loop without a condition."""
    for node in written:
        if node.op_type == "Loop" and (len(node.input) < 2 or not node.input[1]):
            yield f"Loop {node.name!r} has no condition"


def negative_axes(version: int, old: list[NodeProto], written: list[NodeProto]) -> Iterator[str]:
    """Yields negative axes below opset 11, unless the operator's documentation allows them."""
    kept = {(node.op_type, *_below_zero(node)) for node in old}
    for node in written if 0 < version < 11 else ():
        names = [] if node.domain else _below_zero(node)
        if names and (node.op_type, *names) not in kept and defs.has(node.op_type):
            attrs = defs.get_schema(node.op_type, version).attributes
            for name in names:
                text = attrs[name].description.lower().replace("non-negative", "")
                if not ("negative" in text or "[-r" in text or attrs[name].default_value.i < 0):
                    yield f"{node.op_type} {version} does not count {name} from the end"


def _below_zero(node: NodeProto) -> list[str]:
    """Returns the names of the attributes with a negative axis."""
    named = (attribute for attribute in node.attribute if attribute.name.endswith(("axis", "axes")))
    return [attribute.name for attribute in named if min((attribute.i, *attribute.ints)) < 0]


def sums(
    version: int, old: set[str], written: list[NodeProto], types: dict[str, int]
) -> Iterator[str]:
    """Yields reductions of integers, which runtimes compute in other types."""
    if version < 6 or any(op.startswith("Reduce") for op in old):
        return  # no other operator sums integers, or the source model has the reduction
    if "EmbedLayerNormalization" in old:
        return  # it counts the ones of a mask, fewer than 2**53
    if any(op.startswith("Bitwise") for op in old):
        return  # the sum of the bits of a half is below 2**32
    # The product of the sizes in a shape of unknown length stays far below 2**53.
    shapes = {node.output[0] for node in written if node.op_type == "Concat"}
    for node in written:
        if node.op_type == "ReduceProd" and node.input[0] in shapes:
            continue
        if node.op_type in SUMMING and types.get(node.input[0]) in INTEGERS:
            yield f"{node.op_type} of integers"


def merged_casts(before: ModelProto, after: ModelProto, types: dict[str, int]) -> Iterator[str]:
    """Yields pairs of Casts whose meaning changes if a runtime merges them."""
    version = next((opset.version for opset in after.opset_import if not opset.domain), 0)
    if (version or 7) < 7:
        return  # onnxruntime has no kernels for these opsets
    written = nodes(after)
    # The results of these operators fit the middle type: they are whole numbers, or wrapped.
    wrapped = {n.output[0] for n in written if n.op_type == "Mod"}
    safe = wrapped | {n.output[0] for n in written if n.op_type in ("Floor", "Ceil", "Round")}
    safe |= {n.output[0] for n in written if n.op_type == "Sub" and n.input[0] in wrapped}
    casts_before = {n.output[0] for n in nodes(before) if n.op_type == "Cast"}
    casts = {n.output[0]: n for n in written if n.op_type == "Cast"}
    read = {name for n in written if n.op_type != "Cast" for name in n.input}
    read |= {info.name for graph in graphs_in(after.graph) for info in graph.output}
    for node in casts.values():
        first = casts.get(node.input[0])
        if first is None or first.input[0] in safe or first.output[0] in read:
            continue
        chain = [types.get(v, 0) for v in (first.input[0], first.output[0], node.output[0])]
        if casts_before.issuperset((first.output[0], node.output[0])) or not all(chain):
            continue
        if changes_meaning(*chain):
            yield f"Casts {chain} change their meaning when they are merged"


def changes_meaning(a: int, b: int, c: int) -> bool:
    if b in NEVER_MERGED or TensorProto.STRING in (a, c) or max(a, b, c) > TensorProto.BFLOAT16:
        return False
    source, middle, target = (dtype_of(kind) for kind in (a, b, c))
    if source.kind not in "iub" and middle.kind in "iu" and c != TensorProto.BOOL:
        return False  # no runtime merges Casts of these types
    with np.errstate(all="ignore"):
        probe = np.array([n for n in NUMBERS if fits(n, source)]).astype(source)
        between = probe.astype(middle)
        return not np.array_equal(between.astype(target), probe.astype(target), equal_nan=False)


def fits(number: float, dtype: np.dtype[Any]) -> bool:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return number == int(number) and limits.min <= number <= limits.max
    return dtype.kind != "b" or number in (0, 1)
