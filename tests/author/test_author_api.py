# SPDX-License-Identifier: Apache-2.0
"""The functions that an author of adapters calls, and the error message for each misuse."""

from __future__ import annotations

import operator

import pytest
from onnx import TensorProto
from opshift import AdapterBug, Refused, Why, convert_version
from opshift.adapter import KEEP, Builder, Node, Refusal, Result, adapter, boundary, example
from opshift.author.node import Inputs
from opshift.author.registry import Registry
from opshift.combinators import attribute_becomes_input, enum_grew
from text_models import model, ops

SOFTMAX = "(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }"


def declared(body, **options):
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return body(node, op)

    ignores = {"axis": "the tests write anything", "input": "the tests write anything"}
    return adapter("Softmax", 12, 13, ignores=ignores, **options)(run)


def converted(with_adapters, body, **options):
    with_adapters(declared(body, **options))
    return convert_version(model(SOFTMAX), 13)


def test_keep_keeps_the_node(with_adapters):
    before = model(SOFTMAX)
    after = converted(with_adapters, lambda node, op: KEEP)
    assert after.graph == before.graph


def test_values_replace_the_node_and_the_output_keeps_its_name(with_adapters):
    after = converted(with_adapters, lambda node, op: op.Exp(op.Neg(node["input"])))
    assert ops(after) == "Neg Exp"
    assert after.graph.node[-1].output == ["y"]


def test_an_input_as_answer_becomes_an_identity(with_adapters):
    after = converted(with_adapters, lambda node, op: node["input"])
    assert ops(after) == "Identity"


def test_a_refusal_names_node_operator_boundary_and_reason(with_adapters):
    def refuse(node, op):
        raise Refusal(Why.NOT_EXPRESSIBLE, "it is a test")

    with_adapters(declared(refuse))
    with pytest.raises(Refused) as caught:
        convert_version(model(SOFTMAX), 13)
    (one,) = caught.value.refusals
    assert (one.node, one.op, one.boundary, one.why) == (
        "y",
        "Softmax",
        (12, 13),
        Why.NOT_EXPRESSIBLE,
    )
    assert caught.value.nearest == {"": 12}
    assert isinstance(caught.value, RuntimeError)


def test_all_refusals_of_a_boundary_are_in_one_answer(with_adapters):
    def refuse(node, op):
        raise Refusal(Why.NOT_EXPRESSIBLE, "it is a test")

    with_adapters(declared(refuse))
    two = "(float[2,3] x) => (float[2,3] z) { y = Softmax<axis=1>(x) z = Softmax<axis=1>(y) }"
    with pytest.raises(Refused) as caught:
        convert_version(model(two), 13)
    assert [refusal.node for refusal in caught.value.refusals] == ["y", "z"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (lambda node, op: None, "returned None: an adapter returns KEEP, a value or values"),
        (lambda node, op: node["data"], "has no input 'data'"),
        (lambda node, op: node.variadic("inputs"), "has no input 'inputs'"),
        (lambda node, op: node.int("axes"), "has no attribute 'axes'"),
        (lambda node, op: op.same(node, axes=1), "has no attribute 'axes'"),
        (lambda node, op: op.same(node, inputs={"data": None}), "has no input 'data'"),
        (lambda node, op: op.Exp(3), "which is not a Value"),
        (lambda node, op: op.Expp(node["input"]), "Expp does not exist at ai.onnx 13"),
        (lambda node, op: op.Upsample(node["input"]), "Upsample is deprecated at ai.onnx 13"),
        (lambda node, op: op.Exp(node["input"], axis=1), "has no input or attribute 'axis'"),
        (lambda node, op: (), "returned 0 values for the 1 outputs"),
        (lambda node, op: op.const(0.5), "give dtype= or like="),
        (lambda node, op: 1 // 0, "raised ZeroDivisionError"),
    ],
)
def test_a_mistake_gets_a_sentence_that_says_where(with_adapters, body, sentence):
    with pytest.raises(AdapterBug) as caught:
        converted(with_adapters, body)
    assert sentence in str(caught.value)
    assert "run" in str(caught.value), "the sentence names the function"


