# SPDX-License-Identifier: Apache-2.0
"""What a model file holds and which versions it can reach, read from its bytes without onnx."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.message import DecodeError

from opshift.convert.look import header
from opshift.convert.plan_table import farthest
from opshift.errors import InvalidModel
from opshift.model.bytes import foreign, wire
from opshift.model.bytes import outline_pb2 as outline
from opshift.model.bytes.outline import skeleton
from opshift.model.bytes.source import Opened, is_text
from opshift.opsets import changelog, targets
from opshift.opsets.elements import T
from opshift.records import dataclass
from opshift.text import Line, Role, Shown, counted, qualified, show_versions, size
from opshift.versions import DOMAINS

_IR, _PRODUCER, _PRODUCER_VERSION, _GRAPH = 1, 2, 3, 7  # fields of ModelProto
_INITIALIZER, _INPUT, _OUTPUT = 5, 11, 12  # fields of GraphProto


@dataclass(frozen=True, slots=True, repr=False)
class Info(Shown):
    """The facts that `opshift info` shows about a model.

    `same` are the versions at which no operator changes its meaning, and `reach` those to which
    the adapters of opshift can lead its operators at best.
    """

    path: str
    size: int
    ir_version: int
    producer: str
    imports: Mapping[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: int
    operators: Mapping[str, int]
    functions: int
    weights: int
    weight_bytes: int
    same: Mapping[str, tuple[int, int]]
    reach: Mapping[str, tuple[int, int]]
    runtimes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The JSON form that `opshift schema` describes."""
        from opshift.report import SCHEMA_VERSION

        return {"schema_version": SCHEMA_VERSION, "kind": "info", **dataclasses.asdict(self)}

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2, sort_keys=True)

    def lines(self) -> Iterator[Line]:
        """Versions first, then the signature, the content, and where the model can go."""
        versions = show_versions({**self.imports, "IR": self.ir_version})
        without = "" if self.imports else ", and no opset is imported"
        yield Line(f"{self.path}: {versions}{without}", Role.GOOD)
        yield Line(f"  {size(self.size)}, written by {self.producer or 'an unnamed producer'}")
        yield from (Line(f"  input   {text}") for text in self.inputs)
        yield from (Line(f"  output  {text}") for text in self.outputs)
        functions = f", {counted(self.functions, 'function')}" if self.functions else ""
        stored = f"{counted(self.weights, 'weight')} ({size(self.weight_bytes)} in this file)"
        yield Line(f"  {counted(self.nodes, 'node')}{functions}, {stored}")
        ranked = sorted(self.operators.items(), key=lambda one: (-one[1], one[0]))
        yield Line("  " + ", ".join(f"{op} x{count}" for op, count in ranked[:12]))
        yield Line("  " + ", ".join(f"{op} x{count}" for op, count in ranked[12:]), more=True)
        yield Line(f"  reachable without a rewrite: {_ranges(self.same)}")
        yield Line(f"  reachable at best: {_ranges(self.reach)}")
        yield Line(f"  runtimes whose versions fit: {', '.join(self.runtimes) or 'none known'}")
        path = shlex.quote(self.path)
        yield Line(f"  `opshift lowest {path}` shows which versions the model can reach.")
        yield Line(f"  `opshift targets {path}` shows which releases of runtimes run it.")


def _ranges(found: Mapping[str, tuple[int, int]]) -> str:
    """`opset 7 to 21, ai.onnx.ml 1`."""
    shown = (
        f"{domain or 'opset'} {low}" + (f" to {high}" if high > low else "")
        for domain, (low, high) in found.items()
    )
    return ", ".join(shown) or "not known"


