# SPDX-License-Identifier: Apache-2.0
"""Compares two models: the differences, and their effect on users of the first model."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np

from opshift import terms
from opshift.convert.cheapest_strategy import convert, opener_of
from opshift.convert.request import Request
from opshift.errors import OpshiftError
from opshift.look import texts
from opshift.model import imports, walk
from opshift.model.bytes import documents
from opshift.model.illegible import require_legible
from opshift.model.model_version import Level, ModelVersion
from opshift.model.signature import SignatureChange, compare, signature
from opshift.model.weights import Weights
from opshift.opsets import schemas, targets
from opshift.opsets.targets import RuntimeRelease
from opshift.protos import FunctionProto, ModelProto, TensorProto, isolation
from opshift.protos.copies import copied
from opshift.records import dataclass
from opshift.text import Line, Role, Shown, cut, qualified, shortened, show_versions

Model = ModelProto | str | os.PathLike[str]
MOST_LETTERS = 60  # the number of letters of a value that a line shows
MOST_ROWS = 20  # the number of rows of one kind that are shown without -v

_EFFECTS = {
    Level.MAJOR: "users of the first model must change their code or their inputs.",
    Level.MINOR: "users of the first model can use the second, which offers more.",
    Level.PATCH: "users of the first model can use the second, but results may differ.",
}
SAME_PARTS = "both models have the same nodes and weights"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two models; `before` or `after` is "" if a model lacks the part."""

    kind: Annotated[str, "version", "nodes", "weight", "metadata"]
    """The kind of part that differs."""
    name: str
    """The name of the part."""
    before: str
    """The part in the first model; empty if the model lacks it."""
    after: str
    """The part in the second model; empty if the model lacks it."""

    def __str__(self) -> str:
        if not self.before or not self.after:
            return f"{self.name}: {'added' if not self.before else 'removed'}" + (
                f" {self.before or self.after}"
            )
        return f"{self.name}: {self.before} -> {self.after}"

    @property
    def shortened(self) -> str:
        """Returns the text with the first letters of long values; JSON has the whole values."""
        before, after = cut(self.before, MOST_LETTERS), cut(self.after, MOST_LETTERS)
        return str(Difference(self.kind, self.name, before, after))


@dataclass(frozen=True, slots=True, repr=False)
class Diff(Shown):
    """All differences between two models, gravest first, and the advised model version.

    Printed by `opshift diff`.

    Attributes
    ----------
    changes : tuple of SignatureChange
        The differences that concern users of the model, each with a level and a text.
    before : ModelVersion
        The model version of the first model.
    after : ModelVersion
        The model version of the second model.
    differences : tuple of Difference
        Versions, nodes, weights and metadata that are different.
    same : str
        The proof that the second model computes the same, or an empty text.
    raised : tuple of str
        The versions that are higher in the second model.
    lost : tuple of str
        The releases of runtimes that read the versions of the first model only.

    Examples
    --------
    >>> import opshift
    >>> found = opshift.diff("model.onnx", "model.onnx")
    >>> found.level.name, str(found.advised)
    ('NONE', '0')
    """

    KIND = "diff"
    ALSO = ("level", "advised", "advice", "same_computation", "established_by")
    HIDDEN = ("same",)

    changes: tuple[SignatureChange, ...]
    before: ModelVersion
    after: ModelVersion
    differences: tuple[Difference, ...] = ()
    same: str = ""  # how it was shown that the second model computes the same; empty: it was not
    raised: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def level(self) -> Level:
        """The highest level of all changes, according to SemVer."""
        return max((change.level for change in self.changes), default=Level.NONE)

    @property
    def advised(self) -> ModelVersion:
        """The version that the second model should have according to SemVer."""
        return self.before.bump(self.level)

    @property
    def same_computation(self) -> bool:
        """Whether it was shown that the second model computes the same results."""
        return bool(self.same)

    @property
    def established_by(self) -> str:
        """The proof that the second model computes the same results; empty without one."""
        return self.same

    @property
    def advice(self) -> str:
        """The advice on the version, and the changes that users must make, as text."""
        tasks = "; ".join(change.task for change in self.changes if change.task)
        return self._version_advice + (f" Code that uses the model {tasks}." if tasks else "")

    @property
    def _version_advice(self) -> str:
        if not self.level:
            return f"Advice: keep the model version {self.before}, because no user is affected."
        if self.after == self.advised:
            return (
                f"Advice: the model version was raised from {self.before} to {self.after}, as this"
                f" {self.level.name} change requires."
            )
        return (
            f"Advice: set the model version to {self.advised}. It was {self.before} in the first"
            f" model and is {self.after} in the second."
        )

    def lines(self) -> Iterator[Line]:
        """Yields the gravest level, each change, the other differences, and the advice."""
        if not self.level:
            yield Line("NONE: users of the first model notice no difference.", Role.GOOD)
        elif self.same and self.level is Level.PATCH:
            need = f" if their runtime reads {', '.join(self.raised)}" if self.raised else ""
            text = f"PATCH: users of the first model can use the second{need}."
            yield Line(text, Role.CAUTION if need else Role.GOOD)
        else:
            role = Role.BAD if self.level is Level.MAJOR else Role.CAUTION
            yield Line(f"{self.level.name}: {_EFFECTS[self.level]}", role)
        if self.lost:
            named = shortened(self.lost, 6)
            yield Line(
                f"  Releases that read only the versions of the first model: {named}.", Role.CAUTION
            )
        if self.same:
            yield Line(f"  The computation is the same: {self.same}.", Role.GOOD)
        elif any(
            difference.kind in ("version", "nodes", "weight") for difference in self.differences
        ):
            yield Line(
                "  Whether both models compute the same results is not known; `opshift verify A B`"
                " runs both."
            )
        yield from (Line(f"  {change.level.name}: {change.reason}") for change in self.changes)
        for kind, rows in itertools.groupby(self.differences, key=lambda row: row.kind):
            yield from _rows(kind, list(rows))
        yield Line(self.advice)


