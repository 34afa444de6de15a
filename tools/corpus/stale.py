# SPDX-License-Identifier: Apache-2.0
"""Proves that stale declarations change no result, over the corpus.

    python -m tools.corpus stale [--to 21 18 13 11 9] [--only 'g_ts_*'] [--sample 20 --seed 1]

Each model with a free dimension gets declarations of all its values at the sizes of one set of its
inputs, as an export leaves them behind. It is converted, and the result runs on another set of
inputs of other sizes. It must give what is expected there, or be refused, or its report must name
the declarations that were believed. Each other outcome is listed, and the exit code is 1. A model
is unfit if no engine runs it with such declarations, or if the same conversion without declarations
does not give the expected outputs either.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto

from tools.corpus.conversion_child import execute
from tools.corpus.model import Model, models_of
from tools.corpus.same_results import difference
from tools.lib import children
from tools.lib.program import described

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
LARGEST = 200 << 20  # bytes of a model that is looked at
SECONDS = 120.0
BELIEVED = "only declared"  # in the note of a report
FINE = ("equal", "refused", "reported", "unfit")


def other_sizes(model: Model) -> tuple[Path, Path] | None:
    """The inputs that the declarations fit, and others of other sizes."""
    sets = [inputs for inputs, _ in model.sets()]
    for other in sets[1:]:
        if _shapes(other) != _shapes(sets[0]):
            return sets[0], other
    return None


def _shapes(inputs: Path) -> dict[str, tuple[int, ...]]:
    with np.load(inputs) as arrays:
        return {name: arrays[name].shape for name in arrays.files}


def declared(model: ModelProto, shapes: dict[str, tuple[int, ...]]) -> ModelProto:
    """The model with every value declared as it is where the inputs have these shapes."""
    fixed = ModelProto.FromString(model.SerializeToString())
    for value in fixed.graph.input:
        if value.name in shapes and value.type.HasField("tensor_type"):
            del value.type.tensor_type.shape.dim[:]
            for size in shapes[value.name]:
                value.type.tensor_type.shape.dim.add(dim_value=size)
    for value in (*fixed.graph.output, *fixed.graph.value_info):
        if value.type.HasField("tensor_type"):
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
    found = onnx.shape_inference.infer_shapes(fixed, data_prop=True).graph.value_info
    stale = ModelProto.FromString(model.SerializeToString())
    del stale.graph.value_info[:]
    stale.graph.value_info.extend(found)
    return stale


def verdict(model: Model, to: int) -> str:
    """One of FINE, or what is wrong."""
    sizes = other_sizes(model)
    if sizes is None or model.path.stat().st_size > LARGEST:
        return "unfit"
    honest = onnx.load(model.path)
    stale = declared(honest, _shapes(sizes[0]))
    del honest.graph.value_info[:]
    told = _outcome(model, stale, sizes[1], to)
    if told in FINE:
        return told
    runs = _judged(model, stale, sizes[1]) == "equal"  # a runtime may mind such declarations
    fit = runs and _outcome(model, honest, sizes[1], to) in ("equal", "refused")
    return told if fit else "unfit"


def _outcome(model: Model, before: ModelProto, inputs: Path, to: int) -> str:
    from opshift import InvalidModel, Refused, convert

    try:
        found = convert(before, to)
    except Refused:
        return "refused"
    except InvalidModel as error:
        return f"InvalidModel: {error}"
    if any(BELIEVED in note for note in found.report.notes):
        return "reported"
    return _judged(model, found.model, inputs)


def _judged(model: Model, result: ModelProto, inputs: Path) -> str:
    expected = inputs.with_name(inputs.name.replace("inputs", "expected"))
    with np.load(expected) as arrays:
        wanted = {name: arrays[name] for name in arrays.files}
    with tempfile.TemporaryDirectory(prefix="stale-") as folder:
        path = str(Path(folder, "after.onnx"))
        onnx.save(result, path)
        for engine in ("onnxruntime", "judge"):
            ran = children.run(execute, engine, path, str(inputs), seconds=SECONDS)
            if ran.ok:
                return difference(ran.value, wanted, model.slack) or "equal"
    return f"the result does not run: {ran}"


def survey(models: Sequence[Model], targets: Sequence[int]) -> dict[str, str]:
    """The verdict on each model at each target."""
    return {f"{model.id} to {to}": verdict(model, to) for model in models for to in targets}


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit code says whether a declaration changed a result."""
    args = _parser().parse_args(argv)
    found = survey(models_of(CORPUS, args.only, args.sample, args.seed), args.to)
    bad = {name: told for name, told in found.items() if told not in FINE}
    for name, told in bad.items():
        print(f"{name}: {told}")
    counts = Counter(told if told in FINE else "wrong" for told in found.values())
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return int(bool(bad))


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    parser.add_argument("--to", type=int, nargs="+", default=[21, 18, 13, 11, 9], metavar="OPSET")
    parser.add_argument("--only", nargs="*", default=[], metavar="GLOB", help="corpus models")
    parser.add_argument("--sample", type=int, metavar="N", help="that many models by chance")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
