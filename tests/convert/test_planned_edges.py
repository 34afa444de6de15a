# SPDX-License-Identifier: Apache-2.0
"""The plan contains every step of an operator and every rewrite of an IR feature."""

from __future__ import annotations

import dataclasses
import random
import sys
from types import SimpleNamespace
from typing import Any

import opshift_adapters
import pytest
from onnx import ModelProto, SparseTensorProto, TensorProto, helper
from opshift import AdapterBug, MissingExtra, Refused, convert, convert_file, convert_version
from opshift.adapter import Builder, Node, Result, adapter
from opshift.author import registry
from opshift.author.verdicts import ALTERNATIVE, FORM, LEAVE, RETIRED
from opshift.convert import plan_table, planner, verdict_edges
from opshift.convert.ir import ir_plan
from opshift.convert.ir.features import BARE, BROUGHT, FEATURES, FUNCTIONS, METADATA, TRAINING
from opshift.opsets import schemas
from opshift.testing import example_target
from opshift.versions import NEWEST_IR
from text_models import model

import examples
from examples import converted

SEED, SAMPLE = 20261122, 60
RELU = "(float[2] x) => (float[2] y) { y = Relu(x) }"
GELU = """<float r = {1.4142135}, float one = {1}, float half = {0.5}> {
    d = Div(x, r) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half) }"""


def written_by(kind: tuple[int, int]) -> examples.Case:
    """Returns an example that a verdict of this kind rewrites."""
    return next(
        case
        for case in examples.cases()
        if (case.adapter.start, case.adapter.to) == kind
        and not (case.example.refuses or case.example.approximate)
        and not examples.too_new(case)
    )


@pytest.mark.parametrize("kind", [RETIRED, LEAVE])
def test_a_replacement_without_a_planned_edge_is_a_bug(kind, monkeypatch):
    case, plan_of = written_by(kind), planner.of_document

    def without_the_edge(*given):
        plan = plan_of(*given)
        plan.edges = {at: edge for at, edge in plan.edges.items() if at[2:] != kind}
        return plan

    assert converted(case)
    monkeypatch.setattr(planner, "of_document", without_the_edge)
    with pytest.raises(AdapterBug, match="the plan does not contain"):
        converted(case)


@pytest.mark.parametrize("kind", [FORM, ALTERNATIVE])
def test_a_form_of_an_operator_that_the_plan_does_not_lead_to_is_a_bug(kind, monkeypatch):
    case = written_by(kind)
    assert converted(case)
    monkeypatch.setattr(planner.CrossingPlan, "add_forms", lambda *given: None)
    with pytest.raises(AdapterBug, match="the plan does not contain"):
        converted(case)


def test_a_newer_operator_for_what_the_plan_does_not_lead_to_is_a_bug(monkeypatch):
    before = model(f"(float[2,3] x) => (float[2,3] y) {GELU}", 20)
    assert [node.op_type for node in convert_version(before, 20, modernize=True).graph.node] == [
        "Gelu"
    ]
    monkeypatch.setattr(planner.CrossingPlan, "add_forms", lambda *given: None)
    with pytest.raises(AdapterBug, match="the plan does not contain the verdict `modern`"):
        convert_version(before, 20, modernize=True)


def test_a_plan_leads_to_what_its_verdicts_write_and_to_nothing_else():
    document = SimpleNamespace(roots=[], versions_of=lambda domain: [])
    plan = planner.of_document(document, registry.default(), {"": 7})
    assert ("", "Erf") not in plan.leads_to()
    plan.follow("", ["Gelu"], 20, 7)
    assert ("", "Erf") in plan.leads_to()
    assert ("", "Relu") not in plan.leads_to()


@pytest.fixture
def unsolved(monkeypatch):
    """Removes the table of solved verdicts, and the library that solves them."""
    branch = registry.default().branch()  # one that has solved nothing so far
    monkeypatch.setattr(registry, "default", lambda: branch)
    monkeypatch.setattr(plan_table, "_table", dict)
    monkeypatch.setitem(sys.modules, "networkx", None)
    ir_plan.solved.cache_clear()
    yield
    ir_plan.solved.cache_clear()


def options_for(proto: ModelProto) -> list[dict[str, Any]]:
    """Returns options that keep the opset of the model."""
    ir = proto.ir_version
    return [
        {"ir_version": min(ir + 1, NEWEST_IR)}, {"ir_version": ir}, {"ir_version": max(3, ir - 1)},
        {"ir_version": 3, "allow_approximate": True}, {"ir_version": "keep"}, {},
        {"ir_version": ir, "drop_metadata": True}, {"ir_version": "keep", "drop_training": True},
        {"modernize": True}, {"modernize": True, "ir_version": "keep"}, {"minimal": True},
        {"domains": ["ai.onnx"]}, {"target": {"": proto.opset_import[0].version}},
    ]  # fmt: skip


def test_without_the_table_and_the_graph_library_no_example_converts(unsolved):
    cases = [case for case in examples.cases() if not examples.too_new(case)]
    fit = [case for case in cases if not (case.example.invalid or case.example.refuses)]
    for case in random.Random(SEED).sample(fit, SAMPLE):
        proto, target = examples.model_of(case), example_target(case.adapter, case.example)
        for options in ({"target": target, **case.example.options}, *options_for(proto)):
            with pytest.raises(MissingExtra, match="networkx"):
                convert_version(proto, **options)


