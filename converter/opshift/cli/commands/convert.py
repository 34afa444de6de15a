"""`opshift convert`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from opshift.cli.entry import DONE, REFUSED, Output, common, read_ir, read_target

if TYPE_CHECKING:
    from onnx import ModelProto

    from opshift.convert.request import Options, Target
    from opshift.model.bytes.place import File, Stream
    from opshift.model.bytes.source import Opened
    from opshift.model.weights import Weights
    from opshift.opsets.targets import Wanted
    from opshift.report import Report
    from opshift.verify import Verification

STDOUT = "standard output"
EXTERNAL = ("keep", "copy", "inline", "one-file")


@click.command
@click.argument("source", metavar="IN", type=click.Path())
@click.option("-o", "--output", type=click.Path(), help="Where the result goes; - is stdout.")
@click.option("--in-place", is_flag=True, help="Replace IN, atomically.")
@click.option("--to", "words", multiple=True, metavar="N|latest|DOMAIN=N", help="Target version.")
@click.option("--for", "runtime", metavar="NAME==VERSION", help="What a runtime takes at most.")
@click.option("--at-least", multiple=True, metavar="N|DOMAIN=N", help="Raise to this if below.")
@click.option("--ir", default="auto", help="IR version: auto, keep or a number.")
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit 1 if it would change."
)
@click.option("--verify", "verifies", is_flag=True, help="Run both; write only what is equal.")
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be done.")
@click.option("--allow-approximate", is_flag=True, help="Allow results that are not exactly equal.")
@click.option("--external-data", type=click.Choice(EXTERNAL), default="keep", show_default=True)
@click.option("--drop-metadata", is_flag=True, help="Drop metadata the wanted IR has no field for.")
@click.option("--strict-ir", is_flag=True, help="Refuse to keep content that readers would skip.")
@click.option("--drop-training", is_flag=True, help="Drop training information below IR 7.")
@click.option(
    "--prune-imports/--keep-imports", default=None, help="Drop imports nobody uses; on with --for."
)
@click.option("--unknown-domains", type=click.Choice(("keep", "refuse")), default="keep")
@click.option("--minimal", is_flag=True, help="To the smallest versions that mean the same.")
@click.option("--bump-model-version", is_flag=True, help="Raise the model's own version too.")
@common
def command(
    talk: Output,
    source: str,
    output: str | None,
    in_place: bool,
    only_check: bool,
    dry_run: bool,
    external_data: str,
    verifies: bool,
    **wishes: Any,
) -> int:
    """Converts IN to other versions; IN may be a pipe, and - is the standard input."""
    from opshift.convert.ir import restamp

    wanted = not (only_check or dry_run)
    if wanted and in_place == (output is not None):
        raise click.UsageError("say where the result goes: either -o OUT or --in-place")
    options = _options(**wishes)
    file, target = _places(source, output, in_place)
    talk.aside = target.name == STDOUT
    if not verifies and (stamp := restamp.look(file, options, target, external_data)):
        if wanted:
            stamp.write(target, in_place=in_place)
        return _answer(talk, stamp.report, None, only_check)

    from opshift.convert.api import convert
    from opshift.model import weights

    with talk.working(f"converting {os.path.basename(source)}"):
        skeleton, store, report = convert(lambda: weights.carve_file(file), options)
    found = None
    if verifies:
        with talk.working("verifying"):
            found = _verified(file, target.name, skeleton, store)
    if wanted and (found is None or found.equal):
        with talk.working(f"writing {os.path.basename(target.name)}"):
            weights.put(
                skeleton, store, target, report.changed, external=external_data, in_place=in_place
            )
    return _answer(talk, report, found, only_check)


def _places(source: str, output: str | None, in_place: bool) -> tuple[Opened, File | Stream]:
    """The file that is read, and the place that is written to."""
    from opshift.model.bytes import place
    from opshift.model.bytes.source import Opened

    if in_place:
        if source == "-":
            raise click.UsageError("the standard input cannot be replaced; give -o OUT")
        output = place.to_replace(source)
    file = Opened("standard input", fd=0) if source == "-" else Opened(source)
    if output == "-":
        return file, place.Stream(STDOUT, fd=1)
    return file, place.at(output or source)


def _answer(talk: Output, report: Report, found: Verification | None, only_check: bool) -> int:
    """Prints what was done, or would be, and gives the exit code."""
    talk.result(lambda: _text(report, found), lambda: _data(report, found))
    good = found is None or found.equal
    return REFUSED if not good or (only_check and report.changed) else DONE


def _verified(source: Opened, target: str, skeleton: ModelProto, store: Weights) -> Verification:
    """Whether both models compute the same, shown before the second one has its place."""
    import dataclasses
    import tempfile

    from opshift.model import weights
    from opshift.verify import verify

    with tempfile.TemporaryDirectory(prefix="opshift-") as folder:
        trial = os.path.join(folder, "converted.onnx")
        # What lies outside of the model is not found from here, unless it comes along.
        outside = bool(weights.data_files(skeleton, store))
        weights.splice(skeleton, store, trial, external="one-file" if outside else "keep")
        found = verify(source.at_path(folder, "piped.onnx"), trial)
    names = (source.path, target)
    first, second = (
        dataclasses.replace(side, model=name) for side, name in zip(found.sides, names, strict=True)
    )
    return dataclasses.replace(found, sides=(first, second))


def _text(report: Report, found: Verification | None) -> str:
    if found is None:
        return str(report)
    ending = "" if found.equal else "\nnothing was written"
    return f"{report}\n\n{found}{ending}"


def _data(report: Report, found: Verification | None) -> dict[str, Any]:
    more = {} if found is None else {"verification": found.as_dict()}
    return {**report.as_dict(), **more}


def _options(
    words: tuple[str, ...],
    runtime: str | None,
    at_least: tuple[str, ...],
    ir: str,
    **rest: Any,
) -> Options:
    from opshift.convert.request import Options

    wishes = (words, runtime, at_least, ir != "auto", rest["prune_imports"], rest["minimal"])
    if not any(wishes):
        raise click.UsageError("say what is wanted: --to N, --for RUNTIME, --ir N, or several")
    target: Target | Wanted = read_target(words)
    if runtime is not None or at_least:
        from opshift.opsets import targets

        ceiling = None if runtime is None else targets.find(runtime)
        target = targets.Wanted(ceiling, read_target(words), read_target(at_least, "--at-least"))
    return Options(target, read_ir(ir), **rest)
