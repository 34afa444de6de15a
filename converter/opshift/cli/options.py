# SPDX-License-Identifier: Apache-2.0
"""Defines options that all commands share, grouped help with examples, and error handling."""

from __future__ import annotations

import functools
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from opshift import deprecation
from opshift.cli import exit_codes, idle, interrupts, settings
from opshift.cli.complete import complete_domains
from opshift.cli.exit_codes import BAD_INPUT, BUG, INTERRUPTED
from opshift.cli.synonyms import misplaced
from opshift.cli.terminal import Output
from opshift.text import cause_of, suggestion

if TYPE_CHECKING:
    from opshift.opsets.wanted import IrVersion

_Command = TypeVar("_Command", bound=Callable[..., Any])
# the values by option, the other words, and the options in their order
_Parsed: TypeAlias = tuple[dict[str, Any], list[str], list[click.Parameter]]

# The groups of options in the help, in order; all remaining options come under "Other options".
GROUPS: dict[str, tuple[str, ...]] = {
    "Target": (
        "--to", "--for", "--at-least", "--ir", "--minimal", "--opset", "--model-version",
    ),
    "Sizes and types": ("--shape", "--dim", "--types", "--keep-io-types"),
    "Permissions": (
        "--allow-approximate", "--assume", "--drop-metadata", "--drop-training",
        "--unknown-domains", "--domains", "--prune-imports", "--strict-ir", "--keep-unrunnable",
        "--checks",
    ),
    "Result": (
        "--output", "--in-place", "--external-data", "--modernize", "--bump-model-version",
        "--stamp", "--report", "--results",
    ),
    "Look first": ("--check", "--dry-run", "--verify"),
    "Work": (
        "--engine", "--cluster", "--workers", "--timeout", "--memory", "--retry", "--rehash",
        "--journal", "--shard", "--max-failures",
    ),
    "Inputs and tolerances": (
        "--inputs", "--seed", "--rtol", "--atol", "--ulp", "--seconds", "--megabytes", "--reduce",
    ),
}  # fmt: skip
_WORDS = "opshift.words"
DESCRIBE = "; install the package that describes it, or give its document with --operator-set"
OTHER, MESSAGES = "Other options", "Messages"
_COMMON = (
    "--output-format",
    "--json",
    "--quiet",
    "--verbose",
    "--color",
    "--no-progress",
    "--help",
)


class _WholeWords(click.HelpFormatter):
    """Writes help whose lines never break inside a word such as `no-zero-dims`."""

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        super().write_dl([(name, _held(text)) for name, text in rows], col_max, col_spacing)

    def write_text(self, text: str) -> None:
        super().write_text(_held(text))

    def getvalue(self) -> str:
        return super().getvalue().replace(_HYPHEN, "-")


_HYPHEN = "\u2011"  # a hyphen without a line break


def _held(text: str) -> str:
    return text.replace("-", _HYPHEN)


class WholeWords(click.Context):
    """The context of a command, whose help breaks no word at a hyphen."""

    formatter_class = _WholeWords


class GroupedCommand(click.Command):
    """A command whose help shows the options in groups and ends with examples."""

    context_class = WholeWords

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments, and stores the words for the command line in a report."""
        ctx.meta[_WORDS] = (ctx.info_name or "", *args)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            idle.require_effects(ctx)
        return rest

    def make_parser(self, ctx: click.Context) -> Any:
        """Returns click's parser, which then raises for an option that is given twice."""
        parser = super().make_parser(ctx)
        if not ctx.resilient_parsing:
            parser.parse_args = functools.partial(_parsed_once, ctx, parser.parse_args)  # type: ignore[method-assign]
        return parser

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes one section for each group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Argument):  # the usage line shows the arguments
                continue
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(_group(parameter), []).append(record)
        for group in (*GROUPS, OTHER, MESSAGES):
            if group in sections:
                with formatter.section(group):
                    formatter.write_dl(sections[group])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples of the command, one a line."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")


def _parsed_once(
    ctx: click.Context, parse: Callable[[list[str]], _Parsed], args: list[str]
) -> _Parsed:
    """Parses arguments; raises for an option that is given twice and takes one value.

    For the options about messages, the last value counts, so that an alias can set them.
    """
    parsed = parse(args)
    takes_one = (
        one for one in parsed[2]
        if isinstance(one, click.Option) and not (one.multiple or one.is_flag or one.count)
        and _group(one) != MESSAGES
    )  # fmt: skip
    twice = next((one for one, n in Counter(takes_one).items() if n > 1), None)
    if twice is not None:
        raise click.UsageError(f"{long_name(twice)} is given twice; give it once", ctx)
    return parsed


