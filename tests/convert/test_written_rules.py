# SPDX-License-Identifier: Apache-2.0
"""A fault in written nodes is reported at its step, with the boundary, adapter and node."""

from __future__ import annotations

import onnx
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TypeProto, helper
from opshift import AdapterBug, InvalidModel, convert_version
from opshift.adapter import KEEP, T, adapter
from opshift.convert.legal import rules, written_rules
from opshift.opsets.types import dims_of
from steps import stepper
from text_models import model

TEXT = """(float[2] x, float[2] z) => (float[2] y, float[2] late) {
    h = Gelu(x)
    y = Neg(h)
    late = Abs(z)
}"""


def undefined_input(node, op):
    y = op.Neg(node["X"])
    op.made.nodes[-1].input[0] = "nowhere"
    return y


def wrong_order(node, op):
    y = op.Neg(op.Abs(node["X"]))
    op.made.nodes.reverse()
    return y


def written_twice(node, op):
    y = op.Neg(op.Abs(node["X"]))
    op.made.nodes.insert(0, NodeProto(op_type="Abs", input=["x"], output=[y.name]))
    return y


def name_of_another_value(node, op):
    y = op.Neg(node["X"])
    op.made.nodes.insert(0, NodeProto(op_type="Abs", input=["x"], output=["late"]))
    return y


def value_that_is_written_later(node, op):
    y = op.Neg(node["X"])
    op.made.nodes[-1].input[0] = "late"
    return y


def own_output(node, op):
    y = op.Neg(node["X"])
    op.made.nodes[-1].input[0] = "h"
    return y


def wrong_type(node, op):
    return op.Cast(node["X"], to=T.DOUBLE)


def no_import(node, op):
    y = op.Neg(node["X"])
    op.made.nodes[-1].domain = "acme"
    return y


def operator_of_another_version(node, op):
    y = op.Neg(node["X"])
    op.made.nodes[-1].op_type = "Swish"
    return y


def unknown_attribute(node, op):
    y = op.Neg(node["X"])
    op.made.nodes[-1].attribute.append(helper.make_attribute("alpha", 1.0))
    return y


def attribute_of_another_kind(node, op):
    y = op.Selu(node["X"], alpha=2.0)
    op.made.nodes[-1].attribute[0].type = AttributeProto.INT
    return y


def missing_attribute(node, op):
    y = op.Cast(node["X"], to=T.FLOAT)
    del op.made.nodes[-1].attribute[:]
    return y


def too_many_inputs(node, op):
    y = op.Neg(node["X"])
    op.made.nodes[-1].input.append("x")
    return y


FAULTS = {
    undefined_input: "Neg reads 'nowhere', which is not defined",
    wrong_order: "before it is written",
    written_twice: "which was written before",
    name_of_another_value: "neither an output nor a new name",
    value_that_is_written_later: "'late', which is written later",
    own_output: "Neg reads 'h' before it is written",
    wrong_type: "the type of 'h' changes from tensor(float)[2] to tensor(double)[2]",
    no_import: "is of domain 'acme', which graph does not import",
    operator_of_another_version: "Swish does not exist at ai.onnx 19",
    unknown_attribute: "has no attribute 'alpha'",
    attribute_of_another_kind: "is INT, not FLOAT",
    missing_attribute: "attribute 'to' is missing",
    too_many_inputs: "has 2 inputs",
}


@pytest.mark.parametrize("bug", FAULTS, ids=lambda bug: bug.__name__)
def test_a_bug_of_an_adapter_is_caught_at_its_step(bug, with_adapters):
    bug.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(bug))
    proto = model(TEXT, 20)
    proto.graph.value_info.append(helper.make_tensor_value_info("h", T.FLOAT, [2]))
    with pytest.raises(AdapterBug) as caught:
        convert_version(proto, 7)
    text = str(caught.value)
    assert FAULTS[bug] in text
    for part in ("ai.onnx 20->19", bug.__name__, "on Gelu 'h'"):
        assert part in text


# -- types that nothing declares, and places inside of others --------------------------------------


def wrong_rank(node, op):
    return op.ReduceMax(node["X"], keepdims=0)


def type_that_a_reader_lacks(node, op):
    return op.Cast(node["X"], to=T.STRING)


def type_that_the_operator_lacks(node, op):
    return op.Cast(op.And(node["X"], op.Cast(node["X"], to=T.BOOL)), to=T.FLOAT)


