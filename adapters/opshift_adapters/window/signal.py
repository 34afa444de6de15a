# SPDX-License-Identifier: Apache-2.0
"""DFT, STFT, the window functions and MelWeightMatrix, which opset 17 added."""

from opshift.adapter import (
    Array,
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    misread,
    np,
)

from opshift_adapters._lib.blocks import LONGEST, arange, count_elements, part, size_of
from opshift_adapters._lib.kinds import INTS, as_type, in_double


@adapter("DFT", 19, 20)
def dft_19_20(node: Node, op: Builder) -> Result:
    """Opset 20 made `axis` an input of DFT and changed its default; the old default is written."""
    return op.same(node, inputs={"axis": op.const(node.int("axis"))}, axis=None)


@adapter("DFT", 20, 19)
def dft_20_19(node: Node, op: Builder) -> Result:
    """Below opset 20, `axis` of DFT is an attribute; Reshape makes a computed axis axis 1."""
    x, axis = node["input"], node.input("axis")
    if axis is None:
        return op.same(node, axis=-2)
    constant = axis.const_or_none()
    if constant is not None:
        return op.same(node, inputs={"axis": None}, axis=int(constant.item()))
    shape, one = op.Shape(x), op.const([1])
    place = op.Reshape(axis, one)
    place = op.Where(place < op.const([0]), place + op.Shape(shape), place)
    rank = x.rank_or_none
    numbers = arange(op, op.Size(shape) - 1 if rank is None else op.const(rank - 1))
    all_but_last = part(op, shape, 0, -1)
    before = op.Where(numbers < place, all_but_last, one)
    after = op.Where(place < numbers, all_but_last, one)
    outer, inner = (count_elements(op, side) for side in (before, after))
    size, last = op.Gather(shape, place, axis=0), op.Gather(shape, op.const([-1]), axis=0)
    four = op.Reshape(x, op.Concat(outer, size, inner, last, axis=0), allowzero=1)
    result = op.same(node, inputs={"input": four, "axis": None}, axis=1)
    new = op.Shape(result)
    sizes = op.Where(op.Equal(numbers, place), part(op, new, 1, 2), all_but_last)
    return op.Reshape(result, op.Concat(sizes, part(op, new, 3), axis=0), allowzero=1)


# This product in double is more exact than runtimes. For up to 1024 random floats, the result
# is the nearest float, while onnxruntime errs by 4 to 5000 ulp of the largest element. For
# doubles, the error is at most 10 ulp of the largest element; numpy has 4, onnxruntime 5000.


@adapter("DFT", 17, 16, in_other_words=True)
def dft_17_16(node: Node, op: Builder) -> Result:
    """Below opset 17, DFT is written as a product with sines and cosines in double."""
    x, axis, length = node["input"], node.int("axis"), node.input("dft_length")
    inverse, onesided = node.int("inverse") == 1, node.int("onesided") == 1
    matrix = _whole_matrix(x, axis, length, inverse=inverse, onesided=onesided)
    if matrix is not None:
        return _by_one_product(op, x, axis % x.rank, matrix)
    shape = op.Shape(x)
    before, after = part(op, shape, 0, axis), op.Slice(shape, op.const([axis + 1]), op.const([-1]))
    size = op.Slice(shape, op.const([axis]), op.const([axis + 1]))
    outer, inner = (count_elements(op, side) for side in (before, after))
    four = op.Reshape(x, op.Concat(outer, size, inner, part(op, shape, -1), axis=0), allowzero=1)
    given = size_of(op, x, axis)
    if length is not None:
        count = whole(op, length)
    elif inverse and onesided:
        count = (given - 1) * 2
    else:
        count = given
    four, n_parts = as_parts(op, four, x)
    result = transform(op, four, n_parts, given, count, inverse=inverse, onesided=onesided)
    new = op.Shape(result)
    sizes = op.Concat(before, part(op, new, 1, 2), after, part(op, new, 3), axis=0)
    return op.Reshape(result, sizes, allowzero=1)


@misread("DFT", "onnxruntime 1.12..1.26", since=17, source="2026-11-30 1.12..1.32: opsets 17, 20")
def inverts_half(node: Node) -> bool:
    """{op} to a signal from half of its spectrum is not supported."""
    return node.int("inverse") == 1 and node.int("onesided") == 1


LARGEST_MATRIX = 2048  # the most elements of a matrix that is written as a constant


