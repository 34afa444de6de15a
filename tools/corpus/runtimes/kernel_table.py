# SPDX-License-Identifier: Apache-2.0
"""Measures for which element types the releases of onnxruntime have no kernel; writes a table.

    python -m tools.corpus.runtimes.kernel_table [--ort 0.4.0 1.10.0] [--op NAME ...]
        [--results FOLDER] [--write FILE]

For each operator, version and choice of element types, a model of one node is loaded; if a version
has a function body, at each of its opsets. If a release lists its registered kernels (from 1.15
on), each listed kernel must load as well. The answers of a release are stored in FOLDER and reused.
The table keeps the entries of releases and operators that are not measured. Run this tool after a
new release of onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from onnx import defs
from opshift.opsets import kernels, targets

from tools.lib.interpreters import numbers
from tools.lib.program import described

from . import probes
from .install import CACHE, Installed, NotHere, install
from .runner import Runner

CHILD = Path(__file__).with_name("kernel_child.py")
FILE = Path(kernels.__file__).with_name("kernels.txt")
RELEASES = (
    "0.3.0", "0.4.0", "0.5.0", "1.0.0", "1.1.2", "1.2.0", "1.3.0", "1.4.0", "1.5.2", "1.6.0",
    "1.7.0", "1.8.1", "1.9.0", "1.10.0", "1.11.1", "1.12.1", "1.13.1", "1.14.1", "1.15.1", "1.16.3",
    "1.17.3", "1.18.1", "1.19.2", "1.20.1", "1.21.1", "1.22.1", "1.23.2", "1.24.4", "1.25.1",
    "1.26.0", "1.27.0", "1.28.0", "1.29.0", "1.30.0", "1.31.1", "1.32.0",
)  # fmt: skip
CONTRIB = "com.microsoft"
HEAD = """\
# python -m tools.corpus.runtimes.kernel_table --write, format 1
# For which element types onnxruntime has no kernel on the CPU.
# opshift/opsets/kernels.py says how it is read.
"""
# (domain, operator, its version or a later opset, its type variables, their element types)
Choice: TypeAlias = "tuple[str, str, int, tuple[str, ...], tuple[str, ...]]"


def main() -> int:
    options = parser(__doc__ or "", FILE)
    options.add_argument("--op", nargs="+", default=[], help="measure only these operators")
    args = options.parse_args()
    lacking: dict[str, set[Choice]] = {}
    contrib = [] if args.op else list(dict.fromkeys(schema.name for schema in contrib_schemas()))
    name = "-".join(["{}", *args.op])
    for minor, measured in stored(args, name, lambda runtime: measure(runtime, contrib, args.op)):
        lacking[minor] = {(d, op, n, tuple(v), tuple(t)) for d, op, n, v, t in measured["lacks"]}
        print(minor, len(lacking[minor]), file=sys.stderr, flush=True)
    table = tabulated(lacking, kernels.shipped()["onnxruntime"], args.op)
    if args.write:
        args.write.write_text(HEAD + "\n".join(kernels.written(table)) + "\n")
    return 0


def stored(
    args: argparse.Namespace, name: str, measure: Callable[[Installed], dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the answers of each release, from stored files of this name, or measured now."""
    args.results.mkdir(parents=True, exist_ok=True)
    for version in args.ort:
        path = args.results / f"{name.format(version)}.json"
        try:
            if not path.exists():
                path.write_text(json.dumps(measure(install(version, args.cache))))
        except NotHere as reason:
            print(f"passed over: {reason}", file=sys.stderr)
            continue
        yield ".".join(version.split(".")[:2]), json.loads(path.read_text())


def measure(runtime: Installed, contrib: list[str], only: list[str]) -> dict[str, Any]:
    """Returns the choices of types without a kernel in a release."""
    runner, lacks = Runner(runtime, 60, CHILD), list[Choice]()
    row = targets.find(f"onnxruntime=={runtime.version}")
    try:
        registered = runner.ask({"registered": True})["registered"]
        for schema in probes.measured():
            top = row.imports[schema.domain]
            if schema.since_version > top or (only and schema.name not in only):
                continue
            lacked = False  # the answer at a higher opset than that of the release has no meaning
            for probe in probes.of(schema):
                if probe.opset <= top:
                    lacked = _is_lacked(runner, registered, schema, probe)
                lacks += [probe[:5]] if lacked else []
        for op in contrib:
            if runner.ask({"model": probes.bare(op, CONTRIB)}).get("kernel") is False:
                lacks.append((CONTRIB, op, 1, (), ()))
    finally:
        runner.close()
    return {"lacks": lacks}


