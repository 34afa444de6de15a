# SPDX-License-Identifier: Apache-2.0
"""Rows of runtimes, misreadings and probes that tests choose."""

from __future__ import annotations

from collections.abc import Iterable

from checked import checked
from onnx import ModelProto
from opshift.convert.runtime import (
    form_lacks,
    runnable,
)
from opshift.convert.runtime.lack import Seen
from opshift.opsets import probed
from opshift.opsets.kernels import Missing
from opshift.opsets.targets import RuntimeRelease
from text_models import model

PLAIN = RuntimeRelease("it", "1.0", {"": 15, "ai.onnx.ml": 2}, 8, "a page")


NEG = "(float[2] x) => (float[2] y) { y = Neg(x) }"


def sentences(found: Iterable[object]) -> list[str]:
    return [str(one) for one in found]


def of_document(part, proto: ModelProto, row: RuntimeRelease) -> list[str]:
    """Returns the messages of a part of the search that needs no facts."""
    return sentences(part(checked(proto).document, row))


def of_facts(part, proto: ModelProto, row: RuntimeRelease) -> list[str]:
    """Returns the messages of a part of the search that needs facts."""
    return sentences(part(checked(proto).facts, row, Seen()))


class Table(RuntimeRelease):
    """A release whose missing kernels a test states."""

    __slots__ = ()
    LACKS: dict = {}

    def no_kernels(self, key, since, opset=0):
        return self.LACKS.get((*key, since))


def without(**lacks: Missing) -> RuntimeRelease:
    """A release with a table of missing kernels, by operator and version."""

    class Chosen(Table):
        __slots__ = ()
        LACKS = {("", *_key(name)): missing for name, missing in lacks.items()}

    return Chosen("it", "1.0", {"": 25}, 10, "a page")


def _key(name: str) -> tuple[str, int]:
    op, _, since = name.partition("_")
    return op, int(since)


FOREIGN = "(float[2] x) => (float[2] y) { a = acme.Neg(x) b = acme.Neg(a) y = acme.Abs(b) }"


ORT_2 = "onnxruntime==1.2"


def builder_of(proto: ModelProto):
    """A Builder in the graph of a model, and its nodes."""
    from opshift.author import registry
    from opshift.author.builder import Builder
    from opshift.author.facts import ScopeEnv
    from opshift.convert import planner
    from opshift.convert.step import Stepper

    opened = checked(proto)
    crossings = planner.of_document(opened.document, registry.default(), {"": 13})
    at = Stepper(opened.facts, crossings, "", 13, 13, False)
    scope = opened.document.roots[0].top
    return (
        opened.document.model.graph.node,
        Builder(at, ScopeEnv(opened.facts, scope)),
        opened.facts.adapters,
    )


class Misreading:
    """A form of Neg that a runtime misreads, perhaps only on processors of one kind."""

    since = 1

    def __init__(self, processors="", answer=True):
        self.processors, self.answer = processors, answer

    def is_uncertain(self, row):
        return bool(self.processors or row.provider)

    def is_form(self, node, version, around=None):
        return self.answer if node.op == "Neg" and version == 13 else False

    def described(self, op):
        return f"it misreads {op}"


def only_misread(monkeypatch, form):
    """Makes `form` the only misread form of Neg, and no other operator misread."""
    for module in (form_lacks, runnable):
        monkeypatch.setattr(
            module, "misreadings", lambda rules, row, key: [form] if key == ("", "Neg") else []
        )


def probe(lines: str) -> probed.ReleaseTable:
    """The outcomes of a release, written as a table of a probe."""
    key, since = ("", "Elu"), 6
    types, features = {}, {}
    for line in lines.splitlines():
        outcome, what = line.split()
        (features if what.startswith("@") else types)[
            (outcome, what) if what.startswith("@") else (outcome, (what,))
        ] = frozenset({0})
    outcomes = {key: {since: probed.Outcomes(("T",), types, features)}}
    table = probed.ProbeTable("it", (probed.ProbedRelease("1.0", "2026-01-01", "a run"),), outcomes)
    return probed.ReleaseTable(table, frozenset({0}))


ELU = "(float[2] x) => (float[2] y) { a = Elu<alpha = 2.0>(x) y = Elu(a) }"


def without_imports(text: str) -> ModelProto:
    proto = model(text, 13)
    del proto.opset_import[:]
    return proto
