# SPDX-License-Identifier: Apache-2.0
"""Counts the models that runtimes load before and after a change of element types.

    python -m tools.corpus type_changes [--corpus FOLDER ...] [--only GLOB ...]
        [--ort 1.10.0 1.17.3 ...] [--change FROM=TO ...] [--beside PYTHON] [--list]

FOLDER holds a folder for each model, with model.onnx. Models without the types are left out. Each
model is converted for each release with `--types`. The result for the last one is compared with the
source, and with the source in double, on generated inputs; a second table has a row for each change
of a type. PYTHON is an interpreter with onnxslim,
onnxsim and onnxconverter-common, whose results are loaded as well.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import opshift

from tools.corpus.replay import CORPUS
from tools.corpus.runtimes.install import install
from tools.corpus.runtimes.runner import Runner
from tools.lib.program import described

WIDER = (
    "bfloat16=float",
    "float16=float",
    "double=float",
    "float8*=float",
    "int4=int8",
    "uint4=uint8",
)
SAVE = "import onnx, sys; onnx.save(convert(onnx.load(sys.argv[1])), sys.argv[2])"
OTHERS = {
    "onnxslim": f"from onnxslim import slim as convert; {SAVE}",
    "onnxsim": f"import onnxsim; convert = lambda model: onnxsim.simplify(model)[0]; {SAVE}",
}  # fmt: skip
HALF = {
    "onnxconverter-common": "from onnxconverter_common import float16;"
    f" convert = float16.convert_float_to_float16; {SAVE}",
}
DISTANCES = re.compile(r"distance of A is (\S+), that of B is (\S+),")
BECAME = re.compile(r"^(\w+) became (\w+) in", re.MULTILINE)
NAMED = re.compile(r"'[^']*'|\b\d+\b|name:\s*\S+|/\S+")  # what differs between models in an error


Made = dict[str, Path | str]  # the results by the names of the models, or why there are none


def main() -> int:
    args = _parser().parse_args()
    types = dict(one.split("=") for one in args.change)
    with tempfile.TemporaryDirectory(prefix="types-") as name:
        scratch = Path(name)
        models = dict(_chosen(args, types))
        others = HALF if "float16" in types.values() else OTHERS
        beside = {
            one: _by(args.beside, code, models, scratch / one)
            for one, code in others.items()
            if args.beside
        }
        print(f"{len(models)} models have one of the types\n")
        print(f"| {' | '.join(('release', 'as they are', 'opshift', *beside))} |")
        print(f"|{'---|' * (len(beside) + 3)}")
        for release in args.ort:
            runner = Runner(install(release))
            for_it = dict(_converted(models, types, release, scratch))
            sides: dict[str, Made] = {"as they are": dict(models), "opshift": for_it, **beside}
            errors = {side: _errors(runner, models, made) for side, made in sides.items()}
            loaded = [str(len(models) - found.total()) for found in errors.values()]
            print(f"| onnxruntime {release} | {' | '.join(loaded)} |", flush=True)
            for side, found in errors.items() if args.list else ():
                for why, count in found.most_common():
                    print(f"    {side}: {count} x {why}")
            runner.close()
        _compared(models, for_it, types)
    return 0


def _chosen(args: argparse.Namespace, types: dict[str, str]) -> Iterator[tuple[str, Path]]:
    """The models that a change of types changes."""
    for folder in sorted(one for corpus in args.corpus for one in corpus.iterdir()):
        path = folder / "model.onnx"
        if path.exists() and any(fnmatch.fnmatch(folder.name, glob) for glob in args.only):
            try:
                if _changes(path, types):
                    yield folder.name, path
            except opshift.OpshiftError as error:
                print(f"{folder.name}: {error}")


def _converted(
    models: dict[str, Path], types: dict[str, str], release: str, scratch: Path
) -> Iterator[tuple[str, Path | str]]:
    """The results for a release of onnxruntime, or the reasons why there are none."""
    for name, path in models.items():
        made = scratch / f"{name}-{release}.onnx"
        try:
            opshift.convert_file(path, made, f"onnxruntime=={release}", types=types)
            yield name, made
        except opshift.OpshiftError as error:
            yield name, f"{type(error).__name__}: {str(error).splitlines()[0]}"


def _by(python: str, code: str, models: dict[str, Path], folder: Path) -> Made:
    """What another tool makes of the models."""
    folder.mkdir()
    found: Made = {}
    for name, path in models.items():
        made = folder / f"{name}.onnx"
        done = subprocess.run(
            [python, "-c", code, str(path), str(made)], capture_output=True, text=True
        )
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        found[name] = made if done.returncode == 0 else f"{folder.name} fails: {last[:80]}"
    return found


def _compared(models: dict[str, Path], made: Made, types: dict[str, str]) -> None:
    """Prints how many results compute the same, and how far both sides are from double."""
    outcomes = defaultdict[str, Counter[str]](Counter)
    apart = defaultdict[str, list[tuple[float, float]]](list)
    for name, path in made.items():
        if isinstance(path, Path):
            found = opshift.verify(models[name], path, in_double=True)
            outcome = "equal" if found.equal else "different" if found.different else "not judged"
            if not found.equal:
                print(f"    {name} is {outcome}")
            three = DISTANCES.findall("\n".join(found.notes))
            for change in ("all", *_changes(models[name], types)):
                outcomes[change][outcome] += 1
                apart[change] += [(float(source), float(result)) for source, result in three]
    print("\n| change | models | equal | different | distance of sources | of results |")
    print(f"|{'---|' * 6}")
    for change, counts in outcomes.items():
        sides = zip(*apart[change], strict=True)
        shown = (f"{median(values):.2g}, at most {max(values):.2g}" for values in sides)
        words = (str(counts.total()), *(str(counts[one]) for one in ("equal", "different")))
        print(f"| {' | '.join((change, *words, *shown))} |")


def _changes(path: Path, types: dict[str, str]) -> list[str]:
    """The changes of types in a model, or at least in its interface."""
    report = opshift.convert(path, types=types, check="none").report
    found = [f"{one} to {to}" for one, to in BECAME.findall("\n".join(report.approximations))]
    ends = any(note.startswith("callers see other types") for note in report.notes)
    return found or ["only the interface"] * ends


def _errors(runner: Runner, models: dict[str, Path], made: Made) -> Counter[str]:
    """Why models do not load, without the names in the reasons."""
    found = Counter[str]()
    for name in models:
        path = made[name]
        if isinstance(path, str):
            found[path] += 1
        else:
            answer = runner.judge(path, path.parent / "-")
            if answer["outcome"] != "right":  # there is nothing to compare, so it means loaded
                found[f"{answer['outcome']}: {NAMED.sub('..', answer['why'])[:120]}"] += 1
    return found


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    parser.add_argument("--corpus", type=Path, nargs="+", default=[CORPUS], metavar="FOLDER")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB")
    parser.add_argument("--ort", nargs="+", default=["1.10.0", "1.17.3"], metavar="VERSION")
    parser.add_argument("--change", nargs="+", default=WIDER, metavar="FROM=TO")
    parser.add_argument("--beside", metavar="PYTHON", help="an interpreter with other tools")
    parser.add_argument("--list", action="store_true", help="print the errors")
    return parser
