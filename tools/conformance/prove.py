# SPDX-License-Identifier: Apache-2.0
"""Shows that what the checks by classes let pass, onnx's full check lets pass, on changed models.

    python -m tools.conformance prove [--mutants 100000] [--seed 1] [--workers 2] [MODEL ...]

Each mutant is a model with a few random changes (tools/fuzz/mutate.py). The exit code is 1 when a
mutant is proved sound by classes and `onnx.checker.check_model(full_check=True)` rejects it. The
only exception are mutants with negative sizes that onnx accepts where these are unknown sizes, and
that onnxruntime loads as they are.
Without MODEL, the corpus beside the checkout is used. Batches run in child processes, because
onnx ends the process on some mutants; then the next child goes on behind that mutant.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import onnx
from onnx import ModelProto

from tools.fuzz import mutate
from tools.lib import children

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
BATCH = 5000
LARGEST = 12_000  # bytes of a model: to change a larger one takes too long


def judge(data: bytes) -> str:
    """What both checks answer about a model: 'WRONG' is the answer that must not occur."""
    from opshift.author import registry
    from opshift.convert.classes.proof import proves
    from opshift.protos.negative_sizes import unknown

    proved = proves(data, registry.default(), at_any_cost=True)
    if _accepted(data):
        return "proved" if proved else "left to onnx"
    if not proved:
        return "rejected"
    runs = _accepted(unknown(data)) and _loads(data)
    return "proved with negative sizes, which onnxruntime loads" if runs else "WRONG"


def _accepted(data: bytes) -> bool:
    try:
        onnx.checker.check_model(data, full_check=True)
    except Exception:
        return False
    return True


def _loads(data: bytes) -> bool:
    """Whether onnxruntime loads a model, or has nothing against it but a missing kernel."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(data, options, ["CPUExecutionProvider"])
    except Exception as error:  # kernels are looked for behind the checks of types and shapes
        return "NOT_IMPLEMENTED" in str(error)
    return True


def run(paths: Sequence[str], first: int, last: int, log: str) -> None:
    """Writes the answer about the mutant of each seed, after a line that announces it."""
    models = [ModelProto.FromString(Path(path).read_bytes()) for path in paths]
    with open(log, "a", buffering=1) as out:
        for seed in range(first, last):
            out.write(f"{seed} ")
            out.flush()  # onnx may end the process on this mutant
            out.write(mutant(models, seed) + "\n")


def mutant(models: Sequence[ModelProto], seed: int) -> str:
    """The answer about one mutant."""
    rng = Random(seed)
    made = mutate.mutated(rng, rng.choice(models), rng.choice(models))
    try:
        return judge(made.SerializeToString())
    except ValueError:  # protobuf writes no such model
        return "not written"


def batch(
    paths: Sequence[str], first: int, last: int, seconds: float = 900
) -> tuple[Counter[str], list[int]]:
    """The answers about the mutants of these seeds, and the seeds of wrong answers."""
    counts, wrong = Counter[str](), []
    with tempfile.TemporaryDirectory(prefix="prove-") as folder:
        log = Path(folder, "log")
        while first < last:
            log.write_text("")
            outcome = children.run(
                run, paths, first, last, str(log), seconds=seconds, start="spawn"
            )
            for line in log.read_text().splitlines():
                seed, _, answer = line.partition(" ")
                first = int(seed) + 1
                counts[answer or f"ended the process ({outcome.status})"] += 1
                wrong += [int(seed)] if answer == "WRONG" else []
            if outcome.status == "raised" or not log.stat().st_size:
                raise SystemExit(f"{outcome}\n{outcome.trace}")
    return counts, wrong


def sound(paths: Sequence[str]) -> list[str]:
    """The models that onnx accepts and that are small enough to change often."""
    found = []
    for path in paths:
        data = Path(path).read_bytes()
        if len(data) <= LARGEST and judge(data) in ("proved", "left to onnx"):
            found.append(path)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args(argv)
    paths = sound(args.models or sorted(map(str, CORPUS.glob("*/model.onnx"))))
    if not paths:
        parser.error("there is no sound model to change; name some")
    firsts = range(args.seed, args.seed + args.mutants, BATCH)
    counts, wrong = Counter[str](), []
    with ThreadPoolExecutor(args.workers) as pool:
        stop = args.seed + args.mutants
        jobs = [pool.submit(batch, paths, first, min(first + BATCH, stop)) for first in firsts]
        for job in jobs:
            counts += job.result()[0]
            wrong += job.result()[1]
    print(f"{counts.total():,} mutants of {len(paths)} models, seeds {args.seed} to {stop - 1}")
    print(", ".join(f"{number:,} {answer}" for answer, number in sorted(counts.items())))
    if wrong:
        print("proved by classes and rejected by onnx: seeds", *wrong)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
