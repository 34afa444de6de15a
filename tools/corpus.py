"""Converts a corpus of models and proves, model by model, that the results mean the same.

    python tools/corpus.py --to 21 18 13 [--only 'g_ts_*'] [--sample 20 --seed 1] [--json FILE]

A corpus is a folder with one folder per model: `model.onnx`, `inputs.npz` and `expected.npz` (and
`inputs_2.npz` ...). An output that is a map, or a sequence of maps, is kept as the two arrays
`name#keys` and `name#values`; another sequence as `name#0`, `name#1` ... A `manifest.json` beside
the folders may say, under `run`, how exact and how repeatable a model is.

Exit code 1 when a result is wrong or invalid, or a conversion crashed.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import fnmatch
import importlib
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import children
import numpy as np
from equality import Arrays, difference

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "corpus"
REJECTIONS = ("InvalidModel", "BadTarget")
ENGINE_GAPS = ("NotImplemented", "NotImplementedError", "MemoryError")
HALF_SLACK = 5e-4


class Status(enum.StrEnum):
    """What a conversion came to; the last three are defects."""

    EQUAL = "equal"
    REFUSED = "refused"
    UNVERIFIED = "unverified"
    REJECTED = "rejected"
    WRONG = "wrong"
    INVALID = "invalid"
    CRASHED = "crashed"


DEFECTS = (Status.WRONG, Status.INVALID, Status.CRASHED)


@dataclass(frozen=True)
class Model:
    """One model of the corpus and what the manifest knows of its runs."""

    id: str
    folder: Path
    run: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()

    @property
    def slack(self) -> float:
        """How far the original's own runs lie apart; what passed through half has three digits."""
        half = HALF_SLACK if {"float16", "bfloat16"} & set(self.dtypes) else 0.0
        return max(half, float(self.run.get("max_diff_unoptimized") or 0.0))

    @property
    def path(self) -> Path:
        """The model's file."""
        return self.folder / "model.onnx"

    def sets(self) -> list[tuple[Path, Path]]:
        """Pairs of inputs and the outputs expected from them."""
        pairs = ((p, p.with_name(p.name.replace("inputs", "expected"))) for p in self._inputs())
        return [(inputs, expected) for inputs, expected in pairs if expected.exists()]

    def _inputs(self) -> list[Path]:
        return sorted(self.folder.glob("inputs*.npz"))


@dataclass(frozen=True)
class Refusal:
    """One blocker, as text, for counting."""

    why: str
    op: str
    boundary: tuple[int, int]
    node: str
    detail: str


@dataclass(frozen=True)
class Verdict:
    """The outcome for one model and one target."""

    model: str
    target: int
    status: Status
    detail: str = ""
    engine: str = ""
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class Settings:
    """What holds for every case of a run."""

    converter: str = "opshift"
    seconds: float = 120.0
    megabytes: int = 12_000
    newest: tuple[int, int] = (26, 13)


# ---------------------------------------------------------------- in the child


def convert(converter: str, src: str, dst: str, target: int) -> tuple[Refusal, ...]:
    """Write the converted model, or return what stood in the way."""
    if converter == "opshift":
        from opshift import convert_file
        from opshift.errors import Refused

        try:
            convert_file(src, dst, target)
        except Refused as refused:
            return tuple(_refusal(node) for node in refused.refusals)
    elif converter == "onnx":
        return _convert_with_onnx(src, dst, target)
    else:
        module, _, name = converter.partition(":")
        return getattr(importlib.import_module(module), name)(src, dst, target) or ()
    return ()


def _refusal(node: Any) -> Refusal:
    op = f"{node.domain}.{node.op}" if node.domain not in ("", "ai.onnx") else node.op
    return Refusal(node.why.name, op, tuple(node.boundary), node.node, node.detail)


def _convert_with_onnx(src: str, dst: str, target: int) -> tuple[Refusal, ...]:
    """The C++ converter, for comparison; its errors are text, and all count as refusals."""
    import onnx
    import onnx.version_converter

    try:
        model = onnx.version_converter.convert_version(onnx.load(src), target)
    except Exception as error:
        return (Refusal(type(error).__name__, "?", (0, target), "", str(error)),)
    onnx.save(model, dst)
    return ()


def check(path: str, full: bool) -> None:
    """Raise what the checker says."""
    import onnx

    onnx.checker.check_model(path, full_check=full)


def execute(engine: str, path: str, inputs: str) -> Arrays:
    """Run a model from file to arrays."""
    with np.load(inputs) as arrays:
        feed = {name: arrays[name] for name in arrays.files}
    feed = {name: a.astype(object) if a.dtype.kind == "U" else a for name, a in feed.items()}
    return dict(_flat((_with_runtime if engine == "onnxruntime" else _with_reference)(path, feed)))


