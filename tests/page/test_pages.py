# SPDX-License-Identifier: Apache-2.0
"""The pages of convert, plan and verify are complete, load nothing, and escape all names."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import opshift
import pytest
from browser import MISSING, Browser
from click.testing import CliRunner
from elements import assert_alone
from onnx import TensorProto, helper, numpy_helper, parser
from opshift import terms
from opshift.cli.entry import main
from opshift.convert import api
from opshift.errors import Refused
from opshift.look import pages, rehearse
from opshift.model import weights
from opshift.report import Report, StepReport, Work
from opshift.verify import Row, Side, Verification

pytestmark = pytest.mark.usefixtures("models_run_here")

EVIL = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
)
SQUEEZE = """<ir_version: 7, opset_import: ["": 12]> g (float[1,2,1] x) => (float[2,1] a, float[1,2] b, float[2,1] c)
 { a = Squeeze<axes=[0]>(x)  b = Squeeze<axes=[2]>(x)  t = Relu(x)  c = Squeeze<axes=[0]>(t) }"""
ERF = '<ir_version: 8, opset_import: ["": 13]> g (double[2] x) => (double[2] y) { y = Erf(x) }'


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    onnx.save(parser.parse_model(SQUEEZE), tmp_path / "squeeze.onnx")
    onnx.save(parser.parse_model(ERF), tmp_path / "erf.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evil_model():
    """Returns a model in which every name is markup."""
    names = [EVIL + str(i) for i in range(4)]
    nodes = [
        helper.make_node("Squeeze", names[:1], names[1:2], name=EVIL, axes=[0]),
        helper.make_node(EVIL, names[1:2], names[2:3], domain=EVIL, note=EVIL),
    ]
    graph = helper.make_graph(
        nodes, EVIL,
        [helper.make_tensor_value_info(names[0], TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info(names[2], TensorProto.FLOAT, None)],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 12), helper.make_opsetid(EVIL, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=7)


def test_convert_writes_a_page(folder):
    done = run("convert", "squeeze.onnx", "-o", "out.onnx", "--to", "13", "--report", "out.html")
    assert done.exit_code == 0, done.output
    seen = assert_alone((folder / "out.html").read_text())
    for text in ("squeeze.onnx", "Converted: opset 12 → 13", "Opset12 → 13", "Rewritten places"):
        assert text in seen.text
    assert seen.text.index("Converted") < seen.text.index("Rewritten places")
    assert "onnxruntime" in seen.text
    assert seen.tags.count("svg") == 2  # one form, before and after
    assert "3 places of this kind" in seen.text
    assert "axes = varies" in seen.text
    assert "prefers-color-scheme: dark" in (folder / "out.html").read_text()
    assert sorted(path.name for path in folder.iterdir()) == [
        "erf.onnx",
        "out.html",
        "out.onnx",
        "squeeze.onnx",
    ]


def test_the_page_changes_nothing_else(folder):
    plain = run("convert", "squeeze.onnx", "-o", "a.onnx", "--to", "13")
    paged = run("convert", "squeeze.onnx", "-o", "b.onnx", "--to", "13", "--report", "b.html")
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()
    assert plain.stdout.replace("a.onnx", "b.onnx") == paged.stdout
    again = run("convert", "squeeze.onnx", "-o", "b.onnx", "--to", "13", "--report", "c.html")
    assert again.exit_code == 0
    assert (folder / "b.html").read_bytes() == (folder / "c.html").read_bytes()


def test_a_header_that_changes_alone_has_a_page(folder):
    done = run("convert", "squeeze.onnx", "--dry-run", "--ir", "8", "--report", "ir.html")
    assert done.exit_code == 0, done.output
    seen = assert_alone((folder / "ir.html").read_text())
    assert "IR version7 → 8" in seen.text
    assert "svg" not in seen.tags


def test_a_refusal_has_a_page_with_every_blocker_and_its_cure(folder):
    for command in (("convert", "--dry-run"), ("plan",)):
        name, *more = command
        done = run(name, "erf.onnx", *more, "--to", "8", "--report", "no.html")
        assert done.exit_code == 1, done.output
        seen = assert_alone((folder / "no.html").read_text())
        with pytest.raises(Refused) as refused:
            opshift.convert_version(folder / "erf.onnx", 8)
        (blocker,) = refused.value.refusals
        with terms.called_by(terms.Caller.COMMAND):
            assert blocker.why.cure.replace("`", "") in seen.text
        assert blocker.detail in seen.text
        assert "What blocks the conversion" in seen.text
        assert "bad" in seen.classes
        assert "Runtimes that run the model" in seen.text
        assert "Opset13" in seen.text
        assert "svg" not in seen.tags


def test_a_page_names_the_assumption_that_would_help(folder):
    text = "(float[N,4] x, int64[k] s) => (float[a,b] y) { y = Reshape<allowzero=1>(x, s) }"
    onnx.save(
        parser.parse_model(f'<ir_version: 9, opset_import: ["": 19]> g {text}'), "reshape.onnx"
    )
    done = run("convert", "reshape.onnx", "-o", "o.onnx", "--to", "6", "--report", "r.html")
    assert done.exit_code == 1
    assert "NO_ZERO_DIMS: If no tensor" in (folder / "r.html").read_text()
    for words in (["plan", "reshape.onnx"], ["convert", "reshape.onnx", "-o", "o.onnx"]):
        allowed = run(*words, "--to", "6", "--assume", "no-zero-dims", "--report", "a.html")
        assert allowed.exit_code == 0, allowed.output
        assert "Assumed: " in (folder / "a.html").read_text()


def test_plan_and_verify_write_pages(folder):
    assert run("plan", "squeeze.onnx", "--to", "13", "--report", "plan.html").exit_code == 0
    seen = assert_alone((folder / "plan.html").read_text())
    assert "Possible: opset 12 → 13" in seen.text
    assert "The changes of each operator" in seen.text
    assert seen.tags.count("svg") == 2
    assert run("convert", "squeeze.onnx", "-o", "out.onnx", "--to", "13").exit_code == 0
    assert run("verify", "squeeze.onnx", "out.onnx", "--report", "v.html").exit_code == 0
    seen = assert_alone((folder / "v.html").read_text())
    assert "Equal: both models compute the same results." in seen.text
    assert "Opset12 → 13" in seen.text
    assert seen.tags.count("svg") == 2


def test_a_page_names_the_folder_and_the_file_of_each_model(folder):
    name = folder.name
    run("plan", "squeeze.onnx", "--to", "13", "--report", "plan.html")
    assert f"<h1>{name}/" in (folder / "plan.html").read_text().replace("<wbr>", "")
    run("verify", "squeeze.onnx", "squeeze.onnx", "--report", "v.html")
    seen = assert_alone((folder / "v.html").read_text())
    assert seen.text.count(f"{name}/squeeze.onnx and {name}/squeeze.onnx") == 2  # title, heading


def test_the_proof_stands_under_the_verdict(folder):
    words = ("--to", "13", "--verify", "--report", "p.html")
    done = run("convert", "squeeze.onnx", "-o", "out.onnx", *words)
    assert done.exit_code == 0, done.output
    proof = "Equal: both models compute the same results. No number differs."
    assert done.stdout.splitlines()[1] == proof
    seen = assert_alone((folder / "p.html").read_text())
    assert seen.text.index("Converted") < seen.text.index(proof) < seen.text.index("IR version")
    assert seen.text.count(proof) == 1


def test_a_verified_conversion_compares_the_numbers(folder):
    words = ("convert", "squeeze.onnx", "-o", "out.onnx", "--to", "13", "--verify")
    assert run(*words, "--report", "out.html").exit_code == 0
    seen = assert_alone((folder / "out.html").read_text())
    assert "Comparison of the numbers" in seen.text
    assert "Converted: opset 12 → 13" in seen.text


def test_names_stay_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(evil_model(), tmp_path / "evil.onnx")
    for words in (
        ("convert", "evil.onnx", "-o", "out.onnx", "--to", "13"),
        ("plan", "evil.onnx", "--to", "13"),
        ("convert", "evil.onnx", "--dry-run", "--to", "13", "--unknown-domains", "refuse"),
    ):
        run(*words, "--report", "page.html")
        seen = assert_alone((tmp_path / "page.html").read_text())
        assert "document.title='owned'" in seen.text
        (tmp_path / "page.html").unlink()


def test_reports_of_hostile_text_stay_text():
    work = Work(EVIL, (EVIL,), EVIL, 1)
    report = Report({"": 1, EVIL: 1}, {"": 2}, 3, 4, (StepReport(EVIL, 1, 2, (work,), {EVIL: 1}),),
                    (EVIL,), (EVIL,), (EVIL,), assumptions=(EVIL,))  # fmt: skip
    assert_alone(report.to_html())
    rows = (Row(EVIL, EVIL, "different", EVIL),)
    found = Verification((Side(EVIL, EVIL, EVIL), Side("b", "e", "w")), 0, rows, (EVIL,))
    assert_alone(found.to_html())
    assert_alone(dataclasses.replace(found, rows=()).to_html())


def test_python_gives_the_same_page(folder):
    model = onnx.load(folder / "squeeze.onnx")
    result = opshift.convert(model, 13)
    assert "svg" not in assert_alone(result.to_html()).tags
    assert result.to_html() == result.report.to_html()
    drawn = assert_alone(result.to_html(model))
    assert drawn.tags.count("svg") == 2
    by_path = assert_alone(result.to_html(folder / "squeeze.onnx"))
    assert by_path.tags.count("svg") == 2
    assert "Possible" in assert_alone(opshift.plan(model, 13).to_html()).text
    with pytest.raises(Refused) as refused:
        opshift.convert(onnx.load(folder / "erf.onnx"), 8)
    assert "What blocks" in assert_alone(refused.value.to_html()).text


def test_one_page_is_of_one_model(folder):
    done = run("convert", "squeeze.onnx", "erf.onnx", "--check", "--to", "13", "--report", "p.html")
    assert done.exit_code == 2
    assert "opshift batch" in done.stderr
    assert not (folder / "p.html").exists()


def test_sizes_are_those_of_the_files(tmp_path):
    data = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    large = numpy_helper.from_array(np.ones((300, 300), np.float32), "v")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], [data, large])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "in.onnx")
    onnx.save(
        model,
        tmp_path / "out.onnx",
        save_as_external_data=True,
        location="out.data",
        size_threshold=0,
    )
    inside = (tmp_path / "in.onnx").stat().st_size
    skeleton, large_tensors = weights.carve_file(tmp_path / "in.onnx")
    assert abs(large_tensors.size_with(skeleton) - inside) < 16  # lengths of lengths
    outside = sum((tmp_path / name).stat().st_size for name in ("out.onnx", "out.data"))
    skeleton, large_tensors = weights.carve_file(tmp_path / "out.onnx")
    assert outside - 4096 * 2 < large_tensors.size_with(skeleton) <= outside  # data files have gaps
    (tmp_path / "out.data").unlink()
    assert (
        run("plan", tmp_path / "out.onnx", "--to", "12", "--report", tmp_path / "p.html").exit_code
        == 0
    )
    assert "Opset13 → 12" in assert_alone((tmp_path / "p.html").read_text()).text


@pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")
def test_a_browser_shows_a_page_without_scrolling_sideways(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(evil_model(), tmp_path / "evil.onnx")
    run("convert", "evil.onnx", "-o", "out.onnx", "--to", "13", "--report", "page.html")
    with Browser(width=390) as browser:
        browser.open((tmp_path / "page.html").as_uri())
        wide, room = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= room == 390
        assert browser.run("return document.title") != "owned"
        assert browser.run("return document.images.length") == 0


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (["convert", "squeeze.onnx", "--to", "13", "-o", "o.onnx"], 1),
        (["convert", "erf.onnx", "--to", "9", "-o", "o.onnx"], 1),
        (["plan", "squeeze.onnx", "--to", "13"], 3),  # the plan also tries how far a model can go
    ],
)
def test_a_page_needs_no_conversion_of_its_own(folder, monkeypatch, words, most):
    counted = []
    own = api.convert
    for module in (api, pages, rehearse):
        monkeypatch.setattr(
            module, "convert", lambda *words: (counted.append(words), own(*words))[1]
        )
    assert run(*words).exit_code == 0
    without = len(counted)
    assert run(*words, "--report", "page.html").exit_code == 0
    assert len(counted) == 2 * without <= 2 * most


def test_a_page_shows_the_result_and_not_what_writing_left_of_it(folder):
    values = np.arange(4096, dtype=np.float32).reshape(64, 64)
    node = helper.make_node("Squeeze", ["x"], ["s"], axes=[0])
    graph = helper.make_graph(
        [node, helper.make_node("MatMul", ["s", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 64])],
        [numpy_helper.from_array(values, "w")],
    )  # fmt: skip
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7),
        "w.onnx",
    )
    words = ("convert", "w.onnx", "--to", "13", "-o", "o.onnx", "--report")
    assert run(*words, "inside.html").exit_code == 0
    assert run(*words, "beside.html", "--external-data", "one-file").exit_code == 0
    inside, beside = ((folder / name).read_text() for name in ("inside.html", "beside.html"))
    assert inside == beside


@pytest.mark.parametrize("command", ["convert", "plan"])
def test_a_report_with_another_ending_is_refused_before_the_work(command, folder):
    done = run(command, "squeeze.onnx", "--to", "14", "--report", "report.pdf")
    assert done.exit_code == 2
    assert "report.pdf: a report is an HTML page; give it a name that ends in .html" in done.output
    assert not (folder / "report.pdf").exists()