def test_without_the_table_and_the_graph_library_no_file_converts(unsolved, tmp_path):
    """This also holds if only the IR version changes, and no plan was solved before."""
    source, result = tmp_path / "a.onnx", tmp_path / "b.onnx"
    proto = model(chain("Relu"), 13, ir=8)
    source.write_bytes(data := proto.SerializeToString())
    for options in options_for(proto):
        with pytest.raises(MissingExtra, match="networkx"):
            convert_file(source, result, **options)
        with pytest.raises(MissingExtra, match="networkx"):
            convert_file(source, source, in_place=True, **options)
        assert not result.exists()
        assert source.read_bytes() == data


@pytest.mark.parametrize("options", [{"ir_version": 9}, {"ir_version": 7}, {"modernize": True}])
def test_the_table_or_the_graph_library_alone_is_enough(options, monkeypatch):
    before = model("(float[2] x) => (float[2] y) { y = Relu(x) }", 20, ir=8)
    expected = convert_version(before, **options)
    ir_plan.solved.cache_clear()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "networkx", None)
        assert convert_version(before, **options) == expected
    with monkeypatch.context() as patch:
        patch.setattr(plan_table, "_table", dict)
        assert convert_version(before, **options) == expected


def chain(op: str) -> str:
    """A graph of one node."""
    return f"(float[2] x) => (float[2] y) {{ y = {op}(x) }}"


@pytest.mark.parametrize("op", ["Relu", "Identity", "acme.Run"])
@pytest.mark.parametrize("step", [1, -1])
def test_without_the_table_and_the_graph_library_no_opset_is_left(step, op, unsolved):
    """This also holds if no operator that may occur changes at the next opset."""
    for start in range(1, schemas.latest("") or 0):
        pair = (start, start + 1) if step > 0 else (start + 1, start)
        before = model(chain(op), pair[0], ir=10, more=', "acme" : 1')
        with pytest.raises(MissingExtra, match="networkx"):
            convert_version(before, pair[1])


def test_without_the_table_and_the_graph_library_no_other_domain_is_left(unsolved):
    text = """(float[2,3] x) => (float[2,3] y) {
        y = ai.onnx.ml.Scaler<offset = [0.0], scale = [1.0]>(x) }"""
    with pytest.raises(MissingExtra, match="networkx"):
        convert_version(model(text, 13, more=', "ai.onnx.ml" : 3'), {"ai.onnx.ml": 2})


def test_without_the_table_alone_each_verdict_is_solved(monkeypatch):
    plan_table._table.cache_clear()

    def absent(package, name):
        raise FileNotFoundError(name)

    monkeypatch.setattr(plan_table.plugins, "data", absent)
    branch = registry.default().branch()
    monkeypatch.setattr(registry, "default", lambda: branch)
    try:
        assert convert_version(model(RELU, 14), 12).opset_import[0].version == 12
        assert branch.solved
    finally:
        plan_table._table.cache_clear()


# -- features of the IR ----------------------------------------------------------------------------


def sparse(ir: int = 11) -> ModelProto:
    """A model with a sparse initializer, which IR 5 and older lack."""
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [1])
    proto = model("(float[3] x) => (float[3] y) { y = Add(x, w) }", 13, ir=ir)
    proto.graph.sparse_initializer.append(
        SparseTensorProto(values=values, indices=indices, dims=[3])
    )
    return proto


def test_a_lowered_feature_leads_to_what_its_older_form_has():
    held = [feature for feature in FEATURES if feature.says == "a sparse initializer"]
    plan = ir_plan.of_features(held, rewrite=True, drop=(), inline=False)
    edge = plan[held[0]]
    assert (edge.start, edge.to, edge.verdict, edge.writes) == (6, 5, "lower", (BARE.key,))
    assert ir_plan.due(plan, 3, rewrite=True, inline=False)[-2:] == [held[0], BARE]
    assert convert_version(sparse(), ir_version=3).graph.input[1].name == "w"


def calling() -> ModelProto:
    """A model with a function, which IR 7 and older lack."""
    text = """(float[2] x) => (float[2] y) { y = own.Half(x) }
        <opset_import: ["" : 13], domain: "own"> Half (x) => (y) { y = Relu(x) }"""
    return model(text, 13, more=', "own" : 1')


@pytest.mark.parametrize(
    ("before", "target", "ir", "meets"),
    [
        (sparse(), None, 5, "a sparse initializer from IR 6 to 5"),
        (calling(), None, 7, "a model-local function from IR 8 to 7"),
        (calling(), 12, 7, "a model-local function from IR 8 to 7"),
    ],
)
def test_a_lowering_without_a_planned_edge_is_a_bug(before, target, ir, meets, monkeypatch):
    assert convert_version(before, target, ir_version=ir).ir_version == ir
    monkeypatch.setattr(ir_plan, "of_features", lambda *given, **known: {})
    with pytest.raises(AdapterBug, match=f"the plan cannot lower {meets}"):
        convert_version(before, target, ir_version=ir)


