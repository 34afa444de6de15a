# SPDX-License-Identifier: Apache-2.0
"""Nodes whose sizes contradict each other, which onnx's inference does not check."""

from itertools import product

from opshift.adapter import Node, flaw

from opshift_adapters._lib.known_sizes import Dims, Size, broadcasts, differ, dims_of


@flaw("LayerNormalization RMSNormalization")
def factors_that_do_not_broadcast(node: Node) -> str | None:
    """Scale and bias of LayerNormalization and RMSNormalization must broadcast to the input."""
    dims = dims_of(node, "X")
    for name in ("Scale", "scale", "B"):
        own_dims = dims_of(node, name)
        if dims is None or own_dims is None:
            continue
        if len(own_dims) > len(dims) or not broadcasts(own_dims, dims):
            return f"{name} of the shape {list(own_dims)} does not broadcast to {list(dims)}"
    return None


@flaw("Einsum")
def letters_of_two_sizes(node: Node) -> str | None:
    """All axes with the same letter in an Einsum must have the same size, or size 1."""
    terms = node.str("equation").replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, value in zip(terms, node.inputs, strict=False):
        for letter, size in _lettered(term, value and value.dims_or_none):
            if not isinstance(size, int) or size == 1:
                continue
            if sizes.setdefault(letter, size) != size:
                return f"axes with the letter {letter!r} have the sizes {sizes[letter]} and {size}"
    return None


def _lettered(term: str, dims: Dims | None) -> list[tuple[str, Size]]:  # pragma: no cover: as above
    """Returns letter and size of each axis; the axes of an ellipsis are numbered from the end."""
    before, dots, behind = term.partition("...")
    count = len(dims) - len(before) - len(behind) if dims is not None else -1
    if dims is None or count < 0 or (count and not dots):
        return []
    letters = [*before, *(f"...{place}" for place in range(-count, 0)), *behind]
    return list(zip(letters, dims, strict=True))


def _heads(node: Node, name: str, count: str) -> tuple[Size, Size]:  # pragma: no cover: as above
    """Returns the number of heads of an input and the size of each head, as far as known."""
    dims, heads = dims_of(node, name), node.attr(count)
    if dims is not None and len(dims) == 4:
        return dims[1], dims[3]
    width = dims[2] if dims is not None and len(dims) == 3 else None
    return heads, width // heads if isinstance(width, int) and heads else None


@flaw("Attention")
def heads_of_other_sizes(node: Node) -> str | None:
    """Numbers and sizes of heads must agree in Q, K, V and past keys and values."""
    attributes = {"Q": "q_num_heads", "K": "kv_num_heads", "V": "kv_num_heads"}
    for name, count in attributes.items():
        dims, heads = dims_of(node, name), node.attr(count)
        width = dims[2] if dims is not None and len(dims) == 3 else None
        if isinstance(width, int) and heads and width % heads:
            return f"the last axis of {name} has size {width}, not a multiple of its {heads} heads"
    heads_of = {name: _heads(node, name, count) for name, count in attributes.items()}
    heads_of |= {name: _heads(node, name, "kv_num_heads") for name in ("past_key", "past_value")}
    pasts = product((("K", "past_key"), ("V", "past_value")), (0, 1))
    alike = (("Q", "K", 1), ("K", "V", 0), *((*names, part) for names, part in pasts))
    for first, second, part in alike:
        pair = heads_of[first][part], heads_of[second][part]
        if differ(*pair):
            words = "heads of {} numbers" if part else "{} heads"
            return f"{first} has {words.format(pair[0])}, but {second} has {words.format(pair[1])}"
    queries, keys = heads_of["Q"][0], heads_of["K"][0]
    odd = isinstance(queries, int) and isinstance(keys, int) and (not keys or queries % keys)
    return f"Q has {queries} heads, not a multiple of the {keys} heads of K" if odd else None


@flaw("Attention")
def masks_of_other_sizes(node: Node) -> str | None:
    """The mask of Attention must broadcast to queries and keys; it may be shorter from opset 24."""
    mask, queries = dims_of(node, "attn_mask"), dims_of(node, "Q")
    keys = [dims_of(node, name) for name in ("K", "V")]
    past = dims_of(node, "past_key") if node.input("past_key") is not None else (0, 0)
    counts = {key[-2] for key in keys if key and len(key) > 2 and isinstance(key[-2], int)}
    before = past[-2] if past and len(past) > 1 else None
    if not mask or len(counts) != 1 or not isinstance(before, int):
        return None
    (own,) = counts
    total, short = own + before, node.schema is not None and node.schema.since > 23
    last = mask[-1]
    fits = last <= total if short and isinstance(last, int) else not differ(last, total)
    if last != 1 and not fits:
        return f"the mask has {last} keys instead of {total}"
    rows = mask[-2] if len(mask) > 1 else 1
    count = queries[-2] if queries and len(queries) > 2 else None
    wrong = rows != 1 and differ(rows, count)
    return f"the mask has {rows} queries instead of {count}" if wrong else None