def two_types_as_one(node, op):
    return op.Add(node["X"], op.Cast(node["X"], to=T.DOUBLE))


def type_that_does_not_exist(node, op):
    y = op.Cast(node["X"], to=T.FLOAT)
    op.made.nodes[-1].attribute[0].i = 99
    return y


def attribute_set_twice(node, op):
    y = op.Selu(node["X"], alpha=2.0)
    op.made.nodes[-1].attribute.append(op.made.nodes[-1].attribute[0])
    return y


PLACES = {
    "graph": TEXT,
    "branch": """(float[2] x, float[2] z, bool c) => (float[2] y, float[2] late) {
        y = If (c) <then_branch = t () => (float[2] r) { h = Gelu(x) r = Neg(h) },
                    else_branch = e () => (float[2] s) { s = Abs(x) }>
        late = Abs(z)
    }""",
    "function": """(float[2] x, float[2] z) => (float[2] y, float[2] late) {
        y = acme.F(x) late = Abs(z)
    } <opset_import: ["" : 20], domain: "acme"> F (x) => (g) { h = Gelu(x) g = Neg(h) }""",
    "function that nothing calls": """(float[2] x, float[2] z) => (float[2] y, float[2] late) {
        y = Neg(x) late = Abs(z)
    } <opset_import: ["" : 20], domain: "acme"> F (x) => (g) { h = Gelu(x) g = Neg(h) }""",
}
UNDECLARED = (
    wrong_type, wrong_rank, type_that_a_reader_lacks, type_that_the_operator_lacks,
    two_types_as_one, type_that_does_not_exist, attribute_set_twice,
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("bug", UNDECLARED, ids=lambda bug: bug.__name__)
def test_what_only_the_whole_model_shows_is_traced_to_its_step(bug, place, with_adapters):
    bug.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(bug))
    for check in ("default", "full"):
        with pytest.raises(AdapterBug) as caught:
            convert_version(model(PLACES[place], 20, more=', "acme" : 1'), 13, check=check)
        for part in ("ai.onnx 20->19", bug.__name__, "on Gelu"):
            assert part in str(caught.value)


@pytest.mark.parametrize(
    ("bug", "told"),
    [
        (type_that_the_operator_lacks, "And reads 'x' of type tensor(float), which the operator does not accept"),
        (two_types_as_one, "of type tensor(double) as one type"),
    ],
)  # fmt: skip
def test_the_trace_names_the_types_that_do_not_fit(bug, told, with_adapters):
    bug.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(bug))
    with pytest.raises(AdapterBug) as caught:
        convert_version(model(TEXT, 20), 13)
    assert told in str(caught.value)


AROUND = """(float[2] x, float[2] z, bool c) => (float[2] y, float[2] late) {
    early = Abs(z)
    y = If (c) <then_branch = t () => (float[2] r) { h = Gelu(x) r = Neg(h) },
                else_branch = e () => (float[2] s) { s = Abs(early) }>
    late = Abs(z)
}"""


@pytest.mark.parametrize(
    ("name", "why"),
    [("y", "the outer node writes"), ("late", "is written later"), ("early", ""), ("z", "")],
)
def test_a_branch_reads_what_is_written_before_its_node(name, why, with_adapters):
    @adapter("Gelu", 20, 19)
    def reads_a_value(node, op):
        """Reads a value of the outer graph."""
        y = op.Neg(node["X"])
        op.made.nodes[-1].input[0] = name
        return y

    with_adapters(reads_a_value)
    if not why:
        onnx.checker.check_model(convert_version(model(AROUND, 20), 19), full_check=True)
        return
    with pytest.raises(AdapterBug, match=f"Neg reads '{name}', which {why}"):
        convert_version(model(AROUND, 20), 19)


# -- what inference has against a node, and what fails while an adapter runs -----------------------


def axes_twice(node, op):
    return op.Transpose(node["X"], perm=[0, 0])


def axis_beyond_the_rank(node, op):
    return op.Concat(node["X"], axis=7)


def constant_without_value(node, op):
    y = op.Add(node["X"], op.Constant(value_float=1.0))
    made = next(node for node in op.made.nodes if node.op_type == "Constant")
    del made.attribute[:]
    return y


def attribute_of_no_function(node, op):
    y = op.Selu(node["X"], alpha=2.0)
    op.made.nodes[-1].attribute[0].ref_attr_name = "nowhere"
    return y


def unknown_name(node, op):
    return node["nowhere"]


