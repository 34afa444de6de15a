# SPDX-License-Identifier: Apache-2.0
"""Two models run on the same inputs: tolerances, the chosen engines, and reports of crashes."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnx.parser
import pytest
from click.testing import CliRunner
from onnx import numpy_helper
from opshift import BadTarget, InvalidModel, MissingExtra, convert_version
from opshift.author import registry
from opshift.child_task import Limits
from opshift.cli import exit_codes as cli
from opshift.cli.entry import main
from opshift.verify import (
    Verification,
    engine_choice,
    extra,
    generate,
    hints,
    oracle,
    precision,
    verify,
)
from opshift.verify.tolerance import StatedTolerance, distance

pytestmark = pytest.mark.usefixtures("models_run_here")

SOFTMAX = "(float[n,3,4] x) => (float[n,3,4] y) { s = Softmax(x) y = Neg(s) }"


def model(text, opset=12, ir=8, more=""):
    return onnx.parser.parse_model(
        f'<ir_version: {ir}, opset_import: ["" : {opset}{more}]> g {text}'
    )


def spoiled():
    wrong = convert_version(model(SOFTMAX), 13)
    next(n for n in wrong.graph.node if n.op_type == "Softmax").attribute[0].i = 0
    return wrong


def test_a_conversion_is_equal_on_two_sizes_of_every_dynamic_axis():
    verification = verify(model(SOFTMAX), convert_version(model(SOFTMAX), 13))
    assert verification.equal
    assert [row.inputs for row in verification.rows] == [
        "generated, seed 0.0, n=2",
        "generated, seed 0.1, n=3",
    ]


def test_models_without_outputs_cannot_be_compared():
    silent = model("(float[2] x) => () { y = Neg(x) }")
    with pytest.raises(InvalidModel, match=r"^both models have no outputs; add an output"):
        verify(silent, silent)


def test_the_first_difference_is_named_and_reproduced(tmp_path):
    verification = verify(model(SOFTMAX), spoiled(), engine="opshift", reduce=tmp_path)
    assert verification.different
    assert verification.cause.value == "s"
    assert verification.cause.before == "Softmax"
    assert verification.cause.after == "Flatten Softmax Shape Reshape"
    assert "softmax_12_13" in verification.cause.adapters[0]
    again = verify(tmp_path / "a.onnx", tmp_path / "b.onnx", tmp_path / "inputs.npz")
    assert again.different
    assert again.cause.value == "s"
    assert [n.op_type for n in onnx.load(tmp_path / "a.onnx").graph.node] == ["Softmax"]


def test_without_onnxruntime_the_answer_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(extra, "is_missing", lambda: True)
    with pytest.raises(MissingExtra, match=r"opshift\[verify\]'`, or choose the engine opshift"):
        verify(model(SOFTMAX), model(SOFTMAX), engine="onnxruntime")
    foreign = model(
        "(float[2] x) => (float[2] y) { y = com.acme.Run(x) }", 12, more=', "com.acme" : 1'
    )
    onnx.save(foreign, tmp_path / "m.onnx")
    verification = verify(tmp_path / "m.onnx", tmp_path / "m.onnx")
    assert not verification.equal
    assert verification.notes == (f"A has no result for generated inputs; {extra.MISSING}",)
    assert verify(model(SOFTMAX), model(SOFTMAX)).sides[0].engine == "opshift"


def test_json_there_and_back():
    verification = verify(model(SOFTMAX), spoiled())
    assert Verification.from_json(verification.to_json()) == verification


def test_random_outputs_are_compared_by_type_and_shape_only():
    text = "(float[2] x) => (float[2] y, float[2] z) { r = RandomNormalLike(x) y = Add(r, x) z = Neg(x) }"
    verification = verify(model(text, 13), model(text, 14), engine="opshift")
    assert [row.outcome for row in verification.rows[:2]] == ["type and shape only", "equal"]
    assert "'y' depends on random numbers" in verification.notes[0]


def test_a_side_without_an_answer_is_not_equal():
    a = model("(float[2] x) => (float[2] y) { y = Neg(x) }")
    b = model("(float[2] x) => (float[2] y) { y = Nag(x) }")
    verification = verify(a, b)
    assert not verification.equal
    assert not verification.different
    assert "B gave no answer" in verification.rows[0].detail


def test_below_opset_7_our_evaluator_is_asked():
    text = "(float[2,3] a, float[3] b) => (float[2,3] c) { c = Add<axis=1,broadcast=1>(a, b) }"
    verification = verify(model(text, 6), convert_version(model(text, 6), 13))
    assert {side.engine for side in verification.sides} == {"opshift"}
    assert verification.equal


def test_an_operator_of_a_vendor_is_left_to_the_runtime():
    a = model(
        "(float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }", more=', "com.microsoft":1'
    )
    assert engine_choice.choose((a, a), "auto")[0] == ("onnxruntime", "it supports both models")
    assert "com.microsoft Gelu" in engine_choice.objection(a, "opshift")


def test_maps_are_compared_key_by_key():
    a = model(
        '(float[n,3] x) => (seq(map(string, float)) z) { z = ai.onnx.ml.ZipMap<classlabels_strings=["a","b","c"]>(x) }',
        more=', "ai.onnx.ml": 1',
    )
    assert verify(a, convert_version(a, {"": 18, "ai.onnx.ml": 3})).equal
    b = onnx.ModelProto()
    b.CopyFrom(a)
    b.graph.node[0].attribute[0].strings[2] = b"d"
    for engine in ("opshift", "onnxruntime"):
        verification = verify(a, b, engine=engine)
        assert (
            "[0]: keys ['a', 'b', 'c'] expected, ['a', 'b', 'd'] given"
            in verification.rows[0].detail
        )


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("(float[3,4] x, int64[k] i) => (float[a,b] y) { y = Gather(x, i) }", "i"),
        ("(float[n] x) => (float[n] y) { z = Identity(x) y = Log(z) }", "x"),
        ("(float[n] x, bool[n] m) => (float[n] y) { z = Sqrt(x) y = Where(m, z, x) }", "x"),
        ("(float[2,3] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }", "s"),
        ("(float[2,3] x, int64[2] s) => (float[a,b] y) { y = Tile(x, s) }", "s"),
        ("(int64[n] x, int64[n] z) => (int64[n] y) { y = Div(x, z) }", "z"),
    ],
)
def test_inputs_are_what_the_graph_can_work_with(text, inputs):
    proto = model(text, 13)
    assert inputs in hints.hints(proto)
    for case in generate.cases(proto, 7, generate.FIRST, registry.default()):
        (y,) = oracle.evaluate(proto, case.values)
        assert np.isfinite(y.astype(float)).all()


def test_inputs_from_files(tmp_path):
    proto = model(SOFTMAX)
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    np.savez(tmp_path / "x.npz", x=x)
    folder = tmp_path / "data" / "test_data_set_0"
    folder.mkdir(parents=True)
    (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    for inputs in ({"x": x}, tmp_path / "x.npz", tmp_path / "data", folder):
        verification = verify(proto, proto, inputs, engine="opshift")
        assert verification.equal
    with pytest.raises(InvalidModel, match="contains no input_0"):
        verify(proto, proto, tmp_path, engine="opshift")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "no value is given for 'x'"),
        ({"x": np.zeros((1, 3, 4))}, "the input 'x' is float64, but the model takes float$"),
        ({"x": np.array(["a"])}, "the input 'x' is object, but the model takes float$"),
        ({"x": np.zeros((1, 3, 4), "V2")}, "the input 'x' is void16, but the model takes float$"),
        ({"x": np.zeros((1, 3, 4), np.float32), "z": np.zeros(1)}, "the model has no input 'z'"),
    ],
)
def test_inputs_that_are_not_those_of_the_model(tmp_path, given, told):
    proto = model(SOFTMAX)
    np.savez(tmp_path / "given.npz", **given)
    for label, inputs in (("given", given), ("given.npz", tmp_path / "given.npz")):
        with pytest.raises(InvalidModel, match=f"inputs '{label}': {told}"):
            verify(proto, proto, inputs)


def test_tolerances_are_by_element_type():
    wanted = StatedTolerance(rtol=0.5)
    assert wanted.at(np.ones(1, np.float32)).rtol == 0.5
    assert wanted.at(np.ones(1, np.int32)).rtol == 0
    assert (
        StatedTolerance().at([{"a": 1.0}]).rtol == StatedTolerance().at(np.ones(1, np.float32)).rtol
    )


def test_the_command(tmp_path):
    a, b, bad = (str(tmp_path / name) for name in ("a.onnx", "b.onnx", "bad.onnx"))
    onnx.save(model(SOFTMAX), a)
    onnx.save(spoiled(), bad)
    run = CliRunner().invoke
    onnx.save(convert_version(model(SOFTMAX), 13), b)
    done = run(main, ["verify", a, b])
    assert done.exit_code == cli.DONE, done.output
    assert done.stdout.startswith("Equal: ")
    done = run(main, ["verify", a, bad, "--output-format", "json"])
    assert done.exit_code == cli.REFUSED
    assert json.loads(done.stdout)["different"] is True
    (tmp_path / "empty").mkdir()
    for words, sentence in (
        ([a, str(tmp_path / "no.onnx")], "No such file"),
        ([a, b, "--inputs", str(tmp_path / "empty")], "contains no input_0.pb"),
        ([a, b, "--inputs", a], "is not an .npz"),
        ([a, b, "--engine", "tensorrt"], "give auto, onnxruntime or opshift"),
    ):
        done = run(main, ["verify", *words])
        assert done.exit_code == cli.BAD_INPUT
        assert sentence in done.stderr


def test_where_made_up_inputs_do_not_fit_the_note_says_so():
    text = "(float[n,3] x) => (float[n,3] y) <float[7] w = {1,2,3,4,5,6,7}> { z = Add(x, w) y = Identity(z) }"
    verification = verify(model(text, 13), model(text, 13))
    assert not verification.equal
    assert "give your own" in verification.notes[0]


@pytest.mark.parametrize("computed_in", ["float16", "float"])
def test_a_float_that_is_computed_in_half_precision_has_its_rounding(computed_in):
    """A difference of one float16 rounding is accepted; the same difference in float is not."""
    text = "(float[n,8] x) => (float[n,8] y) {{ h = Cast<to = {kind}>(x) {last} }}"
    kind = {"float16": 10, "float": 1}[computed_in]
    one = "s = Sigmoid(h) y = Cast<to = 1>(s)"
    step = (
        "s = Sigmoid(h) c = Constant<value = float[1] {1.0004}>() z = Cast<to = 1>(s) y = Mul(z, c)"
    )
    a, b = (model(text.format(kind=kind, last=last)) for last in (one, step))
    verification = verify(a, b, engine="opshift")
    assert verification.equal is (computed_in == "float16")
    note = "'y' is computed in float16, so the tolerance of float16 was used"
    assert (note in verification.notes) is (computed_in == "float16")


@pytest.mark.parametrize(
    ("text", "coarse"),
    [
        ("(float16[2] x) => (float[2] y) { y = Cast<to = 1>(x) }", ""),  # what is given is exact
        ("(float16[2] x) => (float[2] y) { h = Neg(x) y = Cast<to = 1>(h) }", "float16"),
        (
            "(float[2] x) => (float[1] y) { h = Cast<to = 10>(x) s = Shape(h) y = Cast<to = 1>(s) }",
            "",
        ),
        (
            "(float[2] x, bool c) => (float[2] y) { y = If(c) <"
            " then_branch = t () => (float[2] a) { h = Cast<to = 10>(x) a = Cast<to = 1>(h) },"
            " else_branch = e () => (float[2] b) { b = Neg(x) }> }",
            "float16",
        ),
    ],
)
def test_the_coarsest_type_on_the_way_is_known(text, coarse):
    found = precision.Precision(model(text), registry.default()).of("y")
    assert found == (coarse or "float32")


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"engine": "tvm"}, "the engine must be auto, onnxruntime or opshift, not 'tvm'"),
        ({"rtol": -1.0}, "rtol is -1.0; give a finite number from 0"),
        ({"atol": "1"}, "atol is '1'; give a finite number from 0"),
        ({"ulp": -1}, "ulp is -1; give a whole number from 0 to "),
        ({"seed": -1}, "seed is -1; give a whole number from 0 to "),
        ({"limits": 3}, "limits is 3; give Limits"),
        ({"limits": Limits(0, 1)}, "seconds is 0; give a finite number above 0"),
        ({"limits": Limits(1, 0.5)}, "megabytes is 0.5; give a whole number from 1 to "),
        ({"limits": Limits(), "isolated": False}, "limits has no effect here; add isolated=True"),
        ({"isolated": "no"}, "isolated is 'no'; give True or False"),
        ({"values": "y"}, "values is 'y'; give a list"),
        ({"runtime": "/nowhere/python"}, "there is no program '/nowhere/python'"),
    ],
)
def test_an_option_with_which_nothing_can_be_compared(option, sentence, tmp_path):
    proto = model("(float[2] x) => (float[2] y) { y = Relu(x) }", 13)
    with pytest.raises(BadTarget, match=sentence):
        verify(proto, proto, **option)


@pytest.mark.parametrize("bad", [None, 3, b"m.onnx"])
def test_what_is_no_model_is_a_type_error(bad):
    with pytest.raises(TypeError, match="model must be a ModelProto or a path"):
        verify(bad, bad)


def test_inputs_that_do_not_fit_are_not_called_a_fault_of_the_model(tmp_path):
    proto = model("(float[2] x) => (float[2] y) { y = Relu(x) }", 13)
    onnx.save(proto, path := tmp_path / "m.onnx")
    np.savez(tmp_path / "data.npz", z=np.zeros(2, np.float32))
    for name, sentence in (("data.npz", "no value is given for 'x'"), ("none.npz", "No such file")):
        words = ["verify", str(path), str(path), "--inputs", str(tmp_path / name)]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2
        assert sentence in done.stderr
        assert "opshift check" not in done.stderr
    done = CliRunner().invoke(main, ["verify", str(path), str(path), "--runtime", "/nowhere/py"])
    assert (done.exit_code, "there is no program" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        (np.float32([1, 2]), np.float32([1, 2.5]), 0.5),
        (np.float32([np.nan, np.inf]), np.float32([np.nan, np.inf]), 0.0),
        ([np.int64(1), np.int64(4)], [np.int64(1), np.int64(2)], 2.0),
        ({"k": 1.5}, {"k": 1.0}, 0.5),
        (np.array(["a"], object), np.array(["b"], object), None),
        (None, None, None),
        (np.zeros((0, 2)), np.zeros((0, 2)), None),
        (np.uint8([0]), np.uint8([255]), 255.0),
    ],
    ids=str,
)
def test_the_distance_of_two_values(one, other, apart):
    assert distance(one, other) == apart


def test_the_verdict_names_the_largest_difference(tmp_path):
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) {{ z = Constant<value = float {}>() y = Add(x, z) }}'
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, number in zip(paths, ("{0.0}", "{0.000001}"), strict=True):
        onnx.save(onnx.parser.parse_model(text.format(number)), path)
    verification = verify(*paths, atol=1e-3)
    assert verification.equal
    assert max(row.distance for row in verification.rows) > 0
    assert "The largest difference is" in verification.proof.text
    assert "in 'y'" in verification.proof.text
    assert Verification.from_json(verification.to_json()) == verification


def old(ir: int):
    """A model of an IR version without imports."""
    text = "(float[2] x) => (float[2] y) { y = Elu<alpha=0.5>(x) }"
    m = model(text, opset=1, ir=3)
    m.ClearField("opset_import")
    m.ir_version = ir
    return m


def changed(change: str, text: str = "(float[2] x) => (float[2] y) { h = Neg(x) y = Relu(h) }"):
    """Returns a model of IR 7 with a fault that a conversion repairs."""
    m = model(text, opset=12, ir=7)
    if change == "no import":
        m.ClearField("opset_import")
    elif change == "two imports":
        m.opset_import.append(m.opset_import[0])
    elif change == "wrong order":
        m.graph.node.reverse()
    elif change == "no type":
        m.graph.output[0].ClearField("type")
    return m


@pytest.mark.parametrize(
    "repaired",
    [
        pytest.param(old(1), id="IR 1"),
        pytest.param(old(2), id="IR 2"),
        *(
            pytest.param(changed(one), id=one)
            for one in ("no import", "two imports", "wrong order", "no type")
        ),
    ],
)
def test_a_model_that_a_conversion_repairs_can_be_verified(repaired, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(repaired.SerializeToString())
    for source in (repaired, path):
        verification = verify(source, convert_version(path, 13), isolated=False)
        assert verification.equal, verification


def test_a_run_in_this_process_does_not_change_the_inputs():
    """onnxruntime writes the running mean of the first node into its input."""
    text = """<ir_version: 7, opset_import: ["" : 14]>
    g (float16[2,3] x, float16[3] s, float[3] m, float[3] v, bool c) => (float[3] rm) {
      h, n, k = BatchNormalization<training_mode = 1>(x, s, s, m, v)
      rm = If(c) <then_branch = t () => (float[3] a) { a = Identity(n) },
                 else_branch = e () => (float[3] b) { b = Identity(n) }>
    }"""
    model = onnx.parser.parse_model(text)
    half, single = np.ones((2, 3), np.float16), np.ones(3, np.float32)
    inputs = {"x": half * 5, "s": half[0], "m": single, "v": single.copy(), "c": np.array(True)}
    assert verify(model, model, inputs, engine="onnxruntime", isolated=False).equal
    assert (single == 1).all()


def test_any_other_file_than_one_of_arrays_is_refused(tmp_path):
    proto = model("(float[2] x) => (float[2] y) { y = Relu(x) }", 13)
    path = tmp_path / "inputs.npz"
    np.savez_compressed(path, x=np.arange(6000, dtype=np.float32))
    whole = path.read_bytes()
    np.save(tmp_path / "one.npy", np.ones(2, np.float32))
    one = (tmp_path / "one.npy").read_bytes()
    damaged = whole[:80] + bytes(120) + whole[200:]
    for data in (one, b"", b"text", whole[: len(whole) // 2], damaged, b"PK\x03\x04" + bytes(50)):
        path.write_bytes(data)
        with pytest.raises(InvalidModel, match=r"is not an \.npz file of arrays"):
            verify(proto, proto, path)
