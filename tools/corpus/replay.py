# SPDX-License-Identifier: Apache-2.0
"""Converts the corpus and the adapters' examples on two commits and compares the results.

    python -m tools.corpus replay BEFORE [AFTER] [--to 21 18 13 11 9] [--only 'g_ts_*'] [--list 20]

BEFORE and AFTER are commits; without AFTER, the working tree is compared. A refactoring changes
neither results nor reports, so all digests are equal and the exit code is 0. Each difference is
listed: other bytes, another number of nodes, another report, or another outcome. Numbers in
generated names, lines of adapters and builds of opshift are ignored. Refusals are compared by their
reasons and operators, not by their messages. Both commits run in the environment of the tool.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.lib.graphs import graphs_of, nodes_in, unread
from tools.lib.program import described

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
WORKERS = 2

Result = tuple[str, str, int, int, str]  # outcome, digest, nodes, idle nodes, digest of the report
FRESH = re.compile(r"(opshift\d*_)\d+_")
LINE = re.compile(r'("adapter": "[\w.]+):\d+"')
BUILD = re.compile(r'\n *"opshift_version": "[^"]*",?')


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool; the exit code is 1 if a result differs."""
    args = _parser().parse_args(argv)
    if args.child:
        return _child(args)
    with tempfile.TemporaryDirectory(prefix="replay-") as scratch:
        sides = []
        for name, commit in (("before", args.before), ("after", args.after)):
            tree = _tree(commit, Path(scratch, name)) if commit else ROOT
            sides.append(_run(tree, Path(scratch), name, args))
    return _compare(*sides, most=args.list)


def _tree(commit: str, folder: Path) -> Path:
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "converter", "adapters", "tests/adapters"],
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _run(tree: Path, scratch: Path, name: str, args: argparse.Namespace) -> dict[str, Result]:
    path = os.pathsep.join(map(str, (tree / "converter", tree / "adapters", ROOT)))
    children, results = [], {}
    for share in range(WORKERS):
        words = [sys.executable, str(Path(__file__).resolve()), "-", "--child", str(share)]
        words += ["--to", *map(str, args.to), "--write", str(scratch / f"{name}-{share}.json")]
        words += ["--only", *args.only]
        children.append(subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path}))
    for child in children:
        if child.wait():
            raise SystemExit(f"the conversions of {name!r} ended with exit code {child.returncode}")
    for share in range(WORKERS):
        results.update(json.loads((scratch / f"{name}-{share}.json").read_text()))
    return {key: tuple(result) for key, result in results.items()}


def _compare(before: dict[str, Result], after: dict[str, Result], most: int) -> int:
    kinds: Counter[str] = Counter()
    lines = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        kind = _difference(old, new)
        kinds[kind] += 1
        if kind != "equal":
            sides = [f"{r[0]} ({r[2]} nodes)" if r else "absent" for r in (old, new)]
            lines.append(f"{kind:8} {key}: {sides[0]} -> {sides[1]}")
    lines.sort(key=lambda line: line.startswith("report"))  # other bytes matter most
    print(*lines[:most], sep="\n")
    if len(lines) > most:
        print(f"... {len(lines) - most} more")
    common = before.keys() & after.keys()
    print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    for what, place in (("nodes written", 2), ("nodes that no output depends on", 3)):
        old, new = (sum(side[key][place] for key in common) for side in (before, after))
        print(f"{what}: {old} before, {new} after")
    return int(set(kinds) != {"equal"})


def _difference(old: Result | None, new: Result | None) -> str:
    if old is None or new is None:
        return "added" if old is None else "removed"
    if old[0] != new[0]:
        return "outcome"
    if old[1] == new[1]:
        return "equal" if old[4] == new[4] else "report"
    return "nodes" if old[2] != new[2] else "bytes"


def _child(args: argparse.Namespace) -> int:
    share = int(args.child)
    cases = enumerate((*_corpus(args.to, args.only), *(() if args.only else _examples())))
    results = {key: _convert(*case) for i, (key, *case) in cases if i % WORKERS == share}
    Path(args.write).write_text(json.dumps(results))
    return 0


def _corpus(targets: Sequence[int], only: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    folders = sorted(CORPUS.iterdir()) if CORPUS.is_dir() else []
    for folder in folders:
        path = folder / "model.onnx"
        if path.exists() and (not only or any(fnmatch.fnmatch(folder.name, g) for g in only)):
            for target in targets:
                yield f"corpus {folder.name} to {target}", str(path), target, False


def _examples() -> Iterator[tuple[Any, ...]]:
    import opshift_adapters
    from opshift import testing

    for adapter, example in testing.examples(opshift_adapters.__name__):
        model = testing.example_model(adapter, example)
        target = testing.example_target(adapter, example)
        text = hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()[:12]
        op = "/".join(sorted(node.op_type for node in model.graph.node))
        approximate = bool(example.approximate)
        about = " approximately" if approximate else ""
        yield f"example {op} to {target} {text}{about}", model, target, approximate


def _convert(model: Any, target: Any, approximate: bool) -> Result:
    import opshift

    try:
        conversion = opshift.convert(model, target, allow_approximate=approximate)
    except opshift.Refused as refused:
        reasons = sorted((str(r.why), r.op) for r in refused.refusals)
        return "refused", hashlib.sha256(repr(reasons).encode()).hexdigest(), 0, 0, ""
    except opshift.OpshiftError as error:
        return type(error).__name__, "", 0, 0, ""
    result, text = conversion.model, LINE.sub(r'\1"', FRESH.sub(r"\1", conversion.report.to_json()))
    text = BUILD.sub("", text)
    renumber(result.graph, {})
    content = result.SerializeToString(deterministic=True)
    digest = hashlib.sha256(content).hexdigest()
    report = hashlib.sha256(text.encode()).hexdigest()
    idle = len(list(unread(result.graph)))
    return "converted", digest, len(list(nodes_in(result.graph))), idle, report


def renumber(graph: Any, numbers: dict[str, int]) -> None:
    """Renumbers the generated names of a graph in the order in which they occur."""

    def plain(name: str) -> str:
        return FRESH.sub(lambda m: f"{m[1]}{numbers.setdefault(name, len(numbers))}_", name)

    graph.name = plain(graph.name)
    for part in (*graph.input, *graph.node, *graph.output, *graph.value_info, *graph.initializer):
        if "opshift" in part.name:
            part.name = plain(part.name)
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if "opshift" in name:
                    names[i] = plain(name)
        for inner in graphs_of(node):
            renumber(inner, numbers)


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    parser.add_argument("before", metavar="BEFORE", help="a commit")
    parser.add_argument("after", metavar="AFTER", nargs="?", help="a commit (default: the tree)")
    parser.add_argument("--to", type=int, nargs="+", default=[21, 18, 13, 11, 9], metavar="OPSET")
    parser.add_argument("--only", nargs="*", default=[], metavar="GLOB", help="corpus models")
    parser.add_argument("--list", type=int, default=40, metavar="N", help="differences to print")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
