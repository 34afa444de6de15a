# SPDX-License-Identifier: Apache-2.0
"""Each form that a runtime misreads is found in its examples, and only for its releases."""

from __future__ import annotations

import re
from types import SimpleNamespace

import onnx
import pytest
from opshift import Refused, accepts, convert_file
from opshift.adapter import alternative
from opshift.author.misreadings import NO_TEXT, Misread, all_misreadings, misread
from opshift.author.registry import installed
from opshift.opsets import schemas, targets
from opshift.testing.case_files import examples_of
from text_models import model

DECLARED = installed().each(Misread)
ROWS = [row for row in targets.table() if row.name in {one.runtime for one in DECLARED}]


def named(one):
    return f"{one.run.__module__.rpartition('.')[2]}.{one.run.__name__} {one.runtime}"


@pytest.mark.parametrize("one", DECLARED, ids=named)
def test_the_form_is_found_in_each_example(one, tmp_path):
    row = next(row for row in ROWS if one.concerns(row))
    assert examples_of(one)
    for example in examples_of(one):
        imports = dict(example.imports or {})
        if imports[""] > (schemas.latest("") or 0):
            pytest.skip("the installed onnx is too old")
        others = (f', "{domain}" : {version}' for domain, version in imports.items() if domain)
        proto = model(example.graph, imports[""], more="".join(others))
        path = tmp_path / "m.onnx"
        onnx.save(proto, path)
        answer = accepts(path, row.shown)
        doubt = "computes the same on all processors" if one.processors else "handles this node"
        words = tuple(one.described(op) for op in one.ops)
        sure = [text for text in answer.reasons if text.startswith(f"{row.shown}: ")]
        unsure = [
            text for text in answer.unknown if text.startswith(f"whether {row.shown} {doubt}")
        ]
        listed = unsure if one.processors else [*sure, *unsure]
        assert any(text.partition(": ")[2].startswith(words) for text in listed), answer
        assert answer.answer != "yes"


@pytest.mark.parametrize("one", DECLARED, ids=named)
def test_each_form_has_a_source_a_date_and_releases_that_are_rows(one):
    assert one.source
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", one.date)
    ends = {end for part in one.releases.split(", ") for end in part.split("..")}
    for end in ends:
        row = targets.find(f"{one.runtime}=={end}")
        assert not row.remark, f"{end} is no known release"
        assert one.concerns(row)
    assert any(not one.concerns(row) for row in ROWS)


def test_a_name_for_a_release_of_another_runtime_has_its_forms(tmp_path, monkeypatch):
    own = tmp_path / "t.toml"
    own.write_text(
        '[box]\nreleases = [{versions = "3", same_as = "onnxruntime==1.14.1"},'
        ' {versions = "4", same_as = "box==3"}]'
    )
    monkeypatch.setenv("OPSHIFT_TARGETS", str(own))
    wanted = {one.says for _, one in all_misreadings(installed(), targets.find("ort 1.14"))}
    assert wanted
    for version in ("3", "4"):
        found = all_misreadings(installed(), targets.find(f"box=={version}"))
        assert {one.says for _, one in found} == wanted


def test_the_order_of_the_forms_does_not_depend_on_the_order_of_imports():
    release = targets.find("ort 1.14")
    reversed_rules = SimpleNamespace(each=lambda kind: installed().each(kind)[::-1])
    assert all_misreadings(reversed_rules, release) == all_misreadings(installed(), release)


def test_a_form_counts_from_its_first_to_below_its_last_opset(with_adapters, tmp_path):
    @misread("Elu", "onnxruntime 1.10", "it reads no alpha", source="2026-01-02 us",
             since=8, before=12)  # fmt: skip
    def with_alpha(node):
        return node.has("alpha")

    with_adapters(with_alpha)
    path = tmp_path / "m.onnx"
    text = "(float[2] x) => (float[2] y) { y = Elu<alpha = 0.5>(x) }"
    for opset in (7, 8, 11, 12):
        onnx.save(model(text, opset), path)
        for release in ("1.9", "1.10"):
            found = "it reads no alpha" in str(accepts(path, f"onnxruntime=={release}").reasons)
            assert found == (8 <= opset < 12 and release == "1.10")


