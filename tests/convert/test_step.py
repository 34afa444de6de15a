# SPDX-License-Identifier: Apache-2.0
"""Each step crosses one opset, applies all changes or none, and skips unchanged operators."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from opshift import AdapterBug, convert_file, convert_version
from opshift.adapter import KEEP, Refusal, T, adapter, boundary, impossible
from opshift.author import registry
from opshift.author.builder import Builder
from opshift.author.facts import ScopeEnv
from opshift.author.node import Node
from opshift.author.verdicts import ALTERNATIVE, FORM, LEAVE, RETIRED
from opshift.codes.refusals import Why
from opshift.convert import planner
from opshift.convert import step as step_module
from opshift.convert.blockers import Outgrown, StepRefused
from opshift.convert.step import Stepper, cross
from opshift.errors import FaultyChange
from opshift.model import walk
from opshift.model.scope import call_id
from opshift.opsets import schemas
from opshift.verify.oracle import evaluate
from steps import opened, stepper
from text_models import model, ops

REFUSING = """(float[2,3,4] x) => (float[2,3,4] z) {
    y = Softmax<axis=1>(x)
    z = Erf(y)
}"""


def test_a_step_that_refuses_has_changed_nothing(with_adapters):
    with_adapters(impossible("Erf", 13, 12, "it is a test", cases=[]))
    attempt = opened(model(REFUSING, 13), 12)
    before = attempt.skeleton.SerializeToString(deterministic=True)
    crossings = planner.of_document(attempt.document, registry.default(), {"": 12})
    stepper = Stepper(attempt.facts, crossings, "", 13, 12, False)
    with pytest.raises(StepRefused):
        stepper.run()
    assert attempt.skeleton.SerializeToString(deterministic=True) == before


def test_every_boundary_is_a_step_and_says_so():
    proto = model("(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }", 9)
    attempt = opened(proto, 14)
    report = attempt.run()
    assert [(s.start, s.to) for s in report.steps] == [
        (9, 10),
        (10, 11),
        (11, 12),
        (12, 13),
        (13, 14),
    ]
    assert [s.start for s in report.steps if s.rewritten] == [12]


def test_a_boundary_without_work_looks_at_no_node(monkeypatch):
    visited = []
    original = Stepper._change

    def spy(self, place, adapter, key):
        visited.append((self.start, key))
        return original(self, place, adapter, key)

    monkeypatch.setattr(Stepper, "_change", spy)
    text = "(float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Add(a, a) y = Selu(b) }"
    convert_version(model(text, 13), 22)
    assert visited == [], "floats cross every widening without a look"


def test_a_lost_type_makes_a_boundary_look(monkeypatch):
    text = "(int8[2] x) => (int8[2] y) { y = Relu(x) }"
    after = convert_version(model(text, 14), 13)
    onnx.checker.check_model(after, full_check=True)


def test_the_order_of_the_nodes_is_kept_around_what_is_written():
    text = """(float[2,3,4] x) => (float[2,3,4] y) {
        a = Neg(x) b = Softmax(a) c = Neg(b) d = Softmax(c) y = Neg(d) }"""
    after = convert_version(model(text), 13)
    soft = "Flatten Softmax Shape Reshape"
    assert ops(after) == f"Neg {soft} Neg {soft} Neg"


def test_sorting_asks_for_the_keys_in_order_and_moves_nothing_else():
    """Scope.sort passes the keys one by one, and so relies on this order."""
    proto = model("(float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) y = Neg(b) }")
    keys = iter([2, 0, 1])
    names = [node.output[0] for node in proto.graph.node]
    proto.graph.node.sort(key=lambda node: next(keys))
    assert [node.output[0] for node in proto.graph.node] == [names[1], names[2], names[0]]


def test_node_names_stay_different_when_nodes_are_called_like_their_outputs():
    proto = model("(float[2,3,4] x) => (float[2,3,4] y) { a = Softmax(x) y = Softmax(a) }")
    for node in proto.graph.node:
        node.name = node.output[0]
    names = [node.name for node in convert_version(proto, 13).graph.node]
    assert len(set(names)) == len(names) == 8
    assert {"a", "y"} < set(names)


def test_a_large_constant_crosses_the_boundaries_of_constant(tmp_path):
    value = np.arange(5000, dtype=np.float32)
    proto = model("(float[5000] x) => (float[5000] y) { y = Add(x, w) }", 13)
    node = onnx.helper.make_node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(value))
    proto.graph.node.insert(0, node)
    after = convert_version(proto, 9)
    onnx.save(proto, tmp_path / "in.onnx")
    convert_file(tmp_path / "in.onnx", tmp_path / "out.onnx", 9)
    for result in (after, onnx.load(tmp_path / "out.onnx")):
        onnx.checker.check_model(result, full_check=True)
        kept = result.graph.node[0].attribute[0].t
        assert np.array_equal(onnx.numpy_helper.to_array(kept), value)


def test_a_constant_that_shares_its_name_gives_it_up_when_it_becomes_another_operator():
    text = "(int64[2] x) => (int64[2] y) { k = Constant<value = int64[2] {1, 2}>() y = Add(x, k) }"
    proto = model(text, 9)
    for node in proto.graph.node:
        node.name = "both"
    names = [node.name for node in convert_version(proto, 8).graph.node]
    assert len(set(names)) == len(names)
    assert names[-1] == "both"


# -- how a step begins -----------------------------------------------------------------------------

GELU = "(float[2] x) => (float[2] y) { h = Gelu(x) y = Neg(h) }"
TWO = "(float[2] x) => (float[2] y) { h = Gelu(x) y = Gelu(h) }"


@adapter("Gelu", 20, 19)
def two_nodes(node, op):
    """Two nodes."""
    return op.Neg(op.Abs(node["X"]))


def test_a_step_begins_with_nothing_written_and_everything_checked():
    step = stepper(model(GELU, 20), 20, 19)
    assert (step.added, step.lowest, step.goal, step.node_budget) == (0, 1, 19, None)
    assert (step.checks, step.traces, step.settled, step.partial) == (True, False, False, False)
    assert step.boundary == (20, 19)
    assert stepper(model(GELU, 20), 20, 20).boundary == RETIRED
    assert (step.only, step.runs, step.left) == (None, None, frozenset())


def test_a_step_that_adds_too_many_nodes_ends(with_adapters):
    with_adapters(two_nodes)
    exact = stepper(model(TWO, 20), 20, 19)
    exact.node_budget = 2
    exact.run()
    assert exact.added == 2
    less = stepper(model(TWO, 20), 20, 19)
    less.node_budget = 1
    with pytest.raises(Outgrown):
        less.run()


def test_single_nodes_cross_alone(with_adapters):
    with_adapters(two_nodes)
    step = stepper(model(TWO, 20), 20, 19)
    root = step.document.roots[0]
    step.run_at(root, [root.index["", "Gelu"][1]])
    assert sorted(ops(step.document.model).split()) == ["Abs", "Gelu", "Neg"]
    (left,) = (node for node in step.document.model.graph.node if node.op_type == "Gelu")
    assert left.output == ["h"]
    assert root.imports.get("") == 20


@pytest.mark.parametrize("unread", [True, False])
def test_a_step_begins_again_without_unread_nodes(unread, with_adapters, monkeypatch):
    swept = []

    @adapter("Gelu", 20, 19)
    def refuses_at_first(node, op):
        """Refuses each node until unread nodes are removed."""
        if not swept:
            raise Refusal(Why.NOT_EXPRESSIBLE, "it is a test")
        return op.Neg(op.Abs(node["X"]))

    def sweep(document):
        swept.append(document)
        return unread

    monkeypatch.setattr(step_module, "sweep", sweep)
    with_adapters(refuses_at_first)
    done = stepper(model(TWO, 20), 20, 19)
    done.added = 5
    if unread:
        done.run()
        assert (done.added, done.step.rewritten.total()) == (7, 2)
    else:
        with pytest.raises(StepRefused):
            done.run()
    assert len(swept) == 1
    stepper(model(GELU, 20), 20, 19).run()
    assert len(swept) == 1  # nothing was refused


def test_a_step_may_write_a_part_of_the_nodes(with_adapters):
    with_adapters(impossible("Erf", 13, 12, "it is a test", cases=[]))
    text = "(float[2,3] x) => (float[2,3] y) { h = Erf(x) y = Softmax(h) }"
    partial = stepper(model(text, 13), 13, 12)
    partial.partial = True
    partial.run()
    assert partial.blockers
    assert "Erf" in ops(partial.document.model)
    assert partial.document.roots[0].imports.get("") == 12


def test_one_kind_of_node_that_stays_is_only_counted(with_adapters):
    @adapter("Gelu", 20, 19)
    def stays(node, op):
        """Leaves each node."""
        return KEEP

    with_adapters(stays)
    done = stepper(model(TWO, 20), 20, 19)
    done.checks = False
    done.run()
    assert done.step.kept == {"Gelu": 2}
    assert list(done.step.touched.values()) == [stays.source] * 2


def test_a_node_whose_claim_was_checked_is_touched(with_adapters):
    text = "(float[2] x, int64[1] s) => (float[a] y) { h = Reshape(x, s) y = Neg(h) }"
    done = stepper(model(text, 14), 14, 13)
    done.run()
    place = done.document.roots[0].index["", "Reshape"][0]
    source = done.adapters.get("", "Reshape", 14, 13).source
    assert done.step.touched == {place: source}


def test_a_step_without_graphs_to_take_apart_sets_no_version_ahead(with_adapters):
    with_adapters(two_nodes)
    done = stepper(model(GELU, 20), 20, 19)
    done.run()
    assert all(not scope.ahead for scope in done.document.scopes())


@pytest.mark.parametrize("refuses", [True, False])
def test_removed_nodes_are_judged_only_if_no_node_is_refused(refuses, with_adapters, monkeypatch):
    @adapter("Gelu", 20, 19)
    def gelu(node, op):
        """Refuses, or writes two nodes."""
        if refuses:
            raise Refusal(Why.NOT_EXPRESSIBLE, "it is a test")
        return op.Neg(op.Abs(node["X"]))

    judged = []
    monkeypatch.setattr(step_module, "refuse_what_is_read", lambda *words: judged.append(words))
    with_adapters(gelu)
    done = stepper(model(GELU, 20), 20, 19)
    done.partial = True
    done.run()
    assert len(judged) == (0 if refuses else 1)


def test_an_operator_of_another_domain_is_read_as_it_was_born():
    step = stepper(model(GELU, 20), 20, 19)
    gelu = step.adapters.get("", "Gelu", 20, 19)
    task = step._own_task(("ai.onnx.ml", "Scaler"), gelu)
    assert (task.schema.name, task.schema.since) == ("Scaler", 1)
    assert step._own_task(("acme", "Op"), gelu).schema is None


def test_a_claim_that_holds_for_a_node_is_touched_but_is_no_change(with_adapters):
    """The step reads a node whose type the new opset lacks, and skips a node of another type."""
    text = "(int8[2] x, float[2] z) => (int8[2] y, float[2] w) { y = Relu(x) w = Relu(z) }"
    done = stepper(model(text, 14), 14, 13)
    done.run()
    assert done.step.kept["Relu"] == 1
    assert len(done.step.touched) >= 1
    step = stepper(model("(float[2] x) => (float[2] y) { y = Relu(x) }", 14), 14, 13)
    step.run()
    assert (step.step.kept["Relu"], step.step.touched) == (1, {})


# -- operators without a verdict -------------------------------------------------------------------


def refused(made, **options):
    """Returns the refusals of a step from opset 20 to 19 for which no verdict is known."""
    step = stepper(made, 20, 19)
    for name, value in options.items():
        setattr(step, name, value)
    step.plan = SimpleNamespace(verdict=lambda key, at: None, adapters=step.adapters, edge=None)
    with pytest.raises(StepRefused) as caught:
        step.run()
    return caught.value.refusals


def test_each_node_without_a_verdict_is_refused(monkeypatch):
    many = refused(model(TWO, 20))
    assert [(refusal.node, refusal.why) for refusal in many] == [
        ("h", Why.UNREVIEWED),
        ("y", Why.UNREVIEWED),
    ]
    known = registry.default()
    monkeypatch.setattr(type(known), "get", lambda *_: None)
    assert {refusal.why for refusal in refused(model(TWO, 20))} == {Why.NO_ADAPTER}


def test_an_operator_that_cannot_leave_its_domain_is_named_so():
    made = refused(model(TWO, 20), left=frozenset({("", "Gelu")}), boundary=LEAVE)
    assert {refusal.why for refusal in made} == {Why.DOMAIN_LEFT}


def test_the_operators_that_need_a_verdict():
    text = "(float[2] x) => (float[2] y) { a = Gelu(x) b = Neg(a) c = acme.Op(b) y = Mish(c) }"
    proto = model(text, 20, more=', "acme" : 1')
    step = stepper(proto, 20, 19)
    root, gelu = step.document.roots[0], step.adapters.get("", "Gelu", 20, 19)
    assert sorted(step._keys(root)) == [("", "Gelu")]
    step.boundary, step.left = LEAVE, frozenset({("acme", "Op"), ("acme", "Other")})
    assert set(step._keys(root)) == {("acme", "Op")}
    step.adapters = SimpleNamespace(
        get=lambda domain, op, *at: gelu if (op, at) == ("Neg", FORM) else None,
        replaced=lambda *asked: {("", "Mish")} if asked == (root, "", 20, 19) else set(),
    )
    step.boundary = RETIRED
    assert set(step._keys(root)) == {("", "Mish")}
    step.boundary = FORM
    assert set(step._keys(root)) == {("", "Neg")}


# -- versions of domains ---------------------------------------------------------------------------


def test_a_step_writes_at_the_version_that_it_enters():
    step = stepper(model(GELU, 20, more=', "acme" : 3'), 20, 19)
    root = step.document.roots[0]
    assert step.version(root, "") == 19
    assert step.version(root, "acme") == 3
    assert step.enters == ""
    step.left = frozenset({("acme", "Op")})
    assert step.enters == ""
    step.domain, step.left = "acme", frozenset()
    assert step.enters == "acme"
    step.left = frozenset({("acme", "Op")})
    assert step.enters == ""


def test_a_domain_that_is_not_imported_is_added_at_the_version_that_verdicts_need(monkeypatch):
    step = stepper(model(GELU, 20), 20, 19)
    root, met = step.document.roots[0], []

    def lowest(verdicts, domain):
        met.extend(verdicts)
        return 5

    monkeypatch.setattr(planner, "lowest_to_write", lowest)
    assert step.version(root, "acme") == 5
    assert root.imports.get("acme") == 5
    assert [one.ops for one in met] == [step.adapters.get("", "Gelu", 20, 19).ops]


def test_the_verdicts_that_may_write_in_another_domain():
    step = stepper(model(GELU, 20), 20, 19)
    gelu, asked = step.adapters.get("", "Gelu", 20, 19), []

    class Asked:
        def get(self, domain, op, start, to):
            asked.append((op, (start, to)))
            return gelu if op == "Gelu" else None

    step.adapters = Asked()
    assert list(step._met("acme")) == [gelu]
    assert set(asked) == {("Gelu", (20, 19)), ("Neg", (20, 19))}
    step.left = frozenset({("", "Gelu")})
    asked.clear()
    assert list(step._met("")) == [gelu]
    assert set(asked) == {("Gelu", LEAVE), ("Neg", (20, 19))}
    asked.clear()
    list(step._met("acme"))
    assert set(asked) == {("Gelu", (20, 19)), ("Neg", (20, 19))}


# -- bugs of adapters ------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
def test_a_bug_names_its_boundary_its_adapter_once_and_its_node(named, with_adapters, monkeypatch):
    def fails(*_):
        raise AdapterBug(f"{two_nodes.source} is wrong" if named else "it is wrong")

    monkeypatch.setattr(step_module, "name_outputs", fails)
    with_adapters(two_nodes)
    with pytest.raises(FaultyChange) as caught:
        stepper(model(GELU, 20), 20, 19).run()
    who = "" if named else f"{two_nodes.source} "
    message = f"{two_nodes.source} is wrong" if named else "it is wrong"
    assert str(caught.value) == f"at ai.onnx 20->19, {who}on Gelu 'h': {message}"


def test_only_a_traced_step_collects_suspects(with_adapters, monkeypatch):
    with_adapters(two_nodes)
    for lengths in ([], ["'h' is longer"]):
        monkeypatch.setattr(step_module, "suspect_lengths", lambda change, found=lengths: found)
        for traces in (False, True):
            done = stepper(model(GELU, 20), 20, 19)
            done.traces = traces
            done.run()
            expected = [
                f"{two_nodes.source} wrote for Gelu 'h' at ai.onnx 20->19: {length}"
                for length in lengths
            ]
            assert [suspect.text for suspect in done.step.suspects] == expected * traces


@pytest.mark.parametrize("checks", [True, False])
def test_a_kind_of_change_is_checked_once(checks, with_adapters, monkeypatch):
    with_adapters(two_nodes)
    checked = []
    monkeypatch.setattr(step_module.rules, "before_step", checked.append)
    done = stepper(model(TWO, 20), 20, 19)
    done.checks = checks
    done.run()
    assert [one.node.proto.output[0] for one in checked] == ["h", "y"] * checks
    for one in checked:
        assert (one.domain, one.to) == ("", 19)


def test_an_approximation_must_be_declared(with_adapters):
    @adapter("Gelu", 20, 19)
    def undeclared(node, op):
        """Asks for permission to approximate, without declaring an approximation."""
        op.approximate("nearly equal")
        return op.Neg(node["X"])

    with_adapters(undeclared)
    with pytest.raises(FaultyChange, match="does not declare it"):
        stepper(model(GELU, 20), 20, 19, approximate=True).run()


# -- graphs that an adapter takes apart ------------------------------------------------------------

IF = """(float[2] x, bool c) => (float[2] y) {
    y = If (c) <then_branch = t () => (float[2] r) { h = Identity(x) r = Neg(h) },
                else_branch = e () => (float[2] s) { s = Identity(x) }> }"""


def taking(again=None):
    """Returns an adapter that replaces an If by the nodes of a branch."""
    calls = []

    @adapter("If", 21, 20, ignores={"else_branch": "it is a test", "cond": "it is a test"})
    def takes(node, op):
        """Takes the first branch."""
        calls.append([one.op_type for one in node.graph("then_branch").node])
        if len(calls) > 1 and again is not None:
            return again(node, op)
        return op.inline(node.graph("then_branch"))

    return takes, calls


@adapter("Identity", 21, 20)
def identity_in_two_nodes(node, op):
    """Two nodes."""
    return op.Neg(op.Abs(node["input"]))


def if_at_21(with_adapters, takes):
    """A step that changes an If and the nodes inside."""
    with_adapters(identity_in_two_nodes, takes)
    return stepper(model(IF, 21, ir=10), 21, 20)


def test_a_graph_is_taken_apart_once_its_own_nodes_are_written(with_adapters, monkeypatch):
    takes, calls = taking()
    done = if_at_21(with_adapters, takes)
    checked, passed = [], []
    original = Stepper._pass_imports
    monkeypatch.setattr(
        Stepper, "_pass_imports", lambda self, at: passed.append(len(at)) or original(self, at)
    )
    monkeypatch.setattr(step_module.rules, "before_step", checked.append)
    done.run()
    assert passed == [4, 3]  # the nodes of both branches, and those in place of the If
    assert sorted(ops(done.document.model).split()) == ["Abs", "Neg", "Neg"]
    assert [sorted(call) for call in calls] == [["Identity", "Neg"], ["Abs", "Neg", "Neg"]]
    assert done.settled
    assert [case.adapter.source for case in checked].count(takes.source) == 1
    assert all(not scope.ahead for scope in done.document.scopes())


def test_inner_graphs_are_taken_apart_first(with_adapters):
    inner = "z = If (c) <then_branch = u () => (float[2] p) { p = Identity(x) }, else_branch = v () => (float[2] q) { q = Abs(x) }>"
    text = IF.replace("h = Identity(x)", f"{inner} h = Identity(z)")
    takes, calls = taking()
    with_adapters(identity_in_two_nodes, takes)
    done = stepper(model(text, 21, ir=10), 21, 20)
    done.run()
    assert "If" not in ops(done.document.model)
    assert "If" not in calls[-1]


def test_a_second_answer_may_be_that_the_node_stays(with_adapters, monkeypatch):
    takes, calls = taking(lambda node, op: KEEP)
    done = if_at_21(with_adapters, takes)
    done.run()
    assert ops(done.document.model) == "If"
    assert len(calls) == 2


def test_two_different_answers_about_one_node_are_a_bug(with_adapters, monkeypatch):
    def refuses(node, op):
        raise Refusal(Why.NOT_EXPRESSIBLE, "not now")

    takes, _ = taking(refuses)
    with pytest.raises(AdapterBug, match="gave two different answers for one If node"):
        if_at_21(with_adapters, takes).run()


def test_types_that_hold_until_another_type_occurs_are_kept(monkeypatch):
    done = stepper(model(GELU, 20), 20, 19)
    recorded = []
    monkeypatch.setattr(
        type(done.facts), "record_type",
        lambda self, scope, name, kind, *, claimed, counted=False: recorded.append(
            (name, kind.tensor_type.elem_type, claimed)
        ),
    )  # fmt: skip
    monkeypatch.setattr(
        type(done.facts), "type", lambda self, scope, name, *more: name == "x" or None
    )
    kinds = {"x": T.FLOAT, "h": T.DOUBLE, "y": 0, "nowhere": T.FLOAT}
    values = [SimpleNamespace(name=name, elem_type_or_none=kind) for name, kind in kinds.items()]
    node = SimpleNamespace(inputs=[None, *values], outputs=[None])
    monkeypatch.setattr(step_module, "Node", lambda *_: node)
    scope = done.document.roots[0].top
    done._hold_types(
        SimpleNamespace(place=(scope, 0), node=SimpleNamespace(proto=None, schema=None))
    )
    assert recorded == [("h", T.DOUBLE, False)]  # the only one that is defined and not known


def test_written_nodes_keep_their_version_until_the_imports_follow():
    step = stepper(
        model(
            "(float[2] x) => (float[2] y) { h = Gelu(x) y = acme.Op(h) }", 20, more=', "acme" : 1'
        ),
        20,
        19,
    )
    scope = step.document.roots[0].top
    step._pass_imports([(scope, 0), (scope, 1)])
    assert dict(scope.ahead) == {0: 19}


# -- forms for runtimes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "allowed", "answer", "expected"),
    [
        (None, False, None, True),
        (None, True, None, True),
        (True, True, object(), False),
        (True, False, object(), True),
        (True, False, None, False),
        (True, False, AdapterBug("a bug"), True),
    ],
)
def test_a_form_that_needs_permission_is_named_only_if_it_then_runs(
    runs, allowed, answer, expected, monkeypatch
):
    step = stepper(model(GELU, 20), 20, 19, approximate=allowed)
    step.runs = None if runs is None else lambda change: True
    seen = []

    def changed(self, place, task):
        seen.append(self.allow_approximate)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Stepper, "_changed", changed)
    assert step._runs_if_allowed(None, None) is expected
    assert step.allow_approximate is allowed
    assert seen == ([True] if runs and not allowed else [])


@pytest.mark.parametrize(
    ("why", "runs", "withheld"),
    [
        (Why.APPROXIMATE_ONLY, True, {("", "Gelu"): "nearly"}),
        (Why.APPROXIMATE_ONLY, False, {}),
        (Why.NOT_EXPRESSIBLE, True, {}),
    ],
)
def test_an_equal_form_that_is_refused_blocks_nothing(
    why, runs, withheld, with_adapters, monkeypatch
):
    @adapter("Gelu", 20, 19, approximate=True)
    def refuses(node, op):
        """Refuses each node."""
        raise Refusal(why, "nearly")

    with_adapters(refuses)
    monkeypatch.setattr(Stepper, "_runs_if_allowed", lambda *_: runs)
    step = stepper(model(GELU, 20), 20, 19)
    task = step._own_task(("", "Gelu"), refuses)
    place = step.document.roots[0].index["", "Gelu"][0]
    step.boundary = ALTERNATIVE
    assert step._changed(place, task) is None
    assert (step.withheld, bool(step.blockers)) == (withheld, False)
    step.boundary = (20, 19)
    assert step._changed(place, task) is None
    assert step.blockers


@pytest.mark.parametrize("runs", [True, False])
def test_a_change_that_a_runtime_does_not_run_is_not_made(runs, with_adapters):
    with_adapters(two_nodes)
    done = stepper(model(GELU, 20), 20, 19)
    done.runs = lambda change: runs
    done.run()
    assert set(ops(done.document.model).split()) == ({"Abs", "Neg"} if runs else {"Gelu", "Neg"})


# -- verdicts inside of adapters -------------------------------------------------------------------


def crossed(op_type, start, to, adapters, opset=13, kind="float"):
    """Returns the result for one node of a model at a boundary."""
    proto = model(f"({kind}[2] x) => ({kind}[2] y) {{ y = {op_type}(x) }}", opset)
    step = stepper(proto, opset, opset - 1)
    scope = step.document.roots[0].top
    env = ScopeEnv(step.facts, scope)
    op = Builder(step, env, subject=scope.node(0))
    node = Node(scope.node(0), schemas.schema("", op_type, opset), op.env)
    return cross(adapters, node, start, to, op), op


def test_a_node_whose_operator_does_not_change_stays():
    assert crossed("Relu", 11, 10, None, opset=12)[0] is KEEP  # no verdict is asked for


@pytest.mark.parametrize("fingerprint", [None, ":000000"])
def test_a_node_without_a_reviewed_verdict_is_a_bug(fingerprint):
    claim = fingerprint and boundary(13, f"Erf{fingerprint}")[0]
    adapters = SimpleNamespace(get=lambda *_: claim)
    with pytest.raises(AdapterBug, match="no adapter converts Erf from 13 to 12"):
        crossed("Erf", 13, 12, adapters)


def test_a_verdict_answers_for_a_node_that_an_adapter_writes():
    adapters = registry.default()
    assert crossed("Erf", 13, 12, adapters)[0] is KEEP
    answer, op = crossed("Relu", 14, 13, adapters, opset=14, kind="int8")
    assert answer is not KEEP
    assert op.made.nodes


OMITTING = {
    "empty": '{ y = m.F(x, "") }',
    "missing": "{ y = m.F(x) }",
    "one of two calls": "{ k = Constant<value = float {0.5}>() h = m.F(x, k) y = m.F(h) }",
    "through a caller": "{ y = m.Outer(x) }",
}
CLIPPING = """
<domain: "m", opset_import: ["" : 12]> F (a, low) => (b) { b = Clip(a, low) }
<domain: "m", opset_import: ["" : 12, "m" : 1]> Outer (a, low) => (b) { b = m.F(a, low) }
"""


@pytest.mark.parametrize("text", OMITTING.values(), ids=OMITTING)
def test_a_function_with_an_input_that_a_call_omits_is_inlined(text):
    proto = model(f"(float[2] x) => (float[2] y) {text} {CLIPPING}", more=', "m" : 1')
    result = convert_version(proto, 10)
    assert not any(call_id(node)[0] == "m" for node in walk.nodes(result))
    x = np.float32([-1, 2])
    assert (evaluate(result, {"x": x})[0] == evaluate(proto, {"x": x})[0]).all()
    assert len(convert_version(proto, 11).functions) == 2  # Clip stays as it is


def test_a_function_stays_if_each_call_has_the_input():
    text = "{ k = Constant<value = float {0.5}>() y = m.F(x, k) }"
    proto = model(f"(float[2] x) => (float[2] y) {text} {CLIPPING}", more=', "m" : 1')
    assert [function.name for function in convert_version(proto, 10).functions] == ["F", "Outer"]
