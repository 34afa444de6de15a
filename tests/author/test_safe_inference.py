# SPDX-License-Identifier: Apache-2.0
"""Inference survives an operator whose input has no type, and types it if possible."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import numpy as np
import onnx.parser
import opshift
import pytest
from onnx import numpy_helper
from opshift.author import piecewise, registry, safe_inference
from opshift.author.model_bytes import ModelBytes
from opshift.author.traits import Fragile
from opshift.model import walk
from opshift.opsets import schemas
from opshift.verify import verify

HEADER = '<ir_version: 8, opset_import: ["" : 20, "ai.onnx.ml" : 4, "acme" : 1]> g '
BEHIND_A_STRANGER = {
    "LabelEncoder": "(int64[n] v) => (int64[n] y) { x = acme.Own(v) y = ai.onnx.ml.LabelEncoder<keys_int64s=[1], values_int64s=[7]>(x) }",
    "EyeLike": "(float[2] v) => (float[a,b] y) { x = acme.Own(v) y = EyeLike(x) }",
    "RegexFullMatch": '(string[2] v) => (bool[2] y) { x = acme.Own(v) y = RegexFullMatch<pattern="a">(x) }',
}
TYPED = "(int64[n] v) => (int64[n] y) { x = Identity(v) y = ai.onnx.ml.LabelEncoder<keys_int64s=[1], values_int64s=[7]>(x) z = Identity(y) }"
CONVERT = "import onnx.parser, sys, opshift; opshift.convert_version(onnx.parser.parse_model(sys.argv[1]), 21)"

INPUTS = "import onnx.parser, sys; from opshift.author import registry; from opshift.verify import generate; generate._shapes(onnx.parser.parse_model(sys.argv[1]), registry.default())"


@pytest.mark.parametrize("code", [CONVERT, INPUTS], ids=["convert", "inputs"])
@pytest.mark.parametrize("op", BEHIND_A_STRANGER)
def test_behind_an_operator_that_nobody_knows(op, code):
    if onnx.defs.onnx_opset_version() < 21:
        pytest.skip("the installed onnx is older")
    text = HEADER + BEHIND_A_STRANGER[op]
    done = subprocess.run(
        [sys.executable, "-c", code, text], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_where_the_type_is_known_nothing_is_hidden():
    model = onnx.parser.parse_model(HEADER + TYPED)
    assert safe_inference.is_at_risk(model, registry.default())
    types = {
        info.name: info.type.tensor_type
        for info in safe_inference.infer(model, registry.default()).graph.value_info
    }
    assert types["z"].elem_type == onnx.TensorProto.INT64


def test_a_function_is_called_without_the_input_that_a_name_of_the_graph_equals():
    label = "y = ai.onnx.ml.LabelEncoder<keys_int64s=[1], values_int64s=[7]>(x)"
    function = '<domain: "acme", opset_import: ["" : 20, "ai.onnx.ml" : 4]> F (x) => (y) { '
    graph = "(int64[1] x) => (int64 y) { z = Identity(x) y = acme.F() } "
    text = HEADER + graph + function + label + " }"
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, text], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "(float[2] LabelEncoder) => (float[2] y) { y = Neg(LabelEncoder) }",
        "(float[1,1,9,9] x) => (float[N,C,H,W] y) <float[1,1,3,3] w, int64[1] o = {0}, int64[1] e = {5}> { c = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, w) y = Slice(c, o, e) }",
    ],
    ids=["a name that is an operator's", "a window of at most its pads and a stride"],
)
def test_a_model_without_a_node_at_fault_is_inferred_as_it_is(text):
    model = onnx.parser.parse_model(HEADER + text)
    assert not safe_inference.is_at_risk(model, registry.default())


def test_a_window_that_may_be_larger_than_its_input_is_at_risk():
    text = "(float[1,1,H,W] x) => (float[N,C,J,K] y) <float[1,1,3,3] w, int64[1] o = {0}, int64[1] e = {5}> { c = Conv<kernel_shape=[3,3]>(x, w) y = Slice(c, o, e) }"
    assert safe_inference.is_at_risk(onnx.parser.parse_model(HEADER + text), registry.default())


def test_what_is_declared_fragile():
    assert {("", "EyeLike"), ("ai.onnx.ml", "LabelEncoder")} <= set(
        registry.default().traits(Fragile)
    )


def without_inputs():
    """Each operator of each version with inputs that are absent or that nothing defines."""
    bodiless = (
        onnx.defs.onnx_opset_version() < 23
    )  # then inference reads the body that is not there
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.name == "Scan" and bodiless:
            continue
        count = min(max(schema.min_input, 1), 6)
        inputs = {(), ("",) * count, ("u",) * count, ("x", *[""] * (count - 1))}
        imports = [onnx.helper.make_opsetid(schema.domain, schema.since_version)]
        for names in sorted(inputs):
            node = onnx.helper.make_node(schema.name, names, ["y"], domain=schema.domain)
            x, y = onnx.helper.make_tensor_value_info("x", 1, [2, 3]), onnx.ValueInfoProto(name="y")
            graph = onnx.helper.make_graph([node], "g", [x], [y])
            yield onnx.helper.make_model(graph, opset_imports=imports)


def test_no_operator_without_its_inputs_ends_the_process():
    """A child process infers every such model, and first prints the name of the operator."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout.splitlines()[-1:]} ended the process"
    assert len(done.stdout.splitlines()) > 1000


