# SPDX-License-Identifier: Apache-2.0
"""Freezes models and outputs of a release, and tests that this tree still converts them.

    python -m tools.author freeze --write              tests/frozen/VERSION, once for each release
    python -m tools.author freeze [--sample 50 --seed 1]   convert every frozen model and compare

A frozen file is never edited; tests/frozen/digests.txt lists each with its digest. `models.json.xz`
has one model for each operator version, with inputs, outputs and the digest of its conversion to
each target. `forms.json` has the JSON output of each command, `batch.zip` the files of a batch with
marks and journal, `names.json` the names that callers write (functions, options, codes, exit
codes), and `vendor.zip` operator-set documents and the database of a vendor. A later release must
convert every model that was converted, with the frozen outputs; the bytes may differ.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import lzma
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from opshift import OpshiftError, Refused, convert_version, release
from opshift.opsets import schemas
from opshift.verify import oracle, randomness

from tools.author import frozen_forms, frozen_names
from tools.author.frozen_values import decoded, encoded
from tools.lib.program import described

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "frozen"
DIGESTS, MODELS = "digests.txt", "models.json.xz"
FORMS, BATCH = "forms.json", "batch.zip"
NAMES, VENDOR = "names.json", "vendor.zip"
TARGETS = {"": (7, 9, 11, 13, 15, 18, 21), "ai.onnx.ml": (1, 2, 3, 4)}
RTOL, ATOL, ULP = 1e-5, 1e-6, 4  # the same arithmetic in another order rounds differently
REFUSED = "refused"


# -- writing -------------------------------------------------------------------------------------


def models() -> Iterator[dict[str, Any]]:
    """Yields a model for each operator version that an example contains and an adapter converts."""
    import opshift_adapters
    from opshift import testing

    seen: set[tuple[str, str, int]] = set()
    for adapter, example in testing.examples(opshift_adapters.__name__):
        if example.refuses is not None or example.invalid:
            continue
        model = testing.example_model(adapter, example)
        target = testing.example_target(adapter, example)
        new = _operators(model, adapter.domain, set(adapter.ops)) - seen
        if not new or not (entry := _frozen(model, adapter.domain, target, example)):
            continue
        seen |= new
        entry["operators"] = sorted(f"{d or 'ai.onnx'}.{op}:{since}" for d, op, since in new)
        yield entry


def _operators(model: Any, domain: str, ops: set[str]) -> set[tuple[str, str, int]]:
    imports = {schemas.normal(opset.domain): opset.version for opset in model.opset_import}
    operators = set()
    for node in model.graph.node:
        key = (schemas.normal(node.domain), node.op_type)
        schema = schemas.schema(*key, imports[key[0]]) if key[0] in imports else None
        if schema is not None and key[0] == domain and key[1] in ops:
            operators.add((*key, schema.since))
    return operators


def _frozen(model: Any, domain: str, target: dict[str, int], example: Any) -> dict[str, Any] | None:
    """Returns a model with inputs, outputs and conversions; None if it cannot be compared."""
    if not isinstance(target, dict) or domain not in target:
        return None
    approximate = bool(example.approximate)
    if outcome(model, target, approximate)[0] == REFUSED or randomness.drawn(model):
        return None
    try:
        inputs = oracle.make_inputs(model, overrides=dict(example.inputs))
        outputs = oracle.evaluate(model, inputs)
    except oracle.OracleError:
        return None
    wanted = {*TARGETS.get(domain, ()), target[domain], schemas.latest(domain) or 1}
    ends = {str(v): outcome(model, {domain: v}, approximate)[0] for v in sorted(wanted)}
    return {
        "model": base64.b64encode(model.SerializeToString(deterministic=True)).decode(),
        "inputs": {name: encoded(value) for name, value in inputs.items()},
        "outputs": [encoded(value) for value in outputs],
        "domain": domain, "approximate": approximate, "rtol": example.rtol, "atol": example.atol,
        "conversions": ends,
    }  # fmt: skip


def outcome(model: Any, target: dict[str, int], approximate: bool) -> tuple[str, Any]:
    """Returns the digest of a conversion and its result, or REFUSED."""
    try:
        after = convert_version(model, target, allow_approximate=approximate)
    except Refused:
        return REFUSED, None
    content = after.SerializeToString(deterministic=True)
    return hashlib.sha256(content).hexdigest()[:16], after


def _packed() -> tuple[bytes]:
    return (lzma.compress(json.dumps(list(models()), sort_keys=True).encode(), preset=9),)


def write(folder: Path) -> None:
    """Writes the frozen files of this release; existing files are never replaced."""
    home = folder / release.VERSION
    home.mkdir(parents=True, exist_ok=True)
    parts: dict[tuple[str, ...], Callable[[], tuple[bytes, ...]]] = {
        (MODELS,): _packed,
        (FORMS, BATCH): frozen_forms.frozen,
        (NAMES, VENDOR): frozen_names.frozen,
    }
    for names, make in parts.items():
        if not (home / names[0]).exists():
            for name, content in zip(names, make(), strict=True):
                (home / name).write_bytes(content)
    listed = dict(reversed(line.split()) for line in _lines(folder))
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in (DIGESTS, *listed):
            with open(folder / DIGESTS, "a") as file:
                file.write(f"{digest(path)}  {name}\n")


def digest(path: Path) -> str:
    """Returns the digest of a frozen file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _lines(folder: Path) -> list[str]:
    return (folder / DIGESTS).read_text().splitlines() if (folder / DIGESTS).exists() else []


