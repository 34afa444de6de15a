# SPDX-License-Identifier: Apache-2.0
"""Refuses an option that can have no effect with the other options of a command line."""

from __future__ import annotations

import click
from click.core import ParameterSource

from opshift import option_texts

UNSET = (ParameterSource.DEFAULT, None)


class Dependent(click.Option):
    """An option that has no effect unless the command line has one of the options that it needs."""

    def needed_in(self, command: click.Command) -> list[str]:
        """Returns the options of a command of which this option needs one."""
        name = self.opts[0].removeprefix("--").replace("-", "_")
        words = [f"--{needed}" for needed in option_texts.NEEDS[name]]
        return [word for word in words if any(word in one.opts for one in command.params)]


def require_effects(ctx: click.Context) -> None:
    """Raises UsageError for an idle option of the command line; drops idle options of settings."""
    for option in ctx.command.params:
        if not isinstance(option, Dependent) or not _is_set(option, ctx):
            continue
        needed = option.needed_in(ctx.command)
        others = (one for one in ctx.command.params if {*one.opts} & {*needed})
        if not needed or any(_is_set(one, ctx) for one in others):
            continue
        name = option.name or ""
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(option_texts.without_effect(option.opts[0], needed), ctx)
        ctx.params[name] = False if option.is_flag else None


def require_untyped(text: str, *names: str) -> None:
    """Raises UsageError if the user typed one of these options, which have no effect."""
    if any(is_typed(name) for name in names):
        raise click.UsageError(text)


def is_typed(name: str) -> bool:
    """Returns whether the command line, and not a default or a setting, has an option."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def _is_set(option: click.Parameter, ctx: click.Context) -> bool:
    name = option.name or ""
    return ctx.get_parameter_source(name) not in UNSET and bool(ctx.params.get(name, True))