@flaw("Attention")
def masks_for_another_batch(node: Node) -> str | None:
    """The outer axes of the mask of Attention must broadcast to batch and heads."""
    mask, queries = dims_of(node, "attn_mask") or (), dims_of(node, "Q")
    expected = (queries[0] if queries else None, _heads(node, "Q", "q_num_heads")[0])
    if not broadcasts(mask[:-2], expected):
        return f"the mask has the shape {list(mask)}, but batch and heads are {list(expected)}"
    return None


@flaw("RotaryEmbedding")
def angles_of_other_sizes(node: Node) -> str | None:
    """The caches of RotaryEmbedding need, per position, an angle for each pair in a head."""
    dims, caches = dims_of(node, "X"), [dims_of(node, name) for name in ("cos_cache", "sin_cache")]
    count, head = _heads(node, "X", "num_heads")
    packed = dims[2] if dims is not None and len(dims) == 3 else None
    if isinstance(packed, int) and isinstance(count, int) and packed % max(count, 1):
        return f"the last axis of X has size {packed}, not a multiple of its {count} heads"
    width = node.attr("rotary_embedding_dim") or head
    if isinstance(width, int) and (width % 2 or (isinstance(head, int) and width > head)):
        return f"the node rotates {width} of the {head} numbers of a head, but must rotate pairs"
    expected: list[int | str | None] = [width // 2 if isinstance(width, int) else None]
    each = [dims[0], dims[-2]] if dims is not None and len(dims) in (3, 4) else []
    places = dims_of(node, "position_ids")
    if node.input("position_ids") is None:
        expected = [*each, *expected]
    elif places is not None and any(map(differ, places, each)):
        return f"position_ids has the shape {list(places)} instead of {each}"
    cosines, sines = caches
    if cosines is not None and sines is not None and any(map(differ, cosines, sines)):
        return f"the two caches have the shapes {list(cosines)} and {list(sines)}"
    axes = 3 if node.input("position_ids") is None else 2
    for cache in caches:
        if cache is not None and len(cache) != axes:
            return f"a cache has rank {len(cache)}, but must have rank {axes}"
        pairs = zip((cache or ())[::-1], expected[::-1], strict=False)
        if cache is not None and any(differ(size, expected_size) for size, expected_size in pairs):
            return f"a cache has the shape {list(cache)}, but must end in {expected}"
    return None


@flaw("ConcatFromSequence")
def elements_of_other_sizes(node: Node) -> str | None:
    """ConcatFromSequence needs tensors of equal sizes on all axes but the joined axis."""
    made = node["input_sequence"].producer
    if made is None or made.op not in ("SequenceConstruct", "SplitToSequence"):
        return None
    new, axis = node.int("new_axis"), node.int("axis")
    if made.op == "SplitToSequence":
        return _uneven_parts(made, None if new else axis)
    shapes = [dims for value in made.inputs if value and (dims := value.dims_or_none) is not None]
    for shape in shapes[1:]:
        joined = None if new or not shape else axis % len(shape)
        pairs = enumerate(zip(shapes[0], shape, strict=False))
        if len(shape) != len(shapes[0]) or any(at != joined and differ(*two) for at, two in pairs):
            return f"the node joins tensors of the shapes {list(shapes[0])} and {list(shape)}"
    return None


def _uneven_parts(split: Node, joined: int | None) -> str | None:  # pragma: no cover: as above
    """Returns why ConcatFromSequence cannot join the parts of a split along another axis."""
    dims, size = dims_of(split, "input"), split.input("split")
    each, axis = size and size.const_or_none(), split.int("axis")
    if not dims or each is None or each.ndim:
        return None
    if joined is not None and (joined - axis) % len(dims) == 0:
        return None
    whole, part = dims[axis], int(each)
    if not isinstance(whole, int) or part <= 0 or whole <= part or not whole % part:
        return None
    return f"the node concatenates parts of sizes {part} and {whole % part} along another axis"


@flaw("MaxUnpool")
def windows_beyond_the_result(node: Node) -> str | None:
    """MaxUnpool needs a kernel size per axis, and its pads must not crop the whole result."""
    dims, kernel = dims_of(node, "X"), node.ints("kernel_shape")
    count = len(kernel)
    strides = node.ints_or_none("strides") or [1] * count
    pads = node.ints_or_none("pads") or [0] * 2 * count
    axes = len(dims) - 2 if dims is not None else count
    if not count or count != axes:
        return f"kernel_shape has {count} sizes for {axes} axes"
    if (len(strides), len(pads)) != (count, 2 * count):
        return None  # another rule reports this flaw
    for at, size in enumerate(dims[2:] if dims is not None else ()):
        cut = pads[at] + pads[at + count] - kernel[at]
        if isinstance(size, int) and size and (size - 1) * strides[at] < cut:
            return f"the pads crop {cut} elements of an axis of size {(size - 1) * strides[at]}"
    return None


@flaw("DeformConv")
def outputs_of_other_groups(node: Node) -> str | None:
    """Output channels must be a multiple of `group`; a mask needs one number per offset pair."""
    offset, mask = dims_of(node, "offset"), dims_of(node, "mask")
    doubled = list(mask or ())
    if len(doubled) > 1 and isinstance(doubled[1], int):
        doubled[1] *= 2
    if offset and any(map(differ, offset, doubled)):
        return f"the offset has the shape {list(offset)}, the mask has {list(mask or ())}"
    kernel, groups = dims_of(node, "W"), node.int("group")
    outputs = kernel[0] if kernel else None
    odd = isinstance(outputs, int) and groups > 0 and (not outputs or outputs % groups)
    return f"the {outputs} output channels do not divide into {groups} groups" if odd else None


@flaw("Conv ConvInteger ConvTranspose DeformConv QLinearConv")
def parameters_of_other_channels(node: Node) -> str | None:
    """B of a Conv needs a number per output channel; `w_scale` and `w_zero_point` may have one."""
    kernel = dims_of(node, "W") or dims_of(node, "w")
    channels = kernel[0] if kernel else None
    if node.op == "ConvTranspose":
        each = kernel[1] if kernel and len(kernel) > 1 else None
        channels = each * node.int("group") if isinstance(each, int) else None
    for name in ("B", "w_scale", "w_zero_point"):
        shape = dims_of(node, name)
        for_all = name != "B" and shape is not None and shape[:1] == (1,)
        if shape and not for_all and differ(shape[0], channels):
            return f"{name} has {shape[0]} numbers for {channels} channels"
    for name in ("x_scale", "x_zero_point", "y_scale", "y_zero_point"):
        if (shape := dims_of(node, name)) and differ(shape[0], 1):
            return f"{name} has {shape[0]} numbers, but must have 1"
    return None


@flaw("MatMulInteger QLinearMatMul")
def parameters_of_other_rows(node: Node) -> str | None:
    """Scales and zero points must be per tensor, per row of A, or per column of B."""
    for letter, axis in (("a", -2), ("b", -1)):
        dims = dims_of(node, letter) or dims_of(node, letter.upper())
        for name in (f"{letter}_scale", f"{letter}_zero_point"):
            shape = dims_of(node, name)
            if not dims or not shape or len(dims) < 2:
                continue
            lines = (dims[-2], 1) if letter == "a" else (1, dims[-1])
            expected = [dims[axis]] if len(shape) == 1 else [*dims[:-2], *lines]
            if not broadcasts(shape, expected):
                return f"{name} has the shape {list(shape)} instead of {expected}"
    return None


@flaw("ReverseSequence")
def lengths_of_another_batch(node: Node) -> str | None:
    """ReverseSequence needs a length per sequence, and batch axis and time axis must differ."""
    batch, time = node.int("batch_axis"), node.int("time_axis")
    if batch == time:
        return f"batch_axis and time_axis are both {batch}"
    dims, lengths = dims_of(node, "input"), dims_of(node, "sequence_lens")
    count = dims[batch] if dims is not None and -len(dims) <= batch < len(dims) else None
    if lengths and differ(lengths[0], count):
        return f"the node has {lengths[0]} lengths for {count} sequences"
    return None


@flaw("Gemm")
def matrices_of_other_sizes(node: Node) -> str | None:
    """A of Gemm needs as many columns as B has rows, and C must broadcast to the product."""
    a, b, c = (dims_of(node, name) for name in "ABC")
    if a is None or b is None or not len(a) == len(b) == 2:
        return None
    rows, inner = a[::-1] if node.int("transA") else a
    other, columns = b[::-1] if node.int("transB") else b
    if differ(inner, other):
        return f"A has {inner} columns, but B has {other} rows"
    message = f"C of the shape {list(c or ())} does not broadcast to [{rows}, {columns}]"
    return None if broadcasts(c or (), (rows, columns)) else message
