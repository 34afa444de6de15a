# SPDX-License-Identifier: Apache-2.0
"""The HTML report is complete, loads nothing, and escapes names and messages."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape

import onnx
import opshift
import pytest
from browser import MISSING, Browser
from elements import assert_alone
from opshift import Request
from opshift.results import as_csv
from opshift.zoo.migrate import migrate, prepare
from opshift.zoo.outcome import Blocker, Fate, Outcome
from opshift.zoo.page import html, sankey
from opshift.zoo.summary import Summary
from zoos import zoo

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">&{{data}}.onnx"


def outcomes():
    blockers = (
        Blocker(EVIL, "Erf", "", (9, 8), "NOT_EXPRESSIBLE", EVIL),
        Blocker("n", "Evil<b>", "acme", (13, 12), "NEEDS_RANK", "a rank"),
    )
    runs = (("tensorrt==9", "no", "yes"), ("tract", "yes", "yes"))
    work = {"nodes": (10, 14), "rewritten": {"Resize": 2, "Pad": 1}}
    yield Outcome("a.onnx", Fate.OK, source={"": 12}, result={"": 8}, size=10, runs=runs, **work)
    yield Outcome("b.onnx", Fate.SKIPPED, source={"": 11}, result={"": 8}, size=10)
    yield Outcome(EVIL, Fate.REFUSED, EVIL, EVIL, {"": 13}, {"": 9}, blockers, size=10)
    yield Outcome("d\udcff\u202e.onnx", Fate.CRASHED, "SIGSEGV", "SIGSEGV: " + EVIL)
    yield Outcome("ml.onnx", Fate.OK, source={"ai.onnx.ml": 2}, result={"ai.onnx.ml": 2})


def page(listed):
    listed = list(listed)
    summary = Summary(len(listed))
    for outcome in listed:
        summary.add(outcome)
    run = html.RunTimes("opshift batch models/ --to 8", 1_763_800_000, 75)
    return html.page(summary, listed, prepare(Request.of(8), "copy"), run)


def data(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def test_names_and_messages_stay_text():
    text = page(outcomes())
    seen = assert_alone(text, scripts=2)
    assert EVIL in seen.text
    assert EVIL in [row[0] for row in data(text)["rows"]]


def test_the_page_tells_how_it_was_made():
    seen = assert_alone(page(outcomes()), scripts=2)
    for text in ("5 models to opset 8", "2025-11-22 08:26 UTC", "1 min 15 s", f"opshift {opshift.__version__}, onnx ",
                 "opshift batch models/ --to 8", "2 models of 5 failed.", "10 → 14"):  # fmt: skip
        assert text in seen.text
    assert html.RunTimes(seconds=3725).duration == "1 h 2 min"
    assert html.RunTimes(seconds=5.6).duration == "5.6 s"


def test_failures_come_first_and_everything_is_counted():
    text = page(outcomes())
    for words in (
        '<b class="good">2</b>',
        '<b class="caution">1</b>',
        "acme.Evil&lt;b&gt;",
        "9 → 8",
    ):
        assert words in text
    found = data(text)
    assert [row[1] for row in found["rows"]] == ["refused", "crashed", "ok", "ok", "skipped"]
    evil = found["rows"][0]
    assert evil[9][0][1:6] == ["Erf", "", 9, 8, "NOT_EXPRESSIBLE"]
    assert found["options"] == "--to 8"
    assert "prefers-color-scheme: dark" in text
    seen = assert_alone(text, scripts=2).text
    assert seen.index("What failed, by reason") < seen.index("Opsets before and after")


def test_what_stands_for_models_names_a_filter():
    filters = [
        json.loads(unescape(f)) for f in re.findall(r'data-filter="(.*?)"', page(outcomes()))
    ]
    assert {"outcome": "crashed"} in filters
    assert {"outcome": "refused", "why": EVIL} in filters
    assert {"before": "12", "after": "8"} in filters
    assert {"op": "acme.Evil<b>", "step": [13, 12]} in filters
    assert {"target": "tensorrt==9", "runs": "gained"} in filters


def test_the_bands_of_the_sankey_are_as_wide_as_there_are_models():
    svg = sankey.draw({("9", "21", "good"): 3, ("11", "21", "good"): 1, ("11", "<b>", "bad"): 4})
    wide = [float(found) for found in re.findall(r'stroke-width="([\d.]+)"', svg)]
    assert wide == [sankey.TALL * models / 8 for models in (3, 1, 4)]
    assert re.findall(r">([^<]+)</text>", svg) == [
        "opset 9 (3)", "opset 11 (5)", "opset 21 (4)", "&lt;b&gt; (4)",
    ]  # fmt: skip
    assert "<b>" not in svg
    assert "No models" in sankey.draw({})


def test_a_page_of_nothing_and_of_much():
    assert data(page([]))["rows"] == []
    many = [
        Outcome(f"m{i}.onnx", Fate.OK, source={"": i % 20}, result={"": 8}) for i in range(10_000)
    ]
    text = page(many)
    assert len(data(text)["rows"]) == 10_000
    assert len(text) < 1_500_000
    assert text.count("<tr") < 20  # rows are made when they are looked at


def test_a_run_writes_its_report(tmp_path):
    zoo(tmp_path / "src", 2)
    migrate(tmp_path / "src", None, "onnxruntime==1.16", report=tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert [row[1] for row in data(text)["rows"]] == ["ok", "ok"]
    assert data(text)["options"].startswith("--for 'onnxruntime==")
    migrate(tmp_path / "src", None, 13, report=tmp_path / "report.html")
    (before, after), rewritten = data((tmp_path / "report.html").read_text())["rows"][0][8]
    assert (before, after) == (1, 1)
    assert rewritten == {"Softmax": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "src"]


browsers = pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")
COUNT = "return document.getElementById('count').textContent"
PLAN = "return document.querySelector('.plan').textContent"
NAMES = "return [...document.querySelectorAll('#rows a')].map(one => one.textContent)"


def press(browser, wanted):
    """Clicks on the link for these models."""
    browser.run(f"""
        const wanted = JSON.stringify({json.dumps(wanted)});
        const same = one => JSON.stringify(JSON.parse(one.dataset.filter)) === wanted;
        const found = [...document.querySelectorAll("[data-filter]")].find(same);
        found.dispatchEvent(new MouseEvent("click", {{bubbles: true}}));
    """)


@browsers
def test_a_browser_shows_the_rows_and_runs_nothing_of_theirs(tmp_path):
    listed = [*outcomes(), *(Outcome(f"m{i}.onnx", Fate.OK) for i in range(10_000))]
    path = tmp_path / "report.html"
    path.write_text(page(listed))
    with Browser() as browser:
        browser.open(path.as_uri())
        assert browser.run("return document.title") == "opshift batch: 10,005 models to opset 8"
        assert browser.run(COUNT) == "10005 of 10005"
        assert browser.run("return document.images.length") == 0
        assert browser.run("return document.querySelectorAll('#rows tr').length") == 100
        browser.open(f"{path.as_uri()}#not_expressible%20ERF")
        assert browser.run(COUNT) == "1 of 10005"
        browser.run("document.querySelector('#rows td:last-child').click()")
        assert EVIL in browser.run(PLAN)
        assert "Erf '" in browser.run(PLAN)
        assert browser.run("return document.title").startswith("opshift batch")
        browser.open(f"{path.as_uri()}#m9999")
        browser.run("document.querySelector('#rows a').click()")
        assert browser.run("return location.hash") == "#model=m9999.onnx"
        browser.open("about:blank")
        browser.open(f"{path.as_uri()}#model=m9998.onnx")
        assert browser.run(COUNT) == "1 of 10005"
        assert "opshift plan 'm9998.onnx' --to 8" in browser.run(PLAN)
        browser.open(f"{path.as_uri()}#100%")
        assert browser.run(COUNT) == "0 of 10005"


@browsers
def test_clicks_filter_the_rows_and_heads_sort_them(tmp_path):
    (tmp_path / "report.html").write_text(page(outcomes()))
    with Browser() as browser:
        browser.open((tmp_path / "report.html").as_uri())
        for wanted, names in (
            ({"outcome": "skipped"}, ["b.onnx"]),
            ({"before": "12", "after": "8"}, ["a.onnx"]),
            ({"before": "13", "after": "refused"}, [EVIL]),
            ({"before": "unknown", "after": "crashed"}, ["d\\udcff\\u202e.onnx"]),
            ({"after": "other domains"}, ["ml.onnx"]),
            ({"outcome": "refused", "why": EVIL}, [EVIL]),
            ({"op": "Erf", "step": [9, 8]}, [EVIL]),
            ({"target": "tensorrt==9", "runs": "gained"}, ["a.onnx"]),
            ({"target": "tensorrt==9", "runs": "now"}, []),
        ):
            press(browser, wanted)
            assert browser.run(NAMES) == names, wanted
        browser.run("document.querySelector('#filters button').click()")
        assert browser.run(COUNT) == "5 of 5"
        head = "[...document.querySelectorAll('#head button')].find(one => /^{}/.test(one.textContent))"
        browser.run(head.format("Model") + ".click()")
        up = browser.run(NAMES)
        browser.run(head.format("Model") + ".click()")
        assert browser.run(NAMES) == up[::-1]
        browser.run(head.format("Rewrites") + ".click()")
        assert browser.run(NAMES)[0] == "a.onnx"
        assert browser.run("return document.querySelector('#rows tr').textContent").count("10 → 14")


@browsers
def test_the_rows_are_offered_in_the_form_of_the_results(tmp_path):
    formulas = (Outcome(f"{text}1,2.onnx", Fate.OK) for text in ("=", " '-", "\uff20"))
    listed = [*outcomes(), *formulas]
    (tmp_path / "report.html").write_text(page(listed))
    told = json.loads(json.dumps([outcome.row() for outcome in listed]))
    expected = {row["model"]: row for row in told}
    with Browser() as browser:
        browser.open((tmp_path / "report.html").as_uri())
        offered = json.loads(browser.run("return asJson(hits)"))
        assert {row["model"]: row for row in offered} == expected
        told = list(csv.DictReader(io.StringIO(browser.run("return asCsv(hits)"))))
        own = as_csv([outcome.case() for outcome in listed], "")
        by_name = {row["model"]: row for row in csv.DictReader(io.StringIO(own))}
        for row in told:
            seconds = float(row.pop("seconds")), float(by_name[row["model"]].pop("seconds"))
            assert seconds[0] == seconds[1]
            assert row == by_name[row["model"]]


@browsers
def test_a_phone_shows_it_without_scrolling_sideways(tmp_path):
    (tmp_path / "report.html").write_text(page(outcomes()))
    with Browser(width=390) as browser:
        browser.open((tmp_path / "report.html").as_uri())
        wide, room = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= room == 390


@browsers
def test_it_is_dark_where_the_reader_wants_it(tmp_path):
    (tmp_path / "report.html").write_text(page(outcomes()))
    papers = []
    for dark in (False, True):
        with Browser(dark=dark) as browser:
            browser.open((tmp_path / "report.html").as_uri())
            papers.append(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert papers == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"]


def test_the_report_tells_in_which_runtimes_the_models_run(tmp_path):
    (tmp_path / "src").mkdir()
    for name, opset in (("old", 10), ("new", 20)):
        head = f'<ir_version: 5, opset_import: ["": {opset}]>'
        text = f"{head} g (float[2] x) => (float[2] y) {{ y = Relu(x) }}"
        onnx.save(onnx.parser.parse_model(text), tmp_path / "src" / f"{name}.onnx")
    report, dst = tmp_path / "report.html", tmp_path / "dst"
    expected = [
        {"target": "onnxruntime==1.10", "models": 2, "now": 1, "after": 2, "not_known": 0},
        {"target": "onnxruntime==1.31", "models": 2, "now": 2, "after": 2, "not_known": 0},
    ]
    names = ("onnxruntime==1.10", "onnxruntime==1.31")
    migrate(tmp_path / "src", dst, 10)  # the same results, and known ones do not know the runtimes
    for _ in range(2):
        summary = migrate(tmp_path / "src", dst, 10, report=report, runtimes=names)
        assert summary.as_dict()["runtimes"] == expected
        assert summary.fates["skipped"] == 2
    text = report.read_text()
    row = re.search(r"<tr><td[^>]*><span>onnxruntime==1.10(.*?)<tr>", text)[1]
    assert re.findall(r">(\d+)<", row + "<") == ["2", "1", "2", "1", "0", "0"]
    assert "2 models of" not in text
    assert any("onnxruntime==1.31" in line.text for line in summary.lines())
