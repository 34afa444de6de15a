# SPDX-License-Identifier: Apache-2.0
"""Add, Sub, Mul, Div, Pow and Mod."""

from functools import partial

from opshift.adapter import (
    KEEP,
    Array,
    Builder,
    Node,
    Refusal,
    Result,
    Surroundings,
    T,
    Value,
    Why,
    adapter,
    alternative,
    boundary,
    dtype_of,
    in_other_words,
    misread,
    np,
)
from opshift.combinators import cast_around, drop_attribute

from opshift_adapters._lib.blocks import one_number
from opshift_adapters._lib.exact_integers import wrapped
from opshift_adapters._lib.kinds import (
    FLOATS,
    INTS,
    SMALL_INTS,
    UNSIGNED,
    WIDE_INTS,
    as_type,
    in_double,
)
from opshift_adapters._lib.legacy_broadcast import drop_legacy_broadcast, to_legacy_broadcast
from opshift_adapters._lib.makers import maker
from opshift_adapters._lib.remainder import float_remainder
from opshift_adapters._lib.wide_integers import wide_arithmetic


def _through_double(node: Node, op: Builder) -> Result:
    """Below opset 6, 32-bit integers are computed in double, others by Reduce operators."""
    a, b = node["A"], node["B"]
    node.has("axis")  # `axis` has no meaning without `broadcast`
    kind = a.elem_type
    if kind not in (T.INT32, T.UINT32):
        return wide_arithmetic(node, op)
    a, b = in_double(op, a), in_double(op, b)
    if node.op == "Mul":
        high, low = _split(op, a, 2.0**16)
        (top,), (bottom,) = op.same_but(node, [high, b]), op.same_but(node, [low, b])
        top = op.Mul(_split(op, top, 2.0**32)[1], op.const(2.0**16, T.DOUBLE), broadcast=1)
        result = top + bottom
    else:
        (result,) = op.same_but(node, [a, b])
    if node.op == "Div":
        return op.Cast(result, to=kind)
    if kind == T.UINT32:
        return op.Cast(_split(op, result, 2.0**32)[1], to=kind)
    half = op.const(2.0**31, T.DOUBLE)
    shifted = _split(op, op.Add(result, half, broadcast=1), 2.0**32)[1]
    return op.Cast(op.Sub(shifted, half, broadcast=1), to=kind)


def _split(op: Builder, x: Value, unit: float) -> tuple[Value, Value]:
    """Returns floor(x / unit) and the remainder; both are exact for integers in double."""
    size = op.const(unit, T.DOUBLE)
    high = op.Floor(op.Div(x, size, broadcast=1))
    return high, x - op.Mul(high, size, broadcast=1)


BASICS = "Add:15046f Sub:7e2fde Mul:73853d Div:9da7e7"
BASIC_6 = boundary(6, BASICS, up=drop_attribute("consumed_inputs"), cast=_through_double)

ARITHMETIC_13 = boundary(13, "Add:16145e Sub:79a520 Mul:179f58 Div:6a3efd Pow:e1caab Mod:eb26b7")


def in_64_bits(node: Node, op: Builder) -> Result:
    """Below opset 14, 8- and 16-bit integers are computed in int64, and the result wraps around."""
    kind = node["A"].elem_type
    (wide,) = op.same_but(node, [op.Cast(node[name], to=T.INT64) for name in ("A", "B")])
    return op.Cast(wrapped(op, wide, kind), to=kind)


ARITHMETIC_14 = boundary(14, "Add:e908c6 Sub:ff37b3 Mul:9fd848 Div:88f015", cast=in_64_bits)


OPENVINO = partial(misread, source="2026-11-29 6 releases of OpenVINO: 1 or 2 nodes")


@OPENVINO("Sub", "openvino 2022.1..2024.6", "Sub of unsigned integers returns 0 if it should wrap")
def subtracts_unsigned(node: Node) -> bool:
    return node["A"].elem_type_or_none in UNSIGNED


@OPENVINO("Sub", "openvino 2025.4..2026.4", "Sub of uint8 returns 0 if it should wrap")
def subtracts_uint8(node: Node) -> bool:
    return node["A"].elem_type_or_none == T.UINT8


