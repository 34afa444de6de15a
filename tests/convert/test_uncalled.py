# SPDX-License-Identifier: Apache-2.0
"""A function without calls is checked by calls that onnx accepts in the source model."""

from __future__ import annotations

import onnx
import pytest
from onnx import FunctionProto, ModelProto, TensorProto
from opshift import AdapterBug, convert_version
from opshift.adapter import adapter
from opshift.author import registry
from opshift.convert.legal.uncalled import MOST_CALLS, CallSearch, faulty_calls, guesses
from opshift.opsets.types import dims_of, rank_of
from text_models import model


def uncalled(body: str, opset: int = 20, more: str = "") -> ModelProto:
    """Returns a model with a function without calls, followed by other functions."""
    text = f"""(float[2] x) => (float[2] y) {{ y = Neg(x) }}
        <opset_import: ["" : {opset}, "acme" : 1], domain: "acme"> {body} {more}"""
    return model(text, opset, more=', "acme" : 1')


def search(body: str, after: str = "", more: str = "") -> CallSearch:
    """The search for a call of the function in `body`, which `after` replaces."""
    before = uncalled(body, more=more)
    changed = uncalled(after or body, more=more)
    return CallSearch(before, changed, before.functions[0], registry.default())


def calls(done: CallSearch) -> int:
    """The number of calls that a search has tried."""
    return MOST_CALLS * (1 + len(done.function.input)) - done.left


# -- bugs of adapters ------------------------------------------------------------------------------


def axes_twice(node, op):
    return op.Transpose(node["X"], perm=[0, 0])


def axis_beyond_the_rank(node, op):
    return op.Concat(node["X"], axis=7)


@pytest.mark.parametrize("bug", [axes_twice, axis_beyond_the_rank], ids=lambda bug: bug.__name__)
def test_a_bug_of_one_rank_is_caught_in_a_function_of_many_inputs(bug, with_adapters):
    """The bug shows only for a known rank, and the ranks of other inputs depend on each other."""
    bug.__doc__ = "A bug."
    with_adapters(adapter("Gelu", 20, 19)(bug))
    body = """F (w, a, i, b, x, m) => (g) {
        p = Gather(a, i) q = MatMul(b, m) r = Concat<axis = 0>(q, w) h = Gelu(x) g = Neg(h) }"""
    with pytest.raises(AdapterBug, match=rf"ai\.onnx 20->19.*{bug.__name__} on Gelu"):
        convert_version(uncalled(body), 13)


def test_a_rank_that_inference_only_tolerates_blames_nobody():
    """Inference accepts AffineGrid of a theta of rank 2, but its form in opset 19 rejects it."""
    body = """F (t) => (g) {
        s = Constant<value_ints = [1, 1, 2, 3]>() g = AffineGrid(t, s) }"""
    after = convert_version(uncalled(body), 16)
    assert len(after.functions[0].node) > 1


def test_a_rewritten_loop_of_an_uncalled_function_keeps_its_body():
    """The new node gets the body only after the step, so inference cannot check it earlier."""
    body = """F (x) => (y) { n = Constant <value: tensor = int64[1] {3}> () y = Loop (n, "")
        <body: graph = b (int64[1] i, bool[1] k) => (bool[1] o, float[1,2] r) {
            o = Identity (k) r = Gather (x, i) }> }"""
    after = convert_version(uncalled(body, 11), 12)
    (loop,) = (node for node in after.functions[0].node if node.op_type == "Loop")
    assert [attribute.name for attribute in loop.attribute] == ["body"]
    assert loop.input[1]


# -- the number of calls ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 8])
def test_what_onnx_never_accepts_costs_few_calls_and_what_it_accepts_a_number_by_inputs(count):
    """The search tries each rank of one input while the other ranks are unknown."""
    names = ", ".join(f"a{i}" for i in range(count))
    wrong = search(f"F ({names}) => (g) {{ g = Transpose<perm = [0, 0]>(a0) }}")
    assert not wrong.finds()
    assert wrong.fault is None
    assert calls(wrong) <= 2 * (5 + 5 * count)
    unread = search(f"F ({names}) => (g) {{ g = acme.Unknown(a0) }}")
    assert not unread.finds()
    assert unread.fault is None
    assert calls(unread) <= 10


