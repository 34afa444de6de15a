# SPDX-License-Identifier: Apache-2.0
"""Cast and CastLike: new element types, and the attributes `saturate` and `round_mode`."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from opshift.adapter import (
    KEEP,
    Builder,
    Node,
    Refusal,
    Result,
    Surroundings,
    T,
    Why,
    adapter,
    alternative,
    boundary,
    by_value,
    by_width,
    illegal,
    misread,
    np,
)
from opshift.combinators import drop_attribute

from opshift_adapters._lib.kinds import as_type, parted
from opshift_adapters._lib.scales import FLOAT8
from opshift_adapters._lib.wide_integers import combine_rows
from opshift_adapters.facts.folding import numpy_type

CHOSEN = by_width("Cast CastLike", floats=True)  # the type is an attribute of the operator
READ_BY_VALUE = by_value("Cast", 0, floats=True)


@adapter("Cast", 5, 6)
def cast_5_6(node: Node, op: Builder) -> Result:
    """Opset 6 made the attribute `to` of Cast a number; before, `to` was the name of a type."""
    number = T.__members__.get(node.str("to").upper())
    if not number:
        raise Refusal(Why.AMBIGUOUS, f"{node.str('to')!r} is not the name of an element type")
    combined = combine_rows(op, node["input"])
    if combined is None:
        return op.same(node, to=number)
    return as_type(op, combined, number)


@adapter("Cast", 6, 5)
def cast_6_5(node: Node, op: Builder) -> Result:
    """Below opset 6, `to` of Cast is the name of the element type instead of its number."""
    return op.same(node, to=T(node.int("to")).name)


def cast_while_converting(node: Node, op: Builder) -> Result:
    """Computes the Cast of a constant, because the older opset has no Cast of this element type."""
    x, to = node["input"], node.int("to")
    if "saturate" in node.attributes:
        node.has("saturate")  # `saturate` affects only 8-bit floats
    constant, text = x.const_or_none(), x.elem_type == T.STRING
    if constant is None or not numpy_type(to) or (text and to == T.BOOL):
        kinds = f"{T(x.elem_type).name} to {T(to).name}".lower()
        raise Refusal(Why.TYPE_NOT_AVAILABLE, f"opset {op.version} has no Cast from {kinds}")
    if not text:
        constant = constant.astype(np.float32)
    try:
        return op.const(constant.astype(numpy_type(to)), to)
    except (ValueError, OverflowError) as error:
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"{x.name!r} has a string that is not a number: {error}"
        ) from None


EIGHT_BITS = (*FLOAT8, T.FLOAT8E8M0)
BACK = partial(misread, source="2026-11-26 eight releases, 0.4.0..1.5.2: 13 chains of two Casts")
PAIRS = partial(misread, source="2026-11-25 306 pairs of Casts by integers, 492 by floats")


def _is_lossy_pair(node: Node, around: Surroundings, *, of: int, to: int) -> bool:
    kinds = node["input"].elem_type_or_none, node.int("to")
    return kinds == (of, to) and around.has_lossy_pair(node)


@BACK("Cast", "onnxruntime 0.4..1.5", "a Cast to float16 and back is removed, although it rounds")
def returns_from_float16(node: Node, around: Surroundings) -> bool:
    return _is_lossy_pair(node, around, of=T.FLOAT16, to=T.FLOAT)


@BACK("Cast", "onnxruntime 0.5..1.5", "a Cast to float and back is removed, although it rounds")
def returns_from_float(node: Node, around: Surroundings) -> bool:
    return _is_lossy_pair(node, around, of=T.FLOAT, to=T.DOUBLE)


@PAIRS("Cast", "onnxruntime 1.6..1.16", "a Cast that changes numbers is skipped before a Cast")
def is_merged(node: Node, around: Surroundings) -> bool:
    return around.has_lossy_pair(node)


@PAIRS(
    "Cast",
    "onnxruntime 1.17..1.25",
    "a Cast that wraps, truncates or rounds numbers is skipped before a Cast to bool",
)
def is_merged_to_bool(node: Node, around: Surroundings) -> bool:
    return node.int("to") == T.BOOL and around.has_lossy_pair(node)


@misread(
    "Abs Acos Acosh Add ArgMax ArgMin Asin Asinh Atan Atanh BatchNormalization Ceil Conv "
    "ConvTranspose Cos Cosh CumSum DepthToSpace Div Dropout Einsum Elu Erf Exp Floor GRU Gemm "
    "GlobalAveragePool GlobalLpPool GlobalMaxPool Greater Hardmax InstanceNormalization LSTM "
    "Less Log LpNormalization LpPool MatMul MaxPool Mean Mul Neg NonZero Pow Reciprocal "
    "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Sigmoid Sin Sinh SpaceToDepth Sqrt Sub "
    "Sum Tan Tanh TopK Trilu Where",
    "onnxruntime 1.15",
    source="2026-11-30 1.15.1: 84 operators",
    since=19,
    before=20,
)
def needs_a_cast_of_opset_19(node: Node) -> bool:
    """{op} of float16 at opset 19 does not load."""
    return any(value.elem_type_or_none == T.FLOAT16 for value in node.inputs if value)


@misread(
    "Affine Crop ImageScaler ParametricSoftplus Scale ScaledTanh",
    "onnxruntime 1.0..1.32",
    source="2026-12-01 33 releases, 1.0..1.32: 14 types",
)
def loads_as_floats(node: Node) -> bool | None:
    """{op} of an element type other than float and float16 does not load."""
    kind = node.inputs[0].elem_type_or_none if node.inputs and node.inputs[0] else None
    return None if kind is None else kind not in (T.FLOAT, T.FLOAT16)


@misread("Cast", "onnxruntime 1.16..1.32", source="2026-12-01 1.15..1.32", since=19)
def saturates_no_float8(node: Node) -> bool:
    """Cast with saturate=0 to an element type other than 8-bit floats does not load."""
    kinds = {value.elem_type_or_none for value in node.outputs if value}
    return not node.int("saturate") and kinds.isdisjoint((None, *FLOAT8))


@misread("CastLike", "onnxruntime 1.17..1.32", source="2026-12-01 1.15..1.32", since=19)
def saturates_like_no_float8(node: Node) -> bool:
    """CastLike with saturate=0 to an element type other than 8-bit floats does not load."""
    return saturates_no_float8.run(node) is True


@misread("Cast", "onnxruntime 1.27..1.32", source="2026-12-01 1.15..1.32: 4 types", since=24)
def rounds_no_float8(node: Node) -> bool:
    """Cast with a round_mode to an element type other than float8e8m0 does not load."""
    return node.str("round_mode") != "up" and node.int("to") != T.FLOAT8E8M0


@misread(
    "Cast Concat Expand Flatten Gather Reshape Slice Squeeze Tile Transpose Unsqueeze Where",
    "onnxruntime 1.0..1.2, 1.8..1.16",
    source="2026-11-30 1.0..1.17: ten operators",
)
def makes_constant_strings(node: Node) -> bool:
    """{op} of constant strings does not load."""
    inputs = [value for value in node.inputs if value]
    kinds = [value.elem_type_or_none for value in (*inputs, *node.outputs) if value]
    return T.STRING in kinds and all(value.const_or_none() is not None for value in inputs)


@misread("Cast", "openvino 2022.1", source="2026-11-23 2022.1: one node for each element type")
def cuts_off_to_bool(node: Node) -> bool:
    """Cast of floats to bool truncates first, so that numbers below 1 become false."""
    kinds = (T.FLOAT, T.DOUBLE, T.FLOAT16)
    return node.int("to") == T.BOOL and node["input"].elem_type_or_none in kinds


@alternative("Cast CastLike", runtime="openvino==2022.1")
def without_a_lossy_cast(node: Node, op: Builder) -> Result:
    """A Reshape separates a lossy Cast, Equal casts to bool, and unused attributes are removed."""
    names = [name for name in ("saturate", "round_mode") if name in node.attributes]
    rounds = any(value and value.elem_type in EIGHT_BITS for value in node.outputs)
    if names and all(map(node.has, names)) and not rounds:
        return op.same(node, **dict.fromkeys(names))
    if op.version < 6 or node.op == "CastLike":  # below opset 6, `to` is a string
        return KEEP  # pragma: no cover: only a runtime of the caller asks for this form
    x = node["input"]
    if (before := x.producer) is not None and before.op == "Cast":
        return op.same_but(node, [parted(op, x)])
    if x.elem_type_or_none == T.STRING and x.const_or_none() is not None:
        return cast_while_converting(node, op)
    if node.int("to") != T.BOOL or op.version < 11:
        return KEEP
    return ~op.Equal(x, op.const(0, like=x))


CAST_9 = boundary(9, "Cast:88bcd8", cast=cast_while_converting)
CAST_13 = boundary(13, "Cast:f9f68c", cast=cast_while_converting)


@adapter("CastLike", 15, 14, in_other_words=True)
def cast_like_15_14(node: Node, op: Builder) -> Result:
    """Below opset 15, CastLike is written as Cast to the element type of `target_type`."""
    return op.Cast(node["input"], to=node["target_type"].elem_type)


CAST_UP_19 = boundary(19, "Cast:24656c", directions="up")


SATURATE = {"saturate": "`saturate` affects only Casts to 8-bit floats"}


@adapter("Cast", 19, 18, handles_types=True, ignores=SATURATE)
def cast_19_18(node: Node, op: Builder) -> Result:
    """Below opset 19, Cast lacks 8-bit floats and `saturate`; constants are cast at conversion."""
    x, to = node["input"], node.int("to")
    kind = x.elem_type_or_none
    if kind is None and any(map(x.may_be, FLOAT8)):
        raise Refusal(Why.NEEDS_TYPE, f"the element type of {x.name!r} is unknown")
    if kind in FLOAT8:
        return cast_while_converting(node, op)
    if to in FLOAT8:
        raise Refusal(
            Why.TYPE_NOT_AVAILABLE, f"opset {op.version} has no Cast to {T(to).name.lower()}"
        )
    return op.same(node, saturate=None)


CAST_19 = boundary(19, "CastLike:1ec715", down=drop_attribute("saturate"), ignores=SATURATE)
CAST_21 = boundary(21, "Cast:666a21", cast=cast_while_converting)
CAST_LIKE_21 = boundary(21, "CastLike:3fb492")
CAST_23 = boundary(23, "Cast:d12ac8", cast=cast_while_converting)
CAST_LIKE_23 = boundary(23, "CastLike:e6a4ed")


MODE = {"round_mode": "`round_mode` affects only Casts to float8e8m0"}
CAST_24 = boundary(
    24, "Cast:f1ca9f CastLike:cbca8f", down=drop_attribute("round_mode"), ignores=MODE
)
CAST_25 = boundary(25, "Cast:65e127", cast=cast_while_converting)
CAST_LIKE_25 = boundary(25, "CastLike:5bef5d")
CAST_28 = boundary(28, "Cast:a43dff", cast=cast_while_converting)


@illegal("Cast")
def no_such_type(attributes: Mapping[str, Any], inputs: int, outputs: int) -> str | None:
    """`to` of Cast must be the number of an element type."""
    to = attributes.get("to")
    unknown = isinstance(to, int) and not T.has(to)
    return f"to is {to}, which is not an element type" if unknown else None
