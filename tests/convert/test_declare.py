# SPDX-License-Identifier: Apache-2.0
"""Below opset 11, a result declares the ranks that its source proves and that inference loses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import opshift
import pytest
from onnx import ModelProto, TensorProto, TypeProto, helper, numpy_helper, shape_inference
from opshift.author import registry
from opshift.convert import declare
from opshift.opsets import schemas
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


# --- which ranks are asked for --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "version", "position"),
    [
        ("Reshape", 9, 1),
        ("MaxUnpool", 9, 2),
        ("ReduceSum", 9, None),  # the last input is no list of lengths
        ("ConstantOfShape", 9, None),  # inference finds the rank
        ("Constant", 9, None),
        ("MeanVarianceNormalization", 9, declare.NO_INFERENCE),
        ("Gelu", 9, None),  # the opset has no such operator
    ],
)
def test_the_input_that_determines_the_rank(op: str, version: int, position: int | None) -> None:
    assert declare._needed(op, version, registry.default()) == position


@pytest.mark.parametrize(
    ("nodes", "lost"),
    [
        ("y = Reshape(x, s)", ["y"]),
        ("y = Reshape(x, given)", []),
        ("k = Constant<value_ints=[6]>() y = Reshape(x, k)", []),
        ("k = Relu(s) y = Reshape(x, k) z = Reshape(y, s)", ["y", "z"]),
        ("y = MaxUnpool<kernel_shape=[1]>(x, i)", []),
        ("y = MaxUnpool<kernel_shape=[1]>(x, i, s)", ["y"]),
        ("y = MeanVarianceNormalization(x)", ["y"]),
        ("y = MeanVarianceNormalization(fixed)", ["y"]),
        ("y = acme.Reshape(x, s)", []),
    ],
)
def test_which_ranks_inference_loses(nodes: str, lost: list[str]) -> None:
    proto = model(
        f"(float[N] x, int64[M] s, int64[N] i) => (float[K] y)"
        f" <int64[1] given = {{6}}, float[1] fixed = {{1}}> {{ {nodes} }}",
        9,
        more=', "acme": 1',
    )
    assert [*declare._without_rank(proto.graph, 9, registry.default())] == lost


LOST = "(float[N] x, int64[M] s) => (float y) { r = Reshape(x, s) y = ReduceSum(r) }"


def tensor(kind: int = TensorProto.FLOAT, shape: tuple[int, ...] | None = (2, 3)) -> TypeProto:
    return helper.make_tensor_type_proto(kind, shape)


@pytest.mark.parametrize(
    ("kind", "declares"),
    [(tensor(), True), (tensor(0), False), (tensor(shape=None), False), (None, False)],
)
@pytest.mark.parametrize("version", [5, 6, 10, 11])
def test_a_rank_is_declared_with_its_type(
    kind: TypeProto | None, version: int, declares: bool
) -> None:
    graph = model(LOST, version).graph
    declares &= version in (6, 10)
    declare.ranks(graph, version, registry.default(), lambda name: kind)
    assert {value.name: rank_of(value.type) for value in graph.value_info} == (
        {"r": 2} if declares else {}
    )


@pytest.mark.parametrize("field", ["output", "value_info"])
def test_a_declared_value_is_not_declared_again(field: str) -> None:
    graph = model(LOST, 9).graph
    getattr(graph, field).add(name="r")
    before = graph.SerializeToString()
    declare.ranks(graph, 9, registry.default(), lambda name: tensor())
    assert graph.SerializeToString() == before


def test_nothing_is_declared_if_no_rank_is_lost() -> None:
    graph = model("(float[N] x) => (float[N] y) { y = Neg(x) }", 9).graph
    declare.ranks(graph, 9, registry.default(), lambda name: tensor())
    assert not graph.value_info


# --- operators without inference ------------------------------------------------------------------

KINDS = {
    "a": tensor(), "b": tensor(), "c": tensor(), "d": tensor(0), "f": tensor(), "y": tensor(),
}  # fmt: skip


def test_the_outputs_of_operators_without_inference_get_their_types() -> None:
    parts = [
        f"{name} = MeanVarianceNormalization(x)" for name in ("a", "b", "c", "d", "e", "y")
    ] + ["f = Neg(x)", "g = acme.Own(x)"]
    proto = model(
        f"(float[2,3] x) => (float[2,3] y) {{ {' '.join(parts)} }}", 9, more=', "acme": 1'
    )
    proto.graph.node[0].output.append("")
    scope = SimpleNamespace(
        proto=proto.graph,
        removed={2},
        root=SimpleNamespace(
            schema_of=lambda node: None if node.domain else schemas.schema("", node.op_type, 9)
        ),
    )
    asked: list[str] = []
    facts: Any = SimpleNamespace(
        type=lambda scope, name: (asked.append(name), KINDS.get(name))[1],
        is_unconfirmed=lambda scope, name: name == "b",
        document=SimpleNamespace(
            roots=[
                SimpleNamespace(kind="graph", scopes=[scope]),
                SimpleNamespace(kind="function", scopes=[None]),
            ]
        ),
    )
    declare.untyped(facts)
    assert ranks(proto) == {"a": 2, "b": None}
    assert all(value.type.tensor_type.elem_type for value in proto.graph.value_info)
    assert asked == ["a", "b", "d", "e"]
