# SPDX-License-Identifier: Apache-2.0
"""Declares the options of all commands that convert, and builds conversion requests from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from opshift.assumptions import NAMES
from opshift.cli.complete import complete_ir, complete_runtimes, complete_versions
from opshift.cli.idle import Dependent
from opshift.cli.options import own_targets, read_ir, read_target
from opshift.errors import BadTarget
from opshift.option_texts import help_of

if TYPE_CHECKING:
    from opshift.convert.request import Request

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _mapping_by(read: Callable[[Any], Any]) -> Callable[..., Any]:
    """Returns a callback that parses the value of an option; an invalid value is a usage error."""

    def callback(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> Any:
        try:
            return read(words) or None
        except BadTarget as error:
            raise click.UsageError(str(error)) from None

    return callback


def _shapes_in(words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Returns input shapes from words such as `image=1,3,224,224`; `x=` means a scalar."""
    shapes: dict[str, tuple[int, ...]] = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        parts = text.split(",") if text else []
        if not equals or not all(part.strip().isdecimal() for part in parts):
            raise BadTarget(
                f"--shape {word}: this is not a shape; write INPUT=1,3,224,224 with a number for"
                " each dimension"
            )
        _require_new("--shape", name, shapes)
        shapes[name] = tuple(map(int, parts))
    return shapes


def _sizes_in(words: Sequence[str]) -> dict[str, int]:
    """Returns dimension sizes from words such as `batch=1`."""
    sizes: dict[str, int] = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        if not equals or not text.strip().isdecimal():
            raise BadTarget(f"--dim {word}: this is not a size; write NAME=NUMBER")
        _require_new("--dim", name, sizes)
        sizes[name] = int(text)
    return sizes


def _types_in(words: Sequence[str]) -> dict[str, str]:
    """Returns new element types by old element type, from words such as `bfloat16=float`."""
    types: dict[str, str] = {}
    for word in words:
        start, equals, to = word.partition("=")
        if not equals:
            raise BadTarget(
                f"--types {word}: this is not a change of type; write FROM=TO, such as"
                " float=float16"
            )
        _require_new("--types", start, types)
        types[start] = to
    return types


def _require_new(option: str, name: str, values: Mapping[str, object]) -> None:
    if name in values:
        raise BadTarget(f"{option} is given twice for {name!r}; give it once")


TARGET = (
    click.option(
        "--to",
        "words",
        multiple=True,
        metavar="N|latest|DOMAIN=N",
        shell_complete=complete_versions,
        help="Convert to this opset, or DOMAIN to this version. Repeat it for other domains.",
    ),
    click.option(
        "--for",
        "runtime",
        metavar="NAME==VERSION",
        shell_complete=complete_runtimes,
        help="Convert for this runtime: to versions that it reads, and without operators that it"
        " lacks. `opshift targets` lists the runtimes.",
    ),
    click.option(
        "--at-least",
        multiple=True,
        metavar="N|DOMAIN=N",
        shell_complete=complete_versions,
        help=help_of("at_least"),
    ),
    click.option(
        "--ir",
        default="auto",
        metavar="auto|keep|N",
        show_default=True,
        shell_complete=complete_ir,
        help=help_of("ir_version"),
    ),
    click.option("--minimal", is_flag=True, help=help_of("minimal")),
)
MARKS = (  # options for metadata, for commands that write a model
    click.option("--bump-model-version", is_flag=True, help=help_of("bump_model_version")),
    click.option("--stamp", is_flag=True, help=help_of("stamp")),
)
KEEP_UNRUNNABLE = click.option(
    "--keep-unrunnable", is_flag=True, cls=Dependent, help=help_of("keep_unrunnable")
)
PERMISSIONS = (
    click.option("--allow-approximate", is_flag=True, help=help_of("allow_approximate")),
    click.option("--assume", multiple=True, type=click.Choice(NAMES), help=help_of("assume")),
    click.option("--drop-metadata", is_flag=True, help=help_of("drop_metadata")),
    click.option("--strict-ir", is_flag=True, help=help_of("strict_ir")),
    click.option("--drop-training", is_flag=True, help=help_of("drop_training")),
    click.option("--prune-imports/--keep-imports", default=None, help=help_of("prune_imports")),
    click.option(
        "--unknown-domains",
        type=click.Choice(("keep", "refuse")),
        default="keep",
        show_default=True,
        help=help_of("unknown_domains"),
    ),
    click.option(
        "--domains",
        metavar="NAME,...",
        callback=lambda ctx, param, text: None if text is None else tuple(text.split(",")),
        help=help_of("domains"),
    ),
    KEEP_UNRUNNABLE,
    click.option(
        "--shape",
        multiple=True,
        metavar="INPUT=N,...",
        callback=_mapping_by(_shapes_in),
        help=help_of("shape"),
    ),
    click.option(
        "--dim",
        multiple=True,
        metavar="NAME=N",
        callback=_mapping_by(_sizes_in),
        help=help_of("dim"),
    ),
    click.option(
        "--types",
        multiple=True,
        metavar="FROM=TO",
        callback=_mapping_by(_types_in),
        help=help_of("types"),
    ),
    click.option("--keep-io-types", is_flag=True, cls=Dependent, help=help_of("keep_io_types")),
    click.option("--inputs", type=click.Path(), cls=Dependent, help=help_of("inputs")),
    click.option("--modernize", is_flag=True, help=help_of("modernize")),
    *MARKS,
    click.option(
        "--checks",
        "check",
        type=click.Choice(("default", "full", "none")),
        default="default",
        show_default=True,
        help=help_of("check"),
    ),
)


