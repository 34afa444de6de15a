# SPDX-License-Identifier: Apache-2.0
"""Compares the inputs and outputs of two models, as the users of the models see them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from opshift.model.model_version import Level, ModelVersion
from opshift.opsets import schemas
from opshift.opsets.elements import NAMED
from opshift.protos import ModelProto, TypeProto
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class ValueSignature:
    """An input or output of a model, as its users see it."""

    name: str
    type: str
    shape: tuple[int | None, ...] | None
    default: bool
    note: str
    meaning: tuple[str, ...] = ()  # the denotations of the value and of its dimensions

    def __str__(self) -> str:
        shape = "" if self.shape is None else f"[{','.join(str(d or '?') for d in self.shape)}]"
        return f"{self.type}{shape}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a model."""

    inputs: tuple[ValueSignature, ...]
    outputs: tuple[ValueSignature, ...]


@dataclass(frozen=True, slots=True)
class SignatureChange:
    """A difference, the version part that it raises, and the required change in users' code."""

    level: Level
    """The level of the change in the sense of SemVer."""
    reason: str
    """The change in a sentence."""
    task: str = ""
    """The necessary change of code that uses the model; empty without one."""


def signature(model: ModelProto) -> Signature:
    """Returns the inputs and outputs of a model; an input with an initializer has a default."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    defaults |= {sparse.values.name for sparse in model.graph.sparse_initializer}
    inputs, outputs = (
        tuple(_value(v.name, v.type, v.doc_string, v.name in defaults) for v in values)
        for values in (model.graph.input, model.graph.output)
    )
    if model.ir_version < 4:  # below IR 4, every initializer is an input but means a constant
        inputs = tuple(value for value in inputs if not value.default)
    return Signature(inputs, outputs)


def _value(name: str, proto: TypeProto, doc: str, default: bool) -> ValueSignature:
    shape, dims = None, proto.tensor_type.shape.dim
    if proto.tensor_type.HasField("shape"):
        shape = tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)
    meaning = (proto.denotation, *(dim.denotation for dim in dims))
    kind = schemas.type_name(proto) or "unknown"
    return ValueSignature(name, kind, shape, default, doc, meaning)


def compare(before: Signature, after: Signature) -> Iterator[SignatureChange]:
    """Yields the differences of two signatures, each with the version part that it raises."""
    for what, old, new in (
        ("input", before.inputs, after.inputs), ("output", before.outputs, after.outputs)
    ):  # fmt: skip
        olds, news = {v.name: v for v in old}, {v.name: v for v in new}
        for name in olds.keys() - news.keys():
            task = f"must do without {what} {name!r}"
            yield SignatureChange(Level.MAJOR, f"{what} {name!r} was removed", task)
        for name, value in news.items():
            if name not in olds:
                yield _added(what, value)
            else:
                yield from _changed(what, olds[name], value)
        common = [v.name for v in new if v.name in olds]
        if common != [v.name for v in old if v.name in news]:
            task = f"must name its {what}s, or list them in the new order"
            yield SignatureChange(Level.MAJOR, f"the {what}s come in another order", task)


def _added(what: str, value: ValueSignature) -> SignatureChange:
    if what == "output":
        return SignatureChange(Level.MINOR, f"output {value.name!r} is new")
    if value.default:
        return SignatureChange(Level.MINOR, f"input {value.name!r} is new and has a default")
    task = f"must give input {value.name!r}"
    return SignatureChange(Level.MAJOR, f"input {value.name!r} is new and has no default", task)


def _changed(what: str, old: ValueSignature, new: ValueSignature) -> Iterator[SignatureChange]:
    name = f"{what} {old.name!r}"
    if old.type != new.type:
        level, how = (
            (Level.MINOR, "was widened")
            if _widens(old.type, new.type)
            else (Level.MAJOR, "changed")
        )
        verb = "must give" if what == "input" else "gets"
        task = f"{verb} {new.type} for {name}, not {old.type}"
        yield SignatureChange(level, f"the type of {name} {how}: {old.type} -> {new.type}", task)
    elif old.shape != new.shape:
        # An input may accept more shapes than before; an output may have a more exact shape.
        wide, narrow = (new, old) if what == "input" else (old, new)
        free = _covers(wide.shape, narrow.shape)
        level = Level.MINOR if free else Level.MAJOR
        verb = "must give" if what == "input" else "gets"
        task = "" if free else f"{verb} {new} for {name}, not {old}"
        yield SignatureChange(level, f"the shape of {name} changed: {old} -> {new}", task)
    yield from _other_meaning(name, old.meaning, new.meaning)
    if old.default and not new.default:
        yield SignatureChange(Level.MAJOR, f"{name} lost its default", f"must give {name}")
    if new.default and not old.default:
        yield SignatureChange(Level.MINOR, f"{name} has a default now")
    if old.note != new.note:
        yield SignatureChange(Level.PATCH, f"the documentation of {name} changed")


def _other_meaning(
    name: str, before: tuple[str, ...], after: tuple[str, ...]
) -> Iterator[SignatureChange]:
    """Yields changed denotations, which promise a meaning: losing one is a breaking change."""
    for at, (old, new) in enumerate(itertools.zip_longest(before, after, fillvalue="")):
        if old != new:
            of = f"dimension {at - 1} of {name}" if at else name
            level = Level.MAJOR if old else Level.MINOR
            reason = f"the denotation of {of} changed: {old or 'none'} -> {new or 'none'}"
            yield SignatureChange(level, reason)


def _widens(old: str, new: str) -> bool:
    rows = {f"tensor({name})": row for name, row in NAMED.items()}
    return old in rows and new in rows and rows[new].holds(rows[old])


def _covers(wide: tuple[int | None, ...] | None, narrow: tuple[int | None, ...] | None) -> bool:
    if wide is None or narrow is None:
        return wide is None
    pairs = itertools.zip_longest(wide, narrow, fillvalue=-1)
    return all(w == n or (w is None and n != -1) for w, n in pairs)


def bumped(model: ModelProto, before: Signature) -> str:
    """Raises a converted model's version by the changes of its signature; returns the note."""
    changes = compare(before, signature(model))
    level = max((change.level for change in changes), default=Level.PATCH)
    old = ModelVersion.unpack(model.model_version)
    new = old.bump(max(level, Level.PATCH))
    model.model_version = new.pack()
    return f"model version {old} -> {new}"