def test_a_feature_that_only_an_adapter_brought_is_a_bug(with_adapters):
    def scattered(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        tensor = sparse().graph.sparse_initializer[0]
        tensor.dims[:] = [2]
        return op.Add(node["X"], op.Constant(sparse_value=tensor))

    with_adapters(adapter("Relu", 14, 13)(scattered))
    before = model(RELU, 14)
    assert convert_version(before, 13, ir_version=8).graph.node[0].op_type == "Constant"
    with pytest.raises(AdapterBug, match="a sparse tensor in an attribute from IR 6 to 5"):
        convert_version(before, 13, ir_version=5)


def test_what_steps_may_bring_is_always_planned():
    plan = ir_plan.of_features((), rewrite=True, drop=(), inline=False)
    assert plan.keys() == {*BROUGHT}


def test_a_row_that_contradicts_a_feature_is_solved_again(monkeypatch):
    row = dataclasses.replace(ir_plan.edge_of(FUNCTIONS, down=True), verdict="impossible")
    monkeypatch.setattr(ir_plan, "shipped", lambda *_: row)
    edge = ir_plan.edge_of(FUNCTIONS, down=True)
    assert (edge.verdict, edge.reach) == ("lower", 1)
    assert ir_plan.edge_of(FUNCTIONS, down=False).verdict == plan_table.LAST


def test_content_without_an_older_form_is_a_dead_end_that_the_refusal_names():
    trained = model(RELU, 13)
    trained.training_info.add().algorithm.name = "none"
    with pytest.raises(Refused) as caught:
        convert(trained, ir_version=6)
    assert caught.value.dead_ends == ("training information, IR 7->6",)
    assert convert(trained, ir_version=6, drop_training=True).model.ir_version == 6


@pytest.mark.parametrize(
    ("drop", "inline", "expected"),
    [((), False, {"lower", "keep", "impossible"}), ((METADATA, TRAINING), True, {"lower", "remove", "impossible"})],
)  # fmt: skip
def test_each_feature_has_one_verdict(drop, inline, expected):
    plan = ir_plan.of_features(FEATURES, rewrite=True, drop=drop, inline=inline)
    assert plan.keys() == {*FEATURES}
    assert {edge.verdict for edge in plan.values()} == expected
    for feature, edge in plan.items():
        assert (edge.verdict == "impossible") == (
            feature.lower is None or (feature.drop == TRAINING and TRAINING not in drop)
        )


def test_functions_are_written_out_first_for_a_runtime_that_has_none():
    plan = ir_plan.of_features(FEATURES, rewrite=False, drop=(), inline=True)
    assert ir_plan.due(plan, 11, rewrite=False, inline=True) == [FUNCTIONS]


def test_a_row_is_believed_without_the_import_of_its_module():
    """A verdict that was added later is used instead of the row of the index."""
    registry_ = registry.Registry()
    registry_.load(opshift_adapters)
    found = verdict_edges.edge_of(registry_, "", "Softmax", 11, down=False)
    assert found == plan_table.shipped("", "Softmax", 11, False)
    assert registry_.is_as_indexed(("", "Softmax", 12, 13))
    assert registry_.get("", "Softmax", 12, 13) is not None
    assert not registry_.is_as_indexed(("", "Softmax", 12, 13))
    assert verdict_edges.edge_of(registry_.branch(), "", "Softmax", 11, down=False) == found


def test_a_form_is_planned_without_the_import_of_its_module(with_adapters) -> None:
    """The row equals the declaration; only a form without a row is read from the module."""
    registry_ = registry.Registry()
    registry_.load(opshift_adapters)
    for op, place in ("Reshape", FORM), ("Add", ALTERNATIVE):
        row = verdict_edges.form_edge(registry_, "", op, place)
        assert row is not None
        assert registry_.is_as_indexed(("", op, *place))
        assert row == verdict_edges.form_edge(registry.default().branch(), "", op, place)
    assert verdict_edges.form_edge(registry_, "", "Relu", FORM) is None

    @adapter("Relu", *FORM, emits="Neg Max")
    def relu(node: Node, op: Builder) -> Result:
        """Changes nothing, unlike its declaration."""
        return op.same(node)

    with_adapters(relu)
    found = verdict_edges.form_edge(registry.default(), "", "Relu", FORM)
    assert found is not None
    assert (found.verdict, found.writes) == ("rewrite", ("Max", "Neg", "Relu"))


@pytest.mark.parametrize("down", [True, False])
def test_an_operator_that_stays_gets_as_far_as_its_next_version(down):
    """This also holds if the adapter writes Casts around nodes of some types."""
    for op in schemas.operators(""):
        for schema in schemas.history("", op):
            edge = verdict_edges.edge_of(registry.default(), "", op, schema.since, down=down)
            if edge is not None and edge.verdict == plan_table.COMPATIBLE:
                after = schemas.schema("", op, edge.to)
                assert after is not None
                row = plan_table.shipped("", op, after.since, down)
                assert row is None or edge.reach == row.reach, (op, schema.since)
