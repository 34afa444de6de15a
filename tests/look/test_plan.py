# SPDX-License-Identifier: Apache-2.0
"""Planning: the cheapest paths, dead ends before any change, and agreement with conversions."""

from __future__ import annotations

import functools
import json
import os
import pickle
import random
import subprocess
import sys

import pytest
from newest_onnx import IS_OLDER
from opshift import (
    AdapterBug,
    InvalidModel,
    Refused,
    Why,
    convert_version,
    lowest_versions,
    plan,
    plugins,
)
from opshift.adapter import Builder, Node, Result, adapter, impossible
from opshift.author import registry
from opshift.convert import plan_table, planner
from opshift.look import paths
from opshift.look.rehearse import Rehearsals
from opshift.model.document import Document
from opshift.opsets import schemas
from opshift.report import Report
from opshift.testing import example_model, example_target
from opshift.text import plain
from text_models import model

import examples
from tools.author import generated


def test_a_plan_touches_nothing():
    before = model("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }")
    text = before.SerializeToString()
    plan(before, 13)
    assert before.SerializeToString() == text


def test_a_plan_says_what_each_boundary_rewrites():
    planned = plan(model("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }"), 13)
    assert planned.possible
    (step,) = [s for s in planned.steps if s.rewritten]
    (work,) = step.rewritten
    assert (step.start, step.to, work.op, work.count) == (12, 13, "Softmax", 1)
    assert work.gives == ("Flatten", "Softmax", "Shape", "Reshape")
    (path,) = planned.paths
    assert [(h.start, h.to, h.verdict) for h in path.hops] == [(12, 13, "rewrite")]
    assert "opset 12 -> 13  Softmax x1: Flatten Softmax Shape Reshape" in str(planned)


def test_only_what_changes_is_printed_and_more_with_v():
    text = """(float[2,3,4] x, float[2,3,4] b) => (float[2,3,4] y)
        { s = Softmax(x) t = Add(s, b) y = Concat<axis = 0>(t) }"""
    planned = plan(model(text), 13)
    assert {path.op for path in planned.paths if path.hops} == {"Add", "Concat", "Softmax"}
    short, whole = str(planned), plain(planned.lines(), more=True)
    assert short.splitlines()[0] == "Possible: opset 12 -> 13, IR 8 -> 7."
    assert ["Softmax", "1", "12->13", "rewrite"] in [line.split() for line in whole.splitlines()]
    assert "12->13 rewrite" not in short  # the line of the step says it
    assert short.count("Softmax x1") == 1
    assert "unchanged: 2 nodes of 2 operators" in short
    assert "compatible" not in short
    assert "    Add x1: 12->13 compatible" in whole.splitlines()


def test_a_verdict_that_found_nothing_to_do_is_not_printed_as_a_change():
    planned = plan(model("(float[2] x) => (float[2] y) { y = Concat<axis = 0>(x) }"), 10)
    assert [hop.verdict for path in planned.paths for hop in path.hops] == ["rewrite"]
    assert str(planned).splitlines()[1] == "  unchanged: 1 node of 1 operator"


def test_a_dead_end_is_in_the_path_and_in_the_answer():
    planned = plan(model("(string[3] x) => (string[3] y) { y = StringNormalizer(x) }", 13), 9)
    (path,) = planned.paths
    assert path.dead_end is not None
    assert path.dead_end.startswith("StringNormalizer 10->9: ")
    assert not planned.possible
    assert planned.nearest == {"": 10}
    assert planned.lowest == {"": 10}
    assert planned.refusals[0].boundary == (10, 9)
    assert str(planned).count("StringNormalizer 'y' 10->9") == 1
    assert "no path: StringNormalizer 10->9" in plain(planned.lines(), more=True)
    assert str(planned).startswith(
        "Not possible: opset 9. 1 node blocks it. Opset 10 is the lowest"
    )


def test_the_forecast_is_what_happens():
    proto = model("(double[2] x) => (double[2] z) { y = Erf(x) z = Erf(y) }", 13)
    forecast = plan(proto, 8)
    with pytest.raises(Refused) as caught:
        convert_version(proto, 8)
    assert caught.value.refusals == forecast.refusals
    assert caught.value.nearest == forecast.nearest
    assert [r.why for r in forecast.refusals] == [Why.APPROXIMATE_ONLY] * 2


