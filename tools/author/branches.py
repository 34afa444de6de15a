# SPDX-License-Identifier: Apache-2.0
"""Lists the branches of the adapters that no `@example` reaches; there should be none.

    python -m tools.author branches              all adapters, with all examples
    python -m tools.author branches squeeze pad  these files, only with their own examples
    python -m tools.author branches modern/softmax

The exit code is 1 if a branch is listed. A line that no example can reach needs a reason:
`# pragma: no cover: REASON`, or `# pragma: no branch: REASON` for a condition with one outcome.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import coverage

from tools.lib.program import described

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "opshift_adapters"
ADVICE = (
    "Add an @example that reaches the line (with refuses= or invalid= if it must fail), delete\n"
    "code that cannot be reached, or give a reason: # pragma: no cover: REASON"
)


def unreached(files: Sequence[str] = ()) -> list[str]:
    """Returns a sentence for each branch of these files that their own examples do not reach."""
    measured = coverage.Coverage(data_file=None, config_file=str(ROOT / "pyproject.toml"))
    with measured.collect():  # the adapters are imported here, so that their first lines count
        for package in [_module(file) for file in files] or [PACKAGE]:
            _run_examples(package)
    paths = [f"*/{_module(file).replace('.', '/')}.py" for file in files] or None
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "coverage.json")
        measured.json_report(outfile=str(report), include=paths)
        lines_of = json.loads(report.read_text())["files"]
    return [text for path in sorted(lines_of) for text in _sentences(Path(path), lines_of[path])]


def _module(file: str) -> str:
    """Returns the module of an adapter file in any folder of the package."""
    paths = (ROOT / "adapters" / PACKAGE).rglob(f"{file}.py")
    path = min(paths, key=lambda candidate: "modern" in candidate.parts)  # verdicts before formulas
    return ".".join(path.relative_to(ROOT / "adapters").with_suffix("").parts)


def _run_examples(package: str) -> None:
    """Converts the examples and computes constants, without a comparison of the results."""
    from opshift import convert_version, testing

    from tools.author import example_results

    example_results.of_package(package)
    for modern, example in testing.modern_rules(package):
        model = testing.modern_model(modern, example)
        convert_version(model, modernize=True, allow_approximate=example.approximate)
    for fold, example in testing.folds(package):
        testing.folded(fold, example)
    for rule, example in testing.rank_rules(package):
        testing.ranked(rule, example)
    for shape, example in testing.shape_rules(package):
        testing.assert_shapes(shape, example)
    for bound, example in testing.bound_rules(package):
        testing.bounded(bound, example)
    _find_misread_forms(package)


def _find_misread_forms(package: str) -> None:
    """Applies each rewriting for a faulty runtime to its examples."""
    from opshift import accepts
    from opshift.author import registry
    from opshift.author.misreadings import Misread
    from opshift.opsets import targets
    from opshift.testing.case_files import examples_of
    from opshift.testing.model_text import parse_model

    for misread in registry.default().each(Misread):
        if f"{misread.run.__module__}.".startswith(f"{package}."):
            row = next(row for row in targets.table() if misread.concerns(row))
            for example in examples_of(misread):
                imports = ", ".join(f'"{name}" : {at}' for name, at in example.imports.items())
                header = f"<ir_version: 8, opset_import: [{imports}]>"
                accepts(parse_model(f"{header} g {example.graph}"), row.shown, isolate=False)


def _sentences(path: Path, measured_file: dict[str, Any]) -> Iterator[str]:
    lines = path.read_text().splitlines()
    missing = set(measured_file["missing_lines"])
    name = path.resolve().relative_to(ROOT)
    for unrun, block in itertools.groupby(
        sorted([*measured_file["executed_lines"], *missing]), missing.__contains__
    ):
        if unrun:
            first = next(block)
            yield f"{name}:{first}: no example reaches `{lines[first - 1].strip()}`"
    for start, end in measured_file["missing_branches"]:
        if start not in missing and end not in missing:
            way = "leaves the function" if end < 0 else f"goes on at line {end}"
            yield f"{name}:{start}: no example {way} from `{lines[start - 1].strip()}`"


def main(argv: Sequence[str] | None = None) -> int:
    parser = described(__doc__)
    parser.add_argument("files", nargs="*", help="names of files of adapters, like squeeze")
    files = parser.parse_args(argv).files
    for file in files:
        if not any((ROOT / "adapters" / PACKAGE).rglob(f"{file}.py")):
            print(
                f"there is no file of adapters {file!r}; give names like squeeze", file=sys.stderr
            )
            return 2
    left = unreached(files)
    print("\n".join([*left, "", ADVICE]) if left else "every branch is taken by an example")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
