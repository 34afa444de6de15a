"""Planning: cheapest paths, dead ends before anything is touched, and a truthful rehearsal."""

from __future__ import annotations

import itertools
import json

import pytest
from conftest import model
from opshift import Refused, Why, convert_version, plan
from opshift.adapter import Builder, Node, Result, adapter, impossible
from opshift.author import registry
from opshift.convert.look import rehearse
from opshift.convert.look.rehearse import implementations, path_of
from opshift.opsets import schemas
from opshift.report import Report


def test_a_plan_touches_nothing():
    before = model("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }")
    text = before.SerializeToString()
    plan(before, 13)
    assert before.SerializeToString() == text


def test_a_plan_says_what_each_boundary_rewrites():
    found = plan(model("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }"), 13)
    assert found.possible
    (step,) = [s for s in found.steps if s.rewritten]
    (work,) = step.rewritten
    assert (step.start, step.to, work.op, work.count) == (12, 13, "Softmax", 1)
    assert work.gives == ("Flatten", "Softmax", "Shape", "Reshape")
    (path,) = found.paths
    assert [(h.start, h.to, h.verdict) for h in path.hops] == [(12, 13, "rewrite")]
    assert "Softmax x1 becomes Flatten Softmax Shape Reshape" in str(found)


def test_a_dead_end_is_in_the_path_and_in_the_answer():
    found = plan(model("(string[3] x) => (string[3] y) { y = StringNormalizer(x) }", 13), 9)
    (path,) = found.paths
    assert path.dead_end is not None
    assert path.dead_end.startswith("StringNormalizer 10->9: ")
    assert not found.possible
    assert found.nearest == {"": 10}
    assert found.lowest == {"": 10}
    assert found.refusals[0].boundary == (10, 9)
    assert "DEAD END" in str(found)
    assert "not possible; nearest is ai.onnx 10" in str(found)


def test_the_forecast_is_what_happens():
    made = model("(double[2] x) => (double[2] z) { y = Erf(x) z = Erf(y) }", 13)
    forecast = plan(made, 8)
    with pytest.raises(Refused) as caught:
        convert_version(made, 8)
    assert caught.value.refusals == forecast.refusals
    assert caught.value.nearest == forecast.nearest
    assert [r.why for r in forecast.refusals] == [Why.APPROXIMATE_ONLY] * 2


def test_both_directions_are_explored():
    found = plan(model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13), 12)
    assert found.lowest == {"": 1}
    assert found.highest[""] >= 22


def test_json_is_versioned_and_whole():
    raw = json.loads(plan(model("(double[2] x) => (double[2] y) { y = Erf(x) }", 13), 8).to_json())
    assert (raw["schema_version"], raw["kind"], raw["possible"]) == (1, "plan", False)
    assert raw["refusals"][0]["why"] == "APPROXIMATE_ONLY"


def test_a_report_round_trips_through_json():
    from opshift.convert.api import Options, convert
    from opshift.model import weights

    made = model("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }")
    report = convert(lambda: weights.carve_model(made), Options(13))[2]
    assert Report.from_json(report.to_json()) == report
    with pytest.raises(ValueError, match="not a report of schema version 1"):
        Report.from_json('{"kind": "plan", "schema_version": 1}')


def test_the_cheapest_path_wins(with_adapters):
    def cheap(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Neg(node["X"])

    with_adapters(adapter("Gelu", 20, 19, emits=("Selu", "Neg"))(cheap))
    graph = implementations("", 20, 5)
    import networkx as nx

    ways = list(graph.successors(("", "Gelu", 20)))
    assert set(ways) == {("", "Selu", 6), ("", "Neg", 13)}
    path = path_of("", "Gelu", 20, 5)
    best = min(
        sum(graph.edges[a, b]["cost"] for a, b in itertools.pairwise(w))
        for w in nx.all_simple_paths(graph, ("", "Gelu", 20), ("", "nowhere", 0))
    )
    assert path.dead_end is None
    assert sum(_cost(graph, "Gelu", path)) == best


def _cost(graph, op, path):
    nodes = __import__("networkx").shortest_path(
        graph, ("", op, 20), ("", "nowhere", 0), weight="cost"
    )
    return [graph.edges[a, b]["cost"] for a, b in itertools.pairwise(nodes)]


def test_an_approximate_way_costs_more_than_any_exact_one(with_adapters):
    def rough(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Neg(node["X"])

    with_adapters(adapter("Gelu", 20, 19, emits=("Neg",), approximate=True)(rough))
    graph = implementations("", 20, 19)
    assert graph.edges[("", "Gelu", 20), ("", "Neg", 13)]["cost"] > 10_000


def test_impossible_is_no_edge(with_adapters):
    with_adapters(impossible("Gelu", 20, 19, "it is a test", cases=[]))
    assert path_of("", "Gelu", 20, 19).dead_end == "Gelu 20->19: it is a test"


def test_refusals_name_the_node_of_the_model(with_adapters):
    def through_erf(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return op.Neg(op.Erf(node["X"]))

    with_adapters(adapter("Gelu", 20, 19, emits=("Neg", "Erf"))(through_erf))
    made = model("(double[2] x) => (double[2] y) { y = Gelu(x) }", 20)
    made.graph.node[0].name = "act"
    with pytest.raises(Refused) as caught:
        convert_version(made, 8)
    assert caught.value.refusals[0].node.endswith("(written for Gelu 'act')")


def test_registry_default_is_the_installed_packages():
    assert len(registry.default()) > 100


@pytest.mark.parametrize("target", [9, 5, 1])
def test_what_stops_the_way_to_the_target_is_not_looked_for_twice(monkeypatch, target):
    ways = []
    rehearsal = rehearse.rehearse
    monkeypatch.setattr(rehearse, "rehearse", lambda *given: ways.append(1) or rehearsal(*given))
    made = model("(string[3] x) => (string[3] y) { y = StringNormalizer(x) }", 13)
    found = plan(made, target)
    assert len(ways) == 2  # the way to the target, which is the way down, and the way up
    assert found.lowest == {"": 10}
    assert found.highest == {"": schemas.latest("")}


def test_a_way_that_ends_well_is_gone_on():
    found = plan(model("(string[3] x) => (string[3] y) { y = StringNormalizer(x) }", 13), 12)
    assert found.possible
    assert found.lowest == {"": 10}


def test_how_far_is_not_asked_beyond_what_grows_large(monkeypatch):
    monkeypatch.setattr("opshift.convert.look.rehearse.NODE_BUDGET", 3)
    before = model("(float[2,3] x) => (float[2,3] y) { y = Gelu(x) }", opset=20)
    found = plan(before, 20)
    assert (found.lowest, found.highest, found.outgrown) == (
        {"": 20},
        {"": schemas.latest("")},
        ("",),
    )
    assert "nobody looked" in str(found)
    assert plan(before, 19).possible  # what is asked for is looked at to its end
