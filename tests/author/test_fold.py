# SPDX-License-Identifier: Apache-2.0
"""Results that follow from constants and static shapes are constants."""

import os
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import official_nodes
import onnx.numpy_helper
import onnx.parser
import pytest
import text_models
from onnx import ModelProto, TensorProto
from onnx.backend.test.case.test_case import TestCase
from opshift import Refused, convert_version
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.author.node import Node
from opshift.author.traits import Fold
from opshift.model.arrays import Array
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.verify import oracle
from opshift.verify.oracle import trust

# n.. are one number in a list, s.. are scalars; each body computes `a`, the axis to be squeezed.
GIVEN = """(float[2,1,3,1] x, float[N,3,1] d) => (float[p,q,r] y) <
  int64[1] n0 = {0}, int64[1] n1 = {1}, int64[1] n2 = {2}, int64[1] n3 = {3}, int64[1] n4 = {4},
  int64[1] n9 = {9}, int64[1] minus1 = {-1}, int64[1] minus7 = {-7}, int64[2] row = {1, -1},
  int64[0] none = {}, int64[4] last = {0, 0, 0, 5}, int64[1] huge = {999999999},
  int64 s3 = {3}, int64 s6 = {6}, int64 s9 = {9}, float[1] half = {2.5}, float[1] far = {1e30}
>"""
AXES = {
    "an element of a shape": "s = Shape(x) a = Gather(s, n2)",
    "of a shape with an unknown size": "s = Shape(d) a = Gather(s, n1)",
    "a slice of such a shape": "s = Shape(d) a = Slice(s, n1, n2)",
    "a slice from before the start": "v = Concat<axis=0>(n3, n0) a = Slice(v, minus7, n1, n0)",
    "a scalar made a list": "s = Shape(d) t = Gather(s, n1) u = Squeeze(t) a = Unsqueeze(u, n0)",
    "a scalar reshaped": "a = Reshape(s3, minus1)",
    "a scalar expanded": "a = Expand(s3, n1)",
    "a rank less one": "s = Shape(x) r = Shape(s) a = Sub(r, n1)",
    "a size divided": "n = Size(x) a = Div(n, n2)",
    "division cut towards zero": "a = Div(minus7, n2)",
    "a remainder": "a = Mod(minus7, n4)",
    "a sum of products": "p = Mul(n2, n2) m = Neg(n1) a = Add(p, m)",
    "a join": "a = Concat<axis=0>(none, n3)",
    "rounded up": "c = Ceil(half) a = Cast<to=7>(c)",
    "cut off": "g = Add(half, half) c = Floor(g) w = Cast<to=7>(c) a = Sub(w, n2)",
    "a range": "a = Range(s3, s9, s6)",
    "a product of sizes": "s = Shape(last) p = ReduceProd(s) a = Sub(p, n1)",
    "a filled shape": "a = ConstantOfShape<value = int64[1] {3}>(n1)",
    "a choice": "c = Equal(n3, n1) a = Where(c, n1, n3)",
    "the larger and the smaller": "m = Max(n3, n1) a = Min(m, n9)",
    "what is not zero": "t = NonZero(last) a = Squeeze(t, n0)",
    "a transposed row": "r = Reshape(n3, row) t = Transpose(r) a = Squeeze(t, n0)",
    "a repeated row": "a = Tile(n3, n1)",
}
NOT_KNOWN = {
    "a size that is not static": "s = Shape(d) a = Gather(s, n0)",
    "a slice with a size that is not static": "s = Shape(d) a = Slice(s, n0, n2)",
    "division by zero": "a = Div(n9, n0)",
    "a cast out of range": "a = Cast<to=7>(far)",
    "an operand that is not a constant": "n = Size(d) a = Mul(n, n1)",
    "an index that is out of range": "s = Shape(x) a = Gather(s, n9)",
    "too much to be filled": "a = ConstantOfShape<value = int64[1] {3}>(huge)",
}


def model(body: str) -> ModelProto:
    header = '<ir_version: 8, opset_import: ["" : 13]>'
    return onnx.parser.parse_model(f"{header} folded {GIVEN} {{ {body} y = Squeeze(x, a) }}")


