# SPDX-License-Identifier: Apache-2.0
"""Generates the index of the shipped adapters, which lists the declarations of each module.

Beside it stands the table of the operators that each adapter writes for the examples. Until a new
or changed adapter is in the index, every conversion imports its module.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import opshift_adapters
from opshift import InvalidModel, Refused, convert_version, testing
from opshift.author import emitted, index, registry
from opshift.author.adapter_answers import Result
from opshift.author.builder import Builder
from opshift.author.node import Node
from opshift.author.verdicts import Adapter
from opshift.convert.replay import call_records
from opshift.opsets import schemas
from opshift.text import qualified

PATH = Path(str(opshift_adapters.__file__)).parent / index.INDEX


def files() -> Mapping[Path, Callable[[], str]]:
    """The generated files; the second one is made with the first."""
    return {
        PATH: lambda: registry.index_of(opshift_adapters),
        PATH.with_name(emitted.TABLE): lambda: table(opshift_adapters.__name__),
    }


def table(package: str) -> str:
    """The operators that the adapters of a package write when their examples are converted."""
    rows = defaultdict[str, set[str]](set)
    call_records.forget()  # each adapter is asked while it is watched
    with mock.patch.object(Adapter, "__call__", _watched(rows)):
        for adapter, example in testing.examples(package):
            model = testing.example_model(adapter, example)
            target = testing.example_target(adapter, example)
            try:
                convert_version(model, target, **example.wishes)
            except (Refused, InvalidModel):
                continue
    return "".join(f"{key} {' '.join(sorted(rows[key]))}\n" for key in sorted(rows) if rows[key])


def _watched(rows: dict[str, set[str]]) -> Callable[[Adapter, Node, Builder], Result]:
    """The call of an adapter, which notes the operators that were written meanwhile."""
    called = Adapter.__call__

    def call(adapter: Adapter, node: Node, op: Builder) -> Result:
        written = op.made.ops
        before = set(written)
        written.clear()
        try:
            return called(adapter, node, op)
        finally:
            own = qualified(schemas.normal(node.proto.domain), node.op)
            rows[adapter.row] |= written - {own, "Identity"}
            written |= before

    return call