def _whole_matrix(
    x: Value, axis: int, length: Value | None, *, inverse: bool, onesided: bool
) -> Array | None:
    """Returns the matrix of a DFT of known size: [elements, parts, results, parts].

    Returns None if a size is unknown, the length drops elements, or the matrix is large.
    """
    dims, told = x.dims_or_none, length and length.const_or_none()
    if dims is None or not -len(dims) <= axis < len(dims) or (length is not None and told is None):
        return None
    size, parts = dims[axis], dims[-1]
    if not isinstance(size, int) or parts not in (1, 2):
        return None
    whole = (size - 1) * 2 if inverse and onesided else size
    if told is not None:
        whole = int(told.item())
    half = whole // 2 + 1
    given, wanted = (half, whole) if inverse else (whole, half)
    if not onesided:
        given = wanted = whole
    ends = 1 if inverse and onesided else 2
    if not 0 < size <= given or size * parts * wanted * ends > LARGEST_MATRIX:
        return None
    turns = np.arange(size)[:, None] * np.arange(wanted) % whole
    angle = 2 * np.pi * turns / whole
    cos, sin = np.cos(angle), np.sin(angle) * (-1 if inverse else 1)
    matrix = np.stack([np.stack([cos, -sin], axis=-1), np.stack([sin, cos], axis=-1)], axis=1)
    if inverse:
        matrix = matrix / whole
    if inverse and onesided:  # the omitted half mirrors all but the first and the middle
        alone = np.arange(size) * 2 % whole == 0
        matrix = matrix * np.where(alone, 1.0, 2.0)[:, None, None, None]
    return matrix[:, :parts, :, :ends]


def _by_one_product(op: Builder, x: Value, axis: int, matrix: Array) -> Value:
    """Multiplies the elements along the axis (real and imaginary parts) by the DFT matrix."""
    size, parts, places, ends = matrix.shape
    others = [at for at in range(x.rank - 1) if at != axis]
    order, kept = [*others, axis, x.rank - 1], [0] * len(others)
    turned = order != sorted(order)
    wide = in_double(op, x)
    rows = op.Transpose(wide, perm=order) if turned else wide
    rows = op.Reshape(rows, op.const([*kept, size * parts]))
    made = op.MatMul(rows, op.const(matrix.reshape(size * parts, places * ends)))
    made = op.Reshape(made, op.const([*kept, places, ends]))
    if turned:
        made = op.Transpose(made, perm=[order.index(at) for at in range(x.rank)])
    return as_type(op, made, x.elem_type)


def as_parts(op: Builder, four: Value, x: Value) -> tuple[Value, int]:
    """Returns the elements and the number of their parts: 1 if real, 2 if complex or unknown."""
    dims = x.dims_or_none
    last = dims[-1] if dims else None
    if isinstance(last, int):
        return four, last
    return op.Pad(four, op.const([0, 0, 0, 0, 0, 0, 0, 1])), 2


def whole(op: Builder, x: Value) -> Value:
    """Returns a scalar, or a vector of one element, as an int64 scalar."""
    return op.Cast(op.Reshape(x, op.const(np.array([], np.int64))), to=T.INT64)


def transform(
    op: Builder, x: Value, parts: int, size: Value, length: Value, *, inverse: bool, onesided: bool
) -> Value:
    """Writes the DFT along axis 1 of [outer, size, inner, parts] by its definition."""
    half = length / 2 + 1
    given, wanted = (half, length) if inverse else (length, half)
    if not onesided:
        given = wanted = length
    read = op.Slice(x, op.const([0]), op.Reshape(given, op.const([1])), op.const([1]))
    column = arange(op, op.Min(given, size))
    period = op.Max(length, op.const(1))  # a remainder of a division by 0 is not defined
    cos, sin = _waves(op, arange(op, wanted), column, period)
    over = op.Cast(period, to=T.DOUBLE)
    if inverse:
        sin = -sin
        cos, sin = cos / over, sin / over
    if inverse and onesided:  # the omitted half mirrors all but the first and the middle
        alone = op.Equal(op.Mod(column * 2, period), op.const(0))
        weight = op.Where(alone, op.const(1.0, T.DOUBLE), op.const(2.0, T.DOUBLE))
        cos, sin = cos * weight, sin * weight
    wide = op.Cast(read, to=T.DOUBLE)
    real = op.Gather(wide, op.const(0), axis=3)
    made = [op.MatMul(cos, real), -op.MatMul(sin, real)]
    if parts == 2:
        imaginary = op.Gather(wide, op.const(1), axis=3)
        made[0] = made[0] + op.MatMul(sin, imaginary)
        made[1] = made[1] + op.MatMul(cos, imaginary)
    if inverse and onesided:
        made = made[:1]
    last = op.const([3])
    return op.Cast(op.Concat(*(op.Unsqueeze(m, last) for m in made), axis=3), to=x.elem_type)


def _waves(op: Builder, rows: Value, columns: Value, length: Value) -> tuple[Value, Value]:
    """Returns the cosine and the sine of 2 pi * row * column / length, as matrices."""
    known = [value.const_or_none() for value in (rows, columns, length)]
    if all(one is not None and one.size <= 32 for one in known):  # larger ones enlarge the model
        row, column, whole = (np.asarray(one) for one in known)
        turn = 2 * np.pi * (row[:, None] * column % whole) / whole
        return op.const(np.cos(turn)), op.const(np.sin(turn))
    turns = op.Mod(op.Unsqueeze(rows, op.const([1])) * columns, length)
    circle = op.Cast(turns, to=T.DOUBLE) * op.const(2 * np.pi, T.DOUBLE)
    angle = circle / op.Cast(length, to=T.DOUBLE)
    return op.Cos(angle), op.Sin(angle)


