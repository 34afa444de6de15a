# SPDX-License-Identifier: Apache-2.0
"""The advisories name existing adapters, and use all known data of a conversion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import opshift
import pytest
from opshift import release, testing
from opshift.advisories import Advisory, Affected, Evidence, advisories
from opshift.author import registry
from opshift.opsets import schemas, targets
from opshift.opsets.identity import normal

CHANGES = Path(__file__).parents[1] / "changes"
MINE = Advisory("a", "It was wrong.", "Always.", "0.1.0", "0.3.0.dev1", ("ai.onnx.Clip-12-11",))
MADE = Evidence("0.2.0", {"": 9}, {"": 13}, ("ai.onnx.Clip-12-11",), "", ("Clip",))


@pytest.mark.parametrize("advisory", advisories(), ids=lambda one: one.id)
def test_an_advisory_names_what_exists(advisory):
    for text in (advisory.wrong, advisory.condition):
        assert text.endswith("."), text
    assert release.order(advisory.since) < release.order(advisory.fixed)
    assert release.order(advisory.fixed) <= release.order(release.VERSION)
    assert advisory.adapters or (advisory.operators and advisory.runtimes)
    for adapter in advisory.adapters:
        operator = adapter.partition("-")[0]
        domain, _, op = operator.rpartition(".")
        numbers = adapter.rpartition(".")[2].split("-")[1:]
        found = registry.default().get(normal(domain), op, *map(int, numbers))
        assert found
        assert found.identity(op) == adapter
    for name, listed in advisory.runtimes.items():
        ends = [end for word in listed.split(",") for end in word.strip().split("..")]
        for end in ends:
            assert targets.find(f"{name}=={end}").name == name


def test_no_advisory_is_about_this_build():
    for advisory in advisories():
        assert advisory.judge(Evidence(release.BUILD, {"": 9})) is Affected.NO


def test_each_note_about_a_wrong_result_has_its_advisory():
    topics = {path.name.removeprefix("+").split(".")[0] for path in CHANGES.glob("*.wrong.md")}
    assert topics <= {advisory.id for advisory in advisories()}


@pytest.mark.parametrize(
    ("made", "answer"),
    [
        (MADE, Affected.YES),
        (replace(MADE, release="0.3.0.dev0+gabc"), Affected.YES),
        (replace(MADE, release="0.3.0.dev1+gabc"), Affected.NO),
        (replace(MADE, release="0.3.0"), Affected.NO),
        (replace(MADE, release=""), Affected.MAYBE),
        (replace(MADE, adapters=()), Affected.NO),
        (replace(MADE, adapters=None), Affected.MAYBE),
        (replace(MADE, adapters=None, source={"": 11}), Affected.NO),
        (replace(MADE, adapters=None, source={"": 12}), Affected.MAYBE),
        (replace(MADE, adapters=None, result={"": 12}), Affected.NO),
        (replace(MADE, adapters=None, source=None), Affected.MAYBE),
        (replace(MADE, adapters=None, source=None, result={"": 12}), Affected.NO),
    ],
)
def test_an_adapter_is_crossed_between_the_versions(made, answer):
    assert MINE.judge(made) is answer


@pytest.mark.parametrize(
    ("made", "answer"),
    [
        (replace(MADE, runtime="onnxruntime==1.10"), Affected.YES),
        (replace(MADE, runtime="onnxruntime==1.10.0:cuda"), Affected.YES),
        (replace(MADE, runtime="onnxruntime==1.12"), Affected.NO),
        (replace(MADE, runtime="onnxruntime"), Affected.MAYBE),
        (replace(MADE, runtime="openvino==1.10"), Affected.NO),
        (replace(MADE, runtime=""), Affected.NO),
        (replace(MADE, runtime=None), Affected.MAYBE),
        (replace(MADE, runtime="onnxruntime==1.10", operators=("Relu",)), Affected.NO),
        (replace(MADE, runtime="onnxruntime==1.10", operators=None), Affected.MAYBE),
        (replace(MADE, runtime="onnxruntime==1.10", result={"": 13}), Affected.NO),
    ],
)
def test_a_kept_operator_is_wrong_for_some_releases(made, answer):
    kept = replace(
        MINE, adapters=(), operators=("Clip",), versions={"": (7, 12)},
        runtimes={"onnxruntime": "1.8..1.10, 1.14"},
    )  # fmt: skip
    assert kept.judge(made) is answer


@pytest.mark.parametrize(
    ("made", "answer"),
    [
        (replace(MADE, adapters=None), Affected.MAYBE),
        (replace(MADE, adapters=None, operators=None), Affected.MAYBE),
        (replace(MADE, adapters=None, operators=("Relu",)), Affected.NO),
        (replace(MADE, operators=("Relu",)), Affected.YES),
    ],
)
def test_a_result_without_the_operators_of_an_adapter_did_not_cross_it(made, answer):
    assert replace(MINE, operators=("Clip",)).judge(made) is answer


@pytest.mark.parametrize(
    "advisory",
    [advisory for advisory in advisories() if advisory.adapters and advisory.operators],
    ids=lambda one: one.id,
)
def test_the_adapters_of_an_advisory_write_its_operators(advisory):
    """If the result of an example has none of them, its value is known at conversion time."""
    compared = 0
    for adapter, example in testing.examples("opshift_adapters"):
        names = {adapter.identity(op) for op in adapter.ops if op in example.graph}
        readable = max(adapter.start, adapter.to) <= (schemas.latest(adapter.domain) or 0)
        if not (names & {*advisory.adapters} and readable) or example.refuses or example.invalid:
            continue
        before = testing.example_model(adapter, example)
        target = testing.example_target(adapter, example)
        after = opshift.convert_version(before, target, **example.options)
        found = {*opshift.info(after).operators}
        written = found - {*opshift.info(before).operators, "Identity"}
        assert not written or found & {*advisory.operators}, example.title
        compared += bool(written)
    assert compared


def test_a_step_up_and_another_form_are_crossed_too():
    up = replace(MINE, adapters=("ai.onnx.ml.LabelEncoder-1-2",))
    for source, result, answer in (
        (1, 2, Affected.MAYBE),
        (1, 1, Affected.NO),
        (2, 3, Affected.NO),
    ):
        made = Evidence("0.2.0", {"ai.onnx.ml": result}, {"ai.onnx.ml": source})
        assert up.judge(made) is answer
    left = Evidence("0.2.0", {"": 13}, {"": 13, "ai.onnx.ml": 1})
    assert up.judge(left) is Affected.MAYBE
    assert up.judge(replace(left, source={"": 13})) is Affected.NO
    form = replace(MINE, adapters=("ai.onnx.Resize-form",))
    assert form.judge(replace(MADE, adapters=None)) is Affected.MAYBE


@pytest.mark.parametrize(
    ("sparse", "answer"), [(True, Affected.YES), (False, Affected.NO), (None, Affected.MAYBE)]
)
def test_an_advisory_about_sparse_initializers_needs_one_in_the_model(sparse, answer):
    assert replace(MINE, sparse=True).judge(replace(MADE, sparse=sparse)) is answer
    assert MINE.judge(replace(MADE, sparse=sparse)) is Affected.YES
