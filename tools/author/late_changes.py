# SPDX-License-Identifier: Apache-2.0
"""Writes a table of operators that an onnx release changed in an opset that was already published.

    python -m tools.author late_changes WHEELS [--check]

WHEELS is a folder with wheels of onnx: one of a minor release that the table contains, and one of
each later minor release (`pip download --no-deps onnx==1.23.2`). The rows of the releases up to the
first wheel stay. Each wheel is read by the Python in its name, which must be on the PATH; onnx
itself is not installed. With --check, the tool writes nothing and prints the differences, and the
exit code is 1 if there are any.
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
import subprocess
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opshift import opsets

from tools.lib.program import described

PATH = Path(opsets.__path__[0]) / "late_changes.txt"
HEAD = "# python -m tools.author late_changes WHEELS, format 1\n"
_NAME = re.compile(r"onnx-(\d+)\.(\d+)\.\d+\S*?-cp(\d)(\d+)-.*\.whl")
# This script runs in an old Python that has only the C library of a wheel.
_DUMP = """
import glob, importlib.machinery, importlib.util, json, sys
(path,) = glob.glob(sys.argv[1] + "/onnx/onnx_cpp2py_export*.so")
loader = importlib.machinery.ExtensionFileLoader("onnx_cpp2py_export", path)
module = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("onnx_cpp2py_export", loader))
loader.exec_module(module)
rows = {}
for schema in module.defs.get_all_schemas_with_history():
    allowed = {t.type_param_str: sorted(t.allowed_type_strs) for t in schema.type_constraints}
    def types(parameters):
        names = [getattr(p, "typeStr", None) or p.type_str for p in parameters]
        return [allowed.get(name, [name]) for name in names]
    key = "%s::%s:%d" % (schema.domain, schema.name, schema.since_version)
    rows[key] = {"deprecated": schema.deprecated, "input": types(schema.inputs),
                  "output": types(schema.outputs), "attributes": sorted(schema.attributes)}
json.dump(rows, sys.stdout)
"""

Schemas = dict[str, dict[str, Any]]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool."""
    parser = described(__doc__)
    parser.add_argument("wheels", type=Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(argv)
    wheels = sorted((_release(path), path) for path in args.wheels.glob("onnx-*.whl"))
    if len(wheels) < 2:
        parser.error(f"{args.wheels} has fewer than two wheels of onnx")
    schemas_of = {release: _schemas(path) for release, path in wheels}
    old = PATH.read_text(encoding="utf-8")
    new = extended(old, schemas_of)
    if args.check:
        differ = difflib.unified_diff(*(t.splitlines(True) for t in (old, new)), "table", "wheels")
        print("".join(differ), end="")
        return int(old != new)
    PATH.write_text(new, encoding="utf-8")
    return 0


def extended(table: str, schemas_of: Mapping[tuple[int, int], Schemas]) -> str:
    """Returns the table with rows for all these releases except the first, which it contains."""
    releases = sorted(schemas_of)
    rows = [row for row in table.splitlines(keepends=True)[1:] if _of(row) <= releases[0]]
    for earlier, later in itertools.pairwise(releases):
        shown = ".".join(map(str, later))
        rows += [f"{shown} {row}\n" for row in changes(schemas_of[earlier], schemas_of[later])]
    return "".join([HEAD, *rows])


def _of(row: str) -> tuple[int, int]:
    """Returns the release of onnx with which a row of the table begins."""
    major, minor = row.split(" ")[0].split(".")
    return int(major), int(minor)


def changes(before: Schemas, now: Schemas) -> Iterator[str]:
    """Yields the changes of a release in operator sets that the release before it already had."""
    newest: dict[str, int] = defaultdict(int)
    for key in before:
        domain, since = _split(key)
        newest[domain] = max(newest[domain], since)
    for key in sorted(before.keys() | now.keys()):
        domain, since = _split(key)
        if since > newest[domain]:
            continue
        old, new = before.get(key), now.get(key)
        if old is None or new is None:
            yield f"{key} {'added' if old is None else 'removed'}"
            continue
        if new["deprecated"] and not old["deprecated"]:
            yield f"{key} deprecated"
        for kind in ("input", "output"):
            for at, (was, has) in enumerate(zip(old[kind], new[kind], strict=False)):
                for word, types in (("lost", {*was} - {*has}), ("gained", {*has} - {*was})):
                    if types:
                        yield f"{key} {word} {kind} {at} {','.join(sorted(types))}"


def _split(key: str) -> tuple[str, int]:
    return key.partition("::")[0], int(key.rpartition(":")[2])


def _release(wheel: Path) -> tuple[int, int]:
    match = _NAME.fullmatch(wheel.name)
    if match is None:
        raise SystemExit(f"{wheel.name}: this is not a wheel of onnx for CPython")
    return int(match[1]), int(match[2])


def _schemas(wheel: Path) -> Schemas:
    """Returns all schemas of a release, read in the Python for which the wheel is built."""
    name = _NAME.fullmatch(wheel.name)
    assert name is not None
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as packed:
            names = (file for file in packed.namelist() if file.endswith(".so") or ".libs/" in file)
            packed.extractall(folder, [*names])
        words = [f"python{name[3]}.{name[4]}", "-c", _DUMP, folder]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    schemas: Schemas = json.loads(done.stdout)
    return schemas
