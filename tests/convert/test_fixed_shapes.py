# SPDX-License-Identifier: Apache-2.0
"""`--shape` and `--dim`: fixed sizes, folded values, refusals, and support in every command."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from click.testing import CliRunner
from opshift import BadTarget, Request, convert, convert_version, plan
from opshift.cli.entry import main
from opshift.convert.requests import fixed_shapes
from opshift.report import Report
from opshift.testing.model_text import parse_model
from opshift.verify import verify

pytestmark = pytest.mark.usefixtures("models_run_here")

RESHAPED = (
    "(float[N,3,M] x) => (float[a,b] y) { s = Shape(x) i = Constant<value = int64[1] {0}>()"
    " n = Gather(s, i) k = Constant<value = int64[1] {-1}>() c = Concat<axis=0>(n, k)"
    " y = Reshape(x, c) }"
)
BRANCH = (
    "(float[N,3] x) => (float[a,b] y) { s = Shape(x) i = Constant<value = int64 {0}>()"
    " n = Gather(s, i) one = Constant<value = int64 {1}>() c = Equal(n, one)"
    " y = If (c) <then_branch = t () => (float[p,q] p) { ax = Constant<value = int64[1] {0}>()"
    " u = Squeeze(x, ax) p = Unsqueeze(u, ax) },"
    " else_branch = e () => (float[r,t] r) <float w = {3}> { r = Mul(x, w) }> }"
)
LOOP = (
    "(float[N,3] x) => (float[3] y) { s = Shape(x) i = Constant<value = int64 {0}>()"
    " n = Gather(s, i) on = Constant<value = bool {1}>()"
    " z = Constant<value = float[3] {0, 0, 0}>()"
    " y = Loop (n, on, z) <body = b (int64 at, bool c, float[3] had) => (bool d, float[3] has)"
    " { d = Identity(c) row = Gather(x, at) has = Add(had, row) }> }"
)
GROWING = (
    "(float[N] x) => (float[m] y) { s = Size(x) on = Constant<value = bool {1}>()"
    " y = Loop (s, on, x) <body = b (int64 at, bool c, float[k] had) => (bool d, float[l] has)"
    " { d = Identity(c) t = Shape(had) v = ConstantOfShape<value = float[1] {1}>(t)"
    " has = Concat<axis=0>(had, v) }> }"
)
INSIDE = (  # the size of a value outside of a branch that is chosen at run time
    "(float[N,3] x, bool c) => (float[a] y) { y = If (c) <then_branch = t () => (float[p] p)"
    " { s = Shape(x) q = Size(x) k = Constant<value = int64[1] {-1}>() p = Reshape(x, k) },"
    " else_branch = e () => (float[r] r) { t = Size(x) k2 = Constant<value = int64[1] {1}>()"
    " u = Reshape(t, k2) r = ConstantOfShape(u) }> }"
)
NETWORKS = {
    "reshape": (RESHAPED, {"x": (2, 3, 4)}),
    "then": (BRANCH, {"x": (1, 3)}),
    "else": (BRANCH, {"x": (2, 3)}),
    "loop": (LOOP, {"x": (4, 3)}),
    "growing loop": (GROWING, {"x": (2,)}),
    "inside": (INSIDE, {"x": (2, 3)}),
}


def model(text: str, opset: int = 13) -> onnx.ModelProto:
    return parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {text}')


def operators(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def dims(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]


def answers(proto: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]) -> list[np.ndarray]:
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    feeds = {name: random.normal(size=size).astype("f4") for name, size in shapes.items()}
    flags = {
        argument.name: np.array(True)
        for argument in session.get_inputs()
        if argument.type == "tensor(bool)"
    }
    return session.run(None, {**feeds, **flags})


@pytest.mark.parametrize("name", NETWORKS)
def test_a_model_at_a_fixed_shape_computes_the_same(name):
    text, shape = NETWORKS[name]
    fixed = convert_version(model(text), shape=shape)
    assert dims(fixed.graph.input[0]) == list(shape["x"])
    for expected, actual in zip(answers(model(text), shape), answers(fixed, shape), strict=True):
        np.testing.assert_array_equal(expected, actual)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_shape_twice_is_a_shape_once(name):
    text, shape = NETWORKS[name]
    once = convert(model(text), shape=shape)
    twice = convert(once.model, shape=shape)
    assert once.report.changed
    assert not twice.report.changed
    assert twice.model == once.model


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("opset", [11, 18])
def test_the_shape_may_come_before_or_after_the_steps(name, opset):
    text, shape = NETWORKS[name]
    together = convert_version(model(text), opset, shape=shape)
    apart = convert_version(convert_version(model(text), shape=shape), opset)
    assert operators(together) == operators(apart)
    for one, other in zip(answers(together, shape), answers(apart, shape), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sizes_are_folded_and_nothing_else():
    text = RESHAPED.replace("y = Reshape", "one = Constant<value = float {1}>() w = Neg(one)"
                            " v = Mul(x, w) y = Reshape").replace("Reshape(x", "Reshape(v")  # fmt: skip
    fixed = convert(model(text), shape={"x": (2, 3, 4)})
    assert operators(fixed.model) == ["Constant", "Constant", "Neg", "Mul", "Reshape"]
    assert {work.op for step in fixed.report.steps for work in step.rewritten} == {
        "Shape", "Gather", "Concat",
    }  # fmt: skip
    assert [work.count for step in fixed.report.steps for work in step.rewritten] == [1, 1, 1]
    assert dims(fixed.model.graph.output[0]) == [2, 12]


def test_a_known_branch_takes_the_place_of_its_node():
    assert operators(convert_version(model(BRANCH), shape={"x": (2, 3)})) == ["Constant", "Mul"]
    assert "If" not in operators(convert_version(model(BRANCH), dim={"N": 1}))


def test_the_report_lists_what_is_fixed():
    report = convert(model(RESHAPED), dim={"N": 2}).report
    assert report.assumptions == ("'x' has the shape 2,3,M",)
    assert (report.nodes_before, report.nodes_after) == (6, 2)
    assert Report.from_json(report.to_json()) == report


def test_dimensions_of_one_name_are_fixed_together():
    text = "(float[N,3] x, float[N,1] z) => (float[N,3] y) { y = Add(x, z) }"
    fixed = convert_version(model(text), shape={"x": (2, 3)})
    assert [dims(value) for value in (*fixed.graph.input, *fixed.graph.output)] == [
        [2, 3], [2, 1], [2, 3],
    ]  # fmt: skip


def test_a_dimension_that_is_called_unknown_has_no_name():
    unnamed = model("(float[N,K] x) => (float[N,K] y) { y = Neg(x) }")
    for value in (*unnamed.graph.input, *unnamed.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_param = "?"
    assert dims(convert_version(unnamed, shape={"x": (2, 5)}).graph.output[0]) == [2, 5]


def test_an_opset_whose_constants_hold_no_integers_gets_initializers():
    old = model(RESHAPED.replace("Constant<value = int64[1] {0}>()", "Identity(i0)")
                .replace("Constant<value = int64[1] {-1}>()", "Identity(k0)")
                .replace("y) {", "y) <int64[1] i0 = {0}, int64[1] k0 = {-1}> {", 1), 8)  # fmt: skip
    fixed = convert_version(old, shape={"x": (2, 3, 4)})
    assert operators(fixed) == ["Reshape"]


REFUSED = {
    "another number": (
        {"shape": {"x": (2, 4, 4)}},
        "dimension 1 of the input 'x' is 3 in the model and 4 in the shape 2,4,4",
    ),
    "another rank": ({"shape": {"x": (2, 3)}}, "'x' has 3 dimensions, and the shape 2,3 has 2"),
    "the rank of a scalar": ({"shape": {"x": ()}}, "'x' has 3 dimensions, and the shape () has 0"),
    "no such input": ({"shape": {"z": (2,)}}, "no input 'z' to give a shape to"),
    "no such dimension": ({"dim": {"K": 2}}, "no input has a dimension 'K'"),
    "two sizes": (
        {"shape": {"x": (2, 3, 4)}, "dim": {"N": 3}},
        "dimension 0 of 'x' is 'N' and would be 2, but dimension 'N' makes it 3",
    ),
    "no number": ({"dim": {"N": -1}}, "the size of dimension 'N' is -1"),
    "no list": ({"shape": {"x": 3}}, "the shape of 'x' is 3"),
    "no mapping": ({"shape": [2, 3]}, "shape is [2, 3]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_does_not_fit_names_the_place(name):
    options, sentence = REFUSED[name]
    with pytest.raises(BadTarget) as refused:
        convert(model(RESHAPED), **options)
    assert sentence in str(refused.value)


IMPOSSIBLE = {  # a graph, the shape of x, and the place that is refused
    "MatMul 'z' cannot": ("z = MatMul(x, w) y = Neg(z)", (2, 4)),
    "Reshape 'z' cannot": ("z = Reshape(x, s) y = Neg(z)", (2, 4)),
    "Conv 'z' cannot": (
        "f = Constant<value = int64[2] {2, 3}>() d = Unsqueeze(x, f)"
        " k = Constant<value = float[1,3,1,1] {1, 2, 3}>() z = Conv(d, k) y = Neg(z)", (2, 4),
    ),
    "Mul 'a' cannot": (
        "y = If (c) <then_branch = t () => (float[p,q] a) { a = Mul(x, v) },"
        " else_branch = e () => (float[r,t] b) { b = Neg(x) }>", (2, 4),
    ),
    "the output 'o' is impossible": ("z = Neg(x) o = Neg(x) y = Neg(z)", (2, 4)),
}  # fmt: skip


@pytest.mark.parametrize("place", IMPOSSIBLE)
def test_sizes_that_contradict_the_model_are_refused_with_the_place(place):
    nodes, shape = IMPOSSIBLE[place]
    ends = "float[a,b] y, float[N,3] o" if " o = " in nodes else "float[a,b] y"
    text = (
        f"(float[N,K] x, bool c) => ({ends}) <float[3,2] w = {{1, 2, 3, 4, 5, 6}},"
        f" int64[2] s = {{2, 3}}, float[3] v = {{1, 2, 3}}> {{ {nodes} }}"
    )
    with pytest.raises(BadTarget) as refused:
        convert(model(text), shape={"x": shape})
    assert f"{place}" in str(refused.value)
    assert "with these sizes" in str(refused.value)
    assert convert(model(text), shape={"x": (2, 3)}).report.changed


def test_the_shape_of_an_input_with_a_default_value_is_refused():
    text = "(float[N] x, float[3] w) => (float[N] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }"
    source = model(text)
    if not any(value.name == "w" for value in source.graph.input):
        source.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [3]))
    with pytest.raises(BadTarget, match="the input 'w' has a default value"):
        convert(source, shape={"w": (3,)})


def test_every_verb_takes_the_request(tmp_path):
    onnx.save(model(RESHAPED), tmp_path / "in.onnx")
    words = [str(tmp_path / "in.onnx"), "--to", "9", "--shape", "x=2,3,4"]
    done = CliRunner().invoke(main, ["plan", *words, "--json"])
    assert json.loads(done.output)["assumptions"] == ["'x' has the shape 2,3,4"]
    out = tmp_path / "out.onnx"
    done = CliRunner().invoke(main, ["convert", *words, "-o", str(out), "--verify"])
    assert done.exit_code == 0, done.output
    assert operators(onnx.load(out)) == ["Constant", "Reshape"]
    assert plan(model(RESHAPED), 9, shape={"x": (2, 3, 4)}).possible


def test_a_batch_fixes_what_a_model_has(tmp_path):
    zoo, dst = tmp_path / "zoo", tmp_path / "dst"
    zoo.mkdir()
    onnx.save(model(RESHAPED), zoo / "a.onnx")
    onnx.save(model("(float[3] x) => (float[3] y) { y = Neg(x) }"), zoo / "b.onnx")
    words = ["batch", str(zoo), str(dst), "--dim", "N=2", "--workers", "1"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert dims(onnx.load(dst / "a.onnx").graph.input[0]) == [2, 3, "M"]


def test_settings_hold_the_request(tmp_path, monkeypatch):
    onnx.save(model(RESHAPED), tmp_path / "in.onnx")
    (tmp_path / "opshift.toml").write_text('[convert]\nshape = ["x=2,3,4"]\n')
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["convert", "in.onnx", "-o", "out.onnx"])
    assert done.exit_code == 0, done.output
    assert dims(onnx.load("out.onnx").graph.input[0]) == [2, 3, 4]


@pytest.mark.parametrize(
    "words", [["--shape", "x"], ["--shape", "x=a"], ["--dim", "N"]], ids=" ".join
)
def test_faulty_words_are_a_usage_error(tmp_path, words):
    onnx.save(model(RESHAPED), tmp_path / "in.onnx")
    done = CliRunner().invoke(main, ["plan", str(tmp_path / "in.onnx"), *words])
    assert done.exit_code == 2
    assert words[0] in done.output + done.stderr


def test_verification_feeds_both_models_at_the_sizes_of_one():
    fixed = convert_version(model(LOOP), shape={"x": (4, 3)})
    assert verify(model(LOOP), fixed, isolated=False).equal


def test_a_request_with_a_shape_can_be_compared():
    assert Request.of(13, shape={"x": [1, 2]}) == Request.of(13, shape={"x": (1, 2)})
    assert Request.of(13, shape={}) == Request.of(13)


# --- parts of the request -------------------------------------------------------------------------


def test_an_input_is_fixed_if_its_shape_changes():
    graph = model("(float[N,K] x, float[K] z, float[3] v) => (float[N,K] y) { y = Neg(x) }").graph
    graph.input[0].type.tensor_type.shape.dim.add()
    assert list(fixed_shapes._fixed_inputs(graph, {}, {"N": 2})) == [("x", "2,K,?")]
    assert list(fixed_shapes._fixed_inputs(graph, {"v": (3,)}, {"K": 4})) == [
        ("x", "N,4,?"), ("z", "4"),
    ]  # fmt: skip
    assert list(fixed_shapes._fixed_inputs(graph, {}, {"M": 2})) == []


def test_sizes_are_written_at_any_depth():
    graph = model(
        "(float[N] x, bool c) => (float[N] y) { y = If (c) <then_branch = t () => (float[N] a)"
        " { a = Neg(x) }, else_branch = e () => (float[K] b) { b = Abs(x) }> }"
    ).graph
    graph.value_info.add(name="i").type.CopyFrom(graph.input[0].type)
    fixed_shapes._write_sizes(graph, {"x": (2,)}, {"N": 2})
    branches = {one.name: one.g.output[0] for one in graph.node[0].attribute}
    assert [dims(value) for value in (graph.input[0], graph.output[0], graph.value_info[0])] == [
        [2], [2], [2],
    ]  # fmt: skip
    assert (dims(branches["then_branch"]), dims(branches["else_branch"])) == ([2], ["K"])


def test_an_output_that_no_constant_of_the_opset_holds_is_not_folded():
    shape = model("(float[N,M] x) => (int64[2] y) { y = Shape(x) }", 8)
    assert operators(convert_version(shape, shape={"x": (2, 3)})) == ["Shape"]


@pytest.mark.parametrize(("most", "folded"), [(16, True), (15, False)])
def test_large_constants_are_not_folded(most, folded, monkeypatch):
    monkeypatch.setattr(fixed_shapes, "LARGEST", most)
    text = "(float[N,M] x) => (int64[2] y) { s = Shape(x) y = Neg(s) }"
    ops = operators(convert_version(model(text), shape={"x": (2, 3)}))
    assert ops == (["Constant"] if folded else ["Shape", "Neg"])


OUTER = fixed_shapes.Contradiction("Mul 'a' cannot", "sizes differ")
RULED = OUTER._replace(by_rule=True)
NESTED, NESTED_RULED = OUTER._replace(is_nested=True), RULED._replace(is_nested=True)
OTHER = OUTER._replace(place="Add 'b' cannot")


@pytest.mark.parametrize(
    ("found", "before", "nested", "refused", "notes"),
    [
        ([], [], True, None, 0),
        ([OUTER], [], True, OUTER, 0),
        ([OUTER], [], False, OUTER, 0),
        ([RULED], [], True, RULED, 0),
        ([NESTED], [], False, None, 0),
        ([NESTED], [], True, NESTED, 0),
        ([NESTED_RULED], [], True, None, 1),
        ([OUTER], [OUTER], True, None, 0),
        ([OUTER, OTHER], [OUTER], True, OTHER, 0),
        ([NESTED_RULED, NESTED_RULED], [NESTED_RULED], True, None, 0),
    ],
)
def test_what_contradicts_the_sizes(found, before, nested, refused, notes, monkeypatch):
    """A contradiction that the model had before is not a fault of the chosen sizes."""
    answers = {"facts": found, "before": before}
    monkeypatch.setattr(fixed_shapes, "_contradictions", lambda state, facts: answers[facts])
    monkeypatch.setattr(fixed_shapes.computed_sizes, "facts_about", lambda state, model: "before")
    state = SimpleNamespace(notes=[])
    if refused is None:
        fixed_shapes._require_possible(state, "facts", None, nested=nested)
    else:
        with pytest.raises(BadTarget, match=f"{refused.place}: sizes differ; change them"):
            fixed_shapes._require_possible(state, "facts", None, nested=nested)
    assert len(state.notes) == notes
