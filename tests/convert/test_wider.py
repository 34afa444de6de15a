# SPDX-License-Identifier: Apache-2.0
"""Nodes without a kernel are computed in wider types, with equal numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from opshift import Refused, accepts, convert
from opshift.author import registry
from opshift.author.facts import Facts, ScopeEnv
from opshift.author.misreadings import misread
from opshift.author.node import Node
from opshift.author.traits import ByWidth
from opshift.convert import wider
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.opsets import kernels, schemas
from opshift.opsets.elements import NAMED, T
from text_models import model, ops

TABLE = kernels.shipped()["onnxruntime"]
NEWEST = TABLE.releases[-1]


def lacking(number: int) -> Iterator[tuple[schemas.Schema, kernels.Missing]]:
    """The versions of operators for which a measured release lacks kernels."""
    for (domain, op), by_version in TABLE.lacks.items():
        for since in by_version:
            missing = TABLE.missing_in((domain, op), since, frozenset([number]))
            schema = schemas.schema(domain, op, since)
            if missing is not None and missing.variables and schema is not None:
                yield schema, missing


def unique(
    every: Iterable[tuple[schemas.Schema, kernels.Missing]],
) -> Iterable[tuple[schemas.Schema, kernels.Missing]]:
    """Most releases lack the same kernels."""
    return {
        (schema.domain, schema.name, schema.since, missing.variables, missing.choices): (
            schema,
            missing,
        )
        for schema, missing in every
    }.values()


def test_wider_types_hold_each_value_and_are_accepted() -> None:
    """Each choice changes a type to one that holds its values and that the operator accepts."""
    found = 0
    every = itertools.chain.from_iterable(map(lacking, range(0, len(TABLE.releases), 6)))
    for schema, missing in unique(every):
        accepted = {p.variable: p.types for p in (*schema.inputs, *schema.outputs)}
        for types, moves in product(missing.choices, (True, False)):
            bound = dict(zip(missing.variables, types, strict=True))
            for choice in wider._choices(schema, missing.variables, types, moves=moves):
                assert choice
                for variable, to in choice:
                    name = to.name.lower()
                    assert to.element.holds(NAMED[bound[variable]])
                    assert f"tensor({name})" in accepted[variable]
                    found += 1
    assert found


def test_operators_that_depend_on_the_width_exist() -> None:
    declared = registry.installed().rules(ByWidth)
    assert declared
    for domain, op in declared:
        assert schemas.history(domain, op), f"{domain}.{op}"


ELEMENTWISE = "({t}[2,3] x, {t}[2,3] z) => ({t}[2,3] y) {{ y = {op}(x, z) }}"
ONE = "({t}[2,3] x) => ({t}[2,3] y) {{ y = {op}(x) }}"
TO_BOOL = "({t}[2,3] x, {t}[2,3] z) => (bool[2,3] y) {{ y = {op}(x, z) }}"
IMAGE = "({t}[1,4,4,4] x) => ({t}[a,b,c,d] y) {{ y = {op}(x) }}"
FORMS = [
    *((op, 14, ELEMENTWISE, "bfloat16 int8 uint8 int16 uint16 uint32") for op in ("Add", "Sub", "Mul")),
    ("Div", 14, ELEMENTWISE, "bfloat16 uint8 int16 uint32"),
    *((op, 13, ELEMENTWISE, "bfloat16 int16 uint16") for op in ("Max", "Min")),
    *((op, 13, TO_BOOL, "bfloat16 int8 uint16 uint32") for op in ("Less", "Greater", "Equal")),
    *((op, 13, ONE, "bfloat16") for op in ("Abs", "Exp", "Sigmoid", "Tanh", "Floor", "Erf", "Softmax")),
    ("Relu", 14, ONE, "bfloat16 int16"),
    ("MatMul", 13, "({t}[2,3] x, {t}[3,2] z) => ({t}[2,2] y) {{ y = MatMul(x, z) }}", "bfloat16"),
    ("ReduceSum", 13, "({t}[2,3] x) => ({t}[1,1] y) {{ y = ReduceSum(x) }}", "bfloat16 uint32"),
    ("ReduceMax", 13, "({t}[2,3] x) => ({t}[1,1] y) {{ y = ReduceMax(x) }}", "bfloat16 uint32"),
    ("ArgMax", 13, "({t}[2,3] x) => (int64[a,b] y) {{ y = ArgMax<axis=1>(x) }}", "bfloat16 int16 uint32"),
    ("TopK", 11, "({t}[2,3] x) => ({t}[2,2] y, int64[2,2] i) <int64[1] k = {{2}}> {{ y, i = TopK(x, k) }}", "uint16 uint8"),
    ("CumSum", 14, "({t}[2,3] x) => ({t}[2,3] y) <int64 a = {{1}}> {{ y = CumSum(x, a) }}", "bfloat16 uint32"),
    ("Pad", 13, "({t}[2,3] x) => ({t}[4,5] y) <int64[4] p = {{1,1,1,1}}> {{ y = Pad(x, p) }}", "bfloat16 int16 uint16"),
    ("Where", 9, "(bool[2,3] c, {t}[2,3] x, {t}[2,3] z) => ({t}[2,3] y) {{ y = Where(c, x, z) }}", "uint16 int16"),
    ("Trilu", 14, "({t}[2,3] x) => ({t}[2,3] y) {{ y = Trilu(x) }}", "bfloat16 uint8 int16 uint32"),
    ("Unique", 11, "({t}[2,3] x) => ({t}[n] y) {{ y = Unique(x) }}", "uint8 int16 bool"),
    ("NonZero", 13, "({t}[2,3] x) => (int64[2,n] y) {{ y = NonZero(x) }}", "bfloat16 int8 uint16"),
    ("DepthToSpace", 13, "({t}[1,4,2,2] x) => ({t}[1,1,4,4] y) {{ y = DepthToSpace<blocksize=2>(x) }}", "bfloat16 uint16 bool"),
    ("Resize", 13, "({t}[1,1,2,2] x) => ({t}[1,1,4,4] y) <float[0] r = {{}}, float[4] s = {{1,1,2,2}}> {{ y = Resize(x, r, s) }}", "bfloat16 int16"),
    ("EyeLike", 9, "(float[2,3] x) => ({t}[2,3] y) {{ y = EyeLike<dtype = {n}>(x) }}", "bool uint8 int16"),
    ("OneHot", 11, "(uint8[3] i) => ({t}[3,4] y) <uint8 d = {{4}}, {t}[2] v = {{0, 1}}> {{ y = OneHot(i, d, v) }}", "uint8 float"),
    ("BitShift", 11, '({t}[2,3] x) => ({t}[2,3] y) <{t}[1] z = {{3}}> {{ y = BitShift<direction = "LEFT">(x, z) }}', "uint16"),
    ("GlobalAveragePool", 22, IMAGE, "bfloat16"),
    ("AveragePool", 22, IMAGE.replace("(x)", "<kernel_shape=[2,2]>(x)"), "bfloat16"),
]  # fmt: skip
CASES = [
    pytest.param(op, opset, text, kind, id=f"{op}-{kind}")
    for op, opset, text, kinds in FORMS
    for kind in kinds.split()
]


def numpy_type(kind: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)


def filled(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Numbers of a type, with the ends of its range, so that sums wrap around."""
    if kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in ("bfloat16", "float"):
        return rng.normal(size=shape).astype(np.float32).astype(numpy_type(kind))
    limits = np.iinfo(numpy_type(kind))
    found = rng.integers(limits.min, limits.max, shape, dtype=np.int64, endpoint=True)
    found = np.where(found == 0, 1, found)
    return found.astype(kind)


