# SPDX-License-Identifier: Apache-2.0
"""Old meanings of operators, with numbers from the specification, and nested scopes."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, parser
from opshift.verify.oracle import OracleError, compare, evaluate, make_inputs


def model(text: str, opset: int = 0, ir: int = 10, ml: int = 5) -> ModelProto:
    """Parses a model from the body of a graph, or from a text with a header."""
    if text.lstrip().startswith("<"):
        return parser.parse_model(text)
    imports = f'"" : {opset}, "ai.onnx.ml" : {ml}'
    return parser.parse_model(f"<ir_version: {ir}, opset_import: [{imports}]> g {text}")


def run(text: str, opset: int, **inputs: Any) -> list[Any]:
    """Returns the outputs of a model in text form for inputs of any Python type."""
    parsed = model(text, opset)
    return evaluate(parsed, make_inputs(parsed, overrides=inputs))


# --- legacy semantics, numbers from the text

A234 = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("b", "axis", "shape"),
    [
        (5.0, None, ()),
        ([5.0], None, (1,)),
        ([[5.0]], None, (1, 1)),
        ([1, 2, 3, 4], None, (4,)),
        (np.ones((3, 4)), None, (3, 4)),
        ([10, 20], 0, (2, 1, 1)),
        ([1, 2, 3], 1, (3, 1)),
        (np.arange(6).reshape(2, 3), 0, (2, 3, 1)),
    ],
)
def test_limited_broadcasting(b: Any, axis: int | None, shape: tuple[int, ...]) -> None:
    b = np.asarray(b, dtype=np.float32)
    attributes = "broadcast = 1" + (f", axis = {axis}" if axis is not None else "")
    text = f"(float[2,3,4] a, float{list(b.shape)} b) => (float[2,3,4] c)"
    text = text.replace("float[] b", "float b")
    (c,) = run(f"{text} {{ c = Sub<{attributes}>(a, b) }}", 6, a=A234, b=b)
    assert compare([A234 - b.reshape(shape)], [c]) is None


@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [
        ("[4]", ""),
        ("[1,4]", "<broadcast = 1>"),
        ("[3,1]", "<broadcast = 1>"),
        ("[3]", "<broadcast = 1>"),
        ("[3]", "<broadcast = 1, axis = 2>"),
        ("[4]", "<broadcast = 1, axis = -1>"),
        ("[2,3,4,5]", "<broadcast = 1>"),
        ("[2,3,4]", "<axis = 0>"),
    ],
)
def test_limited_broadcasting_rejects(sizes: str, attributes: str) -> None:
    text = f"(float[2,3,4] a, float{sizes} b) => (float[2,3,4] c) {{ c = Add{attributes}(a, b) }}"
    with pytest.raises(OracleError):
        run(text, 6)


LEGACY = {
    "concat without axis": (
        "(float[1,2] a, float[1,1] b) => (float[1,3] c) { c = Concat(a, b) }",
        3,
        {"a": [[1, 2]], "b": [[3]]},
        [[1, 2, 3]],
    ),
    "reshape by attribute": (
        "(float[2,3] x) => (float[2,3,1] y) { y = Reshape<shape = [0, -1, 1]>(x) }",
        1,
        {"x": [[1, 2, 3], [4, 5, 6]]},
        [[[1], [2], [3]], [[4], [5], [6]]],
    ),
    "tile one axis": (
        "(float[2] x, float[1] n, float[1] axis) => (float[4] y) { y = Tile(x, n, axis) }",
        1,
        {"x": [1, 2], "n": [2], "axis": [0]},
        [1, 2, 1, 2],
    ),
    "cast to a name": (
        '(float[2] x) => (int32[2] y) { y = Cast<to = "INT32">(x) }',
        5,
        {"x": [1.5, -1.5]},
        [1, -1],
    ),
    "pad by attribute, cropping": (
        "(float[1,3] x) => (float[2,2] y) { y = Pad<pads = [1,-1,0,0], value = 7.0>(x) }",
        2,
        {"x": [[1, 2, 3]]},
        [[7, 7], [2, 3]],
    ),
    "pad by paddings": (
        "(float[2] x) => (float[5] y) { y = Pad<paddings = [1, 2]>(x) }",
        1,
        {"x": [1, 2]},
        [0, 1, 2, 0, 0],
    ),
    "slice clamps": (
        "(float[2,4] x) => (float[1,3] y) { y = Slice<starts = [1, -1000], ends = [9, -1]>(x) }",
        9,
        {"x": [[1, 2, 3, 4], [5, 6, 7, 8]]},
        [[5, 6, 7]],
    ),
    "softmax over all that follows": (
        "(float[1,2,2] x) => (float[1,2,2] y) { y = Softmax(x) }",
        11,
        {"x": [[[0, 0], [0, 0]]]},
        [[[0.25, 0.25], [0.25, 0.25]]],
    ),
    "hardmax over all that follows": (
        "(float[1,2,2] x) => (float[1,2,2] y) { y = Hardmax(x) }",
        11,
        {"x": [[[0, 2], [2, 1]]]},
        [[[0, 1], [0, 0]]],
    ),
    "clip without bounds keeps infinity at 1": (
        "(float[2] x) => (float[2] y) { y = Clip<min = 0.0>(x) }",
        5,
        {"x": [-1, np.inf]},
        [0, np.inf],
    ),
    "clip stops at the largest float at 6": (
        "(float[2] x) => (float[2] y) { y = Clip<min = 0.0>(x) }",
        6,
        {"x": [-1, np.inf]},
        [0, 3.4028234663852886e38],
    ),
    "upsample nearest": (
        "(float[1,1,1,2] x) => (float[1,1,2,4] y)"
        " { y = Upsample<height_scale = 2.0, width_scale = 2.0>(x) }",
        1,
        {"x": [[[[1, 2]]]]},
        [[[[1, 1, 2, 2], [1, 1, 2, 2]]]],
    ),
    "upsample linear is asymmetric": (
        "(float[1,1,1,2] x) => (float[1,1,1,4] y)"
        ' { y = Upsample<mode = "linear", scales = [1.0, 1.0, 1.0, 2.0]>(x) }',
        8,
        {"x": [[[[1, 3]]]]},
        [[[[1, 2, 3, 3]]]],
    ),
    "upsample linear rounds integers": (
        "(int32[1,1,1,2] x) => (int32[1,1,1,4] y)"
        ' { y = Upsample<mode = "linear", scales = [1.0, 1.0, 1.0, 2.0]>(x) }',
        8,
        {"x": [[[[-2, 5]]]]},
        [[[[-2, 2, 5, 5]]]],
    ),
    "an end before the first axis gives no sizes": (
        "(float[4,5] x) => (int64[0] y) { y = Shape<end = -3>(x) }",
        15,
        {"x": np.zeros((4, 5))},
        [],
    ),
    "resize 10 rounds up when shrinking": (
        "(float[4] x, float[1] s) => (float[2] y) { y = Resize(x, s) }",
        10,
        {"x": [1, 2, 3, 4], "s": [0.6]},
        [1, 3],
    ),
    "one-hot of a negative index is off": (
        "(int64[2] i, int64 d, float[2] v) => (float[2,3] y) { y = OneHot(i, d, v) }",
        9,
        {"i": [1, -1], "d": 3, "v": [0, 5]},
        [[0, 5, 0], [0, 0, 0]],
    ),
    "one-hot wraps from 11": (
        "(int64[2] i, int64 d, float[2] v) => (float[2,3] y) { y = OneHot(i, d, v) }",
        11,
        {"i": [1, -1], "d": 3, "v": [0, 5]},
        [[0, 5, 0], [0, 0, 5]],
    ),
    "slope per channel": (
        "(float[1,2,2] x, float[2] s) => (float[1,2,2] y) { y = PRelu(x, s) }",
        6,
        {"x": [[[-1, 1], [-1, -2]]], "s": [2, 3]},
        [[[-2, 1], [-3, -6]]],
    ),
    "selu of version 1": (
        "(float[1] x) => (float[1] y) { y = Selu(x) }",
        5,
        {"x": [1]},
        [1.0506999492645264],
    ),
    "dropout is the identity in tests": (
        "(float[2] x) => (float[2] y) { y = Dropout<is_test = 1, ratio = 0.9>(x) }",
        6,
        {"x": [1, 2]},
        [1, 2],
    ),
    "an empty list of axes means all": (
        "(float[2,2] x) => (float y) { y = ReduceSum<keepdims = 0, axes: ints = []>(x) }",
        11,
        {"x": [[1, 2], [3, 4]]},
        10,
    ),
    "integers divide toward zero": (
        "(int32[2] a, int32[2] b) => (int32[2] c) { c = Div(a, b) }",
        6,
        {"a": [-7, 7], "b": [2, -2]},
        [-3, -3],
    ),
    "pooling with p": (
        "(float[1,1,2] x) => (float[1,1,1] y) { y = LpPool<kernel_shape = [2], p = 2.0>(x) }",
        1,
        {"x": [[[3, 4]]]},
        [[[5]]],
    ),
    "a global maximum of three axes": (
        "(float[2,1,2] x) => (float[2,1,1] y) { y = GlobalMaxPool(x) }",
        1,
        {"x": [[[3, 4]], [[2, -1]]]},
        [[[4]], [[2]]],
    ),
    "group scale per group": (
        "(float[1,2,2] x, float[2] s, float[2] b) => (float[1,2,2] y)"
        " { y = GroupNormalization<num_groups = 2, epsilon = 0.0>(x, s, b) }",
        18,
        {"x": [[[1, 3], [5, 9]]], "s": [1, 2], "b": [0, 1]},
        [[[-1, 1], [-1, 3]]],
    ),
    "labels of version 1": (
        "(string[3] x) => (int64[3] y)"
        ' { y = ai.onnx.ml.LabelEncoder<classes_strings = ["a", "b"]>(x) }',
        13,
        {"x": ["b", "a", "z"]},
        [1, 0, -1],
    ),
    "the top one of two classes": (
        "(float[2,1] x) => (int64[2] y) { y, z = ai.onnx.ml.TreeEnsembleClassifier<classlabels_int64s"
        ' = [7, 8], nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_modes = ["BRANCH_LEQ",'
        ' "LEAF", "LEAF"], nodes_featureids = [0, 0, 0], nodes_values = [0.0, 0.0, 0.0],'
        " nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], class_treeids = [0, 0, 0, 0],"
        " class_nodeids = [1, 1, 2, 2], class_ids = [0, 1, 0, 1],"
        " class_weights = [0.9, 0.2, 0.3, 0.4]>(x) }",
        13,
        {"x": [[0], [1]]},
        [7, 8],
    ),
}


@pytest.mark.parametrize("name", LEGACY)
def test_legacy(name: str) -> None:
    text, opset, inputs, expected = LEGACY[name]
    parsed = model(text, opset, ml=1)
    (y,) = evaluate(parsed, make_inputs(parsed, overrides=inputs))
    assert compare([np.asarray(expected, dtype=y.dtype)], [y]) is None


BN = "(float[2,1] x, float[1] s, float[1] b, float[1] m, float[1] v) =>"
TRAINING = "epsilon = 0.0, momentum = 0.5"
BN_INPUTS = {"x": [[1], [3]], "s": [2], "b": [1], "m": [0], "v": [1]}


@pytest.mark.parametrize(
    ("opset", "outputs", "attributes", "expected"),
    [
        (6, "y", "is_test = 1, epsilon = 0.0", [[[3], [7]]]),
        (6, "y", "epsilon = 0.0", [[[-1], [3]]]),
        (7, "y", "epsilon = 0.0", [[[3], [7]]]),
        (9, "y, rm, rv", TRAINING, [[[-1], [3]], [1], [1]]),
        (14, "y", "epsilon = 0.0", [[[3], [7]]]),
        (
            15,
            "y, rm, rv",
            f"{TRAINING}, training_mode = 1",
            [[[-1], [3]], [1], [1]],
        ),
    ],
)
def test_batch_normalization(
    opset: int, outputs: str, attributes: str, expected: list[Any]
) -> None:
    shapes = {"y": "float[2,1] y", "rm": "float[1] rm", "rv": "float[1] rv"}
    declared = ", ".join(shapes[name] for name in outputs.split(", "))
    text = f"{BN} ({declared}) {{ {outputs} = BatchNormalization<{attributes}>(x, s, b, m, v) }}"
    done = run(text, opset, **BN_INPUTS)
    assert compare([np.array(e, dtype=np.float32) for e in expected], done) is None


def test_scan_8_has_a_batch_and_lengths() -> None:
    body = "body = b (float[1] s, float[1] e) => (float[1] t, float[1] o)"
    body += " { t = Add(s, e) o = Identity(t) }"
    text = "(int64[2] n, float[2,1] s, float[2,3,1] x) => (float[2,1] t, float[2,3,1] y)"
    text += f" {{ t, y = Scan<num_scan_inputs = 1, {body}>(n, s, x) }}"
    x = [[[1], [2], [3]], [[4], [5], [6]]]
    final, stacked = run(text, 8, n=[3, 2], s=[[0], [10]], x=x)
    assert final.tolist() == [[6], [19]]
    assert stacked[:, :2].tolist() == [[[1], [3]], [[14], [19]]]


# --- what an old version forbids


MINUS_ONE = "i = Constant<value = int64[1] {-1}>()"


@pytest.mark.parametrize(
    ("opset", "text"),
    [
        (6, "(int32[2] x) => (int32[2] y) { y = Relu(x) }"),
        (12, "(bfloat16[2] x) => (bfloat16[2] y) { y = Abs(x) }"),
        (13, "(float[2] a, double[2] b) => (float[2] y) { y = Add(a, b) }"),
        (13, "(float[2] x) => (float[2] y) { y = Relu<alpha = 1.0>(x) }"),
        (13, "(float[2] x) => (float[2] y) { y = LeakyRelu<alpha = 1>(x) }"),
        (13, "(float[2] x) => (float[2] y) { y = Relu(x, x) }"),
        (13, "(float[2] x) => (float[2] y) { y = Add(x) }"),
        (13, "(float[2] x) => (float[2] y) { y = Gelu(x) }"),
        (10, "(float[2,2] x) => (float[2,2] y) { y = Softmax<axis = -1>(x) }"),
        (7, "(float[2] a, float[1] b) => (float[2] y) { y = Max(a, b) }"),
        (10, f"(float[2] x) => (float[1] y) {{ {MINUS_ONE} y = Gather(x, i) }}"),
        (10, "(float[1,1,2,2] x, float[4] s) => (float[1,1,2,2] y) { y = Upsample(x, s) }"),
        (13, "(float[2] x) => (double[2] y) { y = Relu(x) }"),
        (13, "(float[2] x) => (float[2] y) { z = Relu(x) z = Abs(x) y = Neg(z) }"),
        (13, "(float[2] x) => (float[2] y) { y = Neg(z) }"),
        (13, "(float[2] x) => (float[2] y) { y = other.Neg(x) }"),
        (13, "(float[3] x) => (float[2] y, float[1] z) { y, z = Split(x) }"),
        (27, "(float[2] a, float[2] b) => (float[2] y) { y = Mod(a, b) }"),
    ],
)
def test_forbidden(opset: int, text: str) -> None:
    with pytest.raises(OracleError):
        run(text, opset)


# --- scopes


def test_branches_see_the_outer_scope_and_their_own_opset_rules() -> None:
    then = "then_branch = t () => (float[1,2,2] a) { a = Softmax(x) }"
    other = "else_branch = e () => (float[1,2,2] a) { a = Neg(x) }"
    text = f"(bool c, float[1,2,2] x) => (float[1,2,2] y) {{ y = If<{then}, {other}>(c) }}"
    x = [[[0, 0], [0, 0]]]
    assert run(text, 11, c=True, x=x)[0].ravel().tolist() == [0.25] * 4
    assert run(text, 13, c=True, x=x)[0].ravel().tolist() == [0.5] * 4
    assert run(text, 13, c=False, x=[[[1, 2], [3, 4]]])[0].ravel().tolist() == [-1, -2, -3, -4]


def test_loop_collects_scalars_and_stops_on_its_condition() -> None:
    body = (
        "body = b (int64 i, bool go, float s) => (bool more, float t, float o)"
        " { t = Add(s, step) more = Less(t, limit) o = Identity(t) }"
    )
    text = "(int64 n, bool go, float s, float step, float limit) => (float t, float[k] y)"
    text += f" {{ t, y = Loop<{body}>(n, go, s) }}"
    final, stacked = run(text, 13, n=10, go=True, s=0, step=2, limit=5)
    assert final == 6
    assert stacked.tolist() == [2, 4, 6]
    final, stacked = run(text, 13, n=0, go=True, s=1, step=2, limit=5)
    assert final == 1
    assert stacked.shape == (0,)


def test_scan_moves_axes_and_turns_directions() -> None:
    body = "body = b (float[2] e) => (float[2] o) { o = Identity(e) }"
    flags = "num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1]"
    flags += ", scan_output_axes = [-1]"
    text = f"(float[2,3] x) => (float[2,3] y) {{ y = Scan<{flags}, {body}>(x) }}"
    assert run(text, 11, x=[[1, 2, 3], [4, 5, 6]])[0].tolist() == [[3, 2, 1], [6, 5, 4]]
    with pytest.raises(OracleError):
        run(text, 9)


def test_functions_have_their_own_imports_and_attributes() -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 14, "own" : 1]>
    g (float[1,2,2] x) => (float[1,2,2] y, float[1,2,2] z) { y = own.f<k = 2.0>(x) z = own.f(x) }
    <domain: "own", opset_import: ["" : 12]>
    f <k: float = 4.0> (a) => (b) {
        s = Softmax(a) c = Constant<value_float: float = @k>() b = Mul(s, c)
    }
    """
    y, z = evaluate(model(text), {"x": np.zeros((1, 2, 2), np.float32)})
    assert y.ravel().tolist() == [0.5] * 4
    assert z.ravel().tolist() == [1.0] * 4


