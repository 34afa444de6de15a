# SPDX-License-Identifier: Apache-2.0
"""Reads the content of a model file and its possible versions, without onnx."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from opshift import terms
from opshift.convert.plan_table import shipped
from opshift.errors import InvalidModel
from opshift.json_form import Versions
from opshift.look import header
from opshift.model.bytes import documents, foreign, wire
from opshift.model.bytes import outline_pb2 as outline
from opshift.model.bytes.outline import skeleton
from opshift.model.bytes.source import Opened, is_text
from opshift.model.bytes.wire import Buffer
from opshift.model.illegible import require_legible
from opshift.model.metadata import FORMS, standard
from opshift.model.model_version import ModelVersion
from opshift.opsets import changelog, targets
from opshift.opsets.elements import ELEMENTS, T
from opshift.opsets.identity import span_around
from opshift.records import dataclass
from opshift.text import Line, Role, Shown, counted, qualified, shortened, show_versions, size
from opshift.versions import DOMAINS

if TYPE_CHECKING:
    from opshift.protos import ModelProto

_GRAPH, _INITIALIZER = 7, 5  # fields of ModelProto and GraphProto
_EXTERNAL = bytes([14 << 3, 1])  # the field data_location with the value EXTERNAL


@dataclass(frozen=True, slots=True, repr=False)
class Info(Shown):
    """The facts that `opshift info` shows about a model.

    Printed by `opshift info`.

    Attributes
    ----------
    path : str
        The file; empty for a model in memory.
    size : int
        The size of the file, in bytes.
    weight_bytes : int
        The size of the weights in the file, in bytes.
    external : mapping
        The size of the weights in each data file, in bytes.
    ir_version : int
        The IR version, which is the version of the file format.
    producer : str
        The program that wrote the model, and its version; empty if the model names none.
    model_version : str
        The version that the author gave the model.
    domain : str
        The domain of the model; empty if it has none.
    doc_string : str
        The description of the model; empty if it has none.
    metadata : mapping
        The metadata of the model, by key.
    imports : mapping
        The version of each imported domain.
    inputs : tuple of str
        The inputs, each with its type and shape, such as `x: float[N,3]`.
    outputs : tuple of str
        The outputs, each with its type and shape.
    nodes : int
        The number of nodes.
    functions : int
        The number of functions of the model.
    weights : int
        The number of weights (initializers).
    sparse : bool
        Whether a graph has a sparse initializer.
    operators : mapping
        The number of nodes of each operator.
    experimental : tuple of str
        The operators that may change without a new version.
    same : mapping
        The lowest and the highest version at which no operator of the model changes, by domain.
    reach : mapping
        The lowest and the highest version that opshift's adapters can reach at best, by domain.
    runtimes : tuple of str
        The runtimes with a release that reads the versions of the model.

    Examples
    --------
    >>> import opshift
    >>> found = opshift.info("model.onnx")
    >>> found.imports[""], found.nodes
    (12, 50)
    """

    KIND = "info"

    path: str
    size: int
    ir_version: int
    producer: str
    model_version: str
    domain: str
    doc_string: str
    metadata: Mapping[str, str]
    imports: Versions
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: int
    operators: Mapping[str, int]
    experimental: tuple[str, ...]
    functions: int
    weights: int
    sparse: bool
    weight_bytes: int
    external: Mapping[str, int]
    same: Mapping[str, tuple[int, int]]
    reach: Mapping[str, tuple[int, int]]
    runtimes: tuple[str, ...]

    def lines(self) -> Iterator[Line]:
        """The versions, the signature, the content, and the versions that can be reached."""
        versions = show_versions({**self.imports, "IR": self.ir_version})
        without = "" if self.imports else ", and no opset is imported"
        yield Line(f"{self.path or 'the model'}: {versions}{without}", Role.GOOD)
        producer = f"written by {self.producer}" if self.producer else "no producer"
        yield Line(f"  {size(self.size)}, {producer}")
        yield from self._said()
        yield from (Line(f"  input   {text}") for text in self.inputs)
        yield from (Line(f"  output  {text}") for text in self.outputs)
        functions = f", {counted(self.functions, 'function')}" if self.functions else ""
        places = [f"{size(self.weight_bytes)} in this file"]
        places += [f"{size(count)} in {name}" for name, count in self.external.items()]
        stored = f"{counted(self.weights, 'weight')} ({shortened(places, 4, 'files')})"
        yield Line(f"  {counted(self.nodes, 'node')}{functions}, {stored}")
        ranked = sorted(self.operators.items(), key=lambda entry: (-entry[1], entry[0]))
        yield Line("  " + ", ".join(f"{op} x{count}" for op, count in ranked[:12]))
        yield Line("  " + ", ".join(f"{op} x{count}" for op, count in ranked[12:]), more=True)
        if self.experimental:
            names = ", ".join(self.experimental)
            yield Line(f"  experimental, may change without a new version: {names}", Role.CAUTION)
        yield Line(f"  reachable without a rewrite: {_ranges(self.same)}")
        yield Line(f"  reachable at best: {_ranges(self.reach)}")
        yield Line(f"  {self._runtimes()}")

    def _runtimes(self) -> str:
        """Returns text: the runtimes that read the model's versions, or the few that do not."""
        unfit = sorted(_runtime_names() - {*self.runtimes})
        if len(unfit) >= len(self.runtimes):
            return f"runtimes whose versions fit: {', '.join(self.runtimes) or 'none known'}"
        besides = f" except {', '.join(unfit)}" if unfit else ""
        return f"the versions fit a release of every known runtime{besides}"

    def _said(self) -> Iterator[Line]:
        """Yields the documentation and metadata of the model; standard metadata comes first."""
        facts = [f"model version {self.model_version}"] if self.model_version != "0" else []
        facts += [f"domain {self.domain}"] if self.domain else []
        if facts:
            yield Line(f"  {', '.join(facts)}")
        if self.doc_string:
            yield Line(f"  documentation: {' '.join(self.doc_string.split())}")
        ranks = {name: rank for rank, name in enumerate(FORMS)}
        names = sorted(self.metadata, key=lambda key: (ranks.get(standard(key) or "", 99), key))
        for name in names:
            yield Line(f"  metadata {name}: {self.metadata[name]}", more=standard(name) is None)
        if hidden := [name for name in names if standard(name) is None]:
            entries = counted(len(hidden), "entry", "entries")
            yield Line(f"  {entries} of other metadata; {terms.all_of('metadata')}")


