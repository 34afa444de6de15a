"""The laws on random graphs, and on those that broke one once."""

from __future__ import annotations

from pathlib import Path

import effort  # noqa: F401 - sets how many graphs are tried
import laws
import onnx
import pytest
from graphs import NEWEST, models
from hypothesis import given
from hypothesis import strategies as st

CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.onnx"))
targets = st.integers(1, NEWEST)


def own(model):
    return next(e.version for e in model.opset_import if e.domain == "")


@given(models())
def test_what_is_made_up_is_legal(model):
    laws.legal(model)
    assert laws.same_numbers(model, model) is None


@given(models(), targets)
def test_equal_numbers(model, to):
    laws.equal_numbers(model, to)


@given(models())
def test_identity(model):
    laws.identity(model, own(model))


@given(models(), targets)
def test_there_and_back(model, to):
    laws.there_and_back(model, own(model), to)


@given(models(), targets, targets)
def test_by_way_of_any_version(model, between, to):
    low, high = sorted((own(model), to))
    if low < between < high:
        laws.by_way_of(model, between, to)


@given(models(), targets)
def test_deterministic(model, to):
    laws.deterministic(model, to)


@given(models(), targets)
def test_the_plan_is_what_happens(model, to):
    laws.forecast(model, to)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_broke_a_law_once(path):
    model = onnx.load(path)
    laws.identity(model, own(model))
    for to in range(1, NEWEST + 1):
        laws.equal_numbers(model, to)
        laws.there_and_back(model, own(model), to)
        laws.deterministic(model, to)
        laws.forecast(model, to)
