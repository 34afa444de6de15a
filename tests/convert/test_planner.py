# SPDX-License-Identifier: Apache-2.0
"""The plan of a conversion: which changes it contains, and where it ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from opshift.author import registry
from opshift.author.verdicts import ALTERNATIVE, FORM, LEAVE, RETIRED
from opshift.convert import planner
from opshift.convert.plan_table import MISSING, Edge
from opshift.convert.planner import CrossingPlan, DeadEnd
from opshift.convert.verdict_edges import edge_at
from opshift.errors import AdapterBug
from opshift.model.document import Document
from opshift.opsets import schemas
from text_models import model

ADAPTERS = registry.default()
GELU, RELU = ("", "Gelu"), ("", "Relu")


@pytest.fixture(autouse=True)
def no_known_routes(monkeypatch):
    monkeypatch.setattr(ADAPTERS, "routes", {})


def edge(start: int, to: int, *writes: str, verdict: str = "rewrite") -> Edge:
    return Edge(start, to, verdict, False, writes)


# --- one operator ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "version", "goal", "entry"),
    [
        ("Relu", 13, 9, 13),
        ("Gelu", 13, 21, 20),  # newer than the import
        ("Gelu", 13, 20, 20),
        ("Gelu", 13, 19, 13),
        ("Gelu", 20, 13, 20),
        ("Unknown", 13, 20, 13),
    ],
)
def test_an_operator_is_planned_from_the_import_or_its_first_version(op, version, goal, entry):
    assert planner._entry("", op, version, goal) == entry


@pytest.mark.parametrize(
    ("one", "goal", "before"),
    [
        (edge(9, 10), 10, True),
        (edge(9, 10), 11, True),
        (edge(9, 10), 9, False),
        (edge(10, 9), 9, True),
        (edge(10, 9), 8, True),
        (edge(10, 9), 10, False),
    ],
)
def test_a_change_lies_before_the_target(one, goal, before):
    assert planner._lies_before(one, goal) is before


@pytest.mark.parametrize(
    ("key", "version", "lacks"),
    [
        (GELU, 20, False),
        (GELU, 19, True),
        (GELU, 1, True),
        (GELU, 0, False),  # the place of rewrites at one version
        (("", "Unknown"), 13, False),
        (("com.acme", "Run"), 1, False),
    ],
)
def test_which_versions_onnx_lacks(key, version, lacks):
    assert planner._lacks(key, version) is lacks


def test_a_dead_end_names_the_way_to_it():
    dead = DeadEnd("", "Gelu", ("Gelu", "Erf"), edge(9, 8))
    assert (str(dead), dead.described) == ("Erf 9->8", "Gelu, which becomes Erf 9->8")
    assert DeadEnd("", "Erf", ("Erf",), edge(9, 8)).described == "Erf 9->8"


# --- one plan -------------------------------------------------------------------------------------


def test_a_change_that_is_not_planned_is_a_bug():
    plan = CrossingPlan(ADAPTERS)
    with pytest.raises(AdapterBug, match=r"does not contain ai\.onnx 20->19 for Gelu"):
        plan.verdict(GELU, (20, 19))
    assert plan.verdict(("", "Gelu"), (19, 18)) is None  # no installed schema needs it
    plan.edges[(*GELU, 20, 19)] = edge(20, 19, verdict=MISSING)
    assert plan.verdict(GELU, (20, 19)) is None
    plan.edges[(*GELU, 20, 19)] = edge(20, 19)
    assert plan.verdict(GELU, (20, 19)) is ADAPTERS.get("", "Gelu", 20, 19)
    assert plan.edge(GELU, (20, 19)).to == 19
    plan.edges[(*GELU, 19, 18)] = edge(19, 18)
    assert plan.verdict(GELU, (19, 18)) is ADAPTERS.get("", "Gelu", 19, 18)


def test_a_plan_leads_to_all_operators_that_it_may_write():
    plan = CrossingPlan(ADAPTERS, present=frozenset({RELU}))
    plan.edges[(*GELU, 20, 19)] = edge(20, 19, "Erf", "com.acme.Run")
    plan.unforeseen.add((("", "Tanh"), 13))
    engine = {("", op) for op in planner.ENGINE_WRITES}
    assert plan.leads_to() == {RELU, ("", "Erf"), ("com.acme", "Run"), ("", "Tanh")} | engine


def test_an_operator_that_an_adapter_wrote_is_planned_to_the_target():
    plan = CrossingPlan(ADAPTERS, {"": 18})
    plan.extend(GELU, 20)
    assert (*GELU, 20, 19) in plan.edges
    assert plan.unforeseen == {(GELU, 20)}
    plan = CrossingPlan(ADAPTERS)
    plan.extend(GELU, 20)  # without a target
    assert (*GELU, 20, 19) not in plan.edges


OPS = ["Gelu", "Celu", "Softmax", "Resize", "Einsum", "Det", "Upsample", "LayerNormalization",
       "Loop", "Trilu", "Relu", "SequenceAt", "STFT", "Mod", "StringNormalizer", "Cos"]  # fmt: skip


@pytest.mark.parametrize("goal", [1, 7, 13, 20])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("version", [9, 20])
def test_a_route_is_closed_and_ends_at_the_target(op, version, goal):
    """Each operator that a planned change may write also has a plan up to the target."""
    route = planner.route_of(ADAPTERS, "", op, version, goal)
    low, high = sorted((planner._entry("", op, version, goal), goal))
    for (domain, name, start, to), one in route.items():
        assert (domain, start, to) == ("", one.start, one.to)
        assert low <= min(start, to) < max(start, to) <= high
        for written in (*one.within(""), *planner.ENGINE_WRITES):
            here = schemas.schema("", written, to)
            following = here and planner.edge_of(ADAPTERS, "", written, here.since, down=goal < to)
            if following is not None and planner._lies_before(following, goal):
                assert ("", written, following.start, following.to) in route, (name, written)
    entry = planner._entry("", op, version, goal)
    here = schemas.schema("", op, entry)
    first = here and planner.edge_of(ADAPTERS, "", op, here.since, down=goal < entry)
    begins = first is not None and planner._lies_before(first, goal)
    assert (op in {name for _, name, _, _ in route}) is begins
    assert planner.route_of(ADAPTERS, "", op, version, goal) is route


@pytest.mark.parametrize("goal", [1, 7, 13])
@pytest.mark.parametrize("op", OPS)
def test_a_dead_end_is_a_dead_change_of_the_route(op, goal):
    plan = CrossingPlan(ADAPTERS)
    route = planner.route_of(ADAPTERS, "", op, 20, goal)
    found = plan.dead_end("", op, 20, goal)
    if not any(one.dead for one in route.values()):
        assert found is None
    if found is not None:
        assert (found.op, found.trail[0]) == (op, op)
        assert found.edge.dead
        assert route["", found.trail[-1], found.edge.start, found.edge.to] is found.edge
        assert found.edge.to >= goal


@pytest.mark.parametrize(
    ("op", "version", "goal", "dead"),
    [
        ("StringNormalizer", 20, 9, True),
        ("StringNormalizer", 20, 10, False),
        ("Cos", 20, 6, True),
        ("Cos", 20, 7, False),
        ("Cos", 6, 5, False),  # no such operator
        ("Gelu", 20, 9, False),
        ("Relu", 9, 20, False),
        ("Unknown", 20, 9, False),
    ],
)
def test_operators_that_no_earlier_opset_expresses(op, version, goal, dead):
    found = CrossingPlan(ADAPTERS).dead_end("", op, version, goal)
    assert (found is not None) is dead


def chained(*edges: Edge) -> dict[tuple[str, int], Edge]:
    return {(name, one.start): one for name, one in zip(("Gelu", "Erf", "Erf"), edges, strict=True)}


@pytest.mark.parametrize(
    ("op", "version", "goal", "edges", "trail"),
    [
        ("Gelu", 20, 5, (Edge(20, 19, "x", False, ("Erf",), 8), Edge(13, 12, "x", False, ("Erf",), 8),
                         Edge(9, 8, MISSING, False, (), 9)), "Gelu, which becomes Erf 9->8"),
        ("Gelu", 20, 8, (Edge(20, 19, "x", False, ("Erf",), 8), Edge(13, 12, "x", False, ("Erf",), 8),
                         Edge(9, 8, MISSING, False, (), 9)), None),
        ("Gelu", 20, 7, (Edge(20, 19, "x", False, ("Erf",), 8), Edge(13, 12, "x", False, (), 8),
                         Edge(9, 8, MISSING, False, (), 9)), None),
        ("Erf", 9, 20, (Edge(20, 21, "x", False, ("Erf",), 8), Edge(13, 14, MISSING, False, (), 13),
                        Edge(9, 13, "x", False, ("Gelu", "Erf"), 13)), "Erf 13->14"),
        ("Erf", 9, 13, (Edge(20, 21, "x", False, ("Erf",), 8), Edge(13, 14, MISSING, False, (), 13),
                        Edge(9, 13, "x", False, ("Gelu", "Erf"), 13)), None),
    ],
)  # fmt: skip
def test_a_dead_end_may_be_behind_other_operators(op, version, goal, edges, trail, monkeypatch):
    table = chained(*edges)
    monkeypatch.setattr(
        planner, "edge_of", lambda adapters, domain, op, since, *, down: table.get((op, since))
    )
    found = CrossingPlan(ADAPTERS).dead_end("", op, version, goal)
    assert (found.described if found else None) == trail


# --- a whole model --------------------------------------------------------------------------------


def planned(text: str, opset: int, goal: dict[str, int], *, left=(), more="") -> CrossingPlan:
    return planner.of_document(Document(model(text, opset, more=more)), ADAPTERS, goal, left)


IN = "(float[2] x) => (float[2] y) "


def test_the_plan_of_a_model_has_its_operators_and_those_of_the_engine():
    plan = planned(IN + "{ a = Gelu(x) y = Relu(a) }", 20, {"": 12})
    assert plan.present == {GELU, RELU}
    changes = {(op, start, to) for _, op, start, to in plan.edges}
    assert {("Gelu", 20, 19), ("Relu", 14, 13), ("Constant", 13, 12), ("Cast", 13, 12)} <= changes
    assert not plan.dead


def test_the_plan_of_a_model_has_its_dead_ends():
    plan = planned(IN + "{ a = Relu(x) b = Cos(a) y = StringNormalizer(b) }", 17, {"": 6})
    assert [dead.op for dead in plan.dead] == ["Cos", "StringNormalizer"]


def test_a_model_that_keeps_its_opset_has_the_operators_of_the_engine():
    plan = planned(IN + "{ y = com.acme.Run(x) }", 13, {"com.acme": 1}, more=', "com.acme": 1')
    assert {edge for edge in plan.edges.values() if edge.start > 0} == set()
    assert {("", op) for op in planner.ENGINE_WRITES} <= plan.leads_to()


def test_operators_that_leave_their_domain_are_planned_in_the_other_one():
    key = ("com.microsoft", "FastGelu")
    text = IN + "{ y = com.microsoft.FastGelu(x) }"
    plan = planned(text, 20, {"": 12}, left=[key], more=', "com.microsoft": 1')
    one = plan.edges[(*key, *LEAVE)]
    assert one == edge_at(ADAPTERS, *key, *LEAVE)
    for op in one.within(""):
        assert planner.route_of(ADAPTERS, "", op, 20, 12).items() <= plan.edges.items()


def test_operators_without_a_schema_are_planned_with_what_replaces_them():
    plan = planned(IN + "{ y = Scale<scale = 2.0>(x) }", 8, {"": 9})
    one = plan.edges[("", "Scale", *RETIRED)]
    for op in one.writes:
        assert planner.route_of(ADAPTERS, "", op, 8, 9).items() <= plan.edges.items()


def test_operators_that_are_deprecated_are_planned_from_their_last_version():
    plan = planned(IN + "{ y = Upsample(x, x) }", 11, {"": 13})
    assert ("", "Upsample", 9, 10) in plan.edges
    assert any(op == "Resize" for _, op, _, _ in plan.edges)

    assert min(start for _, op, start, _ in plan.edges if op == "Upsample") == 9


def test_operators_that_replace_deprecated_ones_are_those_of_the_domain():
    plan = CrossingPlan(ADAPTERS)
    plan.edges["", "Upsample", 9, 10] = edge(9, 10, "Resize", "com.acme.Run")
    plan.edges["com.acme", "Run", 1, 2] = edge(1, 2, "com.acme.Go")
    assert planner._ended(plan, {"Relu"}, "", 11) == {"Upsample", "Resize"}


def test_operators_of_a_domain_without_adapters_are_not_planned():
    plan = planned(IN + "{ y = com.acme.Run(x) }", 13, {"com.acme": 2}, more=', "com.acme": 1')
    assert not plan.edges


def test_operators_that_another_domain_writes_are_planned(monkeypatch):
    """The nodes of the other domains are converted first."""
    written = {("ai.onnx.ml", "TreeEnsemble", 5, 4): edge(5, 4, "Gelu", "ai.onnx.ml.Scaler")}
    asked: list[tuple[str, str]] = []

    def route_of(adapters, domain, op, version, goal):
        asked.append((domain, op))
        return written if op == "TreeEnsemble" else {}

    monkeypatch.setattr(planner, "route_of", route_of)
    text = IN + "{ y = ai.onnx.ml.TreeEnsemble(x) }"
    planned(text, 20, {"": 12, "ai.onnx.ml": 4}, more=', "ai.onnx.ml": 5')
    assert ("", "Gelu") in asked
    assert ("ai.onnx.ml", "Gelu") not in asked
    assert ("", "Scaler") not in asked


# --- forms for a runtime --------------------------------------------------------------------------


class Release:
    other_forms = ("Tanh",)

    def may_lack(self, key):
        return key == RELU


@pytest.mark.parametrize(
    ("key", "lacks"), [(RELU, True), (("", "Tanh"), True), (("acme", "Tanh"), False), (GELU, False)]
)
def test_what_a_runtime_may_lack(key, lacks, monkeypatch):
    monkeypatch.setattr(planner, "misreadings", lambda *_: [])
    release: Any = Release()
    assert planner._may_lack(release, key, ADAPTERS) is lacks
    monkeypatch.setattr(planner, "misreadings", lambda *_: [True])
    assert planner._may_lack(release, key, ADAPTERS)


@pytest.mark.parametrize("release", [None, Release()])
def test_forms_are_planned_for_all_operators_that_they_write(release, monkeypatch):
    forms = {
        (RELU, FORM): edge(*FORM, "Clip"),
        (("", "Clip"), FORM): edge(*FORM, "Max", "Relu"),
        (RELU, ALTERNATIVE): edge(*ALTERNATIVE, "Where"),
    }
    monkeypatch.setattr(
        planner, "form_edge", lambda adapters, domain, op, place: forms.get(((domain, op), place))
    )
    monkeypatch.setattr(planner, "misreadings", lambda *_: [])
    plan = CrossingPlan(ADAPTERS, present=frozenset({RELU}))
    newer = {("", "Max"): edge(-4, -4, "Gelu")}
    plan.add_forms(release, newer)
    places = {(op, start) for _, op, start, _ in plan.edges}
    expected = {("Relu", FORM[0]), ("Clip", FORM[0]), ("Max", -4)}
    assert places == expected | ({("Relu", ALTERNATIVE[0])} if release else set())


# --- the lowest version to write ------------------------------------------------------------------


def verdict(place: tuple[int, int], since: int, *emits: str) -> Any:
    return SimpleNamespace(start=place[0], to=place[1], since=since, emits=emits)


@pytest.mark.parametrize(
    ("verdicts", "domain", "lowest"),
    [
        ([], "", 1),
        ([verdict((9, 8), 9, "Relu")], "", 1),
        ([verdict((9, 8), 9, "Gelu", "Erf")], "", 20),
        ([verdict((9, 8), 9, "Erf"), verdict(LEAVE, 11, "Erf")], "", 11),
        ([verdict(LEAVE, 7, "Erf")], "", 9),
        ([verdict((9, 8), 9, "com.acme.Gelu", "Unknown")], "", 1),
        ([verdict((9, 8), 9, "ai.onnx.ml.LabelEncoder", "Gelu")], "ai.onnx.ml", 1),
        ([verdict((9, 8), 9, "ai.onnx.ml.TreeEnsemble")], "ai.onnx.ml", 5),
    ],
)
def test_the_lowest_version_with_all_that_is_written(verdicts, domain, lowest):
    assert planner.lowest_to_write(verdicts, domain) == lowest
