# SPDX-License-Identifier: Apache-2.0
"""The table of kernels: its content, its file format, and its use in conversions."""

from __future__ import annotations

import numpy as np
import pytest
from newest_onnx import IS_OLDER
from onnx import ModelProto, parser
from opshift import convert_version, plan
from opshift.look.accepts import accepts
from opshift.opsets import kernels, measured, schemas, targets
from opshift.opsets.elements import ELEMENTS

BOOL = "(int64[3] a, int64[3] b) => (bool[3] y) { y = Less(a, b) }"


def model(opset: int, graph: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 4, opset_import: ["": {opset}]> g {graph}')


def table(**lacks: kernels.Lack) -> kernels.KernelTable:
    found = {("", op): {7: lack} for op, lack in lacks.items()}
    return kernels.KernelTable("runtime", ("0.9", "1.2", "1.10", "1.11"), found)


@pytest.mark.parametrize("seed", range(5))
def test_a_table_is_read_as_it_was_written(seed):
    draw = np.random.default_rng(seed)
    names = sorted(kernels.SHORT)

    def lack(width: int) -> kernels.Lack:
        choices = {
            tuple(map(str, draw.choice(names, width))): tuple(
                sorted(map(int, draw.choice(4, draw.integers(1, 5), replace=False)))
            )
            for _ in range(6)
        }
        return kernels.Lack(tuple(f"T{i}" for i in range(width)), choices)

    before = table(Add=lack(1), Where=lack(2), Unknown=kernels.Lack((), {(): (0, 1)}))
    assert kernels.read("\n".join(kernels.written(before))) == before


def test_a_line_holds_up_to_the_next_line_or_version():
    none, some = kernels.Lack(("T",), {}), kernels.Lack(("T",), {("double",): (0,)})
    lines = {6: some, 16: none, 17: none, 19: some, 20: some}
    before = kernels.KernelTable("runtime", ("0.9",), {("", "LeakyRelu"): lines})
    found = kernels.read("\n".join(kernels.written(before)))
    assert sorted(found.lacks["", "LeakyRelu"]) == [6, 19]
    lacking = [
        opset
        for opset, since in ((6, 6), (15, 6), (16, 16), (18, 16), (19, 16), (25, 16))
        if found.missing(("", "LeakyRelu"), since, "0.9", opset) is not None
    ]
    assert lacking == [6, 15, 19, 25]


@pytest.mark.parametrize(
    ("release", "around"),
    [
        ("0.8", set()), ("0.9", {0}), ("1.2.3", {1}), ("1.9", {1, 2}), ("1.10", {2}),
        ("1.10.1", {2}), ("1.11.3", {3}), ("1.99", set()),
    ],
)  # fmt: skip
def test_a_release_that_was_not_measured_lacks_what_both_its_neighbours_lack(release, around):
    assert measured.around(release, table().releases) == around


@pytest.mark.skipif(IS_OLDER, reason="the installed onnx is older than the table")
def test_every_line_of_the_table_names_what_the_schemas_know():
    for found in kernels.shipped().values():
        for (domain, op), versions in found.lacks.items():
            for since, lack in versions.items():
                if not lack.variables:
                    continue
                schema = schemas.schema(domain, op, since)
                assert schema is not None
                assert schema.since == since or schema.has_body
                params = [*schema.inputs, *schema.outputs]
                for i, variable in enumerate(lack.variables):
                    typed = [p for p in params if p.variable == variable]
                    allowed = set().union(*(p.types for p in typed))
                    assert not typed or {f"tensor({c[i]})" for c in lack.choices} <= allowed


def test_a_plan_names_a_missing_kernel_before_the_conversion():
    clip = model(10, "(double[3] x) => (double[3] y) { y = Clip<max = 0.5>(x) }")
    notes = plan(clip, "onnxruntime==1.10").notes
    assert any("Clip of double has no kernel in onnxruntime 1.10" in note for note in notes)
    assert any("the result has equivalent nodes" in note for note in notes)


def test_accepts_names_a_missing_kernel():
    (reason,) = accepts(model(10, BOOL), "onnxruntime==0.4").reasons
    assert reason.startswith("Less of int64, bool has no kernel in onnxruntime 0.4")
    assert accepts(model(10, BOOL), "onnxruntime==1.31").accepted


@pytest.mark.parametrize(("release", "kept"), [("0.4", False), ("1.10", True)])
def test_another_form_is_written_only_where_there_is_no_kernel(release, kept):
    before = model(10, BOOL)
    after = convert_version(before, f"onnxruntime=={release}")
    assert ([node.op_type for node in after.graph.node] == ["Less"]) == kept
    assert not any(accepts(after, f"onnxruntime=={release}").reasons)


def test_a_form_without_kernels_of_its_own_is_not_written():
    clip = "(int16[3] a, int16[3] b, bool[3] c) => (int16[3] y) { y = Where(c, a, b) }"
    row = targets.find("onnxruntime==0.4")
    missing = row.no_kernels(("", "Where"), 9)
    assert missing is not None
    assert ("bool", "int16") in missing.choices
    after = convert_version(model(10, clip), "onnxruntime==0.4")
    assert not any(accepts(after, "onnxruntime==0.4").reasons)


def test_an_operator_that_a_release_does_not_know_is_written_in_ai_onnx():
    graph = "(float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }"
    text = f'<ir_version: 4, opset_import: ["": 10, "com.microsoft": 1]> g {graph}'
    for release, domain in (("0.4", ""), ("1.10", "com.microsoft")):
        after = convert_version(parser.parse_model(text), f"onnxruntime=={release}")
        assert {node.domain for node in after.graph.node} == {domain}


def test_an_operator_that_a_release_does_not_know_is_a_named_blocker():
    graph = "(float[2] x) => (float[2] y) { y = com.microsoft.BeamSearch(x) }"
    text = f'<ir_version: 4, opset_import: ["": 10, "com.microsoft": 1]> g {graph}'
    planned = plan(parser.parse_model(text), "onnxruntime==0.4")
    assert "onnxruntime==0.4 has no operator com.microsoft.BeamSearch" in str(planned.refusals[0])


def test_a_form_that_the_runtime_misreads_is_written_otherwise():
    """The release crashes at a DequantizeLinear of rank 0, but not of rank 1."""
    graph = "(int8 x, int8[2] z) => (float y, float[2] w) <float s = {0.5}> { y = DequantizeLinear(x, s) w = DequantizeLinear(z, s) }"
    before, target = model(11, graph), "onnxruntime==1.2"
    answer = accepts(before, target)
    assert [reason for reason in answer.reasons if "rank 0" in reason]
    after = convert_version(before, target)
    assert [node.op_type for node in after.graph.node] == [
        "Unsqueeze", "DequantizeLinear", "Squeeze", "DequantizeLinear",
    ]  # fmt: skip
    assert accepts(after, target).accepted


LOOP = "(float[2] x, int64[r] s, int64 n) => (float[a,b] y, float[k] z) <bool go = {1}> { v = Reshape(x, s) y, z = Loop(n, go, v) <body = b (int64 i, bool k, float[] p) => (bool o, float[] q, float w) <int64[2] t = {1,2}> { o = Identity(k) q = Reshape(p, t) w = Cast<to = 1>(i) }> }"
IF = "(float[2] x, bool c) => (float[2] y) { y = If(c) <then_branch = t () => (float[] p) { p = Neg(x) }, else_branch = e () => (float[] q) { q = Abs(x) }> }"


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (
            LOOP,
            (
                "iteration number in the body of a Loop has the shape [1]",
                "Loop does not run if an input or output of a subgraph lacks a shape",
            ),
        ),
        (IF, ("If does not run if an input or output of a subgraph lacks a shape",)),
    ],
)
def test_a_graph_inside_a_node_gets_the_form_that_an_old_release_runs(graph, says):
    before, target = model(10, graph), "onnxruntime==0.4"
    for part in says:
        assert [reason for reason in accepts(before, target).reasons if part in reason]
    assert accepts(convert_version(before, target), target).accepted
    unread = graph.replace("Cast<to = 1>(i)", "ReduceSum<keepdims = 0>(p)")
    assert says[0] not in str(accepts(model(10, unread), target).reasons) or graph == IF


