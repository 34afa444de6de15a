# SPDX-License-Identifier: Apache-2.0
"""Elements keep their bounds if an operator only moves them."""

from __future__ import annotations

import numpy as np
import pytest
from opshift.author import registry
from opshift.author.bounds import MOST_EACH, Bounds, for_all
from opshift.author.env import Delegating
from opshift.author.facts import Facts, ScopeEnv
from opshift.author.moved_bounds import moved
from opshift.author.node import Node, Value
from opshift.model import weights
from opshift.model.document import Document
from opshift.opsets import schemas
from text_models import model


class Known(Delegating):
    """The facts about a model, with the bounds that a test states."""

    def __init__(self, env, bounds):
        super().__init__(env)
        self.known = bounds

    def bounds(self, name):
        return self.known.get(name)


def each(low, high):
    return Bounds(np.array(low, object), np.array(high, object), each=True)


def bounds_of(node: str, constants: str = "", **known: Bounds) -> Bounds:
    """The bounds of a node's output, of which these inputs are data."""
    inputs = ", ".join(f"int64{[*one.low.shape] or '[n]'} {name}" for name, one in known.items())
    text = f"({inputs}, int64[2] u) => (int64[k] y) <{constants}> {{ y = {node} }}"
    skeleton, large_tensors = weights.carve_model(model(text, opset=13))
    facts = Facts(Document(skeleton), large_tensors, registry.default(), lambda: skeleton)
    env = Known(ScopeEnv(facts, facts.document.main), known)
    made = Node(skeleton.graph.node[0], schemas.schema("", skeleton.graph.node[0].op_type, 13), env)
    return moved(made, [Value(name, env) for name in known])


def listed(found: Bounds):
    return found.each, np.asarray(found.low).tolist(), np.asarray(found.high).tolist()


def test_each_element_takes_its_bounds_to_its_new_place():
    x = each([[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]])
    bounds = bounds_of("Transpose<perm=[1,0]>(x)", x=x)
    assert listed(bounds) == (True, [[0, 3], [1, 4], [2, 5]], [[6, 9], [7, 10], [8, 11]])


def test_elements_of_several_inputs_take_their_own_bounds():
    known = {"a": each([1, 2], [3, 4]), "b": each([5], [6]), "c": each([7], [8])}
    bounds = bounds_of("Concat<axis=0>(a, b, c)", **known)
    assert listed(bounds) == (True, [1, 2, 5, 7], [3, 4, 6, 8])


def test_an_index_that_is_constant_selects_bounds():
    bounds = bounds_of("Gather(x, i)", "int64[2] i = {2, 0}", x=each([1, 2, 3], [4, 5, 6]))
    assert listed(bounds) == (True, [3, 1], [6, 4])


X = each([-5, 2], [4, 9])


@pytest.mark.parametrize(
    ("node", "known"),
    [
        ("Gather(x, u)", {"x": X}),
        ("Gather(x, x)", {"x": X}),
        ("Concat<axis=0>(a, b)", {"a": each([2, 3], [4, 9]), "b": for_all(-5, 1)}),
        ("Unique(x)", {"x": X}),
    ],
    ids=["an unknown index", "an index that is indexed", "one pair for all", "not folded"],
)
def test_otherwise_all_elements_have_the_widest_bounds(node, known):
    assert listed(bounds_of(node, **known)) == (False, -5, 9)


@pytest.mark.parametrize("size", [MOST_EACH, MOST_EACH + 1])
def test_many_elements_have_one_pair_of_bounds(size):
    bounds = bounds_of("Expand(x, s)", f"int64[1] s = {{{size}}}", x=each([3], [4]))
    assert (bounds.each, bounds.lowest, bounds.highest) == (size <= MOST_EACH, 3, 4)
