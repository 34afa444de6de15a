# SPDX-License-Identifier: Apache-2.0
"""A boolean attribute other than 0 and 1, or an undefined mode, makes a model invalid."""

from __future__ import annotations

import pytest
from onnx import defs, parser
from opshift import InvalidModel, convert_version
from opshift.author import registry
from opshift.author.traits import Illegal

# Numbers that count, name an axis, a type or a code: every value has a meaning, or inference,
# the adapters or other objections look at them.
NUMBERS = """
    aggregate_function axis batch_axis batch_dims block_size blocksize chunk_size default_int64 dtype
    end group hidden_size ignore_index k kv_num_heads left_window_size max_gram_length max_map
    max_skip_count maxsplit min_gram_length multi_class n_supports n_targets num_groups num_heads
    num_outputs num_scan_inputs offset_group output_datatype output_dtype output_height output_width
    p post_transform precision q_num_heads qk_matmul_output_mode replaced_value_int64
    right_window_size rotary_embedding_dim sample_size sampling_ratio seed size softmax_precision
    start stash_type targets time_axis to value_int
""".split()  # noqa: SIM905


def numbers() -> list[tuple[str, str, str]]:
    """Returns all integer attributes in the schemas of the installed onnx."""
    found = set()
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in ("", "ai.onnx.ml"):
            for name, attribute in schema.attributes.items():
                if attribute.type == defs.OpSchema.AttrType.INT:
                    found.add((schema.domain, schema.name, name))
    return sorted(found)


def test_every_number_is_a_switch_or_known_to_be_none():
    rules = registry.default().traits(Illegal)
    for domain, op, name in numbers():
        looked_at = {a for rule in rules.get((domain, op), ()) for a in rule.reads or ()}
        assert name in {*NUMBERS, *looked_at}, f"what can {op}.{name} be?"


@pytest.mark.parametrize(
    ("opset", "graph", "sentence"),
    [
        (23, "(float[1,2,3,4] q) => (float[1,2,3,4] y) { y = Attention<is_causal=2>(q, q, q) }", "is_causal is '2', but must be one of 0, 1"),
        (23, "(float[1,2,3,4] x, float[1,3,2] c) => (float[1,2,3,4] y) { y = RotaryEmbedding<interleaved=3>(x, c, c) }", "interleaved is '3'"),
        (13, "(float[2,3] a, float[3,4] b) => (float[2,4] y) { y = Gemm<transA=-1>(a, b) }", "transA is '-1'"),
        (20, '(float[2] x) => (float[2] y) { y = Gelu<approximate="Tanh">(x) }', "approximate is 'Tanh', but must be one of none, tanh"),
        (13, "(bool c, float[2] x) => (float[a] y) { y = If(c) <then_branch = t () => (float[1] p) { p = ReduceSum<keepdims=2>(x) }, else_branch = e () => (float[2] q) { q = Neg(x) }> }", "keepdims is '2'"),
    ],
)  # fmt: skip
def test_other_values_are_not_converted(opset, graph, sentence):
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {graph}')
    for target in (opset - 1, opset + 1):
        with pytest.raises(InvalidModel, match=sentence):
            convert_version(model, target)


def test_a_switch_that_is_on_is_converted():
    graph = "(float[3,2] a, float[3,4] b) => (float[2,4] y) { y = Gemm<transA=1>(a, b) }"
    model = parser.parse_model(f'<ir_version: 7, opset_import: ["": 13]> g {graph}')
    assert convert_version(model, 12)