NORM = "(float[2,4] x, float[4] s) => (float[2,4] y) <float e = {0.1}> { m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes = [-1]>(q) w = Add(v, e) r = Sqrt(w) n = Div(d, r) y = Mul(n, s) }"
LIST = "(float[2] x) => (float y) { i = Constant<value_ints = [0]>() y = ReduceSum<keepdims = 0>(x, i) }"


@pytest.mark.parametrize(
    ("graph", "opset", "release", "says"),
    [
        (NORM, 11, "1.2", "LayerNormalization in single nodes"),
        (LIST, 15, "1.10", "Constant with a list of numbers or strings is read as a scalar"),
        (LIST, 15, "1.11", "Constant with a list of numbers or strings is read as a scalar"),
    ],
)
def test_a_form_that_an_old_release_misreads_is_told_and_written_otherwise(
    graph, opset, release, says
):
    before, target = model(opset, graph), f"onnxruntime=={release}"
    assert [reason for reason in accepts(before, target).reasons if says in reason]
    assert accepts(convert_version(before, target), target).accepted
    later = accepts(before, "onnxruntime==1.12").reasons
    assert not [reason for reason in later if says in reason]


HALF = "(float16[2,4] x) => (float16[2,4] y) { y = Relu(x) }"
SOFT = "(float16[2,4] x) => (float16[2,4] y) { y = Softmax(x) }"
CODES = "(uint8[2,3] a, uint8 p) => (int32[2,2] y) <int8[3,2] b = {1,-2,3,-4,5,6}, int8 q = {0}> { y = MatMulInteger(a, b, p, q) }"
ALONE = "(uint8[2,3] a, uint8[3,2] b, uint8 q) => (int32[2,2] y) { y = MatMulInteger(a, b, , q) }"
BYTES = (
    "(float[3] x) => (int8[3] y) <float s = {0.5}, int8 z = {0}> { y = QuantizeLinear(x, s, z) }"
)
ROWS = "(float[3,2] x) => (float[3,1] y) { y = ReduceLogSumExp<axes = [1]>(x) }"
SOME = "(float[3] x) => (bool[3] y) { y = Cast<to = 9>(x) }"


