# SPDX-License-Identifier: Apache-2.0
"""Takes models that onnxruntime's tools have rewritten back to plain ONNX, and compares both.

    python -m tools.corpus contrib [--corpus FOLDER] [--only GLOB ...] [--make basic extended ...]
        [--to own 21 17 13] [--seconds 120] [--json FILE] [--page docs/maintain/contrib.md]
    python -m tools.corpus contrib --read FILE ... --page docs/maintain/contrib.md

FOLDER holds a folder for each model, with model.onnx and inputs.npz. Each model is rewritten by
the optimizer of onnxruntime at three levels, by its quantizer, by the optimizer of transformer
models and by the converter to float16. Each result with operators of another domain is converted
to plain ONNX at several opsets ("own" is that of the model). onnxruntime runs both models without
optimisation. Exit code 1 if a result is wrong or a conversion failed.

Who runs it: whoever changes how a contrib operator is written; before a release with --page.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.lib import children
from tools.lib.markdown_tables import write_between

from .make import MAKERS
from .rewritten import ALLOWED, FAILED, REFUSED, SAME, WRONG, OpsetEnding, RewriteVerdict, judge

DEFAULT = Path(__file__).resolve().parents[4] / "shared" / "corpus"
STATUSES = (SAME, ALLOWED, REFUSED, FAILED, WRONG)


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    args = _parser().parse_args(argv)
    if not args.read and not args.corpus.is_dir():
        print(f"there is no corpus at {args.corpus}; nothing to do")
        return 0
    verdicts = [_read(one) for path in args.read for one in json.loads(path.read_text("utf-8"))]
    verdicts += [] if args.read else _verdicts(args)
    if args.json:
        told = [dataclasses.asdict(one) for one in verdicts]
        args.json.write_text(json.dumps(told, indent=1), encoding="utf-8")
    text = "\n".join(report(verdicts, args.to))
    print(text)
    if args.page:
        write_between(args.page, "contrib", text)
    bad = [end for one in verdicts for end in one.endings if end.status in (WRONG, FAILED)]
    return 1 if bad else 0


def _read(told: dict[str, Any]) -> RewriteVerdict:
    """A verdict of an earlier run."""
    return RewriteVerdict(**{**told, "endings": [OpsetEnding(**one) for one in told["endings"]]})


def _verdicts(args: argparse.Namespace) -> Iterator[RewriteVerdict]:
    folders = sorted(path.parent for path in args.corpus.glob("*/model.onnx"))
    for folder in folders:
        if not any(fnmatch.fnmatch(folder.name, glob) for glob in args.only):
            continue
        if not (folder / "inputs.npz").exists():
            continue
        for maker in args.make:
            done = children.run(judge, str(folder), maker, args.to, seconds=args.seconds)
            verdict = done.value if done.ok else RewriteVerdict(folder.name, maker, unfit=str(done))
            for end in verdict.endings:
                if end.status in (WRONG, FAILED):
                    print(f"{folder.name}, {maker}, {end.target}: {end.status}: {end.told}")
            yield verdict


def report(verdicts: Sequence[RewriteVerdict], targets: Sequence[str]) -> Iterator[str]:
    """Tables: each way of rewriting, each operator, and what blocks."""
    yield "| rewritten by | models | with contrib operators | " + " | ".join(STATUSES) + " |"
    yield "|---" * (3 + len(STATUSES)) + "|"
    by_maker: dict[str, list[RewriteVerdict]] = defaultdict(list)
    for one in verdicts:
        by_maker[one.maker].append(one)
    for maker, found in by_maker.items():
        ends = Counter(end.status for one in found for end in one.endings)
        made = sum(not one.unfit for one in found)
        met = sum(bool(one.endings) for one in found)
        counts = " | ".join(str(ends[status]) for status in STATUSES)
        yield f"| {maker} | {made} | {met} | {counts} |"
    yield ""
    yield f"Each model with contrib operators was converted to {', '.join(targets)}."
    yield ""
    yield "| operator | nodes | models | conversions without it | blocked |"
    yield "|---|---|---|---|---|"
    nodes, models = Counter[str](), Counter[str]()
    fine, blocked = Counter[str](), Counter[str]()
    for one in verdicts:
        for op, count in one.operators.items() if one.endings else ():
            nodes[op] += count
            models[op] += 1
            fine[op] += sum(end.status in (SAME, ALLOWED) for end in one.endings)
            blocked[op] += sum(op in end.blockers for end in one.endings)
    for op in sorted(nodes):
        yield f"| {op} | {nodes[op]} | {models[op]} | {fine[op]} | {blocked[op]} |"
    refused = (end for one in verdicts for end in one.endings if end.status == REFUSED)
    reasons = Counter(end.told.partition(": ")[2] for end in refused)
    yield from _counted("What blocks first:", reasons)
    unfit = Counter(one.unfit.partition(": ")[0] for one in verdicts if one.unfit)
    yield from _counted("What was not compared:", unfit)


def _counted(title: str, reasons: Counter[str]) -> Iterator[str]:
    """The most frequent reasons as a list, if there are any."""
    if reasons:
        yield from ("", title, "")
        yield from (f"* {count} times: {reason}" for reason, count in reasons.most_common(12))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.corpus contrib", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--corpus", type=Path, default=DEFAULT, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB")
    parser.add_argument("--make", nargs="+", default=list(MAKERS), choices=list(MAKERS))
    parser.add_argument("--to", nargs="+", default=["own", "21", "17", "13"], metavar="OPSET")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument(
        "--read", nargs="+", default=[], type=Path, metavar="FILE", help="report earlier runs"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
