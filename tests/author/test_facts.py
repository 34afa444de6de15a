# SPDX-License-Identifier: Apache-2.0
"""Facts about values: their sources, and the declarations that a report names."""

from collections import Counter

import numpy as np
import onnx.parser
import pytest
from onnx import helper, numpy_helper
from opshift import convert_version
from opshift.author import facts as facts_module
from opshift.author import registry
from opshift.author.facts import LARGEST_SMALL, MAX_DEPTH, Facts, ScopeEnv
from opshift.author.inference import infer_all, infer_node
from opshift.author.scope_types import NO_PATH, paths_inside
from opshift.convert.cheapest_strategy import convert
from opshift.convert.request import Request
from opshift.model import weights
from opshift.model.document import Document
from opshift.model.fork import Fork
from opshift.model.replace import Replacement, replace_nodes
from opshift.opsets.types import LENGTH, dims_of, rank_of
from text_models import model, ops

CUSTOM = ', "custom" : 1'


def facts_of(m: onnx.ModelProto) -> Facts:
    skeleton, large_tensors = weights.carve_model(m)
    return Facts(Document(skeleton), large_tensors, registry.default(), lambda: skeleton)


def dims(facts: Facts, name: str, depth: int = 0) -> tuple:
    scope = facts.document.roots[0].scopes[depth]
    return dims_of(facts.type(scope, name))


def declare(m: onnx.ModelProto, name: str, shape: list, kind: int = 1) -> onnx.ModelProto:
    m.graph.value_info.append(helper.make_tensor_value_info(name, kind, shape))
    return m


def report(m: onnx.ModelProto, target: int) -> tuple[onnx.ModelProto, str]:
    skeleton, large_tensors, told = convert(lambda: weights.carve_model(m), Request(target))
    weights.fill(skeleton, large_tensors)
    return skeleton, "\n".join(told.notes)


def test_a_symbol_of_an_input_counts_before_a_declared_number():
    m = model("(float[N,4] x) => (float[N,4] y) { h = Relu(x) y = Neg(h) }", opset=13)
    assert dims(facts_of(declare(m, "h", [8, 4])), "h") == ("N", 4)


def test_a_declared_number_is_no_length_where_inference_knows_none():
    m = model(
        "(float[4] x) => (float[a,b] y) { h = custom.Op(x) y = Neg(h) }", opset=13, more=CUSTOM
    )
    facts = facts_of(declare(m, "h", [8, 4]))
    assert dims(facts, "h") == (None, None)
    assert facts.is_assumed(facts.document.main, "y")
    assert facts.claimed(facts.document.main, "h", (None, None)) == (8, 4)


def test_a_declared_number_is_never_claimed_for_a_symbol_of_an_input():
    m = model("(float[N,4] x) => (float[N,4] y) { h = Relu(x) y = Neg(h) }", opset=13)
    facts = facts_of(declare(m, "h", [8, 4]))
    assert facts.claimed(facts.document.main, "h", ("N", None)) == ("N", 4)


def test_a_shape_that_callers_may_replace_is_not_known_to_inference():
    text = "(float[6] x, int64[2] s) => (float[a,b] y) <int64[2] s = {2, 3}> { y = Reshape(x, s) }"
    facts = facts_of(model(text, opset=13))
    assert not any(isinstance(d, int) for d in dims(facts, "y"))


LOOP = """(float[N,4] x, float[4,4] w, int64 n, bool c) => (float y, float z) {{
    y, z = Loop(n, c, x, w) <body = b (int64 i, bool k, float h, float v) => (bool l, float p, float q) {{
        l = Identity(k) p = {op} q = Identity(v) }}> }}"""


@pytest.mark.parametrize(
    ("op", "found"),
    [("MatMul(h, v)", ("N", 4)), ("Concat<axis=0>(h, v)", (None, 4)), ("Neg(h)", ("N", 4))],
)
def test_what_a_loop_carries_is_known_by_induction(op, found):
    m = model(LOOP.format(op=op), opset=13)
    for graph in (m.graph, m.graph.node[0].attribute[0].g):
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")
    for value in m.graph.node[0].attribute[0].g.input[2:]:
        value.type.tensor_type.ClearField("shape")
    facts = facts_of(m)
    known = [None if isinstance(d, str) and d != "N" else d for d in dims(facts, "h", 1)]
    assert tuple(known) == found
    assert not facts.is_assumed(facts.document.roots[0].scopes[1], "h")
    assert dims(facts, "z") == (4, 4)


def test_what_is_carried_through_a_long_chain_of_loops_is_known():
    loops = "".join(
        f"""x{i + 1} = Loop(n, c, x{i}) <body = b{i} (int64 i{i}, bool k{i}, float[N,4] h{i})
            => (bool l{i}, float[N,4] p{i}) {{ l{i} = Identity(k{i}) p{i} = Neg(h{i}) }}> """
        for i in range(9)
    )
    m = model(f"(float[N,4] x0, int64 n, bool c) => (float[N,4] x9) {{ {loops} }}", opset=13)
    m.graph.output[0].type.tensor_type.ClearField("shape")
    facts = facts_of(m)
    assert dims(facts, "x9") == ("N", 4)
    assert not facts.is_assumed(facts.document.roots[0].scopes[0], "x9")


def test_a_wrong_declaration_of_what_a_loop_carries_is_not_believed():
    text = LOOP.format(op="Concat<axis=0>(h, v)").replace(
        "float h, float v", "float[N,4] h, float[4,4] v"
    )
    found = dims(facts_of(model(text, opset=13)), "h", 1)
    assert found is not None
    assert found[0] != "N"
    assert found[1] == 4


def test_what_a_loop_carries_may_have_the_name_of_a_value_around_it():
    m = model(LOOP.format(op="Neg(x)").replace("float h", "float x"), opset=13)
    body = m.graph.node[0].attribute[0].g
    for value in (*m.graph.output, *body.output, *body.input[2:]):
        value.type.tensor_type.ClearField("shape")
    facts = facts_of(m)
    assert dims(facts, "x", 1) == dims(facts, "y") == ("N", 4)