@OPENVINO("Div", "openvino 2022.1", "Div of a computed or 8-bit integer does not truncate")
def rounds_the_quotient(node: Node) -> bool:
    kind, producer = node["A"].elem_type_or_none, node["A"].producer
    while producer is not None and producer.op in ("Cast", "Reshape", "Squeeze", "Unsqueeze"):
        producer = producer.inputs[0].producer if producer.inputs[0] is not None else None
    if kind not in WIDE_INTS or producer is None:
        return kind in (T.INT8, T.UINT8)
    has_remainder = producer.op != "Sub" or _made_by(producer, "Mod") is None
    fused = ("Add", "Sub", "Mul", "Mod", "Neg", "Abs", "Pow", "ReduceSum")
    # OpenVINO computes sizes while it loads the model
    return producer.op in fused and has_remainder and not _is_size(node["A"])


def _is_size(value: Value) -> bool:
    """Returns whether nodes compute a value from constants and the sizes of tensors."""
    pending, seen = [value], set[str]()
    for value in pending:
        producer = value.producer
        if producer is None and value.const_or_none() is None:
            return False
        if producer is not None and producer.op not in ("Shape", "Size") and value.name not in seen:
            pending += filter(None, producer.inputs)
        seen.add(value.name)
    return True


@alternative("Sub Div", runtime="onnxruntime==1.10")
def in_signed_integers(node: Node, op: Builder) -> Result:
    """Sub and Div of uint32 and uint64 become int64; int32 and int64 have no remainder in Div."""
    kind = node["A"].elem_type_or_none
    if kind == T.UINT32 and op.version >= 10:
        return in_64_bits(node, op)
    a, b = node["A"], node["B"]
    if kind in (T.INT32, T.INT64) and op.version >= 10 and node.op == "Div":
        return (a - op.Mod(a, b, fmod=1)) / b if rounds_the_quotient.run(node) else KEEP
    if kind != T.UINT64:
        return KEEP
    if node.op == "Div":
        return _by_powers_of_two(node, op)
    (wide,) = op.same_but(node, [op.Cast(x, to=T.INT64) for x in (a, b)])
    return op.Cast(wide, to=kind)


HALF_BITS = 62  # the exponent of 2**62, the largest power of two in int64


def _by_powers_of_two(node: Node, op: Builder) -> Result:
    """Writes Div of uint64 by constant powers of two as a division of int64."""
    known = node["B"].const_or_none()
    if known is None or op.version < 10 or any(n.bit_count() != 1 for n in map(int, known.flat)):
        return KEEP
    lengths = [int(n).bit_length() for n in known.flat]
    shifts = np.array(lengths, dtype=np.int64).reshape(known.shape) - 1
    x, most = op.Cast(node["A"], to=T.INT64), np.minimum(shifts, HALF_BITS)
    top = _floor_div(op, x, op.const(2**HALF_BITS))  # -2 or -1 if the highest bit is set
    bit = (op.Mod(top, op.const(2)) - top) / op.const(2)
    weights = np.where(most > 0, np.int64(1) << ((64 - most) % 64), 0)
    shifted = _floor_div(op, x, op.const(np.int64(1) << most)) + bit * op.const(weights)
    if (shifts > HALF_BITS).any():
        shifted = shifted / op.const(np.where(shifts > HALF_BITS, 2, 1))
    return op.Cast(shifted, to=T.UINT64)


def _floor_div(op: Builder, x: Value, by: Value) -> Value:
    return (x - op.Mod(x, by)) / by


POW_12 = boundary(12, "Pow:8c38fc", directions="up")


@misread("Mul", "onnxruntime 1.1..1.3", source="2026-11-23 1.1..1.3: LayerNormalization in nodes")
def ends_a_normalization(node: Node, around: Surroundings) -> bool:
    """Mul at the end of a LayerNormalization in single nodes crashes the process as an output."""
    divided = _made_by(node, "Div")
    at_the_end = around.is_output(node.outputs[0]) if node.outputs[0] else False
    return at_the_end and divided is not None and _made_by(divided, "Sqrt") is not None


def _made_by(node: Node, op: str) -> Node | None:
    """Returns the first node of this operator that computes an input of `node`, or None."""
    return next(filter(None, (maker(x, op) for x in node.inputs)), None)


def leads_to(value: Value | None, around: Surroundings, *ops: str) -> bool:
    """Returns whether a value passes through these operators in order, always as first input."""
    if not ops:
        return True
    return value is not None and any(
        reader.op == ops[0]
        and reader.proto.input[0] == value.name
        and leads_to(reader.outputs[0], around, *ops[1:])
        for reader in around.readers(value)
    )


