# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift adapters`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from opshift.cli import options
from opshift.cli.complete import complete_operators
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common, documents
from opshift.cli.terminal import Output
from opshift.text import Line, Role, counted, table

if TYPE_CHECKING:
    from opshift.author.verdicts import Adapter


@options.command("opshift adapters Resize", "opshift adapters LabelEncoder --domain ai.onnx.ml")
@click.argument("op", required=False, shell_complete=complete_operators)
@options.operators_domain("The domain of the operators. The default is ai.onnx.")
@documents
@common
def command(output: Output, op: str | None, domain: str) -> int:
    """List the rules (adapters) that rewrite the operator OP.

    Without OP, count the adapters of each operator.
    """
    from opshift.author import registry
    from opshift.opsets import schemas

    domain = schemas.normal(domain)
    by_operator: dict[str, list[Adapter]] = {}
    for (d, name, _, _), adapter in registry.default():
        if d == domain and op in (None, name):
            by_operator.setdefault(name, []).append(adapter)
    if op is not None and not by_operator:
        where = domain or "ai.onnx"
        if schemas.history(domain, op):
            raise click.UsageError(
                f"{op!r} of {where} has no adapter, because no version changed it; see `opshift"
                f" ops {op}`"
            )
        options.known_operator(domain, op, list(schemas.operators(domain)))
    output.result(
        lambda: (
            (line for name in by_operator for line in _page(name, by_operator[name]))
            if op
            else _counts(by_operator)
        ),
        lambda: adapters_as_dict(domain, by_operator),
    )
    return DONE


def _counts(by_operator: dict[str, list[Adapter]]) -> Iterator[Line]:
    """Yields the total number of adapters, then the number for each operator."""
    total = sum(map(len, by_operator.values()))
    yield Line(
        f"{counted(total, 'adapter')} of {counted(len(by_operator), 'operator')}.", Role.GOOD
    )
    yield from table(
        ("operator", "adapters"), ((op, str(len(by_operator[op]))) for op in sorted(by_operator))
    )


def _page(name: str, adapters: list[Adapter]) -> Iterator[Line]:
    from opshift.testing.case_files import examples_with

    yield Line(name, Role.GOOD)
    number = 0
    for adapter in sorted(adapters, key=lambda a: (a.start > a.to, a.start)):
        kind = adapter.kind
        step = f"{adapter.start} -> {adapter.to}" if adapter.at_boundary else "any version"
        yield Line(f"  {step}  {kind}  {adapter.identity(name)}")
        yield Line(f"    {adapter.summary}")
        yield Line(f"    in {_place(adapter)}", Role.FAINT)
        for example in examples_with(adapter, name):
            number += 1
            outcome = f": {example.outcome or 'equal results'}"
            yield Line(f"    - {example.title}{outcome}", more=True)
    if number:
        yield Line(f"  -v shows {counted(number, 'example')}", Role.FAINT)


def _place(adapter: Adapter) -> str:
    """Returns the file and line of an adapter, such as `opshift_adapters/image/resize.py:42`."""
    module, _, line = adapter.source.partition(":")
    if not line and adapter.run is not None:
        module, line = adapter.run.__module__, str(adapter.run.__code__.co_firstlineno)
    return f"{module.replace('.', '/')}.py:{line}"


def adapters_as_dict(domain: str, by_operator: dict[str, list[Adapter]]) -> dict[str, Any]:
    """Returns the adapters of operators in the JSON form that `opshift schema` describes."""
    from opshift.report import SCHEMA_VERSION
    from opshift.testing.case_files import examples_with

    operators = {
        name: [
            {
                "id": a.identity(name),
                "start": a.start,
                "to": a.to,
                "kind": a.kind,
                "place": _place(a),
                "summary": a.summary,
                "emits": sorted(a.emits),
                "approximate": a.approximate,
                "examples": [
                    {
                        "title": e.title,
                        "graph": e.graph,
                        "gives": e.gives,
                        "refuses": e.refuses.name if e.refuses else None,
                        "invalid": e.invalid,
                    }
                    for e in examples_with(a, name)
                ],
            }
            for a in adapters
        ]
        for name, adapters in sorted(by_operator.items())
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "adapters",
        "domain": domain,
        "operators": operators,
    }