def nothing_returned(node, op):
    return None


EVERYWHERE = {
    **PLACES,
    "branch of a function": """(float[2] x, float[2] z, bool c) => (float[2] y, float[2] late) {
        y = acme.F(x, c) late = Abs(z)
    } <opset_import: ["" : 20], domain: "acme"> F (x, c) => (g) {
        g = If (c) <then_branch = t () => (r) { h = Gelu(x) r = Neg(h) },
                    else_branch = e () => (s) { s = Abs(x) }> }""",
    "branch of a function that nothing calls": """(float[2] x) => (float[2] y) { y = Neg(x) }
    <opset_import: ["" : 20], domain: "acme"> F (x, c) => (g) {
        g = If (c) <then_branch = t () => (r) { h = Gelu(x) r = Neg(h) },
                    else_branch = e () => (s) { s = Abs(x) }> }""",
    "long graph": "(float[2] x, float[2] z) => (float[2] y, float[2] late) { h0 = Gelu(x) "
    + " ".join(f"h{i + 1} = Sin(h{i})" for i in range(40))
    + " y = Add(h40, x) late = Abs(z) }",
}
REJECTED = (
    axes_twice, axis_beyond_the_rank, constant_without_value, attribute_of_no_function,
    unknown_name, nothing_returned,
)  # fmt: skip


@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("bug", REJECTED, ids=lambda bug: bug.__name__)
def test_a_bug_is_caught_in_every_place_and_in_every_model_of_a_process(bug, place, with_adapters):
    bug.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(bug))
    for check in ("default", "default", "full"):  # the second one is converted by classes
        with pytest.raises(AdapterBug) as caught:
            convert_version(model(EVERYWHERE[place], 20, more=', "acme" : 1'), 13, check=check)
        for part in ("at ai.onnx 20->19", bug.__name__, "on Gelu"):
            assert part in str(caught.value)


def test_a_bug_behind_a_call_in_a_function_that_nothing_calls_is_caught(with_adapters):
    wrong_type.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(wrong_type))
    text = """(float[2] x) => (float[2] y) { y = Neg(x) }
        <opset_import: ["" : 20, "acme" : 1], domain: "acme"> Outer <alpha> (x) => (g) {
            h = acme.F(x) g = Elu<alpha: float = @alpha>(h) }
        <opset_import: ["" : 20], domain: "acme"> F (x) => (g) { h = Gelu(x) g = Neg(h) }"""
    with pytest.raises(AdapterBug, match=r"ai\.onnx 20->19.*wrong_type on Gelu"):
        convert_version(model(text, 20, more=', "acme" : 1'), 16)


def undeclared_approximation(node, op):
    op.approximate("nearly equal")
    return op.Neg(node["X"])


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_an_undeclared_approximation_is_a_bug_even_where_none_is_allowed(
    place, allowed, with_adapters
):
    """The message offers no option, because the adapter does not declare an approximation."""
    undeclared_approximation.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(undeclared_approximation))
    with pytest.raises(AdapterBug) as caught:
        convert_version(
            model(PLACES[place], 20, more=', "acme" : 1'), 13, allow_approximate=allowed
        )
    message = "undeclared_approximation calls op.approximate, but does not declare it"
    for part in ("at ai.onnx 20->19", message, "on Gelu"):
        assert part in str(caught.value)


def left_as_it_is(node, op):
    return KEEP


@pytest.mark.parametrize(
    ("op", "start", "text"),
    [
        ("Gelu", 20, "(float[2] x) => (float[2] y) { h = Gelu(x) y = Neg(h) }"),
        ("ReduceSum", 13, "(float[2] x, int64[1] a) => (float[1] y) { h = ReduceSum(x, a) y = Neg(h) }"),
    ],
)  # fmt: skip
def test_a_node_that_must_not_stay_is_caught_after_its_step(op, start, text, with_adapters):
    left_as_it_is.__doc__ = "A bug."
    with_adapters(adapter(op, start, start - 1)(left_as_it_is))
    with pytest.raises(AdapterBug) as caught:
        convert_version(model(text, start), 9)
    for part in (f"after ai.onnx {start}->{start - 1}", f"{op} 'h'", "left_as_it_is wrote or kept"):
        assert part in str(caught.value)


def twice_as_long(node, op):
    return op.Concat(node["X"], node["X"], axis=0)


def constant_that_does_not_broadcast(node, op):
    return op.Add(node["X"], op.const([[1, 2, 3]], T.FLOAT))


