# SPDX-License-Identifier: Apache-2.0
"""A refusal because of an element type names the change of types that avoids it."""

from __future__ import annotations

from pathlib import Path

import pytest
from opshift import Refused, convert, plan, terms
from opshift.opsets import schemas
from opshift.testing.model_text import parse_model

EXAMPLE = Path(__file__).parents[2] / "examples" / "attention_opset12.onnx"
BFLOAT16 = (
    '<ir_version: 8, opset_import: ["" : 13]> g (bfloat16[3] x) => (bfloat16[3] y)'
    " { z = Relu(x) y = Cast<to=16>(z) }"
)
FLOAT8 = (
    '<ir_version: 9, opset_import: ["" : 19]> g (float[3] x) => (float[3] y)'
    " { q = Cast<to=17>(x) y = Cast<to=1>(q) }"
)


@pytest.mark.parametrize(("text", "to"), [(BFLOAT16, 12), (FLOAT8, 18)])
def test_the_option_that_a_refusal_names_makes_the_conversion_possible(text, to):
    source = parse_model(text)
    with pytest.raises(Refused) as refused:
        convert(source, to)
    named = {refusal.types for refusal in refused.value.refusals}
    assert all(terms.option("types", one) in str(refused.value) for one in named)
    option = dict(one.split("=") for one in named)
    assert convert(source, to, types=option).report.result[""] == to


def test_a_plan_names_it_too():
    (first, *_) = plan(parse_model(BFLOAT16), 12).refusals
    assert 'types={"bfloat16": "float"}' in first.cure


def test_a_change_that_did_not_help_is_not_named_again():
    source = parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y)'
        " { q = Cast<to=22>(x) y = Cast<to=1>(q) }"
    )
    (first, *_) = plan(source, 20, types={"int4": "int8"}).refusals
    assert (first.types, "types=" in first.cure) == ("", False)


def test_a_refusal_for_another_reason_names_none():
    (first, *_) = plan(EXAMPLE, 1).refusals
    assert (first.types, "types=" in first.cure) == ("", False)


@pytest.mark.skipif((schemas.latest("") or 0) < 23, reason="the installed onnx is older")
def test_no_change_is_offered_for_a_sequence():
    """The model is invalid because the scales are a sequence, which has no element type."""
    source = parse_model(
        '<ir_version: 11, opset_import: ["" : 23]> g (float4e2m1[4] w, seq(int64[]) s) => (float[4] y)'
        " { y = DequantizeLinear(w, s) }"
    )
    (first, *_) = plan(source, 20).refusals
    assert first.types == ""


RESIZE = (
    '<ir_version: 8, opset_import: ["" : 18]> g (float[1,1,N,4] x) => (float[1,1,a,4] y)'
    ' <float[4] s = {1, 1, 0.5, 1}> { y = Resize<antialias=1, mode="linear">(x, "", s) }'
)


def test_no_change_is_offered_for_a_type_that_only_the_form_of_an_operator_has():
    """This Resize computes its positions in double, and 1.10 has no Floor of double."""
    with pytest.raises(Refused, match="Floor of double has no kernel") as refused:
        convert(parse_model(RESIZE), "onnxruntime==1.10")
    assert not any(refusal.types for refusal in refused.value.refusals)


@pytest.mark.parametrize(
    ("operator", "why"), [("Erf", "APPROXIMATE_ONLY"), ("Floor", "TARGET_LACKS")]
)
def test_a_permission_is_named_if_the_runtime_then_runs_the_form(operator, why):
    source = parse_model(
        f'<ir_version: 7, opset_import: ["" : 13]> g (double[2] x) => (double[2] y) {{ y = {operator}(x) }}'
    )
    with pytest.raises(Refused) as refused:
        convert(source, "onnxruntime==1.8")
    assert [refusal.why.name for refusal in refused.value.refusals] == [why]
    if why == "APPROXIMATE_ONLY":
        assert convert(source, "onnxruntime==1.8", allow_approximate=True).report.approximations


@pytest.mark.parametrize(
    ("kind", "operator", "release"),
    [("double", "Erf(x)", "1.8"), ("double", "Erf(x)", "1.32"), ("double", "Floor(x)", "1.8")],
)
def test_the_option_for_a_type_without_a_kernel_makes_the_result_run(kind, operator, release):
    source = parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]> g ({kind}[2,2] x) => ({kind}[2,2] y)'
        f" {{ y = {operator} }}"
    )
    with pytest.raises(Refused) as refused:
        convert(source, f"onnxruntime=={release}")
    assert refused.value.runtime == f"onnxruntime=={release}"
    (named,) = {refusal.types for refusal in refused.value.refusals}
    assert terms.option("types", named) in str(refused.value)
    option = dict([named.split("=")])
    report = convert(source, f"onnxruntime=={release}", types=option).report
    assert report.runtime is not None
    assert report.runtime.answer == "yes"


def test_a_result_with_wider_nodes_for_a_runtime_names_the_change_instead():
    source = parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (bfloat16[2,2] x) => (bfloat16[2,2] y)'
        " { z = MatMul(x, x) y = Add(z, x) }"
    )
    message = '`types={"bfloat16": "float"}` changes the type in the whole model instead'
    notes = convert(source, "onnxruntime==1.17").report.notes
    assert [note for note in notes if "instead" in note] == [message]
    changed = convert(source, "onnxruntime==1.17", types={"bfloat16": "float"}).report
    assert not any("instead" in note for note in changed.notes)


def test_a_row_that_lacks_a_type_names_the_change_that_makes_the_result_run():
    source = parse_model(BFLOAT16)
    with pytest.raises(Refused) as refused:
        convert(source, "tensorrt==8.6")
    assert {refusal.types for refusal in refused.value.refusals} == {"bfloat16=float"}
    assert terms.option("types", "bfloat16=float") in str(refused.value)
    changed = convert(source, "tensorrt==8.6", types={"bfloat16": "float"}).report
    assert changed.runtime is not None
    assert changed.runtime.answer != "no"
    assert convert(source, "tensorrt==9.0").report.runtime.answer != "no"


def test_a_runtime_that_casts_by_itself_names_the_change_until_it_is_made():
    source = parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (int64[N] i, double[2] d)'
        " => (float[N,2] y, double[2] e)"
        " <float[2,2] w = {1, 2, 3, 4}> { y = Gather(w, i) e = Neg(d) }"
    )

    def casts(target: str, **types: str) -> list[str]:
        notes = convert(source, target, types=types).report.notes
        return [note.partition(" and ")[0] for note in notes if " computes " in note]

    whole = "tensorrt==8.6 computes"
    assert casts("tensorrt==8.6") == [f"{whole} int64 as int32", f"{whole} double as float"]
    assert casts("tensorrt==8.6", double="float") == [f"{whole} int64 as int32"]
    assert casts("tensorrt==10.0") == ["tensorrt==10.0 computes double as float"]
    assert casts("onnxruntime==1.17") == []


def test_fixed_sizes_are_named_if_the_form_computes_with_sizes():
    source = parse_model(RESIZE)
    with pytest.raises(Refused) as refused:
        convert(source, "onnxruntime==1.10")
    (one, *_) = refused.value.refusals
    assert one.shape == "x=1,1,8,4"
    assert 'shape={"x": (1, 1, 8, 4)}' in str(refused.value)
    assert convert(source, "onnxruntime==1.10", shape={"x": (1, 1, 8, 4)}).report.result