def _is_lacked(runner: Runner, known: Any, schema: defs.OpSchema, probe: probes.Probe) -> bool:
    loads, is_listed = answer(runner, probe), listed(known, schema, probe)
    if loads is None and is_listed is False and not schema.has_function:
        loads = None if "float16" in probe.types else False
    return loads is False and not is_listed


def answer(runner: Runner, probe: probes.Probe) -> bool | None:
    """Returns whether a node loads; None if every model fails for another reason."""
    for model in probe.models():
        reply = runner.ask({"model": model})
        has_kernel: bool | None = reply.get("kernel")
        if has_kernel is not None or "outcome" in reply:
            return has_kernel
    return None


def listed(registered: Any, schema: defs.OpSchema, probe: probes.Probe) -> bool | None:
    """Returns whether a registered kernel has these types; None if the release lists none."""
    if registered is None:
        return None
    chosen = dict(zip(probe.variables, probe.types, strict=True))
    named = {f.name: f.type_str for f in (*schema.inputs, *schema.outputs)}
    for domain, op, (first, last), constraints in registered:
        if (domain or "", op) != (probe.domain, probe.op):
            continue
        if first != probe.since and not (first <= probe.since <= last < 1 << 30):
            continue
        if all(
            f"tensor({chosen[variable]})" in types
            for name, types in constraints.items()
            if (variable := name if name in chosen else named.get(name, "")) in chosen
        ):
            return True
    return False


def tabulated(
    lacking: dict[str, set[Choice]], before: kernels.KernelTable, only: list[str]
) -> kernels.KernelTable:
    """Returns the missing kernels by operator, opset and release; old entries are kept."""
    lacked = {release: set(choices) for release, choices in lacking.items()}
    for (domain, op), versions in _spread(before).items():
        for since, lack in versions.items():
            for types, where in lack.choices.items():
                for release in (before.releases[n] for n in where):
                    if release not in lacking or (only and (domain == CONTRIB or op not in only)):
                        choice = (domain, op, since, lack.variables, types)
                        lacked.setdefault(release, set()).add(choice)
    releases = tuple(sorted({*lacked, *before.releases}, key=numbers))
    lacks = _spread(kernels.KernelTable("", (), {}))
    for choice in sorted(set().union(*lacked.values())):
        domain, op, opset, variables, types = choice
        where = tuple(n for n, release in enumerate(releases) if choice in lacked.get(release, ()))
        of = lacks.setdefault((domain, op), {})
        choices = of[opset].choices if opset in of else {}
        of[opset] = kernels.Lack(variables, {**choices, types: where})
    return kernels.KernelTable("onnxruntime", releases, lacks)


def _spread(table: kernels.KernelTable) -> dict[kernels.Key, dict[int, kernels.Lack]]:
    """Returns the missing kernels of a table at each opset that is measured."""
    lacks = {key: dict(of) for key, of in table.lacks.items()}
    for schema in probes.measured():
        key, none = (schema.domain, schema.name), kernels.Lack(probes.variables(schema), {})
        for opset in probes.opsets(schema):
            lack = table.lack(key, schema.since_version, opset)
            lacks.setdefault(key, {})[opset] = lack or none
    return lacks


def contrib_schemas() -> list[Any]:
    """Returns the schemas of com.microsoft in the installed onnxruntime, by name."""
    import onnxruntime.capi.onnxruntime_pybind11_state as state

    every = sorted(state.get_all_operator_schema(), key=lambda schema: str(schema.name))
    return [schema for schema in every if schema.domain == CONTRIB]


def parser(says: str, file: Path) -> argparse.ArgumentParser:
    """Returns the options of the tools that write a table of all releases."""
    cli = described(says)
    cli.add_argument("--ort", nargs="+", default=RELEASES, metavar="VERSION")
    cli.add_argument("--cache", type=Path, default=CACHE, help="the folder for runtimes")
    cli.add_argument("--results", type=Path, default=CACHE / "kernels", help="folder of answers")
    cli.add_argument("--write", type=Path, nargs="?", const=file, help="the file of the table")
    return cli


if __name__ == "__main__":
    sys.exit(main())