@pytest.mark.parametrize(
    ("graph", "opset", "runtime", "fine", "says"),
    [
        (HALF, 18, "onnxruntime==1.14", "onnxruntime==1.15", "Relu of 16 bits or int64 crashes"),
        (SOFT, 18, "onnxruntime==1.14", "onnxruntime==1.17", "Softmax of float16 does not load"),
        (CODES, 11, "onnxruntime==1.2", "onnxruntime==1.4", "of int8 weights with a zero point"),
        (ALONE, 11, "onnxruntime==1.3", "onnxruntime==1.4", "for only its second input"),
        (BYTES, 11, "onnxruntime==1.2", "onnxruntime==1.3", "-127 instead of -128"),
        (SOME, 11, "openvino==2022.1", "openvino==2023.0", "numbers below 1 become false"),
        (ROWS, 13, "openvino==2026.4", "opencv==5.0", "with the attribute `axes` reduces all"),
        (ROWS, 11, "openvino==2023.0", "openvino==2026.4", "far from 0 overflows"),
    ],
)
def test_a_form_of_some_types_is_told_and_written_otherwise(graph, opset, runtime, fine, says):
    before = model(opset, graph)
    (reason,) = accepts(before, runtime).reasons
    assert says in reason
    for runs in accepts(convert_version(before, runtime), runtime), accepts(before, fine):
        saturates = graph == CODES and runs.target == fine  # on some processors
        is_known = "onnxruntime" in runs.target and not saturates
        assert runs.answer == ("yes" if is_known else "not known")


@pytest.mark.parametrize(
    ("graph", "opset", "runtime"),
    [
        (HALF, 13, "onnxruntime==1.14"),  # Relu is another one there
        (HALF.replace("16[", "["), 18, "onnxruntime==1.14"),
        (SOFT, 17, "onnxruntime==1.14"),
        (CODES.replace(", p, q)", ")"), 11, "onnxruntime==1.2"),
        (ALONE.replace(", , q)", ", q)"), 11, "onnxruntime==1.2"),
        (BYTES.replace("int8", "uint8"), 11, "onnxruntime==1.2"),
        (SOME.replace("float[", "int32["), 11, "openvino==2022.1"),
    ],
)
def test_a_form_of_some_types_is_none_of_others(graph, opset, runtime):
    assert not accepts(model(opset, graph), runtime).reasons