@pytest.mark.parametrize("given", [(), ("axis",), ("input",), ("axis", "input")])
def test_what_an_adapter_overlooks_is_its_bug(with_adapters, given):
    reads = {"axis": lambda node: node.attr("axis"), "input": lambda node: node["input"]}

    def run(node, op):
        """Writes an Exp that does not depend on the node."""
        for name in given:
            reads[name](node)
        return op.Exp(op.const([0.5, 0.5], 1))

    text = "(float[2] x) => (float[2] y) { y = Softmax<axis=0>(x) }"
    for ignored in ({}, {"axis": "it is the only one"}, {"axis": "-", "input": "nobody needs it"}):
        missed = [name for name in ("axis", "input") if name not in (*given, *ignored)]
        declared = adapter("Softmax", 12, 13, ignores=ignored)(run)
        with_adapters(declared)
        if not missed:
            assert convert_version(model(text, 12), 13).graph.node[0].op_type == "Exp"
            continue
        with pytest.raises(AdapterBug, match="without reading " + ", ".join(map(repr, missed))):
            convert_version(model(text, 12), 13)


MIXED = "(float[2] x) => (float[2] y) <float low = {0.5}> { y = Clip(x, low) }"
REMOVED = [
    ("Clip", MIXED, 11, 10, {"inputs": {"min": None}, "min": 0.5}, "min"),
    ("Clip", MIXED, 12, 13, {"inputs": {"min": None}}, "min"),
    ("Softmax", "(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=0>(x) }", 12, 13, {"axis": None}, "axis"),
    ("Softmax", "(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=0>(x) }", 12, 13, {"axis": 1}, "axis"),
    ("Pad", '(float[2] x) => (float[4] y) <int64[2] p = {1, 1}> { y = Pad<mode="edge">(x, p) }', 12, 13, {"mode": None}, "mode"),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "text", "start", "to", "changed", "name"), REMOVED)
@pytest.mark.parametrize("how", ["unread", "read", "ignored"])
def test_what_the_same_operator_loses_must_be_read(
    with_adapters, op_type, text, start, to, changed, name, how
):
    """Replacing an attribute or input without reading it may change the meaning of the node."""

    def run(node, op):
        """A test's adapter."""
        if how == "read":
            input_positions = node.schema.input_positions
            node.input(name) if name in input_positions else node.attr(name)
        return op.same(node, **changed)

    ignored = {name: "it has no effect"} if how == "ignored" else {}
    with_adapters(adapter(op_type, start, to, ignores=ignored)(run))
    if how != "unread":
        assert convert_version(model(text, start), to)
        return
    with pytest.raises(AdapterBug, match=f"without reading '{name}'"):
        convert_version(model(text, start), to)


def test_what_has_its_default_value_may_be_removed_unread(with_adapters):
    def run(node, op):
        """A test's adapter."""
        return op.same(node, axis=None)

    with_adapters(adapter("Softmax", 12, 13)(run))
    text = "(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }"
    assert convert_version(model(text, 12), 13)


@pytest.mark.parametrize(
    ("look", "missed"),
    [
        (lambda inputs: inputs[0], ["w", "b"]),
        (lambda inputs: inputs[-1], ["x", "w"]),
        (lambda inputs: inputs[1:], ["x"]),
        (lambda inputs: [*inputs], []),
        (lambda inputs: operator.add(inputs, (None,)), []),
        (lambda inputs: operator.add((None,), inputs), []),
        (len, ["x", "w", "b"]),
    ],
)
def test_only_the_inputs_that_an_adapter_takes_are_read(look, missed):
    seen = set()
    given = Inputs.of((None, None, None), seen)
    look(given)
    assert [name for i, name in enumerate("xwb") if i not in seen] == missed


