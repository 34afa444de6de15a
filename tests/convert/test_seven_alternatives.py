# SPDX-License-Identifier: Apache-2.0
"""Each alternative of the plan is chosen if the others fail or cost more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper
from opshift import Refused, convert, plan
from opshift.author import registry
from opshift.author.facts import UNKNOWN
from opshift.author.verdicts import ALTERNATIVE
from opshift.convert import cheapest_strategy, equal_forms, route, target_versions
from opshift.convert.attempt import Conversion
from opshift.convert.request import Request
from opshift.convert.strategies import Strategies, Strategy
from opshift.opsets import schemas
from opshift.opsets.elements import T
from text_models import model


@dataclass(frozen=True)
class Choice:
    """A conversion that needs an alternative, and a test whether it was chosen."""

    before: Callable[[], ModelProto]
    target: Any
    taken: Callable[[Strategy], bool]
    options: dict[str, Any]
    newest: int = 0  # the opset that the installed onnx must know


def folded() -> ModelProto:
    """The axes of a reduction are computed from constants alone, and an attribute below opset 13."""
    return model(
        "(float[2,3] x) => (float[a,b] y) <int64[1] one = {1}, int64[1] none = {0}> {"
        " axes = Add(one, none) y = ReduceSum(x, axes) }",
        13,
    )


def small_type() -> ModelProto:
    """A constant of a type that opset 18 and older IR versions lack, and that only a Cast reads."""
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "wide"], ["y"]),
    ]
    weight = TensorProto(name="w", data_type=T.FLOAT8E8M0, dims=[2], raw_data=bytes([127, 129]))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], [weight])
    return helper.make_model(graph, ir_version=12, opset_imports=[helper.make_opsetid("", 24)])


def boxed() -> ModelProto:
    """An optional between nodes, which IR 7 and older have no type for."""
    return model("(float[3] x) => (float[3] y) { o = Optional(x) y = OptionalGetElement(o) }", 15)


def vendor() -> ModelProto:
    """An operator of a vendor, whose form in ai.onnx is one node from opset 20 on."""
    text = "(float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }"
    return model(text, 17, more=', "com.microsoft" : 1')


def less() -> ModelProto:
    """A comparison of integers, for which an old runtime has no kernel."""
    return model("(int64[3] a, int64[3] b) => (bool[3] y) { y = Less(a, b) }", 10, ir=4)


def called() -> ModelProto:
    """Returns a function with an attribute whose value only the call gives."""
    text = """(float[2,3] x) => (float[a,b] y) { y = own.Soft<axis = 1>(x) }
        <opset_import: ["" : 12], domain: "own"> Soft <axis> (x) => (y) {
            y = Softmax<axis: int = @axis>(x) }"""
    return model(text, 12, more=', "own" : 1')


def upsampled() -> ModelProto:
    """Upsample with computed scales has no older form; Resize, which replaces it, has one."""
    return model(
        '(float[1,1,2,2] x, float[4] s) => (float[a,b,c,d] y) { y = Upsample<mode = "linear">(x, s) }',
        9,
    )


ALTERNATIVES = {
    "constants are folded before a boundary": Choice(
        folded, 12, lambda strategy: strategy == Strategy(), {}
    ),
    "an element type is widened before a boundary": Choice(
        small_type, 18, lambda strategy: bool(strategy.early), {}, newest=24
    ),
    "the IR version is lowered at a lower opset": Choice(
        boxed, None, lambda strategy: strategy.via_below > 0, {"ir_version": 5}
    ),
    "a domain is left after the steps": Choice(
        vendor, 20, lambda strategy: not strategy.leaves_first, {"domains": ["ai.onnx"]}, newest=20
    ),
    "another form is written for a runtime": Choice(
        less, "onnxruntime==0.4", lambda strategy: strategy == Strategy(), {}
    ),
    "a function is inlined": Choice(called, 13, lambda strategy: bool(strategy.inlined), {}),
    "the strategy goes up in order to come down": Choice(
        upsampled, 7, lambda strategy: strategy.via_above > 0, {}
    ),
}


@pytest.fixture
def strategies(monkeypatch):
    """Returns the names of all strategies that were tried, with the chosen strategy last."""
    tried, run, choose = list[Strategy](), Conversion.run, Strategies.chosen

    def noted(self):
        if not self.for_types and self.options.checks:
            tried.append(self.strategy)
        return run(self)

    def chosen(self):
        tried.append(choose(self).strategy)
        return choose(self)

    monkeypatch.setattr(Conversion, "run", noted)
    monkeypatch.setattr(Strategies, "chosen", chosen)
    return tried


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_each_alternative_is_taken_and_the_plan_says_what_the_conversion_does(name, strategies):
    one = ALTERNATIVES[name]
    if (schemas.latest("") or 0) < one.newest:
        pytest.skip("the installed onnx is older than the model")
    result = convert(one.before(), one.target, **one.options)
    assert one.taken(strategies[-1])
    planned = plan(one.before(), one.target, **one.options)
    assert planned.possible
    steps = tuple(step for step in result.report.steps if step.rewritten or step.kept)
    assert planned.steps == steps
    assert planned.notes == result.report.notes
    for domain, version in planned.target.items():
        assert result.report.result.get(domain, version) == version


@pytest.mark.parametrize(
    "name", [name for name, one in ALTERNATIVES.items() if one.taken(Strategy()) is False]
)
def test_without_the_alternative_the_conversion_is_refused_as_the_plan_says(name, monkeypatch):
    one = ALTERNATIVES[name]
    if (schemas.latest("") or 0) < one.newest:
        pytest.skip("the installed onnx is older than the model")
    monkeypatch.setattr(Conversion, "others", lambda self, refused=None: ())
    with pytest.raises(Refused) as caught:
        convert(one.before(), one.target, **one.options)
    assert plan(one.before(), one.target, **one.options).refusals == caught.value.refusals


def test_without_folding_the_step_writes_more_nodes(monkeypatch):
    folding = convert(folded(), 12).report
    monkeypatch.setattr("opshift.author.facts.Facts._evaluate", lambda *given: UNKNOWN)
    assert folding.nodes_after == 1
    assert convert(folded(), 12).report.nodes_after > folding.nodes_after


def test_the_form_of_the_step_has_no_kernel_in_the_runtime(monkeypatch):
    assert not any("no kernel" in reason for reason in _reasons())
    monkeypatch.setattr(equal_forms, "_choose", lambda *given: None)
    assert any("no kernel" in reason for reason in _reasons())


def _reasons() -> tuple[str, ...]:
    report = convert(less(), "onnxruntime==0.4", keep_unrunnable=True).report
    assert report.runtime is not None
    return report.runtime.reasons


def crossings(target, before=None):
    """Returns the plan of a conversion before the first step."""
    opened = Conversion(
        *cheapest_strategy.opener_of(before or less())(), Request.of(target), registry.default()
    )
    opened.open()
    target_versions.set_goal(opened)
    with pytest.MonkeyPatch.context() as only:
        only.setattr(route, "_cross", lambda *given: None)
        route.travel(opened)
    return opened.plan


def test_the_other_form_is_planned_before_anything_is_written():
    edge = crossings("onnxruntime==0.4").edges[("", "Less", *ALTERNATIVE)]
    assert {"Less", "Sub", "Div"} < {*edge.writes}


@pytest.mark.parametrize("target", ["onnx==1.5", 10])
def test_a_target_that_is_known_to_lack_no_kernel_has_no_other_form_in_the_plan(target):
    assert not [at for at in crossings(target).edges if at[2:] == ALTERNATIVE]


def test_the_own_form_costs_nothing_and_is_kept_where_the_runtime_runs_it():
    two = model(
        """(int64[3] a, int64[3] b, float[3] c) => (bool[3] y, bool[3] z) {
            y = Less(a, b) z = Less(c, c) }""",
        10,
        ir=4,
    )
    result = convert(two, "onnxruntime==0.4")
    assert [work.count for step in result.report.steps for work in step.rewritten] == [1]
    assert ["c", "c"] in [list(node.input) for node in result.model.graph.node]


def test_the_plan_of_an_operator_shows_its_other_form():
    planned = plan(less(), "onnxruntime==0.4")
    (path,) = planned.paths
    assert [(hop.where, hop.verdict) for hop in path.hops] == [("at 10, another", "form")]
    assert "the result has equivalent nodes that it can run" in str(planned)
    assert "unchanged" not in str(planned)


@pytest.mark.skipif((schemas.latest("") or 0) < 20, reason="the installed onnx is older")
def test_leaving_a_domain_before_the_steps_writes_more_nodes(monkeypatch):
    late = convert(vendor(), 20, domains=["ai.onnx"]).report
    monkeypatch.setattr("opshift.convert.route.leaves_late", lambda state: False)
    early = convert(vendor(), 20, domains=["ai.onnx"]).report
    assert late.nodes_after == 1
    assert early.nodes_after > late.nodes_after


def test_a_function_that_needs_no_call_is_kept(strategies):
    text = """(float[2] x) => (float[2] y) { y = own.Half(x) }
        <opset_import: ["" : 13], domain: "own"> Half (x) => (y) { y = Relu(x) }"""
    result = convert(model(text, 13, more=', "own" : 1'), 14)
    assert result.report.inlined == ()
    assert strategies == [Strategy()]
