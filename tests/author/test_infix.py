# SPDX-License-Identifier: Apache-2.0
"""A decomposition reads like a formula, and its known values are computed at once."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper
from opshift import AdapterBug, convert_version
from opshift.adapter import Builder, Node, Result, T, adapter
from opshift.author import registry
from opshift.author.facts import Facts
from opshift.author.facts import ScopeEnv as Env
from opshift.author.node import Value
from opshift.model.document import Document
from opshift.model.weights import Weights
from text_models import model, ops

SOFTMAX = "(float[2,3] x) => (float[2,3] y) { y = Softmax<axis=1>(x) }"


def converted(with_adapters, body, model_=SOFTMAX):
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return body(node["input"], op)

    with_adapters(adapter("Softmax", 12, 13, ignores={"axis": "a test"})(run))
    return convert_version(model(model_), 13)


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        (lambda x: x + 1, "Add"),
        (lambda x: 1 + x, "Add"),
        (lambda x: x - 1, "Sub"),
        (lambda x: 1 - x, "Sub"),
        (lambda x: x * 2, "Mul"),
        (lambda x: 2 * x, "Mul"),
        (lambda x: x / 2, "Div"),
        (lambda x: 1 / x, "Div"),
        (lambda x: x // 2, "Div Floor"),
        (lambda x: -x, "Neg"),
        (lambda x: x**2, "Pow"),
        (lambda x: (x + 0.5) / x - np.ones(3), "Add Div Sub"),
    ],
)
def test_a_formula_of_numbers_becomes_its_nodes(with_adapters, formula, written):
    after = converted(with_adapters, lambda x, op: formula(x))
    assert ops(after) == written
    assert all(tensor.data_type == T.FLOAT for tensor in after.graph.initializer)


def test_a_number_beside_a_value_broadcasts_in_every_opset(with_adapters):
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return 1 - node["X"] * 0.5

    with_adapters(adapter("Selu", 6, 5)(run))
    after = convert_version(model("(float[2,3] x) => (float[2,3] y) { y = Selu(x) }", 6), 5)
    assert ops(after) == "Mul Neg Add"
    assert [[attribute.name for attribute in node.attribute] for node in after.graph.node] == [
        ["broadcast"], [], ["broadcast"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        (lambda x: (x < 1) & (x > 0), "Less Greater And"),
        (lambda x: (x < 1) | ~(x > 0), "Less Greater Not Or"),
    ],
)
def test_a_formula_of_conditions_becomes_its_nodes(with_adapters, formula, written):
    after = converted(with_adapters, lambda x, op: op.Cast(formula(x), to=T.FLOAT))
    assert ops(after) == f"{written} Cast"


def test_the_order_of_operands_is_kept(with_adapters):
    after = converted(with_adapters, lambda x, op: 1 - x)
    assert after.graph.node[0].input[1] == "x"


def test_a_number_that_whole_numbers_cannot_hold_is_a_bug(with_adapters):
    with pytest.raises(AdapterBug, match=r"the operand 0\.5 is not exact"):
        converted(with_adapters, lambda x, op: op.Cast(op.Cast(x, to=T.INT64) + 0.5, to=T.FLOAT))


def test_an_operand_that_is_no_number_is_a_bug(with_adapters):
    with pytest.raises(AdapterBug, match="an operand is 'one', but operands must be"):
        converted(with_adapters, lambda x, op: x + "one")


def test_a_value_that_no_builder_knows_has_no_operators():
    with pytest.raises(AdapterBug, match="only on values of the node that the adapter replaces"):
        Value("x", Env(None, None)) + 1


def test_a_formula_is_written_in_the_innermost_graph_of_its_operands(with_adapters):
    def looped(x, op):
        def body(b, i, keep, now):
            return b.Identity(keep), now + x

        graph = op.graph(body, (T.INT64, ()), (T.BOOL, ()), x)
        return op.Loop(op.const(3), op.const(True, T.BOOL), x, body=graph)

    after = converted(with_adapters, looped)
    (loop,) = after.graph.node
    assert [node.op_type for node in loop.attribute[0].g.node] == ["Identity", "Add"]


def test_what_is_known_becomes_one_constant(with_adapters):
    def body(x, op):
        at = op.Cast(op.const([0, 1, 2]), to=T.FLOAT)
        return x * ((at + 0.5) / 2 - 0.5)

    after = converted(with_adapters, body)
    assert ops(after) == "Mul"
    (known,) = after.graph.initializer
    assert numpy_helper.to_array(known).tolist() == [-0.25, 0.25, 0.75]
    assert known.data_type == T.FLOAT


def test_an_operator_that_the_version_lacks_is_evaluated(with_adapters):
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        chosen = op.Where(op.const([True, False, True], T.BOOL), op.const(2), op.const(3))
        return node["input"] * op.Cast(chosen, to=T.FLOAT)

    with_adapters(adapter("Erf", 9, 8)(run))
    given = "(float[2,3] x) => (float[2,3] y) { y = Erf(x) }"
    assert ops(convert_version(model(given, 9), 8)) == "Mul"


def test_a_constant_that_would_be_much_larger_than_its_parts_is_not_written(with_adapters):
    def body(x, op):
        return x * op.ReduceMax(op.Expand(op.const(1.0, T.FLOAT), op.const([40, 40])))

    assert ops(converted(with_adapters, body)) == "Expand ReduceMax Mul"


@pytest.mark.parametrize(("length", "written"), [(1000, "Mul"), (2000, "Cast Mul")])
def test_a_weight_is_not_written_anew(with_adapters, length, written):
    def run(node: Node, op: Builder) -> Result:
        """A test's adapter."""
        return node["A"] * op.Cast(node["B"], to=T.FLOAT)

    with_adapters(adapter("MatMul", 13, 12)(run))
    proto = model("(float[N] x) => (float[n] y) { y = MatMul(x, w) }", 13)
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(length, np.float32), "w"))
    assert ops(convert_version(proto, 12)) == written


KINDS = ("float32", "float64", "float16", "int64", "int32")
ARITHMETIC = {"Add": 2, "Sub": 2, "Mul": 2, "Div": 2, "Floor": 1, "Ceil": 1, "Min": 2, "Max": 2}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", sorted(ARITHMETIC))
def test_what_is_computed_while_converting_is_what_the_runtime_computes(op, kind):
    ort = pytest.importorskip("onnxruntime")
    whole = kind.startswith("int")
    if whole and op in ("Floor", "Ceil"):
        pytest.skip("there is no such operator for whole numbers")
    random = np.random.default_rng(17)
    values = random.normal(scale=50, size=(ARITHMETIC[op], 200))
    if whole:
        values = np.trunc(values + np.sign(values))  # none of them is zero
    arrays = [row.astype(kind) for row in values]
    names = "ab"[: len(arrays)]
    elem = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    infos = [helper.make_tensor_value_info(name, elem, [200]) for name in (*names, "y")]
    node = helper.make_node(op, list(names), ["y"])
    graph = helper.make_graph([node], "law", infos[:-1], infos[-1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    (wanted,) = session.run(None, dict(zip(names, arrays, strict=True)))
    del proto.graph.input[:]
    for array, name in zip(arrays, names, strict=True):
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    document = Document(proto)
    facts = Facts(document, Weights(), registry.default(), proto.SerializeToString)
    found = facts.constant(document.main, "y")
    assert found.dtype == wanted.dtype
    assert found.tobytes() == wanted.tobytes()