def best(body: str) -> ModelProto:
    """Returns a TopK with a computed k and an unknown size; opset 9 needs a constant k."""
    header = '<ir_version: 5, opset_import: ["" : 10]>'
    given = GIVEN.replace("=> (float[p,q,r] y)", "=> (float[N,3,k] v, int64[N,3,k] i)", 1)
    given = given.replace("float[N,3,1] d", "float[N,3,M] d", 1)
    return onnx.parser.parse_model(f"{header} best {given} {{ {body} v, i = TopK(d, a) }}")


def folds(before: ModelProto) -> bool:
    """Returns whether k of a TopK becomes its attribute."""
    try:
        after = convert_version(before, 9)
    except Refused:
        return False
    return any(node.op_type == "TopK" and "v" in node.output for node in after.graph.node)


def test_a_count_that_is_known_becomes_an_attribute() -> None:
    assert folds(best("a = Mul(n1, n1)"))


@pytest.mark.parametrize("case", AXES)
def test_computed_axes_become_an_attribute(case: str) -> None:
    before = model(AXES[case])
    after = convert_version(before, 12)
    squeeze = after.graph.node[-1]
    assert squeeze.op_type == "Squeeze"
    assert [a.name for a in squeeze.attribute] == ["axes"]
    inputs = oracle.make_inputs(before)
    assert oracle.compare(oracle.evaluate(before, inputs), oracle.evaluate(after, inputs)) is None


@pytest.mark.parametrize("case", NOT_KNOWN)
def test_what_is_not_sure_is_no_constant(case: str) -> None:
    assert not folds(best(NOT_KNOWN[case]))


def test_a_fold_that_does_not_read_an_attribute_gives_no_constant() -> None:
    """A fold that was written for opset 13 cannot read the attribute `upper` of Trilu-14."""
    rule = Fold(ops=("Trilu",), run=lambda node: np.zeros(1))
    schema = schemas.schema("", "Trilu", 14)
    upper, lower = (
        Node(onnx.helper.make_node("Trilu", ["x"], ["y"], upper=upper), schema, None)
        for upper in (1, 0)
    )
    assert rule.value(upper) is not None  # the default
    assert rule.value(lower) is None
    assert replace(rule, ignores={"upper": "zeros stay"}).value(lower) is not None


def test_weights_are_not_read_for_nothing() -> None:
    """A large initializer is not folded, so the value that is computed from it is not constant."""
    before = best("a = Gather(big, n1)")
    values = np.ones(1 << 17, dtype=np.int64)
    before.graph.initializer.append(onnx.numpy_helper.from_array(values, "big"))
    assert not folds(before)


def test_the_static_end_of_a_shape() -> None:
    before = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]>'
        "end (float[2,1,3] x, float[N,2,3] d) => (float[2,1,1] y)"
        "{ a = Shape<start=-2, end=-1>(d) y = ReduceMax(x, a) }"
    )
    after = convert_version(before, 17)
    assert list(after.graph.node[-1].attribute[0].ints) == [2]


EARLY = {
    "bounds and axes": "a = Slice<starts=[0], ends=[1]>(h) b = Slice<starts=[1], ends=[9]>(h) "
    "c = ReduceProd<axes=[0]>(b) s = Concat<axis=0>(a, c)",
    "lists of one": "g = Gather(h, zero) u = Unsqueeze<axes=[0]>(g) v = Squeeze<axes=[0]>(u) "
    "w = Unsqueeze<axes=[0]>(v) s = Concat<axis=0>(w, rest)",
    "types by name": 'f = Cast<to="FLOAT">(h) s = Cast<to="INT64">(f)',
    "a column laid down": "c = Unsqueeze<axes=[1]>(h) r = Transpose(c) s = Squeeze<axes=[0]>(r)",
}


@pytest.mark.parametrize("case", EARLY)
def test_attributes_of_early_versions(case: str) -> None:
    before = onnx.parser.parse_model(
        '<ir_version: 4, opset_import: ["" : 5]> early (float[2,3,4] x) => (float[p,q] y)'
        "<int64 zero = {0}, int64[1] rest = {-1}>"
        f"{{ h = Shape(x) {EARLY[case]} y = Reshape(x, s) }}"
    )
    after = convert_version(before, 4)
    assert [a.name for a in after.graph.node[-1].attribute] == ["shape"]
    inputs = oracle.make_inputs(before)
    assert oracle.compare(oracle.evaluate(before, inputs), oracle.evaluate(after, inputs)) is None


