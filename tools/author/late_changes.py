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
found = {}
for one in module.defs.get_all_schemas_with_history():
    allowed = {t.type_param_str: sorted(t.allowed_type_strs) for t in one.type_constraints}
    def types(parameters):
        names = [getattr(p, "typeStr", None) or p.type_str for p in parameters]
        return [allowed.get(name, [name]) for name in names]
    key = "%s::%s:%d" % (one.domain, one.name, one.since_version)
    found[key] = {"deprecated": one.deprecated, "input": types(one.inputs),
                  "output": types(one.outputs), "attributes": sorted(one.attributes)}
json.dump(found, sys.stdout)
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
    found = {release: _schemas(path) for release, path in wheels}
    old = PATH.read_text(encoding="utf-8")
    new = extended(old, found)
    if args.check:
        differ = difflib.unified_diff(*(t.splitlines(True) for t in (old, new)), "table", "wheels")
        print("".join(differ), end="")
        return int(old != new)
    PATH.write_text(new, encoding="utf-8")
    return 0


def extended(table: str, found: Mapping[tuple[int, int], Schemas]) -> str:
    """Returns the table with new rows for all releases after the first of these releases."""
    releases = sorted(found)
    rows = [row for row in table.splitlines(keepends=True)[1:] if _of(row) <= releases[0]]
    for earlier, later in itertools.pairwise(releases):
        shown = ".".join(map(str, later))
        rows += [f"{shown} {row}\n" for row in changes(found[earlier], found[later])]
    return "".join([HEAD, *rows])


def _of(row: str) -> tuple[int, int]:
    """Returns the onnx release at the start of a table row."""
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
    found = _NAME.fullmatch(wheel.name)
    if found is None:
        raise SystemExit(f"{wheel.name}: this is not a wheel of onnx for CPython")
    return int(found[1]), int(found[2])


def _schemas(wheel: Path) -> Schemas:
    """Returns all schemas of a release, read in the Python for which the wheel is built."""
    name = _NAME.fullmatch(wheel.name)
    assert name is not None
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as packed:
            names = (one for one in packed.namelist() if one.endswith(".so") or ".libs/" in one)
            packed.extractall(folder, [*names])
        words = [f"python{name[3]}.{name[4]}", "-c", _DUMP, folder]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: Schemas = json.loads(done.stdout)
    return found