def long_name(option: click.Parameter) -> str:
    """Returns the longest of the names of an option, such as `--output` of `-o`."""
    return max(option.opts, key=len)


def typed() -> str:
    """Returns the command line of the running command."""
    return shlex.join(["opshift", *click.get_current_context().meta[_WORDS]])


def _group(parameter: click.Parameter) -> str:
    names = {*parameter.opts}
    if names & {*_COMMON}:
        return MESSAGES
    return next((group for group, options in GROUPS.items() if names & {*options}), OTHER)


def command(
    *examples: str, kind: type[GroupedCommand] = GroupedCommand
) -> Callable[[Callable[..., Any]], GroupedCommand]:
    """Returns a decorator that makes a function a command whose help ends with `examples`."""
    return click.command(cls=kind, examples=examples)


def common(function: _Command) -> _Command:
    """Adds the options that all commands share, and prints errors of the command."""

    @click.option(
        "--output-format", type=click.Choice(("text", "json", "jsonl")), default="text",
        show_default=True,
        help="The form of the output: text for people, json or jsonl (one line) for programs.",
    )  # fmt: skip
    @click.option("--json", "as_json", is_flag=True, help="A short name for --output-format json.")
    @click.option(
        "-q", "--quiet", count=True,
        help="Print only the first sentence of a refusal or an error.",
    )  # fmt: skip
    @click.option(
        "-v", "--verbose", count=True, help="Print every node, and the traceback of an error."
    )
    @click.option(
        "--color", type=click.Choice(("auto", "always", "never")), default="auto",
        show_default=True,
        help="When to use colours. auto uses them on a terminal and obeys NO_COLOR and TERM=dumb.",
    )  # fmt: skip
    @click.option("--no-progress", is_flag=True, help="Do not show the progress on stderr.")
    @functools.wraps(function)
    def wrapped(
        output_format: str, as_json: bool, quiet: int, verbose: int, color: str,
        no_progress: bool, **rest: Any,
    ) -> None:  # fmt: skip
        form = "json" if as_json else output_format
        output = Output(form, verbose - quiet, color, not no_progress)
        settings.show(output)
        sys.exit(guarded(output, lambda: function(output, **rest)))

    return wrapped  # type: ignore[return-value]


def results_option(function: _Command) -> _Command:
    """Adds the option `--results FILE`, which writes the results of all models to files."""
    decorated: _Command = click.option(
        "--results", multiple=True, metavar="FILE", type=click.Path(dir_okay=False),
        help="Also write the result of each model to FILE. The extension chooses the format: .jsonl"
        " or .csv (a row for each model), .xml (JUnit) or .sarif. Repeat it for more files.",
    )(function)  # fmt: skip
    return decorated


def own_targets(function: _Command) -> _Command:
    """Adds the option `--targets FILE` to a command that takes a runtime."""
    decorated: _Command = click.option(
        "--targets", metavar="FILE", expose_value=False, callback=_give_targets,
        cls=idle.Dependent,
        type=click.Path(exists=True, dir_okay=False),
        help="Read targets from this file, such as a result of `opshift probe`, instead of your"
        " own file of targets.",
    )(function)  # fmt: skip
    return decorated


