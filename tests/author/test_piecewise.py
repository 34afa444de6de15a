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
    found = []
    for one in by_graph(proto):
        for kind in one.own.values():
            for dim in kind.tensor_type.shape.dim if kind is not None else ():
                if "unk__" in dim.dim_param:
                    dim.ClearField("dim_param")
        found.append({name: str(kind) for name, kind in one.own.items()})
    return found


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


@pytest.mark.usefixtures("always_in_pieces")
def test_unknown_lengths_of_two_pieces_have_different_symbols() -> None:
    parts = "".join(
        f"n{i} = NonZero(x) y{i} = If(c) <then_branch = t{i} () => (t{i}) {{ t{i} = Neg(x) }},"
        f" else_branch = e{i} () => (e{i}) {{ e{i} = Abs(x) }}> "
        for i in range(20)
    )
    proto = model(f"(float[N] x, bool c) => (float[N] y19) {{ {parts} }}", 13)
    found = {
        info.name: info
        for info in piecewise.infer(ModelBytes(proto.SerializeToString())).graph.value_info
    }
    lengths = [found[f"n{i}"].type.tensor_type.shape.dim[1].dim_param for i in range(20)]
    assert len({*lengths} - {""}) == 20


@pytest.mark.usefixtures("always_in_pieces")
def test_strict_inference_rejects_a_fault_in_any_piece() -> None:
    made = FAMILIES["nodes with graphs"](30)
    made.graph.node[random.Random(1).randrange(30)].attribute[0].g.node[0].attribute[0].i = 9
    with pytest.raises(InferenceError, match="axis"):
        piecewise.infer(ModelBytes(made.SerializeToString()), strict=True)
    assert check(made).fails(strict=False)


@pytest.mark.parametrize("family", SLOW)
def test_a_large_model_is_inferred_in_pieces(family: str) -> None:
    assert piecewise.is_slow(ModelBytes(FAMILIES[family](1200).SerializeToString())) == (
        family != SLOW[-1]
    )
    assert not piecewise.is_slow(ModelBytes(FAMILIES[family](50).SerializeToString()))


def test_what_a_caller_may_replace_is_no_constant_of_a_piece() -> None:
    made = FAMILIES["weights and inputs"](5)
    piece = piecewise._Types(made, "opshift_").piece(range(3))
    assert {tensor.name for tensor in piece.graph.initializer} == {"w0", "w1", "w2"}
    assert {value.name for value in piece.graph.input} == {"x", "w0", "w1", "w2"}