def test_the_report_names_a_rank_that_is_only_declared():
    text = "(float[4] x) => (float[a,b] y) { h = custom.Op(x) y = Softmax<axis=1>(h) }"
    m = declare(model(text, opset=12, more=CUSTOM), "h", ["a", "b"])
    after, told = report(m, 13)
    assert ops(after) == "Op Softmax"
    assert "the rank of 'h' comes from a declaration" in told


def test_the_report_names_no_rank_that_inference_confirms():
    text = "(float[2,4] x) => (float[a,b] y) { h = Relu(x) y = Softmax<axis=1>(h) }"
    assert "declared" not in report(declare(model(text, opset=12), "h", [2, 4]), 13)[1]


def test_a_weight_has_no_assumed_rank():
    """Exporters declare weights in the same way as computed values."""
    text = "(float[2,4] x) => (float[2,4] y) <float[4] w = {1, 2, 3, 4}> { y = Mul(x, w) }"
    facts = facts_of(declare(model(text, opset=17), "w", [4]))
    assert not facts.inferred.assumed
    assert not facts.is_assumed(facts.document.main, "w")


def test_a_wrong_declaration_is_corrected_in_the_result():
    text = (
        "(float[N,4] x) => (float[N] y) <int64 i = {-1}> { h = Relu(x) y = Gather<axis=1>(h, i) }"
    )
    m = declare(model(text, opset=11), "h", [8, 4])
    after, told = report(m, 10)
    (kept,) = [value for value in after.graph.value_info if value.name == "h"]
    assert dims_of(kept.type) == ("N", 4)
    assert "corrected the declared shapes of 'h', which contradict the inputs" in told