@pytest.mark.parametrize("check", ["default", "full"])
@pytest.mark.parametrize("place", ["graph", "function", "branch", "long graph"])
@pytest.mark.parametrize(
    "bug", [twice_as_long, constant_that_does_not_broadcast], ids=lambda bug: bug.__name__
)
def test_an_adapter_is_at_fault_if_inference_accepts_the_source(bug, place, check, with_adapters):
    """The lengths of a model are right if inference finds no fault in it."""
    bug.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(bug))
    before = model(EVERYWHERE[place].replace("Neg(h)", "Add(h, x)"), 20, more=', "acme" : 1')
    onnx.checker.check_model(before, full_check=True)
    with pytest.raises(AdapterBug) as caught:
        convert_version(before, 13, check=check)
    for part in (f"{bug.__name__} wrote for Gelu", "at ai.onnx 20->19"):
        assert part in str(caught.value)


ERRORS = (
    ArithmeticError, AssertionError, AttributeError, ImportError, IndexError, KeyError, LookupError,
    NameError, NotImplementedError, OSError, RecursionError, RuntimeError, StopIteration, TypeError,
    ValueError, ZeroDivisionError,
)  # fmt: skip


@pytest.mark.parametrize("place", EVERYWHERE)
def test_an_error_in_an_adapter_is_its_own_fault(place, with_adapters):
    """The message has the boundary, the node, the adapter, and its file and line."""
    for error in ERRORS:

        @adapter("Gelu", 20, 19)
        def fails(node, op, error=error):
            """A bug."""
            raise error("a fault")

        with_adapters(fails)
        with pytest.raises(AdapterBug) as caught:
            convert_version(model(EVERYWHERE[place], 20, more=', "acme" : 1'), 13)
        line = fails.run.__code__.co_firstlineno + 3
        message = f"fails raised {error('a fault')!r} at {__file__}:{line}"
        for part in ("at ai.onnx 20->19", "on Gelu", message):
            assert part in str(caught.value)


@pytest.mark.parametrize("opset", [8, 10])
def test_a_fault_that_an_adapter_only_passes_on_is_none_of_its_step(opset):
    """Inference of old opsets ignores this attribute."""
    text = "(float[2,3] x) => (float[a,b] y) { y = ReduceSum<axes = [7]>(x) }"
    with pytest.raises(InvalidModel, match="axis must be in"):
        convert_version(model(text, opset), 13)


def higher_rank(node, op):
    return op.Unsqueeze(node["X"], op.const([0]))


INSIDE = {
    "branch": PLACES["branch"],
    "output of a branch": PLACES["branch"].replace("h = Gelu(x) r = Neg(h)", "r = Gelu(x)"),
    "broadcast in a branch": PLACES["branch"].replace("Neg(h)", "Add(h, x)"),
    "Loop": """(float[2] x, int64 n, bool c) => (float[2] y) {
        y = Loop (n, c, x) <body = b (int64 i, bool k, float[2] s) => (bool ko, float[2] so)
            { ko = Identity(k) h = Gelu(s) so = Neg(h) }>
    }""",
    "state of no declared shape": """(float[2] x, int64 n, bool c) => (float[2] y) {
        y = Loop (n, c, x) <body = b (int64 i, bool k, s) => (bool ko, so)
            { ko = Identity(k) h = Gelu(s) so = Neg(h) }>
    }""",
    "scanned output": """(float[2] x, int64 n, bool c) => (float[m,2] y) {
        y = Loop (n, c) <body = b (int64 i, bool k) => (bool ko, float[2] so)
            { ko = Identity(k) h = Gelu(x) so = Add(h, x) }>
    }""",
}


@pytest.mark.parametrize("check", ["default", "full"])
@pytest.mark.parametrize("place", INSIDE)
@pytest.mark.parametrize("bug", [wrong_rank, higher_rank], ids=lambda bug: bug.__name__)
def test_a_wrong_rank_inside_of_a_node_is_caught_at_its_step(bug, place, check, with_adapters):
    """onnx's inference ignores a rank that contradicts the rank in the outer graph."""
    bug.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(bug))
    with pytest.raises(AdapterBug) as caught:
        convert_version(model(INSIDE[place], 20), 13, check=check)
    for part in ("ai.onnx 20->19", bug.__name__, "on Gelu", "] to tensor(float)["):
        assert part in str(caught.value)