# -- comparing -----------------------------------------------------------------------------------


def read(release: Path) -> list[dict[str, Any]]:
    """Returns the frozen models of a release."""
    entries: list[dict[str, Any]] = json.loads(lzma.decompress((release / MODELS).read_bytes()))
    return entries


def readable(frozen: dict[str, Any]) -> bool:
    """Returns whether the installed onnx has every version that a frozen model imports."""
    model = model_of(frozen)
    opsets = model.opset_import
    newest = {opset.domain: schemas.latest(schemas.normal(opset.domain)) for opset in opsets}
    return all(opset.version <= (newest[opset.domain] or opset.version) for opset in opsets)


def model_of(frozen: dict[str, Any]) -> Any:
    """Returns the model of a frozen entry."""
    import onnx

    return onnx.ModelProto.FromString(base64.b64decode(frozen["model"]))


def broken(frozen: dict[str, Any]) -> tuple[list[str], int]:
    """Returns the errors of one frozen model, and the number of results with other bytes."""
    model, errors, other = model_of(frozen), [], 0
    inputs = {name: decoded(value) for name, value in frozen["inputs"].items()}
    expected = [decoded(value) for value in frozen["outputs"]]
    for version, before in frozen["conversions"].items():
        target = {frozen["domain"]: int(version)}
        if int(version) > (schemas.latest(frozen["domain"]) or 0):
            continue  # the installed onnx is older than the onnx at the time of freezing
        where = f"{', '.join(frozen['operators'])} to {version}"
        try:
            now, after = outcome(model, target, frozen["approximate"])
        except OpshiftError as error:
            errors.append(f"{where}: {error}")
            continue
        other += now != before
        if now == REFUSED and before != REFUSED:
            errors.append(f"{where}: is refused, but the frozen release of opshift converted it")
        elif before != REFUSED and not oracle.doubtful(model, after):
            difference = _difference(frozen, after, inputs, expected)
            errors += [f"{where}: {difference}"] if difference else []
    return errors, other


def _difference(frozen: Any, after: Any, inputs: Any, expected: Any) -> str | None:
    """Returns the difference of a result from the frozen outputs; None if there is none."""
    actual = oracle.evaluate(after, inputs)
    rtol, atol = max(frozen["rtol"], RTOL), max(frozen["atol"], ATOL)
    return oracle.compare(expected, actual, rtol=rtol, atol=atol, ulp=ULP)  # type: ignore[no-any-return]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool; the exit code is 1 if a frozen model fails."""
    args = _parser().parse_args(argv)
    if args.write:
        write(FOLDER)
        return 0
    rows = [row for path in sorted(FOLDER.glob(f"*/{MODELS}")) for row in read(path.parent)]
    if args.sample is not None:
        rows = random.Random(args.seed).sample(rows, min(args.sample, len(rows)))
    errors, other, conversions = list[str](), 0, 0
    for row in filter(readable, rows):
        failures_of_row, differing = broken(row)
        errors, other = errors + failures_of_row, other + differing
        conversions += len(row["conversions"])
    print(*errors, sep="\n")
    print(f"{len(rows)} models, {conversions} conversions: {len(errors)} fail, {other} other bytes")
    return int(bool(errors))


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    parser.add_argument("--write", action="store_true", help="freeze this release")
    parser.add_argument("--sample", type=int, metavar="N", help="a random sample of N models")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