def all_options(command: _Command) -> _Command:
    """Adds the options that describe a result; the command receives them as `request`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **named: Any) -> Any:
        named["request"] = _request({name: named.pop(name) for name in _names(*TARGET)}, named)
        return command(*args, **named)

    decorated: _Command = _with_options(wrapped, (*TARGET, *PERMISSIONS))
    return own_targets(decorated)


def permissions(command: _Command, left_out: Sequence[Any] = MARKS) -> _Command:
    """Adds the options that permit or forbid changes, without the options for the target."""

    @functools.wraps(command)
    def wrapped(*args: Any, **named: Any) -> Any:
        from opshift.convert.request import Request

        named["request"] = Request(**{name: named.pop(name) for name in permission_names(left_out)})
        return command(*args, **named)

    decorated: _Command = _with_options(wrapped, _allowed(left_out))
    return decorated


def permission_names(left_out: Sequence[Any] = MARKS) -> list[str]:
    """Returns the parameter names of the options that `permissions` adds."""
    return _names(*_allowed(left_out))


def _allowed(left_out: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(option for option in PERMISSIONS if option not in left_out)


def permissions_for_versions(command: _Command) -> _Command:
    """Adds the options of `permissions` that do not need a runtime."""
    return permissions(command, (*MARKS, KEEP_UNRUNNABLE))


# Options that request a change of the model, so that no target version is needed.
_CHANGES = ("prune_imports", "domains", "modernize", "shape", "dim", "types")


# click's decorators have no more exact type
def _with_options(command: Any, options: tuple[Any, ...]) -> Any:
    for option in reversed(options):
        command = option(command)
    return command


def _names(*options: Any) -> list[str]:
    """Returns the parameter names of some options."""

    def nothing() -> None: ...

    for option in options:
        option(nothing)
    return [parameter.name for parameter in nothing.__click_params__]  # type: ignore[attr-defined]


def _taken(named: dict[str, Any]) -> dict[str, Any]:
    return {name: named.pop(name) for name in _names(*PERMISSIONS)}


def _request(target: dict[str, Any], named: dict[str, Any]) -> Request:
    from opshift.convert.request import Request

    words, at_least = read_target(target["words"]), read_target(target["at_least"], "--at-least")
    runtime, ir, minimal = target["runtime"], target["ir"], target["minimal"]
    goals = (words, at_least, runtime, ir != "auto", minimal, named.get("python"))
    if not any((*goals, *(named[name] for name in _CHANGES))):
        raise click.UsageError(
            "the command names no version and no other goal; give --to N, --for RUNTIME, --ir N,"
            " --domains NAME, --shape INPUT=N,... or several of these"
        )
    target_or_versions: Any = words
    if runtime is not None or at_least:
        from opshift.opsets.wanted import Wanted

        target_or_versions = Wanted.of(runtime, words, at_least)
    return Request(target_or_versions, read_ir(ir), minimal=minimal, **_taken(named))
