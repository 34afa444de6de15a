# SPDX-License-Identifier: Apache-2.0
"""`check="full"`: onnx's checker sees the whole model after each step."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from opshift import accepts, convert, convert_version, plan
from opshift.convert import end_checks
from opshift.convert.legal import checker
from opshift.opsets import schemas
from text_models import model, ops

TEXTS = [
    ("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }", 13, 9),
    ("(float[2,3] x) => (float[2,3] y) { h = Gelu(x) y = HardSwish(h) }", 20, 5),
    (
        """(bool c, float[2,3,4] x) => (float[2,3,4] y) {
        y = If (c) <then_branch = t () => (float[2,3,4] h) { h = Softmax(x) },
                    else_branch = e () => (float[2,3,4] k) { k = Neg(x) }>
    }""",
        13,
        9,
    ),
    (
        """(float[2,3,4] x) => (float[2,3,4] y) { y = acme.Run(x) }
        <opset_import: ["" : 13], domain: "acme"> Run (v) => (w) { a = Gelu(v) w = Softmax(a) }
    """.replace("Gelu", "Celu"),
        13,
        9,
    ),
]


@pytest.mark.parametrize(("text", "opset", "target"), TEXTS)
def test_it_changes_no_result(text, opset, target):
    proto = model(text, opset, more=', "acme" : 1' if "acme" in text else "")
    assert convert_version(proto, target, check="full") == convert_version(proto, target)


def test_every_step_is_seen(monkeypatch):
    seen = []
    whole = checker.whole

    def heard(view, adapters, *, full):
        seen.append(full)
        return whole(view, adapters, full=full)

    proto = model(TEXTS[1][0], 20)
    monkeypatch.setattr(checker, "whole", heard)
    after = convert_version(proto, 15, check="full")
    assert sum(seen) == 5 + 1  # the steps and the result
    assert "Erf" in ops(after)


OTHERS = {
    "a replaced operator": ("(float[2] x) => (float[2] y) { y = Scale<scale = 2.0>(x) }", 8, 9, {}),
    "a domain that is left": (
        "(float[2] x) => (float[2] y) { y = com.microsoft.FastGelu(x) }",
        17,
        None,
        {"domains": ["ai.onnx"]},
    ),
    "newer operators": (
        "(float[2] x) => (float[2] y) { s = Sigmoid(x) y = Mul(x, s) }",
        24,
        24,
        {"modernize": True},
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_step_at_one_version_is_seen_too(kind, monkeypatch):
    text, opset, target, options = OTHERS[kind]
    if opset > (schemas.latest("") or 0):
        pytest.skip("the installed onnx is older")
    proto = model(text, opset, more=', "com.microsoft" : 1')
    seen, check = [], end_checks.check_fully
    monkeypatch.setattr(
        end_checks, "check_fully", lambda state, step: (seen.append(step), check(state, step))
    )
    report = convert(proto, target, check="full", **options).report
    assert [(one.domain, one.start, one.to) for one in seen] == [
        (step.domain, step.start, step.to) for step in report.steps
    ]
    assert any(one.start == one.to or one.domain for one in seen)


@pytest.mark.parametrize(("old", "new"), [(True, "default"), (False, "none")])
def test_the_older_values_are_taken(old, new):
    proto = model(TEXTS[0][0], 13)
    assert convert_version(proto, 9, check=old) == convert_version(proto, 9, check=new)


WRONG = "(float[2,3] x) => (float[2,4] y) { y = Relu(x) }"


def test_a_wrong_shape_of_an_output_is_corrected():
    """The source fails onnx's full check; its result passes, so that strict runtimes load it."""
    after = convert(model(WRONG, 16), 15)
    assert "shapes of 'y', which contradict" in str(after.report)
    onnx.checker.check_model(after.model, full_check=True)


@pytest.mark.parametrize(("release", "opset", "answer"), [
    ("1.10", 15, "no"), ("1.10", 14, "yes"), ("1.11", 16, "no"), ("1.12", 17, "yes"),
])  # fmt: skip
def test_a_strict_release_rejects_a_wrong_shape_at_its_highest_opset(release, opset, answer):
    """Measured: onnxruntime 1.2 to 1.11 do, and `--for` corrects the shape for them."""
    target, source = f"onnxruntime=={release}", model(WRONG, opset, ir=8)
    assert accepts(source, target).answer == answer
    assert accepts(convert(source, target).model, target).answer == "yes"


NESTED = "y = If(c) <then_branch = t () => (float[{0}] y) {{ y = Neg({1}) }}, else_branch = e () => (float[{0}] y) {{ y = Abs({1}) }}>"


@pytest.mark.parametrize("target", [10, 7])
def test_a_repeated_name_in_a_copied_subgraph_is_no_fault(target):
    first, second = NESTED.format(2, "x"), NESTED.format(3, "z")
    proto = model(
        f"""(float[2] x, float[3] z, bool c, bool w) => (float[m] y) {{
            y = If(w) <then_branch = t () => (float[2] y) {{ {first} }},
                       else_branch = e () => (float[3] y) {{ {second} }}> }}""",
        11,
    )
    result = convert(proto, target)
    assert ops(result.model).count("Loop") == 2
    assert any("renamed 'y' in subgraphs" in note for note in result.report.notes)


@pytest.mark.parametrize("inner", ["h", "y"])
def test_a_wrong_rank_in_a_subgraph_is_corrected_also_if_its_name_is_repeated(inner):
    branch = f"(float[3,1,2] {inner}) {{ {inner} = ReduceSum(x, a) }}"
    proto = model(
        f"""(float x, int64[1] a, bool c) => (float[3,1,2] y) {{
            y = If(c) <then_branch = t () => {branch}, else_branch = e () => {branch}> }}""",
        13,
    )
    result = convert(proto, 12)
    assert not result.model.graph.output[0].type.tensor_type.shape.dim
    assert any("corrected the declared shapes of 'y'" in note for note in result.report.notes)


@pytest.mark.parametrize("target", [10, 18])
@pytest.mark.parametrize("rows", [1, 4], ids=["legal", "contradicting"])
def test_axes_in_another_file_are_judged_as_axes_in_the_model(target, rows, tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> m (float[1, 3, 1] x) => (float[3, 2] y)'
        " { v = Squeeze (x, a) y = MatMul (v, w) }"
    )
    values = {"a": np.array([0]), "w": np.ones((rows, 2), np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(v, name) for name, v in values.items())
    inside, outside = tmp_path / "inside.onnx", tmp_path / "outside.onnx"
    onnx.save(model, inside)
    onnx.save(model, outside, save_as_external_data=True, location="w", size_threshold=0)
    plans = [str(plan(path, target)) for path in (inside, outside)]
    assert plans[0] == plans[1]
    assert ("type inference rejects the model" in plans[0]) is (rows == 4)
