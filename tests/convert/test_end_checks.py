# SPDX-License-Identifier: Apache-2.0
"""With `check="full"`, onnx's checker checks the whole model after each step."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from opshift import accepts, convert, convert_version, plan
from opshift.convert import end_checks
from opshift.convert.blockers import StepRefused
from opshift.convert.change import Step, Suspect
from opshift.convert.legal import checker, diagnose, inferred_part, nested_lengths, rules
from opshift.errors import AdapterBug, FaultyChange, InvalidModel
from opshift.model import imports, repair, weights
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
    """The source fails onnx's full check, but the corrected result passes it."""
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


# --- what an error of the checker means, by everything else that is known -------------------------


class World:
    """The outcome of each check, for a source "view" and a result "shown"."""

    def __init__(self, **known):
        self.error, self.structure, self.before = "broken", None, None
        self.namesakes, self.objected, self.tolerated = frozenset(), False, False
        self.contradicted, self.names, self.contradiction = [], [], ""
        self.typed, self.findings, self.check = [], [], "default"
        for name, value in known.items():
            assert hasattr(self, name)
            setattr(self, name, value)
        facts = SimpleNamespace(correct=lambda: self._mended(self.names))
        self.state = SimpleNamespace(
            adapters=None, document=None, view="view", skeleton="shown", weights=None, facts=facts,
            options=SimpleNamespace(check=self.check), notes=[], broken=None, typed=["a", "b"],
            done=lambda step: None,
        )  # fmt: skip

    def _mended(self, reason):
        """Returns the reason; if there is one, the correction removes the error."""
        if reason:
            self.error = None
        return reason

    def lenient(self, model, adapters, *, full):
        if model == "view":
            assert full
            return self.before
        return self.error if full else self.structure

    def at_end(self, document, adapters, *, visit_all):
        assert visit_all is (self.check == "full")
        return SimpleNamespace(beyond=lambda broken: self.findings)


@pytest.fixture
def world(monkeypatch):
    def build(**known):
        w = World(**known)
        for module, name, answer in [
            (checker, "lenient", w.lenient),
            (checker, "in_order", lambda document: "shown"),
            (checker, "tolerates", lambda *_: w.tolerated),
            (weights, "checkable", lambda model, *, weights: model),
            (nested_lengths, "drop_contradicted", lambda *_: w.contradicted),
            (diagnose, "declarations", lambda *_: w.contradiction),
            (repair, "remove_shapes", lambda *_: bool(w._mended(w.typed))),
            (rules, "at_end", w.at_end),
            (end_checks, "copied", lambda model: model),
            (end_checks, "_namesakes", lambda state: w.namesakes),
            (end_checks, "_objected_before", lambda state, error: w.objected),
        ]:
            monkeypatch.setattr(module, name, answer)
        return w.state

    return build


SURE, INFERRED = (Suspect("Gelu wrote", inferred, frozenset("x")) for inferred in (False, True))
NAMES = [*"abcdef"]


@pytest.mark.parametrize(
    "known",
    [
        {"error": None},
        {"namesakes": frozenset({("", "Relu", "")})},
        {"objected": True},
        {"contradicted": ["y"]},
        {"tolerated": True},
    ],
)
def test_a_step_is_not_to_blame(known, world):
    state = world(**known)
    end_checks.check_fully(state, Step("", 13, 12))
    assert not state.notes


def test_declarations_are_corrected_after_a_step(world):
    state = world(names=NAMES)
    end_checks.check_fully(state, Step("", 13, 12))
    assert "the declared shapes of 'a', 'b', 'c', 'd' and 2 more," in state.notes[0]


ORIGIN = "; the fault first appears in the nodes that Gelu wrote"


@pytest.mark.parametrize(
    ("contradiction", "suspects", "rewritten", "error", "text"),
    [
        ("y is wrong", [], True, InvalidModel, "y is wrong"),
        ("y is wrong", [SURE], True, InvalidModel, "y is wrong" + ORIGIN),
        ("y is wrong", [INFERRED], True, FaultyChange, "rejects the model: broken" + ORIGIN),
        ("", [SURE], False, FaultyChange, "rejects the model: broken" + ORIGIN),
        ("", [], False, InvalidModel, "at ai.onnx 12, although no node changed: broken"),
        ("", [], True, FaultyChange, "broken; this step wrote nodes by adapters.gelu on Gelu"),
    ],
)
def test_a_step_is_to_blame(contradiction, suspects, rewritten, error, text, world):
    step = Step("", 13, 12)
    step.suspects = suspects
    step.rewritten = [SimpleNamespace(adapter="adapters.gelu", op="Gelu")] if rewritten else []
    with pytest.raises(error) as raised:
        end_checks.check_fully(world(contradiction=contradiction), step)
    assert text in str(raised.value)
    assert (ORIGIN in str(raised.value)) is bool(suspects)
    if error is FaultyChange and suspects:
        assert raised.value.depends_on == {"x"}