# Inference accepts pools of one rank only, a ratio of rank 0, and sizes of rank 1.
RANK_3, RANK_4 = "MaxPool<kernel_shape = [1]>", "MaxPool<kernel_shape = [1, 1]>"
PAIR = f"g = {RANK_3}(a) h = {RANK_4}(b)"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("F (a) => (g) { g = Neg(a) }", 1),
        ("F () => (g) { g = Constant<value_float = 1.0>() }", 1),
        (f"F (a) => (g) {{ g = {RANK_4}(a) }}", 4),  # ranks 2, 1, 3 and 4
        # four equal ranks, unknown ranks, five ranks of each input, and the pair that fits
        (f"F (a, b) => (g, h) {{ {PAIR} }}", 4 + 1 + 10 + 1),
        # the same, and the third input
        (f'F (a, b, c) => (g, h, k) {{ {PAIR} k = ConstantOfShape(c) }}', 4 + 1 + 15 + 2),
        # the only rank of the second input is that of a scalar
        (f"F (a, b) => (g, h) {{ g = {RANK_3}(a) h = Dropout(a, b) }}", 16),
    ],
)  # fmt: skip
def test_a_call_that_passes_ends_the_search(body, count):
    done = search(body)
    assert done.finds()
    assert done.fault is None
    assert calls(done) == count


def test_ranks_are_not_tried_if_unknown_ranks_fail():
    after = f"F (a, b) => (g, h) {{ {PAIR} k = Not(h) }}"
    wrong = search(f"F (a, b) => (g, h) {{ {PAIR} }}", after)
    assert not wrong.finds()
    assert calls(wrong) == 2 * (4 + 1)  # for each of two types
    assert rank_of(wrong.fault.graph.input[1].type) is None


def test_ranks_that_do_not_fit_each_other_are_given_up_early():
    """The first two inputs never fit each other, so the rank of the third is not tried."""
    body = f"{PAIR} k = ConstantOfShape(c) l = Concat<axis = 0>(a, b)"
    wrong = search(f"F (a, b, c) => (g, h, k, l) {{ {body} }}")
    assert not wrong.finds()
    assert wrong.fault is None
    assert calls(wrong) % (4 + 1 + 15 + 1) == 0  # for each type


def test_one_input_is_not_tried_as_a_scalar():
    """For a single input, the search tries four ranks, unknown ranks, and four ranks again."""
    done = search(f"F (a) => (g, h) {{ {PAIR.replace('(b)', '(a)')} }}")
    assert not done.finds()
    assert calls(done) == 2 * (4 + 1 + 4)  # for each of two types
    assert done.fault is None


@pytest.mark.parametrize("spared", [0, 1])
def test_a_search_that_is_too_long_blames_nobody(spared):
    body = "F (a) => (g) { g = Transpose<perm = [0, 0]>(a) }"
    whole = search(body)
    assert not whole.finds()
    done = search(body)
    done.left = calls(whole) - spared
    assert done.finds() == bool(spared)


# -- the call that is at fault ---------------------------------------------------------------------


def test_the_fault_is_a_call_with_values_for_attributes_and_the_functions_that_it_uses():
    head = "F <alpha, unused> (x) => (g, left) {"
    more = (
        '<opset_import: ["" : 20], domain: "acme"> G (a) => (b) { b = Sqrt(a) }'
        ' <opset_import: ["" : 20], domain: "acme"> H (a) => (b) { b = Abs(a) }'
    )
    done = search(
        f"{head} h = acme.G(x) left = acme.Unknown(x) g = Elu<alpha: float = @alpha>(h) }}",
        f"{head} h = acme.G(x) left = acme.Unknown(x) k = Elu<alpha: float = @alpha>(h)"
        " g = Not(k) }",
        more,
    )
    assert not done.finds()
    call = done.fault
    (node,) = call.graph.node
    assert (node.op_type, node.domain) == ("F", "acme")
    assert [(attribute.name, attribute.f) for attribute in node.attribute] == [("alpha", 1.0)]
    assert sorted(function.name for function in call.functions) == ["F", "G"]
    assert {opset.domain: opset.version for opset in call.opset_import} == {"": 20, "acme": 1}
    (given,) = call.graph.input
    assert given.type.tensor_type.elem_type == TensorProto.FLOAT
    assert dims_of(given.type) == (None, None)  # the first rank that is tried
    assert [value.name for value in call.graph.output] == ["g"]  # nothing infers the other
    assert rank_of(call.graph.output[0].type) is not None
    onnx.checker.check_model(call, full_check=True)


