# SPDX-License-Identifier: Apache-2.0
"""The lowest version that `lowest` reports can be reached, and the one below cannot."""

from __future__ import annotations

import json

import onnx
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from opshift import BadTarget, InvalidModel, Refused, convert_version, lowest_versions
from opshift.cli.entry import main
from opshift.look.lowest import Lowest, Reach
from opshift.opsets import schemas
from text_models import model

OPS = {
    "Neg": 6,
    "Erf": 13,
    "Softplus": 1,
    "Celu": 12,
    "HardSwish": 14,
    "Softmax": 13,
    "Identity": 1,
    "Gelu": 20,
    "Round": 11,
    "Mish": 18,
}


@st.composite
def models(draw, stop=False):
    """A chain of operators; with `stop`, one more node that cannot go below opset 10."""
    chosen = draw(st.lists(st.sampled_from(sorted(OPS)), min_size=1, max_size=3))
    births = [OPS[op] for op in chosen]
    opset = draw(st.integers(max(10 if stop else 9, *births), 21))
    names = ["x", *(f"v{i}" for i in range(1, len(chosen))), "y"]
    nodes = " ".join(f"{names[i + 1]} = {op}({names[i]})" for i, op in enumerate(chosen))
    kind = draw(st.sampled_from(["float", "double"]))
    texts, last = (", string[2] s", "z = StringNormalizer(s)") if stop else ("", "z = Neg(x)")
    outputs = f"{kind}[2,3] y, {'string[n]' if stop else f'{kind}[2,3]'} z"
    return model(f"({kind}[2,3] x{texts}) => ({outputs}) {{ {nodes} {last} }}", opset)


@pytest.mark.parametrize("stop", [False, True])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_reported_version_is_reached_and_the_next_is_refused(stop, data):
    proto = data.draw(models(stop))
    lowest = lowest_versions(proto)[""]
    assert not stop or lowest.lowest >= 10
    convert_version(proto, lowest.lowest)
    convert_version(proto, lowest.highest)
    assert lowest.lowest <= lowest.same_from <= lowest.version <= lowest.same_to <= lowest.highest
    if lowest.lowest > 1:
        assert lowest.below
        with pytest.raises(Refused):
            convert_version(proto, lowest.lowest - 1)
    if lowest.highest < schemas.latest(""):
        with pytest.raises(Refused):
            convert_version(proto, lowest.highest + 1)


@settings(max_examples=25, deadline=None)
@given(models())
def test_minimal_stamps_and_rewrites_nothing(proto):
    after = convert_version(proto, minimal=True)
    assert after.graph == proto.graph
    opset = after.opset_import[0].version
    for node in proto.graph.node:
        now, then = (
            schemas.schema("", node.op_type, v) for v in (proto.opset_import[0].version, opset)
        )
        assert now == then
    names = {node.op_type for node in proto.graph.node}
    assert opset == 1 or names & schemas.changed("", opset)


def test_a_version_that_no_onnx_has_is_a_mistake_of_the_model():
    with pytest.raises(InvalidModel, match=r"imports ai\.onnx 99, but only versions 1 to"):
        lowest_versions(model("(float[2] x) => (float[2] y) { y = Relu(x) }", 99))


def test_what_stops_it_is_named():
    lowest = lowest_versions(model("(double[2] x) => (double[2] y) { y = Erf(x) }", 14))[""]
    assert (lowest.same_from, lowest.lowest) == (13, 9)
    assert lowest.below[0].op == "Erf"


def test_domains_of_their_own(tmp_path):
    text = '<ir_version: 8, opset_import: ["" : 15, "ai.onnx.ml" : 3, "acme" : 4]> g (float[2,2] x) => (float[2,2] y) { a = ai.onnx.ml.Normalizer(x) b = acme.Run(a) y = Neg(b) }'
    proto = onnx.parser.parse_model(text)
    lowest = lowest_versions(proto)
    assert lowest.minimal == {"": 13, "ai.onnx.ml": 1}
    after = convert_version(proto, minimal=True)
    assert [entry.version for entry in after.opset_import] == [13, 1, 4]