def test_an_input_that_a_package_does_not_take_is_told():
    graph = "(uint64[2] x) => (float[2] y) { y = Cast<to = 1>(x) }"
    (reason,) = accepts(model(8, graph), "onnxruntime==0.4").reasons
    assert "its Python package cannot accept a tensor of uint64, such as 'x'" in reason
    assert accepts(model(8, graph), "onnxruntime==0.5").accepted


def test_an_output_that_a_package_does_not_hand_out_is_told():
    graph = "(float[2] x) => (float16[2] y) { y = Cast<to = 10>(x) }"
    (reason,) = accepts(model(8, graph), "onnxruntime==0.4").reasons
    assert "its Python package cannot return a tensor of float16, such as 'y'" in reason
    assert accepts(model(8, graph), "onnxruntime==1.0").accepted
    inside = graph.replace(
        "(float16[2] y) { y = Cast<to = 10>(x)",
        "(float[2] y) { h = Cast<to = 10>(x) n = Neg(h) y = Cast<to = 1>(n)",
    )
    assert accepts(model(8, inside), "onnxruntime==0.4").accepted


@pytest.mark.parametrize("version", ["0.4", "0.5", "1.0", "1.2", "1.5", "1.16"])
def test_a_cast_to_halves_and_back_is_parted(version):
    graph = "(float[2] x) => (float[2] y) { h = Cast<to = 10>(x) y = Cast<to = 1>(h) }"
    (reason,) = accepts(model(8, graph), f"onnxruntime=={version}").reasons
    assert "Cast" in reason
    converted = convert_version(model(8, graph), f"onnxruntime=={version}")
    assert [node.op_type for node in converted.graph.node] == ["Cast", "Reshape", "Cast"]
    assert accepts(model(8, graph), "onnxruntime==1.17").accepted


def test_a_normalization_before_another_node_is_not_the_end_of_a_graph():
    graph = NORM.replace("y = Mul(n, s)", "u = Mul(n, s) y = Neg(u)")
    assert accepts(model(11, graph), "onnxruntime==1.2").accepted


def test_a_type_that_only_an_optional_input_chooses_is_in_the_table():
    graph = "(float[2] x) => (int8[2] y) <float s = {0.5}, int8 z = {3}> { y = QuantizeLinear(x, s, z) }"
    (reason,) = accepts(model(10, graph), "onnxruntime==0.4").reasons
    assert reason.startswith("QuantizeLinear of float, int8 has no kernel in onnxruntime 0.4")
    assert accepts(model(10, graph.replace("int8", "uint8")), "onnxruntime==0.4").accepted


def test_the_type_of_an_absent_input_does_not_matter():
    graph = '(float16[1,1,2,2] x) => (float16[1,1,4,4] y) <float[4] s = {1,1,2,2}> { y = Resize<mode="linear">(x, "", s) }'
    answer = accepts(model(19, graph), "onnxruntime==1.15")
    assert any(
        reason.startswith("Resize of float16, float has no kernel") for reason in answer.reasons
    )
    assert not answer.unknown
    floats = accepts(model(19, graph.replace("float16", "float")), "onnxruntime==1.15")
    assert floats.accepted
    assert not floats.unknown


def test_the_table_names_every_type_but_complex_numbers():
    """A type without a name would count as a type for which every operator has a kernel."""
    unnamed = {row.name for row in ELEMENTS.values()} - kernels.SHORT.keys()
    assert unnamed == {"complex64", "complex128"}


@pytest.mark.skipif(IS_OLDER, reason="the installed onnx lacks some of these types")
@pytest.mark.parametrize(("opset", "node", "kind", "answer"), [
    (21, "Identity(x)", "int4", "no"), (21, "Transpose(x)", "int4", "yes"),
    (21, "Flatten(x)", "float8e4m3fn", "no"), (21, "Identity(x)", "float8e4m3fn", "yes"),
    (24, "Cast<to = 1>(x)", "uint64", "yes"), (24, "Cast<to = 1>(x)", "float4e2m1", "no"),
    (21, "Cast<to = 22>(x)", "int4", "yes"),
])  # fmt: skip
def test_kernels_of_8_and_4_bits_are_measured(opset, node, kind, answer):
    graph = f"({kind}[2,2] x) => (y) {{ y = {node} }}"
    proto = parser.parse_model(f'<ir_version: 11, opset_import: ["": {opset}]> g {graph}')
    assert accepts(proto, "onnxruntime==1.32").answer == answer