def test_both_directions_are_explored():
    planned = plan(model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13), 12)
    assert planned.lowest == {"": 1}
    assert planned.highest[""] >= 22


def test_json_is_versioned_and_whole():
    raw = json.loads(plan(model("(double[2] x) => (double[2] y) { y = Erf(x) }", 13), 8).to_json())
    assert (raw["schema_version"], raw["kind"], raw["possible"]) == (1, "plan", False)
    assert raw["refusals"][0]["why"] == "APPROXIMATE_ONLY"


def test_a_report_round_trips_through_json():
    from opshift.convert.cheapest_strategy import convert
    from opshift.convert.request import Request
    from opshift.model import weights

    proto = model("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }")
    report = convert(lambda: weights.carve_model(proto), Request(13))[2]
    assert Report.from_json(report.to_json()) == report
    with pytest.raises(ValueError, match="not a report of schema version 1"):
        Report.from_json('{"kind": "plan", "schema_version": 1}')


def test_a_verdict_leads_to_all_that_it_may_write(with_adapters):
    def both(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Neg(op.Selu(node["X"]))

    with_adapters(adapter("Gelu", 20, 19, emits=("Selu", "Neg"))(both))
    found = planner.CrossingPlan(registry.default())
    found.follow("", ["Gelu"], 20, 5)
    edge = found.edges["", "Gelu", 20, 19]
    assert edge.writes == ("Neg", "Selu")
    assert {op for _, op, *_ in found.edges} >= {"Gelu", "Neg", "Selu"}


def test_an_impossible_verdict_is_a_dead_end(with_adapters):
    with_adapters(impossible("Gelu", 20, 19, "it is a test", cases=[]))
    of_registry = functools.partial(paths.dead_end, registry.default(), ("", "Gelu"))
    assert of_registry((20, 19)) == "Gelu 20->19: it is a test"
    assert of_registry((20, 20)) is None


def test_a_dead_end_names_the_operators_that_lead_to_it(with_adapters):
    def onward(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Celu(node["X"])

    with_adapters(
        adapter("Gelu", 20, 19, emits="Celu")(onward),
        impossible("Celu", 12, 11, "it is a test", cases=[]),
    )
    dead = planner.CrossingPlan(registry.default()).dead_end("", "Gelu", 20, 9)
    assert dead is not None
    assert (dead.trail, dead.edge.start, dead.edge.to) == (("Gelu", "Celu"), 12, 11)
    document = Document(model("(float[2] x) => (float[2] y) { y = Gelu(x) }", 20))
    assert planner.of_document(document, registry.default(), {"": 9}).dead == [dead]
    assert planner.of_document(document, registry.default(), {"": 12}).dead == []


@pytest.mark.skipif(IS_OLDER, reason="the table is written with the newest onnx")
def test_the_table_is_what_the_planner_computes():
    found = plugins.data("opshift.convert", plan_table.TABLE).decode()
    ((_, table),) = generated.generators("plans").items()
    assert found == generated.headed("plans", table()), "run `python -m tools.author update plans`"


def test_without_the_table_and_the_graph_library_nothing_converts(monkeypatch):
    proto = model("(float[2] x) => (float[2] y) { y = Gelu(x) }", 20)
    branch = registry.default().branch()  # one that has solved nothing so far
    monkeypatch.setattr(registry, "default", lambda: branch)
    monkeypatch.setattr(plan_table, "_table", dict)
    convert_version(proto, 19)
    fresh = branch.branch()
    monkeypatch.setattr(registry, "default", lambda: fresh)
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError):
        convert_version(proto, 19)


def test_the_table_needs_no_graph_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    fresh = registry.default().branch()
    monkeypatch.setattr(registry, "default", lambda: fresh)
    assert convert_version(model("(float[2] x) => (float[2] y) { y = Gelu(x) }", 20), 7)


def test_a_step_without_a_planned_edge_is_a_bug(monkeypatch):
    monkeypatch.setattr(planner.CrossingPlan, "follow", lambda *given: None)
    with pytest.raises(AdapterBug, match="the plan does not contain"):
        convert_version(model("(float[2] x) => (float[2] y) { y = Gelu(x) }", 20), 19)


def test_an_implementation_that_the_installed_onnx_lacks_is_refused():
    since = [schema.since for schema in schemas.history("", "Attention")]
    if since[-1:] == [25] or (schemas.latest("") or 0) < 25:
        pytest.skip("the installed onnx has every implementation up to its newest opset")
    text = "(float[1,2,3,4] q) => (float[1,2,3,4] y) { y = Attention(q, q, q) }"
    with pytest.raises(Refused) as refused:
        convert_version(model(text, 24), 25)
    assert [refusal.why for refusal in refused.value.refusals] == [Why.UNREVIEWED]
    assert plan(model(text, 24), 23).possible


def sampled_examples():
    cases = [case for case in examples.cases() if not examples.too_new(case)]
    chosen = random.Random(0).sample(cases, min(30, len(cases)))
    return [(case.adapter, case.example) for case in chosen]


def test_a_node_that_is_refused_where_it_stands_is_not_called_unchanged():
    own = "(float[2,3] x, float[3] s) => (float[2,3] y, float[2,1] d)"
    two = f"{own} {{ y, d = SimplifiedLayerNormalization(x, s) }}"
    planned = plan(model(two, 13), 12)
    assert not planned.possible
    (path,) = planned.paths
    assert "needs data and scale, and has one output" in path.dead_end
    assert "unchanged" not in str(planned)


@pytest.mark.parametrize(("verdict", "example"), sampled_examples())
def test_a_plan_never_contradicts_itself(verdict, example):
    """Compares parts of a plan with each other, on examples of all adapters."""
    try:
        planned = plan(example_model(verdict, example), example_target(verdict, example))
    except InvalidModel:
        return
    dead = [path.op for path in planned.paths if path.dead_end]
    assert not (planned.possible and dead)
    blocked = {refusal.op for refusal in planned.refusals if refusal.boundary[0]}
    operators = {path.op for path in planned.paths}
    assert not (blocked & operators) or dead


def test_a_plan_does_not_depend_on_hashing(tmp_path):
    script = """import opshift
from onnx import parser
text = '<ir_version: 9, opset_import: ["": 20]> g (float[4] x) => (float[4] y) { y = Gelu(x) }'
print(opshift.plan(parser.parse_model(text), 7))"""
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(found) == 1


def test_refusals_name_the_node_of_the_model(with_adapters):
    def through_erf(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Neg(op.Erf(node["X"]))

    with_adapters(adapter("Gelu", 20, 19, emits=("Neg", "Erf"))(through_erf))
    proto = model("(double[2] x) => (double[2] y) { y = Gelu(x) }", 20)
    proto.graph.node[0].name = "act"
    with pytest.raises(Refused) as caught:
        convert_version(proto, 8)
    assert caught.value.refusals[0].node.endswith("(written for Gelu 'act')")


def test_registry_default_is_the_installed_packages():
    assert len(registry.default()) > 100


@pytest.mark.parametrize("target", [9, 5, 1])
def test_what_stops_the_way_to_the_target_is_not_looked_for_twice(monkeypatch, target):
    ways = []
    rehearsal = Rehearsals.rehearse
    monkeypatch.setattr(Rehearsals, "rehearse", lambda *one: ways.append(1) or rehearsal(*one))
    proto = model("(string[3] x) => (string[3] y) { y = StringNormalizer(x) }", 13)
    planned = plan(proto, target)
    assert len(ways) == 2  # the way to the target, which is the way down, and the way up
    assert planned.lowest == {"": 10}
    assert planned.highest == {"": schemas.latest("")}


@pytest.mark.parametrize("target", [1, schemas.latest("")])
def test_a_target_at_the_end_of_the_way_is_not_converted_to_twice(monkeypatch, target):
    ways = []
    rehearsal = Rehearsals.rehearse
    monkeypatch.setattr(Rehearsals, "rehearse", lambda *one: ways.append(1) or rehearsal(*one))
    planned = plan(model("(float[2] x) => (float[2] y) { y = Gelu(x) }", 20), target)
    assert planned.possible
    assert len(ways) == 2  # the way to the target, which is one of the ends, and the other way
    assert (planned.lowest, planned.highest) == ({"": 1}, {"": schemas.latest("")})


def test_a_way_that_ends_well_is_gone_on():
    planned = plan(model("(string[3] x) => (string[3] y) { y = StringNormalizer(x) }", 13), 12)
    assert planned.possible
    assert planned.lowest == {"": 10}


def test_how_far_is_not_asked_beyond_what_grows_large(monkeypatch):
    monkeypatch.setattr("opshift.look.rehearse.NODE_BUDGET", 3)
    before = model("(float[2,3] x) => (float[2,3] y) { y = Gelu(x) }", opset=20)
    planned = plan(before, 20)
    assert (planned.lowest, planned.highest, planned.outgrown) == (
        {"": 20},
        {"": schemas.latest("")},
        ("",),
    )
    assert "tried no other version" in str(planned)
    assert plan(before, 19).possible  # what is asked for is looked at to its end


def test_a_large_model_that_does_not_grow_is_followed_to_the_end(monkeypatch):
    monkeypatch.setattr("opshift.look.rehearse.NODE_BUDGET", 3)
    chain = "".join(f"v{i + 1} = Softmax<axis=1>(v{i}) " for i in range(8))
    planned = plan(model(f"(float[2,3] v0) => (float[2,3] v8) {{ {chain} }}", opset=12), 13)
    assert planned.steps[0].rewritten
    assert (planned.highest, planned.outgrown) == ({"": schemas.latest("")}, ())


def test_a_refusal_names_the_dead_ends_of_the_plan():
    """The dead ends are found before the conversion, and are part of the refusal."""
    text = "(string[2] x) => (string[2,K] y, int64[2] n) { y, n = StringSplit(x) }"
    with pytest.raises(Refused) as refused:
        convert_version(model(text, 20), 18)
    assert refused.value.dead_ends == ("StringSplit 20->19",)
    assert pickle.loads(pickle.dumps(refused.value)).dead_ends == refused.value.dead_ends
    shown = plain(refused.value.lines(), more=True)
    assert "The plan has no route for StringSplit 20->19." in shown
    with pytest.raises(Refused) as other:  # the plan knows a way, which this node cannot go
        convert_version(model("(double[2] x) => (double[2] y) { y = Erf(x) }", 13), 8)
    assert other.value.dead_ends == ()


def test_a_dead_end_in_words_names_the_operators_that_lead_to_it():
    edge = plan_table.Edge(9, 8, "impossible", False, ())
    assert (
        planner.DeadEnd("", "Gelu", ("Gelu", "Erf"), edge).described
        == "Gelu, which becomes Erf 9->8"
    )
    assert (
        planner.DeadEnd("ai.onnx.ml", "Scaler", ("Scaler",), edge).described
        == "ai.onnx.ml.Scaler 9->8"
    )


def test_a_fault_that_only_another_version_meets_is_no_fault_of_the_plan():
    """Min without its first input is invalid, but only its rewrite below opset 12 fails."""
    proto = model('(int64[2] a) => (int64[2] y) { y = Min("") }', 12)
    planned = plan(proto, 13)
    assert planned.possible
    assert (planned.lowest, planned.highest[""] > 13) == ({"": 12}, True)
    assert lowest_versions(proto)[""].lowest == 12
    with pytest.raises(InvalidModel, match="input 0 is omitted"):
        plan(proto, 11)


def test_a_plan_for_the_header_alone_applies_the_rules_of_its_conversion():
    """Such a conversion reads no node, and so refuses none."""
    proto = model("(float[2] x) => (float[2] y) { y = Dropout<ratio = 0.5>(x) }", 10, ir=4)
    proto.graph.node[0].input[0] = "nowhere"
    assert convert_version(proto, ir_version=5).ir_version == 5
    assert plan(proto, ir_version=5).possible
    with pytest.raises(InvalidModel) as planned:
        plan(proto, 11, ir_version=5)
    with pytest.raises(InvalidModel) as converted:
        convert_version(proto, 11, ir_version=5)
    assert str(planned.value) == str(converted.value)


@pytest.mark.parametrize("to", [20, 18, 13])
@pytest.mark.skipif((schemas.latest("") or 0) < 21, reason="this onnx has no opset 21")
def test_a_plan_names_the_lowest_version_that_one_conversion_reaches(to):
    """From opset 18, facts about the whole model would allow a lower version."""
    proto = model(
        "(float[N,4,5,6] x) => (float[N,4,5,6] y) <float[4] w = {1, 2, 3, 4}, float[4] b = {1, 2, 3, 4}>"
        " { y = GroupNormalization<num_groups=2>(x, w, b) }",
        21,
    )
    planned = plan(proto, to)
    assert planned.lowest[""] == lowest_versions(proto)[""].lowest
    assert convert_version(proto, planned.lowest[""])
    with pytest.raises(Refused):
        convert_version(proto, planned.lowest[""] - 1)