def test_a_function_that_shadows_an_operator_is_not_that_operator() -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 14]>
    g (float[1] x) => (float[1] y) { y = Relu(x) }
    <domain: "", opset_import: ["" : 14]>
    Relu (a) => (b) { b = Neg(a) }
    """
    assert evaluate(model(text), {"x": np.ones(1, np.float32)})[0].tolist() == [-1]


def test_initializers_may_be_overridden_or_not() -> None:
    parsed = model(
        "(float[1] x, float[1] w) => (float[1] y) <float[1] w = {5}> { y = Add(x, w) }", 13
    )
    x = np.ones(1, np.float32)
    assert evaluate(parsed, {"x": x})[0].tolist() == [6]
    assert evaluate(parsed, {"x": x, "w": x})[0].tolist() == [2]
    with pytest.raises(OracleError):
        evaluate(parsed, {})
    with pytest.raises(OracleError):
        evaluate(parsed, {"x": x, "unknown": x})


def test_sparse_initializers_are_spelled_out() -> None:
    parsed = model("(float[2,2] x) => (float[2,2] y) { y = Add(x, w) }", 13)
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [5, 6])
    for dims, indices in (([2], [1, 2]), ([2, 2], [0, 1, 1, 0])):
        del parsed.graph.sparse_initializer[:]
        index = helper.make_tensor("i", TensorProto.INT64, dims, indices)
        parsed.graph.sparse_initializer.append(helper.make_sparse_tensor(values, index, [2, 2]))
        found = evaluate(parsed, {"x": np.zeros((2, 2), np.float32)})[0]
        assert found.tolist() == [[0, 5], [6, 0]]


def test_draws_depend_on_seed_and_shape_not_on_the_operator() -> None:
    old = model(
        "(float[50] p) => (float[50] y)"
        " { u = RandomUniformLike<dtype = 1>(p) l = Less(u, p) y = Cast<to = 1>(l) }",
        14,
    )
    new = model("(float[50] p) => (float[50] y) { y = Bernoulli(p) }", 15)
    p = {"p": np.linspace(0, 1, 50, dtype=np.float32)}
    assert compare(evaluate(old, p), evaluate(new, p)) is None
    assert compare(evaluate(new, p), evaluate(new, p, seed=1)) is not None


@pytest.mark.parametrize(("place", "found"), [(-2, "cab"), (-1, "acb"), (0, "cab"), (2, "abc")])
def test_a_sequence_grows_where_it_is_told(place: int, found: str) -> None:
    parsed = model(
        "(string[1] a, string[1] b, string[1] c, int64 p) => (string[3] y)"
        " { s = SequenceConstruct(a, b) t = SequenceInsert(s, c, p) y = ConcatFromSequence<axis=0>(t) }",
        13,
    )
    given = {x: np.array([x], dtype=object) for x in "abc"} | {"p": np.array(place)}
    assert "".join(evaluate(parsed, given)[0]) == found


def test_moved_taps_outside_count_as_zero_where_an_axis_has_one_element() -> None:
    parsed = model(
        "(double[1,1,1,2] x, double[1,1,1,1] w, double[1,2,1,2] o) => (double[1,1,1,2] y)"
        " { y = DeformConv(x, w, o) }",
        19,
    )
    given = {"x": [[[[4.0, 8.0]]]], "w": [[[[0.5]]]], "o": [[[[0.5, 0.0]], [[0.0, -0.25]]]]}
    found = evaluate(parsed, {k: np.array(v) for k, v in given.items()})[0]
    assert found.tolist() == [[[[1.0, 3.5]]]]


def test_the_newest_max_roi_pool_is_the_first_one() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    rois = np.array([[0, 0, 0, 2, 2]], np.float32)
    text = "(float[1,1,4,4] x, float[1,5] r) => (float[1,1,1,1] y) { y = MaxRoiPool<pooled_shape=[1,1]>(x, r) }"
    for opset in (1, 22):
        assert evaluate(model(text, opset), {"x": x, "r": rois})[0].tolist() == [[[[10.0]]]]


def test_words_are_padded_with_the_empty_one() -> None:
    parsed = model("(string[1] x, int64[1] s) => (string[3] y) { y = CenterCropPad(x, s) }", 18)
    found = evaluate(parsed, {"x": np.array(["a"], dtype=object), "s": np.array([3])})[0]
    assert found.tolist() == ["", "a", ""]


def test_softsign_of_a_scalar() -> None:
    (y,) = run("(float x) => (float y) { y = Softsign(x) }", 13, x=np.float32(-3))
    assert (y.shape, y.item()) == ((), -0.75)


ROUND = {
    "TreeEnsembleRegressor": (
        'n_targets = 1, nodes_treeids = [0], nodes_nodeids = [0], nodes_modes = ["BRANCH_LEQ"],'
        " nodes_featureids = [0], nodes_values = [0.0], nodes_truenodeids = [0],"
        " nodes_falsenodeids = [0], target_treeids = [0], target_nodeids = [0], target_ids = [0],"
        " target_weights = [1.0]"
    ),
    "TreeEnsemble": (
        "n_targets = 1, tree_roots = [0], nodes_featureids = [0], nodes_modes = uint8[1] {0},"
        " nodes_splits = float[1] {0.0}, nodes_truenodeids = [0], nodes_falsenodeids = [0],"
        " nodes_trueleafs = [0], nodes_falseleafs = [0], leaf_targetids = [0],"
        " leaf_weights = float[1] {1.0}"
    ),
}


@pytest.mark.parametrize("op", ROUND)
def test_a_tree_that_never_ends_is_not_walked_for_ever(op: str) -> None:
    text = f"(float[1,1] x) => (float[1,1] y) {{ y = ai.onnx.ml.{op}<{ROUND[op]}>(x) }}"
    parsed = model(text, 21, ml=5 if op == "TreeEnsemble" else 3)
    with pytest.raises(OracleError, match="cycle"):
        evaluate(parsed, make_inputs(parsed))


def test_a_function_reads_an_input_that_the_call_omits_as_absent() -> None:
    text = """<ir_version: 9, opset_import: ["" : 21, "m" : 1]>
    g (float[2] x, bool c) => (float[2] y, float[2] z) { y = m.F(x, "", c) z = m.F(x, x, c) }
    <domain: "m", opset_import: ["" : 21]> F (a, high, c) => (b) {
      b = If(c) <then_branch = g () => (t) { t = Clip(a, "", high) },
                else_branch = g () => (e) { e = Clip(a, high) }>
    }"""
    x = np.float32([-1, 2])
    for flag in (True, False):
        values = evaluate(model(text), {"x": x, "c": np.array(flag)})
        assert compare(values, [x, x]) is None


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_the_logarithm_of_a_softmax_that_underflows_is_finite(opset: int) -> None:
    text = "(float[1,2] x) => (float[1,2] y) { y = LogSoftmax<axis = 1>(x) }"
    assert run(text, opset, x=[[200.0, 0.0]])[0].tolist() == [[0.0, -200.0]]
    if opset == 11:
        return
    text = "(float[1,2] x, int64[1] t) => (float l) { l = SoftmaxCrossEntropyLoss(x, t) }"
    assert run(text, opset, x=[[200.0, 0.0]], t=[1])[0] == 200
