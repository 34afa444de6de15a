# SPDX-License-Identifier: Apache-2.0
"""The table of releases, and operators by their full name."""

from __future__ import annotations

import json

import onnx
import onnx.parser
import opshift
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from opshift import BadTarget, OperatorId, versions
from opshift.cli.entry import main
from opshift.opsets import changelog, schemas
from opshift.verify import verify

pytestmark = pytest.mark.usefixtures("models_run_here")


def test_the_table_agrees_with_the_installed_onnx():
    theirs = {tuple(row[1:4]) for row in helper.VERSION_TABLE}
    ours = {(release.ir, release.onnx, release.ml) for release in versions.RELEASES}
    assert theirs <= ours


def test_the_command():
    text = CliRunner().invoke(main, ["versions"]).stdout
    assert ["1.10", "8", "15", "2", "1", "-"] in [line.split() for line in text.splitlines()]
    raw = CliRunner().invoke(main, ["versions", "--output-format", "json"]).stdout
    assert json.loads(raw)["releases"][0]["ir"] == 3


DOMAINS = st.from_regex(r"[a-z]+(\.[a-z]+){0,3}", fullmatch=True).map(
    lambda d: "" if d == "ai.onnx" else d
)
NAMES = st.from_regex(r"[A-Za-z_]\w*", fullmatch=True)


@given(st.builds(OperatorId, st.just("") | DOMAINS, NAMES, st.integers(1, 10**6)))
def test_what_is_printed_is_read(one):
    assert OperatorId.parse(str(one)) == one


def test_the_prose_form():
    assert OperatorId.parse("com.acme.FastConv:3") == OperatorId("com.acme", "FastConv", 3)
    assert OperatorId.parse("Relu:14") == OperatorId.parse("ai.onnx.Relu:14")
    assert str(OperatorId("", "Relu", 14)) == "ai.onnx.Relu:14"
    assert OperatorId.of("ai.onnx", "Relu", 20) == OperatorId("", "Relu", 14)


@pytest.mark.parametrize(
    "text", ["Relu", "Relu:", "Relu:0", ":3", "com.acme.:3", "a b:1", "Relu:x"]
)
def test_what_names_no_operator(text):
    with pytest.raises(BadTarget, match=r"DOMAIN\.NAME:VERSION"):
        OperatorId.parse(text)


def test_an_operator_that_is_not_there_yet():
    with pytest.raises(BadTarget, match=r"ai\.onnx 13 has no operator 'Gelu'"):
        OperatorId.of("", "Gelu", 13)


@pytest.mark.parametrize("domain", versions.DOMAINS)
def test_the_installed_release_is_known_without_asking_onnx(domain):
    own = onnx.defs.C.schema_version_map().get(domain, (0, 0))[1]
    assert versions.installed().version(domain) == min(own, versions.RELEASES[-1].version(domain))
    assert changelog.latest(domain) == schemas.latest(domain) == (own or None)


def test_a_domain_that_needs_a_newer_default_domain_is_stepped_beside_it():
    attributes = (
        "classlabels_int64s=[7, 8, 9], nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2],"
        ' nodes_featureids=[0, 0, 0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],'
        " nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], nodes_values=[0.5, 0.0, 0.0],"
        " class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 1], class_weights=[-1.5, 0.5]"
    )
    m = onnx.parser.parse_model(
        '<ir_version: 4, opset_import: ["": 6, "ai.onnx.ml": 4]>'
        " g (float[N,2] x) => (int64[N] l, float[N,3] s)"
        f" {{ l, s = ai.onnx.ml.TreeEnsembleClassifier<{attributes}>(x) }}"
    )
    result = opshift.convert(m, {"ai.onnx.ml": 5})
    assert result.report.result == {"": 6, "ai.onnx.ml": 5}
    pytest.importorskip("onnxruntime")  # nothing else runs ensembles of trees
    assert verify(m, result.model).equal