@adapter("STFT", 17, 16, in_other_words=True)
def stft_17_16(node: Node, op: Builder) -> Result:
    """Below opset 17, STFT becomes a Gather of frames, a product with the window, and a DFT."""
    x, step = node["signal"], whole(op, node["frame_step"])
    if x.rank_or_none == 2:  # torch omits the last axis, and onnxruntime reads real numbers
        x = op.Unsqueeze(x, op.const([2]))  # pragma: no cover: onnx evaluates no such signal
    window, given = node.input("window"), node.input("frame_length")
    if given is not None:
        length = whole(op, given)
    else:
        length = size_of(op, x, 1) if window is None else size_of(op, window, 0)
    count = (size_of(op, x, 1) - length) / step + 1
    first = op.Unsqueeze(arange(op, count) * step, op.const([1]))
    frames = op.Gather(x, first + arange(op, length), axis=1)
    if window is not None:
        frames = frames * op.Reshape(window, op.const([-1, 1]))
    size, one, last = op.Reshape(length, op.const([1])), op.const([1]), part(op, op.Shape(x), 2)
    flat = op.Reshape(frames, op.Concat(op.const([-1]), size, one, last, axis=0))
    flat, n_parts = as_parts(op, flat, x)
    onesided = node.int("onesided") == 1
    result = transform(op, flat, n_parts, length, length, inverse=False, onesided=onesided)
    outer, dims = part(op, op.Shape(frames), 0, 2), x.dims_or_none
    if dims is not None and isinstance(dims[0], int) and dims[0]:
        return op.Reshape(result, op.Concat(outer, op.const([-1, 2]), axis=0))
    bins = part(op, op.Shape(result), 1, 2)  # without signals, Reshape cannot infer a size
    return op.Reshape(result, op.Concat(outer, bins, op.const([2]), axis=0), allowzero=1)


WAVES = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@adapter(tuple(WAVES), 17, 16, in_other_words=True)
def window_17_16(node: Node, op: Builder) -> Result:
    """Below opset 17, this window function is written as a constant or a sum of cosines."""
    kind, size = node.int("output_datatype"), node["size"].const_or_none()
    up = 2**-25 if kind in INTS else 0.0  # integers are truncated, but the peak must be 1
    if size is not None and size.item() <= LONGEST:
        return op.const(_known_window(node, int(size.item())) + up, kind)
    wave = _computed_window(node, op)
    return op.Cast(wave + op.const(up, T.DOUBLE) if up else wave, to=kind)


def _known_window(node: Node, size: int) -> Array:
    still, once, twice = WAVES[node.op]
    over = np.float64(size - 1 + node.int("periodic"))
    with np.errstate(invalid="ignore"):  # a symmetric window of one element is 0 / 0
        turn = 2 * np.pi * np.arange(size) / over
    wave: Array = still - once * np.cos(turn) + twice * np.cos(2 * turn)
    return wave


def _computed_window(node: Node, op: Builder) -> Value:
    still, once, twice = (op.const(x, T.DOUBLE) for x in WAVES[node.op])
    count = whole(op, node["size"])
    over = op.Cast(count, to=T.DOUBLE) - op.const(1 - node.int("periodic"), T.DOUBLE)
    place = op.Cast(arange(op, count), to=T.DOUBLE)
    turn = place * op.const(2 * np.pi, T.DOUBLE) / over
    double_turn = turn * op.const(2, T.DOUBLE)
    wave = still - op.Cos(turn) * once
    return wave + op.Cos(double_turn) * twice


@adapter("MelWeightMatrix", 17, 16, approximate=True)
def mel_17_16(node: Node, op: Builder) -> Result:
    """Below opset 17, MelWeightMatrix is written as a constant."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bands, length, rate, low, high = (node[name].const().item() for name in names)
    matrix = np.zeros((length // 2 + 1, bands))
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (low, high))
    mel = low + (high - low) / (bands + 2) * np.arange(bands + 2)
    edges = (length + 1) * 700 * (10 ** (mel / 2595) - 1) / rate
    if np.any((edges > 1e-9) & (np.abs(edges - np.rint(edges)) < 1e-5 * edges)):
        op.approximate("the edge of a mel band is so close to a bin that rounding decides the bin")
    bins = np.floor(edges).astype(int)
    if bins[-2] >= len(matrix) or bins[-1] > len(matrix):
        raise Refusal(Why.AMBIGUOUS, "an edge of a mel band is above half of the sample rate")
    for band, (left, peak, right) in enumerate(zip(bins, bins[1:], bins[2:], strict=False)):
        matrix[left:peak, band] = np.arange(peak - left) / (peak - left)
        matrix[peak:right, band] = np.arange(right - peak, 0, -1) / (right - peak)
        matrix[peak, band] = 1
    return op.const(matrix, node.int("output_datatype"))