if __name__ == "__main__":
    for one in without_inputs():
        print(one.graph.node[0].op_type, flush=True)
        with contextlib.suppress(*safe_inference.COMPLAINTS):
            safe_inference.infer(one, registry.default(), data_prop=True)


@pytest.mark.parametrize("opset", [6, 1])
def test_a_default_that_inference_overlooks_is_no_contradiction(opset):
    """onnx's inference does not apply the default `axes` of MeanVarianceNormalization."""
    body = (
        '<domain: "own", opset_import: ["" : 13]> f (x) => (y) { y = MeanVarianceNormalization(x) }'
    )
    text = '<ir_version: 8, opset_import: ["" : 13, "own" : 1]> g (float[3,3,3,1] x) => (float[3,3,3,1] y)'
    proto = onnx.parser.parse_model(f"{text} {{ y = own.f(x) }} {body}")
    after = opshift.convert_version(proto, opset)
    assert "MeanVarianceNormalization" not in str(after)
    assert verify(proto, after).equal


def test_inference_leaves_the_attributes_of_a_node_as_they_are():
    text = "(float[3,3,3,1] x) => (float[3,3,3,1] y) { y = MeanVarianceNormalization(x) }"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {text}')
    found = safe_inference.infer(proto, registry.default(), strict=True)
    assert not found.graph.node[0].attribute
    assert [entry.domain for entry in found.opset_import] == [""]


# Inference of onnx 1.17 propagates no sum of a size.
IS_OLD = (schemas.latest("") or 0) < 23


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<int64[1] n = {1099511627776}> { y = ConstantOfShape(n) }", False),
        (
            "<int64 o = {0}, int64 n = {1099511627776}, int64 s = {1}> { z = Range(o, n, s) y = Cast<to=1>(z) }",
            False,
        ),
        ("<int64[1] n = {1048576}> { y = ConstantOfShape(n) }", True),
        (
            "<int64[1] o = {0}, int64[1] n = {9223372036854775807}> { y = Slice(x, o, n) }",
            True,
        ),
        *(
            (
                f"""<int64[1] n = {{{number}}}> {{ s = Shape(x) r = Size(s) m = {op}(r, n)
                    t = ConstantOfShape<value = int64[1] {{1}}>(m) u = Concat<axis = 0>(s, t)
                    y = Expand(x, u) }}""",
                answer,
            )
            for op, number, answer in (
                ("Sub", -(2**60), IS_OLD),
                ("Add", 2**60, IS_OLD),
                ("Sub", 2**60, True),
                ("Sub", -4, True),
            )
        ),
    ],
)
def test_a_huge_size_is_not_listed(text, answer):
    proto = onnx.parser.parse_model(f"{HEADER}(float[N] x) => (float[M] y) {text}")
    assert safe_inference.may_propagate(ModelBytes(proto.SerializeToString())) is answer


