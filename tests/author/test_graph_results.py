# SPDX-License-Identifier: Apache-2.0
"""The types of If and Loop are those of their results; each graph is inferred once."""

from types import SimpleNamespace

import pytest
from growth_families import call, chosen, function, looped, model, nested, value
from onnx import AttributeProto, GraphProto, NodeProto, TypeProto
from opshift import convert_version
from opshift.author import facts, inference, registry
from opshift.author.env import TypesOnly
from opshift.author.facts import Facts, ScopeEnv
from opshift.author.graph_results import types_of_results
from opshift.model import weights
from opshift.model.document import Document
from opshift.opsets.types import confirms, rank_of
from text_models import model as text_model

BRANCHES = "(bool c, float[2,3] x, float[N,3] s, float[3,3] w) => ({}) {{ y = If(c) <then_branch = t () => ({}) {{ {} }}, else_branch = e () => ({}) {{ {} }}> }}"
BODY = "(int64 n, bool k, float[2,3] x, float[2,3] u, float[N,3] s) => ({}) {{ {} = Loop(n, k, {}) <body = b (int64 i, bool g, {}) => ({}) {{ o = Identity(g) {} }}> }}"
TEXTS = {
    "equal shapes": BRANCHES.format("float[2,3] y", "float[2,3] p", "p = Neg(x)", "float[2,3] q", "q = Relu(x)"),
    "other lengths": BRANCHES.format("float[a,3] y", "float[2,3] p", "p = Neg(x)", "float[3,3] q", "q = Relu(w)"),
    "one symbol": BRANCHES.format("float[N,3] y", "float[N,3] p", "p = Neg(s)", "float[N,3] q", "q = Relu(s)"),
    "other ranks": BRANCHES.format("float y", "float p", "p = ReduceSum<keepdims=0>(x)", "float[2,3] q", "q = Relu(x)"),
    "sequences": BRANCHES.format("seq(float[2,3]) y", "seq(float[2,3]) p", "p = SequenceConstruct(x)", "seq(float[3,3]) q", "q = SequenceConstruct(w)"),
    "carried": BODY.format("float[2,3] y", "y", "x", "float[2,3] p", "bool o, float[2,3] q", "q = Add(p, u)"),
    "collected": BODY.format("float[2,3] y, float[k,2,3] z", "y, z", "x", "float[2,3] p", "bool o, float[2,3] q, float[2,3] r", "q = Add(p, u) r = Neg(q)"),
    "growing": BODY.format("float[a,3] y", "y", "x", "float[a,3] p", "bool o, float[b,3] q", "q = Concat<axis=0>(p, u)"),
    "in turns": BODY.format("float[2,3] y, float[a,3] z", "y, z", "x, s", "float[a,3] p, float[b,3] m", "bool o, float[a,3] q, float[b,3] r", "q = Identity(m) r = Identity(p)"),
    "not read": BODY.format("float[2,3] y", "y", "s", "float[a,3] p", "bool o, float[2,3] q", "q = Identity(u)"),
}  # fmt: skip


def env_of(text):
    skeleton, large_tensors = weights.carve_model(text_model(text, opset=16))
    found = Facts(Document(skeleton), large_tensors, registry.default(), lambda: skeleton)
    return skeleton.graph.node[0], ScopeEnv(found, found.document.main)


@pytest.mark.parametrize("kind", TEXTS)
def test_facts_about_results_find_all_that_inference_of_the_node_finds(kind):
    node, env = env_of(TEXTS[kind])
    alone = inference.infer_alone(node, env, {"": 16})
    found = types_of_results(node, env)
    assert found is not None or kind in ("growing", "in turns")
    for name in node.output if found is not None else ():
        assert confirms(found[name], alone[name]), name
        assert rank_of(found[name]) == rank_of(alone[name])


