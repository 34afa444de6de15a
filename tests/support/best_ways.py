# SPDX-License-Identifier: Apache-2.0
"""The cost of every way of a conversion, to prove that the chosen way is the best.

If a conversion has alternatives, each of them is converted alone. Some ways that the search does
not try are converted too: older forms of content that are written first although the straight way
succeeds, and one more or one less inlined function. The law is broken if the result of any way has
fewer approximations, as many and fewer lost functions, or as many of both and fewer nodes.
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
from opshift.convert import aim, cheapest_way
from opshift.convert.attempt import Conversion
from opshift.convert.blockers import StepRefused
from opshift.convert.ir import needs
from opshift.convert.request import Request
from opshift.convert.ways import STRAIGHT, Way, alternatives
from opshift.errors import OpshiftError, Refused
from opshift.model.document import Document, function_id
from opshift.model.functions import computing_nodes
from opshift.opsets import schemas
from opshift.report import Report

from tools.corpus.replay import CORPUS

Case = tuple[str, ModelProto, Request]
Cost = tuple[int, int, int]  # approximations, lost functions, nodes that compute something
MOST_WAYS = 24


def broken(model: ModelProto, wanted: Request) -> tuple[int, list[str]]:
    """How many ways lead to the goal, and those whose result is better than the chosen one."""
    try:
        skeleton, _, report = cheapest_way.convert(cheapest_way.opener_of(model), wanted)
    except OpshiftError:
        return 0, []
    chosen = _cost(model, skeleton, report)
    found = costs(model, wanted)
    told = [f"{way} has the cost {cost}, not {chosen}" for way, cost in found.items()]
    return len(found), [
        text for text, cost in zip(told, found.values(), strict=True) if cost < chosen
    ]


def _cost(before: ModelProto, after: ModelProto, report: Report) -> Cost:
    lost = len(before.functions) - len(after.functions)
    return len(report.approximations), lost, computing_nodes(after)


def costs(model: ModelProto, wanted: Request) -> dict[Way, Cost]:
    """The cost of the result of each way that leads to the goal."""
    found: dict[Way, Cost] = {}
    waiting, seen = [STRAIGHT], {STRAIGHT}
    while waiting and len(seen) <= MOST_WAYS:
        way = waiting.pop(0)
        cost, others = _tried(way, model, wanted)
        if cost is not None:
            found[way] = cost
        others += _with_other_functions(way, model)
        new = [one for one in dict.fromkeys(others) if one not in seen]
        seen.update(new)
        waiting += new
    return found


def _with_other_functions(way: Way, model: ModelProto) -> list[Way]:
    """The ways on which one function more, or one less, is written out at its calls."""
    found = []
    for which in map(function_id, model.functions):
        less = tuple(one for one in way.inlined if one != which)
        inlined = less if which in way.inlined else tuple(sorted((*way.inlined, which)))
        found.append(dataclasses.replace(way, inlined=inlined))
    return found


def _tried(way: Way, model: ModelProto, wanted: Request) -> tuple[Cost | None, list[Way]]:
    """The cost of one way, and the ways that differ from it in one choice."""
    skeleton, weights = cheapest_way.opener_of(model)()
    attempt = Conversion(skeleton, weights, wanted, registry.default(), way)
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
    held = needs.held(came, facts, aim.ir_of_goal(attempt))
    others = alternatives(way, (), held, leaves=attempt.left_late)
    return _cost(model, skeleton, report), list(others)


def examples(seed: int, *, leave: bool, place: str | None = None) -> Iterator[Case]:
    """Examples of adapters, each in a place and with random versions, without end."""
    rng, pairs = random.Random(seed), journeys.fit()
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