def _give_targets(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    """Stores the path in an environment variable for child processes, until the command ends."""
    if path is not None:
        from opshift.opsets.targets import CONFIG

        before = os.environ.get(CONFIG)
        os.environ[CONFIG] = os.path.abspath(path)

        def restore() -> None:
            os.environ.pop(CONFIG)
            if before is not None:
                os.environ[CONFIG] = before

        ctx.call_on_close(restore)


def documents(function: _Command) -> _Command:
    """Adds the option `--operator-set FILE` to a command that opens a model."""
    named = click.option(
        "--operator-set", "documents", multiple=True, metavar="FILE",
        type=click.Path(dir_okay=False), expose_value=False,
        callback=lambda _, __, paths: give_documents(paths),
        help="Read the operators of a domain from this document (OperatorSetProto). Repeat it for"
        " more documents.",
    )  # fmt: skip
    earlier = click.option(  # the name of this option up to 0.2
        "--opset", "opset", multiple=True, hidden=True, expose_value=False,
        help="The name of --operator-set up to 0.2.",
        callback=lambda ctx, __, words: give_documents([_document(ctx, word) for word in words]),
    )  # fmt: skip
    decorated: _Command = named(earlier(function))
    return decorated


def _document(ctx: click.Context, word: str) -> str:
    """Returns the path of a document; if the word is a version, raises an error that names --to."""
    number = word.rpartition("=")[2]
    if number.isdecimal() and not os.path.exists(word):
        has_target = any("--to" in parameter.opts for parameter in ctx.command.params)
        cure = f"give a version with --to {word}" if has_target else "give the path of a document"
        raise click.UsageError(
            f"--opset {word}: this option takes the file of an operator set; {cure}"
        )
    deprecation.warn(f"--opset {word}", f"--operator-set {word}", "0.4.0")
    return word


def operators_domain(text: str) -> Callable[[_Command], _Command]:
    """Returns the option `--domain`, whose help is `text`."""
    return click.option("--domain", default="", shell_complete=complete_domains, help=text)


def page(ctx: click.Context, param: click.Parameter, path: str | None) -> str | None:
    """Returns the path of an HTML report; raises if the path cannot be that of a page."""
    if path is None:
        return None
    if not path.lower().endswith((".html", ".htm")):
        raise click.BadParameter(
            f"{path}: a report is an HTML page; give it a name that ends in .html"
        )
    from opshift.errors import BadDestination
    from opshift.model.bytes import place

    try:
        place.at(path)
    except BadDestination as error:
        raise click.BadParameter(str(error)) from None
    return path


def reports(function: _Command) -> _Command:
    """Adds the option for an HTML report; the command receives its path as `report`."""
    decorated: _Command = click.option(
        "--report", metavar="FILE.html", type=click.Path(dir_okay=False), callback=page,
        help="Also write an HTML page with all changes and with the runtimes that run the model.",
    )(function)  # fmt: skip
    return decorated


def give_documents(paths: Sequence[str]) -> dict[str, int]:
    """Loads operator-set documents and returns their versions; a bad document is a usage error."""
    if not paths:
        return {}
    from opshift.errors import BadTarget
    from opshift.opsets import described

    try:
        return described.give(paths)
    except BadTarget as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"{cause_of(error)}; check the path of the document") from None


def guarded(output: Output, work: Callable[[], int]) -> int:
    """Runs a command and returns its exit code; prints every error."""
    from opshift.errors import (
        AdapterBug,
        BadDestination,
        BadTarget,
        ClusterLost,
        InvalidModel,
        MissingExtra,
        Refused,
    )

    try:
        return _interruptible(work)
    except Refused as refused:
        refusal = refused
        return output.refused(refusal.lines, refusal.as_dict)
    except (InvalidModel, BadTarget, BadDestination, ClusterLost, MissingExtra) as error:
        return output.failed(str(error), exit_codes.of_error(error), error.code)
    except click.UsageError as error:
        return output.failed(error.format_message(), BAD_INPUT, "BAD_USAGE")
    except BrokenPipeError:  # the program that reads the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BAD_INPUT)
    except OSError as error:
        return output.failed(_sentence(error), BAD_INPUT, "FILE_ERROR")
    except ImportError as error:
        if (error.name or "").startswith("opshift"):
            return output.failed(f"this is a bug of opshift: {error!r}", BUG, "BUG")
        return output.failed(str(error), BAD_INPUT, "BROKEN_PACKAGE")
    except MemoryError as error:
        return output.failed(f"there is not enough memory: {error}", BAD_INPUT, "OUT_OF_MEMORY")
    except KeyboardInterrupt:
        return output.failed("interrupted; nothing was written", INTERRUPTED, "INTERRUPTED")
    except AdapterBug as bug:
        message = f"this is a bug of an adapter, not of your model: {bug}"
        return output.failed(message, BUG, "ADAPTER_BUG")
    except Exception as error:
        return output.failed(f"this is a bug of opshift: {error!r}", BUG, "BUG")


def _interruptible(work: Callable[[], int]) -> int:
    """Runs a command; any error after a signal is an interrupt."""
    try:
        return work()
    except Exception as error:
        if interrupts.RECEIVED:
            raise KeyboardInterrupt from error
        raise


def _sentence(error: OSError) -> str:
    """Returns the message of a file error, with similar file names if the file does not exist."""
    if not isinstance(error, FileNotFoundError) or not error.filename:
        return cause_of(error)
    if "://" in str(error.filename):
        return (
            f"{error.filename}: this is an address and not a file; download the model, and give"
            " the path of its file (`opshift batch` reads models from a store)"
        )
    return cause_of(error) + similar_files(str(error.filename))


# Windows has no file for the standard input; there, only `opshift convert` reads it.
STDIN = "/dev/stdin" if os.path.exists("/dev/stdin") else "-"


_RELEASE = re.compile(r"\d+(\.\d+)+")