@pytest.mark.parametrize("release", [NEWEST, "1.16", "1.10"])
@pytest.mark.parametrize(("op", "opset", "text", "kind"), CASES)
def test_result_has_a_kernel(op: str, opset: int, text: str, kind: str, release: str) -> None:
    """No node of the result is without a kernel in a release that reads its opset."""
    text = text.format(t=kind, op=op, n=int(T[kind.upper()]))
    target = f"onnxruntime=={release}"
    result = convert(model(text, opset), target)
    assert accepts(result.model, target).answer == "yes", str(accepts(result.model, target).reasons)


@pytest.mark.parametrize(("op", "opset", "text", "kind"), CASES)
def test_numbers_stay_equal(op: str, opset: int, text: str, kind: str) -> None:
    """onnxruntime computes integers as the reference does, and floats to one rounding of them."""
    whole = model(text.format(t=kind, op=op, n=int(T[kind.upper()])), opset)
    rng = np.random.default_rng(len(op))
    for value in whole.graph.input:
        tensor = value.type.tensor_type
        shape = tuple(dim.dim_value for dim in tensor.shape.dim)
        name = T(tensor.elem_type).name.lower()
        found = np.arange(3, dtype=np.uint8) if op == "OneHot" else filled(name, shape, rng)
        whole.graph.initializer.append(numpy_helper.from_array(found, value.name))
    del whole.graph.input[:]
    result = convert(whole, f"onnxruntime=={NEWEST}").model
    for before, after in zip(reference(whole), computed(result), strict=True):
        if kind == "bfloat16":
            np.testing.assert_allclose(after, before.astype(np.float32), rtol=2**-7, atol=1e-6)
        else:
            np.testing.assert_array_equal(after, before.astype(after.dtype))


def reference(proto: ModelProto) -> list[Any]:
    """The outputs by the reference, which computes bfloat16 in float."""
    copy = ModelProto.FromString(proto.SerializeToString())
    for tensor in copy.graph.initializer:
        if tensor.data_type == T.BFLOAT16:
            wide = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    return list(ReferenceEvaluator(copy).run(None, {}))


def computed(proto: ModelProto) -> list[Any]:
    """The outputs by onnxruntime, those of bfloat16 as float."""
    copy = ModelProto.FromString(proto.SerializeToString())
    for i, output in enumerate(copy.graph.output):
        if output.type.tensor_type.elem_type == T.BFLOAT16:
            copy.graph.node.append(helper.make_node("Cast", [output.name], [f"f{i}"], to=T.FLOAT))
            output.name, output.type.tensor_type.elem_type = f"f{i}", T.FLOAT
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        copy.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, {}))


