# SPDX-License-Identifier: Apache-2.0
"""Measures how fast a browser opens the report of a batch of many models.

    python -m tools.bench report [--models 10000] [--shots FOLDER]
                                 [--write docs/explain/performance.md]

Needs Debian's chromium and chromium-driver. The clock is the browser's: from the start of the
navigation to the end of the load, when the table can be filtered, and to the first paint.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import tempfile
from pathlib import Path

from opshift import Request
from opshift.zoo.migrate import prepare
from opshift.zoo.outcome import Blocker, Fate, Outcome
from opshift.zoo.page.html import RunTimes, page
from opshift.zoo.summary import Summary

from tools.bench.page import machine, write_between_marks
from tools.lib.browser import MISSING, Browser

MARKS = "<!-- report:begin -->", "<!-- report:end -->"
OPERATORS = ("Resize", "Pad", "Loop", "GridSample", "Gelu", "Attention", "DFT", "STFT", "TopK")
TIMES = """
const [load] = performance.getEntriesByType("navigation");
const [paint] = performance.getEntriesByName("first-contentful-paint");
return [load.loadEventEnd, paint ? paint.startTime : null];
"""
FILTER = """
const find = document.getElementById("find"), begun = performance.now();
find.value = "needs_rank resize";
find.oninput();
return performance.now() - begun;
"""


def outcome(i: int) -> Outcome:
    """The i-th model of a zoo in which one of nine is refused and a few are worse."""
    name, source = f"vision/family-{i % 37}/model-{i:05}.onnx", {"": 7 + i % 12}
    if i % 9 == 0:
        op, bound = OPERATORS[i // 9 % len(OPERATORS)], 9 + i // 9 % 10
        detail = f"`{op}` needs the rank of its input, which nobody says"
        why = ("NEEDS_RANK", "NOT_EXPRESSIBLE", "NO_ADAPTER")[i // 9 % 3]
        blockers = tuple(
            Blocker(f"node_{k}", op, "", (bound + 1, bound), why, detail) for k in range(3)
        )
        return Outcome(name, Fate.REFUSED, why, detail, source, {"": bound}, blockers, size=40_000)
    if i % 97 == 0:
        fate = (Fate.CRASHED, Fate.TIMEOUT, Fate.INVALID)[i % 3]
        return Outcome(name, fate, "SIGSEGV", "SIGSEGV: <b>no</b> such kernel", source, size=40_000)
    nodes, rewritten = (100 + i % 50, 130 + i % 70), {OPERATORS[i % 7]: 1 + i % 5}
    return Outcome(
        name, Fate.OK, "", "", source, {"": 8}, size=40_000, nodes=nodes, rewritten=rewritten
    )


def report(models: int) -> str:
    """The page about so many of them."""
    outcomes = [outcome(i) for i in range(models)]
    summary = Summary(models)
    for one in outcomes:
        summary.add(one)
    return page(
        summary, outcomes, prepare(Request.of(8), "copy"), RunTimes("opshift batch", 1e9, 60)
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Measure how fast a browser opens a report.")
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--shots", type=Path, help="put screenshots in light and dark here")
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the figures in it")
    args = parser.parse_args()
    if MISSING:
        raise SystemExit(f"{' and '.join(MISSING)} missing: apt-get install chromium-driver")
    text = report(args.models)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        path.write_text(text, encoding="utf-8")
        with Browser() as browser:
            runs = [_once(browser, path.as_uri()) for _ in range(args.repeats + 1)]
            agent = browser.run("return navigator.userAgent.match(/Chrome.([0-9.]+)/)[1]")
        if args.shots:
            for dark in (False, True):
                with Browser(dark=dark) as browser:
                    browser.open(path.as_uri())
                    browser.screenshot(args.shots / f"{'dark' if dark else 'light'}.png")
    first, (load, paint, search) = runs[0], map(statistics.median, zip(*runs[1:], strict=True))
    lines = [
        machine(shlex.join(["python", "-m", "tools.bench", "report", *sys.argv[1:]])),
        f"A report of {args.models:,} models ({len(text) / 1e6:.1f} MB) in Chromium {agent},"
        f" headless: loaded after {load:.0f} ms (the first time in a new browser"
        f" {first[0]:.0f} ms), first paint after {paint:.0f} ms, filtered in {search:.0f} ms.",
    ]
    print("\n\n".join(lines))
    if args.write:
        write_between_marks(args.write, "\n\n".join(lines), MARKS)
    return 0


def _once(browser: Browser, address: str) -> tuple[float, float, float]:
    browser.open("about:blank")
    browser.open(address)
    load, paint = browser.run(TIMES)
    while paint is None:
        load, paint = browser.run(TIMES)
    return load, paint, browser.run(FILTER)


if __name__ == "__main__":
    sys.exit(main())
