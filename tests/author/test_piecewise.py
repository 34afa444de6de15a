# SPDX-License-Identifier: Apache-2.0
"""Inference in pieces finds the types that inference of the whole model finds."""

from __future__ import annotations

import random

import pytest
from growth_families import FAMILIES
from onnx import ModelProto
from opshift import check
from opshift.author import piecewise
from opshift.author.model_bytes import ModelBytes
from opshift.author.scope_types import by_graph
from opshift.protos.shape_inference import InferenceError
from text_models import model

SLOW = (
    "nodes with graphs",
    "nodes with loops",
    "functions beside each other",
    "calls of one function",
)


@pytest.fixture
def always_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piecewise, "MOST_COPIES", 0)
    monkeypatch.setattr(piecewise, "SMALL", 0)
    monkeypatch.setattr(piecewise, "PIECE", 3)


def types(proto: ModelProto) -> list[dict[str, str]]:
    """The types by graph, without the names that inference gives to unknown lengths."""
    texts = []
    for graph in by_graph(proto):
        for kind in graph.own.values():
            for dim in kind.tensor_type.shape.dim if kind is not None else ():
                if "unk__" in dim.dim_param:
                    dim.ClearField("dim_param")
        texts.append({name: str(kind) for name, kind in graph.own.items()})
    return texts


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {"functions in a circle"}))
@pytest.mark.parametrize("data_prop", [False, True])
def test_pieces_have_the_types_of_the_whole(
    family: str, data_prop: bool, request: pytest.FixtureRequest
) -> None:
    data = FAMILIES[family](40).SerializeToString()
    whole = piecewise.infer(ModelBytes(data), data_prop=data_prop)
    request.getfixturevalue("always_in_pieces")
    pieces = piecewise.infer(ModelBytes(data), data_prop=data_prop)
    assert types(pieces) == types(whole)
    assert [n.SerializeToString() for n in pieces.graph.node if not n.attribute] == [
        n.SerializeToString() for n in whole.graph.node if not n.attribute
    ]
    assert sorted(info.name for info in pieces.graph.value_info) == sorted(
        info.name for info in whole.graph.value_info
    )


@pytest.mark.usefixtures("always_in_pieces")
@pytest.mark.parametrize("declared", [False, True])
def test_each_value_has_its_type_once(declared: bool) -> None:
    proto = FAMILIES["nodes with graphs"](10)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    if declared:
        proto.graph.value_info.add(name="v2").type.tensor_type.elem_type = 1
    graph = piecewise.infer(ModelBytes(proto.SerializeToString())).graph
    assert sorted(info.name for info in graph.value_info) == [f"v{i}" for i in range(1, 10)]
    for info in (*graph.value_info, *graph.output):
        assert [dim.dim_value for dim in info.type.tensor_type.shape.dim] == [2, 3], info.name


@pytest.mark.usefixtures("always_in_pieces")
def test_unknown_lengths_of_two_pieces_have_different_symbols() -> None:
    parts = "".join(
        f"n{i} = NonZero(x) y{i} = If(c) <then_branch = t{i} () => (t{i}) {{ t{i} = Neg(x) }},"
        f" else_branch = e{i} () => (e{i}) {{ e{i} = Abs(x) }}> "
        for i in range(20)
    )
    proto = model(f"(float[N] x, bool c) => (float[N] y19) {{ {parts} }}", 13)
    inferred = {
        info.name: info.type.tensor_type.shape.dim
        for info in piecewise.infer(ModelBytes(proto.SerializeToString())).graph.value_info
    }
    lengths = [inferred[f"n{i}"][1].dim_param for i in range(20)]
    assert len({*lengths} - {""}) == 20
    assert {inferred[f"n{i}"][0].dim_value for i in range(20)} == {1}


@pytest.mark.usefixtures("always_in_pieces")
def test_strict_inference_rejects_a_fault_in_any_piece() -> None:
    proto = FAMILIES["nodes with graphs"](30)
    proto.graph.node[random.Random(1).randrange(30)].attribute[0].g.node[0].attribute[0].i = 9
    with pytest.raises(InferenceError, match="axis"):
        piecewise.infer(ModelBytes(proto.SerializeToString()), strict=True)
    assert check(proto).fails(strict=False)