def _ranges(ranges: Mapping[str, tuple[int, int]]) -> str:
    """Returns ranges of versions as text, such as `opset 7 to 21, ai.onnx.ml 1`."""
    shown = (
        f"{domain or 'opset'} {low}" + (f" to {high}" if high > low else "")
        for domain, (low, high) in ranges.items()
    )
    return ", ".join(shown) or "not known"


def info(model: ModelProto | str | os.PathLike[str]) -> Info:
    """Show what a model holds: versions, signature, nodes, weights, reachable versions.

    Parameters
    ----------
    model : ModelProto or path
        The model.

    Returns
    -------
    Info
        The facts, which are read without a check of the model.

    Raises
    ------
    InvalidModel
        The file is not an ONNX model.
    TypeError
        The model is neither a ModelProto nor a path.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import opshift
    >>> opshift.info("model.onnx").imports[""]
    12
    """
    if isinstance(model, (str, os.PathLike)):
        opened = Opened(os.fspath(model))
        file = _binary(opened)  # it is closed with its last reference
        with documents.beside(opened):
            return _read(file.view, opened.path, len(opened.view))
    if getattr(getattr(model, "DESCRIPTOR", None), "full_name", "") != "onnx.ModelProto":
        raise TypeError(f"model must be a ModelProto or a path, not {type(model).__name__}")
    whole = model.SerializeToString()
    return _read(whole, "", len(whole))


def _read(data: Buffer, path: str, length: int) -> Info:
    """Returns the facts that are read from the bytes of a model."""
    head = bytes(data[: foreign.HEAD])
    foreign.refuse_other(path, head)
    try:
        bare = skeleton(data)
        require_legible(bare)
        listing = outline.Listing.FromString(bare)
        roots = list(header.roots_of(listing))
        graph = listing.graph
        operators = sum((root.operators for root in roots), Counter[header.Key]())
        imports = roots[0].imports
        producer = filter(None, map(_text, (listing.producer_name, listing.producer_version)))
        return Info(
            path, length, listing.ir_version, " ".join(producer),
            str(ModelVersion.unpack(listing.model_version)), _text(listing.domain),
            _text(listing.doc_string), _entries(listing.metadata_props), imports,
            tuple(map(_value, graph.input)), tuple(map(_value, graph.output)),
            sum(operators.values()), {qualified(*key): n for key, n in operators.items()},
            tuple(
                qualified(*key)
                for key in sorted(operators)
                if changelog.is_experimental(*key, imports.get(key[0], 0))
            ),
            len(listing.functions), len(graph.initializer),
            any(root.sparse for root in roots), _weight_bytes(data),
            _outside(graph.initializer) if _EXTERNAL in bare else {},
            dict(_spans(operators, imports)), dict(_reach(operators, imports)),
            _loading(imports, listing.ir_version) if imports else (),
        )  # fmt: skip
    except (wire.Malformed, DecodeError, UnicodeDecodeError, ValueError, IndexError) as error:
        if isinstance(error, InvalidModel):
            raise
        raise foreign.unreadable(path, head, error) from None


