# SPDX-License-Identifier: Apache-2.0
"""Measures which attributes, inputs and outputs of contrib operators onnxruntime's releases know.

    python -m tools.corpus.runtimes.field_table [--ort 0.4.0 1.10.0] [--results FOLDER]
        [--write FILE]

A release refuses a node with too many inputs or outputs, or with an attribute that it does not
know, and says so. The answers of a release are kept in FOLDER and used again. Who runs it: whoever
adds a release.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any, TypeAlias

from onnx import TensorProto, helper
from opshift.opsets import fields

from .install import Installed, NotHere, install
from .kernel_table import CHILD, CONTRIB, parser
from .runner import Runner

FILE = Path(fields.__file__).with_name("fields.txt")
HEAD = """\
# Which attributes, inputs and outputs of contrib operators onnxruntime does not know. Written by
# `python -m tools.corpus.runtimes.field_table`; opshift/opsets/fields.py says how it is read.
"""
MANY = 60  # no operator has so many inputs or outputs
SIZE = re.compile(r"has (input|output) size \d+ not in range \[min=(\d+), max=(\d+)\]")
STRANGE = re.compile(r"Unrecognized attribute: (\w+) for operator")
UNKNOWN = re.compile(r"is not a registered function")
# An attribute and a value for it, by the operator.
Operators: TypeAlias = "dict[str, list[tuple[str, Any]]]"


def main() -> int:
    args = parser(__doc__ or "", FILE).parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    known = {}
    for version in args.ort:
        kept = args.results / f"fields-{version}.json"
        try:
            if not kept.exists():
                kept.write_text(json.dumps(measure(install(version, args.cache), contrib())))
        except NotHere as reason:
            print(f"passed over: {reason}", file=sys.stderr)
            continue
        known[".".join(version.split(".")[:2])] = json.loads(kept.read_text())
        print(version, len(known), file=sys.stderr, flush=True)
    if args.write:
        args.write.write_text(HEAD + "\n".join(fields.written(tabulated(known))) + "\n")
    return 0


def contrib() -> Operators:
    """The attributes of the operators of com.microsoft that the installed onnxruntime has."""
    import onnxruntime.capi.onnxruntime_pybind11_state as state

    values = {"INT": 1, "INTS": [1], "FLOAT": 1.0, "FLOATS": [1.0], "STRING": "a", "STRINGS": ["a"]}
    return {
        schema.name: [
            (name, values[kind])
            for name, attribute in sorted(schema.attributes.items())
            if (kind := attribute.type.name) in values
        ]
        for schema in sorted(state.get_all_operator_schema(), key=lambda one: one.name)
        if schema.domain == CONTRIB
    }  # fmt: skip


def tabulated(known: dict[str, dict[str, Any]]) -> fields.FieldTable:
    """What the releases do not know, of the operators that they have."""
    releases = tuple(known)
    newest = known[releases[-1]]
    unknown: dict[fields.Key, dict[str, tuple[int, ...]]] = {}
    for n, release in enumerate(releases):
        for op, (strange, *most) in known[release].items():
            last = newest.get(op, [[], None, None])[1:]
            sides = zip(("inputs", "outputs"), most, last, strict=True)
            few = [f"{side}>{has}" for side, has, new in sides if has is not None and has != new]
            for field in (*strange, *few):
                of = unknown.setdefault((CONTRIB, op), {})
                of[field] = (*of.get(field, ()), n)
    return fields.FieldTable("onnxruntime", releases, unknown)


def measure(runtime: Installed, operators: Operators) -> dict[str, Any]:
    """What a release knows of each operator: [attributes it does not know, inputs, outputs]."""
    runner = Runner(runtime, 60, CHILD)
    try:
        found = {op: _known(runner, op, attributes) for op, attributes in operators.items()}
    finally:
        runner.close()
    return {op: known for op, known in found.items() if known is not None}


def _known(runner: Runner, op: str, given: list[tuple[str, Any]]) -> list[Any] | None:
    inputs, outputs, attributes, strange = MANY, MANY, dict(given), []
    most = {}
    while True:
        why = runner.ask({"model": _model(op, inputs, outputs, attributes)}).get("why", "")
        if UNKNOWN.search(why):
            return None
        if found := SIZE.search(why):
            side, least, top = found[1], int(found[2]), int(found[3])
            most[side] = top if top < MANY else None
            if side == "input":
                inputs = max(least, 1)
            else:
                outputs = max(least, 1)
        elif found := STRANGE.search(why):
            strange.append(found[1])
            del attributes[found[1]]
        else:
            return [sorted(strange), most.get("input"), most.get("output")]


def _model(op: str, inputs: int, outputs: int, attributes: dict[str, Any]) -> str:
    """A model of one node."""
    left, right = (
        [helper.make_tensor_value_info(f"{side}{i}", TensorProto.FLOAT, None) for i in range(count)]
        for side, count in (("x", inputs), ("y", outputs))
    )
    node = helper.make_node(
        op, [x.name for x in left], [y.name for y in right], domain=CONTRIB, **attributes
    )
    graph = helper.make_graph([node], "g", left, right)
    imports = [helper.make_opsetid("", 8), helper.make_opsetid(CONTRIB, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=3)
    return base64.b64encode(model.SerializeToString()).decode()


if __name__ == "__main__":
    sys.exit(main())