_TITLES = {
    "version": "Versions:", "nodes": "Nodes by operator:",
    "weight": "Weights by digest:", "metadata": "Metadata:",
}  # fmt: skip


def _rows(kind: str, rows: list[Difference]) -> Iterator[Line]:
    yield Line(f"  {_TITLES[kind]}")
    for number, row in enumerate(rows):
        yield Line(f"    {row.shortened}", more=number >= MOST_ROWS)
    if len(rows) > MOST_ROWS:
        yield Line(f"    and {len(rows) - MOST_ROWS} more; {terms.all_of('differences')}")


def diff(first: Model, second: Model, *, isolate: bool | None = None) -> Diff:
    """Compare two models, and list what users of the first model must change for the second.

    Parameters
    ----------
    first, second : ModelProto or path
        The models.
    isolate : bool, optional
        Call the C++ code of onnx in a child process, so that no model ends or hangs this process.
        By default the environment variable OPSHIFT_ISOLATE decides.

    Returns
    -------
    Diff
        `.level` by SemVer, every change of inputs and outputs, and the other differences.

    Raises
    ------
    InvalidModel
        A file is not an ONNX model.
    TypeError
        A model is neither a ModelProto nor a path.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import opshift
    >>> opshift.diff("model.onnx", "model.onnx").level.name
    'NONE'
    """
    with documents.beside(first, second), isolation.isolated(isolate):
        return _diff(first, second)


def _diff(first: Model, second: Model) -> Diff:
    a, b = _Side.of(first), _Side.of(second)
    changes = list(compare(signature(a.model), signature(b.model)))
    differences = [
        *_differing("version", _versions(a.model), _versions(b.model)),
        *_differing("nodes", _operators(a.model), _operators(b.model)),
        *_differing("weight", a.digests(), b.digests()),
        *_differing("metadata", texts.texts_of(a.model), texts.texts_of(b.model)),
    ]
    if any(difference.kind == "metadata" for difference in differences):
        changes.append(SignatureChange(Level.PATCH, "the documentation or the metadata changed"))
    same = _same(first, a, b)
    if same is None:
        changes.append(SignatureChange(Level.PATCH, "the models may compute different results"))
    if _versions_alone(a.model) != _versions_alone(b.model):
        changes.append(SignatureChange(Level.PATCH, "the models have different versions"))
    changes.sort(key=lambda change: -change.level)
    before, after = (_version(side.model) for side in (a, b))
    lost = _lost(a.model, b.model)
    return Diff(tuple(changes), before, after, tuple(differences), same or "", *lost)


@dataclass(frozen=True)
class _Side:
    """One of the two models that `opshift diff` compares, with its weights."""

    model: ModelProto
    weights: Weights

    @staticmethod
    def of(model: Model) -> _Side:
        skeleton, weights = opener_of(model)()
        require_legible(skeleton.SerializeToString())
        return _Side(skeleton, weights)

    @functools.cached_property
    def contents(self) -> list[tuple[str, str]]:
        """The name of every tensor, with a digest of its type, dimensions and content."""
        return [(tensor.name, self._digest(tensor)) for tensor in walk.tensors(self.model)]

    def digests(self) -> dict[str, str]:
        """Returns digests of all named tensors; tensors of the same name are numbered."""
        by_name: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for name, digest in self.contents:
            if name:
                counts[name] += 1
                by_name[f"{name!r}" + f" ({counts[name]})" * (counts[name] > 1)] = digest
        return by_name

    def _digest(self, tensor: TensorProto) -> str:
        shown = schemas.element_name(tensor.data_type)
        if shown:
            value = self.weights.load(tensor)
            raw = repr(value.tolist()).encode() if value.dtype == object else _octets(value)
        else:  # no release defines how the values of such a tensor are stored
            shown, raw = str(tensor.data_type), tensor.SerializeToString(deterministic=True)
        dims = ",".join(map(str, tensor.dims))
        return f"{shown}[{dims}] {hashlib.sha256(raw).hexdigest()[:16]}"


