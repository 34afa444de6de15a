# SPDX-License-Identifier: Apache-2.0
"""onnxruntime computes the same for contrib operators and for the nodes that replace them."""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper
from opshift import Refused, Why, convert, convert_version, testing, versions
from opshift.author import registry
from opshift.author.example import Example
from opshift.author.verdicts import LEAVE
from opshift.testing.example_models import EVERYDAY, example_target
from text_models import model, ops
from vendor_judge import on_onnxruntime

import examples
from tools.author import docs

MICROSOFT = "com.microsoft"
SEEDS = 12
OPSETS = (11, 17, 21)  # below the form of some of them, where an example names no opset, and above
CASES = [
    case
    for case in examples.cases()
    if examples.is_of_a_vendor(case)
    and case.adapter.to == LEAVE[1]  # some processors misread the others before the conversion
    and case.example.refuses is None
    and case.example.invalid is None
]


def _opsets(number: int) -> tuple[int, ...]:
    """Returns the opsets at which an example runs: two that depend on its number, or all."""
    low, middle, high = OPSETS
    return OPSETS if "OPSHIFT_PROPERTIES" in os.environ else (middle, high if number % 2 else low)


AT = [  # an example that names an opset is about that one
    pytest.param(case, opset, id=f"{case.id} {opset}")
    for number, case in enumerate(CASES)
    for opset in ([case.example.imports[""]] if "" in case.example.imports else _opsets(number))
]
APPROXIMATE = [
    case
    for case in examples.cases()
    if case.example.approximate and case.example.refuses is None and case.example.invalid is None
]
# The operators that the optimizer, the quantizers and the transformer tools are known to write.
NAMED = {
    "FusedMatMul", "FusedGemm", "FusedConv", "Gelu", "FastGelu", "BiasGelu", "QuickGelu",
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "EmbedLayerNormalization",
    "QEmbedLayerNormalization", "Attention", "MultiHeadAttention", "GroupQueryAttention",
    "RotaryEmbedding", "MatMulNBits", "QAttention", "QGemm", "QLinearAdd", "QLinearMul",
    "QLinearConv", "QLinearConcat", "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere",
    "QLinearLeakyRelu", "QLinearAveragePool", "QLinearGlobalAveragePool",
    "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "QuantizeLinear",
    "DequantizeLinear", "TransposeMatMul", "Trilu", "Inverse",
}  # fmt: skip
SPECIAL = [0.0, -0.0, 1e-30, -1e-7, 0.5, -0.5, 1.0, 88.0, -88.0, 1000.0, -65000.0]


def inputs(model: ModelProto, example: Example, seed: int) -> dict[str, np.ndarray]:
    """Random numbers whose size depends on the seed, with some special numbers.

    An approximate form may be wrong for numbers that differ by orders of magnitude.
    """
    rng = np.random.default_rng([seed, zlib.crc32(model.graph.SerializeToString())])
    spread = 1.0 if example.approximate else 10.0 ** rng.uniform(-3, 1.5)
    special = seed % 3 == 2 and not example.approximate
    fixed = example.inputs
    found = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = tuple(dim.dim_value or 3 for dim in kind.shape.dim)
        if value.name in fixed:
            made = np.array(fixed[value.name])
        elif dtype.kind == "b":
            made = rng.integers(0, 2, shape)
        elif np.issubdtype(dtype, np.integer):
            limits = np.iinfo(dtype)
            made = rng.integers(max(limits.min, -200), min(limits.max, 300), shape, endpoint=True)
        else:
            made = rng.normal(0, spread, shape)
            strewn = rng.random(shape) < (0.2 if special else 0)
            made = np.where(strewn, rng.choice(SPECIAL, shape), made)
        found[value.name] = made.astype(dtype)
    return found


@pytest.mark.parametrize(("case", "opset"), AT)
def test_both_sides_compute_the_same(case: examples.Case, opset: int) -> None:
    run = on_onnxruntime()
    if examples.too_new(case):
        pytest.skip("the installed onnx is older than the example")
    before = testing.example_model(case.adapter, case.example, {"": opset})
    target = example_target(case.adapter, case.example)
    after = convert_version(before, target, **case.example.options)
    for seed in range(2 if opset in OPSETS and opset != EVERYDAY else SEEDS):
        values = inputs(before, case.example, seed)
        for one, other in zip(run(before, values), run(after, values), strict=True):
            close(one, other, case, seed)


def close(one: np.ndarray, other: np.ndarray, case: examples.Case, seed: int) -> None:
    """Returns whether quantized results are equal, and floats differ only by rounding."""
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    if not np.issubdtype(one.dtype, np.floating):
        steps = np.abs(one.astype(np.int64) - other.astype(np.int64))
        assert steps.max(initial=0) <= (1 if case.example.approximate else 0), f"seed {seed}"
        return
    assert np.array_equal(np.isnan(one), np.isnan(other)), f"seed {seed}"
    finite = np.isfinite(one) & np.isfinite(other)
    assert np.array_equal(one[~finite & ~np.isnan(one)], other[~finite & ~np.isnan(one)])
    largest = np.abs(one[finite]).max(initial=1.0)
    rtol = 2e-3 if one.dtype == np.float16 else 1e-5
    allowed = max(rtol, case.example.atol, case.example.rtol) * largest
    assert np.abs(one - other)[finite].max(initial=0) <= allowed, f"seed {seed}"


