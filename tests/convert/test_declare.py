# SPDX-License-Identifier: Apache-2.0
"""Below opset 11, a result declares the ranks that its source proves and that inference loses."""

from __future__ import annotations

from typing import Any

import numpy as np
import opshift
import pytest
from onnx import ModelProto, TensorProto, TypeProto, helper, numpy_helper, shape_inference
from opshift.opsets.types import rank_of
from opshift.verify import oracle
from text_models import model

NORMAL = "y = LayerNormalization<axis=-1>({}, scale)"
FEEDS = {
    "x": np.arange(12, dtype=np.float32).reshape(3, 4),
    "s": np.array([2, 3, 2], np.int64),
    "from": np.array([2], np.int64),
}
SOURCES = {  # the values whose ranks are declared, the result, and nodes that compute them
    "a reshape": (["r"], "y[A,B,C]", "r = Reshape(x, s) " + NORMAL.format("r")),
    "a slice": (["c"], "y[A,B]", "c = Slice(x, from, end, one) " + NORMAL.format("c")),
    "a slice behind a reshape": (
        ["c", "r"],
        "y[A,B,C]",
        "r = Reshape(x, s) t = Transpose<perm=[2,0,1]>(r) c = Slice(t, from, end, one)"
        " z = ReduceMean(c) n = LayerNormalization<axis=-1>(r, scale) y = Add(n, z)",
    ),
    "a computed shape": (["r"], "y[A,B,C]", "k = Abs(s) r = Reshape(x, k) y = Gelu(r)"),
    "a known shape": ([], "y[A,B,C]", "k = Constant<value_ints=[2,3,2]>() r = Reshape(x, k) " + NORMAL.format("r")),
    "an unknown length": ([], "y[A,B,C]", "k = NonZero(s) q = Squeeze(k, nought) r = Reshape(x, q) y = Gelu(r)"),
    "a result": ([], "y[A,B,C]", "n = Gelu(x) y = Reshape(n, s)"),
    "no reshape": ([], "y[A,B]", "a = Add(x, x) y = Gelu(a)"),
}  # fmt: skip
LISTS = (
    "<float[2] scale = {1.0, 2.0}, int64[1] end = {99}, int64[1] one = {1}, int64[1] nought = {0}>"
)


def source(name: str) -> ModelProto:
    _, result, nodes = SOURCES[name]
    shape = result.removeprefix("y")
    inputs = "(float[N,M] x, int64[3] s, int64[1] from)"
    return model(f"{inputs} => (float{shape} y) {LISTS} {{ {nodes} }}", 20)


def ranks(proto: ModelProto) -> dict[str, int | None]:
    return {value.name: rank_of(value.type) for value in proto.graph.value_info}


def converted(proto: ModelProto, to: int) -> ModelProto:
    return opshift.convert(proto, to).model


@pytest.mark.parametrize("to", [9, 10])
@pytest.mark.parametrize("name", SOURCES)
def test_each_declared_rank_is_that_of_the_value(name: str, to: int) -> None:
    result = converted(source(name), to)
    wanted = [one for one in SOURCES[name][0] if to == 9 or one != "c"]  # opset 10 has Slice
    told = ranks(result)
    assert sorted(told) == wanted
    shown = ModelProto()
    shown.CopyFrom(result)
    del shown.graph.output[:]
    shown.graph.output.extend(result.graph.value_info)
    del shown.graph.value_info[:]
    for value in shown.graph.output:
        value.type.tensor_type.ClearField("shape")
    values: list[Any] = oracle.evaluate(shown, FEEDS) if wanted else []
    assert {one.name: v.ndim for one, v in zip(shown.graph.output, values, strict=True)} == told


@pytest.mark.parametrize("name", SOURCES)
def test_only_what_inference_does_not_find_is_declared(name: str) -> None:
    result = converted(source(name), 9)
    told = ranks(result)
    del result.graph.value_info[:]
    inferred: dict[str, TypeProto] = {
        value.name: value.type for value in shape_inference.infer_shapes(result).graph.value_info
    }
    assert [one for one in told if rank_of(inferred.get(one)) is not None] == []


@pytest.mark.parametrize("to", [11, 13])
@pytest.mark.parametrize("name", SOURCES)
def test_no_rank_is_declared_where_axes_may_be_negative(name: str, to: int) -> None:
    assert ranks(converted(source(name), to)) == {}


def test_no_length_is_declared() -> None:
    result = converted(source("a reshape"), 9)
    (value,) = result.graph.value_info
    assert [dim.WhichOneof("value") for dim in value.type.tensor_type.shape.dim] == [None] * 3


def test_a_type_below_the_lowest_inference_keeps_its_lengths() -> None:
    proto = model("(float[2,6] x) => (float[6,2] y) { r = Reshape<shape=[6,2]>(x) y = Neg(r) }", 1)
    proto.opset_import[0].version = 5
    proto.graph.node[0].ClearField("attribute")
    proto.graph.node[0].input.append("s")
    proto.graph.initializer.append(numpy_helper.from_array(np.array([6, 2]), "s"))
    (value,) = converted(proto, 4).graph.value_info
    assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [6, 2]


def test_a_rank_that_is_only_declared_proves_nothing() -> None:
    given = source("an unknown length")
    given.graph.node.insert(3, helper.make_node("Reshape", ["r", "q"], ["behind"]))
    given.graph.node[-1].input[0] = "behind"
    value = given.graph.value_info.add(name="q")
    value.type.tensor_type.elem_type = TensorProto.INT64
    value.type.tensor_type.shape.dim.add().dim_value = 3
    assert list(ranks(converted(given, 9))) == ["q"]