def test_the_fault_may_have_inputs_of_unknown_rank():
    done = search(
        f"F (a) => (g, h) {{ g = {RANK_3}(a) h = {RANK_4}(a) }}",
        f"F (a) => (g, h) {{ g = {RANK_3}(a) b = {RANK_4}(a) h = Not(b) }}",
    )
    assert not done.finds()
    assert rank_of(done.fault.graph.input[0].type) is None


def test_the_fault_may_have_a_scalar_beside_another_input():
    head = f"F (a, b) => (g, h) {{ g = {RANK_3}(a) h = Dropout(a, b)"
    done = search(f"{head} }}", f"{head} k = {RANK_4}(b) }}")
    assert not done.finds()
    given = done.fault.graph.input[1].type
    assert given.tensor_type.HasField("shape")
    assert dims_of(given) == ()


def test_a_domain_that_the_model_does_not_import_is_imported_for_the_call():
    def without_import(body: str) -> ModelProto:
        proto = uncalled(body)
        del proto.opset_import[1]
        return proto

    before = without_import("F (x) => (g) { g = Neg(x) }")
    after = without_import("F (x) => (g) { h = Neg(x) g = Transpose<perm = [0, 0]>(h) }")
    done = CallSearch(before, after, before.functions[0], registry.default())
    assert not done.finds()
    assert {opset.domain: opset.version for opset in done.fault.opset_import} == {"": 20, "acme": 1}


def test_an_attribute_without_an_obvious_value_allows_no_call():
    body = "F <mode> (x) => (g) { g = Gelu<approximate: string = @mode>(x) }"
    done = search(body)
    assert not done.finds()
    assert done.fault is None


@pytest.mark.parametrize(
    ("attribute", "node", "field", "value"),
    [
        ("axis", "Softmax<axis: int = @axis>(x)", "i", 1),
        ("perm", "Transpose<perm: ints = @perm>(x)", "ints", [1]),
        ("alpha", "Elu<alpha: float = @alpha>(x)", "f", 1.0),
    ],
)
def test_attributes_of_each_kind_have_a_value(attribute, node, field, value):
    head = f"F <{attribute}> (x) => (g) {{ h = {node}"
    done = search(f"{head} g = Neg(h) }}", f"{head} k = Neg(h) g = Transpose<perm = [0, 0]>(k) }}")
    assert not done.finds()
    if done.fault is not None:
        (given,) = done.fault.graph.node[0].attribute
        assert getattr(given, field) == value
    else:
        assert attribute == "perm"  # no rank that is tried has one axis 1


# -- which functions are searched ------------------------------------------------------------------


def test_only_functions_that_the_conversion_changed_are_searched():
    sound, wrong = (
        "F (x) => (g) { g = Neg(x) }",
        "F (x) => (g) { h = Neg(x) g = Concat<axis = 9>(h) }",
    )
    adapters = registry.default()
    (fault,) = faulty_calls(uncalled(sound), uncalled(wrong), adapters)
    assert fault.graph.node[0].op_type == "F"
    assert not [*faulty_calls(uncalled(wrong), uncalled(wrong), adapters)]
    gone = uncalled(sound)
    del gone.functions[:]
    assert not [*faulty_calls(uncalled(sound), gone, adapters)]
    other = uncalled(sound.replace("F", "E"))
    assert not [*faulty_calls(uncalled(sound), other, adapters)]


# -- the types of inputs ---------------------------------------------------------------------------


FLOAT, INTEGER, STRING, BOOL = ["float"], ["int64"], ["string"], ["bool"]


