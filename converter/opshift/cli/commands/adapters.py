# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift adapters`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from opshift.cli import options
from opshift.cli.complete import complete_operators
from opshift.cli.exit_codes import DONE
from opshift.cli.options import common, documents
from opshift.cli.terminal import Output
from opshift.json_form import Form
from opshift.records import dataclass
from opshift.text import Line, Role, counted, qualified, table

if TYPE_CHECKING:
    from opshift.author.verdicts import Adapter


@dataclass(frozen=True, slots=True)
class ExampleForm:
    """One example of an adapter."""

    title: str
    """The title."""
    graph: str
    """The graph in the text syntax of onnx."""
    gives: str | None
    """The operators of the result; null if the example does not name them."""
    refuses: str | None
    """The code of the refusal; null if the adapter does not refuse the graph."""
    invalid: str | None
    """The error about the invalid graph; null for a valid graph."""


@dataclass(frozen=True, slots=True)
class AdapterForm:
    """One adapter of an operator."""

    id: str
    """The name of the adapter, such as `ai.onnx.Reshape-14-13`, which never changes."""
    start: int
    """The version before the step."""
    to: int
    """The version after the step. Negative numbers and 0 stand for rules of other kinds, such as
    equal forms and operators that ONNX removed."""
    kind: str
    """`compatible`, `rewrite` or `impossible`."""
    place: str
    """The file and the line."""
    summary: str
    """A sentence about the change."""
    emits: tuple[str, ...]
    """The operators that may be written."""
    approximate: bool
    """Whether some results need `--allow-approximate`."""
    examples: tuple[ExampleForm, ...]
    """The examples."""


@dataclass(frozen=True, slots=True)
class Adapters(Form):
    """The adapters of operators.

    Printed by `opshift adapters`.
    """

    KIND = "adapters"

    domain: str
    """The domain."""
    operators: Mapping[str, tuple[AdapterForm, ...]]
    """The adapters, by operator."""


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

    domain, op = options.named_operator(domain, op)
    by_operator: dict[str, list[Adapter]] = {}
    for (d, name, _, _), adapter in registry.default():
        if d == domain and op in (None, name):
            by_operator.setdefault(name, []).append(adapter)
    if op is not None and not by_operator:
        where = domain or "ai.onnx"
        if schemas.history(domain, op):
            raise click.UsageError(
                f"{op!r} of {where} has no adapter, because no version changed it; see `opshift"
                f" ops {qualified(domain, op)}`"
            )
        options.known_operator(domain, op, list(schemas.operators(domain)))
    output.result(
        lambda: (
            (line for name in by_operator for line in _page(name, by_operator[name]))
            if op
            else _counts(by_operator)
        ),
        lambda: _forms(domain, by_operator),
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
    return f"{adapter.module.replace('.', '/')}.py:{adapter.line}"


def _forms(domain: str, by_operator: dict[str, list[Adapter]]) -> dict[str, Any]:
    """Returns the adapters of operators in the JSON form."""
    from opshift.testing.case_files import examples_with

    def form(name: str, adapter: Adapter) -> AdapterForm:
        examples = tuple(
            ExampleForm(e.title, e.graph, e.gives, e.refuses.name if e.refuses else None, e.invalid)
            for e in examples_with(adapter, name)
        )
        return AdapterForm(
            adapter.identity(name), adapter.start, adapter.to, adapter.kind, _place(adapter),
            adapter.summary, tuple(sorted(adapter.emits)), adapter.approximate, examples,
        )  # fmt: skip

    operators = {
        name: tuple(form(name, adapter) for adapter in adapters_of_op)
        for name, adapters_of_op in sorted(by_operator.items())
    }
    return Adapters(domain, operators).as_dict()