@pytest.mark.parametrize("wrap", [chosen, looped])
def test_no_graph_is_inferred_again_for_each_graph_around_it(monkeypatch, wrap):
    """The nodes are in a function, whose types the inference of the whole model does not find."""

    def inferred(levels):
        sizes = []

        def counting(data, adapters):
            sizes.append(len(data) if isinstance(data, bytes) else data.ByteSize())
            return inference.infer_all(data, adapters)

        monkeypatch.setattr(facts, "infer_all", counting)
        made = function("F", [nested(2 * levels, wrap, levels)])
        made.input[:], made.output[:] = ["x", "c", "trips"], ["y"]
        node = call("F", "x", "y")
        node.input.extend(["c", "trips"])
        inputs = [value("c", (), 9), value("trips", (), 7)]
        convert_version(model([node], [value("y")], inputs, functions=[made], domains=["f"]), 10)
        return sum(sizes)

    assert inferred(12) < 2.4 * inferred(6)


# -- the rules, on types that are given ----------------------------------------------------------


class Known(TypesOnly):
    """Facts that a test states; a graph has its own facts, and reads all inputs except `unread`."""

    def __init__(self, types, inside=None, unread=()):
        super().__init__(types)
        self.insides, self.unread, self.ranks = inside or {}, unread, []
        by_graph = {id(graph): None for graph, _ in self.insides.values()}
        self.scope = SimpleNamespace(root=SimpleNamespace(by_graph=by_graph))

    def rules(self, kind):
        return registry.default().rules(kind)

    def inside(self, graph):
        return self.insides[graph.name][1]

    def is_read(self, name):
        return name not in self.unread

    def use_rank(self, name):
        self.ranks.append(name)


def typed(*dims, kind=1):
    """The type of a tensor; its rank is unknown for the one dimension `...`."""
    made = TypeProto()
    made.tensor_type.elem_type = kind
    for dim in dims if dims != (...,) else ():
        one = made.tensor_type.shape.dim.add()
        if isinstance(dim, int):
            one.dim_value = dim
        elif dim:
            one.dim_param = dim
    if not dims:
        made.tensor_type.shape.SetInParent()
    return made


def with_graphs(op, outputs, graphs, inputs=("c",), names=("then_branch", "else_branch")):
    node = NodeProto(op_type=op, input=inputs, output=outputs)
    for name, graph in zip(names, graphs, strict=True):
        node.attribute.add(name=name, type=AttributeProto.GRAPH).g.CopyFrom(graph)
    return node


def graph(name, outputs, inputs=()):
    made = GraphProto(name=name)
    for field, names in ((made.input, inputs), (made.output, outputs)):
        for one in names:
            field.add(name=one)
    return made


def chosen_types(first, second, outputs):
    """The types of an If with these types of results, and the environments."""
    insides = {}
    node = with_graphs("If", outputs, [graph("t", first), graph("e", second)])
    for attribute, types in zip(node.attribute, (first, second), strict=True):
        insides[attribute.g.name] = attribute.g, Known(types)
    env = Known({}, insides)
    return types_of_results(node, env), [one for _, one in insides.values()]


def test_a_choice_has_what_both_results_have_in_common():
    found, insides = chosen_types(
        {"a": typed(2, 3), "b": typed(...), "c": None, "d": typed(4)},
        {"p": typed(2, 5), "q": typed(3), "r": None, "s": typed(4)},
        ["x", "y", "z", ""],
    )
    assert found == {"x": typed(2, None), "y": typed(...)}
    assert [inside.ranks for inside in insides] == [["a", "d"], ["p", "q", "s"]]


def test_an_output_that_a_branch_lacks_has_no_type():
    found, _ = chosen_types({"a": typed(2), "b": typed(3)}, {"p": typed(2)}, ["x", "y", "z"])
    assert found == {"x": typed(2)}


