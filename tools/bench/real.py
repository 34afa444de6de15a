# SPDX-License-Identifier: Apache-2.0
"""Measures real models in one process, and how many of their nodes are converted by classes.

    python -m tools.bench real [FOLDER] [--to 21 13] [--write docs/explain/performance.md]

FOLDER has one folder for each model, with a model.onnx. For each version, one new process converts
all models three times, and another one converts them with onnx.version_converter; the CPU time is
that of the models which both convert. A node is converted by classes where no adapter looked at it
again. Why models went node by node in the last pass is listed, with the largest of each.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tools.bench.page import machine, write_between_marks
from tools.lib import children

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
MARKS = "<!-- real:begin -->", "<!-- real:end -->"
PASSES = 3


class Timed(NamedTuple):
    """One conversion: CPU seconds, the nodes of the model, and why it went node by node."""

    seconds: float
    nodes: int
    why: str

    @property
    def by_classes(self) -> bool:
        """Whether the model was converted by classes."""
        return not self.why


def ours(folder: str, to: int) -> list[dict[str, Timed]]:
    """Each pass over the models, without those that are refused or have the version already."""
    import onnx
    from opshift import OpshiftError, convert_version
    from opshift.convert import api

    told: list[str] = []
    known = api.by_classes

    def watched(*given: Any) -> Any:
        found = known(*given)
        told.append(found.why)
        return found

    api.by_classes = watched
    convert_version(onnx.parser.parse_model(TINY), 18)
    passes: list[dict[str, Timed]] = []
    models = _models(folder, to)
    for _ in range(PASSES):
        passes.append({})
        for name, model in models.items():
            told.clear()
            start = time.process_time()
            with contextlib.suppress(OpshiftError):
                convert_version(model, to)
                seconds = time.process_time() - start
                passes[-1][name] = Timed(seconds, _count(model), told[-1])
    return passes


TINY = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


def cpp(folder: str, to: int) -> dict[str, float]:
    """The CPU seconds of onnx.version_converter for each model that it converts."""
    from onnx.version_converter import convert_version

    found = {}
    for name, model in _models(folder, to).items():
        start = time.process_time()
        with contextlib.suppress(Exception):  # whatever it raises, it converts nothing
            convert_version(model, to)
            found[name] = time.process_time() - start
    return found


def _models(folder: str, to: int) -> dict[str, Any]:
    import onnx

    paths = sorted(Path(folder).glob("*/model.onnx"))
    models = {path.parent.name: onnx.load(path, load_external_data=False) for path in paths}
    return {
        name: model
        for name, model in models.items()
        if all(one.version != to for one in model.opset_import if not one.domain)
    }


def _count(model: Any) -> int:
    """The nodes of a model, with those in graphs and functions."""
    from opshift.model.walk import nodes

    return sum(1 for _ in nodes(model))


def rows(folder: Path, to: int) -> tuple[list[str], list[str]]:
    """The rows of the table for one version, and those of why models went node by node."""
    passes = _child(ours, folder, to)
    other = _child(cpp, folder, to)
    lines = []
    for number, taken in enumerate(passes):
        both = taken.keys() & other.keys()
        seconds = sum(taken[name].seconds for name in both)
        beside = sum(other[name] for name in both)
        nodes = sum(one.nodes for one in taken.values())
        fast = sum(one.nodes for one in taken.values() if one.by_classes)
        models = sum(one.by_classes for one in taken.values())
        lines.append(
            f"| {to} | {number + 1} | {seconds:.2f} | {beside:.2f} | {seconds / beside:.2f} |"
            f" {models} of {len(taken)} | {100 * fast / nodes:.1f} % of {nodes:,} |"
        )
    return lines, list(_reasons(to, passes[-1]))


def _reasons(to: int, taken: Mapping[str, Timed]) -> Iterator[str]:
    """Why models went node by node: nodes, share, models and the largest model."""
    total = sum(one.nodes for one in taken.values())
    alone = defaultdict[str, list[tuple[int, str]]](list)
    for name, one in taken.items():
        if not one.by_classes:
            alone[one.why].append((one.nodes, name))
    ordered = sorted((-sum(nodes for nodes, _ in found), why) for why, found in alone.items())
    for nodes, why in ordered:
        share, (_, largest) = 100 * -nodes / total, max(alone[why])
        yield f"| {to} | {why} | {-nodes} | {share:.1f} % | {len(alone[why])} | {largest} |"


def _child(work: Callable[[str, int], Any], folder: Path, to: int) -> Any:
    done = children.run(work, str(folder), to, seconds=600, start="spawn")
    if not done.ok:
        raise SystemExit(f"{work.__name__} to {to}: {done}\n{done.trace}")
    return done.value


HEAD = """\
| to | pass | opshift CPU s | C++ CPU s | ratio | models by classes | nodes by classes |
| --- | --- | --- | --- | --- | --- | --- |"""
WHY = """\
| to | why node by node | nodes | share | models | the largest |
| --- | --- | --- | --- | --- | --- |"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=CORPUS)
    parser.add_argument("--to", type=int, nargs="+", default=[21, 13])
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the table in this page")
    args = parser.parse_args(argv)
    given = sys.argv[1:] if argv is None else argv
    parts = [HEAD]
    alone = [WHY]
    for to in args.to:
        lines, reasons = rows(args.folder, to)
        parts += lines
        alone += reasons
    command = machine(shlex.join(["python", "-m", "tools.bench", "real", *given]))
    text = "\n\n".join([command, "\n".join(parts), "\n".join(alone)])
    print(text)
    if args.write:
        write_between_marks(args.write, text, MARKS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
