# SPDX-License-Identifier: Apache-2.0
"""The planned alternatives: older content first, a way up before the way down, functions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from opshift import InvalidModel, Refused, convert, convert_version, plan, versions
from opshift.adapter import Builder, Node, Result, adapter
from opshift.author import registry
from opshift.codes.refusals import Why
from opshift.convert import strategies
from opshift.convert.attempt import Conversion
from opshift.convert.legal import diagnose
from opshift.errors import AdapterBug, RefusedNode
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.opsets.elements import T
from opshift.report import Report
from opshift.testing import examples
from opshift.testing.case_files import examples_of
from opshift.verify import oracle
from text_models import model

TREES = "opshift_adapters.ml.tree_ensemble.regressor_4_5"


def scaled(elem_type: int = T.FLOAT8E8M0, opset: int = 24, ir: int = 12) -> ModelProto:
    """A constant of a small type that only a Cast reads."""
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "wide"], ["y"]),
    ]
    weight = TensorProto(name="w", data_type=elem_type, dims=[2], raw_data=bytes([127, 129]))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph(nodes, "scaled", infos[:1], infos[1:], [weight])
    return helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid("", opset)])


needs_e8m0 = pytest.mark.skipif(
    (schemas.latest("") or 0) < 24, reason="the installed onnx does not know float8e8m0"
)


@needs_e8m0
def test_a_constant_is_widened_before_a_step_that_lacks_its_type():
    result = convert(scaled(), 18)
    assert "constants converted to a wider type (1)" in result.report.notes
    (weight,) = result.model.graph.initializer
    assert weight.data_type == TensorProto.FLOAT
    assert np.frombuffer(weight.raw_data, np.float32).tolist() == [1.0, 4.0]
    assert [node.op_type for node in result.model.graph.node] == ["Cast", "Mul"]


@needs_e8m0
def test_one_command_does_it_with_any_ir_version():
    for ir in (9, 6, 3):
        first = convert_version(scaled(), ir_version=ir)
        assert convert_version(scaled(), 13, ir_version=ir).ir_version == ir
        assert convert_version(first, 13, ir_version="keep").ir_version == ir


@needs_e8m0
def test_a_constant_stays_small_where_no_step_minds(monkeypatch):
    """The default strategy is tried first, and alternatives are planned only if it fails."""
    monkeypatch.setattr(Conversion, "others", lambda *given: pytest.fail("an alternative"))
    converted = convert_version(scaled(opset=25), 24)
    assert converted.graph.initializer[0].data_type == T.FLOAT8E8M0


@needs_e8m0
def test_the_plan_follows_the_same_strategy():
    planned = plan(scaled(), 18)
    assert planned.possible
    assert planned.lowest == {"": 1}


def ensemble(opset: int) -> ModelProto:
    """A regressor whose form in ai.onnx.ml 5 is written with operators of ai.onnx."""
    pairs = examples("opshift_adapters")
    (example,) = [e for a, e in pairs if a.source == TREES and e.title == "base and transform"]
    text = example.graph
    return model(text, opset, more=', "ai.onnx.ml" : 4')


def boxed(opset: int) -> ModelProto:
    """An optional between nodes, which IR 7 and older have no type for."""
    return model(
        "(float[3] x) => (float[3] y) { o = Optional(x) y = OptionalGetElement(o) }", opset
    )


@pytest.mark.parametrize("target", [None, 18, 16])
def test_what_an_ir_version_lacks_goes_where_the_opset_goes_down_and_comes_up(target):
    result = convert(boxed(15), target, ir_version=5)
    assert result.model.ir_version == 5
    assert result.model.opset_import[0].version == (target or 15)
    assert {node.op_type for node in result.model.graph.node} == {"Identity"}
    assert result.report.steps[0].to == 14


def test_a_refusal_of_the_ir_version_stays_one_where_no_strategy_helps():
    with pytest.raises(Refused) as caught:
        convert_version(
            model("(optional(float[3]) x) => (float[3] y) { y = OptionalGetElement(x) }", 15),
            ir_version=5,
        )
    assert caught.value.target["IR"] == 5


@pytest.mark.parametrize("opset", [1, 5, 6, 8])
def test_another_domain_is_stepped_at_an_opset_at_which_its_form_can_be_written(opset):
    before = ensemble(opset)
    result = convert(before, {"ai.onnx.ml": 5})
    imports = {entry.domain: entry.version for entry in result.model.opset_import}
    assert imports == {"": opset, "ai.onnx.ml": 5}
    climbs = [(step.start, step.to) for step in result.report.steps if not step.domain]
    assert climbs[:1] == ([(opset, opset + 1)] if opset < 7 else [])
    inputs = {"x": np.array([[0.5, 1], [3, -2], [0, 9]], np.float32)}
    expected, actual = (oracle.evaluate(one, inputs) for one in (before, result.model))
    assert oracle.compare(expected, actual, rtol=1e-5, atol=1e-6) is None


def reached(
    strategy: strategies.Strategy, nodes: int, approximations: tuple[str, ...] = (), lost: int = 0
) -> strategies.Reached:
    report = Report({"": 9}, {"": 7}, 3, 3, approximations=approximations)
    return strategies.Reached(strategy, ModelProto(), Weights((), ""), report, lost, nodes)


def test_the_strategy_of_the_least_work_comes_first_and_each_once():
    search = strategies.Strategies()
    order = iter(search)
    straight = next(order)
    assert straight == strategies.Strategy()
    early = strategies.Strategy(early=frozenset({"a type"}))
    inlined = strategies.Strategy(inlined=(("own", "F", ""),))
    search.reached(
        reached(straight, 5, ("a test",)), [inlined, early, strategies.Strategy(via_above=7), early]
    )
    assert list(order) == [early, strategies.Strategy(via_above=7), inlined]


def test_approximations_count_more_than_functions_and_functions_more_than_nodes():
    search = strategies.Strategies()
    straight, inlined = strategies.Strategy(), strategies.Strategy(inlined=(("own", "F", ""),))
    search.reached(reached(straight, 3, ("a test",)), ())
    search.reached(reached(inlined, 9, lost=1), ())
    assert search.chosen().strategy == inlined
    search.reached(reached(strategies.Strategy(via_above=9), 30), ())
    assert search.chosen().strategy == strategies.Strategy(via_above=9)


def test_a_strategy_that_loses_more_functions_than_an_exact_result_is_not_tried():
    found, inlined = strategies.Strategies(), strategies.Strategy(inlined=(("own", "F", ""),))
    order = iter(found)
    found.reached(reached(next(order), 30), [inlined])
    assert list(order) == []


def test_approximations_count_more_than_nodes_and_nodes_more_than_work():
    search = strategies.Strategies()
    via_above, via_below = strategies.Strategy(via_above=9), strategies.Strategy(via_below=5)
    for strategy, nodes, approximations in [
        (strategies.Strategy(), 3, ("a test", "another")),
        (via_above, 9, ("a test",)),
        (via_below, 8, ()),
        (strategies.Strategy(via_above=10), 8, ()),
        (strategies.Strategy(via_above=11), 8, ()),
        (strategies.Strategy(leaves_first=True), 9, ()),
    ]:
        search.reached(reached(strategy, nodes, approximations), ())
    assert search.chosen().strategy == strategies.Strategy(via_above=10)


def test_a_bug_on_a_strategy_that_was_only_compared_is_noted():
    search = strategies.Strategies()
    search.reached(reached(strategies.Strategy(via_above=9), 3), ())
    search.failed(AdapterBug("a test"))
    (note,) = search.chosen().report.notes
    assert "was not compared, because of a bug: a test" in note


def test_any_other_bug_is_raised_after_the_last_strategy():
    search = strategies.Strategies()
    search.failed(AdapterBug("a test"))
    search.reached(reached(strategies.Strategy(via_above=9), 3), ())
    with pytest.raises(AdapterBug, match="a test"):
        search.chosen()


@pytest.mark.parametrize("first", ["refused", "bug"])
@pytest.mark.parametrize("invalid", [True, False])
def test_a_model_that_is_invalid_on_one_strategy_is_invalid(first, invalid, monkeypatch):
    """The user gets this error even if an earlier strategy found another one."""
    outcomes = iter([first, "invalid" if invalid else "refused"])

    def run(conversion):
        match next(outcomes):
            case "refused":
                raise refused("Add", 9)
            case "bug":
                raise AdapterBug("a test")
        raise InvalidModel("a test of the second strategy")

    monkeypatch.setattr(Conversion, "run", run)
    monkeypatch.setattr(
        Conversion, "others", lambda *_: iter([strategies.Strategy(reinfers_between=True)])
    )
    monkeypatch.setattr(
        strategies.Strategies,
        "__iter__",
        lambda _: iter([strategies.STRAIGHT, strategies.Strategy(reinfers_between=True)]),
    )
    monkeypatch.setattr(diagnose, "contradiction", lambda *_, **__: None)
    wanted = InvalidModel if invalid else Refused if first == "refused" else AdapterBug
    with pytest.raises(wanted):
        convert_version(model("(float[2] x) => (float[2] y) { y = Relu(x) }", 12), 9)


def refused(op: str, near: int) -> Refused:
    one = RefusedNode("n", op, "", (near, near - 1), Why.NOT_EXPRESSIBLE, "")
    return Refused([one], {"": near}, {"": 5})


def test_a_strategy_that_changes_nothing_is_not_followed_and_the_nearest_refusal_is_told():
    search = strategies.Strategies()
    order = iter(search)
    early = strategies.Strategy(early=frozenset({"a type"}))
    search.refused(next(order), refused("Relu", 13), [early])
    next(order)
    search.refused(
        early, refused("Relu", 13), [strategies.Strategy(early=early.early, via_above=9)]
    )
    assert list(order) == []
    assert search.answer is not None
    assert search.answer.nearest == {"": 13}
    search.refused(early, refused("Gelu", 9), ())
    assert search.answer.nearest == {"": 9}


def test_an_exact_strategy_is_preferred_to_one_that_approximates(monkeypatch):
    """An approximated result is returned only if all strategies approximate."""
    tried = []
    run = Conversion.run

    def approximated(self):
        tried.append(self.strategy)
        report = run(self)
        object.__setattr__(
            report, "approximations", ("a test",) if not self.strategy.via_above else ()
        )
        return report

    monkeypatch.setattr(Conversion, "run", approximated)
    monkeypatch.setattr(
        Conversion, "others", lambda self, refused=None: [strategies.Strategy(via_above=9)]
    )
    proto = model("(float[2] x) => (float[2] y) { y = Relu(x) }", 8)
    assert convert(proto, 7).report.approximations == ()
    assert tried == [strategies.Strategy(), strategies.Strategy(via_above=9)]
    monkeypatch.setattr(Conversion, "others", lambda self, refused=None: [])
    assert convert(proto, 7).report.approximations == ("a test",)


def test_what_an_adapter_of_another_domain_needs_is_declared():
    """Some example of each adapter begins at an opset that the adapter declares."""
    for declared in registry.default().adapters():
        if declared.domain and declared.at_boundary:
            own = [example.imports.get("", declared.since) for example in examples_of(declared)]
            climbed = [at for at in own if at < declared.since]
            assert len(climbed) < len(own) or not own, declared.source


def test_an_operator_goes_up_to_its_successor_in_order_to_come_down():
    """Upsample 9 with computed scales has no older form; Resize 11, which replaces it, has one."""
    text = '(float[1,1,2,2] x, float[4] s) => (float[a,b,c,d] y) { y = Upsample<mode = "linear">(x, s) }'
    result = convert(model(text, 9), 7)
    assert result.model.opset_import[0].version == 7
    assert [(step.start, step.to) for step in result.report.steps][:2] == [(9, 10), (10, 11)]


def test_a_fact_that_no_opset_gives_costs_one_more_strategy(monkeypatch):
    """A refusal costs one strategy for all opsets between, not one for each opset."""
    taken = []
    run = Conversion.run
    monkeypatch.setattr(Conversion, "run", lambda self: (taken.append(self.strategy), run(self))[1])
    body = "y = RoiAlign<output_height=2, output_width=2>(x, r, b) }"
    rois = model(
        f"(float[1,1,4,4] x, float[1,4] r, int64[1] b) => (float[1,1,2,2] y) {{ {body}", 16
    )
    with pytest.raises(Refused) as caught:
        convert_version(rois, 3)
    assert {refusal.why for refusal in caught.value.refusals} == {Why.NEEDS_CONSTANT}
    assert (caught.value.target[""], caught.value.nearest[""]) == (3, 5)
    assert sum(strategy.reinfers_between for strategy in taken) == 1
    assert len(taken) <= 3


UNCALLED = """(float[3] x) => (float[3] y) { y = Relu(x) }
<domain: "com.own", opset_import: ["": 13]> F (a) => (b) { s = Shape(a) b = Expand(a, s) }"""


@pytest.mark.parametrize(
    ("target", "ir", "told"),
    [
        (7, "auto", "removed the function com.own::F, because nothing called it"),
        (None, 7, "uncalled functions removed (1)"),
    ],
)
def test_a_function_that_nothing_calls_does_not_leave_in_silence(target, ir, told):
    result = convert(model(UNCALLED, 13, more=', "com.own": 1'), target, ir_version=ir)
    assert not result.model.functions
    assert told in result.report.notes
    assert result.report.inlined == ()  # there was no call to write it out at


@pytest.mark.skipif((schemas.latest("") or 0) < 25, reason="the installed onnx is older")
def test_facts_of_a_model_without_its_functions_are_those_of_its_own_scopes():
    """The conversion removes the function Relu; later steps read types of the source model."""
    text = """(float[4] x) => (float[4] y) { y = Erf(x) }
    <domain: "", opset_import: ["": 17]> Relu (x) => (y) { y = Atanh(x) }"""
    planned = plan(model(text, 17, ir=8), 25)
    assert planned.possible


# -- functions -----------------------------------------------------------------------------------


def calling(graph: str, *bodies: str, opset: int) -> ModelProto:
    """A model with functions of one domain."""
    header = f'<domain: "com.own", opset_import: ["": {opset}, "com.own": 1]>'
    text = "\n".join([graph, *(f"{header} {body}" for body in bodies)])
    return model(text, opset, ir=8, more=', "com.own": 1')


def names(proto: ModelProto) -> list[str]:
    return [function.name for function in proto.functions]


ONE = "G () => (y) { y = Constant<value = int64[1] {1}>() }"
REDUCED = (
    "(float[2,3] x) => (float[a,b] y) { p = com.own.F(x) q = com.own.G() y = ReduceSum(p, q) }"
)


def test_a_function_is_kept_although_its_calls_would_write_fewer_nodes():
    """Functions are structure, and are inlined only to avoid a refusal or an approximation."""
    before = calling(REDUCED, "F (x) => (y) { y = Relu(x) }", ONE, opset=13)
    result = convert(before, 12)
    assert names(result.model) == ["F", "G"]
    assert result.report.nodes_after > 3


def test_where_the_result_holds_no_functions_they_are_written_out_where_this_writes_fewer_nodes():
    before = calling(REDUCED, "F (x) => (y) { y = Relu(x) }", ONE, opset=13)
    result = convert(before, 12, ir_version=7)
    assert sorted(node.op_type for node in result.model.graph.node) == ["ReduceSum", "Relu"]
    plain = calling(
        "(float[2] x) => (float[2] y) { y = com.own.F(x) }",
        "F (x) => (y) { y = Relu(x) }",
        opset=14,
    )
    result = convert(plain, 13, ir_version=7)
    assert result.report.inlined == ()  # equal nodes: the functions are written out at the end
    assert "functions inlined (1)" in result.report.notes


def test_of_two_functions_behind_a_node_only_the_one_that_tells_the_fact_is_lost():
    shape = "G () => (y) { y = Constant<value = int64[2] {3, 2}>() }"
    before = calling(
        "(float[2,3] x) => (float[a,b] y) { p = com.own.F(x) q = com.own.G() y = Reshape(p, q) }",
        "F (x) => (y) { y = Relu(x) }",
        shape,
        opset=5,
    )
    result = convert(before, 4)
    assert (result.report.inlined, names(result.model)) == (("com.own::G",), ["F"])


def test_a_refused_function_is_kept_where_one_that_it_calls_tells_the_fact(with_adapters):
    def needing(node: Node, op: Builder) -> Result:
        """An adapter that requires a constant."""
        return op.Exp(op.const(node["X"].const()))

    with_adapters(adapter("Sqrt", 13, 12, emits=("Exp",))(needing))
    body = "F () => (y) { q = com.own.G() y = Sqrt(q) }"
    two = "G () => (y) { y = Constant<value = float[1] {2.0}>() }"
    before = calling("(float[1] x) => (float[1] y) { y = com.own.F() }", body, two, opset=13)
    result = convert(before, 12)
    assert (result.report.inlined, names(result.model)) == (("com.own::G",), ["F"])


INEXACT = "F (x) => (y) { y = Sqrt(x) }"


def approximated(node: Node, op: Builder) -> Result:
    """An adapter that is exact only if its input is a constant."""
    if node["X"].const_or_none() is None:
        op.approximate("a test")
    return op.Exp(node["X"])


def test_a_function_is_lost_where_this_avoids_an_approximation(with_adapters):
    """The function with the approximation is inlined, or the function that computes its input."""
    with_adapters(adapter("Sqrt", 13, 12, emits=("Exp",), approximate=True)(approximated))
    graph = """(float[1] x) => (float[1] y, float[1] z, float[1] w) {
        c = Constant<value = float[1] {2.0}>() y = com.own.F(c) z = com.own.H(x)
        g = com.own.G() w = Sqrt(g) }"""
    other = "H (x) => (y) { y = Sqrt(x) }"
    two = "G () => (y) { y = Constant<value = float[1] {2.0}>() }"
    before = calling(graph, INEXACT, other, two, opset=13)
    result = convert(before, 12, allow_approximate=True)
    assert (names(result.model), len(result.report.approximations)) == (["H"], 1)


def test_a_function_and_its_caller_are_lost_where_only_both_avoid_an_approximation(with_adapters):
    with_adapters(adapter("Sqrt", 13, 12, emits=("Exp",), approximate=True)(approximated))
    graph = """(float[1] x) => (float[1] y) {
        c = Constant<value = float[1] {2.0}>() y = com.own.E(c) }"""
    before = calling(graph, "E (x) => (y) { y = com.own.F(x) }", INEXACT, opset=13)
    result = convert(before, 12, allow_approximate=True)
    assert (names(result.model), result.report.approximations) == ([], ())


def test_a_function_that_nothing_calls_stays_although_it_is_approximated(with_adapters):
    with_adapters(adapter("Sqrt", 13, 12, emits=("Exp",), approximate=True)(approximated))
    before = calling("(float[1] x) => (float[1] y) { y = Neg(x) }", INEXACT, opset=13)
    assert names(convert_version(before, 12, allow_approximate=True)) == ["F"]


# -- the choices ---------------------------------------------------------------------------------------

F, G, H, K = (("own", name, "") for name in "FGHK")
Strategy = strategies.Strategy


def test_each_choice_costs_work_in_a_fixed_order():
    by_work = [
        Strategy(),
        Strategy(opset=9),
        Strategy(opset=1),
        Strategy(early=frozenset({"a type"})),
        Strategy(early=frozenset({"a type", "a form"})),
        Strategy(reinfers_between=True),
        Strategy(via_above=8),
        Strategy(via_above=9),
        Strategy(foreseen=frozenset({("", "Relu")})),
        Strategy(leaves_first=True),
        Strategy(inlined=(F,)),
        Strategy(inlined=(F, G)),
        Strategy(via_below=1),
    ]
    work = [strategy.work for strategy in by_work]
    assert work == sorted({*work})
    assert [s for s in by_work if not s.straight] == [
        s for s in by_work if s.via_above or s.via_below
    ]


CHOICES = {
    "via_above": (Strategy(via_above=9), {"via_above": 9}),
    "via_below": (Strategy(via_below=5), {"via_below": 5}),
    "reinfers_between": (Strategy(reinfers_between=True), {"reinfers_between": True}),
    "leaves": (Strategy(leaves_first=True), {"leaves": True}),
    "unread": (Strategy(foreseen=frozenset({("", "A")})), {"unread": {("", "A")}}),
    "functions": (Strategy(inlined=(F,)), {"functions": [F]}),
    "features": (
        Strategy(early=frozenset({"a type"})),
        {"features": [SimpleNamespace(says="a type", sooner=True)]},
    ),
}


def others(strategy, **choices):
    given = {"functions": (), "features": (), **choices}
    return [*strategies.alternatives(strategy, **given)]


@pytest.mark.parametrize("choice", CHOICES)
def test_an_alternative_makes_one_choice_that_the_strategy_has_not_made(choice):
    chosen, words = CHOICES[choice]
    assert others(Strategy()) == []
    assert others(Strategy(), **words) == [chosen]
    assert others(chosen, **words) == []


def test_the_opset_of_another_domain_goes_only_further_up():
    assert others(Strategy(via_above=9), via_above=8) == []
    assert others(Strategy(via_above=9), via_above=10) == [Strategy(via_above=10)]


def test_a_feature_without_an_earlier_form_is_no_choice():
    assert others(Strategy(), features=[SimpleNamespace(says="a type", sooner=False)]) == []


def test_the_newest_opset_comes_first_and_decides_about_the_operators_of_onnx():
    foreseen = frozenset({("", "A"), ("own", "B")})
    assert others(Strategy(foreseen=foreseen), opsets=[8, 9]) == [
        Strategy(foreseen=frozenset({("own", "B")}), opset=opset) for opset in (9, 8)
    ]
    assert others(Strategy(opset=9), unread=foreseen) == [
        Strategy(opset=9, foreseen=frozenset({("own", "B")}))
    ]


def test_sure_functions_are_inlined_together_and_unsure_ones_as_none_or_all():
    found = others(Strategy(), functions=[G, F], unsure=[K, H, F])
    assert [s.inlined for s in found] == [(F, G), (F, G, H, K)]
    assert [s.unsure for s in found] == [frozenset(), frozenset({H, K})]
    inlined = Strategy(inlined=(F, H), unsure=frozenset({H}))
    assert others(inlined) == []
    assert [s.inlined for s in others(inlined, functions=[F, G])] == [(F, G, H)]


def test_only_a_result_shows_which_unsure_functions_are_kept():
    """Otherwise each set of them would be a conversion: 8 of 3 functions, 1,024 of 10."""
    search, unsure = strategies.Strategies(), frozenset({G, H, K})
    together = Strategy(inlined=(F, G, H, K), unsure=unsure)
    search.reached(reached(together, 3, lost=4), ())
    fewer = [strategy.inlined for strategy in search]
    assert fewer == [(), (F, H, K), (F, G, K), (F, G, H)]
    search.refused(Strategy(inlined=(F, H, K), unsure=unsure), refused("Relu", 9), ())
    assert [*search] == []
    search.reached(reached(Strategy(inlined=(F, G, H), unsure=unsure), 3, lost=3), ())
    assert [strategy.inlined for strategy in search] == [(F, H), (F, G)]


def test_functions_are_inlined_in_one_order_so_that_no_set_is_tried_twice():
    first, second = Strategy(inlined=(F,)), Strategy(inlined=(G,))
    assert others(first, functions=[G]) == others(second, functions=[F])


def test_what_a_runtime_lacks_or_may_lack_counts_before_all_else():
    def cost(*answer, nodes=3):
        result = reached(Strategy(), nodes, ("a test",))
        runtime = SimpleNamespace(reasons=answer[0], unknown=answer[1]) if answer else None
        return replace(result, report=replace(result.report, runtime=runtime)).cost

    ascending = [cost((), ()), cost((), (), nodes=9), cost((), ("A",)), cost(("A",), ())]
    assert ascending == sorted(ascending)
    assert cost() == ascending[0]


# -- refusals ------------------------------------------------------------------------------------------


def test_the_answer_is_the_refusal_of_the_default_or_the_nearest_of_a_direct_strategy():
    search = strategies.Strategies()
    early = Strategy(early=frozenset({"a type"}))
    order = [
        (early, 9, 9),
        (early, 10, 9),  # farther from opset 5
        (Strategy(via_above=9), 6, 9),  # not direct
        (Strategy(opset=9), 6, 9),
        (early, 8, 8),
        (Strategy(inlined=(F,)), 12, 12),  # as the default, but for its functions
        (Strategy(), 13, 13),
        (early, 7, 7),
    ]
    for strategy, near, answer in order:
        search.refused(strategy, refused("Relu", near), ())
        assert search.answer.nearest == {"": answer}, strategy


def test_a_domain_that_the_refusal_did_not_reach_is_at_no_distance():
    one = RefusedNode("n", "Relu", "", (9, 8), Why.NOT_EXPRESSIBLE, "")
    assert strategies._distance(Refused([one], {"": 9}, {"": 5, "own": 2})) == 4
    assert strategies._distance(Refused([one], {"": 9, "own": 5}, {"": 11, "own": 2})) == 5


def test_the_default_is_followed_even_after_an_equal_refusal():
    search = strategies.Strategies()
    order = iter(search)
    same = refused("Relu", 13)
    search.refused(Strategy(early=frozenset({"a type"})), same, [])
    search.refused(next(order), same, [Strategy(via_above=9)])
    assert [*order] == [Strategy(via_above=9)]


def test_an_equal_result_does_not_replace_the_best_and_adds_no_other_functions():
    search = strategies.Strategies()
    order = iter(search)
    search.reached(reached(next(order), 3, ("a test",)), ())
    search.reached(
        reached(Strategy(), 3, ("a test",)), [Strategy(inlined=(F,)), Strategy(via_above=9)]
    )
    assert [*order] == [Strategy(via_above=9)]


def blocked(op, start, to, domain="", why=Why.NOT_EXPRESSIBLE, node="n"):
    return RefusedNode(node, op, domain, (start, to), why, "")


def test_the_newest_opset_of_a_wanted_ir_version_is_a_way_only_downwards():
    one = blocked("Relu", 9, 8)
    wanted = Refused([one], {"": 9}, {"": 5, "IR": 7})
    newest = max(at for at in range(1, 20) if versions.ir_for({"": at}) <= 7)
    assert strategies.opset_below(wanted, newest + 1) == newest
    assert strategies.opset_below(wanted, newest) == 0
    assert strategies.opset_below(Refused([one], {"": 9}, {"": 5}), 25) == 0


@pytest.mark.parametrize(
    ("refusal", "helps"),
    [
        (blocked("Relu", 9, 8, why=Why.NEEDS_TYPE, node="new_1"), True),
        (blocked("Relu", 9, 8, why=Why.NOT_EXPRESSIBLE, node="new_1"), False),
        (blocked("Relu", 9, 8, why=Why.NEEDS_TYPE, node="old_1"), False),
        (blocked("Relu", 9, 8, "own", why=Why.NEEDS_TYPE, node="new_1"), False),
        (blocked("Relu", 13, 12, why=Why.NEEDS_TYPE, node="new_1"), False),  # the first step
    ],
)
def test_inference_between_steps_helps_only_new_nodes_without_a_fact(refusal, helps):
    assert strategies.reinference_helps([refusal], 13, "new_") == helps
    assert strategies.reinference_helps([], 13, "new_") is False


@pytest.mark.parametrize(
    ("refusal", "opset", "above"),
    [
        (blocked("Upsample", 9, 8), 9, 11),  # Resize takes its place
        (blocked("Upsample", 9, 8), 1, 11),
        (blocked("Upsample", 9, 8), 0, 0),
        (blocked("Scatter", 10, 9), 10, 11),  # ScatterElements, which is another one at 13
        (blocked("Relu", 9, 8), 9, 0),
        (blocked("Gelu", 9, 9), 9, 20),  # it does not exist yet
        (blocked("Gelu", 9, 9), 0, 0),
        (blocked("Gelu", 1, 1), 1, 20),
        (blocked("Relu", 9, 10), 9, 0),
        (blocked("TreeEnsembleRegressor", 4, 5, "ai.onnx.ml"), 3, 7),
        (blocked("TreeEnsembleRegressor", 4, 5, "ai.onnx.ml"), 0, 0),
        (blocked("TreeEnsembleRegressor", 4, 5, "ai.onnx.ml"), 7, 0),
        (blocked("Nothing", 4, 5, "ai.onnx.ml"), 3, 0),
    ],
)
def test_a_higher_opset_is_one_at_which_the_operator_has_another_form(refusal, opset, above):
    default = registry.default()
    assert strategies.opset_above([refusal], default, opset) == above
    assert strategies.opset_above([], default, opset) == 0


@pytest.mark.parametrize(
    ("refusal", "below"),
    [
        (blocked("Gelu", 20, 21), 19),
        (blocked("Gelu", 20, 19), 0),
        (blocked("Gelu", 20, 21, "own"), 0),
        (blocked("Relu", 13, 14), 0),  # it is a Relu below, too
        (blocked("Nothing", 13, 14), 0),
    ],
)
@pytest.mark.skipif((schemas.latest("") or 0) < 21, reason="the installed onnx is older")
def test_a_lower_opset_is_one_at_which_other_operators_replace_the_refused_one(refusal, below):
    assert strategies.descent_for([refusal], registry.default()) == below


def test_an_operator_is_born_after_a_version_if_a_later_one_has_a_schema():
    assert strategies._born_after("Relu", 5) == 6
    assert strategies._born_after("Relu", 6) == 13
    assert strategies._born_after("Nothing", 6) == 0
