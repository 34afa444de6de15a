# SPDX-License-Identifier: Apache-2.0
"""Measures which attributes, inputs, outputs and types of contrib operators onnxruntime supports.

    python -m tools.corpus.runtimes.field_table [--ort 0.4.0 1.10.0] [--results FOLDER]
        [--write FILE]

A release rejects a node with too many inputs or outputs, with an unknown attribute, or with element
types for which it has no kernel; its message names the cause. The answers of a release are stored
in FOLDER and reused; the table keeps the entries of releases that are not measured. Run this tool
after a new release of onnxruntime.
"""

from __future__ import annotations

import itertools
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx import TensorProto, ValueInfoProto, helper
from opshift.opsets import fields, kernels
from opshift.opsets.kernels import SHORT

from tools.lib.interpreters import numbers

from . import probes
from .install import Installed
from .kernel_table import CHILD, CONTRIB, contrib_schemas, parser, stored
from .runner import Runner

FILE = Path(fields.__file__).with_name("fields.txt")
HEAD = """\
# python -m tools.corpus.runtimes.field_table --write, format 1
# Which attributes, inputs and outputs of contrib operators onnxruntime does not know, and for which
# element types it has no kernel of them on the CPU.
# opshift/opsets/fields.py says how it is read.
"""
MANY = 60  # more inputs or outputs than any operator has
SIZE = re.compile(r"has (input|output) size \d+ not in range \[min=(\d+), max=(\d+)\]")
STRANGE = re.compile(r"Unrecognized attribute: (\w+) for operator")
INVALID = re.compile(r"Type '\S+' of input parameter \(\w+\) of operator")
UNKNOWN = re.compile(r"is not a registered function")
VALUES = {"INT": 1, "INTS": [1], "FLOAT": 1.0, "FLOATS": [1.0], "STRING": "a", "STRINGS": ["a"]}


@dataclass(frozen=True)
class ContribOperator:
    """An operator: its inputs by type variable, their types, and its attributes.

    `inputs` is empty if some inputs are not tensors, or if an attribute needs a rare type. The
    first `needed` inputs are required, or are the first of a type variable.
    """

    inputs: tuple[str, ...]
    needed: int
    kinds: dict[str, tuple[str, ...]]
    required: frozenset[str]
    values: dict[str, Any]  # a value for each attribute


def main() -> int:
    args = parser(__doc__ or "", FILE).parse_args()
    by_release: dict[str, dict[str, Any]] = {}
    for minor, answers in stored(args, "fields-{}", lambda runtime: measure(runtime, contrib())):
        by_release[minor] = answers
        print(minor, len(by_release), file=sys.stderr, flush=True)
    if args.write:
        table = tabulated(by_release, fields.shipped()["onnxruntime"])
        args.write.write_text(HEAD + "\n".join(fields.written(table)) + "\n")
    return 0


def contrib() -> dict[str, ContribOperator]:
    """Returns the operators of com.microsoft in the installed onnxruntime."""
    return {schema.name: _operator(schema) for schema in contrib_schemas()}


def _operator(schema: Any) -> ContribOperator:
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    inputs = tuple(param.typeStr for param in schema.inputs)
    given = ((i, param.option.name != "Optional") for i, param in enumerate(schema.inputs))
    needed = [i for i, is_required in given if is_required or inputs[i] not in inputs[:i]]
    kinds = {name: tuple(probes.elements(allowed.get(name, [name]))) for name in inputs}
    kinds_of = {attr.name: attr.type.name for _, attr in sorted(schema.attributes.items())}
    required = {attr.name for attr in schema.attributes.values() if attr.required}
    if not all(kinds.values()) or not all(kinds_of[name] in VALUES for name in required):
        inputs = ()
    values = {name: VALUES[kind] for name, kind in kinds_of.items() if kind in VALUES}
    return ContribOperator(inputs, max(needed, default=-1) + 1, kinds, frozenset(required), values)


def tabulated(answers: dict[str, dict[str, Any]], before: fields.FieldTable) -> fields.FieldTable:
    """Returns the table of inputs, attributes and types that releases do not support."""
    releases = tuple(sorted({*answers, *before.releases}, key=numbers))
    newest = answers[max(answers, key=numbers)]
    unknown: dict[fields.Key, dict[str, tuple[int, ...]]] = {}

    def add(key: fields.Key, field: str, release: str) -> None:
        of = unknown.setdefault(key, {})
        of[field] = tuple(sorted({*of.get(field, ()), releases.index(release)}))

    for key, entries in before.unknown.items():
        for field, where in entries.items():
            for release in (before.releases[n] for n in where):
                if release not in answers:
                    add(key, field, release)
    for release, operators in answers.items():
        for op, (strange, *most, types) in operators.items():
            unknown.setdefault((CONTRIB, op), {})  # a line without fields: nothing is lacking
            last = newest.get(op, [[], None, None])[1:3]
            sides = zip(("inputs", "outputs"), most, last, strict=True)
            few = [f"{side}>{has}" for side, has, new in sides if has is not None and has != new]
            for field in (*strange, *few, *types):
                add((CONTRIB, op), field, release)
    return fields.FieldTable("onnxruntime", releases, unknown)


