# SPDX-License-Identifier: Apache-2.0
"""`--shape` refuses the sizes that contradict weights, windows and constant indices, with the node."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto
from opshift import BadTarget, convert
from opshift.opsets import schemas
from opshift.testing.model_text import parse_model

runtime = pytest.importorskip("onnxruntime", "1.23")
runtime.set_default_logger_severity(4)


class Case(NamedTuple):
    """A node with weights, a shape of x that fits, and others that do not."""

    node: str  # the output is y, and `w[3]` stands for a weight of this shape
    good: tuple[int, ...]
    bad: tuple[tuple[int, ...], ...]
    opset: int = 13


CASES = {
    "Add": Case("Add(x, w[3])", (2, 3), ((2, 4),)),
    "BatchNormalization": Case("BatchNormalization(x, w[3], w[3], w[3], w[3])", (2, 3, 4), ((2, 4, 4),)),
    "Concat": Case("Concat<axis = 0>(x, w[2,3])", (4, 3), ((4, 2),)),
    "Conv": Case("Conv(x, w[4,3,3])", (1, 3, 5), ((1, 4, 5), (1, 3, 2))),
    "ConvInteger": Case("ConvInteger(x, w[4,3,3])", (1, 3, 5), ((1, 4, 5), (1, 3, 2))),
    "ConvTranspose": Case("ConvTranspose<group = 2>(x, w[4,3,3])", (1, 4, 5), ((1, 6, 5), (1, 3, 5))),
    "DeformConv": Case("DeformConv(x, w[2,1,2,2], w[1,8,3,3])", (1, 1, 4, 4), ((1, 2, 4, 4), (1, 1, 5, 4)), 19),
    "Einsum": Case('Einsum<equation = "ij,jk->ik">(x, w[3,4])', (2, 3), ((2, 4),)),
    "Expand": Case("Expand(x, i{2,3})", (2, 1), ((3, 1),)),
    "GRU": Case("GRU<hidden_size = 2>(x, w[1,6,3], w[1,6,2])", (4, 1, 3), ((4, 1, 2),)),
    "Gather": Case("Gather(x, i{0,4})", (5, 2), ((4, 2),)),
    "GatherElements": Case("GatherElements(x, i{0,4})", (5,), ((4,),)),
    "GatherND": Case("GatherND(x, i{0,4})", (1, 5), ((1, 4),)),
    "Gemm": Case("Gemm(x, w[3,4], w[4])", (2, 3), ((2, 4),)),
    "GroupNormalization": Case("GroupNormalization<num_groups = 2>(x, w[4], w[4])", (1, 4, 3), ((1, 5, 3), (1, 6, 3)), 21),
    "InstanceNormalization": Case("InstanceNormalization(x, w[3], w[3])", (2, 3, 4), ((2, 4, 4),)),
    "LSTM": Case("LSTM<hidden_size = 2>(x, w[1,8,3], w[1,8,2])", (4, 1, 3), ((4, 1, 2),)),
    "LayerNormalization": Case("LayerNormalization(x, w[3])", (2, 3), ((2, 4),), 17),
    "MatMul": Case("MatMul(x, w[3,4])", (2, 3), ((2, 4),)),
    "MaxPool": Case("MaxPool<kernel_shape = [3]>(x)", (1, 1, 3), ((1, 1, 1),)),
    "PRelu": Case("PRelu(x, w[3])", (2, 3), ((2, 4),)),
    "Pad": Case("Pad(x, i{-2,-2})", (5,), ((3,),)),
    "Pad of reflect": Case('Pad<mode = "reflect">(x, i{0,2,0,-1})', (2, 4), ((2, 3), (2, 0))),
    "RNN": Case("RNN<hidden_size = 2>(x, w[1,2,3], w[1,2,2])", (4, 1, 3), ((4, 1, 2),)),
    "Reshape": Case("Reshape(x, i{2,3})", (6,), ((7,),)),
    "ReverseSequence": Case("ReverseSequence(x, i{4})", (4, 1), ((3, 1), (4, 2))),
    "RoiAlign": Case("RoiAlign(x, w[2,4], i{0,1})", (2, 1, 4, 4), ((1, 1, 4, 4),), 16),
    "STFT": Case("STFT(x, s{2}, , s{4})", (1, 8, 1), ((1, 3, 1),), 17),
    "ScatterElements": Case("ScatterElements(x, i{0,4}, w[2])", (5,), ((4,),), 18),
    "ScatterND": Case("ScatterND(x, rows{0,4}, w[2])", (5,), ((4,),), 18),
    "SpaceToDepth": Case("SpaceToDepth<blocksize = 2>(x)", (1, 1, 4, 4), ((1, 1, 4, 5),)),
    "DepthToSpace": Case("DepthToSpace<blocksize = 2>(x)", (1, 4, 2, 2), ((1, 5, 2, 2),)),
    "Split": Case("Split(x, i{2,3})", (5,), ((4,),)),
    "Squeeze": Case("Squeeze(x, i{0})", (1, 3), ((2, 3),)),
    "TopK": Case("TopK(x, i{3})", (2, 3), ((2, 2),)),
    "Where": Case("Where(b[3], x, w[3])", (2, 3), ((2, 4),)),
    "Scaler": Case("ai.onnx.ml.Scaler<offset = [1.0, 2.0], scale = [1.0, 2.0]>(x)", (2, 2), ((2, 3),)),
    "LinearRegressor": Case("ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0], intercepts = [0.0]>(x)", (2, 2), ((2, 3),)),
    "MatMulNBits": Case("com.microsoft.MatMulNBits<K = 16, N = 1, bits = 4, block_size = 16>(x, w[1,1,8], w[1])", (2, 16), ((2, 17),)),
    "ArrayFeatureExtractor": Case("ai.onnx.ml.ArrayFeatureExtractor(x, i{0,4})", (2, 5), ((2, 4),)),
    "BiasGelu": Case("com.microsoft.BiasGelu(x, w[3])", (2, 3), ((2, 4),)),
    "FastGelu": Case("com.microsoft.FastGelu(x, w[3])", (2, 3), ((2, 4),)),
    "SkipLayerNormalization": Case("com.microsoft.SkipLayerNormalization(x, x, w[3])", (1, 2, 3), ((1, 2, 4),)),
    "SkipSimplifiedLayerNormalization": Case("com.microsoft.SkipSimplifiedLayerNormalization(x, x, w[3])", (1, 2, 3), ((1, 2, 4),)),
    "FusedMatMul": Case("com.microsoft.FusedMatMul<transB = 1>(x, w[4,3])", (2, 3), ((2, 4),)),
}  # fmt: skip
GROUPS = {
    "broadcasts like Add": (
        "And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual"
        " Less LessOrEqual Mod Mul Or Pow StringConcat Sub Xor"
    ),
    "takes any sizes; its other inputs are numbers, limits, axes or a like value": (
        "CastLike Clip Compress CumProd CumSum Dropout MelWeightMatrix OneHot Range Slice"
        " Tile Trilu Unsqueeze ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax"
        " ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare CenterCropPad DFT"
    ),
    "passes values to a graph or a list": (
        "Loop SequenceAt SequenceErase SequenceInsert SequenceMap SplitToSequence"
    ),
    "inference or a rule in tests/author/test_flaws.py compares its sizes": (
        "AffineGrid Attention CausalConvWithState Col2Im DequantizeLinear GridSample"
        " LinearAttention MatMulInteger MaxRoiPool MaxUnpool NegativeLogLikelihoodLoss"
        " NonMaxSuppression QLinearConv QLinearMatMul QuantizeLinear RMSNormalization"
        " Resize RotaryEmbedding Scatter SoftmaxCrossEntropyLoss SwiGLU TensorScatter"
        " Upsample"
    ),
}
ELSEWHERE = {op: why for why, ops in GROUPS.items() for op in ops.split()}
INTEGERS = re.compile(r"(i|s|rows)\{([-\d,]+)\}")
WEIGHTS = re.compile(r"\b(w|b)\[([\d,]+)\]")


def network(case: Case, shape: tuple[int | str, ...]) -> ModelProto:
    """A model with the node of a case, whose input has a shape."""
    constants: list[str] = []

    def integers(found: re.Match[str]) -> str:
        kind, numbers = found.group(1), found.group(2)
        count = numbers.count(",") + 1
        dims = {"s": "", "rows": f"[{count},1]", "i": f"[{count}]"}[kind]
        if "GatherND" in case.node:
            dims = "[1,2]"
        constants.append(f"int64{dims} c{len(constants)} = {{{numbers}}}")
        return f"c{len(constants) - 1}"

    def weights(found: re.Match[str]) -> str:
        kind = "bool" if found.group(1) == "b" else "float"
        count = int(np.prod([int(word) for word in found.group(2).split(",")]))
        bytes_ = "ConvInteger" in case.node or found.group(2) == "1,1,8"
        element = "uint8" if bytes_ else kind
        numbers = ", ".join(["1"] * count)
        constants.append(f"{element}[{found.group(2)}] c{len(constants)} = {{{numbers}}}")
        return f"c{len(constants) - 1}"

    node = WEIGHTS.sub(weights, INTEGERS.sub(integers, case.node))
    kind = "uint8" if "ConvInteger" in node else "float"
    result = "int32" if kind == "uint8" else "float"
    outputs = "y, z" if "TopK" in node or "Split" in node else "y"
    imports = f'"" : {case.opset}, "ai.onnx.ml" : 3, "com.microsoft" : 1'
    given = f"<{', '.join(constants)}>" if constants else ""
    proto = parse_model(
        f"<ir_version: 8, opset_import: [{imports}]> g ({kind}[{','.join(map(str, shape))}] x)"
        f" => ({result} y) {given} {{ {outputs} = {node} }}"
    )
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def free(case: Case) -> ModelProto:
    return network(case, tuple(f"N{axis}" for axis in range(len(case.good))))


def runs(model: ModelProto, shape: tuple[int, ...]) -> bool:
    kinds = {TensorProto.UINT8: np.uint8, TensorProto.FLOAT: np.float32}
    kind = kinds[model.graph.input[0].type.tensor_type.elem_type]
    try:
        session = runtime.InferenceSession(model.SerializeToString())
        session.run(None, {"x": np.ones(shape, kind)})
    except Exception:  # the classes of onnxruntime have no common base
        return False
    return True


def too_new(case: Case) -> bool:
    return onnx.defs.onnx_opset_version() < case.opset


@pytest.mark.parametrize("op", CASES)
def test_a_shape_that_fits_gives_a_model_that_runs(op):
    case = CASES[op]
    if too_new(case):
        pytest.skip("the installed onnx lacks the operator")
    assert runs(free(case), case.good)
    fixed = convert(free(case), shape={"x": case.good})
    assert runs(fixed.model, case.good)
    assert not [note for note in fixed.report.notes if "cannot compute" in note]


@pytest.mark.parametrize("op", CASES)
def test_a_shape_that_contradicts_the_node_is_refused_with_its_name(op):
    case = CASES[op]
    if too_new(case):
        pytest.skip("the installed onnx lacks the operator")
    for shape in case.bad:
        assert not runs(free(case), shape), shape
        with pytest.raises(
            BadTarget, match=rf"^{op.split()[0]} 'y' cannot compute with these sizes: "
        ):
            convert(free(case), shape={"x": shape})


def test_every_operator_of_several_inputs_has_a_case_or_a_reason():
    several = {
        op
        for op in schemas.operators("")
        if (known := schemas.history("", op)) and len(known[-1].inputs) > 1
    }
    assert several - CASES.keys() - ELSEWHERE.keys() == set()
    if (schemas.latest("") or 0) >= 28:  # an older onnx lacks some of them
        assert ELSEWHERE.keys() <= several


def test_an_index_that_follows_from_the_size_is_compared():
    text = (
        "(float[1,N] x) => (float[a,2] y) <float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}>"
        " { s = Shape(x) i = Constant<value = int64 {1}>() n = Gather(s, i)"
        " z = Constant<value = int64 {0}>() r = Range(z, n, i) y = Gather(w, r) }"
    )
    model = parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {text}')
    assert convert(model, dim={"N": 4}).report.changed
    with pytest.raises(BadTarget, match=r"Gather 'y' cannot .* the index 4 is outside of axis 0"):
        convert(model, dim={"N": 5})


def test_the_first_node_of_a_chain_is_named():
    """Like the extractor of a speech model: each window halves the signal."""
    nodes = " ".join(f"x{at + 1} = Conv<strides = [2]>(x{at}, w)" for at in range(4))
    text = f"(float[1,1,N] x0) => (float[1,1,m] y) <float[1,1,3] w = {{1, 1, 1}}> {{ {nodes} y = Relu(x4) }}"
    model = parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {text}')
    assert convert(model, dim={"N": 31}).report.changed
    with pytest.raises(BadTarget, match=r"^Conv 'x3' cannot compute"):
        convert(model, dim={"N": 8})


def test_a_list_of_sizes_behind_other_nodes_is_known():
    text = (
        "(float[N] x) => (float[a,b] y) { k = Constant<value = int64[2] {2, 3}>() i = Identity(k)"
        " z = Reshape(x, i) y = Neg(z) }"
    )
    model = parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {text}')
    converted = convert(model, dim={"N": 6}).model
    assert [dim.dim_value for dim in converted.graph.output[0].type.tensor_type.shape.dim] == [2, 3]
    with pytest.raises(BadTarget, match=r"^Reshape 'z' cannot compute .* 7 elements to 6"):
        convert(model, dim={"N": 7})


IN_A_BRANCH = (
    "(float[N] x, bool c) => (float[a] y) { k = Constant<value = int64[1] {3}>()"
    " y = If (c) <then_branch = t () => (float[p] p) { p = Gather(x, k) },"
    " else_branch = e () => (float[q] q) { q = Neg(x) }> }"
)


def test_a_node_that_may_never_run_is_noted_and_not_refused():
    model = parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {IN_A_BRANCH}')
    fixed = convert(model, dim={"N": 3})
    (note,) = [note for note in fixed.report.notes if "cannot compute" in note]
    assert note.startswith(
        "in a subgraph that may never run, Gather 'p' cannot compute with these sizes: the index 3"
    )
    session = runtime.InferenceSession(fixed.model.SerializeToString())
    (y,) = session.run(None, {"x": np.ones(3, np.float32), "c": np.array(False)})
    assert y.tolist() == [-1, -1, -1]


def test_a_node_whose_result_is_only_measured_is_judged_before_it_is_folded():
    text = (
        "(float[N] x) => (int64[2] s) { k = Constant<value = int64[2] {2, 3}>() z = Reshape(x, k)"
        " s = Shape(z) }"
    )
    model = parse_model(f'<ir_version: 8, opset_import: ["" : 13]> g {text}')
    with pytest.raises(BadTarget, match=r"^Reshape 'z' cannot compute with these sizes: "):
        convert(model, dim={"N": 7})


LINEAR = "LinearRegressor<coefficients = [1.0, 2.0], intercepts = [0.0]>"
SUPPORT = (
    'SVMRegressor<coefficients = [1.0], kernel_params = [1.0, 0.0, 3.0], kernel_type = "RBF",'
    " n_supports = 1, rho = [0.0], support_vectors = [1.0, 2.0]>"
)


@pytest.mark.parametrize("after", [LINEAR, SUPPORT])
@pytest.mark.parametrize(
    "before",
    [
        "Scaler<offset = [0.0], scale = [1.0]>",
        "Imputer<imputed_value_floats = [0.0]>",
        'Normalizer<norm = "L2">',
    ],
)
def test_features_behind_an_operator_without_inference_are_counted(before, after):
    model = parse_model(
        '<ir_version: 8, opset_import: ["" : 13, "ai.onnx.ml" : 3]> g (float[N,F] x)'
        f" => (float[a,b] y) {{ z = ai.onnx.ml.{before}(x) y = ai.onnx.ml.{after}(z) }}"
    )
    assert runs(convert(model, shape={"x": (3, 2)}).model, (3, 2))
    with pytest.raises(BadTarget, match=r"Regressor 'y' cannot compute with these sizes: "):
        convert(model, shape={"x": (2, 3)})


@pytest.mark.parametrize("op", ["FastGelu", "Gelu", "QuickGelu", "Trilu"])
def test_the_reader_of_an_operator_of_com_microsoft_is_refused(op):
    case = Case(f"com.microsoft.{op}(x)", (3, 3), ())
    source = network(case, ("N", "M"))
    weight = onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    source.graph.initializer.append(weight)
    source.graph.node.append(onnx.helper.make_node("MatMul", ["y", "w"], ["z"]))
    source.graph.output[0].name = "z"
    assert runs(source, case.good)
    assert convert(source, shape={"x": case.good}).report.result
    assert not runs(source, (3, 4))
    with pytest.raises(BadTarget, match="MatMul"):
        convert(source, shape={"x": (3, 4)})


def test_a_length_that_only_runtimes_compute_stays_declared():
    source = parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[1,2,5,6] x) => (float[1,2,9,7] y)'
        " <float[4] s = {1, 1, 1.8, 1.1666666}>"
        ' { z = Resize<mode = "nearest">(x, "", s) y = Neg(z) }'
    )
    for target in (13, "onnxruntime==1.10"):
        result = convert(source, target).model
        session = runtime.InferenceSession(result.SerializeToString())
        (y,) = session.run(None, {"x": np.zeros((1, 2, 5, 6), np.float32)})
        declared = [dim.dim_value for dim in result.graph.output[0].type.tensor_type.shape.dim]
        assert declared == list(y.shape) == [1, 2, 9, 7]