def test_declaring_a_crossing_twice_names_both_places():
    registry = Registry()
    registry.add(declared(lambda node, op: KEEP))
    with pytest.raises(AdapterBug, match=r"Softmax 12->13 is declared twice: .* and "):
        registry.add(declared(lambda node, op: KEEP))


def test_boundaries_are_between_neighbours():
    with pytest.raises(AdapterBug, match="for Softmax: versions 11 and 13 are not neighbours"):
        adapter("Softmax", 11, 13)


def test_an_adapter_says_what_changed():
    with pytest.raises(AdapterBug, match="docstring"):
        adapter("Softmax", 12, 13)(lambda node, op: KEEP)


def test_a_branch_leaves_the_original_alone():
    original = Registry()
    branch = original.branch()
    branch.add(declared(lambda node, op: KEEP))
    assert (len(original), len(branch)) == (0, 1)


def test_examples_stand_in_the_order_they_are_read():
    @adapter("Softmax", 12, 13)
    @example("first", SOFTMAX)
    @example("second", SOFTMAX)
    def two(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return KEEP

    assert [example.title for example in two.examples] == ["first", "second"]


def test_an_approximation_needs_permission_and_is_reported(with_adapters):
    def rough(node, op):
        op.approximate("it is a test")
        return op.same(node, axis=1)

    with_adapters(declared(rough, approximate=True))
    with pytest.raises(Refused) as caught:
        convert_version(model(SOFTMAX), 13)
    assert caught.value.refusals[0].why is Why.APPROXIMATE_ONLY
    assert convert_version(model(SOFTMAX), 13, allow_approximate=True).opset_import[0].version == 13


def test_an_undeclared_approximation_is_a_bug(with_adapters):
    def rough(node, op):
        op.approximate("it is a test")
        return op.same(node, axis=1)

    with_adapters(declared(rough))
    with pytest.raises(AdapterBug, match="add approximate=True"):
        convert_version(model(SOFTMAX), 13, allow_approximate=True)


def test_what_the_checker_rejects_is_a_bug_with_node_and_boundary(with_adapters):
    with_adapters(declared(lambda node, op: op.Concat(node["input"])))
    with pytest.raises(
        AdapterBug,
        match=r"at ai.onnx 12->13, .* on Softmax 'y': Concat .*: attribute 'axis' is missing",
    ):
        convert_version(model(SOFTMAX), 13)


def test_equal_constants_are_one_initializer(with_adapters):
    def twice(node, op):
        one, other = op.const(2.0, like=node["input"]), op.const(2.0, like=node["input"])
        return op.Mul(op.Mul(node["input"], one), other)

    after = converted(with_adapters, twice)
    assert len(after.graph.initializer) == 1
    assert after.graph.initializer[0].data_type == TensorProto.FLOAT


def test_an_operator_that_folds_is_written_once_for_equal_inputs(with_adapters):
    def twice(node, op):
        x = node["input"]
        casts = [op.Cast(x, to=kind) for kind in (TensorProto.INT64, TensorProto.INT32) * 2]
        drawn = [op.RandomUniformLike(x) for _ in range(2)]
        return op.Sum(x, *drawn, *(op.Cast(cast, to=TensorProto.FLOAT) for cast in casts))

    after = converted(with_adapters, twice)
    written = [node.op_type for node in after.graph.node]
    assert written == ["Cast"] * 2 + ["RandomUniformLike"] * 2 + ["Cast"] * 2 + ["Sum"]
    (total,) = (node for node in after.graph.node if node.op_type == "Sum")
    assert len(total.input) == 7, "the values are read as often as before"


def test_claims_derive_their_guards(with_adapters):
    with_adapters(*boundary(14, "Reshape"))
    kept = "(float[2,3] x, int64[2] s) => (float[a,b] y) { y = Reshape<allowzero=0>(x, s) }"
    after = convert_version(model(kept, 14), 13)
    assert not after.graph.node[0].attribute, "an attribute at its default goes"
    lost = kept.replace("allowzero=0", "allowzero=1")
    with pytest.raises(Refused) as caught:
        convert_version(model(lost, 14), 13)
    assert "has no attribute allowzero = 1" in caught.value.refusals[0].detail


def test_a_claim_about_other_schemas_is_open_again(with_adapters):
    with_adapters(*boundary(13, "Sigmoid:ffffff"))
    with pytest.raises(Refused) as caught:
        convert_version(model("(float[2] x) => (float[2] y) { y = Sigmoid(x) }"), 13)
    assert caught.value.refusals[0].why is Why.UNREVIEWED


def going(node: Node, op: Builder) -> Result:
    """A test's adapter."""
    return op.dissolve("there is no Softmax")


def taking_its_place(node: Node, op: Builder) -> Result:
    """A test's adapter."""
    made = node["X"].producer
    return op.Neg(made["input"]) if made and made.op == "Softmax" else KEEP


def test_a_node_that_nobody_reads_any_more_dissolves(with_adapters):
    with_adapters(
        adapter("Softmax", 12, 13)(going),
        adapter("Sigmoid", 12, 13)(taking_its_place),
    )
    text = "(float[2,3] x) => (float[2,3] z) { y = Softmax(x) z = Sigmoid(y) }"
    assert ops(convert_version(model(text), 13)) == "Neg"


@pytest.mark.parametrize(
    "text",
    [
        "(float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Softmax(x) z = Sigmoid(y) }",
        "(float[2,3] x) => (float[2,3] z) { y = Softmax(x) w = Sigmoid(y) z = Add(w, y) }",
    ],
)
def test_a_node_that_is_still_read_does_not_dissolve(with_adapters, text):
    with_adapters(
        adapter("Softmax", 12, 13)(going),
        adapter("Sigmoid", 12, 13)(taking_its_place),
    )
    with pytest.raises(Refused, match="there is no Softmax") as caught:
        convert_version(model(text), 13)
    assert [refusal.node for refusal in caught.value.refusals] == ["y"]


def test_the_pair_for_an_attribute_that_became_an_input(with_adapters):
    up, down = attribute_becomes_input("axes")
    with_adapters(*boundary(13, "Squeeze", up=up, down=down))
    before = model("(float[2,1,3] x) => (float[2,3] y) { y = Squeeze<axes=[1]>(x) }", 12)
    there = convert_version(before, 13)
    assert len(there.graph.node[0].input) == 2
    assert not there.graph.node[0].attribute
    assert convert_version(there, 12).graph.node[0].attribute == before.graph.node[0].attribute


def test_a_value_that_an_enum_did_not_have_is_refused_by_name(with_adapters):
    with_adapters(*boundary(19, "Pad", down=enum_grew("mode", "constant reflect edge")))
    text = '(float[3] x, int64[2] p) => (float[n] y) { y = Pad<mode="edge">(x, p) }'
    assert ops(convert_version(model(text, 19), 18)) == "Pad"
    with pytest.raises(Refused) as caught:
        convert_version(model(text.replace("edge", "wrap"), 19), 18)
    assert "the older version does not allow mode='wrap'" in caught.value.refusals[0].detail


def test_what_needs_more_nodes_than_anybody_runs_is_refused(with_adapters):
    def endless(node, op):
        y = node["input"]
        while True:
            y = op.Neg(y)

    with pytest.raises(Refused, match="more than 50,000 nodes"):
        converted(with_adapters, endless)


def test_too_little_memory_is_neither_a_refusal_nor_a_bug(with_adapters):
    def huge(node, op):
        raise MemoryError("Unable to allocate 8.00 TiB")

    with pytest.raises(MemoryError, match="Unable to allocate"):
        converted(with_adapters, huge)