def _octets(value: Any) -> Any:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def _differing(
    kind: str, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Difference]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            yield Difference(kind, name, old, new)


def _versions(model: ModelProto) -> dict[str, str]:
    """Returns the IR version, the producer and the imports of a model and its functions."""
    versions_by_name = {"IR": str(model.ir_version), "model version": str(_version(model))}
    producer = f"{model.producer_name} {model.producer_version}".strip()
    versions_by_name.update({"producer": producer} if producer else {})
    for owner in imports.owners(model):
        where = f" of function {owner.name!r}" if isinstance(owner, FunctionProto) else ""
        for domain, version in imports.versions(owner).items():
            versions_by_name[f"{domain or 'ai.onnx'}{where}"] = str(version)
    return versions_by_name


def _version(model: ModelProto) -> ModelVersion:
    return ModelVersion.unpack(model.model_version)


def _operators(model: ModelProto) -> dict[str, str]:
    """Returns the number of nodes of each operator, including nodes in subgraphs."""
    counts = Counter((schemas.normal(n.domain), n.op_type) for n in walk.nodes(model))
    return {qualified(*key): str(count) for key, count in counts.items()}


def _lost(before: ModelProto, after: ModelProto) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the versions that rise in the second model, and the releases that cannot read it."""
    old, new = ({**imports.versions(model), "IR": model.ir_version} for model in (before, after))
    raised = {domain: version for domain, version in new.items() if version > old.get(domain, 0)}
    lost_releases: dict[str, list[str]] = {}
    for release in targets.table() if raised else ():
        if _reads(release, before) and not _reads(release, after):
            lost_releases.setdefault(release.name, []).append(release.versions)
    releases = (
        f"{name} {', '.join(filter(None, shown_releases))}".strip()
        for name, shown_releases in lost_releases.items()
    )
    return tuple(show_versions({d: v}) for d, v in raised.items()), tuple(releases)


def _reads(release: RuntimeRelease, model: ModelProto) -> bool:
    return release.reads(imports.versions(model), model.ir_version)


# -- whether the computation is the same ---------------------------------------------------------


def _same(first: Model, a: _Side, b: _Side) -> str | None:
    """Returns the proof that both models compute the same, or None.

    The first model is converted to the versions of the second model. If the result has the nodes
    and weights of the second model, the second model is a conversion of the first.
    """
    if _equal(a, b):
        return SAME_PARTS
    if _versions_alone(a.model) == _versions_alone(b.model):
        return None
    goal = _goal(a.model, imports.versions(b.model))
    for prune in (False, True):
        try:
            request = Request(goal, b.model.ir_version, prune_imports=prune)
            model, weights, _ = convert(opener_of(first), request)
        except OpshiftError:
            return None
        if _equal(_Side(model, weights), b):
            listed = [f"{domain or 'ai.onnx'} {v}" for domain, v in sorted(goal.items())]
            shown = ", ".join([*listed, f"IR {b.model.ir_version}"])
            return (
                f"a conversion of the first model to {shown} gives the nodes and weights of the"
                " second"
            )
    return None


def _goal(model: ModelProto, target: Mapping[str, int]) -> dict[str, int]:
    """Returns the versions of the second model for domains that differ in the first model."""
    present = [pair for owner in imports.owners(model) for pair in imports.versions(owner).items()]
    return {d: target[d] for d, version in present if d in target and version != target[d]}


def _versions_alone(model: ModelProto) -> tuple[int, dict[str, int]]:
    return model.ir_version, imports.versions(model)


_HEADER = ("ir_version", "producer_name", "producer_version", "model_version", "domain")


def _equal(a: _Side, b: _Side) -> bool:
    """Returns whether two models have the same nodes, tensors and operator sets."""
    return _bare(a.model) == _bare(b.model) and a.contents == b.contents


def _bare(model: ModelProto) -> ModelProto:
    """Returns a copy without header, inputs, outputs, texts and tensor contents."""
    copy = copied(model)
    texts.remove(copy)
    for name in _HEADER:
        copy.ClearField(name)
    for name in ("input", "output", "value_info", "name"):
        copy.graph.ClearField(name)
    for tensor in walk.tensors(copy):
        bare = TensorProto(name=tensor.name)
        tensor.CopyFrom(bare)
    return copy
