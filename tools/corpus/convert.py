# SPDX-License-Identifier: Apache-2.0
"""Converts a corpus of models and proves, model by model, that the results mean the same.

    python -m tools.corpus convert --to 21 18 13 [--only 'g_ts_*'] [--sample 20 --seed 1] [--jobs 2]
                            [--json FILE] [--write docs/explain/conformance.md]

A corpus is a folder with one folder per model: `model.onnx`, `inputs.npz` and `expected.npz` (and
`inputs_2.npz` ...). An output that is a map, or a sequence of maps, is kept as the two arrays
`name#keys` and `name#values`; another sequence as `name#0`, `name#1` ... A `manifest.json` beside
the folders may say, under `run`, how exact and how repeatable a model is.

Exit code 1 when a result is wrong or invalid, or a conversion crashed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.corpus.conversion_child import newest_of_runtime
from tools.corpus.corpus_tables import markdown, report
from tools.corpus.judge import judge
from tools.corpus.model import DEFECTS, Model, ModelVerdict, Settings, models_of
from tools.lib import children
from tools.lib.markdown_tables import write_between

DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "corpus"


def run(
    models: Sequence[Model], targets: Sequence[int], settings: Settings, jobs: int
) -> list[ModelVerdict]:
    """Judge every model at every target, a few at a time."""
    cases = [(model, target) for target in targets for model in models]
    verdicts = []
    with ThreadPoolExecutor(jobs) as pool:
        for verdict in pool.map(lambda case: judge(case[0], case[1], settings), cases):
            verdicts.append(verdict)
            if sys.stderr.isatty():
                print(f"\r{len(verdicts)}/{len(cases)}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return verdicts


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    args = _parser().parse_args(argv)
    if not args.corpus.is_dir():
        print(f"no corpus at {args.corpus}; nothing to do")
        return 0
    models = models_of(args.corpus, args.only, args.sample, args.seed)
    probed = children.run(newest_of_runtime, seconds=60)
    newest = probed.value if probed.ok else (0, 0)
    settings = Settings(args.converter, args.seconds, args.megabytes, newest)
    verdicts = run(models, args.to, settings, args.jobs)
    print(report(verdicts, args.to))
    if args.write:
        words = " ".join(map(str, args.to))
        command = f"`python -m tools.corpus convert --to {words}`, {len(models)} models"
        write_between(args.write, "corpus", f"{command}\n\n{markdown(verdicts, args.to)}")
    if args.json:
        results = [dataclasses.asdict(verdict) for verdict in verdicts]
        args.json.write_text(json.dumps({"targets": args.to, "results": results}, indent=1) + "\n")
    return int(any(verdict.status in DEFECTS for verdict in verdicts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Convert a corpus of models and compare outputs.")
    add = parser.add_argument
    add("--to", type=int, nargs="+", required=True, metavar="OPSET")
    add("--corpus", type=Path, default=DEFAULT, help=f"default: {DEFAULT}")
    add("--only", nargs="+", default=[], metavar="GLOB", help="models by name")
    add("--sample", type=int, metavar="N", help="that many of them, chosen by --seed")
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=2)
    add("--json", type=Path, metavar="FILE", help="write every verdict")
    add("--write", type=Path, metavar="FILE", help="put the tables into a document")
    add("--converter", default="opshift", help="opshift, onnx or module:function(src, dst, target)")
    add("--seconds", type=float, default=120.0, help="limit of one conversion or run")
    add("--megabytes", type=int, default=12_000, help="limit of one child's address space")
    return parser


if __name__ == "__main__":
    sys.exit(main())
