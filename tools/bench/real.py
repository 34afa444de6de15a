# SPDX-License-Identifier: Apache-2.0
"""Measures conversions of real models beside onnx.version_converter, in bands of their size.

    python -m tools.bench real [FOLDER] [--to 21 13]

FOLDER has one folder for each model, with a model.onnx. For each version, one new process converts
all models three times, and another one converts them with onnx.version_converter. The CPU time is
that of the models which both convert.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tools.bench.page import machine
from tools.lib import children

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
PASSES = 3
BANDS = (1, 10, 24, 100, 400)


class Timed(NamedTuple):
    """One conversion: its CPU seconds and the nodes of its model."""

    seconds: float
    nodes: int


def ours(folder: str, to: int) -> list[dict[str, Timed]]:
    """Each pass over the models, without those that are refused or have the version already."""
    import onnx
    from opshift import OpshiftError, convert_version

    convert_version(onnx.parser.parse_model(TINY), 18)
    passes: list[dict[str, Timed]] = []
    models = _models(folder, to)
    for _ in range(PASSES):
        passes.append({})
        for name, model in models.items():
            start = time.process_time()
            with contextlib.suppress(OpshiftError):
                convert_version(model, to)
                passes[-1][name] = Timed(time.process_time() - start, _count(model))
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


def rows(folder: Path, to: int) -> Iterator[str]:
    """The rows of the table for one version: one for each band of sizes, and one for all models."""
    passes, other = _child(ours, folder, to), _child(cpp, folder, to)
    both = [name for name in passes[0] if name in other]
    for low, high in pairwise((*BANDS, sys.maxsize)):
        band = f"{low} to {high - 1}" if high < sys.maxsize else f"{low} and more"
        names = [name for name in both if low <= passes[0][name].nodes < high]
        yield _row(to, band, names, passes, other)
    yield _row(to, "all", both, passes, other)


def _row(
    to: int,
    band: str,
    names: Sequence[str],
    passes: Sequence[Mapping[str, Timed]],
    other: Mapping[str, float],
) -> str:
    beside = sum(other[name] for name in names) or 1.0
    taken = [sum(one[name].seconds for name in names) for one in passes]
    shares = " | ".join(f"{seconds / beside:.2f}" for seconds in taken)
    nodes = sum(passes[0][name].nodes for name in names)
    micro = " | ".join(f"{1e6 * seconds / max(nodes, 1):.0f}" for seconds in (taken[0], taken[-1]))
    return f"| {to} | {band} | {len(names)} | {shares} | {micro} |"


def _child(work: Callable[[str, int], Any], folder: Path, to: int) -> Any:
    done = children.run(work, str(folder), to, seconds=600, start="spawn")
    if not done.ok:
        raise SystemExit(f"{work.__name__} to {to}: {done}\n{done.trace}")
    return done.value


HEAD = """\
| to | nodes | models | first pass / C++ | second / C++ | third / C++ | first, µs per node | third |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=CORPUS)
    parser.add_argument("--to", type=int, nargs="+", default=[21, 13])
    args = parser.parse_args(argv)
    given = sys.argv[1:] if argv is None else argv
    lines = [HEAD, *(row for to in args.to for row in rows(args.folder, to))]
    command = machine(shlex.join(["python", "-m", "tools.bench", "real", *given]))
    print("\n\n".join([command, "\n".join(lines)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
