# SPDX-License-Identifier: Apache-2.0
"""The plan contains operators that verdicts of other domains write."""

from opshift.author import registry
from opshift.convert import plan_table, planner, verdict_edges
from opshift.opsets import schemas


def test_a_verdict_spells_the_operators_of_its_own_domain_in_full():
    plan = planner.CrossingPlan(registry.default())
    plan.follow("ai.onnx.ml", ["TreeEnsemble"], 5, 1)
    crossed = {(op, start) for _, op, start, _ in plan.edges}
    assert {("TreeEnsemble", 5), ("TreeEnsembleRegressor", 3)} <= crossed


def test_every_name_that_a_verdict_writes_is_an_operator():
    for domain in ("", "ai.onnx.ml"):
        for down in (True, False):
            graph = verdict_edges.graph(registry.default(), domain, down=down)
            for _, edge in (place for place in graph if isinstance(place[1], plan_table.Edge)):
                assert set(edge.within(domain)) <= set(schemas.operators(domain))