def _with_runtime(path: str, feed: Arrays) -> dict[str, Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def _with_reference(path: str, feed: Arrays) -> dict[str, Any]:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(path)
    return dict(zip(evaluator.output_names, evaluator.run(None, feed), strict=True))


def _flat(outputs: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Maps and sequences as arrays of their own, tensors as they are."""
    for name, value in outputs.items():
        maps = [value] if isinstance(value, dict) else value
        if isinstance(maps, list) and maps and isinstance(maps[0], dict):
            keys = [list(m.keys()) for m in maps]
            values = [list(m.values()) for m in maps]
            single = isinstance(value, dict)
            yield f"{name}#keys", np.asarray(keys[0] if single else keys)
            yield f"{name}#values", np.asarray(values[0] if single else values)
        elif isinstance(value, list):
            yield from ((f"{name}#{i}", np.asarray(item)) for i, item in enumerate(value))
        elif value is not None:
            yield name, np.asarray(value)


def newest_of_runtime() -> tuple[int, int]:
    """The highest opset and IR version that the installed onnxruntime loads."""
    import onnx
    import onnxruntime as ort
    from onnx import parser

    def loads(opset: int, ir: int) -> bool:
        text = f'<ir_version: {ir}, opset_import: ["": {opset}]> g (float[1] x) => (float[1] y)'
        model = parser.parse_model(text + " { y = Relu(x) }")
        try:
            ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        except Exception:
            return False
        return True

    irs = (ir for ir in range(int(onnx.IR_VERSION), 7, -1) if loads(17, ir))
    opsets = (v for v in range(onnx.defs.onnx_opset_version(), 17, -1) if loads(v, 8))
    return next(opsets, 17), next(irs, 8)


# ---------------------------------------------------------------- judging one case


def judge(model: Model, target: int, settings: Settings) -> Verdict:
    """Convert one model to one version and find out what the result is worth."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        src = _with_its_data(model, Path(folder))
        dst = Path(folder, "converted.onnx")
        outcome = _child(settings, convert, settings.converter, str(src), str(dst), target)
        if not outcome.ok:
            status = Status.REJECTED if outcome.error in REJECTIONS else Status.CRASHED
            return Verdict(model.id, target, status, str(outcome))
        if outcome.value:
            return Verdict(model.id, target, Status.REFUSED, refusals=outcome.value)
        if told := _rejected_by_checker(model, dst, settings):
            return Verdict(model.id, target, Status.INVALID, told, "checker")
        status, detail, engine = _verify(model, dst, settings)
        return Verdict(model.id, target, status, detail, engine)


def _child(settings: Settings, task: Any, *args: Any) -> children.Outcome:
    return children.run(task, *args, seconds=settings.seconds, megabytes=settings.megabytes)


def _with_its_data(model: Model, folder: Path) -> Path:
    """External data is found beside a model, so the result has to lie where the data does."""
    others = [p for p in model.folder.iterdir() if p.suffix not in (".onnx", ".npz", ".json")]
    if not others:
        return model.path
    for path in (model.path, *others):
        shutil.copyfile(path, folder / path.name)
    return folder / model.path.name


def _rejected_by_checker(model: Model, converted: Path, settings: Settings) -> str:
    """What the checker says; where it rejects the original too, only its weaker form counts."""
    for full in (True, False):
        outcome = _child(settings, check, str(converted), full)
        if outcome.ok:
            return ""
        if _child(settings, check, str(model.path), full).ok:
            return str(outcome)
    return ""


Finding = tuple[Status, str, str]


def _verify(model: Model, converted: Path, settings: Settings) -> Finding:
    """Run the result on the first engine that can, and compare."""
    if not model.sets():
        return Status.UNVERIFIED, "no expected outputs", ""
    if model.run.get("deterministic") is False:
        return Status.UNVERIFIED, "the original is not deterministic", ""
    notes = []
    for engine in _engines(converted, settings.newest):
        for inputs, expected in model.sets():
            finding = _run_and_compare(model, converted, engine, inputs, expected, settings)
            if finding[0] is not Status.EQUAL:
                break
        if finding[0] is not Status.UNVERIFIED:
            return finding
        notes.append(f"{engine}: {finding[1]}")
    return Status.UNVERIFIED, "; ".join(notes), ""


def _engines(path: Path, newest: tuple[int, int]) -> Sequence[str]:
    """onnxruntime where the model's versions are known to it, and the reference after it."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    opset = max((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), default=1)
    if opset <= newest[0] and model.ir_version <= newest[1]:
        return ("onnxruntime", "reference")
    return ("reference",)


def _run_and_compare(
    model: Model, converted: Path, engine: str, inputs: Path, expected: Path, settings: Settings
) -> Finding:
    """Hold the result against what was expected and, if it differs, against the original here."""
    with np.load(expected) as arrays:
        wanted = {name: arrays[name] for name in arrays.files}
    slack = model.slack
    ours = _child(settings, execute, engine, str(converted), str(inputs))
    told = difference(ours.value, wanted, slack) if ours.ok else ""
    if ours.ok and not told:
        return Status.EQUAL, "", engine
    original = _child(settings, execute, engine, str(model.path), str(inputs))
    if ours.ok:
        return _explain(told, ours.value, original, wanted, slack, engine)
    gap = ours.status == "timeout" or ours.error in ENGINE_GAPS
    if gap or not original.ok or engine == "reference":
        runs = " (the original runs here)" if original.ok else ""
        return Status.UNVERIFIED, f"{ours}{runs}", engine
    status = Status.CRASHED if ours.status == "crashed" else Status.INVALID
    return status, str(ours), engine


def _explain(
    told: str, ours: Arrays, original: children.Outcome, wanted: Arrays, slack: float, engine: str
) -> Finding:
    """Tell a difference of engines from a difference of ours."""
    if not original.ok:
        trusted = engine != "reference"
        status = Status.WRONG if trusted else Status.UNVERIFIED
        return status, f"{told} (the original does not run here: {original})", engine
    if not difference(ours, original.value, slack):
        return Status.EQUAL, f"engine difference: {told}", engine
    off = difference(original.value, wanted, slack)
    if off and engine == "reference":
        return Status.UNVERIFIED, f"the original differs here too: {off}", engine
    return Status.WRONG, f"{told}" + (f" (the original here: {off})" if off else ""), engine


# ---------------------------------------------------------------- the run and its tables


def models_of(corpus: Path, only: Sequence[str], sample: int | None, seed: int) -> list[Model]:
    """The models asked for, in the order of their names."""
    manifest = corpus / "manifest.json"
    entries = json.loads(manifest.read_text()) if manifest.exists() else []
    known = {entry["id"]: entry for entry in entries}
    found = sorted(path.parent for path in corpus.glob("*/model.onnx"))
    models = [
        Model(p.name, p, entry.get("run") or {}, tuple(entry.get("dtypes") or ()))
        for p in found
        for entry in [known.get(p.name, {})]
    ]
    models = [m for m in models if not only or any(fnmatch.fnmatch(m.id, g) for g in only)]
    if sample is not None and sample < len(models):
        models = sorted(random.Random(seed).sample(models, sample), key=lambda m: m.id)
    return models


def table(verdicts: Iterable[Verdict], targets: Sequence[int]) -> str:
    """Counts of each outcome, a row per target."""
    counts = Counter((v.target, v.status) for v in verdicts)
    rows = [["target", "models", *Status]]
    for target in targets:
        row = [counts[target, status] for status in Status]
        rows.append([str(target), str(sum(row)), *map(str, row)])
    return _columns(rows)


def refusals_table(verdicts: Iterable[Verdict], target: int) -> str:
    """Why models were refused, most frequent first, one example each."""
    models: Counter[tuple[str, str, tuple[int, int]]] = Counter()
    nodes: Counter[tuple[str, str, tuple[int, int]]] = Counter()
    example: dict[tuple[str, str, tuple[int, int]], str] = {}
    for verdict in verdicts:
        if verdict.target != target:
            continue
        reasons = [(r.why, r.op, r.boundary) for r in verdict.refusals]
        models.update(set(reasons))
        nodes.update(reasons)
        for reason, r in zip(reasons, verdict.refusals, strict=True):
            example.setdefault(reason, f"{verdict.model} {r.node!r}: {_line(r.detail)}")
    rows = [["models", "nodes", "why", "op", "boundary", "example"]]
    for reason, count in sorted(models.items(), key=lambda item: (-item[1], item[0])):
        why, op, (start, to) = reason
        near = example[reason]
        rows.append([str(count), str(nodes[reason]), why, op, f"{start}->{to}", near])
    return _columns(rows) if len(rows) > 1 else ""


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _line(text: str, limit: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def report(verdicts: Sequence[Verdict], targets: Sequence[int]) -> str:
    """All tables, and every case that is neither equal nor refused."""
    parts = [table(verdicts, targets)]
    for target in targets:
        if refused := refusals_table(verdicts, target):
            parts.append(f"refused at {target}\n{refused}")
    for status in (Status.UNVERIFIED, Status.REJECTED, *DEFECTS):
        if lines := list(_grouped(v for v in verdicts if v.status is status)):
            parts.append("\n".join([status, *lines]))
    return "\n\n".join(parts)


def _grouped(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """A line per distinct detail, most frequent first, with the cases it stands for."""
    cases: dict[str, list[str]] = {}
    for v in verdicts:
        told = f"[{v.engine or 'convert'}] {_line(v.detail)}"
        cases.setdefault(told, []).append(f"{v.model} -> {v.target}")
    for told, names in sorted(cases.items(), key=lambda item: -len(item[1])):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"  {', '.join(names[:3])}{more} {told}"


def run(
    models: Sequence[Model], targets: Sequence[int], settings: Settings, jobs: int
) -> list[Verdict]:
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
    add("--converter", default="opshift", help="opshift, onnx or module:function(src, dst, target)")
    add("--seconds", type=float, default=120.0, help="limit of one conversion or run")
    add("--megabytes", type=int, default=12_000, help="limit of one child's address space")
    return parser


if __name__ == "__main__":
    sys.exit(main())