def function(
    inputs: str, outputs: str, body: str, imports: str = '"": 13, "own": 1'
) -> FunctionProto:
    text = f"""(float[2] x) => (float[2] y) {{ y = Neg(x) }}
        <domain: "f", opset_import: [{imports}]> F ({inputs}) => ({outputs}) {{ {body} }}"""
    return model(text, 13, more=', "f": 1').functions[0]


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        ("a", "b = Neg(a)", [["float"], ["int64"]]),
        ("a", "b = Identity(a)", [["float"], ["int64"]]),
        ("a", "b = own.Op(a)", [["float"], ["int64"]]),
        ("a", "b = Not(a)", [BOOL, BOOL]),
        ("a", "b = StringNormalizer(a)", [STRING, STRING]),
        ("a", "c = Exp(a) b = Identity(c)", [["float"], ["float16"]]),
        ("a", "c = Not(a) b = Exp(a)", []),
        ("a, s", "b = Reshape(a, s)", [["float", "int64"], ["int64", "int64"]]),
        ("a, c", "d = Identity(c) b = Add(a, d) e = Exp(c)", [["float"] * 2, ["float16"] * 2]),
        ("a, c, d", "b = Where(a, c, d)", [["bool", "float", "float"], ["bool", "int64", "int64"]]),
        ("a, c", "b = BitShift<direction=\"LEFT\">(a, c)", [["uint8"] * 2, ["uint8"] * 2]),
        ("a", 'b = Clip(a, "", "") c = Not(d)', [["float"], ["int64"]]),
        ("a, unread", "b = Not(a)", [["bool", "float"], ["bool", "int64"]]),
    ],
)  # fmt: skip
def test_values_of_one_variable_have_one_type_that_every_node_accepts(inputs, body, expected):
    assert list(guesses(function(inputs, "b", body))) == expected


@pytest.mark.parametrize(
    ("constant", "kind"),
    [
        ("value = int32[1] {1}", "int32"), ("value = double[1] {1}", "double"),
        ("value_int = 1", "int64"), ("value_floats = [1.0]", "float"), ('value_string = "a"', None),
    ],
)  # fmt: skip
def test_a_constant_has_the_type_of_its_attribute(constant, kind):
    body = f"k = Constant<{constant}>() b = Add(a, k)"
    assert list(guesses(function("a", "b", body))) == ([[kind]] * 2 if kind else [])


def test_a_string_constant_is_a_string():
    body = 'k = Constant<value_string = "a">() b = Equal(a, k)'
    assert list(guesses(function("a", "b", body, '"": 19'))) == [STRING, STRING]


def test_equal_constants_have_the_type_of_their_value():
    body = "c = ConstantOfShape<value = int32[1] {1}>(s) b = Add(a, c)"
    assert list(guesses(function("a, s", "b", body))) == [["int32", "int64"]] * 2
    body = "c = Pad<value = 1.0, pads = [0, 0]>(s) b = Add(a, c)"
    assert next(guesses(function("a, s", "b", body, '"": 2'))) == ["float", "float"]


def test_a_constant_without_an_output_has_no_type():
    made = function("a", "b", "k = Constant<value = int32[1] {1}>() b = Neg(a)")
    del made.node[0].output[:]
    assert list(guesses(made)) == [FLOAT, INTEGER]


def test_inputs_that_are_left_out_or_too_many_bind_nothing():
    body = """b = Exp(a) c = Clip(a, "", a) d = BitShift<direction = "LEFT">(e, e)
        f = Clip(e, "", e) g = Not(h, a)"""
    assert next(guesses(function("a, e, h", "b", body))) == ["float", "uint8", "bool"]


def test_variadic_values_of_several_types_do_not_bind_each_other():
    body = """b = If(a) <then_branch = t () => (p) { p = Neg(c) },
        else_branch = e () => (q) { q = Not(d) }>"""
    assert next(guesses(function("a, c, d", "b", body))) == ["bool", "float", "bool"]
    body = """n, c, f = Loop(n0, c0, a, s) <body = b (i, g, x, y) => (o, p, q) { o = Identity(g) p = Exp(x) q = Not(y) }>
        b = Exp(a) z = Not(s)"""
    assert next(guesses(function("n0, c0, a, s", "b", body))) == [
        "int64",
        "bool",
        "float",
        "bool",
    ]


def test_operators_that_the_function_does_not_import_decide_nothing():
    assert list(guesses(function("a", "b", "b = Not(a)", '"own": 1'))) == [FLOAT, INTEGER]
