# SPDX-License-Identifier: Apache-2.0
"""Dropout: the training mode, the ratio, and the type of the mask."""

from typing import Any

from opshift.adapter import (
    KEEP,
    Builder,
    InvalidModel,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    boundary,
    in_other_words,
    np,
)
from opshift.combinators import drop_attribute

from opshift_adapters._lib.kinds import as_type
from opshift_adapters._lib.scales import FLOAT8


def mask_of(node: Node) -> Value | None:
    """Returns the output `mask` if it is read, else None."""
    mask = node.output("mask")
    return mask if mask is not None and mask.used else None


def trains(node: Node) -> bool | None:
    """Returns whether Dropout of opset 12 or later is in training mode; None if unknown."""
    training = node.input("training_mode")
    constant = training and training.const_or_none()
    if training is None:
        return False
    return None if constant is None else bool(constant)


def narrow_types(node: Node, op: Builder) -> Result:
    """Below opset 22, Dropout has fewer types: 8-bit floats and `ratio` are cast to float."""
    data, ratio = node["data"], node.input("ratio")
    if ratio is not None:
        constant = ratio.const_or_none()
        ratio = op.Cast(ratio, to=T.FLOAT) if constant is None else op.const(constant, T.FLOAT)
    kind = data.elem_type
    if kind not in FLOAT8:
        return op.same(node, inputs={"ratio": ratio}, outputs=node.n_outputs)
    inputs = {"data": op.Cast(data, to=T.FLOAT), "ratio": ratio}
    values = op.same(node, inputs=inputs, outputs=node.n_outputs)
    return op.Cast(values[0], to=kind, saturate=0), *values[1:]


TYPES_22 = boundary(22, "Dropout:b67e2d", cast=narrow_types)

BFLOAT16_13 = boundary(13, "Dropout:03e4f9")


def dropped(op: Builder, x: Value, ratio: Value, seed: int | None) -> tuple[Value, Value]:
    """Writes Dropout in training: x * scale * mask; the mask is true with probability 1 - ratio."""
    kind, known = x.elem_type, ratio.const_or_none()
    draws: dict[str, Any] = {} if seed is None else {"seed": float(seed)}
    draw = op.RandomUniformLike(x, dtype=T.FLOAT, **draws)
    mask = ~(draw < as_type(op, ratio, T.FLOAT))
    wide = T.DOUBLE if kind == T.DOUBLE else T.FLOAT
    if known is None:
        constant = op.const(1.0, wide)
        scale = constant / (constant - as_type(op, ratio, wide))
    else:
        share = float(known.item())
        if not 0 <= share < 1:
            raise InvalidModel(f"Dropout has the ratio {share:g}; give a ratio from 0 to below 1")
        scale = op.const(1 / (1 - share), wide)
    y = as_type(op, x, wide) * op.Cast(mask, to=wide) * scale
    return as_type(op, y, kind), mask


@adapter("Dropout", 12, 11, ignores={"seed": "only training draws random numbers"})
def dropout_12_11(node: Node, op: Builder) -> Result:
    """Below opset 12, Dropout only copies; training becomes a product with a random mask."""
    x, ratio, training = node["data"], node.input("ratio"), trains(node)
    if training is False:
        constant = ratio and ratio.const_or_none()
        moved = {"ratio": None, "training_mode": None}
        share = None if constant is None else float(constant)
        (y,) = op.same(node, inputs=moved, outputs=1, seed=None, ratio=share)
        if mask_of(node) is None:
            return (y,)
        return y, op.ConstantOfShape(op.Shape(x), value=np.array([True]))
    half = op.const(0.5, T.FLOAT)
    y, mask = dropped(op, x, half if ratio is None else ratio, node.attr("seed"))
    if training is None:
        switch = node["training_mode"]
        return op.Where(switch, y, x), mask | ~switch
    return y, mask


@adapter("Dropout", 11, 12)
def dropout_11_12(node: Node, op: Builder) -> Result:
    """Opset 12 made `ratio` an input of Dropout; it was an attribute."""
    if not node.has("ratio"):
        return KEEP
    inputs = {"ratio": op.const(node.float("ratio"), T.FLOAT)}
    return op.same(node, inputs=inputs, ratio=None)


@adapter("Dropout", 10, 9, handles_types=True)
def dropout_10_9(node: Node, op: Builder) -> Result:
    """Below opset 10, the mask of Dropout has the type of the data; it is cast to bool."""
    if mask_of(node) is None:
        return op.same(node, outputs=1)
    y, mask = op.same(node, outputs=2)
    return y, op.Cast(mask, to=T.BOOL)


@adapter("Dropout", 9, 10, handles_types=True)
def dropout_9_10(node: Node, op: Builder) -> Result:
    """Opset 10 made the mask of Dropout bool; it is cast to the type of the data, as before."""
    if mask_of(node) is None:
        return op.same(node, outputs=1)
    y, mask = op.same(node, outputs=2)
    return y, op.Cast(mask, to=node["data"].elem_type)


@adapter("Dropout", 7, 6)
def dropout_7_6(node: Node, op: Builder) -> Result:
    """Below opset 7, Dropout needs is_test=1 to copy its input; its mask is written as all true."""
    x = node["data"]
    (y,) = op.same(node, outputs=1, is_test=1)
    if mask_of(node) is None:
        return (y,)
    true = op.Cast(x, to=T.BOOL)
    return y, op.Cast(true | ~true, to=x.elem_type)


@adapter("Dropout", 6, 7)
def dropout_6_7(node: Node, op: Builder) -> Result:
    """From opset 7 on, Dropout only copies; is_test=0 becomes a product with a random mask."""
    mask, x = mask_of(node), node["data"]
    if node.int("is_test"):
        if mask is not None:
            raise Refusal(Why.AMBIGUOUS, "no specification defines the mask if is_test is 1")
        return op.same(node, outputs=1, is_test=None)
    y, kept = dropped(op, x, op.const(node.float("ratio"), T.FLOAT), None)
    return y, op.Cast(kept, to=x.elem_type)


CONSUMED_6 = boundary(6, "Dropout:e07e17", up=drop_attribute("consumed_inputs"))


@in_other_words("Dropout")
def kept_elements(node: Node, op: Builder) -> Result:
    """Outside of training, Dropout is written as Identity, unless its mask is read."""
    if mask_of(node) is not None or (op.version >= 12 and trains(node) is not False):
        return KEEP
    return op.Identity(node["data"])
