# SPDX-License-Identifier: Apache-2.0
"""Unknown lengths have the same symbol if and only if they are proven equal."""

import numpy as np
import pytest
from opshift import convert_version
from opshift.opsets.types import LENGTH
from opshift.verify import oracle
from text_models import model, ops

PLACES = "(int64[1] n, float[4] w) => (float[a] y) { c = ConstantOfShape(n) p = NonZero(c) m = Constant<value_ints = [-1]>() i = Reshape(p, m) f = Cast<to = 1>(i) g = Sqrt(f) "
LOOP = """(int64 n, int64 k, float[1] x, bool go) => (float[a, 1] y) {
    s = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[1] t) { d = Identity(c) t = Neg(x) }>
    r = Loop (k, go) <body = b (int64 i, bool c) => (bool d, float[1] t) { d = Identity(c) t = Exp(x) }>
    y = Add(s, r) }"""


@pytest.mark.parametrize("opset", [6, 5, 3])
def test_values_of_one_length_are_not_repeated(opset):
    before = model(PLACES + "y = Add(f, g) }", opset=13)
    after = convert_version(before, opset)
    assert ops(after).endswith("Sqrt Add"), "nothing is expanded between them"


@pytest.mark.parametrize("opset", [6, 5])
@pytest.mark.parametrize(("left", "right"), [(3, 3), (3, 1), (1, 3)])
def test_two_loops_may_give_other_lengths(opset, left, right):
    """Inference counts the symbols of each loop separately."""
    before = model(LOOP, opset=13)
    after = convert_version(before, opset)
    inputs = {"n": np.array(left), "k": np.array(right), "go": np.array(True)}
    inputs |= {"x": np.array([0.5], np.float32)}
    assert oracle.compare(oracle.evaluate(before, inputs), oracle.evaluate(after, inputs)) is None


@pytest.mark.parametrize("opset", [8, 5, 1])
def test_no_result_holds_a_symbol_of_ours(opset):
    before = model(
        "(float[1,1,N,4] x, int64[4] sizes) => (float[a,b,c,d] y)"
        ' { y = Resize<mode = "linear">(x, "", "", sizes) }',
        opset=13,
    )
    assert LENGTH.encode() not in convert_version(before, opset).SerializeToString()