def test_codes_of_an_operator_of_onnxruntime_s_own_are_left_alone() -> None:
    """QuantizeLinear of com.microsoft has the name, but not the schema, of that of ai.onnx."""
    text = "(float[4] x) => (float[4] y) <float s = {0.5}, uint8 z = {7}> { q = com.microsoft.QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"
    before = model(text, 10, 5, ', "com.microsoft" : 1')
    after = convert_version(before, 9)
    assert ops(after) == "QuantizeLinear Cast Sub Mul"
    feeds = {"x": np.array([-3.5, 0.25, 0.75, 1e9], np.float32)}
    run = on_onnxruntime()
    np.testing.assert_array_equal(run(before, feeds)[0], run(after, feeds)[0])


def operators_of_the_runtime() -> set[tuple[str, str]]:
    """Returns the operators outside of ONNX's domains of which onnxruntime has a schema."""
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    found = {(one.domain, one.name) for one in state.get_all_operator_schema()}
    return {(domain, op) for domain, op in found if not domain.startswith("ai.onnx") and domain}


def operators_without_a_form() -> set[tuple[str, str]]:
    """Returns all operators in the table of the documents; the default domain is com.microsoft."""
    page = (Path(__file__).parents[2] / "docs/howto/plain-onnx.md").read_text("utf-8")
    table = page.partition("## Operators without a replacement")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    found = set()
    for row in rows:
        names, _, domain = row.partition(" of the domain ")
        found |= {(domain.strip() or MICROSOFT, op) for op in re.findall(r"\w+", names)}
    return found


def operators_compared() -> set[tuple[str, str]]:
    """Returns all operators in examples whose source and result are compared."""
    return {
        (case.adapter.domain, op)
        for case in CASES
        for op in case.adapter.ops
        if re.search(rf"\b{op}\b", case.example.graph)
    }


def test_every_operator_of_the_runtime_has_a_form_or_a_reason_in_the_documents() -> None:
    """A person adds an operator of a newer onnxruntime to the list after a review."""
    with_a_form, with_a_reason = operators_compared(), operators_without_a_form()
    assert operators_of_the_runtime() <= with_a_form | with_a_reason
    assert not with_a_form & with_a_reason - {(MICROSOFT, "Inverse")}  # it has a form for few rows


def test_every_operator_that_is_left_has_its_row_and_its_examples_in_the_documents() -> None:
    """Each operator has a section with examples, of which one is compared with its result."""
    page = docs.any_version_page("# Vendors", LEAVE) + "\n## "
    left = {
        (domain, op)
        for (domain, op, *boundary), _ in registry.default()
        if tuple(boundary) == LEAVE and domain not in versions.DOMAINS
    }
    assert {(MICROSOFT, op) for op in NAMED} <= left
    for domain, op in left:
        section = page.partition(f"\n## {domain}.{op}\n")[2].partition("\n## ")[0]
        graphs = [row.split("|")[2] for row in section.splitlines() if row.startswith("| ")][1:]
        assert graphs, op
        assert all(re.search(rf"\b{op}\b", graph) for graph in graphs), op
    assert left <= operators_compared() | operators_without_a_form()


def test_the_two_sides_of_each_operator_that_the_tools_write_are_compared() -> None:
    assert {(MICROSOFT, op) for op in NAMED} <= operators_compared()


def test_the_operators_that_are_not_reproduced_are_these() -> None:
    own = {op for case in APPROXIMATE if case.adapter.domain for op in case.adapter.ops}
    assert own == {"DynamicQuantizeLSTM", "Inverse", "MatMulNBits"}


@pytest.mark.parametrize("case", APPROXIMATE, ids=[case.id for case in APPROXIMATE])
def test_arithmetic_that_is_not_reproduced_needs_permission_and_is_named(
    case: examples.Case,
) -> None:
    if examples.too_new(case):
        pytest.skip("the installed onnx is older than the example")
    before = examples.model_of(case)
    target = example_target(case.adapter, case.example)
    allowed = convert(before, target, **case.example.options)
    approximations = allowed.report.approximations
    try:
        exact = convert(before, target, **{**case.example.options, "allow_approximate": False})
    except Refused as refused:
        assert {refusal.op for refusal in refused.refusals} <= set(case.adapter.ops)
        assert {refusal.why for refusal in refused.refusals} == {Why.APPROXIMATE_ONLY}
        assert approximations
        assert all(any(op in text for op in case.adapter.ops) for text in approximations)
    else:  # another opset that the runtime reads has an exact form, which needs no permission
        assert exact.report.runtime is not None
        assert allowed.model == exact.model
        assert not approximations


@pytest.mark.parametrize(
    ("domain", "op"),
    [
        (MICROSOFT, "MoE"),
        (MICROSOFT, "LinearAttention"),
        (MICROSOFT, "BeamSearch"),
        ("com.ms.internal.nhwc", "Resize"),
        ("ai.onnx.contrib", "BertTokenizer"),
    ],
)
def test_an_operator_without_a_form_is_a_blocker_by_name(domain: str, op: str) -> None:
    text = f"(float[2,3] x) => (float[2,3] y) {{ y = {domain}.{op}(x) }}"
    with pytest.raises(Refused) as refused:
        convert_version(model(text, 21, 10, f', "{domain}" : 1'), domains=["ai.onnx"])
    (blocker,) = refused.value.refusals
    assert (blocker.op, blocker.domain, blocker.why) == (op, domain, Why.DOMAIN_LEFT)
