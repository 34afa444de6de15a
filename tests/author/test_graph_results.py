# SPDX-License-Identifier: Apache-2.0
"""The types of a node with graphs are those of its results, and each graph is inferred once."""

import pytest
from growth_families import call, chosen, function, looped, model, nested, value
from opshift import convert_version
from opshift.author import facts, inference, registry
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
    skeleton, store = weights.carve_model(text_model(text, opset=16))
    found = Facts(Document(skeleton), store, registry.default(), lambda: skeleton)
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
    """In a function, where inference of the whole model does not find the types."""

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