def test_a_value_that_the_outer_graph_writes_later_is_named_at_once(with_adapters):
    value_that_is_written_later.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(value_that_is_written_later))
    with pytest.raises(AdapterBug, match=r"at ai\.onnx 20->19.*'late', which is written later"):
        convert_version(model(PLACES["branch"], 20), 13)


def test_a_stale_declaration_is_no_bug_of_an_adapter():
    """Below opset 6, inference of many operators finds no types that could confirm it."""
    stale = model("(float[2] x) => (float[2] y) { h = Floor(x) y = Neg(h) }", 5)
    stale.graph.value_info.append(helper.make_tensor_value_info("h", T.FLOAT, [3, 3]))
    for check in ("default", "full"):
        (kept,) = convert_version(stale, 13, check=check).graph.value_info
        assert dims_of(kept.type) == (2,)


def test_a_sound_adapter_passes(with_adapters):
    def sound(node, op):
        """Nothing is wrong here."""
        return op.Neg(op.Abs(node["X"]))

    with_adapters(adapter("Gelu", 20, 19)(sound))
    assert convert_version(model(TEXT, 20), 7)


def test_nothing_is_checked_without_checks(with_adapters):
    undefined_input.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(undefined_input))
    assert convert_version(model(TEXT, 20), 19, check="none").graph.node[0].input == ["nowhere"]


def test_an_algorithm_of_training_reads_what_the_graph_computes():
    """An adapter may read a value of the main graph that its node did not read."""
    text = "(float[4] x) => (seq(float[a]) y) { h = Relu(x) y = SplitToSequence(h) }"
    trained = model(text, 14)
    step = trained.training_info.add().algorithm
    step.name = "step"
    step.node.add(op_type="Identity", input=["y"], output=["seen"])
    step.output.add(name="seen")
    after = convert_version(trained, 13).training_info[0].algorithm
    assert [node.op_type for node in after.node] == ["SplitToSequence"]


# -- single rules ----------------------------------------------------------------------------------


@pytest.fixture
def findings(with_adapters, monkeypatch):
    """Returns the findings of a rule for each change of Gelu, before the change is applied."""

    def found(rule, bug, made, **options):
        bug.__doc__ = "A bug."
        with_adapters(adapter("Gelu", 20, 19)(bug))
        done, told = stepper(made, 20, 19), []
        for name, value in options.items():
            setattr(done, name, value)
        monkeypatch.setattr(rules, "before_step", lambda change: told.append([*rule(change)]))
        done.run()
        return told

    return found


def two_gelus(*kinds: int) -> ModelProto:
    """Two nodes of one kind, with declared types."""
    proto = model("(float[2] x) => (float[2] y) { a = Gelu(x) b = Gelu(a) y = Abs(b) }", 20)
    for name, kind in zip("ab", kinds, strict=False):
        proto.graph.value_info.append(helper.make_tensor_value_info(name, kind, [2]))
    return proto


def same_type(node, op):
    return op.Neg(op.Abs(node["X"]))


def test_a_change_of_a_declared_type_is_found_once_for_each_kind(findings):
    message = "the type of 'a' changes from tensor(float) to tensor(double)"
    assert findings(written_rules.types, wrong_type, two_gelus(T.FLOAT, T.FLOAT)) == [[message], []]
    assert findings(written_rules.types, wrong_type, two_gelus()) == [[], []]
    assert findings(written_rules.types, same_type, two_gelus(T.FLOAT, T.FLOAT)) == [[], []]
    # the declaration is wrong already
    assert findings(written_rules.types, same_type, two_gelus(T.DOUBLE)) == [[], []]


def test_the_kinds_that_were_checked_are_remembered(findings):
    found = findings(
        lambda change: [*written_rules.types(change), *change.typed], same_type, two_gelus(T.FLOAT)
    )
    source = "test_written_rules.same_type"
    assert found[0] == [(source, ("Abs", "Neg"), "tensor(float)")]
    assert found[1] == found[0]


def test_an_output_that_no_node_writes_has_no_type_to_check(findings):
    def unwritten(node, op):
        y = op.Cast(node["X"], to=T.DOUBLE)
        op.made.nodes[-1].output[0] = "elsewhere"
        return y

    assert findings(written_rules.types, unwritten, two_gelus(T.FLOAT))[0] == []


def renamed_output(node, op):
    y = op.Neg(node["X"])
    return y


def tampered(name):
    """Returns the rule about values, applied after the written output was renamed."""

    def rule(change):
        change.op.made.nodes[-1].output[0] = name
        return written_rules.values(change)

    return rule