def test_the_integers_of_a_constant_of_opset_8_have_a_type():
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 8, "own": 1]>
        g (float[3,1] x) => (float[2,3,4] y) { y = own.Body(x) }
        <domain: "own", opset_import: ["": 8]>
        Body (x) => (y) { s = Constant<value = int64[3] {2,3,4}>() y = Expand(x, s) }"""
    )
    assert [node.op_type for node in convert_version(model, 7).graph.node] == ["Unsqueeze", "Tile"]


# -- constants, bounds and why a value is none ---------------------------------------------------


def constant(nodes: str, name: str = "y", ir: int = 8, more: str = "", opset: int = 13) -> object:
    """The value of a constant as a list, or None."""
    facts = facts_of(model(CONSTANTS.format(nodes), opset, ir=ir, more=more))
    found = facts.constant(facts.document.main, name)
    return None if found is None else found.tolist()


CONSTANTS = """(int64[2] x, int64[2] d) => (int64[k] y)
    <int64[2] w = {{1, 2}}, int64[2] d = {{3, 4}}> {{ {} }}"""


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Constant<value = int64[2] {5, 6}>()", [5, 6]),
        ("y = Constant<value_int = 5>()", 5),
        ("y = Constant<value_ints = [5, 6]>()", [5, 6]),
        ("y = Constant<value_float = 0.5>()", 0.5),
        ('y = Constant<value_strings = ["a", "b"]>()', [b"a", b"b"]),
        ("y = Identity(w)", [1, 2]),
        ("y = Identity(x)", None),
        ("y = Add(w, w)", [2, 4]),
        ("a = Add(w, w) y = Concat<axis=0>(a, w)", [2, 4, 1, 2]),
        ("y = Add(w, x)", None),
        ("y = Add(w, d)", None),
        ("y = Add(w)", None),
        ("y = own.Add(w, w)", None),
        ("y, z = Split(w)", None),
    ],
)
def test_a_constant_is_the_same_for_all_inputs(nodes, expected):
    assert constant(nodes, more=CUSTOM.replace("custom", "own")) == expected


def test_equal_constant_nodes_share_one_array():
    """The nodes of an exported model repeat few constants, such as the axes of Unsqueeze."""
    text = "() => (int64[1] a, int64[1] b, int64[1] c, int64[1] d) {{ {} }}"
    first, second = "Constant<value = int64[1] {5}>()", "Constant<value = int64[1] {6}>()"
    nodes = f"a = {first} b = {first} c = {second} d = {first.replace('()', '(a)')}"
    facts = facts_of(model(text.format(nodes), 13))
    a, b, c, d = (facts.constant(facts.document.main, name) for name in "abcd")
    assert a is b
    assert (a.tolist(), c.tolist(), d) == ([5], [6], None)


def test_only_a_replaceable_initializer_is_no_constant():
    """Before IR 4, each initializer is also an input, but callers do not replace it."""
    found = {ir: [constant("y = Neg(x)", name, ir=ir) for name in "wdx"] for ir in (3, 4)}
    assert found == {3: [[1, 2], [3, 4], None], 4: [[1, 2], None, None]}
    assert constant("y = Neg(x)", "unknown") is None


def test_a_sparse_constant_has_zeros():
    proto = model(CONSTANTS.format("y = Add(s, c)"), 13)
    values = [helper.make_tensor(name, 7, [1], [number]) for name, number in (("o", 8), ("s", 9))]
    indices = helper.make_tensor("", 7, [1], [1])
    for value in values:
        proto.graph.sparse_initializer.append(
            onnx.SparseTensorProto(values=value, indices=indices, dims=[2])
        )
    node = helper.make_node("Constant", [], ["c"])
    node.attribute.add(name="sparse_value", type=11).sparse_tensor.CopyFrom(
        proto.graph.sparse_initializer[1]
    )
    proto.graph.node.insert(0, node)
    facts = facts_of(proto)
    found = [facts.constant(facts.document.main, name).tolist() for name in "scy"]
    assert found == [[0, 9], [0, 9], [0, 18]]


def test_an_attribute_of_a_function_is_no_constant():
    text = """(int64[2] x) => (int64 y) { y = custom.F<k = 3>(x) }
        <domain: "custom", opset_import: ["": 13]> F <k> (x) => (y) {
            y = Constant<value_int: int = @k>() z = Constant<value_int = 3>() }"""
    facts = facts_of(model(text, 13, more=CUSTOM))
    scope = facts.document.roots[1].top
    assert facts.constant(scope, "y") is None
    assert facts.constant(scope, "z").tolist() == 3


@pytest.mark.parametrize(("count", "is_known"), [(2**17, True), (2**17 + 1, False)])
def test_a_large_value_is_not_folded(count, is_known):
    """A megabyte is the largest value that a fold computes."""
    text = f"() => (int64[k] y) <int64[1] s = {{{count}}}> {{ y = ConstantOfShape<value = int64[1] {{7}}>(s) z = Shape(y) }}"
    facts = facts_of(model(text, 13))
    assert (facts.constant(facts.document.main, "y") is not None) == is_known


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("w", ([1, 2], [1, 2])), ("s", ([2, 0], [2, 2**40])), ("t", ([4, 0], [4, 2**41])),
        ("x", None), ("y", None), ("f", None), ("o", None), ("unknown", None),
    ],
)  # fmt: skip
def test_integers_have_bounds_by_their_value_or_by_the_rule_of_their_operator(name, expected):
    text = """(float[2,N] x) => (float[k] y) <int64[2] w = {1, 2}> {
        s = Shape(x) t = Add(s, s) f = Constant<value_float = 1.0>() o = custom.Shape(x) y = Neg(x) }"""
    facts = facts_of(model(text, 13, more=CUSTOM))
    bounds = facts.bounds(facts.document.main, name)
    shown = None if bounds is None else (bounds.low.tolist(), bounds.high.tolist())
    assert shown == expected


def test_each_output_of_a_node_has_its_own_bounds():
    text = "(float[2,5] x, int64[1] k) => (float[2,k] y) { y, i = TopK(x, k) }"
    facts = facts_of(model(text, 13))
    assert facts.bounds(facts.document.main, "y") is None
    bounds = facts.bounds(facts.document.main, "i")
    assert bounds is not None
    assert bounds.never_negative


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x", "'x' is an input"), ("d", "'d' is an initializer that is also a graph input"),
        ("a", "'x' is an input"), ("b", "'d' is an initializer"), ("c", "'c' is computed by Op 'c'"),
        ("e", "'c' is computed by Op 'c'"), ("inner", "'x' is an input"),
        ("unknown", "no graph around the node defines 'unknown'"),
    ],
)  # fmt: skip
def test_the_reason_why_a_value_is_no_constant_is_its_first_source_that_is_none(name, words):
    nodes = """a = Add(w, x) b = Identity(d) c = custom.Op(w) e = Add(w, c)
        y = If(k) <then_branch = t () => (p) { p = Add(w, a) },
            else_branch = f () => (q) { q = Identity(w) }>"""
    facts = facts_of(model(CONSTANTS.format(nodes), 13, more=CUSTOM))
    scope = facts.document.roots[0].scopes[0]
    if name == "inner":
        scope, name = facts.document.roots[0].scopes[1], "p"
    assert facts.why_dynamic(scope, name).startswith(words)
    assert not facts.depends_on_size(scope, name)


def test_a_cycle_has_no_facts():
    text = "(int64[2] x) => (int64[2] y) { a = Add(b, x) b = Add(a, x) y = Neg(a) }"
    facts = facts_of(model(text, 13))
    assert facts.constant(facts.document.main, "a") is None
    assert facts.bounds(facts.document.main, "b") is None


@pytest.mark.parametrize(("length", "is_longer"), [(1, True), (2, False)])
def test_the_length_of_an_initializer_is_known_before_it_is_read(length, is_longer):
    facts = facts_of(model(CONSTANTS.format("y = Identity(w)"), 13))
    main = facts.document.main
    assert facts.is_longer(main, "w", length) == is_longer
    assert not any(facts.is_longer(main, name, 0) for name in ("x", "y", "unknown"))


# -- the report, surveys and present types -------------------------------------------------------


def test_claims_are_listed_by_their_kind():
    facts = facts_of(model(CONSTANTS.format("y = Neg(x)"), 13))
    new = facts.document.fresh("Neg")
    facts.relied_on = {
        "a": "rank",
        new: "shape",
        "c": "rank",
        "d": "rank",
        "e": "rank",
        "f": "rank",
    }
    facts.document.origins[new] = "'inner' in the call"
    ranks, shape = facts.believed()
    assert ranks.startswith("the rank of 'a', 'c', 'd', 'e' and 1 more values comes")
    assert shape.startswith("the shape of 'inner' in the call comes")


def test_a_survey_is_asked_once_until_nodes_change():
    facts = facts_of(
        model("(float[2] x) => (float[2] y, float[2] a) { a = Neg(x) y = Abs(a) }", 13)
    )
    asked = []

    def look(nodes, outputs):
        asked.append(([node.op for node in nodes], sorted(outputs)))
        return len(asked)

    root = facts.document.roots[0]
    assert [facts.survey(root, look) for _ in range(2)] == [1, 1]
    assert asked == [(["Neg", "Abs"], ["a", "y"])]
    facts.document.generation += 1
    assert facts.survey(root, look) == 2


def test_types_that_a_step_brings_in_are_present():
    facts = facts_of(model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13))
    before = facts.present_types
    assert "double" not in before
    facts.add_present_types(["float"])
    assert facts.present_types is before
    facts.add_present_types(["double", "float"])
    assert facts.present_types == before | {"double"}


# -- answers after a step ------------------------------------------------------------------------


STEP = """(float[N,4] x, float[6] v, int64[k] g) => (float[a,b] z)
    <int64[2] w = {1, 2}> { y = Add(w, w) r = Reshape(v, g) q = Softmax<axis=1>(x) z = Neg(q) }"""


def stepped(*, asked: bool, opens: bool = True) -> Facts:
    """Facts about a model in which a step has replaced each node by one of an unknown operator."""
    made = declare(model(STEP, 13, more=CUSTOM), "r", [2, 3])
    skeleton, large_tensors = weights.carve_model(made)
    came, _ = weights.carve_model(made)
    facts = Facts(
        Document(skeleton), large_tensors, registry.default(), lambda: came,
        (lambda: Document(came)) if opens else None,
    )  # fmt: skip
    main = facts.document.main
    if asked:
        found(facts)
    for position, node in enumerate(skeleton.graph.node):
        written = helper.make_node("Op", node.input, node.output, domain="custom")
        replace_nodes(facts.document, [Replacement((main, position), [written])])
    return facts


def found(facts: Facts) -> tuple:
    main = facts.document.main
    bounds = facts.bounds(main, "y")
    constant = facts.constant(main, "y")
    return (
        None if constant is None else constant.tolist(),
        None if bounds is None else bounds.highest,
        dims(facts, "q"),
        facts.is_assumed(main, "r"),
    )


@pytest.mark.parametrize("asked", [False, True])
def test_a_value_keeps_its_facts_when_a_step_replaces_its_node(asked):
    """An earlier question about the value makes no difference."""
    assert found(stepped(asked=asked)) == ([2, 4], 4, ("N", 4), True)


def test_facts_that_nobody_asked_for_are_unknown_if_the_model_cannot_be_opened_again():
    constant, highest, shape, _ = found(stepped(asked=False, opens=False))
    assert (constant, highest) == (None, None)
    assert shape == ("N", 4), "inference of the whole model holds it"


def test_a_copy_of_a_document_has_the_same_facts():
    for asked in (False, True):
        facts = stepped(asked=asked)
        twin = facts.fork(Fork(facts.document))
        assert found(twin) == found(facts)
        twin.relied_on["q"] = "rank"
        assert not facts.relied_on


def test_a_survey_of_a_function_gets_its_outputs():
    text = """(float[2] x) => (float[2] z) { z = custom.F(x) }
        <domain: "custom", opset_import: ["": 13]> F (x) => (y) { y = Abs(x) }"""
    facts = facts_of(model(text, 13, more=CUSTOM))
    assert facts.survey(facts.document.roots[1], lambda nodes, outputs: outputs) == {"y"}


def test_a_value_that_training_sets_is_no_constant():
    facts = facts_of(model(CONSTANTS.format("y = Add(w, w)"), 13))
    main = facts.document.main
    facts.document.names.bound.add((main, "w"))
    assert facts.constant(main, "w") is None
    assert facts.constant(main, "y") is None
    assert "that training_info binds" in facts.why_dynamic(main, "y")


@pytest.mark.parametrize(("declared", "is_assumed"), [([2, 3], True), (None, False)])
def test_the_rank_of_a_value_of_an_unknown_operator_is_that_of_its_declaration(
    declared, is_assumed
):
    proto = model(
        "(float[2] x) => (float[a,b] z) { h = custom.Op(x) z = custom.Op(h) }", 13, more=CUSTOM
    )
    facts = facts_of(declare(proto, "h", declared))
    assert facts.is_assumed(facts.document.main, "h") == is_assumed


def test_the_types_of_one_node_are_inferred_once(monkeypatch):
    facts = facts_of(model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13))
    asked = []

    def counting(data, adapters):
        asked.append(data)
        return infer_all(data, adapters)

    monkeypatch.setattr("opshift.author.facts.infer_all", counting)
    one, other = (model(f"(float[{n}] x) => (y) {{ y = Neg(x) }}", 13) for n in (2, 3))
    found = [dims_of(facts.types_alone(each)["y"]) for each in (one, other, one)]
    assert found == [(2,), (3,), (2,)]
    assert len(asked) == 2


# -- an env: the questions about one scope -------------------------------------------------------


def env_of(nodes: str, inputs: str = "float[N,4] x, int64[k] g", depth: int = 0) -> ScopeEnv:
    text = f"({inputs}) => (float[a,b] z) {{ {nodes} }}"
    facts = facts_of(declare(model(text, 13, more=CUSTOM), "r", [2, 3]))
    return ScopeEnv(facts, facts.document.roots[0].scopes[depth])


def test_only_a_node_that_fits_its_schema_is_shown():
    env = env_of("a = Neg(x) m = Neg(x, x) c = custom.Op(x) z = Neg(a)")
    shown = {name: (env.producer(name), env.is_computed(name)) for name in "amcxu"}
    assert {name: one and one.op for name, (one, _) in shown.items()} == {
        "a": "Neg", "m": None, "c": "Op", "x": None, "u": None,
    }  # fmt: skip
    assert [name for name, (_, is_computed) in shown.items() if is_computed] == ["a", "m", "c"]


def test_the_call_of_a_function_is_no_operator():
    text = """(float[2] x) => (float[2] z) { z = Neg(x) a = Abs(x) }
        <domain: "", opset_import: ["": 13]> Neg (x) => (y) { y = Abs(x) }"""
    facts = facts_of(model(text, 13))
    env = ScopeEnv(facts, facts.document.main)
    assert [env.producer("z"), env.is_computed("z"), env.is_computed("a")] == [None, False, True]
    assert [env.is_call(node) for node in facts.document.model.graph.node] == [True, False]


def test_answers_that_rest_on_a_declaration_name_it():
    """`s` is the shape of a value whose rank only a declaration gives."""
    env = env_of("r = Reshape(x, g) s = Shape(r) z = Neg(r)")
    env.use_rank("x")
    assert env.claims == {}
    assert env.bounds("s").low.tolist() == [0, 0]
    assert env.claims == {"r": "rank"}
    env.claims.clear()
    assert env.claimed_dims("r", (None, None)) == (2, 3)
    assert env.claims == {"r": "shape"}
    assert env.claimed_dims("x", ("N", 4)) == ("N", 4)
    assert env.claims == {"r": "shape"}
    env.claims.clear()
    env.use_rank("r")
    env.claimed_dims("r", (None, None))
    assert env.claims == {"r": "rank"}, "the first claim about a value counts"
    around = env.producer("z")
    assert around is not None
    assert around.env.claims is env.claims


@pytest.mark.parametrize(
    "nodes",
    [
        "v = Neg(r)", "v = Shape(r)", "v = Size(r)", "s = Shape(r) v = Shape(s)",
        "s = Shape(r) v = Size(s)", "s = Shape(r) v = Neg(s)", "s = Shape(x) v = Shape(s)",
        "n = Neg(r) s = Shape(n) c = Concat<axis=0>(s, g) v = Shape(s)", "v = Neg(x)",
        "n = NonZero(r) v = Shape(n)", "n = NonZero(r) v = Neg(n)", "s = Shape(r) v = Reshape(x, s)",
        "s = Shape(r) e = Expand(s, g) v = Size(s)", "s = Shape(r) i = Identity(s) v = Shape(i)",
        "s = Shape(r) c = Concat<axis=0>(s, s) v = Shape(c)", "s = Shape(r) v = ReduceSum(s)",
        "s = Shape(r) t = Shape(s) v = ConstantOfShape(t)", "s = Shape(r) v = Unsqueeze(x, s)",
    ],
)  # fmt: skip
def test_an_answer_that_a_model_gives_only_with_a_declaration_names_the_declaration(nodes):
    text = f"(float[N,4] x, int64[k] g) => (float z) {{ r = Reshape(x, g) {nodes} z = Size(x) }}"
    bare = facts_of(model(text, 13))
    told = facts_of(declare(model(text, 13), "r", ["a", "b"]))
    for look in (
        lambda env: rank_of(env.type("v")) if known(env) and env.use_rank("v") is None else None,
        lambda env: lengths(env) if known(env) else None,
        lambda env: str(env.constant("v")),
        lambda env: str(env.bounds("v")),
    ):
        env, other = (ScopeEnv(one, one.document.main) for one in (told, bare))
        assert look(env) == look(other) or env.claims, nodes
        assert other.claims == {}
        assert "(r)" in nodes or env.claims == {}


def known(env: ScopeEnv) -> bool:
    return rank_of(env.type("v")) is not None


def lengths(env: ScopeEnv) -> list[int]:
    env.use_rank("v")
    return [dim if isinstance(dim, int) else -1 for dim in env.dims("v", env.type("v"))]


def test_the_report_names_a_length_that_follows_from_a_declared_rank():
    """The axes of Squeeze are the number of lengths that `s` has."""
    text = """(float[N,4] x, int64[k] g, float[2,3,1] v) => (float[2,3] y, float[a,b] z) {
        r = Reshape(x, g) z = Neg(r) s = Shape(r) t = Shape(s) y = Squeeze(v, t) }"""
    after, told = report(declare(model(text, 13), "r", ["a", "b"]), 12)
    assert after.graph.node[-1].attribute[0].ints == [2]
    assert "the shape of 's' comes from a declaration" in told


@pytest.mark.parametrize(
    ("name", "is_assumed", "rank"),
    [("r", True, None), ("x", False, 2), ("z", True, None), ("u", False, None)],
)
def test_a_declared_rank_is_assumed_and_not_confirmed(name, is_assumed, rank):
    env = env_of("r = Reshape(x, g) z = Neg(r)")
    assert env.facts.is_assumed(env.scope, name) == is_assumed
    if name != "u":
        confirmed = env.facts.confirmed(env.scope, name)
        assert (None if confirmed is None else rank_of(confirmed)) == rank


def test_a_weight_is_an_initializer_with_too_many_elements():
    proto = model("(float[2] x) => (float[2] z) { z = Neg(x) }", 13)
    for name, count in (("few", LARGEST_SMALL), ("many", LARGEST_SMALL + 1)):
        proto.graph.initializer.append(helper.make_tensor(name, 1, [count], [0.0] * count))
    facts = facts_of(proto)
    env = ScopeEnv(facts, facts.document.main)
    assert [env.is_weight(name) for name in ("few", "many", "x")] == [False, True, False]


def test_rare_types_are_present_and_not_common():
    env = env_of("r = Reshape(x, g) z = Cast<to=10>(r)")
    assert {"float", "float16"} <= env.possible_types()
    assert env.rare_types() == frozenset()
    env.facts.add_present_types(["bfloat16"])
    assert env.rare_types() == {"bfloat16"}


def test_a_length_has_one_symbol():
    env = env_of("r = Reshape(x, g) z = Neg(r)")
    symbols = [env.length_symbol("r", 0), env.length_symbol("r", 1), env.length_symbol("r", 0)]
    assert symbols[0] == symbols[2] != symbols[1]


# -- which nodes are looked at -------------------------------------------------------------------


NEWS = {
    "a fold": "(float[6] v, float[2,3] x) => (float[a,b] z) { s = Shape(x) z = Reshape(v, s) }",
    "a fold behind a fold": """(float[6] v, float[2,3] x) => (float[a,b] z) <int64[1] o = {0}, int64[1] e = {9}> {
        s = Shape(x) t = Slice(s, o, e) z = Reshape(v, t) }""",
    "an operator without a schema": "(float[2,3] x) => (float[a,b] z) { h = com.microsoft.FastGelu(x) z = Relu(h) }",
    "one typed input": "(float[2,3] x, int64[k] g) => (float[a,b] z) { u = custom.Op(x) h = Where(c, u, x) z = Relu(h) }",
    "an unknown input": "(float[2,3] x) => (float[a,b] z) { u = custom.Op(x) h = Add(u, x) z = Relu(h) }",
    "a rank by rule": "(float[6] v, int64[k] g, float[2,3] x) => (float[a,b] z) { u = Reshape(v, g) h = MatMul(u, x) z = Expand(x, g) }",
    "one name in two graphs": """(float[2,3] x, bool c) => (float[a,b] z) { z = If(c)
        <then_branch = t () => (p) { h = Neg(x) p = Relu(h) },
         else_branch = e () => (q) { h = Transpose(x) q = Transpose(h) }> }""",
    "a graph in a graph": """(float[2,3] x, bool c) => (float[a,b] z) { z = If(c)
        <then_branch = t () => (p) { p = If(c) <then_branch = u () => (r) { r = Neg(x) },
            else_branch = w () => (s) { s = Relu(x) }> },
         else_branch = e () => (q) { q = Neg(x) }> }""",
    "a loop": LOOP.format(op="Neg(h)").replace("float h, float v", "h, v").replace("float p, float q", "p, q"),
    "a function": """(float[2,3] x) => (float[a,b] z) { z = custom.F(x) }
        <domain: "custom", opset_import: ["": 13]> F (x) => (z) { s = Constant<value_ints = [3, 2]>() z = Reshape(x, s) }""",
}  # fmt: skip


def all_types(facts: Facts) -> dict:
    """The type of every value of every scope, without the symbols that inference makes up."""
    found = {}
    for at, scope in enumerate(facts.document.scopes()):
        for name in (*scope.inputs, *scope.producers):
            kind = facts.type(scope, name)
            rank = rank_of(kind)
            lengths = None if kind is None or rank is None else dims_of(kind)
            shown = lengths and [
                None if isinstance(d, str) and "opshift" in d else d for d in lengths
            ]
            found[at, name] = (
                kind and kind.tensor_type.elem_type,
                shown,
                facts.is_assumed(scope, name),
            )
    return found


@pytest.mark.parametrize("kind", NEWS)
def test_a_node_that_is_left_out_would_tell_no_more(monkeypatch, kind):
    """Inference skips nodes for which it cannot improve the type."""
    proto = model(NEWS[kind], 13, more=f'{CUSTOM}, "com.microsoft": 1')
    usual = all_types(facts_of(proto))
    monkeypatch.setattr(Facts, "_tells_more", lambda *words: True)
    assert all_types(facts_of(proto)) == usual


# -- what a step changes -------------------------------------------------------------------------


def replaced(m: onnx.ModelProto, position: int, *ops: str) -> Facts:
    """Facts about a model in which a chain of operators has replaced a node of one input."""
    facts = facts_of(m)
    main = facts.document.main
    assert facts.inferred, "of the model before the step"
    old = main.node(position)
    names = [
        old.input[0],
        *(f"{facts.document.prefix}{at}" for at in range(len(ops) - 1)),
        *old.output,
    ]
    written = [
        helper.make_node(op, [before], [after])
        for op, before, after in zip(ops, names[:-1], names[1:], strict=True)
    ]
    replace_nodes(facts.document, [Replacement((main, position), written)])
    return facts


def test_answers_before_a_step_are_kept_if_the_model_cannot_be_opened_again():
    assert found(stepped(asked=True, opens=False)) == ([2, 4], 4, ("N", 4), True)


@pytest.mark.parametrize("asked", [False, True])
def test_a_copy_after_a_step_has_the_answers_from_before_the_step(asked):
    facts = stepped(asked=asked, opens=not asked)
    expected = found(facts)
    twin = facts.fork(Fork(facts.document))
    twin.document.generation += 1
    assert found(twin) == expected == ([2, 4], 4, ("N", 4), True)


def test_a_copy_numbers_its_lengths_like_the_original_and_on_its_own():
    facts = env_of("r = Reshape(x, g) z = Neg(r)").facts
    main = facts.document.main
    first, second = (facts.length_symbol(main, "r", axis) for axis in (0, 1))
    twin = facts.fork(Fork(facts.document))
    copy = twin.document.main
    assert [twin.length_symbol(copy, "r", axis) for axis in (1, 0)] == [second, first]
    assert twin.length_symbol(copy, "z", 1) == facts.length_symbol(main, "z", 0)


def test_copies_after_the_model_was_opened_again_number_their_lengths_together():
    facts = stepped(asked=False)
    assert found(facts)
    main = facts.document.main
    twin = facts.fork(Fork(facts.document))
    first, second = (facts.length_symbol(main, "z", axis) for axis in (0, 1))
    assert [twin.length_symbol(twin.document.main, "z", axis) for axis in (1, 0)] == [second, first]


def test_a_value_that_a_step_wrote_has_the_type_of_its_node():
    facts = replaced(
        model("(float[2,3] x) => (float[2,3] y) { h = Neg(x) y = Abs(h) }", 13), 0, "Relu", "Neg"
    )
    assert dims(facts, "opshift_0") == (2, 3)
    assert facts.confirmed(facts.document.main, "h") is not None


def test_nodes_that_a_step_wrote_may_give_a_length_that_was_hidden():
    text = "(float[2,3] x) => (float[2,3] y) { h = Neg(x) y = Abs(h) }"
    for facts, expected in (
        (facts_of(model(text, 13)), (f"{LENGTH}0", 3)),
        (replaced(model(text, 13), 0, "Relu", "Neg"), (2, 3)),
    ):
        hidden = helper.make_tensor_type_proto(1, [f"{LENGTH}0", 3])
        facts.record_type(facts.document.main, "h", hidden, claimed=False)
        assert dims(facts, "h") == expected


def test_a_rank_that_follows_from_an_assumed_one_is_assumed():
    text = "(float[N,4] x, int64[k] g) => (float[a,b] z) { r = Reshape(x, g) h = Neg(r) z = custom.Op(h) }"
    facts = replaced(declare(model(text, 13, more=CUSTOM), "r", [2, 3]), 1, "Relu", "Neg")
    assert [facts.is_assumed(facts.document.main, name) for name in ("r", "opshift_0", "h")] == [
        True
    ] * 3


def test_a_recorded_type_counts_with_its_claims():
    facts = facts_of(
        model("(float[2,3] x) => (float[a,b] y) { h = custom.Op(x) y = Neg(h) }", 13, more=CUSTOM)
    )
    main = facts.document.main
    facts.record_type(
        main, "h", helper.make_tensor_type_proto(1, [2, 3]), claimed=True, counted=True
    )
    assert dims(facts, "h") == (2, 3)
    assert (facts.is_assumed(main, "h"), facts.is_counted(main, "h")) == (True, True)


# -- values without a look at a node -------------------------------------------------------------


def blind(m: onnx.ModelProto) -> Facts:
    """Facts about a model for which inference of the whole model finds no type."""
    skeleton, large_tensors = weights.carve_model(m)
    empty = model("(float[1] unrelated) => (float[1] other) { other = Neg(unrelated) }", 13)
    return Facts(Document(skeleton), large_tensors, registry.default(), lambda: empty)


def test_an_input_has_its_declared_type_whatever_inference_finds():
    facts = blind(model("(float[2,3] x) => (float[a,b] y) { y = Neg(x) }", 13))
    assert dims(facts, "x") == (2, 3)
    assert not facts.is_assumed(facts.document.main, "x")


@pytest.mark.parametrize("bound", [False, True])
def test_an_initializer_has_its_own_type_also_if_training_sets_it(bound):
    facts = blind(model("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", 13))
    if bound:
        facts.document.names.bound.add((facts.document.main, "w"))
    assert dims(facts, "w") == (2,)


@pytest.mark.parametrize(("ir", "known"), [(3, (2,)), (8, ("k",))])
def test_an_initializer_that_is_an_input_has_its_own_type_unless_callers_may_replace_it(ir, known):
    text = "(float[2] x, float[k] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    assert dims(facts_of(model(text, 7, ir)), "w") == known


def test_the_declared_rank_of_an_input_of_a_function_is_assumed():
    m = model("""(float[2] x) => (float[2] z) { z = custom.F(x) }
        <domain: "custom", opset_import: ["": 13]> F (x) => (y) { y = Abs(x) }""", 13, 10, more=CUSTOM)  # fmt: skip
    m.functions[0].value_info.append(helper.make_tensor_value_info("x", 1, [2]))
    facts = facts_of(m)
    assert facts.is_assumed(facts.document.roots[1].scopes[0], "x")


def test_a_rank_that_is_only_assumed_makes_a_value_unconfirmed():
    env = env_of("r = Reshape(x, g) z = Neg(r)")
    facts, main = env.facts, env.scope
    assert (facts.is_assumed(main, "r"), facts.is_counted(main, "r")) == (True, False)
    assert facts.is_unconfirmed(main, "r")
    assert not facts.is_unconfirmed(main, "x")


def test_a_wrong_declared_shape_of_an_input_of_a_body_is_corrected():
    text = LOOP.format(op="Neg(h)").replace("float h,", "float[9,9] h,")
    facts = facts_of(model(text, 13))
    assert facts.correct()
    body = facts.document.roots[0].scopes[1].proto
    assert dims_of(body.input[2].type) == ("N", 4)


def test_a_rank_is_assumed_only_in_the_graph_that_declares_it():
    m = model("""(float[2,3] x, bool c, int64[k] g) => (float[a,b] z) { z = If(c)
        <then_branch = t () => (p) { h = Reshape(x, g) r = Relu(h) p = Neg(r) },
         else_branch = e () => (q) { h = Neg(x) r = Relu(h) q = Neg(r) }> }""", 13)  # fmt: skip
    declared = helper.make_tensor_value_info("h", 1, [2, 3])
    m.graph.node[0].attribute[0].g.value_info.append(declared)
    facts = facts_of(m)
    branches = facts.document.roots[0].scopes[1:]
    assert [facts.is_assumed(branch, "r") for branch in branches] == [True, False]


def test_a_node_with_too_many_inputs_is_no_constant():
    facts = facts_of(model(CONSTANTS.format("y = Identity(w, w)"), 13))
    assert facts.constant(facts.document.main, "y") is None


def test_an_omitted_input_is_no_reason_why_a_value_is_no_constant():
    text = """(int64[2] x, int64[1] k) => (int64[a] y)
        <int64[2] w = {1, 2}, int64[1] s = {0}, int64[1] e = {1}> { y = Slice(w, s, e, , k) }"""
    facts = facts_of(model(text, 13))
    assert facts.why_dynamic(facts.document.main, "y").startswith("'k' is an input")


def test_a_long_chain_is_folded_after_many_questions():
    others = " ".join(f"b{at} = Neg(x)" for at in range(200))
    chain = " ".join(f"a{at} = Add(a{at - 1}, w)" for at in range(1, 200))
    facts = facts_of(model(CONSTANTS.format(f"{others} a0 = Add(w, w) {chain} y = Neg(a199)"), 13))
    main = facts.document.main
    assert all(facts.constant(main, f"b{at}") is None for at in range(200))
    folded = [facts.constant(main, name).tolist() for name in ("a0", "a1", "y")]
    assert folded == [[2, 4], [3, 6], [-201, -402]]


def test_nodes_of_a_long_chain_with_branches_are_inferred_once(monkeypatch):
    """Deeply nested searches do not begin the whole chain again."""
    inferred: list[str] = []

    def counted(node, *more):
        inferred.extend(node.output)
        return infer_node(node, *more)

    monkeypatch.setattr(facts_module, "infer_node", counted)
    chain = " ".join(
        f"b{at} = com.microsoft.FastGelu(a{at - 1}) a{at} = Add(b{at}, a{at - 1})"
        for at in range(1, 100)
    )
    text = f"(float[N,4] a0) => (float[a,b] y) {{ {chain} y = Neg(a99) }}"
    facts = facts_of(model(text, 13, more=', "com.microsoft": 1'))
    assert rank_of(facts.type(facts.document.main, "a99")) == 2
    again = [name for name, times in Counter(inferred).items() if times > 1]
    assert len(again) <= MAX_DEPTH, "the search that met the limit had begun at the end"


def test_lengths_that_do_not_follow_from_a_declaration_rest_on_no_claim():
    env = env_of("z = Neg(x)")
    assert env.dims("x", env.type("x")) == ("N", 4)
    assert env.claims == {}


def test_the_graphs_inside_a_graph_are_numbered_once(monkeypatch):
    numbered = []

    def counting(scope, path):
        numbered.append(path)
        return paths_inside(scope, path)

    monkeypatch.setattr("opshift.author.facts.paths_inside", counting)
    facts = facts_of(model(NEWS["a graph in a graph"], 13))
    scopes = facts.document.roots[0].scopes
    first = [facts._path(scope) for scope in scopes]
    assert len(set(first)) == 5
    assert len(numbered) == 2, "of the main graph and of the branch with graphs"
    facts.document.generation += 1
    assert [facts._path(scope) for scope in scopes] == first
    assert len(numbered) == 2


def test_a_graph_whose_node_is_gone_has_no_path():
    facts = facts_of(model(NEWS["one name in two graphs"], 13))
    inner = facts.document.roots[0].scopes[1]
    gone = helper.make_node("Identity", ["x"], ["z"])
    replace_nodes(facts.document, [Replacement((facts.document.main, 0), [gone])])
    assert facts._path(inner) == NO_PATH


WORTH_A_LOOK = {
    "known types": ("(float[2,3] x) => (float[2,3] z) { h = Relu(x) z = Neg(h) }", ""),
    "an unread input of an unknown type": (
        "(float[2,3] x) => (float[a,b] z) { u = custom.Op(x) h = Add(u, x) k = Relu(h) z = custom.Op(k) }", "h k",
    ),
    "a constant that inference does not know": (
        """(float[6] v, float[2,3] x) => (float[a,b] z) {
            s = Shape(x) e = Equal(s, s) t = Where(e, s, s) u = Reshape(v, t) z = Relu(u) }""", "e t u",
    ),
    "a Constant": ("(float[6] v) => (float[a,b] z) { c = Constant<value_ints=[2,3]>() z = Reshape(v, c) }", ""),
    "a type that inference does not know": (
        "(float[2,3] x) => (float[a,b] z) { h = com.microsoft.FastGelu(x) z = Neg(h) }", "h z",
    ),
    "an operator of a vendor": ("(float[2,3] x) => (float[a,b] z) { z = com.microsoft.FastGelu(x) }", "z"),
    "an operator with a rule for its types": (
        "(float[2,3] x, float[3] s) => (float[a,b] z) { h = LayerNormalization(x, s) z = custom.Op(h) }", "h",
    ),
    "an operator with a rule for its rank": (
        "(float[6] v, int64[k] g, float[2,3] x) => (float[a,b] z) { u = Reshape(v, g) h = MatMul(u, x) z = custom.Op(h) }", "u",
    ),
    "an operator that inference does not know": (
        "(float[1,2,3,4] x) => (float[1,2,3,4] z) { z = MeanVarianceNormalization(x) }", "z",
    ),
    "a rank that is unknown in a graph": (
        """(float[2,3] x, bool c, int64 n) => (float[a,b] z) { z, w = Loop(n, c, x, x)
            <body = b (int64 i, bool k, h, v) => (bool l, p, q) {
                l = Identity(k) p = MatMul(h, v) q = custom.Op(v) }> }""", "p",
    ),
    "a graph with an unknown type": (
        """(float[2,3] x, bool c) => (float[a,b] z) { u = If(c)
            <then_branch = t () => (p) { p = com.microsoft.FastGelu(x) },
             else_branch = e () => (q) { q = Relu(x) }> z = custom.Op(u) }""", "p",
    ),
    "one name in two graphs": (NEWS["one name in two graphs"], ""),
}  # fmt: skip


@pytest.mark.parametrize("case", WORTH_A_LOOK)
def test_a_node_is_looked_at_if_it_may_tell_more_than_inference_of_the_model(case):
    text, expected = WORTH_A_LOOK[case]
    facts = facts_of(model(text, 13, more=f'{CUSTOM}, "com.microsoft": 1'))
    looked = [
        scope.node(at).output[0]
        for scope in facts.document.scopes()
        for at in range(len(scope.proto.node))
        if facts._tells_more(scope, at)
    ]
    assert looked == expected.split()


def test_nodes_around_a_value_that_a_step_wrote_are_looked_at():
    facts = replaced(
        model("(float[2,3] x) => (float[2,3] y) { h = Neg(x) y = Abs(h) }", 13), 0, "Relu", "Neg"
    )
    main = facts.document.main
    nodes = {main.node(at).output[0]: at for at in main.sorted_positions()}
    looked = {name for name, at in nodes.items() if facts._tells_more(main, at)}
    assert looked == {"opshift_0", "h"}


def test_only_nodes_that_may_tell_more_are_inferred(monkeypatch):
    inferred = []

    def counting(node, env, ahead=None):
        inferred.append(node.output[0])
        return infer_node(node, env, ahead)

    monkeypatch.setattr("opshift.author.facts.infer_node", counting)
    text, _ = WORTH_A_LOOK["an unread input of an unknown type"]
    facts = facts_of(model(text, 13, more=CUSTOM))
    kinds = {name: kind and kind[0] for (_, name), kind in all_types(facts).items()}
    assert kinds == {"x": 1, "u": None, "h": 1, "k": 1, "z": 1}
    assert sorted(inferred) == ["h", "k"]
    inferred.clear()
    assert dims(facts_of(model(WORTH_A_LOOK["known types"][0], 13)), "h") == (2, 3)
    assert inferred == []


@pytest.mark.parametrize(
    "values", [np.arange(-5000, 9000), np.arange(5000.0), np.arange(6000, dtype=np.uint64) + 2**63]
)
def test_the_bounds_of_a_weight_are_found_without_holding_it(values, monkeypatch):
    m = model("(float x) => (float y) { y = Neg(x) }")
    m.graph.initializer.append(numpy_helper.from_array(values, "w"))
    facts = facts_of(m)
    monkeypatch.setattr(weights.Weights, "load", None)
    bounds = facts.bounds(facts.document.main, "w")
    whole = None if values.dtype.kind == "f" else (int(values.min()), int(values.max()))
    assert (bounds and (bounds.lowest, bounds.highest)) == whole


def test_a_value_that_depends_on_the_size_of_an_input_names_this_cause():
    text = """(float[n,2] x, int64[1] k) => (int64[a] y, int64[b] z) {
        s = Shape(x) t = Concat<axis = 0>(s, s) y = Identity(t) z = Concat<axis = 0>(k, s) }"""
    facts = facts_of(model(text, 13))
    reason = facts.why_dynamic(facts.document.main, "y")
    assert reason == "it depends on the size of the input 'x'"
    assert facts.depends_on_size(facts.document.main, "y")
    assert facts.why_dynamic(facts.document.main, "z") == "'k' is an input"


BRANCHES = {
    "If": """(float x, int64[1] a, bool c) => (float[3,1,2] y) {
        y = If(c) <then_branch = t () => (float[3,1,2] INNER) { INNER = OP },
                   else_branch = e () => (float[3,1,2] INNER) { INNER = OP }> }""",
    "If in an If": """(float x, int64[1] a, bool c) => (float[3,1,2] y) {
        y = If(c) <then_branch = t () => (float[3,1,2] INNER) {
                       INNER = If(c) <then_branch = u () => (float[3,1,2] DEEP) { DEEP = OP },
                                      else_branch = v () => (float[3,1,2] DEEP) { DEEP = OP }> },
                   else_branch = e () => (float[3,1,2] INNER) { INNER = OP }> }""",
    "Loop": """(float x, int64[1] a, int64 n, bool c) => (float[3,1,2] y) {
        y = Loop(n, c, x) <body = b (int64 i, bool go, float v) => (bool on, float[3,1,2] INNER) {
                       on = Identity(go) INNER = OP }> }""",
}


@pytest.mark.parametrize("op", ["ReduceSum(x, a)", "ReduceSum<keepdims = 0>(x, a)", "Identity(x)"])
@pytest.mark.parametrize("around", BRANCHES)
def test_what_is_confirmed_does_not_depend_on_a_repeated_name(around, op):
    def confirmed(inner: str, deep: str) -> list[object]:
        text = BRANCHES[around].replace("INNER", inner).replace("DEEP", deep)
        facts = facts_of(model(text.replace("OP", op), opset=13))
        return [
            dims_of(facts.confirmed(scope, output.name))
            for scope in facts.document.roots[0].scopes
            for output in scope.proto.output
        ]

    assert confirmed("y", "y") == confirmed("y", "k") == confirmed("h", "h") == confirmed("h", "k")
