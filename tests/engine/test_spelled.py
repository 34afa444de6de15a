# SPDX-License-Identifier: Apache-2.0
"""The operators that an adapter may write are read from its code."""

from __future__ import annotations

import functools

import pytest
from opshift import AdapterBug, convert_version
from opshift.adapter import Builder, Node, Result, Value, adapter, boundary
from opshift.author import emitted
from opshift.author.spelled import operators
from opshift.author.verdicts import CastNarrowed
from opshift.combinators import cast_around
from text_models import model, ops

ML = "ai.onnx.ml"
TURNED = {"Sin": "Cos", "Tan": "Atan"}


def calls(node: Node, op: Builder) -> Result:
    return op.Relu(op.Exp(node["x"]))


def later_forms(node: Node, op: Builder) -> Result:
    x = node["x"]
    cut = op.Slice(x, op.const([0]), op.const([1]))
    return op.Clip(op.Unsqueeze(cut, axes=[0]), min=op.const(0, like=x))


def early_forms(node: Node, op: Builder) -> Result:
    return op.Clip(op.Slice(node["x"], starts=[0], ends=[1]), min=0.0)


def kinds_of_attributes(node: Node, op: Builder) -> Result:
    return op.Cast(node["x"], to=7)


def starred(node: Node, op: Builder) -> Result:
    bounds = [op.const([0]), op.const([1])]
    return op.Max(op.Slice(node["x"], *bounds), op.Sum(*node.inputs))


def formula(node: Node, op: Builder) -> Result:
    x = node["x"]
    return (-x + 0.5) / x // 2 - x % 3


def conditions(node: Node, op: Builder) -> Result:
    x, y = node.inputs
    return (x < y) & ~(x > 1) | (y > 0)


def numbers(node: Node, op: Builder) -> Result:
    x, total = node["x"], 0
    axis = node.int("axis") % x.rank - 1
    for at, size in enumerate(x.shape):
        total += size * at if size < 3 else -size
    kinds = {x.elem_type} | {1} - {2}
    return op.Relu(x) if axis < total / 2 and kinds else op.Exp(x)


def sums_of_a_list(node: Node, op: Builder) -> Result:
    total: Value = op.const(0)
    for one, times in zip(node.inputs, range(3), strict=False):
        total = total + one if times < 2 else total
    return total


def compares_names(node: Node, op: Builder) -> Result:
    source = node["x"].producer
    if source is not None and source.op in ("Shape", "Size") and node.op == "Sin":
        return op.Neg(node["x"])
    return op.Abs(node["x"])


def named(node: Node, op: Builder) -> Result:
    return op.emit(TURNED[node.op], _helped(op, "Floor", node["x"]))


def _helped(op: Builder, name: str, x: Value) -> Value:
    made: Value = op.emit(name, x)
    return made


def elsewhere(node: Node, op: Builder) -> Result:
    return op.emit("Scaler", node["x"], domain=ML)


def chosen(node: Node, op: Builder) -> Result:
    reduce = op.ReduceMin if node.op == "Less" else op.ReduceMax
    return reduce(node["x"], op.const([0]))


def folded(node: Node, op: Builder) -> Result:
    return functools.reduce(op.Mul, [node["x"]] * 3)


def inside(node: Node, op: Builder) -> Result:
    def body(b: Builder, x: Value) -> Value:
        return b.Tanh(x) - 1

    return op.If(node["x"], then_branch=op.graph(body, node["x"]), else_branch=op.graph(lambda b: b.Ceil(node["x"])))  # fmt: skip


@adapter("Erf", 9, 8)
def other(node: Node, op: Builder) -> Result:
    """A test's adapter."""
    return op.Softplus(node["input"])


def by_another(node: Node, op: Builder) -> Result:
    return other(node, op)


def once_more(node: Node, op: Builder, depth: int = 0) -> Result:
    return op.Sqrt(node["x"]) if depth else once_more(node, op, depth + 1)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (calls, "Relu Exp"),
        (later_forms, "Slice-10 Unsqueeze Clip-11"),
        (early_forms, "Clip Slice"),
        (kinds_of_attributes, "Cast-6"),
        (starred, "Slice-10 Max Sum"),
        (formula, "Neg Add Div Floor Sub Mod"),
        (conditions, "Less Greater And Or Not"),
        (numbers, "Relu Exp"),
        (sums_of_a_list, "Add"),
        (compares_names, "Neg Abs"),
        (named, "Cos Atan Sin Tan Floor"),
        (elsewhere, "ai.onnx.ml.Scaler"),
        (chosen, "ReduceMin-20 ReduceMax-20"),
        (folded, "Mul-14"),
        (inside, "If Tanh Sub Ceil"),
        (by_another, "Softplus"),
        (once_more, "Sqrt"),
        (functools.partial(once_more, depth=1), "Sqrt"),
    ],
)
def test_what_the_code_of_a_function_spells(function, found):
    assert operators(function) - {"Identity"} == set(found.split())


def test_a_combinator_spells_what_it_was_given():
    (_, down) = boundary(13, "Exp", cast=cast_around("float"))
    assert isinstance(down.verdict, CastNarrowed)
    assert down.emits == {"Cast"}


def test_what_is_declared_counts_alone():
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Relu(node["x"])

    assert adapter("Erf", 9, 8)(run).emits == {"Relu"}
    assert adapter("Erf", 9, 8, emits="Tanh")(run).emits == {"Tanh"}
    assert adapter("Erf", 9, 8, emits=())(run).emits == set()


def test_an_adapter_without_declarations_converts(with_adapters):
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Slice(-node["input"], op.const([0]), op.const([2]))

    with_adapters(adapter("Erf", 9, 8)(run))
    after = convert_version(model("(float[2,3] x) => (float[2,3] y) { y = Erf(x) }", 9), 7)
    assert ops(after) == "Neg Slice"


def test_a_name_that_the_code_hides_is_a_bug_that_says_so(with_adapters):
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.emit("".join(["Re", "lu"]), node["input"])

    with_adapters(adapter("Erf", 9, 8)(run))
    with pytest.raises(AdapterBug, match=r"writes Relu, which its code does not spell; .* emits="):
        convert_version(model("(float[2,3] x) => (float[2,3] y) { y = Erf(x) }", 9), 8)


def test_the_table_has_a_row_for_each_adapter_that_declares_nothing():
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Relu(node["x"])

    silent, loud = adapter("Erf", 9, 8)(run), adapter("Tan", 9, 8, emits="Exp")(run)
    assert emitted.table([silent, loud, boundary(13, "Exp")[0]]) == ":Erf:9:8 Relu\n"