def test_an_output_of_the_graph_must_be_written(findings):
    proto = model("(float[2] x) => (float[2] y) { y = Gelu(x) }", 20)
    found = findings(tampered("other"), renamed_output, proto)
    assert found == [
        [
            "Neg writes 'other', which is neither an output nor a new name",
            "no new node writes the output 'y'",
        ]
    ]
    inner = model("(float[2] x) => (float[2] y) { h = Gelu(x) y = Neg(h) }", 20)
    assert findings(tampered("other"), renamed_output, inner) == [
        ["Neg writes 'other', which is neither an output nor a new name"]
    ]


def test_an_output_of_a_branch_may_stay_unwritten(findings):
    """The outer graph is not checked, because the node may be in a branch that is removed."""
    proto = model(INSIDE["output of a branch"], 20)
    (finding,) = findings(tampered("other"), renamed_output, proto)
    assert finding == ["Neg writes 'other', which is neither an output nor a new name"]


def test_the_reason_why_a_value_cannot_be_read(findings):
    def reading(name, writes="h"):
        def rule(change):
            change.op.made.nodes[-1].input[0] = name
            change.op.made.nodes[-1].output[0] = writes
            return written_rules.values(change)

        return rule

    proto = model(TEXT, 20)
    (finding,) = findings(reading("h", "other"), renamed_output, proto)
    assert finding[0] == "Neg reads 'h', which the replaced node wrote"
    (finding,) = findings(reading("nowhere"), renamed_output, proto)
    assert finding[0] == "Neg reads 'nowhere', which is not defined"
    (finding,) = findings(reading("z"), renamed_output, proto)
    assert finding == []


def test_the_version_at_which_a_node_is_read_after_the_step(findings):
    proto = model(TEXT, 20, more=', "acme" : 3')

    def entered(change):
        foreign = NodeProto(op_type="Op", domain="acme")
        return [written_rules._entered(one, change) for one in (change.node.proto, foreign)]

    assert findings(entered, same_type, proto) == [[19, 3]]


def sized(*sizes) -> TypeProto:
    return helper.make_tensor_type_proto(T.FLOAT, sizes)


@pytest.mark.parametrize(
    ("was", "now", "fits"),
    [
        (sized(2, 3), sized(2, 3), True),
        (sized(2, 3), sized(2, 4), False),
        (sized(2, "n"), sized(2, 4), True),
        (sized(2, None), sized(2, 4), True),
        (sized("m"), sized("n"), True),
        (helper.make_tensor_type_proto(T.FLOAT, None), sized(2), True),
    ],
)
def test_lengths_fit_unless_two_known_ones_differ(was, now, fits):
    assert written_rules._fit(was, now) is fits
    assert written_rules._fit(now, was) is fits


@pytest.mark.parametrize(
    ("rejected", "unconfirmed", "sound"),
    [
        ((), (), True),
        ((None,), (), False),
        ((19,), (), False),
        ((), ("x",), False),
        ((), ("z",), True),
    ],
)
def test_a_node_that_inference_rejects_itself_proves_nothing(
    rejected, unconfirmed, sound, findings, monkeypatch
):
    monkeypatch.setattr(
        written_rules, "objection",
        lambda node, env, version, **_: "no" if version in rejected and node.op_type == "Gelu" else None,
    )  # fmt: skip
    monkeypatch.setattr(
        "opshift.author.facts.Facts.is_unconfirmed", lambda self, scope, name: name in unconfirmed
    )
    assert findings(
        lambda change: [written_rules._is_sound(change)], same_type, model(TEXT, 20)
    ) == [[sound]]


@pytest.mark.parametrize("sound", [True, False])
def test_lengths_are_suspect_only_if_the_replaced_node_is_sound(sound, findings, monkeypatch):
    monkeypatch.setattr(written_rules, "_is_sound", lambda written: sound)
    message = "the type of 'h' changes from tensor(float)[2] to tensor(float)[4]"
    found = findings(written_rules.suspect_lengths, twice_as_long, model(TEXT, 20))
    assert found == [[message] * sound]


def test_an_omitted_input_has_no_type_to_fit(findings):
    def clipped(node, op):
        return op.Clip(node["X"], None, op.Cast(op.const(1.0, T.FLOAT), to=T.FLOAT))

    assert findings(written_rules.types, clipped, model(TEXT, 20), traces=True) == [[]]