def info(path: str | os.PathLike[str]) -> Info:
    """The facts about a model file: versions, signature, nodes, weights, reachable versions."""
    given = Opened(os.fspath(path))
    file = _binary(given)
    try:
        listing = outline.Listing.FromString(skeleton(file.view))
        roots = list(header.roots_of(listing))
        top = _fields(file.view, 0, len(file.view))
        ((start, end),) = [one[:2] for one in top.get(_GRAPH, ())]
        graph = _fields(file.view, start, end)
        operators = sum((root.operators for root in roots), Counter[header.Key]())
        imports = roots[0].imports
        names = (_PRODUCER, _PRODUCER_VERSION)
        texts = (_text(file.view, one) for name in names for one in top.get(name, ())[-1:])
        return Info(
            file.path, len(given.view), listing.ir_version, " ".join(filter(None, texts)), imports,
            tuple(_value(file.view, one) for one in graph.get(_INPUT, ())),
            tuple(_value(file.view, one) for one in graph.get(_OUTPUT, ())),
            sum(operators.values()), {qualified(*key): n for key, n in operators.items()},
            len(listing.functions), len(graph.get(_INITIALIZER, ())),
            sum(stop - begin for begin, stop, _ in graph.get(_INITIALIZER, ())),
            dict(_spans(operators, imports)), dict(_reach(operators, imports)),
            _loading(imports, listing.ir_version) if imports else (),
        )  # fmt: skip
    except (wire.Malformed, DecodeError, UnicodeDecodeError, ValueError, IndexError) as error:
        if isinstance(error, InvalidModel):
            raise
        head = bytes(file.view[: foreign.HEAD])
        raise foreign.unreadable(file.path, head, error) from None


def _binary(file: Opened) -> Opened:
    """The file, or its model in binary form; only a text form needs onnx for this."""
    if not is_text(file.path):
        return file
    from opshift.model.weights import forms

    return forms.binary(file)


_Field = tuple[int, int, int]  # where the body starts and ends, and the value of a number


def _fields(data: Any, start: int, end: int) -> dict[int, list[_Field]]:
    found: dict[int, list[_Field]] = {}
    for _, tag, body, stop, value in wire.fields(data, start, end):
        found.setdefault(tag >> 3, []).append((body, stop, value))
    return found


def _text(data: Any, field: _Field) -> str:
    return bytes(data[field[0] : field[1]]).decode(errors="replace")


def _value(data: Any, field: _Field) -> str:
    """`x: float[N,3]`, or the name alone where the type is not a tensor."""
    value = _fields(data, *field[:2])
    name = _text(data, value[1][0]) if 1 in value else ""
    kind = _fields(data, *value[2][0][:2]) if 2 in value else {}
    if 1 not in kind:
        return name
    tensor = _fields(data, *kind[1][0][:2])
    number = tensor[1][0][2] if 1 in tensor else 0
    element = T(number).name.lower() if number in {*T} else f"type {number}"
    if 2 not in tensor:
        return f"{name}: {element}"
    dims = _fields(data, *tensor[2][0][:2]).get(1, [])
    return f"{name}: {element}[{','.join(_dim(data, dim) for dim in dims)}]"


def _dim(data: Any, field: _Field) -> str:
    dim = _fields(data, *field[:2])
    if 2 in dim:
        return _text(data, dim[2][0])
    return str(dim[1][0][2]) if 1 in dim else "?"


def _spans(
    operators: Counter[header.Key], imports: Mapping[str, int]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """For each known domain, the versions around its own at which every operator is the same."""
    known = changelog.default()
    for domain, version in imports.items():
        newest = changelog.latest(domain)
        if newest is None or not 1 <= version <= newest:
            continue
        own = [op for place, op in operators if place == domain]
        now = {op: known.meaning(domain, op, version) for op in own}

        def same(at: int, domain: str = domain, now: dict[str, Any] = now) -> bool:
            return all(known.meaning(domain, op, at) == was for op, was in now.items())

        low = high = version
        while low > 1 and same(low - 1):
            low -= 1
        while high < newest and same(high + 1):
            high += 1
        yield domain, (low, high)


def _reach(
    operators: Counter[header.Key], imports: Mapping[str, int]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """For each known domain, the versions to which the verdicts on every operator can lead."""
    known = changelog.default()
    for domain, version in imports.items():
        newest = changelog.latest(domain)
        own = [op for place, op in operators if place == domain]
        unknown = any(known.meaning(domain, op, version) is None for op in own)
        if newest is None or not 1 <= version <= newest or domain not in DOMAINS or unknown:
            continue
        lows = (farthest(domain, op, version, True) for op in own)
        highs = (farthest(domain, op, version, False) for op in own)
        yield domain, (max(lows, default=1), min(highs, default=newest))


def _loading(imports: Mapping[str, int], ir_version: int) -> tuple[str, ...]:
    """The runtimes of which some release admits the versions of the model."""
    found = {row.name for row in targets.table() if row.reads(imports, ir_version)}
    return tuple(sorted(found - {"onnx"}))