@alternative("Mul", runtime="onnxruntime==1.2")
def with_a_node_behind(node: Node, op: Builder) -> Result:
    """Mul gets an Identity after it, against a wrong fusion; uint32 and uint64 become int64."""
    if node["A"].elem_type_or_none in (T.UINT32, T.UINT64):
        return in_signed_integers(node, op)
    return op.Identity(op.same(node))


FUSED = partial(misread, source="2026-11-23 1.1..1.3: fused nodes")


def _adds_floats(node: Node, rank: int) -> bool:
    first = node["A"]
    return first.elem_type_or_none == T.FLOAT and first.rank_or_none == rank


@FUSED("Add", "onnxruntime 1.1..1.3", "Add before Div and Erf is fused as the bias of a Gelu")
def before_single_nodes_of_gelu(node: Node, around: Surroundings) -> bool:
    return _adds_floats(node, 1) and leads_to(node.outputs[0], around, "Div", "Erf")


@FUSED("Add", "onnxruntime 1.1..1.3", "Add before Gelu is fused with its second input as bias")
def before_gelu(node: Node, around: Surroundings) -> bool:
    return _adds_floats(node, 1) and leads_to(node.outputs[0], around, "Gelu")


@FUSED("Add", "onnxruntime 1.1..1.2", "Add before Sub, Div and Mul is fused with a wrong epsilon")
def before_single_nodes_of_a_normalization(node: Node, around: Surroundings) -> bool:
    return _adds_floats(node, 3) and leads_to(node.outputs[0], around, "Sub", "Div", "Mul")


@alternative("Add", runtime="onnxruntime==1.2")
def with_the_bias_behind(node: Node, op: Builder) -> Result:
    """Add becomes Sum or swaps its inputs to avoid a wrong fusion; uint types become int64."""
    a, b = node["A"], node["B"]
    if a.elem_type_or_none != T.FLOAT:
        return in_signed_integers(node, op)
    if a.rank_or_none == 1 and (b.rank_or_none or 0) > 1:
        return op.same_but(node, [b, a])
    return op.Sum(a, b) if op.version >= 8 else KEEP  # these releases do not fuse Sum


# In the examples, the float16 bits 16384 are 2.0 and the bits 11878 are 0.1.


@misread("Pow", "onnxruntime 1.23..1.27", source="2026-11-28 9 releases, 1.17..1.32: three models")
def is_averaged_in_float16(node: Node, around: Surroundings) -> bool:
    """{op} in float16 normalizations that share an exponent does not load in models with MatMul."""
    kinds = {node["X"].elem_type_or_none, node["Y"].elem_type_or_none}
    return kinds == {T.FLOAT16} and leads_to(node.outputs[0], around, "ReduceMean", "Add", "Sqrt")


@alternative("Pow", runtime="onnxruntime==1.24")
def by_an_exponent_of_float(node: Node, op: Builder) -> Result:
    """The exponent of Pow becomes float, because onnxruntime 1.23 to 1.27 fail at float16."""
    x, y = node["X"], node["Y"]
    if {x.elem_type_or_none, y.elem_type_or_none} != {T.FLOAT16} or op.version < 12:
        return KEEP  # below opset 12, an exponent has the type of its base
    constant = y.const_or_none()
    power = op.Cast(y, to=T.FLOAT) if constant is None else op.const(constant, T.FLOAT)
    return op.same(node, inputs={"Y": power})


@adapter("Pow", 12, 11, handles_types=True)
def pow_12_11(node: Node, op: Builder) -> Result:
    """Below opset 12, Pow needs equal float types; others are cast, or products are written."""
    x, y = node["X"], node["Y"]
    base, power = x.elem_type, y.elem_type
    if base not in FLOATS:
        return _integer_power(op, x, y)
    if base == power:
        return KEEP
    via = _power_type(base, y)
    constant = y.const_or_none()
    if constant is not None and via == base:
        return op.Pow(x, op.const(constant, base))
    result = op.Pow(as_type(op, x, via), as_type(op, y, via))
    return as_type(op, result, base)


def _power_type(base: int, y: Value) -> int:
    """Returns a float type that holds the exponents exactly; their parity decides the sign."""
    exponent, power = y.const_or_none(), y.elem_type
    if exponent is not None and _holds(base, exponent):
        return base
    if T.DOUBLE in (base, power):
        return T.DOUBLE
    return T.FLOAT if power in (T.FLOAT, T.FLOAT16, *SMALL_INTS) else T.DOUBLE