class ModelPath(click.Path):
    """The path of a model, or `-` for the standard input.

    For a version or a runtime in its place, the error names the option.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            return STDIN
        if value == "":
            raise click.UsageError("the name of a model is empty; give the path of a file", ctx)
        if ctx is not None and isinstance(value, str):
            available = functools.partial(shown_options, ctx.command, ctx)
            if option := misplaced(value, available):
                raise click.UsageError(f"{value} is not a file; write {option} {value}", ctx)
            if _RELEASE.fullmatch(value) and not os.path.exists(value):
                raise click.UsageError(
                    f"{value} is not a file; write the release of a runtime as NAME=={value}", ctx
                )
        return super().convert(value, param, ctx)


def require_read_once(*paths: str) -> None:
    """Raises if a command would read the standard input more than once."""
    if paths.count(STDIN) > 1:
        raise click.UsageError("the standard input can be read only once; give the path of a file")


def is_model(word: str) -> bool:
    """Returns whether a word is the path of a model, which need not exist, or `-`."""
    from opshift.model.bytes.file_names import has_ending

    return word == "-" or has_ending(word) or os.path.exists(word)


def shown_options(command: click.Command, ctx: click.Context) -> list[str]:
    """Returns the options that the help of a command shows."""
    shown = (param for param in command.get_params(ctx) if not getattr(param, "hidden", False))
    return [word for param in shown for word in param.opts if word.startswith("-")]


def similar_files(path: str) -> str:
    """Returns a suggestion of files in the folder of a path, whose extensions do not count."""
    folder, word = os.path.split(path)
    try:
        names = [name for name in os.listdir(folder or ".") if name != word]
    except OSError:
        return ""
    return suggestion(path, [os.path.join(folder, name) for name in names], key=_stem)


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def named_operator(domain: str, op: str | None) -> tuple[str, str | None]:
    """Returns domain and operator; `op` may contain its domain, as in `ai.onnx.ml.Scaler`."""
    from opshift.opsets.identity import normal

    before, dot, name = (op or "").rpartition(".")
    if dot and op in _domains():
        raise click.UsageError(f"{op} is a domain and not an operator; write --domain {op}")
    if dot and normal(before) != normal(domain):
        text = f"{op} and --domain {domain} name two domains; leave --domain out"
        idle.require_untyped(text, "domain")
    return (normal(before), name) if dot else (normal(domain), op)


def known_operator(domain: str, op: str, operators: Sequence[str]) -> None:
    """Raises if the domain lacks the operator, and suggests another domain or name."""
    if op in operators:
        return
    from opshift.opsets import changelog, operator_search

    database = changelog.default()
    shown = domain or "ai.onnx"
    if not operators and domain not in database.domains:
        near = suggestion(domain, _domains())
        raise click.UsageError(f"domain {domain!r} is not known{near or DESCRIBE}")
    homes = [home for home in database.domains if op in database.operators(home)]
    if homes:
        raise click.UsageError(
            f"{shown} has no operator {op!r}; {homes[0] or 'ai.onnx'} has it: add --domain"
            f" {homes[0] or 'ai.onnx'}"
        )
    near = suggestion(op, list(operators))
    if alike := operator_search.described_by(op, domain, operators):
        near += f"{'' if near else ';'} the descriptions of {', '.join(alike)} contain this word"
    raise click.UsageError(f"{shown} has no operator {op!r}{near}")


def read_target(words: tuple[str, ...], option: str = "--to") -> dict[str, int]:
    """Parses versions such as `21`, `latest` or `ai.onnx.ml=3`; each domain may occur once."""
    from opshift.opsets.identity import normal

    versions: dict[str, int] = {}
    for word in words:
        name, _, version = word.rpartition("=")
        domain = normal(name)
        number = _latest(domain) if version == "latest" else _number(f"{option} {word}", version)
        if number is None:
            near = suggestion(name, _domains())
            raise click.UsageError(
                f"{option} {word}: the versions of domain {name!r} are not known{near}"
            )
        if domain in versions:
            raise click.UsageError(
                f"{option} is given twice for {name or 'ai.onnx'}; give one version"
            )
        versions[domain] = number
    return versions


def _latest(domain: str) -> int | None:
    from opshift.opsets import changelog

    return changelog.latest(domain)


def _domains() -> list[str]:
    from opshift.opsets import changelog

    return [domain or "ai.onnx" for domain in changelog.default().domains]


def _number(word: str, version: str) -> int:
    if not version.isdecimal():
        runtime = "; --for takes the name of a runtime" if "==" in word else ""
        raise click.UsageError(
            f"{word}: this is not a version; give a number, `latest`, or DOMAIN=NUMBER{runtime}"
        )
    return int(version)


def read_ir(word: str) -> IrVersion:
    """Returns the IR version as a number, or a word such as `auto`, which is checked later."""
    return int(word) if word.isdecimal() else word  # type: ignore[return-value]
