"""The report: whole, alone, and deaf to what names and messages say."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import onnx
import pytest
from opshift import Request
from opshift.zoo.migrate import migrate, prepare
from opshift.zoo.outcome import Blocker, Fate, Outcome
from opshift.zoo.page import html, sankey
from opshift.zoo.summary import Summary
from zoos import zoo

from tools.lib.browser import MISSING, Browser

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">&{{data}}.onnx"


class Elements(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.links = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [v for k, v in attributes if k in ("src", "href", "action", "onerror")]

    def handle_data(self, data):
        self.words.append(data)


def outcomes():
    blockers = (
        Blocker(EVIL, "Erf", "", (9, 8), "NOT_EXPRESSIBLE", EVIL),
        Blocker("n", "Evil<b>", "acme", (13, 12), "NEEDS_RANK", "a rank"),
    )
    yield Outcome("a.onnx", Fate.OK, source={"": 12}, result={"": 8}, size=10)
    yield Outcome("b.onnx", Fate.SKIPPED, source={"": 11}, result={"": 8}, size=10)
    yield Outcome(EVIL, Fate.REFUSED, EVIL, EVIL, {"": 13}, {"": 9}, blockers, size=10)
    yield Outcome("d\udcff\u202e.onnx", Fate.CRASHED, "SIGSEGV", "SIGSEGV: " + EVIL)
    yield Outcome("ml.onnx", Fate.OK, source={"ai.onnx.ml": 2}, result={"ai.onnx.ml": 2})


def page(listed):
    listed = list(listed)
    summary = Summary(len(listed))
    for outcome in listed:
        summary.add(outcome)
    return html.page(summary, listed, prepare(Request.of(8), "copy"))


def data(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def test_names_and_messages_stay_text():
    text = page(outcomes())
    seen = Elements(text)
    assert seen.tags.count("script") == 2
    assert "img" not in seen.tags
    assert not seen.links
    assert "default-src 'none'" in text
    assert any(EVIL in words for words in seen.words)
    assert EVIL in [row[0] for row in data(text)["rows"]]
    text.encode("utf-8")  # no half of a character is left
    assert "\u202e" not in text


def test_the_page_needs_nothing_else():
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttp", page(outcomes()))


def test_everything_is_counted_and_listed():
    text = page(outcomes())
    for words in ('<b class="ok">2</b>', '<b class="refused">1</b>', "acme.Evil&lt;b&gt;", "9→8"):
        assert words in text
    rows = data(text)["rows"]
    assert len(rows) == 5
    evil = next(row for row in rows if row[1] == "refused")
    assert evil[6][0][1:5] == ["Erf", 9, 8, "NOT_EXPRESSIBLE"]
    assert data(text)["options"] == "--to 8"
    assert "prefers-color-scheme: dark" in text


def test_the_bands_of_the_sankey_are_as_wide_as_there_are_models():
    svg = sankey.draw({("9", "21", "ok"): 3, ("11", "21", "ok"): 1, ("11", "<b>", "bad"): 4})
    assert [float(wide) for wide in re.findall(r'stroke-width="([\d.]+)"', svg)] == [120, 40, 160]
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
    assert len(text) < 2_000_000
    assert text.count("<tr") < 20  # rows are made when they are looked at


def test_a_run_writes_its_report(tmp_path):
    zoo(tmp_path / "src", 2)
    migrate(tmp_path / "src", None, "onnxruntime==1.16", report=tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert [row[1] for row in data(text)["rows"]] == ["ok", "ok"]
    assert data(text)["options"].startswith("--for 'onnxruntime==")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "src"]


@pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")
def test_a_browser_shows_the_rows_and_runs_nothing_of_theirs(tmp_path):
    listed = [*outcomes(), *(Outcome(f"m{i}.onnx", Fate.OK) for i in range(10_000))]
    path = tmp_path / "report.html"
    path.write_text(page(listed))
    with Browser() as browser:
        browser.open(path.as_uri())
        assert browser.run("return document.title") == "opshift batch: 10005 models to ai.onnx 8"
        assert browser.run(COUNT) == "10005 of 10005"
        assert browser.run("return document.images.length") == 0
        assert browser.run("return document.querySelectorAll('#rows tr').length") == 200
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


@pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")
def test_it_is_dark_where_the_reader_wants_it(tmp_path):
    (tmp_path / "report.html").write_text(page(outcomes()))
    papers = []
    for dark in (False, True):
        with Browser(dark=dark) as browser:
            browser.open((tmp_path / "report.html").as_uri())
            papers.append(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert papers == ["rgb(255, 255, 255)", "rgb(21, 24, 28)"]


COUNT = "return document.getElementById('count').textContent"
PLAN = "return document.querySelector('.plan').textContent"


def test_the_report_tells_in_which_runtimes_the_models_run(tmp_path):
    (tmp_path / "src").mkdir()
    for name, opset in (("old", 10), ("new", 20)):
        head = f"<ir_version: 5, opset_import: [\"\": {opset}]>"
        text = f"{head} g (float[2] x) => (float[2] y) {{ y = Relu(x) }}"
        onnx.save(onnx.parser.parse_model(text), tmp_path / "src" / f"{name}.onnx")
    report, dst = tmp_path / "report.html", tmp_path / "dst"
    expected = [
        {"target": "onnxruntime==1.10", "models": 2, "now": 1, "after": 2},
        {"target": "onnxruntime==1.31", "models": 2, "now": 2, "after": 2},
    ]
    names = ("onnxruntime==1.10", "onnxruntime==1.31")
    migrate(tmp_path / "src", dst, 10)  # the same results, and known ones do not know the runtimes
    for _ in range(2):
        summary = migrate(tmp_path / "src", dst, 10, report=report, runtimes=names)
        assert summary.as_dict()["runtimes"] == expected
        assert summary.fates["skipped"] == 2
    text = report.read_text()
    assert "<tr><td>onnxruntime==1.10<td>2<td>1<td>2" in text
    assert any("onnxruntime==1.31" in line.text for line in summary.lines())
