# SPDX-License-Identifier: Apache-2.0
"""The structure of the project: imports, verdicts for every operator, and reviewed claims."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import opshift
import opshift_adapters
import pytest
from newest_onnx import IS_OLDER
from opshift.author import registry
from opshift.opsets import schemas

PRODUCT = sorted(Path(opshift.__file__).parent.rglob("*.py"))
ENGINE = [path for path in PRODUCT if "verify" not in path.parts]
KNOWLEDGE = sorted(Path(opshift_adapters.__file__).parent.rglob("*.py"))
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview")


class Syntax(NamedTuple):
    """The parts of a source file that the tests compare."""

    imports: frozenset[str]
    classes: tuple[tuple[str, int], ...]  # with their lines
    texts: Counter[str]


@cache
def syntax(path: Path) -> Syntax:
    """A file is parsed once for all tests."""
    imports, classes, texts = set[str](), [], Counter[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            imports |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.ClassDef):
            classes.append((node.name, node.lineno))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts[node.value] += 1
    return Syntax(frozenset(imports), tuple(classes), texts)


def imported(path):
    imports = syntax(path).imports
    assert not any(name.startswith(".") for name in imports), "imports are absolute"
    return imports


@pytest.mark.parametrize("path", KNOWLEDGE, ids=lambda p: p.stem)
def test_adapters_import_the_author_api_alone(path):
    ours = {name for name in imported(path) if name.split(".")[0] == "opshift"}
    allowed = re.compile(r"opshift\.(adapter|combinators|objections)(\.\w+)?$")
    assert not [name for name in ours if not allowed.match(name)]


@pytest.mark.parametrize("path", ENGINE, ids=lambda p: p.stem)
def test_the_engine_does_not_import_adapters(path):
    assert not [name for name in imported(path) if name.startswith("opshift_adapters")]


def test_records_are_declared_in_one_way():
    """Python's own decorator costs a short command more time than its work."""
    users = [p.name for p in PRODUCT if "dataclasses.dataclass" in imported(p)]
    assert users == ["records.py"]


def test_only_commands_the_harness_probes_and_one_module_of_the_zoo_import_verification():
    asking = [p for p in ENGINE if any(n.startswith("opshift.verify") for n in imported(p))]
    asking = [p for p in asking if p.parent.name != "opshift"]  # it offers the package lazily
    assert {p.parent.name for p in asking} <= {"cli", "commands", "probe", "testing", "zoo"}
    assert [p.stem for p in asking if p.parent.name == "zoo"] == ["verified"]


def test_only_schemas_asks_onnx_for_schemas_and_one_module_tells_it_more():
    pattern = r"onnx\.defs|whole\.defs|library\.defs|import defs|, defs"
    engine = [path for path in ENGINE if path.parent.name != "protos"]
    asking = [path.stem for path in engine if re.search(pattern, path.read_text())]
    assert asking == ["registration", "schemas"]


def test_the_engine_knows_no_operator_by_name():
    known = set(schemas.operators("")) - {"Constant", "Identity", "Cast"}
    found = Counter()
    for path in ENGINE:
        if "testing" in path.parts:  # which writes models around examples
            continue
        texts = syntax(path).texts
        found.update({(path.stem, name): texts[name] for name in known & texts.keys()})
    assert not found


def _sources():
    root = Path(__file__).parents[1]
    tops = Path(opshift.__file__).parent, Path(opshift_adapters.__file__).parent, root / "tools"
    return [path for top in tops for path in sorted(top.rglob("*.py"))]


def _is_a_command(path):
    """Returns whether users type the name, which must then be the name of the module, too."""
    if "tools" not in path.parts:
        return path.parent.name == "commands"
    program = path.parent / "__main__.py"
    typed = syntax(program).texts if program.exists() else ()
    return any(path.stem in text.split() for text in typed)


def _is_of_an_operator(path):
    """Returns whether the name is that of an operator or family, in a folder of declarations."""
    return "opshift_adapters" in path.parts and path.parent.name not in ("facts", "_lib")


def test_no_type_name_has_two_meanings():
    found = {}
    for path in _sources():
        for name, line in syntax(path).classes:
            found.setdefault(name, []).append(f"{path}:{line}")
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_no_file_name_has_two_meanings():
    """A command and its module share a name, and so do the files of one operator."""
    found = {}
    operators = set()
    for path in _sources():
        if (
            path.stem.startswith("__")
            or _is_a_command(path)
            or (_is_of_an_operator(path) and path.stem in operators)
        ):
            continue
        operators |= {path.stem} if _is_of_an_operator(path) else set()
        found.setdefault(path.stem, []).append(str(path))
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}


@pytest.mark.parametrize("domain", DOMAINS)
def test_one_verdict_for_every_operator_boundary_and_direction(domain):
    newest = schemas.latest(domain)
    if newest is None:
        pytest.skip(f"the installed onnx has no {domain}")
    missing = registry.default().missing(domain, 1, newest)
    assert not missing, f"{len(missing)} crossings, first {missing[:20]}"


def test_every_claim_was_made_about_the_installed_schemas():
    open_again = set()
    for (domain, op, start, to), adapter in registry.default():
        if op in adapter.reviewed and schemas.history(domain, op):
            since = max(start, to)
            if since <= (schemas.latest(domain) or 0):
                marked = adapter.reviewed[op]
                if not marked or not registry.reviewed(adapter, op):
                    open_again.add(f"{op} {since}: {schemas.fingerprint(domain, op, since)}")
    assert not open_again, (
        "review these schemas, and write their fingerprints in `boundary`: "
        + ", ".join(sorted(open_again))
    )


def test_every_emitted_operator_exists_where_it_is_written():
    wrong = []
    for adapter in registry.default().adapters():
        for name in adapter.emits:
            domain, _, op = name.rpartition(".")
            if not schemas.history(domain, op):
                wrong.append((adapter.source, name))
    assert not wrong or IS_OLDER, wrong