def _holds(kind: int, values: Array) -> bool:
    native = dtype_of(kind)
    return bool(np.all(values.astype(native).astype(values.dtype) == values))


def _integer_power(op: Builder, x: Value, y: Value) -> Value:
    exponent = one_number(y, x)
    if exponent is not None and exponent >= 0 and exponent == int(exponent):
        return _repeated_product(op, x, int(exponent))
    if x.elem_type != T.INT32:
        raise Refusal(Why.NOT_EXPRESSIBLE, "Pow of 64-bit integers is not exact below opset 12")
    return op.Cast(op.Pow(in_double(op, x), in_double(op, y)), to=x.elem_type)


def _repeated_product(op: Builder, x: Value, exponent: int) -> Value:
    """Writes `x` to a constant power as repeated products, which wrap around like integer Pow."""
    if exponent == 0:
        return x - x + op.const(1, like=x)
    result = x
    for bit in f"{exponent:b}"[1:]:
        result = result * result
        if bit == "1":
            result = result * x
    return result


POW_15 = boundary(15, "Pow:edfedc", cast=cast_around("float"))


FMOD = {"fmod": "the older opset allows only fmod=1 for floats"}


@adapter("Mod", 10, 9, approximate=True, in_other_words=True, ignores=FMOD)
def mod_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, Mod is written as Div, Mul and Sub, with a correction of the sign."""
    a, b = node["A"], node["B"]
    kind = a.elem_type
    if kind in (T.FLOAT, T.FLOAT16):
        return float_remainder(op, a, b)
    if kind in FLOATS:
        op.approximate(
            "Mod of doubles is rounded below opset 10; large quotients and infinite divisors"
            " give other results"
        )
        ratio = a / b
        whole = op.Sign(ratio) * op.Floor(op.Abs(ratio))
        return a - whole * b
    if kind in SMALL_INTS:
        a, b = op.Cast(a, to=T.INT32), op.Cast(b, to=T.INT32)
    rest = a - a / b * b
    signed = kind not in UNSIGNED and not (node["A"].never_negative and node["B"].never_negative)
    if node.int("fmod") == 0 and signed:
        table = _remainders(node["B"].const_or_none())
        if table is not None:
            return op.Gather(op.const(table, kind), rest + op.const(table.size // 2, like=rest))
        is_other_side = _other_side(op, rest, b, node["B"])
        rest = rest + b * op.Cast(is_other_side, to=a.elem_type)
    return op.Cast(rest, to=kind) if kind in SMALL_INTS else rest


LARGEST_TABLE = 64


def _remainders(divisor: Array | None) -> Array | None:
    """Returns a table from truncated remainders to remainders with the sign of the divisor."""
    if divisor is None or divisor.size != 1 or not 2 <= abs(int(divisor.item())) <= LARGEST_TABLE:
        return None
    most = abs(int(divisor.item())) - 1
    return np.mod(np.arange(-most, most + 1), int(divisor.item()))


def _other_side(op: Builder, rest: Value, b: Value, divisor: Value) -> Value:
    """Returns whether the remainder has the opposite sign of the divisor."""
    bounds, zero = divisor.bounds_or_none, op.const(0, like=rest)
    if bounds is not None and bounds.lowest > 0:
        return rest < zero
    if bounds is not None and bounds.highest < 0:
        return rest > zero
    return _other_sign(op, rest, b)


def _other_sign(op: Builder, rest: Value, divisor: Value) -> Value:
    zero = op.const(0, like=rest)
    differs = op.Xor(rest < zero, divisor < zero)
    return ~op.Equal(rest, zero) & differs


MOD_28 = boundary(28, "Mod:9345c5", directions="up")


@adapter("Mod", 28, 27)
def mod_28_27(node: Node, op: Builder) -> Result:
    """Below opset 28, Mod of floats has fmod=1; the divisor is added if the signs differ."""
    a, b = node["A"], node["B"]
    if node.int("fmod") == 1 or a.elem_type in INTS:
        return KEEP
    rest = op.Mod(a, b, fmod=1)
    return op.Where(_other_sign(op, rest, b), rest + b, op.Abs(rest) * op.Sign(b))


WITH_POW = "Add:dba819 Sub:4a78a5 Mul:1f3ceb Div:5c626b Pow:729784"
BROADCAST_7 = boundary(7, WITH_POW, up=drop_legacy_broadcast, down=to_legacy_broadcast)


@in_other_words("Add Sub")
def with_the_negative(node: Node, op: Builder) -> Result:
    """Sub a - b is written as Add a + -b, and Add a + b as Sub a - -b."""
    a, b = node["A"], node["B"]
    if b.elem_type in UNSIGNED:
        return KEEP
    return a - -b if node.op == "Add" else a + -b


@misread("Mul", "opencv 4.5.5", source="2026-11-29 4.5.5: 4 operators, constants of 6 shapes")
def scales_another_axis(node: Node) -> bool:
    """Mul fails for a constant that varies only along an axis other than the second."""
    return _scaled_axis(node) is not None


def _scaled_axis(node: Node) -> tuple[Value, Value, int] | None:
    """Returns the scaled value (rank >= 3), a constant or input as factor, and its only axis."""
    for x, y in ((node["A"], node["B"]), (node["B"], node["A"])):
        shape, rank = y.shape_or_none, x.rank_or_none
        if shape is None or rank is None or not 3 <= rank >= len(shape):
            continue
        long = [axis + rank - len(shape) for axis, size in enumerate(shape) if size != 1]
        fixed = not y.computed or (y.producer is not None and y.producer.op == "Constant")
        if fixed and len(long) == 1 and long[0] != 1 and 0 not in shape:
            return x, y, long[0]
    return None


@in_other_words("Mul")
def scale_of_a_normalization(node: Node, op: Builder) -> Result:
    """Mul by a constant along one axis is written as BatchNormalization with that scale."""
    found = _scaled_axis(node)
    if found is None or node["A"].elem_type not in FLOATS:
        return KEEP
    x, factor, axis = found
    if (constant := factor.const_or_none()) is None:
        return KEEP
    perm = list(range(x.rank))
    perm[1], perm[axis] = axis, 1
    scale, zeros = constant.ravel(), np.zeros(constant.size)
    rest = [op.const(one, like=x) for one in (-zeros, zeros, zeros + 1)]
    moved = op.Transpose(x, perm=perm)
    scaled = op.BatchNormalization(moved, op.const(scale, like=x), *rest, epsilon=0.0)
    return op.Transpose(scaled, perm=perm)


@misread("Pow", "opencv 4.5.5", source="2026-11-29 4.5.5: by 2 and 3, before Mul and Add")
def is_joined_with_arithmetic(node: Node, around: Surroundings) -> bool:
    """Pow before Add, Sub, Mul or Div is merged with that node and gives wrong numbers."""
    result = node.outputs[0]
    after = around.readers(result) if result is not None else ()
    joined = any(reader.op in ("Add", "Sub", "Mul", "Div") for reader in after)
    constant = node["Y"].const_or_none() if joined else None
    return constant is not None and constant.size == 1


@in_other_words("Div", approximate=True)
def product_with_reciprocal(node: Node, op: Builder) -> Result:
    """Div a / b is written as a * (1 / b), which is exact if b is a power of two."""
    a, b = node["A"], node["B"]
    if b.elem_type not in FLOATS:
        return KEEP
    constant = b.const_or_none()
    if constant is not None and constant.size and (np.abs(np.frexp(constant)[0]) == 0.5).all():
        inverse = (1 / constant).astype(constant.dtype)
        least = T(b.elem_type).fraction.smallest_normal
        if np.isfinite(inverse).all() and (np.abs(inverse) >= least).all():
            return a * op.const(inverse, like=b)
    op.approximate("Div is written as a product with 1 / b, which is rounded twice")
    return a * op.Reciprocal(b)


@in_other_words("Pow", approximate=True)
def power_in_products(node: Node, op: Builder) -> Result:
    """Pow becomes products, Reciprocal, Sqrt or Exp(y * Log(x)), depending on the exponent."""
    x, y = node["X"], node["Y"]
    exponent = one_number(y, x)
    if exponent in (1, 2, 3):
        return op.Identity(x) if exponent == 1 else _repeated_product(op, x, int(exponent))
    if x.elem_type not in FLOATS or y.elem_type != x.elem_type:
        return KEEP
    if exponent == -1:
        return op.Reciprocal(x)
    if exponent == 0.5:
        op.approximate("Pow(x, 0.5) as Sqrt gives -0 for -0, and NaN for minus infinity")
        return op.Sqrt(x)
    op.approximate("Pow as Exp(y * Log(x)) is rounded three times, and is NaN for negative x")
    return op.Exp(op.Log(x) * y)
