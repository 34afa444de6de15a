# SPDX-License-Identifier: Apache-2.0
"""Plans of conversions that change only the header agree with the engine and the conversion."""

from __future__ import annotations

import subprocess
import sys

import onnx
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opshift import BadTarget, InvalidModel, convert, plan
from text_models import model

PARTS = {
    "plain": "a = Softmax<axis = 1>(x) b = Neg(a) y = Abs(b)",
    "branch": """c = Constant<value = bool {1}>()
        y = If (c) <then_branch = t () => (float[2,3] r) { r = Mish(x) }, else_branch = e () => (float[2,3] r2) { r2 = Abs(x) }>""",
    "call": "h = acme.Run(x) y = Neg(h)",
    "other domain": "h = acme.Custom(x) y = Neg(h)",
    "ml": "h = ai.onnx.ml.Normalizer(x) y = Neg(h)",
    "retired": "h = Affine<alpha = 1.0>(x) y = Neg(h)",
    "no such operator": "y = Nge(x)",
}
FUNCTION = (
    '<opset_import: ["" : %d], domain: "acme"> Run (v) => (w) { u = Relu(v) w = HardSwish(u) }'
)


def made(part, opset):
    text = f"(float[2,3] x) => (float[2,3] y) {{ {PARTS[part]} }}"
    function = FUNCTION % opset if part == "call" else ""
    return model(text + function, opset, more=', "ai.onnx.ml" : 2, "acme" : 1')


def as_engine(source, target):
    """Returns the plan of the engine, or its error."""
    try:
        return plan(source, target)
    except (BadTarget, InvalidModel) as error:
        return error


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(PARTS)),
    st.integers(12, 22),
    st.integers(9, 22),
    st.sampled_from([None, 1, 3]),
)
def test_the_engine_says_the_same(tmp_path_factory, part, opset, to, ml):
    proto = made(part, opset)
    target = {"": to} if ml is None else {"": to, "ai.onnx.ml": ml}
    path = tmp_path_factory.mktemp("m") / "m.onnx"
    onnx.save(proto, path)
    engine, short = as_engine(proto, target), as_engine(path, target)
    if isinstance(engine, Exception):
        assert str(short) == str(engine)
        return
    assert short.header_only == (engine.possible and not engine.steps)
    for field in ("source", "target", "paths", "steps", "nearest", "notes", "assumptions"):
        assert getattr(engine, field) == getattr(short, field), field


ILLEGAL = {
    "two inputs": "(float[2,3] x) => (float[2,3] y) { y = Relu(x, x) }",
    "undefined": "(float[2,3] x) => (float[2,3] y) { y = Relu(other) }",
    "in a branch": """(float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] r) { r = Neg(x, x) },
                    else_branch = e () => (float[2] s) { s = Abs(x) }> }""",
    "attribute": "(float[2,3] x) => (float[2,3] y) { y = Relu<nosuch = 1>(x) }",
    "written twice": "(float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }",
    "order": "(float[2] x) => (float[2] y) { y = Neg(a) a = Relu(x) }",
}


@pytest.mark.parametrize("text", ILLEGAL.values(), ids=ILLEGAL)
@pytest.mark.parametrize("target", [14, 15, {"": 15}])
def test_an_illegal_model_is_no_plan_exactly_if_it_is_no_conversion(tmp_path, text, target):
    onnx.save(model(text, 14), tmp_path / "m.onnx")
    assert _ended(plan, tmp_path, target) == _ended(convert, tmp_path, target)


def _ended(verb, folder, target):
    try:
        verb(folder / "m.onnx", target)
    except InvalidModel as error:
        return str(error)
    return "possible"


def test_what_a_conversion_notes_is_in_the_plan(tmp_path):
    mixed = model("(float[2,3] x, float[4,5] w) => (float[2,5] y) { y = MatMul(x, w) }", 14)
    onnx.save(mixed, tmp_path / "m.onnx")
    planned = plan(tmp_path / "m.onnx", 18)
    assert planned.header_only
    (note,) = planned.notes
    assert note in convert(mixed, 18).report.notes
    assert "type inference rejects the model, as it did before the conversion" in note


@pytest.mark.parametrize(
    ("part", "opset", "target", "short"),
    [
        ("plain", 13, 18, True),
        ("plain", 12, 13, False),
        ("branch", 18, 18, True),
        ("branch", 18, 17, False),  # Mish is in a branch
        ("call", 14, 18, True),
        ("call", 14, 13, False),  # HardSwish is in the function
        ("other domain", 13, 18, True),
        ("ml", 13, {"ai.onnx.ml": 3}, True),
        ("retired", 13, 18, False),
        ("plain", 13, "onnxruntime==1.10", True),
        ("plain", 13, None, False),  # no opset was named
        ("plain", 13, "onnx-mlir", True),
    ],
)
def test_when_the_header_is_all_that_changes(tmp_path, part, opset, target, short):
    onnx.save(made(part, opset), tmp_path / "m.onnx")
    planned = plan(tmp_path / "m.onnx", target)
    assert planned.header_only is short
    assert bool(planned.lowest) == (not short and target is not None)


def test_the_default_graphs_of_a_function_are_read(tmp_path):
    proto = made("call", 18)
    branch = onnx.parser.parse_graph("g (float[2] x) => (float[2] y) { y = Mish(x) }")
    proto.functions[0].attribute_proto.append(onnx.helper.make_attribute("body", branch))
    onnx.save(proto, tmp_path / "m.onnx")
    assert not plan(tmp_path / "m.onnx", 17).header_only  # opset 18 added Mish


def test_a_plan_names_the_imports_that_a_runtime_needs_removed(tmp_path):
    onnx.save(made("plain", 13), path := tmp_path / "m.onnx")
    planned = plan(path, "onnx-mlir")
    report = convert(str(path), "onnx-mlir").report
    assert planned.header_only
    assert (planned.nearest, planned.notes) == (report.result, report.notes)
    verdict = "Possible: acme 1 -> removed, ai.onnx.ml 2 -> removed. No operator changes."
    assert str(planned).startswith(verdict)


@pytest.mark.parametrize("target", [["--to", "18"], ["--for", "onnx-mlir"]])
def test_it_costs_no_import_of_onnx(tmp_path, target):
    onnx.save(made("plain", 13), tmp_path / "m.onnx")
    words = ["plan", f"{tmp_path}/m.onnx", *target]
    code = f"import sys; from opshift.cli.entry import main; main({words}, standalone_mode=False)"
    watched = f"import atexit, sys; atexit.register(lambda: print({{'onnx', 'numpy'}} & set(sys.modules))); {code}"
    done = subprocess.run(
        [sys.executable, "-c", watched], capture_output=True, text=True, check=False
    )
    assert "No operator changes." in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"hello")
    with pytest.raises(InvalidModel, match="not a readable ONNX model"):
        plan(tmp_path / "m.onnx", 18)