REMOVED = "removed declared shapes that inference contradicts: a, b, c, d and 2 more"
CORRECTED = "corrected the declared shapes of 'y'"
REMAINS = "type inference rejects the model, as it did"
TOLERATED = "the checker rejects an operator that the model had"


@pytest.mark.parametrize(
    ("known", "notes"),
    [
        ({"error": None}, []),
        ({"error": None, "check": "full"}, []),
        ({"typed": ["y"]}, ["the shape that was added to 'a', 'b' does not fit"]),
        ({"typed": ["y"], "structure": "broken", "tolerated": True}, [TOLERATED]),
        ({"contradicted": NAMES}, [REMOVED]),
        ({"contradicted": NAMES, "objected": True}, [REMAINS]),
        ({"contradicted": NAMES, "structure": "broken", "tolerated": True}, [TOLERATED]),
        ({"names": ["y"]}, [CORRECTED]),
        ({"names": ["y"], "objected": True}, [CORRECTED]),
        ({"names": ["y"], "structure": "broken", "tolerated": True}, [TOLERATED]),
        ({"objected": True}, [REMAINS]),
        ({"objected": True, "structure": "broken", "tolerated": True}, [TOLERATED]),
        ({"tolerated": True}, [TOLERATED]),
    ],
)
def test_an_error_of_the_result_becomes_a_note(known, notes, world):
    written = end_checks.check_whole(world(**known))
    assert len(written) == len(notes)
    for text, note in zip(written, notes, strict=True):
        assert text.startswith(note)


@pytest.mark.parametrize(
    ("known", "error", "text"),
    [
        ({"findings": [SimpleNamespace(text="a rule")]}, AdapterBug, "breaks a rule: a rule"),
        ({"namesakes": frozenset({1})}, StepRefused, ""),
        ({"contradiction": "y is wrong", "before": "old"}, InvalidModel, "y is wrong"),
        ({"before": "old"}, InvalidModel, "old; the check at a later opset reports: broken"),
        ({"before": "old", "structure": "broken"}, AdapterBug, "the converted model: broken"),
        ({}, AdapterBug, "the checker rejects the converted model: broken"),
        ({"structure": "broken"}, AdapterBug, "the checker rejects the converted model: broken"),
    ],
)
def test_an_error_of_the_result_ends_the_conversion(known, error, text, world):
    with pytest.raises(error) as raised:
        end_checks.check_whole(world(**known))
    assert text in str(raised.value)


OLD = "No Op registered for Relu with domain_version of 1"


@pytest.mark.parametrize(
    ("error", "inferred", "function", "inlined", "objected"),
    [
        (None, None, None, None, False),
        ("wrong type", None, None, None, True),
        (OLD, None, None, None, False),
        (OLD, "wrong type", None, None, True),
        (None, "wrong type", None, None, True),
        (None, None, {"": 13}, "wrong type", True),
        (None, None, {"": 13}, None, False),
        (None, None, {"": 12}, "wrong type", False),  # the model has no such version
    ],
)
def test_what_the_source_already_had(error, inferred, function, inlined, objected, monkeypatch):
    assert checker.is_of_operators(OLD)
    key, hidden = ("", "Relu", ""), list[object]()
    monkeypatch.setattr(inferred_part, "types", lambda *_: inferred)
    monkeypatch.setattr(end_checks, "copied", lambda model: model)
    functions = {key: "function", ("mine", "Relu", ""): "other"} if function else {}
    monkeypatch.setattr(end_checks, "functions_of", lambda model: functions)
    monkeypatch.setattr(
        imports, "versions", lambda proto: function if proto == "function" else {"": 13}
    )
    monkeypatch.setattr(end_checks, "inline_functions", lambda model, keys, _: hidden.extend(keys))

    def lenient(model, adapters, *, full):
        assert full
        return inlined if hidden else "not inlined"

    monkeypatch.setattr(checker, "lenient", lenient)
    state = SimpleNamespace(view="view", adapters=None, document=SimpleNamespace(fresh=None))
    assert end_checks._objected_before(state, error) is objected
    assert hidden == ([key] if function == {"": 13} else [])
