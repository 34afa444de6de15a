"""`opshift adapters`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from opshift.cli.entry import DONE, Output, common

if TYPE_CHECKING:
    from opshift.author.verdicts import Adapter


@click.command
@click.argument("op", required=False)
@click.option("--domain", default="", help="The operator's domain; ai.onnx when left out.")
@common
def command(output: Output, op: str | None, domain: str) -> int:
    """Lists what exists for an operator, or how much exists for each."""
    from opshift.author import registry
    from opshift.opsets import schemas

    domain = schemas.normal(domain)
    found: dict[str, list[Adapter]] = {}
    for (d, name, _, _), adapter in registry.default():
        if d == domain and op in (None, name):
            found.setdefault(name, []).append(adapter)
    if op is not None and not found:
        known = "exists" if schemas.history(domain, op) else "does not exist"
        raise click.UsageError(f"no adapters for {op!r}, which {known} in {domain or 'ai.onnx'}")
    output.result(
        lambda: (
            "\n\n".join(_page(name, found[name]) for name in found)
            if op
            else "\n".join(f"{name}  {len(found[name])}" for name in sorted(found))
        ),
        lambda: adapters_as_dict(domain, found),
    )
    return DONE


def _page(name: str, adapters: list[Adapter]) -> str:
    lines = [click.style(name, bold=True)]
    for adapter in sorted(adapters, key=lambda a: (a.start > a.to, a.start)):
        lines.append(f"  {adapter.start}->{adapter.to}  {adapter.kind.name.lower()}")
        lines.append(f"    {adapter.summary}")
        for example in adapter.examples:
            outcome = f": {example.outcome}" if example.outcome else ""
            lines.append(f"    - {example.title}{outcome}")
    return "\n".join(lines)


def adapters_as_dict(domain: str, found: dict[str, list[Adapter]]) -> dict[str, Any]:
    """What exists for operators in the documented JSON form, `docs/reference/json.md`."""
    from opshift.report import SCHEMA_VERSION

    listed = {
        name: [
            {
                "start": a.start,
                "to": a.to,
                "kind": a.kind.name.lower(),
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
                    for e in a.examples
                ],
            }
            for a in adapters
        ]
        for name, adapters in sorted(found.items())
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "adapters",
        "domain": domain,
        "operators": listed,
    }
