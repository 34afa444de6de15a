# SPDX-License-Identifier: Apache-2.0
"""The order of the steps of a conversion, and the steps that it skips."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest
from opshift.author import registry
from opshift.author.verdicts import LEAVE
from opshift.convert import route, target_versions
from opshift.convert.blockers import StepRefused
from opshift.convert.runtime import form_lacks, kernel_lacks, operator_lacks
from opshift.errors import AdapterBug, InvalidModel
from opshift.model import imports
from opshift.model.document import Document
from opshift.opsets import targets

CONTRIB = ("com.microsoft", "Gelu")
WRITERS = {CONTRIB: 17, ("com.microsoft", "Erf"): 9}


def root(versions: dict[str, int], **known: Any) -> Any:
    return SimpleNamespace(imports=versions, **{"index": {}, "kind": "graph", **known})


def state(*versions: dict[str, int], goal: dict[str, int] | None = None, **known: Any) -> Any:
    """A conversion of a model whose main graph and functions have these imports."""
    strategy = SimpleNamespace(
        leaves_first=False, via_above=0, via_below=None, reinfers_between=False
    )
    adapters = SimpleNamespace(
        leaving=lambda *key: SimpleNamespace(since=WRITERS[key]) if key in WRITERS else None
    )
    options = SimpleNamespace(domains=None, node_budget=None, unknown_domains="keep")
    document = SimpleNamespace(roots=[root(one) for one in versions])
    document.versions_of = functools.partial(Document.versions_of, document)
    defaults = {
        "document": document, "goal": goal or {},
        "visits": {}, "strategy": strategy, "adapters": adapters, "options": options,
        "runtime": None, "boundaries": (), "last": SimpleNamespace(state=None),
    }  # fmt: skip
    return SimpleNamespace(**{**defaults, **known})


# --- when domains are left ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("versions", "goal", "leaving", "late"),
    [
        ([{"": 13}], {"": 17}, [CONTRIB], True),
        ([{"": 9}, {"": 13}], {"": 17}, [CONTRIB], True),
        ([{"": 1}], {"": 17}, [CONTRIB], True),
        ([{"": 13}], {"": 16}, [CONTRIB], False),  # the target cannot express it
        ([{"": 13}], {"": 17}, [], False),
        ([{"": 17}], {"": 17}, [CONTRIB], False),
        ([{"": 18}], {"": 17}, [CONTRIB], False),
        ([{"": 13}], {}, [CONTRIB], False),
        ([{}], {"": 17}, [CONTRIB], False),
    ],
)
def test_domains_are_left_at_the_higher_opset(versions, goal, leaving, late, monkeypatch):
    monkeypatch.setattr(route, "_left", lambda state: frozenset(leaving))
    assert route.leaves_late(state(*versions, goal=goal)) is late
    first = state(*versions, goal=goal)
    first.strategy.leaves_first = True
    assert not route.leaves_late(first)
    assert not route.leaves_late(state(*versions, goal=goal, visits={"": 9}))


def test_the_lowest_opset_is_that_of_the_latest_writer():
    for keys, low in [([*WRITERS], 17), ([("", "Other")], 1), ([], 1)]:
        assert route._lowest(state(), keys) == low


# --- visits ---------------------------------------------------------------------------------------


@pytest.fixture
def visits(monkeypatch):
    """Records the versions of each opset that a conversion visits."""
    visited: list[dict[str, int]] = []
    monkeypatch.setattr(route, "_visit", lambda state, versions: visited.append(dict(versions)))
    return visited


@pytest.mark.parametrize(
    ("versions", "low", "visited", "goal"),
    [
        ([{"": 9}], 11, [{"": 11}], {"": 9}),
        ([{"": 9}, {"": 13}], 11, [{"": 13}], {"": 13}),
        ([{"": 11}], 11, [], {}),
        ([{}], 11, [], {}),
    ],
)
def test_a_model_is_raised_to_what_a_step_needs_and_lowered_again(
    versions, low, visited, goal, visits
):
    wanted = state(*versions)
    route._visit_above(wanted, low)
    assert (visits, wanted.goal) == (visited, goal)
    wanted = state(*versions, goal={"": 7})
    route._visit_above(wanted, low)
    assert wanted.goal == {"": 7}


@pytest.mark.parametrize(
    ("versions", "goal", "opsets"),
    [
        ([{"": 9}], {"": 12}, [10, 11]),
        ([{"": 7}, {"": 9}], {"": 4}, [8, 7, 6]),
        ([{"": 9}], {"": 9}, []),
        ([{"": 9}], {}, []),
        ([{}], {"": 9}, [6, 7, 8]),
    ],
)
def test_stops_are_at_each_opset_with_inference(versions, goal, opsets, visits):
    route._stop_between(state(*versions, goal=goal))
    assert visits == [{"": opset} for opset in opsets]


@pytest.mark.parametrize("fails", [False, True])
def test_a_visit_keeps_the_target(fails, monkeypatch):
    calls: list[object] = []
    visited = state(
        goal={"": 9},
        sweep_and_sort=lambda: calls.append("sweep"),
        reopen=lambda: calls.append("reopen"),
    )

    def go(state):
        calls.append(state.goal)
        if fails:
            raise StepRefused([])

    monkeypatch.setattr(route, "_go", go)
    if fails:
        with pytest.raises(StepRefused):
            route._visit(visited, {"": 13})
    else:
        route._visit(visited, {"": 13})
    assert visited.goal == {"": 9}
    assert calls == [{"": 13}] + ["sweep", "reopen"] * (not fails)


@pytest.mark.parametrize(
    ("late", "below", "between", "visits", "done"),
    [
        (False, None, False, {}, ["leave", "if possible", "above 0", "go"]),
        (True, None, False, {}, ["if possible", "above 0", "go", "leave"]),
        (False, 9, False, {}, ["leave", "if possible", "above 0", "visit 9", "go"]),
        (False, 9, False, {"": 7}, ["leave", "if possible", "above 0", "visit 7", "go"]),
        (False, None, False, {"": 7}, ["leave", "if possible", "above 0", "visit 7", "go"]),
        (False, None, True, {}, ["leave", "if possible", "above 0", "stops", "go"]),
    ],
)
def test_the_order_of_a_conversion(late, below, between, visits, done, monkeypatch):
    calls: list[str] = []
    for name, text in [("_leave", "leave"), ("_leave_if_possible", "if possible"),
                       ("_stop_between", "stops"), ("_go", "go")]:  # fmt: skip
        monkeypatch.setattr(route, name, lambda state, text=text: calls.append(text))
    monkeypatch.setattr(route, "leaves_late", lambda state: late)
    monkeypatch.setattr(route, "_visit_above", lambda state, low: calls.append(f"above {low}"))
    monkeypatch.setattr(route, "_visit", lambda state, to: calls.append(f"visit {to['']}"))
    travelled = state({"": 11}, {"": 12}, visits=visits)
    travelled.strategy.via_below, travelled.strategy.reinfers_between = below, between
    route.travel(travelled)
    assert calls == done
    assert travelled.goal == ({"": 12} if below else {})


# --- the steps ------------------------------------------------------------------------------------


def legs(*versions: dict[str, int], goal: dict[str, int], retired: bool = False, domains=None):
    one = state(*versions, goal=goal)
    one.options.domains = domains
    one.adapters = SimpleNamespace(replaced=lambda *_: ["Old"] if retired else [])
    found = [leg for leg in route._legs(one) if leg]
    return found, one.boundaries is not None


UP = [(("", 9, 10), ("", 10, 11))]


def test_the_steps_of_each_domain():
    assert legs({"": 9}, goal={"": 11}) == (UP, True)
    assert legs({"": 9}, {"": 10}, goal={"": 11}) == (UP, True)
    assert legs({"": 9}, goal={"": 9}) == ([], True)
    assert legs({}, goal={"": 9}) == ([], True)
    assert legs({"": 10}, {"": 12}, goal={"": 11}) == ([(("", 12, 11),), (("", 10, 11),)], True)
    down = legs({"": 9, "ai.onnx.ml": 3}, goal={"": 8, "ai.onnx.ml": 1})
    assert down == ([(("ai.onnx.ml", 3, 2), ("ai.onnx.ml", 2, 1)), (("", 9, 8),)], True)


def test_operators_without_a_schema_are_replaced_first():
    replaced = (("", 9, 9),)
    assert legs({"": 9}, goal={"": 11}, retired=True) == ([replaced, *UP], False)
    assert legs({"": 9}, goal={"": 9}, retired=True) == ([], True)
    assert legs({"": 9}, goal={"": 9}, retired=True, domains=[""]) == ([replaced], False)


A, B, C = ("", 13, 12), ("", 12, 11), ("", 11, 10)


@pytest.mark.parametrize(
    ("earlier", "before", "leg", "budget", "known"),
    [
        ((A, B), (), (A, B, C), None, 2),
        ((A, B), (A,), (B, C), None, 1),
        ((A, B), (), (A, B), 5, 2),
        ((A, B), (), (A, B), 4, 0),  # the earlier steps added 5 nodes
        ((A, B), (), (A,), None, 0),  # they went too far
        ((A, B), (), (A, C), None, 0),
        ((A, B), (B,), (A,), None, 0),
        ((A, B), (C, A), (B,), None, 0),
        (None, (), (A, B), None, 0),
        ((A, B), None, (A, B), None, 0),
    ],
)
def test_steps_of_an_earlier_conversion_are_used_again(earlier, before, leg, budget, known):
    continued: list[object] = []
    last = SimpleNamespace(boundaries=earlier, added=5)
    one = state(boundaries=before, last=SimpleNamespace(state=last), continue_from=continued.append)
    one.options.node_budget = budget
    assert route._known(one, leg) == known
    assert continued == [last] * bool(known)
    one.last.state = None
    assert route._known(one, leg) == 0


@pytest.mark.parametrize(
    ("key", "opset", "goal", "deprecated"),
    [
        (("", "Upsample"), 11, 13, 10),
        (("", "Upsample"), 11, 9, None),  # the target has it
        (("", "Upsample"), 9, 13, None),  # the source has it
        (("", "Relu"), 11, 13, None),
        (("", "Unknown"), 11, 13, None),
        (("", "Gelu"), 20, 13, None),
    ],
)
def test_which_operators_were_deprecated_too_early(key, opset, goal, deprecated):
    one = root({"": opset}, index={key: [], ("com.acme", "Upsample"): []})
    adapters = registry.default()
    found = route._deprecated(state(adapters=adapters), one, "", goal)
    assert found == ([(key, deprecated)] if deprecated else [])
    without = SimpleNamespace(get=lambda *_: None)
    assert route._deprecated(state(adapters=without), one, "", goal) == []


# --- refusals -------------------------------------------------------------------------------------

F, G = ("own", "F", ""), ("own", "G", "")


@pytest.mark.parametrize(
    ("steps", "functions", "unsure"),
    [
        ([([1], {F}, set()), ([2], {G}, set())], {F, G}, set()),
        ([([1], {F}, set()), ([2], set(), set())], set(), set()),  # inlining does not help
        ([([1], {F}, set()), ([2], set(), {F, G})], {F}, {G}),
        ([([1], set(), {G})], set(), {G}),
    ],
)
def test_refused_steps_are_joined(steps, functions, unsure):
    joined = route._joined([StepRefused(r, frozenset(f), frozenset(u)) for r, f, u in steps])
    assert joined.refusals == [refusal for refusals, _, _ in steps for refusal in refusals]
    assert (joined.functions, joined.unsure) == (functions, unsure)


# --- operators of other domains -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("versions", "domains", "goal"),
    [
        ([{"": 11}], {""}, {"": 11}),
        ([{"": 11}, {"": 12}], {""}, {}),
        ([{"": 11}], None, {}),
    ],
)
def test_domains_are_left_until_none_is_left(versions, domains, goal, monkeypatch):
    rounds = [frozenset({CONTRIB}), frozenset({("com.microsoft", "Erf")}), frozenset()]
    lefts, calls = iter(rounds), list[object]()
    monkeypatch.setattr(route, "_left", lambda state: next(lefts))
    monkeypatch.setattr(route, "_visit_above", lambda state, low: calls.append(low))
    monkeypatch.setattr(route, "_write_out", lambda state, leaving: calls.append(leaving))
    monkeypatch.setattr(
        target_versions, "require_known_domains", lambda document, allowed: calls.append(allowed)
    )
    left = state(*versions)
    left.options.domains = domains
    route._leave(left)
    assert calls == [domains or (), 17, *rounds[:2]]
    assert left.goal == goal


@pytest.mark.parametrize(
    ("versions", "lacked", "writes", "asked"),
    [
        ([{"": 13}, {"": 11}], [[CONTRIB], [CONTRIB], []], [True, True], 3),
        ([{"": 11}], [[CONTRIB]], [False], 1),
        ([{"": 11}], [[]], [], 1),
        ([{}], [[]], [], 1),
    ],
)
def test_what_a_runtime_may_lack_is_left_if_possible(versions, lacked, writes, asked, monkeypatch):
    answers, written, opsets = iter(lacked), iter(writes), list[int]()

    def perhaps(state, opset):
        opsets.append(opset)
        return frozenset(next(answers))

    def write_out(state, leaving, *, needed):
        assert not needed
        return next(written)

    monkeypatch.setattr(route, "_perhaps_lacked", perhaps)
    monkeypatch.setattr(route, "_write_out", write_out)
    route._leave_if_possible(state(*versions))
    assert opsets == [11 if versions[0] else 0] * asked


class Stepper:
    """A step that rewrites nodes, refuses some, or finds none."""

    def __init__(self, rewritten: bool, refused: bool) -> None:
        self.step = SimpleNamespace(rewritten=["node"] if rewritten else [])
        refusal = StepRefused([1])
        self.blockers = SimpleNamespace(refused=refusal) if refused else None

    def run(self) -> Any:
        return self.step


@pytest.mark.parametrize(
    ("rewritten", "refused", "needed", "outcome"),
    [
        (True, False, True, True),
        (True, True, True, True),
        (False, True, True, StepRefused),
        (False, True, False, False),
        (False, False, True, AdapterBug),
        (False, False, False, False),
    ],
)
def test_operators_are_written_in_another_domain(rewritten, refused, needed, outcome, monkeypatch):
    calls: list[object] = []
    steppers: list[Any] = []

    def stepper(domain, start, to):
        steppers.append(Stepper(rewritten, refused))
        calls.append((domain, start, to))
        return steppers[-1]

    monkeypatch.setattr(route, "_plan", lambda state, leaving: calls.append("plan"))
    monkeypatch.setattr(route, "done", lambda state, step: calls.append("done"))
    one = state(
        {"": 11, "com.microsoft": 1}, repaired=False, stepper=stepper,
        sweep_and_sort=lambda: calls.append("sweep"), reopen=lambda: calls.append("reopen"),
    )  # fmt: skip
    leaving = [CONTRIB, ("acme", "Run")]
    if isinstance(outcome, bool):
        assert route._write_out(one, leaving, needed=needed) is outcome
    else:
        with pytest.raises(outcome):
            route._write_out(one, leaving, needed=needed)
    assert calls == ["plan", ("com.microsoft", 1, 1), *["done", "sweep", "reopen"] * rewritten]
    (made,) = steppers
    assert (made.boundary, made.left, made.partial) == (LEAVE, {CONTRIB}, True)
    assert one.repaired is rewritten


@pytest.mark.parametrize(("version", "legal"), [(0, False), (1, True)])
def test_versions_begin_with_one(version, legal, monkeypatch):
    monkeypatch.setattr(route, "_plan", lambda state, leaving: None)
    one = state({"com.microsoft": version}, stepper=lambda *_: Stepper(False, False))
    error = AdapterBug if legal else InvalidModel
    with pytest.raises(error):
        route._write_out(one, [CONTRIB])


RELU, ERF = ("", "Relu"), ("com.microsoft", "Erf")
OTHER = ("acme", "Run")


class Release:
    """A runtime that lacks a domain, or knows nothing about an operator."""

    def __init__(self, lacked: str | None = None, strange: object = None) -> None:
        self.lacked, self.strange = lacked, strange

    def lacks(self, domain):
        return domain == self.lacked

    def is_strange(self, key):
        return key == self.strange


@pytest.mark.parametrize(
    ("release", "domains", "found", "left"),
    [
        (None, None, {}, set()),
        (None, ["", "acme"], {}, {CONTRIB, ERF}),
        (Release(), None, {}, set()),
        (Release("com.microsoft"), None, {}, {CONTRIB, ERF}),
        (Release("acme"), None, {}, set()),  # no adapter replaces it
        (Release(strange=ERF), None, {}, {ERF}),
        (Release(), None, {"fields": ERF}, {ERF}),
        (Release(), None, {"kernels": ERF}, {ERF}),
        (Release(), None, {True: (ERF, False)}, {ERF}),
        (Release(), None, {False: (ERF, False)}, {ERF}),
        (Release(), None, {True: (ERF, True)}, set()),  # it is not sure
        (Release(), None, {False: (RELU, False)}, set()),
        (Release(), [""], {"fields": ERF}, {CONTRIB, ERF, OTHER}),
    ],
)
def test_which_operators_must_go(release, domains, found, left, monkeypatch):
    def misread(facts, release, *, doubtful):
        if doubtful not in found:
            return []
        key, uncertain = found[doubtful]
        return [(key, SimpleNamespace(is_uncertain=lambda release: uncertain), None)]

    listed = {name: [found[name]] if name in found else [] for name in ("fields", "kernels")}
    monkeypatch.setattr(
        operator_lacks, "unknown_fields", lambda *_: [(key, 0) for key in listed["fields"]]
    )
    monkeypatch.setattr(
        kernel_lacks,
        "contrib_without_kernel",
        lambda *_: [(0, key, 0) for key in listed["kernels"]],
    )
    monkeypatch.setattr(form_lacks, "misread_nodes", misread)
    one = state(runtime=release, facts=None)
    one.document.roots = [root({}, index={key: [] for key in (RELU, CONTRIB, ERF, OTHER)})]
    one.options.domains = domains
    writers = {**WRITERS, RELU: 1}
    one.adapters.leaving = lambda *key: SimpleNamespace(since=1) if key in writers else None
    assert route._left(one) == left


@pytest.mark.parametrize(
    ("opset", "ran", "lacks", "owned", "lacked"),
    [
        (17, [], True, ["com.microsoft"], {CONTRIB, ERF}),
        (16, [], True, ["com.microsoft"], {ERF}),
        (17, [ERF], True, ["com.microsoft"], {CONTRIB}),
        (17, [], False, ["com.microsoft"], set()),
        (17, [], True, ["acme"], set()),
    ],
)
def test_which_operators_may_go(opset, ran, lacks, owned, lacked, monkeypatch):
    monkeypatch.setattr(targets, "owned", lambda: owned)
    release = SimpleNamespace(
        lacks_facts_about=lambda domain: lacks and domain in ("com.microsoft", "acme"),
        ran=lambda key: key in ran,
    )
    one = state(runtime=release)
    one.document.roots = [root({}, index={key: [] for key in (CONTRIB, ERF, OTHER)})]
    assert route._perhaps_lacked(one, opset) == lacked
    one.runtime = None
    assert route._perhaps_lacked(one, opset) == set()


# --- the whole way --------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "unknown"), [("keep", True), ("refuse", False)])
def test_the_whole_way(mode, unknown, monkeypatch):
    calls: list[object] = []
    one = state({"": 9}, {"": 11}, {"acme": 1}, goal={"": 11}, fork=lambda: "fork")
    one.options.unknown_domains = mode
    monkeypatch.setattr(imports, "unknown", lambda document: ["acme"] if unknown else [])
    monkeypatch.setattr(route, "_plan", lambda state: calls.append("plan"))
    monkeypatch.setattr(
        route, "_deprecated", lambda state, root, domain, goal: [(RELU, root.imports[domain])]
    )
    monkeypatch.setattr(
        route, "_replace_deprecated", lambda state, root, key, end: calls.append((key, end))
    )
    monkeypatch.setattr(route, "_legs", lambda state: [(A, B), (C,)])
    monkeypatch.setattr(route, "_known", lambda state, leg: len(leg) - 1)
    monkeypatch.setattr(route, "_cross", lambda state, *boundary: calls.append(boundary))
    route._go(one)
    assert calls == ["plan", (RELU, 9), B, C]
    assert one.last.state is None
    one.boundaries = (A,)
    route._go(one)
    assert one.last.state == "fork"


def test_unknown_domains_are_refused_if_wanted(monkeypatch):
    monkeypatch.setattr(imports, "unknown", lambda document: ["acme"])
    refused = []
    one = state({"acme": 1}, refused=lambda unknown: (refused.append(unknown), StepRefused([]))[1])
    one.options.unknown_domains = "refuse"
    with pytest.raises(StepRefused):
        route._go(one)
    assert refused == [["acme"]]


@pytest.mark.parametrize("boundaries", [None, (), (A,)])
def test_a_step_counts_its_nodes_and_is_remembered(boundaries, monkeypatch):
    done: list[object] = []
    monkeypatch.setattr(route, "done", lambda state, step: done.append(step))

    def run():
        stepper.added += 2
        return "step"

    stepper: Any = SimpleNamespace(run=run)
    one = state(goal={"": 9}, added=3, boundaries=boundaries, stepper=lambda *_: stepper)
    one.options.node_budget = 7
    route._cross(one, *B)
    assert (stepper.goal, stepper.node_budget, one.added, done) == (9, 7, 5, ["step"])
    assert one.boundaries == (None if boundaries is None else (*boundaries, B))


def test_the_plan_is_that_of_the_document(monkeypatch):
    planned: list[object] = []
    monkeypatch.setattr(
        route.planner, "of_document", lambda *words: (planned.append(words), "p")[1]
    )
    one = state({"": 9}, goal={"": 11}, plan_forms=lambda: planned.append("forms"))
    route._plan(one, [CONTRIB])
    assert planned == [(one.document, one.adapters, {"": 11}, [CONTRIB]), "forms"]
    assert one.plan == "p"


class Graph:
    """A graph from which one node is removed."""

    removed = frozenset({2})


SCOPE = Graph()
OLD, NEW, GONE = (SCOPE, 0), (SCOPE, 1), (SCOPE, 2)


@pytest.mark.parametrize(
    ("steps", "touched"),
    [
        # the adapter refuses the node, which stays
        ([None], None),
        # it is replaced at once, and the new node is converted up to the model's version
        ([({NEW: "a", GONE: "b"}, {}), ({}, {}), ({}, {})], [{}, {OLD: "the model", NEW: "a"}]),
        ([({NEW: "a"}, {}), ({NEW: "c"}, {}), ({}, {})], [{}, {}, {OLD: "the model", NEW: "c"}]),
        ([({}, {}), ({}, {"Resize": 1}), ({}, {})], [{}, {OLD: "the model"}]),
    ],
)
def test_nodes_that_were_deprecated_too_early(steps, touched, monkeypatch):
    done: list[object] = []
    monkeypatch.setattr(route, "done", lambda state, step: done.append(step.touched))
    runs, crossed = iter(steps), list[object]()

    def run_at(root, writers):
        step = next(runs)
        if step is None:
            raise StepRefused([])
        return SimpleNamespace(touched=dict(step[0]), kept=step[1])

    def stepper(domain, start, to):
        crossed.append((domain, start, to))
        return SimpleNamespace(run_at=run_at)

    one, key = state(stepper=stepper), ("", "Upsample")
    at = root({"": 12}, index={key: [OLD]})
    route._replace_deprecated(one, at, key, 10)
    assert crossed == [("", 9, 10), ("", 10, 11), ("", 11, 12)][: len(steps)]
    if touched is None:
        assert (done, one.boundaries) == ([], ())
    else:
        assert one.boundaries is None
        assert done == touched


def test_a_replacement_that_cannot_be_converted_further_is_refused():
    def stepper(domain, start, to):
        def run_at(root, writers):
            if start == 10:
                raise StepRefused([])
            return SimpleNamespace(touched={}, kept={})

        return SimpleNamespace(run_at=run_at)

    key = ("", "Upsample")
    with pytest.raises(StepRefused):
        route._replace_deprecated(state(stepper=stepper), root({"": 12}, index={key: []}), key, 10)