def _binary(file: Opened) -> Opened:
    """Returns the file, or its model in binary form if it is a text file."""
    if not is_text(file.path):
        return file
    from opshift.model.weights import forms

    return forms.binary(file)


def _weight_bytes(data: Buffer) -> int:
    """Returns the number of bytes of the initializers in a file, without a read of them."""
    ((start, end),) = _spans_of(data, 0, len(data), _GRAPH)
    return sum(stop - begin for begin, stop in _spans_of(data, start, end, _INITIALIZER))


def _spans_of(data: Buffer, start: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of the content of each field with a given number."""
    for _, tag, body, stop, _ in wire.fields(data, start, end):
        if tag >> 3 == number:
            yield body, stop


def _entries(entries: Iterable[outline.Entry]) -> dict[str, str]:
    return {_text(entry.key): _text(entry.value) for entry in entries}


def _outside(tensors: Iterable[outline.ListedTensor]) -> dict[str, int]:
    """Returns the number of bytes of initializers in each data file."""
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        where = _entries(tensor.external_data)
        if "location" in where:
            length, kind = where.get("length", ""), tensor.data_type
            needed = wire.raw_size(kind, prod(tensor.dims)) if kind in ELEMENTS else 0
            sizes[where["location"]] += int(length) if length.isdecimal() else needed
    return dict(sizes)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _value(value: outline.ListedValue) -> str:
    """Returns a value as text, such as `x: float[N,3]`; only the name if it is not a tensor."""
    name, tensor = _text(value.name), value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return name
    number = tensor.elem_type
    element = T(number).name.lower() if number in {*T} else f"type {number}"
    if not tensor.HasField("shape"):
        return f"{name}: {element}"
    return f"{name}: {element}[{','.join(map(_dim, tensor.shape.dim))}]"


def _dim(dim: outline.ListedDimension) -> str:
    if dim.WhichOneof("value") == "dim_param":
        return _text(dim.dim_param)
    return str(dim.dim_value) if dim.HasField("dim_value") else "?"


def _spans(
    operators: Counter[header.Key], imports: Mapping[str, int]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yields, for each known domain, the range of versions over which no operator changes."""
    database = changelog.default()
    for domain, version in imports.items():
        newest = changelog.latest(domain)
        if newest is None or not 1 <= version <= newest:
            continue
        histories = (database.history(domain, op) for place, op in operators if place == domain)
        begins = [entry.operator.since_version for history in histories for entry in history]
        yield domain, span_around(version, begins, newest)


def _reach(
    operators: Counter[header.Key], imports: Mapping[str, int]
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yields, for each known domain, the range of versions that adapters can reach at best."""
    database, ops_of = changelog.default(), dict[str, list[str]]()
    for place, op in operators:
        ops_of.setdefault(place, []).append(op)
    for domain, version in imports.items():
        newest = changelog.latest(domain)
        entries = [database.meaning(domain, op, version) for op in ops_of.get(domain, ())]
        present = [entry.operator for entry in entries if entry is not None]
        unknown = len(present) < len(entries)
        if newest is None or not 1 <= version <= newest or domain not in DOMAINS or unknown:
            continue
        lows, highs = (
            [shipped(domain, op.op_type, op.since_version, down) for op in present]
            for down in (True, False)
        )
        low = max((edge.reach for edge in lows if edge is not None), default=1)
        yield domain, (low, min((edge.reach for edge in highs if edge is not None), default=newest))


def _loading(imports: Mapping[str, int], ir_version: int) -> tuple[str, ...]:
    """Returns the runtimes with at least one release that reads the model's versions."""
    if min(ir_version, *imports.values()) < 1:
        return ()  # no release reads versions that do not exist
    names = {release.name for release in targets.table() if release.reads(imports, ir_version)}
    return tuple(sorted(names & _runtime_names()))


def _runtime_names() -> set[str]:
    return {release.name for release in targets.table()} - {"onnx"}