@cache
def official() -> list[TestCase]:
    """The official node tests of single operators that fold."""
    cases = [case for case in official_nodes.collected() if case.model is not None]
    return [case for case in cases if ("", only_node(case.model)) in registry.default().rules(Fold)]


def only_node(proto: ModelProto) -> str | None:
    return proto.graph.node[0].op_type if len(proto.graph.node) == 1 else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("version", "share"), [(0, 1), (10, 4), (5, 12)])
def test_folds_agree_with_the_official_data(version: int, share: int) -> None:
    """Compares at the version of the case, and at older versions that need only one node.

    Conversions over many opsets are slow, so a sample runs: each fourth or twelfth case.
    """
    compared = 0
    share = 1 if "OPSHIFT_PROPERTIES" in os.environ else share
    for case in official()[::share]:
        try:
            proto = convert_version(case.model, version) if version else case.model
        except Refused:
            continue
        data, expected = case.data_sets[0]
        plain = all(is_plain(value) for value in (*data, *expected)) and is_readable(case.model)
        found = folded(proto, data) if plain and only_node(proto) else None
        if found is not None:
            assert oracle.compare(expected, [found], ulp=1) is None, case.name
            compared += 1
    assert compared > 50 // share


def damaged(data: list[Array], random: Random) -> list[Array]:
    """Returns the inputs, one of them with a wrong shape or element type."""
    found, i = list(data), random.randrange(len(data))
    value = found[i]
    found[i] = random.choice(
        (
            value[None],
            value.reshape(-1),
            value.reshape(-1)[:1].reshape(()) if value.size else value[None],
            value.reshape(-1)[:0],
            np.negative(value.astype(np.float64)),
            np.negative(value.astype(np.int64)) * 3,
            np.full(value.shape, "a", dtype=object),
        )
    )
    return found


@pytest.mark.filterwarnings("ignore")
def test_what_is_not_legal_is_no_constant_and_no_error():
    random, told = Random(7), 0
    for case in official():
        data, expected = case.data_sets[0]
        if data and all(map(is_plain, (*data, *expected))) and is_readable(case.model):
            for _ in range(6):
                told += folded(case.model, damaged(data, random)) is not None
    assert told > 50  # some damage is legal


def is_plain(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != object


def is_readable(proto: ModelProto) -> bool:
    """Returns whether onnx reads the data; old releases read narrow types as other types."""
    types = (info.type.tensor_type for info in (*proto.graph.input, *proto.graph.output))
    return not trust.OLD or all(kind.elem_type < TensorProto.BFLOAT16 for kind in types)


def folded(proto: ModelProto, data: list[Array]) -> Array | None:
    """The value of the only output when all inputs are constants."""
    fixed = ModelProto()
    fixed.CopyFrom(proto)
    fixed.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, info.name)
        for value, info in zip(data, proto.graph.input, strict=True)
    )
    del fixed.graph.input[:]
    document = Document(fixed, "opshift_")
    facts = Facts(document, Weights(), registry.default(), lambda: fixed)
    return facts.constant(document.roots[0].top, fixed.graph.output[0].name)


@pytest.mark.parametrize("length", [10, 100, 3000])
def test_a_constant_is_found_behind_any_number_of_folds(length):
    nodes = [f"c{i + 1} = Add(c{i}, one)" for i in range(length)]
    m = text_models.model(
        "(float[2,3] x) => (float[a,b] y) <int64[2] c0 = {0, 0}, int64[2] one = {1, 1}> { "
        + " ".join([*nodes, f"y = Expand(x, c{length})"])
        + " }",
        opset=13,
    )
    facts = Facts(Document(m, "opshift_"), Weights(), registry.default(), lambda: m)
    assert facts.constant(facts.document.main, f"c{length}").tolist() == [length, length]


def test_why_a_long_chain_is_no_constant():
    nodes = [f"c{i + 1} = Add(c{i}, one)" for i in range(3000)]
    m = text_models.model(
        "(float[2,3] x, int64[2] c0) => (float[a,b] y) <int64[2] one = {1, 1}> { "
        + " ".join([*nodes, "y = Expand(x, c3000)"])
        + " }",
        opset=13,
    )
    facts = Facts(Document(m, "opshift_"), Weights(), registry.default(), lambda: m)
    assert facts.constant(facts.document.main, "c3000") is None
    assert facts.why_dynamic(facts.document.main, "c3000") == "'c0' is an input"
