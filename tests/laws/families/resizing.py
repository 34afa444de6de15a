# SPDX-License-Identifier: Apache-2.0
"""Resize, Upsample and operators that sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.making import FLOATS, Family, Making, rows


def upsample(m: Making) -> None:
    elem = m.elem()
    if m.opset < 7:
        shape = (1, m.int(1, 2), m.int(1, 3), m.int(1, 3))
        scales = [m.one(1.0, 2.0, 1.5, 3.0) for _ in range(2)]
        m.node(
            [m.data(elem, shape)],
            height_scale=scales[0],
            width_scale=scales[1],
            mode=m.one(None, "nearest", "bilinear"),
        )
        return
    shape = m.shape(2, 4, zero=False)
    # What lies between two truths, two words or two whole numbers is nowhere said.
    mode = m.one(None, "nearest", *(("linear",) if elem in FLOATS else ()))
    scales = [m.one(1.0, 2.0, 1.5) if m.flag() else 1.0 for _ in shape]
    if mode == "linear":
        scales = [1.0] * max(len(shape) - 2, 0) + scales[-2:]
    x = m.data(elem, shape)
    if m.opset < 9:
        m.node([x], scales=scales, mode=mode)
    else:
        m.node([x, m.ints(scales, np.float32)], mode=mode)


def resize_10(m: Making) -> None:
    elem, shape = m.elem(), m.shape(2, 4, zero=False)
    mode = m.one(None, "nearest", *(("linear",) if elem in FLOATS else ()))
    scales = [m.one(1.0, 2.0, 1.5, 0.5) if i >= len(shape) - 2 else 1.0 for i in range(len(shape))]
    assume_sizes(m, shape, scales)
    m.node([m.data(elem, shape), m.ints(scales, np.float32)], mode=mode)


def assume_sizes(m: Making, shape: tuple[int, ...], scales: list[float]) -> None:
    """Assumes that no axis becomes empty."""
    for i, (n, s) in enumerate(zip(shape, scales, strict=True)):
        if n * s < 1:
            scales[i] = 1.0


def resize(m: Making) -> None:
    if m.opset < 11:
        resize_10(m)
        return
    elem, rank = (
        m.elem(0, ("float", "double", "float16", "int32", "uint8", "int64", "int8")),
        m.int(1, 2),
    )
    shape = (1, m.int(1, 2), *(m.int(1, 5) for _ in range(rank)))
    mode = m.one(None, "nearest", "linear", "cubic" if rank == 2 and elem == "float" else "linear")
    if elem not in ("float", "double", "float16"):
        mode = m.one(None, "nearest")
    coordinates = [
        None,
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_crop_and_resize",
    ]
    if m.opset >= 19:
        coordinates.append("half_pixel_symmetric")
    if m.opset < 13:
        coordinates.append("tf_half_pixel_for_nn")
    where = m.one(*coordinates)
    written: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": where}
    if mode in (None, "nearest"):
        written["nearest_mode"] = m.one(
            None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"
        )
    if mode == "cubic":
        written["cubic_coeff_a"] = m.one(None, -0.5, -0.75)
        written["exclude_outside"] = m.maybe(m.int(0, 1))
    if m.opset >= 18 and mode in ("linear", "cubic"):
        written["antialias"] = m.one(None, 0, 0, 1)
    sizes = [m.int(1, 7) for _ in range(rank)]
    scales = [float(m.one(1.0, 2.0, 1.5, 0.5, 0.75)) for _ in range(rank)]
    assume_sizes(m, shape[2:], scales)
    axes = m.opset >= 18 and m.flag()
    if axes:
        written["axes"] = [i + 2 - (len(shape) if m.flag() else 0) for i in range(rank)]
    full = [] if axes else [1.0, 1.0]
    roi: Any = ""
    if where == "tf_crop_and_resize":
        begin, end = [0.0] * (len(full) + rank), [1.0] * (len(full) + rank)
        begin[-1], end[-1] = m.one(0.0, 0.25), m.one(0.75, 1.0)
        roi = m.ints([*begin, *end], np.float32)
        written["extrapolation_value"] = m.maybe(0.5)
    elif m.opset < 13:
        roi = m.ints(np.zeros(0), np.float32)
    x = m.data(elem, shape)
    if m.flag():
        none = m.ints(np.zeros(0), np.float32) if m.opset < 13 else ""
        if m.opset >= 18 and m.flag():
            written["keep_aspect_ratio_policy"] = m.one(
                None, "stretch", "not_larger", "not_smaller"
            )
        outer = [] if axes else list(shape[:2])
        m.node([x, roi, none, m.ints([*outer, *sizes])], **written)
    else:
        m.node([x, roi, m.ints([*full, *scales], np.float32)], **written)


def grid(m: Making) -> None:
    elem = m.elem()
    n, c = m.int(1, 2), m.int(1, 2)
    rank = 2 if m.opset < 20 else m.one(2, 2, 3)
    names = ["bilinear", "nearest", "bicubic"] if m.opset < 20 else ["linear", "nearest", "cubic"]
    mode = m.one(None, *(names if rank == 2 else names[:2]))
    x = m.data(elem, (n, c, *(m.int(2, 4) for _ in range(rank))))
    g = m.array("float", (n, *(m.int(1, 3) for _ in range(rank)), rank), "unit") * m.one(1.0, 1.5)
    second = m.elem(1)
    m.node(
        [x, m.feed(g.astype(m.array(second, ()).dtype))],
        mode=mode,
        padding_mode=m.one(None, "zeros", "border", "reflection"),
        align_corners=m.maybe(m.int(0, 1)),
    )


def affine(m: Making) -> None:
    n, rank = m.int(1, 2), m.one(2, 3)
    size = [n, m.int(1, 2), *(m.int(2, 3) for _ in range(rank))]
    m.node(
        [m.data(m.elem(), (n, rank, rank + 1)), m.ints(size)], align_corners=m.maybe(m.int(0, 1))
    )


def roi_align(m: Making) -> None:
    elem = m.elem(0, ("float", "double"))
    x = m.data(elem, (2, m.int(1, 2), 5, 6))
    rois = np.array([[0, 0, 3, 3], [1, 1, 4, 3.5], [0.5, 1, 0.75, 1.25]])[: m.int(1, 3)]
    places = m.rng.integers(0, 2, len(rois))
    where = m.one(None, "half_pixel", "output_half_pixel") if m.opset >= 16 else None
    m.node(
        [x, m.feed(rois.astype(m.array(elem, ()).dtype), fixed=m.flag()), m.feed(places)],
        coordinate_transformation_mode=where,
        mode=m.one(None, "avg", "max"),
        output_height=m.maybe(m.int(1, 3)),
        output_width=m.maybe(m.int(1, 3)),
        sampling_ratio=m.one(None, 1, 2, 0),
        spatial_scale=m.one(None, 1.0, 0.5),
    )


RESIZING: Family = {
    **rows("Upsample", upsample),
    **rows("Resize", resize),
    **rows("GridSample", grid),
    **rows("AffineGrid", affine),
    **rows("RoiAlign", roi_align),
}
