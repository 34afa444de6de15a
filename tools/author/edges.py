"""Runs every example of the adapters on onnxruntime, on inputs at the edges of what there is.

    python -m tools.author edges [--only TEXT] [--sets nan infinite] [--sample 100] [--all]

Each example is converted. The original and the result then run on several sets of inputs: no
elements, one element, negative numbers, the largest integers, extreme floats, infinities, NaN.
`docs/explain/decisions/0005-what-counts-as-equal.md` tells how results are compared. A set is left
out where onnxruntime does not run the original. A process that ends is a difference like others.
`tools/author/edges.toml` gives the reasons for what stays.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto
from opshift import Refused, convert_version, testing, toml
from opshift.author.example import Example
from opshift.author.verdicts import Adapter
from opshift.verify import oracle, randomness

SETS = ("plain", "empty", "one", "negative", "largest", "extreme", "infinite", "nan")
LOWEST, HIGHEST = 7, 26  # between these opsets onnxruntime has kernels
TOLERANCE = {"float16": (2e-2, 2e-3), "bfloat16": (5e-2, 5e-3), "float32": (1e-4, 1e-5)}


@dataclasses.dataclass(frozen=True)
class Subject:
    """One example under the name by which it is listed and sampled."""

    name: str
    adapter: Adapter
    example: Example


def subjects() -> list[Subject]:
    """The examples that onnxruntime may run before and after."""
    found = []
    for adapter, example in testing.examples("opshift_adapters"):
        if example.refuses is None and example.invalid is None and not example.approximate:
            ops = "/".join(adapter.ops[:3])
            name = f"{adapter.source.removeprefix('opshift_adapters.')} {ops} {example.title}"
            found.append(Subject(name, adapter, example))
    return found


def differences(subject: Subject, sets: Sequence[str] = SETS) -> Iterator[tuple[str, str]]:
    """Each set of inputs on which the result differs from the original, and how."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    before = testing.example_model(subject.adapter, subject.example)
    after = _converted(subject, before)
    if after is None or randomness.drawn(before):
        return
    first, second = _session(before), _session(after)
    if first is None or second is None:
        return
    for name in sets:
        feeds = make_feeds(before, subject.example, name)
        if feeds is None:
            continue
        yield "", ""  # tells who is running, should the process end
        try:
            expected = first.run(None, feeds)
        except Exception:  # onnxruntime does not run the original on this set: nothing to compare
            continue
        yield name, ""
        try:
            told = _difference(expected, second.run(None, feeds), name)
        except Exception as error:
            told = f"the result does not run: {str(error)[:160]!r}"
        if told:
            yield name, told


def _converted(subject: Subject, before: ModelProto) -> ModelProto | None:
    versions = {one.domain: one.version for one in before.opset_import}
    target = testing.example_target(subject.adapter, subject.example)
    wanted = target if isinstance(target, dict) else {}
    for imports in (versions, {**versions, **wanted}):
        if not LOWEST <= imports.get("", LOWEST) <= HIGHEST:
            return None
    try:
        return convert_version(before, target)
    except Refused:
        return None


def _session(model: ModelProto) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # it has no kernel, or knows no such version
        return None


# -- inputs --------------------------------------------------------------------------------------


def make_feeds(model: ModelProto, example: Example, name: str) -> dict[str, Any] | None:
    """One set of inputs, with those that are given; None where it would be another set again."""
    if name in ("empty", "one"):
        return _resized(model, example, 0 if name == "empty" else 1)
    feeds = oracle.make_inputs(model, overrides=dict(example.inputs))
    if name == "plain":
        return feeds
    changed = False
    for key, value in feeds.items():
        if key in example.inputs or not isinstance(value, np.ndarray) or value.size == 0:
            continue
        edged = _edged(value, name)
        if edged is not None:
            feeds[key], changed = edged, True
    return feeds if changed else None


def _resized(model: ModelProto, example: Example, size: int) -> dict[str, Any] | None:
    copy, changed = ModelProto(), False
    copy.CopyFrom(model)
    for info in copy.graph.input:
        for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if dim.dim_param and info.name not in example.inputs:
                dim.dim_value, changed = size, True
    return oracle.make_inputs(copy, overrides=dict(example.inputs)) if changed else None


