# SPDX-License-Identifier: Apache-2.0
"""The checker of onnx rejects nodes and models, except for faults that opshift corrects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, onnx_operators_ml_pb2
from opshift.author import registry
from opshift.convert.change import Step
from opshift.convert.legal import checker
from opshift.model import weights
from opshift.model.bytes import documents
from opshift.model.document import Document
from opshift.model.weights import Weights
from text_models import model

UNTYPED = '(int8[2] x) => (float[1,2] y) { a = Cast<to="FLOAT">(x) y = Unsqueeze<axes=[0]>(a) }'
WRONG = '(int8[2] x) => (int8[1,2] y) { z = Cast<to="FLOAT">(x) w = Unsqueeze<axes=[0]>(z) y = Unsqueeze<axes=[0, 1]>(x) }'

BODY = """(int64 n, float[2] x) => (float[2] y) { y = Loop(n, "", x) <
    body = b (int64 i, bool k, float[2] p) => (o, q) { o = Identity(k) q = Cast<to="FLOAT">(p) }> }"""


def test_inference_that_knows_too_little_is_no_objection() -> None:
    assert checker.whole(model(UNTYPED, opset=5, ir=3), registry.default(), full=True) is None


def test_a_contradiction_is_an_objection_even_beside_missing_types() -> None:
    assert "differ in rank" in (
        checker.whole(model(WRONG, opset=5, ir=3), registry.default(), full=True) or ""
    )


def test_a_body_whose_types_are_not_known_is_no_objection() -> None:
    assert checker.whole(model(BODY, opset=5, ir=3), registry.default(), full=True) is None


# -- one node ------------------------------------------------------------------------------------

FUNCTION = """(float[2] x) => (float[2] y) { y = own.Neg(x) }
    <domain: "own", opset_import: ["": 13]> Neg (a) => (b) { b = Neg(a) }"""
BRANCHES = """(bool c, float[2] x) => (float[2] y) { y = If(c)
    <then_branch = t () => (float[2] p) { p = Nothing(x) }, else_branch = e () => (float[2] q) { q = Neg(x) }> }"""


def objections(text: str, opset: int = 13, more: str = "") -> list[str]:
    document = Document(model(text, opset, ir=8, more=more), "opshift_")
    return [f"{node.op_type}: {error}" for node, error in checker.by_node(document)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("(float[2] x) => (float[2] y) { y = Neg(x) }", []),
        ("(float[2] x) => (float[2] y) { y = Neg(x, x) }", ["Neg: Node"]),
        ("(float[2] x) => (float[2] y) { y = Unheard(x, x) }", []),  # no schema says anything
        (BRANCHES, []),  # what is in a branch is looked at by itself
        (BRANCHES.replace("Nothing(x)", "Neg(x, x)"), ["Neg: Node"]),
    ],
)
def test_each_node_is_checked_by_itself(text: str, told: list[str]) -> None:
    found = objections(text)
    assert len(found) == len(told)
    assert all(one.startswith(start) for one, start in zip(found, told, strict=True))


def test_a_call_of_a_function_is_not_checked_as_an_operator_of_its_name() -> None:
    own = FUNCTION.replace("own.Neg(x)", "Neg(x, x)").replace('"own"', '""')
    assert objections(own.replace("b = Neg(a)", "b = Abs(a)")) == []
    assert objections(FUNCTION, more=', "own" : 1') == []
    assert objections(FUNCTION.replace("own.Neg(x)", "Neg(x, x)"), more=', "own" : 1')


def test_only_the_roots_of_a_kind_are_checked() -> None:
    text = "(float[2] x) => (float[2] y) { y = Neg(x, x) }"
    document = Document(model(text, 13), "opshift_")
    assert [*checker.by_node(document, "training")] == []
    assert len([*checker.by_node(document, "graph")]) == 1


def test_the_nodes_that_a_step_touched_are_checked() -> None:
    text = "(float[2] x) => (float[2] y) { a = Neg(x, x) b = Abs(a, a) y = Exp(b) }"
    document = Document(model(text, 13), "opshift_")
    touched = {(document.main, 1): "an adapter", (document.main, 2): "another one"}
    (told,) = checker.rejected(document, Step("", 14, 13, touched=touched))
    assert told.startswith("Abs 'b', which an adapter wrote or kept: Node")


def test_a_tensor_whose_payload_is_elsewhere_is_checked_as_an_empty_one() -> None:
    proto = model(
        "(float[2] x) => (float[2] y) { c = Constant<value = float[1] {1}>() y = Neg(x) }", 13
    )
    large = numpy_helper.from_array(np.zeros(1 << 16, np.float32), "c")
    proto.graph.node[0].attribute[0].t.CopyFrom(large)
    skeleton, _ = weights.carve_model(proto)
    assert Weights.is_stub(skeleton.graph.node[0].attribute[0].t)
    assert [*checker.by_node(Document(skeleton, "opshift_"))] == []


# -- a whole model -------------------------------------------------------------------------------


def test_an_old_operator_is_tolerated_if_a_conversion_replaces_it() -> None:
    def tolerated(text: str, opset: int, error: str) -> bool:
        return checker.tolerates(
            Document(model(text, opset), "opshift_"), registry.default(), error
        )

    upsample = (
        "(float[1,1,2,2] x) => (float[a,b,c,d] y) <float[4] s = {1,1,2,2}> { y = Upsample(x, s) }"
    )
    assert tolerated(
        upsample, 10, "Op registered for Upsample is deprecated in domain_version of 10"
    )
    assert not tolerated(
        upsample, 9, "Op registered for Upsample is deprecated in domain_version of 9"
    )
    assert not tolerated(upsample, 10, "Node has wrong inputs")
    gone = "(float[2] x) => (float[2] y) { y = ThresholdedRelu(x) }"
    assert tolerated(gone, 9, "No Op registered for ThresholdedRelu with domain_version of 9")
    assert not tolerated(gone, 10, "No Op registered for ThresholdedRelu with domain_version of 10")
    unheard = "(float[2] x) => (float[2] y) { y = Unheard(x) }"
    assert not tolerated(unheard, 13, "No Op registered for Unheard with domain_version of 13")


@pytest.mark.parametrize("full", [False, True])
def test_a_shape_that_is_not_declared_is_no_objection(full: bool) -> None:
    vague = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)
    for value in (*vague.graph.input, *vague.graph.output):
        value.type.tensor_type.ClearField("shape")
    vague.graph.output[0].ClearField("type")
    assert checker.whole(vague, registry.default(), full=full)
    assert checker.lenient(vague, registry.default(), full=full) is None
    vague.graph.node[0].input.append("x")
    assert "Neg" in (checker.lenient(vague, registry.default(), full=full) or "")


def test_a_function_of_another_version_is_checked_at_its_own() -> None:
    proto = model(FUNCTION.replace('"": 13', '"": 9'), 13, ir=8, more=', "own" : 1')
    assert checker.lenient(proto, registry.default(), full=True) is None


def test_types_are_checked_in_full_only() -> None:
    wrong = model("(float[2] x) => (int64[2] y) { y = Neg(x) }", 13)
    wrong.graph.input[0].type.tensor_type.ClearField("shape")
    assert checker.lenient(wrong, registry.default(), full=False) is None
    assert checker.lenient(wrong, registry.default(), full=True)
    assert checker.whole(wrong, registry.default(), full=True)


def test_a_model_that_ends_inference_is_not_inferred_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(checker.safe_inference, "is_at_risk", lambda *given: True)
    monkeypatch.setattr(
        checker.onnx_checker, "check_model", lambda view, full_check: asked.append(full_check)
    )
    monkeypatch.setattr(checker, "types", lambda *given: "of types")
    good = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)
    assert checker.whole(good, registry.default(), full=True) == "of types"
    assert checker.whole(good, registry.default(), full=False) is None
    assert asked == [False, False]

    def reject(view: object, full_check: bool) -> None:
        raise checker.onnx_checker.ValidationError("of nodes")

    monkeypatch.setattr(checker.onnx_checker, "check_model", reject)
    assert checker.whole(good, registry.default(), full=True) == "of nodes"


def test_a_legal_model_has_no_objection() -> None:
    good = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)
    assert checker.lenient(good, registry.default(), full=True) is None


# -- an operator that only a document describes --------------------------------------------------

RUN = "(float[2] x) => (float[2] y) { y = com.acme.Run(x) }"
ACME = ', "com.acme" : 1'


@pytest.fixture
def described(tmp_path: Path) -> Iterator[None]:
    """A document of com.acme.Run, which needs an attribute."""
    made = onnx_operators_ml_pb2.OperatorSetProto(magic="ONNXOPSET", ir_version=8)
    made.domain, made.opset_version = "com.acme", 1
    text = "Runs.\n\nSignature:\n  input X: tensor(float)\n  output Y: tensor(float)\n  attribute axis: INT, required\n"
    made.operator.add(op_type="Run", since_version=1, status=1, doc_string=text)
    (tmp_path / "acme.onnxopset").write_bytes(made.SerializeToString())
    onnx.save(model(RUN, 13, more=ACME), tmp_path / "m.onnx")
    with documents.beside(tmp_path / "m.onnx"):
        yield


@pytest.mark.usefixtures("described")
def test_a_node_fits_its_document() -> None:
    lacks, fits = (
        model(RUN, 13, more=ACME),
        model(RUN.replace("Run(", "Run<axis = 1>("), 13, more=ACME),
    )
    for view in (lacks, lacks.SerializeToString()):
        assert "axis" in (checker.whole(view, registry.default(), full=False) or "")
    assert checker.whole(fits, registry.default(), full=False) is None
    assert any("axis" in objection for objection in objections(RUN, more=ACME))
    assert objections(RUN.replace("Run(", "Run<axis = 1>("), more=ACME) == []
    unknown = model(RUN.replace("Run(", "Walk("), 13, more=ACME)
    assert checker.whole(unknown, registry.default(), full=False) is None


@pytest.mark.usefixtures("described")
def test_a_function_hides_the_operator_of_a_document() -> None:
    body = '<domain: "com.acme", opset_import: ["": 13]> Run (a) => (b) { b = Neg(a) }'
    assert (
        checker.whole(model(f"{RUN} {body}", 13, ir=8, more=ACME), registry.default(), full=False)
        is None
    )
    calling = '<domain: "own", opset_import: ["": 13, "com.acme": 1]> F (a) => (b) { b = com.acme.Run(a) }'
    text = f"(float[2] x) => (float[2] y) {{ y = own.F(x) }} {calling}"
    inner = model(text, 13, ir=8, more=f'{ACME}, "own" : 1')
    assert "axis" in (checker.whole(inner, registry.default(), full=False) or "")


@pytest.mark.usefixtures("described")
def test_a_node_of_a_function_may_refer_to_an_attribute_of_the_function() -> None:
    node = "com.acme.Run<axis: int = @k>"
    calling = f'<domain: "own", opset_import: ["": 13, "com.acme": 1]> F <k> (a) => (b) {{ b = {node}(a) }}'
    text = f"(float[2] x) => (float[2] y) {{ y = own.F<k = 1>(x) }} {calling}"
    inner = model(text, 13, ir=8, more=f'{ACME}, "own" : 1')
    assert checker.whole(inner, registry.default(), full=False) is None


@pytest.mark.usefixtures("described")
def test_an_operator_without_an_import_has_no_version_and_no_document() -> None:
    assert objections(RUN) == []