@pytest.mark.parametrize("family", SLOW)
def test_a_large_model_is_inferred_in_pieces(family: str) -> None:
    assert piecewise.is_slow(ModelBytes(FAMILIES[family](1200).SerializeToString())) == (
        family != SLOW[-1]
    )
    assert not piecewise.is_slow(ModelBytes(FAMILIES[family](50).SerializeToString()))


@pytest.mark.parametrize(
    ("family", "size", "copies"),
    [
        # two graphs in each of four nodes, which read two inputs and one initializer
        ("nodes with graphs", 4, 8 * (4 + 2 + 1)),
        ("functions beside each other", 5, 5 * 5),
        ("calls of one function", 5, 5),
        # the function has two inputs, and the model has one call of one function
        ("conditions in a function", 4, 8 * (4 + 2)),
    ],
)
def test_the_limit_is_the_number_of_copied_types_and_functions(
    family: str, size: int, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = FAMILIES[family](size)
    if family == "nodes with graphs":
        proto.graph.initializer.add(name="w", data_type=1)
    data = proto.SerializeToString()
    for limit, size_limit, slow in (
        (copies - 1, len(data), True),
        (copies - 1, len(data) + 1, False),
        (copies, len(data), False),
    ):
        monkeypatch.setattr(piecewise, "MOST_COPIES", limit)
        monkeypatch.setattr(piecewise, "SMALL", size_limit)
        assert piecewise.is_slow(ModelBytes(data)) == slow


@pytest.mark.parametrize("family", sorted({*FAMILIES} - {"functions in a circle"}))
def test_only_a_slow_model_is_cut_and_no_piece_is_slow(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inferred: list[bytes] = []
    infer_shapes = piecewise.infer_shapes

    def noted(model: ModelProto | bytes, **options: bool) -> ModelProto:
        inferred.append(model if isinstance(model, bytes) else model.SerializeToString())
        return infer_shapes(model, **options)

    monkeypatch.setattr(piecewise, "infer_shapes", noted)
    for name, limit in {"MOST_COPIES": 60, "SMALL": 0, "PIECE": 3}.items():
        monkeypatch.setattr(piecewise, name, limit)
    data = FAMILIES[family](20).SerializeToString()
    slow = piecewise.is_slow(ModelBytes(data))
    piecewise.infer(ModelBytes(data))
    if not slow:
        assert inferred == [data]
    elif "nested" not in family and family != "nodes of one branch":  # a single node is one piece
        assert len(inferred) > 1
        assert not any(piecewise.is_slow(ModelBytes(piece)) for piece in inferred)


@pytest.mark.parametrize("family", [*SLOW, "nodes in a chain"])
def test_the_pieces_follow_each_other_and_are_as_small_as_the_limit(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piecewise, "PIECE", 6)
    weight = {"nodes with graphs": 2, "nodes in a chain": 0}.get(family, 1)
    parts = [*piecewise._Types(FAMILIES[family](20), "opshift_").parts()]
    assert [position for part in parts for position in part] == [*range(20)]
    length = 6 // weight if weight else 20
    assert {len(part) for part in parts[:-1]} <= {length}
    assert 0 < len(parts[-1]) <= length


def test_a_piece_has_the_values_from_outside_as_inputs() -> None:
    proto = FAMILIES["nodes in a chain"](6)
    piece = piecewise._Types(proto, "opshift_").piece(range(2, 5))
    assert [value.name for value in piece.graph.input] == ["v2"]


def test_what_a_caller_may_replace_is_no_constant_of_a_piece() -> None:
    proto = FAMILIES["weights and inputs"](5)
    piece = piecewise._Types(proto, "opshift_").piece(range(3))
    assert {tensor.name for tensor in piece.graph.initializer} == {"w0", "w1", "w2"}
    assert {value.name for value in piece.graph.input} == {"x", "w0", "w1", "w2"}
