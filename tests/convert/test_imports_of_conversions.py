# SPDX-License-Identifier: Apache-2.0
"""A result has one import for each domain, and only used and known domains."""

from __future__ import annotations

import onnx
import pytest
from opshift import BadTarget, Refused, convert_file, convert_version
from text_models import model

PLAIN = "(float[2] x) => (float[2] y) { y = Neg(x) }"
FOREIGN = "(float[2] x) => (float[2] y) { a = com.acme.Run(x) y = Neg(a) }"


def twice(version):
    proto = model(PLAIN, 13)
    proto.opset_import.add(domain="ai.onnx", version=version)
    proto.graph.node[0].domain = "ai.onnx"
    return proto


def test_imports_are_pruned_beside_another_ir_version(tmp_path):
    before = model(PLAIN, 13, ir=8, more=', "com.acme" : 4')
    onnx.save(before, tmp_path / "m.onnx")
    report = convert_file(
        tmp_path / "m.onnx", tmp_path / "o.onnx", ir_version=7, prune_imports=True
    )
    assert report.notes == ("removed the unused import com.acme 4",)
    after = onnx.load(tmp_path / "o.onnx")
    assert (len(after.opset_import), after.ir_version) == (1, 7)
    converted = convert_version(before, ir_version=7, prune_imports=False)
    assert len(converted.opset_import) == 2


def test_unknown_domains_are_refused_beside_another_ir_version():
    with pytest.raises(Refused, match=r"no installed package describes domain 'com\.acme'"):
        convert_version(
            model(FOREIGN, 13, more=', "com.acme" : 1'), ir_version=7, unknown_domains="refuse"
        )


def test_equal_imports_of_one_domain_become_one(tmp_path):
    after = convert_version(twice(13), 13)
    assert [(i.domain, i.version) for i in after.opset_import] == [("", 13)]
    onnx.checker.check_model(after)
    onnx.save(twice(13), tmp_path / "m.onnx")
    report = convert_file(tmp_path / "m.onnx", tmp_path / "m.onnx", 13, in_place=True)
    assert report.changed
    assert report.notes == ("ai.onnx was imported twice; one import was removed",)
    assert len(onnx.load(tmp_path / "m.onnx").opset_import) == 1


def test_different_imports_of_one_domain_are_refused():
    with pytest.raises(ValueError, match="at several versions"):
        convert_version(twice(12), 13)


def test_unknown_domains_pass_or_are_refused():
    before = model(FOREIGN, 13, more=', "com.acme" : 1')
    assert convert_version(before, 14).graph.node[0] == before.graph.node[0]
    with pytest.raises(
        Refused, match=r"com\.acme\.Run 'a' .* no installed package describes domain"
    ):
        convert_version(before, 14, unknown_domains="refuse")
    with pytest.raises(BadTarget, match="is 'drop'; give 'keep' or 'refuse'"):
        convert_version(before, 14, unknown_domains="drop")


def test_a_function_is_no_unknown_domain_and_uses_its_imports():
    text = """(float[2] x) => (float[2] y) { y = com.acme.Run(x) }
        <opset_import: ["" : 13, "ai.onnx.ml" : 2], domain: "com.acme"> Run (v) => (w) { w = Neg(v) }"""
    before = model(text, 13, more=', "com.acme" : 1, "ai.onnx.ml" : 2')
    after = convert_version(before, 13, unknown_domains="refuse", prune_imports=True)
    assert [i.domain for i in after.opset_import] == ["", "com.acme"]
    assert [i.domain for i in after.functions[0].opset_import] == [""]
    onnx.checker.check_model(after)