def test_the_docstring_of_a_function_describes_the_fault():
    @misread("Elu", "onnxruntime 1.10", source="2026-01-02 us")
    def with_alpha(node):
        """{op} ignores alpha."""
        return node.has("alpha")

    assert with_alpha.described("Elu") == "Elu ignores alpha"
    nameless = misread("Elu", "onnxruntime 1.10", source="2026-01-02 us")(lambda node: True)
    assert nameless.described("Elu") == "Elu of this form fails or computes other numbers"


def test_every_fault_is_described():
    assert all(one.says != NO_TEXT for one in installed().each(Misread))


def test_a_fact_that_is_missing_is_no_misreading(with_adapters, tmp_path):
    @misread("Elu", "onnxruntime 1.10", "it is of rank 2", source="2026-01-02 us")
    def of_rank_2(node):
        return node["X"].rank == 2

    with_adapters(of_rank_2)
    path = tmp_path / "m.onnx"
    for shape, found in (("[2,3]", True), ("[2]", False), ("", False)):
        text = "(float[4] v, int64[n] s) => (float y) { x = Reshape(v, s) y = Elu(x) }"
        if shape:
            text = f"(float{shape} x) => (float{shape} y) {{ y = Elu(x) }}"
        onnx.save(model(text, 13), path)
        assert ("of rank 2" in str(accepts(path, "onnxruntime==1.10").reasons)) == found


def test_a_form_that_stays_misread_is_not_written_for_ever(with_adapters, tmp_path):
    """The rule depends on the neighbours of a node, so it is checked after the node is written."""

    @misread("Tanh", "onnxruntime 1.10", "it is misread", source="2026-01-02 us")
    def everywhere(node, around):
        return True

    @alternative("Tanh", runtime="onnxruntime==1.10")
    def twice(node, op):
        """The other node of the double negative."""
        return op.Tanh(op.Neg(op.Neg(node["input"])))

    with_adapters(everywhere, twice)
    path, result = tmp_path / "m.onnx", tmp_path / "result.onnx"
    onnx.save(model("(float[2] x) => (float[2] y) { y = Tanh(x) }", 13), path)
    with pytest.raises(Refused, match="it is misread"):
        convert_file(path, result, "onnxruntime==1.10")


BY_PROCESSOR = [one for one in DECLARED if one.processors]


@pytest.mark.parametrize("one", BY_PROCESSOR, ids=named)
def test_a_form_that_some_processors_misread_gets_one_that_all_compute_alike(one, tmp_path):
    """No form of DynamicQuantizeLSTM is independent of the number of threads."""
    expected = "not known" if "cores" in one.processors else "yes"
    rows = [row for row in ROWS if one.concerns(row)]
    path, result = tmp_path / "m.onnx", tmp_path / "result.onnx"
    for example in examples_of(one):
        imports = dict(example.imports)
        others = (f', "{domain}" : {version}' for domain, version in imports.items() if domain)
        onnx.save(model(example.graph, imports[""], more="".join(others)), path)
        assert accepts(path, rows[-1].shown).answer == "not known"
        for row in (rows[0], rows[-1]):
            convert_file(path, result, row.shown)
            assert accepts(result, row.shown).answer == expected, accepts(result, row.shown)


def test_a_form_that_some_processors_misread_is_kept_if_no_other_is_declared(
    with_adapters, tmp_path
):
    @misread("Elu", "onnxruntime 1.16", "{op} is rough", source="2026-01-02 us",
             processors="old ones")  # fmt: skip
    def anywhere(node):
        return True

    with_adapters(anywhere)
    path, result = tmp_path / "m.onnx", tmp_path / "result.onnx"
    onnx.save(model("(float[2] x) => (float[2] y) { y = Elu(x) }", 13), path)
    report = convert_file(path, result, "onnxruntime==1.16")
    assert report.runtime is not None
    assert report.runtime.answer == accepts(result, "onnxruntime==1.16").answer == "not known"
    assert "Elu is rough on old ones" in str(report.runtime.unknown)
    assert [node.op_type for node in onnx.load(result).graph.node] == ["Elu"]
