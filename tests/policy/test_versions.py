"""The table of releases, and operators by their full name."""

from __future__ import annotations

import json

import onnx
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from opshift import BadTarget, OperatorId, versions
from opshift.cli.entry import main
from opshift.opsets import changelog, schemas


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
