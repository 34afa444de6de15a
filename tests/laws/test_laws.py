# SPDX-License-Identifier: Apache-2.0
"""The laws on random graphs, and on graphs that broke a law in the past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import effort  # noqa: F401 - sets how many graphs are tried
import laws
import onnx
import pytest
from extras import with_references
from graphs import NEWEST, NEWEST_ML, models
from hypothesis import event, given
from hypothesis import strategies as st
from opshift import convert_version
from opshift.convert.request import Request

CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*.onnx"))
NEWEST_OF = {"": NEWEST, "ai.onnx.ml": NEWEST_ML}


def own(model):
    """Returns the versions of the model in the domains with several versions."""
    return {e.domain: e.version for e in model.opset_import if e.domain in NEWEST_OF}


@st.composite
def tasks(draw: Any) -> tuple[onnx.ModelProto, dict[str, int]]:
    """Draws a model, and versions of some of its domains."""
    model = draw(models())
    wanted = draw(st.lists(st.sampled_from(sorted(own(model))), min_size=1, unique=True))
    return model, {domain: draw(st.integers(1, NEWEST_OF[domain])) for domain in wanted}


@st.composite
def referring(draw: Any) -> tuple[onnx.ModelProto, dict[str, int]]:
    """Draws a model with names of values outside of nodes, and versions of its domains."""
    model = draw(with_references(models()))
    return model, {d: draw(st.integers(1, NEWEST_OF[d])) for d in own(model)}


@given(models())
def test_what_is_made_up_is_legal(model):
    laws.legal(model)
    assert laws.same_numbers(model, model) is None


@given(tasks())
def test_equal_numbers(task):
    laws.equal_numbers(*task)


@given(models(), st.integers(7, NEWEST))
def test_onnxruntime_computes_equal_numbers(model, to):
    event(f"onnxruntime runs both: {laws.runtime_agrees(model, {'': to})}")


@given(models())
def test_identity(model):
    laws.identity(model, own(model))


@given(tasks())
def test_there_and_back(task):
    model, to = task
    laws.there_and_back(model, own(model), to)


@given(tasks())
def test_names_in_the_graphs_of_nodes_do_not_count(task):
    laws.names_do_not_count(*task)


@given(tasks(), st.randoms(use_true_random=False))
def test_by_way_of_any_version(task, random):
    model, to = task
    start = own(model)
    between = {d: random.randint(*sorted((start[d], version))) for d, version in to.items()}
    laws.by_way_of(model, between, to)


IRS, STOPS = st.integers(3, min(11, onnx.IR_VERSION)), st.integers(1, NEWEST)


@given(tasks(), IRS, STOPS)
def test_any_path(task, ir, stop):
    laws.any_path(*task, ir, stop)


@given(referring(), IRS, STOPS)
def test_any_path_of_what_is_trained(task, ir, stop):
    laws.any_path(*task, ir, stop)


@given(tasks())
def test_deterministic(task):
    laws.deterministic(*task)


RUNTIMES = (
    "onnxruntime==1.4", "onnxruntime==1.10", "onnxruntime==1.16", "onnxruntime==1.23",
    "openvino==2022.1", "openvino==2023.0", "tensorrt==8.6", "opencv==4.5.5", "onnx==1.9",
)  # fmt: skip


@st.composite
def requests(draw: Any) -> Request:
    """An opset, perhaps with an IR version, or a runtime."""
    if draw(st.booleans()):
        ir = draw(st.sampled_from(["auto", "auto", "keep", 4, 5, 6, 7, 8, 9, 10]))
        return Request.of(draw(st.integers(1, NEWEST)), ir_version=ir)
    return Request.of(draw(st.sampled_from(RUNTIMES)))


@given(st.lists(st.tuples(models(), requests()), min_size=1, max_size=3))
def test_the_models_before_change_no_answer(tasks):
    laws.one_answer(tasks)


@given(tasks())
def test_the_plan_is_what_happens(task):
    laws.forecast(*task)


@given(referring())
def test_nothing_dangles(task):
    laws.nothing_dangles(*task)


@given(referring())
def test_training_counts(task):
    laws.training_counts(*task)


@given(referring(), st.randoms(use_true_random=False))
def test_models_that_are_trained_go_through_every_law(task, random):
    """A weight that training sets is not a constant, so such a model may be refused at a version."""
    model, to = task
    start = own(model)
    between = {d: random.randint(*sorted((start[d], version))) for d, version in to.items()}
    laws.identity(model, start)
    laws.forecast(model, to)
    if laws.converts(model, to) and laws.converts(model, between):
        laws.equal_numbers(model, to)
        laws.deterministic(model, to)
        laws.training_counts(model, to)
        laws.bindings_survive(model, to)
        if laws.converts(convert_version(model, between), to):
            laws.by_way_of(model, between, to)
        if laws.converts(convert_version(model, to), start):
            laws.there_and_back(model, start, to)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_broke_a_law_once(path):
    model = onnx.load(path)
    start = own(model)
    laws.identity(model, start)
    for domain in start:
        for version in range(1, NEWEST_OF[domain] + 1):
            to = {domain: version}
            laws.names_do_not_count(model, to)
            laws.equal_numbers(model, to)
            laws.there_and_back(model, start, to)
            laws.deterministic(model, to)
            laws.forecast(model, to)
