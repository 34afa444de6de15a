# SPDX-License-Identifier: Apache-2.0
"""Completes the arguments and options of commands for the shell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from opshift import codes

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def complete_runtimes(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """Completes the names of runtimes, and after `NAME==` the releases of the runtime."""
    from opshift.opsets import targets

    rows = targets.table()  # the table has only rows with versions, which `--for` accepts
    name, sign, _ = word.lower().partition("==")
    ends = [f"{name}=={version.strip().rpartition('..')[2] or version.strip().rpartition('..')[0]}"
            for release in rows if sign and release.name == name
            for version in release.versions.split(",") if version]  # fmt: skip
    return _beginning(word.lower(), ends or dict.fromkeys(release.name for release in rows))


def complete_models_and_runtimes(
    ctx: click.Context, param: click.Parameter, word: str
) -> list[CompletionItem]:
    """Completes the names of runtimes; if no name fits, the shell completes a file path."""
    from click.shell_completion import CompletionItem

    names = complete_runtimes(ctx, param, word) if word else []
    return [CompletionItem(name) for name in names] or [CompletionItem(word, type="file")]


def complete_operators(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """Completes the names of the operators in the domain of --domain."""
    from opshift.opsets import changelog
    from opshift.opsets.identity import normal

    operators = changelog.default().operators(normal(ctx.params.get("domain") or ""))
    return sorted(name for name in operators if name.lower().startswith(word.lower()))


def complete_domains(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """Completes the names of the domains whose versions are known."""
    return _beginning(word, _domains())


def complete_versions(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """Completes `latest`, opsets of ai.onnx, and after `DOMAIN=` the versions of that domain."""
    from opshift.opsets import changelog
    from opshift.opsets.identity import normal

    domain, sign, _ = word.partition("=")
    newest = changelog.default().newest(normal(domain) if sign else "") or 0
    numbers = [
        f"{domain}{sign}{number}" if sign else str(number) for number in range(1, newest + 1)
    ]
    words = [] if sign else ["latest", *(f"{name}=" for name in _domains() if name != "ai.onnx")]
    return _beginning(word, [*numbers, *words])


def complete_ir(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """Completes `auto`, `keep` and the IR versions."""
    from opshift import versions

    numbers = sorted({release.ir for release in versions.RELEASES})
    return _beginning(word, ["auto", "keep", *map(str, numbers)])


def complete_codes(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    """Completes the codes that `opshift explain` takes."""
    return _beginning(word.upper(), codes.names())


def _domains() -> list[str]:
    from opshift.opsets import changelog

    return [name or "ai.onnx" for name in changelog.default().domains]


def _beginning(word: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(word)]