def looped_types(given, inner, results, outputs, unread=(), rank_uses=None):
    """The types of a Loop; `given` and `inner` begin with those of the number and condition."""
    body = graph(
        "b", ["go", *(f"r{i}" for i in range(len(results)))], [f"i{i}" for i in range(len(inner))]
    )
    inside = Known(
        {f"i{i}": one for i, one in enumerate(inner)}
        | {f"r{i}": one for i, one in enumerate(results)},
        unread=unread,
    )
    names = ["" if one == "absent" else f"g{i}" for i, one in enumerate(given)]
    node = with_graphs("Loop", outputs, [body], names, ["body"])
    env = Known(
        {f"g{i}": one for i, one in enumerate(given) if one != "absent"},
        {"b": (node.attribute[0].g, inside)},
    )
    found = types_of_results(node, env)
    if rank_uses is not None:
        rank_uses += env.ranks + inside.ranks
    return found


NUMBER, FLAG = typed(kind=7), typed(kind=9)
ENDS = [NUMBER, FLAG]


def test_a_loop_has_what_its_first_value_and_its_result_have_in_common():
    """A result that a Loop stacks has one more dimension."""
    uses = []
    found = looped_types(
        [*ENDS, typed(2, 3), typed("N")], [*ENDS, typed(2, 3), typed("N")],
        [typed(2, 5), typed("N"), typed(4), None, typed(7)], ["x", "y", "z", "u", ""],
        rank_uses=uses,
    )  # fmt: skip
    assert found == {"x": typed(2, None), "y": typed("N"), "z": typed(None, 4)}
    assert uses == ["g2", "g3", "r0", "r1", "r2", "r4"]
    assert looped_types(ENDS, ENDS, [None], ["x"]) == {}
    states = [*ENDS, None]
    assert looped_types(states, [*ENDS, None], [None], ["x"]) == {}


@pytest.mark.parametrize("given", [[*ENDS], [*ENDS, "absent"]])
def test_a_value_without_a_first_one_has_the_type_of_the_result(given):
    assert looped_types(given, [*ENDS, None], [typed(2)], ["x"]) == {"x": typed(2)}


@pytest.mark.parametrize(
    ("given", "inner", "is_known"),
    [
        (typed(2, 3), typed(2, 3), True),
        (typed(2, None), typed(2, 3), True),
        (typed(2, "N"), typed(2, "N"), True),
        (typed(2, 3), typed(2, None), False),
        (typed(2, "N"), typed(2, "M"), False),
        (typed(2, 3), typed(2), False),
        (typed(None, None), typed(None), False),
        (typed(2, 3), typed(...), False),
        (typed(...), typed(...), True),
        (typed(...), typed(2), True),
        (typed(...), None, False),
        (typed(...), TypeProto(), False),
        (None, None, True),
        (None, typed(2), True),
    ],
)
def test_the_facts_about_a_body_count_if_they_hold_all_that_is_known_of_its_inputs(
    given, inner, is_known
):
    def found(**more):
        return looped_types([*ENDS, given], [*ENDS, inner], [typed(9)], ["x"], **more)

    assert (found() is not None) == is_known
    assert found(unread=["i2"]) is not None


@pytest.mark.parametrize(
    ("inner", "is_known"), [(NUMBER, True), (typed(..., kind=7), False), (None, False)]
)
@pytest.mark.parametrize("given", [NUMBER, typed(1, kind=7), None, "absent"])
def test_the_number_of_the_iteration_needs_a_rank_whatever_the_loop_is_given(
    given, inner, is_known
):
    found = looped_types([given, FLAG], [inner, FLAG], [typed(9)], ["x"])
    assert (found is not None) == is_known


def test_other_nodes_with_graphs_are_inferred_whole():
    body = graph("b", ["r"])
    node = with_graphs("Scan", ["x"], [body], names=["body"])
    assert types_of_results(node, Known({}, {"b": (node.attribute[0].g, Known({}))})) is None
    bare = NodeProto(op_type="Loop", input=["n"], output=["x"])
    assert types_of_results(bare, Known({})) is None


def test_a_node_that_an_adapter_is_writing_is_inferred_whole():
    node = with_graphs("If", ["x"], [graph("t", ["a"]), graph("e", ["b"])])
    env = Known({}, {"t": (node.attribute[0].g, Known({"a": typed(2)}))})
    assert types_of_results(node, env) is None