@pytest.mark.parametrize(
    "text",
    [
        "(int8[2,3] x) => (int16[2] y) { y = BitCast<to = 5>(x) }",
        "(uint8[1,1,2,2] x) => (uint8[1,1,4,4] y) <float[0] r = {}, float[4] s = {1,1,2,2}>"
        ' { y = Resize<mode = "linear">(x, r, s) }',
        "(int8[3] x, int64[3] i, int8[3] u) => (int8[3] y)"
        ' { y = ScatterElements<reduction = "mul">(x, i, u) }',
        "(float[2] x) => (bfloat16[2] y) { y = Cast<to = 16>(x) }",
        "(bfloat16[2] x, bfloat16 s) => (int8[2] y) <int8 z = {0}> { y = QuantizeLinear(x, s, z) }",
    ],
)
def test_operators_of_a_width_are_never_widened(text: str) -> None:
    proto = model(text, 26)
    key = ("", proto.graph.node[0].op_type)
    rule = registry.installed().rules(ByWidth)[key]
    document = Document(proto, "opshift_")
    facts = Facts(document, Weights(), registry.default(), lambda: proto)
    scope = document.roots[0].scopes[0]
    node = Node(scope.node(0), schemas.schema(*key, 26), ScopeEnv(facts, scope))
    assert rule.concerns(node, floats="bfloat16" in text)


@pytest.mark.parametrize(
    ("nodes", "below", "written"),
    [
        ("y = Softmax(x)", "Softmax", "Cast Softmax Cast"),
        ("y = LogSoftmax(x)", "LogSoftmax", "Cast LogSoftmax Cast"),
        # LayerNormalization of float16 is wrong from the second run on, at each opset.
        ("s = Neg(x) y = LayerNormalization<axis=0>(x, s)",
         *["Neg Cast Cast LayerNormalization Cast"] * 2),
    ],
)  # fmt: skip
def test_forms_of_narrow_floats_are_computed_in_float(nodes: str, below: str, written: str) -> None:
    """onnxruntime 1.14 has kernels of float16 that it does not load from opset 18 on."""
    text = f"(float16[1,2,3] x) => (float16[1,2,3] y) {{ {nodes} }}"
    assert ops(convert(model(text, 17), "onnxruntime==1.14").model) == below
    assert ops(convert(model(text, 18), "onnxruntime==1.14").model) == written


@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "int64", "double"])
def test_a_misread_input_is_cast_to_float_only_if_float_holds_its_type(
    kind: str, with_adapters: Any
) -> None:
    @misread("Abs", "onnxruntime 1.10", "it is misread", source="2026-01-02 us", wider="X")
    def below_float(node: Node) -> bool:
        return node["X"].elem_type_or_none != T.FLOAT

    with_adapters(below_float)
    is_held = T.FLOAT.element.holds(NAMED[kind])
    assert is_held == (kind in ("int8", "uint16"))
    result = convert(model(f"({kind}[2] x) => ({kind}[2] y) {{ y = Abs(x) }}", 13), "ort==1.10")
    assert (ops(result.model) == "Cast Abs Cast") == is_held


def test_types_that_were_not_tried_are_computed_in_types_that_were() -> None:
    """The table has too many choices of types for Attention to try bfloat16."""
    text = "(bfloat16[1,1,2,4] q) => (bfloat16[1,1,2,4] y) { y = Attention(q, q, q) }"
    target = "onnxruntime==1.24"
    assert accepts(model(text, 23, 11), target).answer == "not known"
    assert ops(convert(model(text, 23, 11), target).model) == "Cast Attention Cast"


def test_casts_that_meet_keep_their_rounding() -> None:
    """onnxruntime 1.10 merges two Casts, so that nothing wraps around between two nodes."""
    text = "(int8[2] a) => (int8[2] y) { c = Mul(a, a) y = Div(c, a) }"
    converted = convert(model(text, 14), "onnxruntime==1.10").model
    assert ops(converted) == "Cast Mul Cast Reshape Cast Cast Div Cast"


SPLIT = """(uint8[6] x, int64 i) => (uint8[n] y) {
    s = SplitToSequence(x) y = SequenceAt(s, i) }"""


def test_an_operator_that_writes_a_sequence_is_not_widened() -> None:
    """A sequence of a wider type would reach nodes that read the narrow type."""
    before = model(SPLIT, 11)
    after = convert(before, "onnxruntime==1.32").model
    assert "SplitToSequence" not in ops(after)
    inputs = {"x": np.arange(6, dtype=np.uint8), "i": np.array(-2)}
    (result,) = onnxruntime.InferenceSession(after.SerializeToString()).run(None, inputs)
    assert result.dtype == np.uint8
    assert result.tolist() == [4]
    alone = model("(uint8[6] x) => (seq(uint8[n]) y) { y = SplitToSequence(x) }", 11)
    with pytest.raises(Refused, match="SplitToSequence of uint8, int32 has no kernel"):
        convert(alone, "onnxruntime==1.32")