@pytest.mark.parametrize(
    ("size", "answer"), [(2**24, True), (2**24 + 1, False), (2**40, False), (-1, True)]
)
def test_a_huge_size_is_not_declared(size, answer):
    proto = onnx.parser.parse_model(f"{HEADER}(float[1] x) => (float[M] y) {{ y = Neg(x) }}")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = size
    assert safe_inference.may_propagate(ModelBytes(proto.SerializeToString())) is answer


SPARSE = {
    "main graph": "(float[3] x) => (float[a,b] y) { h = Add(x, w) y = Softmax<axis=0>(h) }",
    "only operand": "(float[3] x) => (float[a,b] y) { h = Softmax<axis=0>(w) y = Add(h, x) }",
    "branch": "(float[3] x, bool c) => (float[a,b] y) { y = If(c) <then_branch = g () => (y) { h = Mul(w, x) y = Softmax<axis=0>(h) }, else_branch = g () => (y) { y = Add(w, x) }> }",
}


def with_weight(text: str, *, sparse: bool) -> onnx.ModelProto:
    """A model whose graph, or whose first branch, has a 3x3 weight, sparse or dense."""
    model = onnx.parser.parse_model(HEADER + text)
    for graph in (model.graph, *(a.g for n in model.graph.node for a in n.attribute if a.g.node)):
        written = {name for node in graph.node for name in node.output}
        if not any("w" in node.input for node in graph.node) or "w" in written:
            continue
        dense = np.diag(np.float32([1, 2, 3]))
        if not sparse:
            graph.initializer.append(numpy_helper.from_array(dense, "w"))
            continue
        tensor = graph.sparse_initializer.add(dims=dense.shape)
        tensor.values.CopyFrom(numpy_helper.from_array(np.float32([1, 2, 3]), "w"))
        tensor.indices.CopyFrom(numpy_helper.from_array(np.int64([0, 4, 8])))
    return model


@pytest.mark.parametrize("text", SPARSE.values(), ids=SPARSE)
def test_a_sparse_initializer_has_the_type_of_a_dense_one(text):
    sparse, dense = (with_weight(text, sparse=which) for which in (True, False))
    found = safe_inference.infer(sparse, registry.default())
    expected = safe_inference.infer(dense, registry.default())
    for one, other in zip(walk.graphs_in(found.graph), walk.graphs_in(expected.graph), strict=True):
        types = {info.name: info.type for info in (*one.value_info, *one.output)}
        assert types.items() >= {info.name: info.type for info in other.value_info}.items()
        assert [*one.output] == [*other.output]
    originals = walk.graphs_in(sparse.graph)
    for one, original in zip(walk.graphs_in(found.graph), originals, strict=True):
        assert one.sparse_initializer == original.sparse_initializer
    for target in (21, 12, 11):
        if target > onnx.defs.onnx_opset_version():
            continue
        result = opshift.convert_version(sparse, target)
        twin = opshift.convert_version(dense, target)
        assert [n.op_type for n in walk.nodes(result)] == [n.op_type for n in walk.nodes(twin)]
        assert result.graph.output == twin.graph.output
        assert verify(sparse, result, isolated=False).equal


def test_pieces_of_a_model_know_the_types_of_sparse_initializers(monkeypatch):
    for limit in ("MOST_COPIES", "SMALL"):
        monkeypatch.setattr(piecewise, limit, 0)
    monkeypatch.setattr(piecewise, "PIECE", 1)
    text = SPARSE["main graph"].replace("{ h", "{ z = Identity(w) h").replace("y = ", "s = ")
    text = text.replace(
        " }",
        " y = If(c) <then_branch = g () => (t) { t = Neg(s) }, else_branch = g () => (e) { e = Abs(s) }> }",
    )
    text = text.replace("x)", "x, bool c)", 1)
    model = with_weight(text, sparse=True)
    found = safe_inference.infer(model, registry.default()).graph
    ranks = {info.name: len(info.type.tensor_type.shape.dim) for info in found.value_info}
    assert ranks["z"] == ranks["h"] == ranks["s"] == 2