def test_a_function_counts():
    text = """(float[2] x) => (float[2] y) { y = acme.Run(x) }
        <opset_import: ["" : 18], domain: "acme"> Run (v) => (w) { w = Mish(v) }"""
    proto = model(text, 18, more=', "acme" : 1')
    after = convert_version(proto, minimal=True)
    assert after.opset_import[0].version == after.functions[0].opset_import[0].version == 18


def test_the_command(tmp_path):
    onnx.save(model("(double[2] x) => (double[2] y) { y = Erf(x) }", 15), tmp_path / "m.onnx")
    text = CliRunner().invoke(main, ["lowest", f"{tmp_path}/m.onnx"]).stdout
    assert "below 9: Erf" in text
    raw = (
        CliRunner().invoke(main, ["lowest", f"{tmp_path}/m.onnx", "--output-format", "json"]).stdout
    )
    assert json.loads(raw)["domains"][0]["lowest"] == 9
    done = CliRunner().invoke(main, ["convert", f"{tmp_path}/m.onnx", "--in-place", "--minimal"])
    assert done.exit_code == 0, done.stderr
    assert onnx.load(tmp_path / "m.onnx").opset_import[0].version == 13


def test_minimal_is_a_target_of_its_own():
    with pytest.raises(BadTarget, match="minimal and a target are both given"):
        convert_version(
            model("(double[2] x) => (double[2] y) { y = Erf(x) }", 15), 14, minimal=True
        )


def test_what_ties_the_content_to_an_ir_version_is_explained():
    proto = model("(float8e5m2[2] x) => (float[2] y) { y = Cast<to=1>(x) }", 19, ir=10)
    proto.graph.node[0].metadata_props.add(key="k", value="v")
    lowest = lowest_versions(proto)
    assert (lowest.ir_version, lowest.lowest_ir) == (10, 9)  # metadata computes nothing
    assert [need.reason for need in lowest.ir_needs] == ["element type or container float8e5m2"]
    assert "IR 9: element type or container float8e5m2" in str(lowest)


def test_plain_content_needs_no_ir_of_its_own():
    assert lowest_versions(model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)).lowest_ir == 3


def reach(domain, *, outgrown=False):
    return Reach(domain, 13, 11, 14, 9, 20, (), (), outgrown)


def test_the_lines_name_each_domain():
    text = str(Lowest((reach(""), reach("acme"))))
    assert "Reachable: opset 9 to 20, acme 9 to 20." in text
    rows = [line.split() for line in text.splitlines()]
    assert ["ai.onnx", "13", "11", "to", "14"] in rows
    assert ["acme", "13", "11", "to", "14"] in rows
    assert "tried no other version" not in text
    assert "Reachable: only the present versions." in str(Lowest(()))


@pytest.mark.parametrize("domain", ["", "acme"])
def test_the_lines_name_a_domain_whose_versions_were_not_all_tried(domain):
    (line,) = (
        line
        for line in str(Lowest((reach("other"), reach(domain, outgrown=True)))).splitlines()
        if "tried no other version" in line
    )
    assert (domain or "ai.onnx") in line


@pytest.mark.parametrize("opset", [19, 20])
def test_a_search_that_stops_at_a_large_model_says_so(opset, monkeypatch):
    """Gelu becomes several nodes only below opset 20."""
    monkeypatch.setattr("opshift.look.rehearse.NODE_BUDGET", 3)
    text = {19: "y = Neg(x)", 20: "y = Gelu(x)"}[opset]
    lowest = lowest_versions(model(f"(float[2,3] x) => (float[2,3] y) {{ {text} }}", opset))[""]
    assert lowest.outgrown == (opset == 20)


def test_the_target_of_a_request_is_ignored():
    proto = model("(float[2] x) => (float[2] y) { y = Neg(x) }", 13)
    assert lowest_versions(proto, minimal=True) == lowest_versions(proto)
