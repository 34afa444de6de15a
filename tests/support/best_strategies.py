# SPDX-License-Identifier: Apache-2.0
"""The cost of every strategy of a conversion, to prove that the chosen strategy is the best.

If a conversion has alternatives, a separate conversion runs each of them. Some strategies that the
search does not try are converted too: IR features that are lowered first although the default
strategy succeeds, and one more or one less inlined function. The law is broken if the result of any
strategy has fewer approximations, as many and fewer lost functions, or as many of both and fewer
nodes.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

import journeys
import onnx
from onnx import ModelProto
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.author.verdicts import LEAVE
from opshift.convert import cheapest_strategy, target_versions
from opshift.convert.attempt import Conversion
from opshift.convert.blockers import StepRefused
from opshift.convert.ir import needs
from opshift.convert.request import Request
from opshift.convert.strategies import STRAIGHT, Strategy, alternatives
from opshift.errors import OpshiftError, Refused
from opshift.model.document import Document, function_id
from opshift.model.functions import computing_nodes
from opshift.opsets import schemas
from opshift.report import Report

from tools.corpus.replay import CORPUS

Case = tuple[str, ModelProto, Request]
Cost = tuple[int, int, int]  # approximations, lost functions, nodes that compute something
MOST_STRATEGIES = 24


def broken(model: ModelProto, request: Request) -> tuple[int, list[str]]:
    """The number of strategies with a result, and those whose result beats the chosen one."""
    try:
        skeleton, _, report = cheapest_strategy.convert(cheapest_strategy.opener_of(model), request)
    except OpshiftError:
        return 0, []
    chosen = _cost(model, skeleton, report)
    cost_by_strategy = costs(model, request)
    lines = [
        f"{strategy} has the cost {cost}, not {chosen}"
        for strategy, cost in cost_by_strategy.items()
    ]
    return len(cost_by_strategy), [
        text for text, cost in zip(lines, cost_by_strategy.values(), strict=True) if cost < chosen
    ]


def _cost(before: ModelProto, after: ModelProto, report: Report) -> Cost:
    lost = len(before.functions) - len(after.functions)
    return len(report.approximations), lost, computing_nodes(after)


def costs(model: ModelProto, request: Request) -> dict[Strategy, Cost]:
    """Returns the cost of the result of each strategy that reaches the target."""
    cost_by_strategy: dict[Strategy, Cost] = {}
    waiting, visited = [STRAIGHT], {STRAIGHT}
    while waiting and len(visited) <= MOST_STRATEGIES:
        strategy = waiting.pop(0)
        cost, alternative_strategies = _tried(strategy, model, request)
        if cost is not None:
            cost_by_strategy[strategy] = cost
        alternative_strategies += _with_other_functions(strategy, model)
        new = [
            fromkey for fromkey in dict.fromkeys(alternative_strategies) if fromkey not in visited
        ]
        visited.update(new)
        waiting += new
    return cost_by_strategy


def _with_other_functions(strategy: Strategy, model: ModelProto) -> list[Strategy]:
    """The strategies that inline one function more, or one function less."""
    strategies = []
    for which in map(function_id, model.functions):
        less = tuple(one for one in strategy.inlined if one != which)
        inlined = less if which in strategy.inlined else tuple(sorted((*strategy.inlined, which)))
        strategies.append(dataclasses.replace(strategy, inlined=inlined))
    return strategies


def _tried(
    strategy: Strategy, model: ModelProto, request: Request
) -> tuple[Cost | None, list[Strategy]]:
    """The cost of one strategy, and the strategies that differ from it in one choice."""
    skeleton, weights = cheapest_strategy.opener_of(model)()
    attempt = Conversion(skeleton, weights, request, registry.default(), strategy)
    try:
        report = attempt.run()
    except StepRefused as refused:
        return None, list(attempt.others(refused))
    except Refused as refused:
        return None, list(attempt.others(refused))
    except OpshiftError:
        return None, []
    came = Document(model)
    facts = Facts(came, weights, attempt.adapters, lambda: model)
    features = needs.features_above(facts, target_versions.ir_of_goal(attempt))
    alternative_strategies = alternatives(strategy, (), features, leaves=attempt.left_late)
    return _cost(model, skeleton, report), list(alternative_strategies)


def examples(seed: int, *, leave: bool, place: str | None = None) -> Iterator[Case]:
    """Examples of adapters, each in a place and with random versions, without end."""
    rng, pairs = random.Random(f"{seed} {place}"), journeys.fit()
    if leave:
        pairs = [pair for pair in pairs if (pair[0].start, pair[0].to) == LEAVE]
    while True:
        journey = journeys.Journey.of(*rng.choice(pairs), rng.randrange(1 << 30), place)
        options = {name: value for name, value in journey.example.options.items() if value}
        ir = rng.choice([journey.ir, "auto"])
        goal = {"": journey.goal[""]} if leave else journey.goal
        options |= {"domains": ["ai.onnx"]} if leave else {}
        title = f"{journey.name}, seed {journey.seed}, to {goal}, IR {ir}"
        yield title, journey.model, Request.of(goal, ir_version=ir, **options)


def corpus(seed: int) -> Iterator[Case]:
    """Models of the corpus, to random opsets and IR versions, without end."""
    rng, models = random.Random(seed), sorted(CORPUS.glob("*/model.onnx"))
    while models:
        path, to = rng.choice(models), rng.randint(7, schemas.latest("") or 7)
        ir = rng.choice([rng.randint(3, onnx.IR_VERSION), "auto"])
        title = f"{path.parent.name} to {to}, IR {ir}"
        yield title, onnx.load(path), Request.of(to, ir_version=ir, allow_approximate=True)