def _edged(value: np.ndarray, name: str) -> np.ndarray | None:
    kind, draw = value.dtype.kind, np.random.default_rng(1)
    places = draw.random(value.shape) < 0.4
    if kind in "iu" and name in ("negative", "largest"):
        limits = np.iinfo(value.dtype)
        edges = [limits.min, limits.max, limits.max - 1, 0, 1, limits.max // 2 + 1]
        if name == "negative":
            return None if kind == "u" else -np.abs(value) - value.dtype.type(1)
        return draw.choice(np.array(edges, value.dtype), value.shape)
    if value.dtype not in (np.float16, np.float32, np.float64):
        return None
    specials = {
        "negative": None,
        "extreme": [np.finfo(value.dtype).tiny, -np.finfo(value.dtype).eps, 30.0, -30.0, 0.0, -0.0],
        "infinite": [np.inf, -np.inf],
        "nan": [np.nan],
    }
    if name == "negative":
        return -np.abs(value) - value.dtype.type(0.25)
    if name not in specials:
        return None
    return np.where(places, draw.choice(np.array(specials[name], value.dtype), value.shape), value)


# -- comparison ----------------------------------------------------------------------------------


def _difference(expected: list[Any], actual: list[Any], name: str) -> str | None:
    for one, other in zip(expected, actual, strict=True):
        kind = one.dtype.name if isinstance(one, np.ndarray) else ""
        if name in ("infinite", "nan") and kind:
            if one.dtype.kind != "f":
                continue  # what an integer or a choice becomes is not told
            if one.shape == other.shape:
                other = np.where(np.isfinite(one), other, one)
        rtol, atol = TOLERANCE.get(kind, (1e-6, 1e-9) if kind == "float64" else (0.0, 0.0))
        with np.errstate(all="ignore"):
            told = oracle.compare([one], [other], rtol=rtol, atol=atol)
        if told:
            return told
    return None


# -- the command ---------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit code says whether anything differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="a part of the example's name")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--sample", type=int, default=0, help="so many examples, always the same")
    parser.add_argument("--all", action="store_true", help="list what edges.toml explains, too")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child:
        return _child(args.child)
    names = [one.name for one in subjects() if args.only in one.name]
    if args.sample:
        names = sampled(names, args.sample)
    found = survey(names, args.sets)
    new = unexplained(found)
    for name, which, told in found if args.all else new:
        print(f"{name} [{which}]: {told}")
    print(f"{len(names)} examples, {len(found)} differences, {len(new)} of them unexplained")
    return bool(new)


def known() -> dict[str, str]:
    """What is found and stays, by a part of the example's name, with the reason."""
    groups = toml.loads(Path(__file__).with_suffix(".toml").read_text())
    return {name: why for group in groups.values() for name, why in group.items()}


def unexplained(found: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The differences for which no reason is written down."""
    return [one for one in found if not any(part in one[0] for part in known())]


def sampled(names: list[str], count: int) -> list[str]:
    """The same names every time, drawn from all."""
    return sorted(random.Random(0).sample(names, min(count, len(names))))


def survey(names: list[str], sets: Sequence[str]) -> list[tuple[str, str, str]]:
    """All differences of these examples; the last line of a child that dies tells what it ran."""
    waiting, found = list(names), []
    with tempfile.TemporaryDirectory(prefix="edges-") as folder:
        order, log = Path(folder, "order.json"), Path(folder, "order.log")
        while waiting:
            order.write_text(json.dumps({"names": waiting, "sets": list(sets)}))
            log.write_text("")
            words = [sys.executable, "-m", "tools.author", "edges", "--child", str(order)]
            code = subprocess.run(words, cwd=Path(__file__).parents[2], env=os.environ).returncode
            lines = [json.loads(line) for line in log.read_text().splitlines()]
            found += [(name, which, told) for name, which, told in lines if told]
            if code == 0:
                return found
            if not lines:
                raise SystemExit(f"the child ended with exit code {code} before any example")
            name, which = next(line[0] for line in reversed(lines) if line[0]), lines[-1][1]
            if which:
                found.append((name, which, f"the process ended with exit code {code}"))
            waiting = waiting[waiting.index(name) + 1 :]
    return found


def _child(order: Path) -> int:
    wanted = json.loads(order.read_text())
    by_name = {one.name: one for one in subjects()}
    with order.with_suffix(".log").open("w") as log:
        for name in wanted["names"]:
            log.write(json.dumps([name, "", ""]) + "\n")
            log.flush()
            for which, told in differences(by_name[name], wanted["sets"]):
                log.write(json.dumps([name, which, told]) + "\n")
                log.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
