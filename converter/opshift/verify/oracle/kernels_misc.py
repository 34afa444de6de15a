# SPDX-License-Identifier: Apache-2.0
"""Wraps or reimplements operators for which onnx's reference is almost right."""

import numpy as np

from opshift.protos import NodeProto
from opshift.protos.whole import helper
from opshift.verify.oracle import engines
from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call, prepare
from opshift.verify.oracle.values import OracleError, Value, dtype_of, wide


def as_version(call: Call, opset: int, **changes: object) -> Call:
    """Returns the node at another opset, with changed attributes; None removes an attribute."""
    node = NodeProto()
    node.CopyFrom(call.node)
    attributes = [attribute for attribute in node.attribute if attribute.name not in changes]
    del node.attribute[:]
    node.attribute.extend(attributes)
    node.attribute.extend(
        helper.make_attribute(name, value) for name, value in changes.items() if value is not None
    )
    return prepare(node.SerializeToString(), opset)


@kernel("Softsign")
def softsign(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference for Softsign fails on a scalar."""
    return np.asarray(x / (np.abs(x) + np.ones((), x.dtype)))


@kernel("RoiAlign", until=15)
def roi_align_first(
    call: Call, x: np.ndarray, rois: np.ndarray, batch: np.ndarray
) -> tuple[Value, ...]:
    """RoiAlign-10 has no half-pixel shift, but onnx.reference always applies the shift."""
    plain = as_version(call, 16, coordinate_transformation_mode="output_half_pixel")
    return engines.reference(plain, x, rois, batch)


@kernel("Resize", since=11)
def resize(
    call: Call,
    x: np.ndarray,
    roi: np.ndarray | None = None,
    scales: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
) -> tuple[Value, ...]:
    """Resize rounds positions to float32 like onnxruntime, and accepts negative axes.

    With align_corners, the specification uses the size of the result, but onnx's reference uses the
    unrounded size.
    """
    mode = call["coordinate_transformation_mode"]
    born = {"tf_half_pixel_for_nn": (11, 12), "half_pixel_symmetric": (19, 99)}
    first, last = born.get(mode, (11, 99))
    if not first <= call.since <= last:
        raise OracleError(f"Resize-{call.since}: mode {mode!r}")
    parameters = [
        None if value is None or value.size == 0 else value for value in (roi, scales, sizes)
    ]
    if (parameters[1] is None) == (parameters[2] is None):
        raise OracleError(f"Resize-{call.since}: it needs exactly one of scales and sizes")
    changes: dict[str, object] = {}
    if call["axes"] is not None:
        changes["axes"] = [axis % x.ndim for axis in call["axes"]]
    if mode == "align_corners" and parameters[1] is not None:
        axes = call["axes"] or range(x.ndim)
        dims = np.array([x.shape[axis] for axis in axes], dtype=np.float32)
        parameters[1:] = None, np.floor(parameters[1].astype(np.float32) * dims).astype(np.int64)
    same = as_version(call, call.opset, **changes)
    infinite = call["mode"] == "linear" and not np.isfinite(wide(x)).all()
    picks = call["mode"] == "nearest" and mode not in ("tf_crop_and_resize", "align_corners")
    if call.since < 13 and (infinite or picks):
        empty = np.zeros(0, dtype=np.float32)
        parameters[:2] = [empty if value is None else value for value in parameters[:2]]
    if infinite:  # onnx's reference multiplies an infinite neighbour by weight 0, which gives NaN
        return engines.runtime(same, x, *parameters)
    if picks:
        places = np.arange(x.size, dtype=np.int32).reshape(x.shape)
        (picked,) = engines.runtime(same, places, *parameters)
        return (x.reshape(-1)[picked],)
    return engines.reference(same, x, *parameters)


@kernel("TfIdfVectorizer")
def tf_idf_vectorizer(call: Call, x: np.ndarray) -> tuple[Value, ...]:
    """onnx.reference reads weights of TfIdfVectorizer by position, not by n-gram."""
    return engines.runtime(call, x)


@kernel("NonMaxSuppression")
def non_max_suppression(
    call: Call, boxes: np.ndarray, scores: np.ndarray, *limits: np.ndarray | None
) -> tuple[Value, ...]:
    """NonMaxSuppression accepts absent or scalar limits, but onnx's reference indexes them."""
    most, overlap, least = (*limits, None, None, None)[:3]
    if most is None:
        return (np.zeros((0, 3), dtype=np.int64),)
    overlap = np.zeros(1, dtype=np.float32) if overlap is None else overlap
    # early releases of onnx's reference require all three limits
    if least is None and not np.isneginf(scores).any():
        least = np.full(1, -np.inf, dtype=np.float32)
    present = [most, overlap] if least is None else [most, overlap, least]
    return engines.reference(call, boxes, scores, *(limit.reshape(-1) for limit in present))


@kernel("LayerNormalization")
def layer_normalization(
    call: Call, x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    """LayerNormalization returns statistics in stash_type, but onnx.reference in type T."""
    axis = call["axis"] % x.ndim
    work = x.astype(dtype_of(call["stash_type"]))
    axes = tuple(range(axis, x.ndim))
    mean = work.mean(axis=axes, keepdims=True)
    gap = work - mean
    variance = (gap * gap).mean(axis=axes, keepdims=True)
    deviation = np.sqrt(variance + np.array(call["epsilon"], dtype=work.dtype))
    y = (gap / deviation).astype(x.dtype) * scale
    return (y if bias is None else y + bias), mean, 1 / deviation


@kernel("RMSNormalization")
def rms_normalization(call: Call, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """RMSNormalization returns the type of scale, but onnx.reference the type of x."""
    axes = tuple(range(call["axis"] % x.ndim, x.ndim))
    work = x.astype(dtype_of(call["stash_type"]))
    square = (work * work).mean(axis=axes, keepdims=True)
    normal = work / np.sqrt(square + np.array(call["epsilon"], dtype=work.dtype))
    return np.asarray(normal.astype(x.dtype).astype(scale.dtype) * scale)


@kernel("MeanVarianceNormalization")
def mean_variance_normalization(call: Call, x: np.ndarray) -> np.ndarray:
    """MeanVarianceNormalization needs two passes; onnx's function body loses digits in float."""
    work, axes = wide(x), tuple(call["axes"])
    gap = work - work.mean(axis=axes, keepdims=True)
    deviation = np.sqrt((gap * gap).mean(axis=axes, keepdims=True))
    return (gap / (deviation + np.array(1e-9, dtype=work.dtype))).astype(x.dtype)


@kernel("Optional")
def optional(call: Call, value: Value = None) -> Value:
    """The value of an Optional is its element or None, but onnx's reference wraps it in a list."""
    if value is None and call["type"] is None:
        raise OracleError("Optional: the node has neither an input nor a type")
    return value


@kernel("OptionalGetElement")
def optional_get_element(call: Call, value: Value) -> Value:
    """The value of an optional is its element, but onnx's reference unwraps a list."""
    if value is None:
        raise OracleError("OptionalGetElement: the optional is empty")
    return value


@kernel("OptionalHasElement")
def optional_has_element(call: Call, value: Value = None) -> np.ndarray:
    """For OptionalHasElement, an absent input is an empty optional."""
    return np.array(value is not None)


@kernel("InstanceNormalization", until=5)
def instance_normalization_first(
    call: Call, x: np.ndarray, scale: np.ndarray, bias: np.ndarray
) -> tuple[Value, ...]:
    """InstanceNormalization-1 accepts only four axes."""
    if x.ndim != 4:
        raise OracleError("InstanceNormalization-1: the input must be 4-D")
    return engines.reference(as_version(call, 6, consumed_inputs=None), x, scale, bias)


@kernel("GroupNormalization", until=20)
def group_normalization_first(
    call: Call, x: np.ndarray, scale: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """In GroupNormalization-18, scale and bias are per group, and all steps compute in type T."""
    groups = call["num_groups"]
    if scale.shape != (groups,) or bias.shape != (groups,):
        raise OracleError(f"GroupNormalization-18: scale {scale.shape} for {groups} groups")
    flat = wide(x).reshape(x.shape[0], groups, -1)
    mean = flat.mean(axis=2, keepdims=True)
    variance = (flat * flat).mean(axis=2, keepdims=True) - mean * mean
    normal = (flat - mean) / np.sqrt(variance + np.array(call["epsilon"], dtype=flat.dtype))
    result = normal * wide(scale).reshape(1, -1, 1) + wide(bias).reshape(1, -1, 1)
    return result.reshape(x.shape).astype(x.dtype)


@kernel("Det")
def det(_call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference for Det returns double for float16 and bfloat16 inputs."""
    return np.asarray(np.linalg.det(wide(x))).astype(x.dtype)


@kernel("GatherElements")
def gather_elements(call: Call, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """GatherElements allows smaller sizes in other axes, but onnx.reference does not."""
    place = list(np.indices(indices.shape))
    place[call["axis"] % data.ndim] = indices
    return data[tuple(place)]


@kernel("GatherND")
def gather_nd(call: Call, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """onnx.reference for GatherND fails on batch axes of size 0."""
    count = call["batch_dims"] or 0
    batches = np.indices(indices.shape[:-1])[:count]
    return data[(*batches, *np.moveaxis(indices, -1, 0))]


@kernel("OneHot", since=11)
def one_hot(call: Call, indices: np.ndarray, depth: np.ndarray, values: np.ndarray) -> np.ndarray:
    """onnx.reference for OneHot rejects a depth of one element and some negative indices."""
    axis, count = call["axis"] % (indices.ndim + 1), int(depth.reshape(-1)[0])
    places = np.expand_dims(indices.astype(np.int64), -1)
    hot = (places == np.arange(count)) | (places + count == np.arange(count))
    return np.where(np.moveaxis(hot, -1, axis), values[1], values[0]).astype(values.dtype)


@kernel("SequenceInsert")
def sequence_insert(
    _: Call, items: list[Value], item: Value, place: np.ndarray | None = None
) -> list[Value]:
    """SequenceInsert at the end is legal, but onnx's reference inserts at the start."""
    at = len(items) if place is None else int(place.reshape(()))
    if not -len(items) <= at <= len(items):
        raise OracleError(
            f"SequenceInsert: the position {at} is outside the sequence of {len(items)} elements"
        )
    at += len(items) if at < 0 else 0
    return [*items[:at], item, *items[at:]]


@kernel("CenterCropPad")
def center_crop_pad(call: Call, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """CenterCropPad pads strings with the empty string, but onnx.reference pads with 0."""
    (y,) = engines.reference(call, x, shape)
    return np.where(y == 0, "", y) if x.dtype == object else y