def measure(runtime: Installed, operators: dict[str, ContribOperator]) -> dict[str, Any]:
    """Returns the answers of a release: for each operator, unknown attributes, counts and types."""
    runner, by_operator = Runner(runtime, 60, CHILD), {}
    try:
        registered = runner.ask({"registered": True})["registered"]
        listed = None if registered is None else {(domain, op) for domain, op, *_ in registered}
        for op, signature in operators.items():
            fields_known = _known(runner, op, signature.values)
            if fields_known is not None:
                unlisted = listed is not None and (CONTRIB, op) not in listed
                lacking = _lacking(runner, op, signature, unlisted) if signature.inputs else None
                by_operator[op] = [*fields_known, ["*"] * unlisted if lacking is None else lacking]
    finally:
        runner.close()
    return by_operator


def _lacking(runner: Runner, op: str, signature: ContribOperator, unlisted: bool) -> list[str]:
    """Returns the types that have no kernel for any choice of the other types; `*` for all.

    If a release rejects every node for other reasons, the kernels that it lists are used.
    """
    names = tuple(signature.kinds)
    loads = {
        types: _loads(runner, op, signature, dict(zip(names, types, strict=True)))
        for types in itertools.product(*kernels.tried(signature.kinds.values()))
    }
    if True not in loads.values() and (unlisted or None not in loads.values()):
        return ["*"]
    lacking = []
    for v, name in enumerate(names):
        at = "+".join(str(i) for i, kind in enumerate(signature.inputs) if kind == name)
        for element in signature.kinds[name]:
            loaded = {answer for types, answer in loads.items() if types[v] == element}
            if loaded == {False}:
                lacking.append(f"{SHORT[element]}@{at}")
    return lacking


def _loads(
    runner: Runner, op: str, signature: ContribOperator, chosen: dict[str, str]
) -> bool | None:
    """Returns whether a node of these types loads at any rank; None if other errors prevent it."""
    loaded, required = set(), {name: signature.values[name] for name in signature.required}
    count = signature.needed
    for rank in (None, None, 1, 2, 3, 4):
        shape = None if rank is None else [f"d{i}" for i in range(rank)]
        inputs = [
            helper.make_tensor_value_info(f"x{i}", probes.NUMBERS[chosen[name]], shape)
            for i, name in enumerate(signature.inputs[:count])
        ]
        names = [x.name for x in inputs]
        node = helper.make_node(op, names, ["y"], domain=CONTRIB, **required)
        model = probes.packed(node, inputs, [ValueInfoProto(name="y")])
        answer = runner.ask({"model": model})
        if size := SIZE.search(answer.get("why", "")):
            count = min(max(count, int(size[2])), int(size[3]))
        loaded.add(False if INVALID.search(answer.get("why", "")) else answer.get("kernel"))
    return True if True in loaded else False if False in loaded else None


def _known(runner: Runner, op: str, values: dict[str, Any]) -> list[Any] | None:
    inputs, outputs, attributes, strange = MANY, MANY, dict(values), []
    most = {}
    while True:
        why = runner.ask({"model": _model(op, inputs, outputs, attributes)}).get("why", "")
        if UNKNOWN.search(why):
            return None
        if match := SIZE.search(why):
            side, least, top = match[1], int(match[2]), int(match[3])
            most[side] = top if top < MANY else None
            if side == "input":
                inputs = max(least, 1)
            else:
                outputs = max(least, 1)
        elif match := STRANGE.search(why):
            strange.append(match[1])
            del attributes[match[1]]
        else:
            return [sorted(strange), most.get("input"), most.get("output")]


def _model(op: str, inputs: int, outputs: int, attributes: dict[str, Any]) -> str:
    """Returns a model of one node."""
    left, right = (
        [helper.make_tensor_value_info(f"{side}{i}", TensorProto.FLOAT, None) for i in range(count)]
        for side, count in (("x", inputs), ("y", outputs))
    )
    node = helper.make_node(
        op, [x.name for x in left], [y.name for y in right], domain=CONTRIB, **attributes
    )
    return probes.packed(node, left, right)


if __name__ == "__main__":
    sys.exit(main())
