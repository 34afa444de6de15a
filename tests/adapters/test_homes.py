# SPDX-License-Identifier: Apache-2.0
"""Each operator has one source file, and modules of shared code declare no verdicts."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from importlib.resources import files
from pathlib import Path

from click.testing import CliRunner
from opshift.cli.entry import main

ADAPTERS = Path(str(files("opshift_adapters")))
OF_EXAMPLES = {"example", "Assumption", "Why"}


def homes() -> dict[str, set[str]]:
    """Maps each operator to the modules that declare its verdicts, by the index of the adapters."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in files("opshift_adapters").joinpath("index.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        module, _, *verdicts = line.split()
        for verdict in verdicts:
            if re.fullmatch(r"[^:]*:[^:]+:-?\d+:-?\d+", verdict):  # no rule about any version
                found[verdict.rsplit(":", 2)[0]].add(module)
    return found


def test_an_operator_has_one_home():
    assert {op: modules for op, modules in homes().items() if len(modules) > 1} == {}


def test_files_with_a_leading_underscore_hold_no_verdicts():
    assert not [op for op, modules in homes().items() if any("_lib" in m for m in modules)]


def test_the_command_names_the_file_and_the_line():
    printed = CliRunner().invoke(main, ["adapters", "Resize"]).output
    lines = printed.splitlines()
    (at,) = [at for at, line in enumerate(lines) if line.startswith("  10 -> 9 ")]
    path, number = lines[at + 2].split()[-1].split(":")
    assert path == "opshift_adapters/image/resize.py"
    text = files("opshift_adapters").joinpath("image/resize.py").read_text("utf-8").splitlines()
    assert text[int(number) - 1].startswith('@adapter("Resize", 10, 9')


def is_read_alone(example: ast.Call) -> bool:
    """Returns whether an example fits on one line and uses no variable of its module."""
    told = {word.arg for word in example.keywords} & {"gives", "refuses", "invalid"}
    names = {node.id for node in ast.walk(example) if isinstance(node, ast.Name)}
    return bool(told) and example.lineno == example.end_lineno and names <= OF_EXAMPLES


def test_at_most_three_examples_stand_above_a_function_and_each_is_read_alone():
    """Further examples are cases in `tests/adapters/cases`."""
    seen, wrong = 0, []
    for path in sorted(ADAPTERS.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            calls = [c for c in getattr(function, "decorator_list", ()) if isinstance(c, ast.Call)]
            above = [c for c in calls if ast.unparse(c.func) == "example"]
            seen += len(above)
            if len(above) > 3 or not all(map(is_read_alone, above)):
                wrong.append(f"{path.relative_to(ADAPTERS)}:{function.lineno}")
    assert seen
    assert wrong == []
