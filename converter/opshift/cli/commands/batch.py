"""`opshift batch`."""

from __future__ import annotations

import importlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from opshift.cli import options
from opshift.cli.options import common, documents, results_option
from opshift.cli.output import DONE, INTERRUPTED, REFUSED, Output
from opshift.cli.wishes import wishes

if TYPE_CHECKING:
    from opshift.convert.request import Request
    from opshift.zoo.sources import Shard
    from opshift.zoo.workers.shards import Spread
    from opshift.zoo.workers.supervisor import Supervisor

EXTERNAL = ("copy", "inline", "one-file")


@options.command(
    "opshift batch models/ converted/ --to 21 --report zoo.html",
    "opshift batch s3://zoo/models s3://zoo/converted --for onnxruntime==1.16",
    "opshift batch models/ --to 21 --dry-run --results rows.csv --results junit.xml",
    "opshift batch models/ --to 13 --dry-run --runtimes onnxruntime --report zoo.html",
)
@click.argument("source", metavar="SRC")
@click.argument("dst", metavar="[DST]", required=False)
@click.option("--dry-run", is_flag=True, help="Write nothing; find out what would become of all.")
@click.option("--verify", is_flag=True, help="Run each model and its result; only equals count.")
@click.option("--shard", metavar="I/N", default="1/1", help="The I-th of N parts, from 1.")
@click.option("--engine", "kind", type=click.Choice(("local", "dask", "ray")), default="local",
              show_default=True, help="What spreads the work.")  # fmt: skip
@click.option("--cluster", metavar="ADDRESS", help="Of dask or ray; one of its own if left out.")
@click.option("--workers", type=click.IntRange(1), help="Children; one per processor if left out.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=600.0, metavar="S",
              show_default=True, help="Seconds for one model.")  # fmt: skip
@click.option("--memory", type=click.IntRange(64), metavar="MIB", help="Memory for one model.")
@click.option("--retry", is_flag=True, help="Try again what crashed or met a limit before.")
@click.option("--journal", type=click.Path(dir_okay=False), help="Where the cache of results is.")
@click.option("--report", type=click.Path(dir_okay=False), help="Write a page about it all.")
@results_option
@click.option("--runtimes", multiple=True, metavar="NAME[==VERSION]",
              help="Count how many models run in these runtimes, now and converted.")  # fmt: skip
@click.option("--max-failures", type=click.IntRange(0), default=0, show_default=True,
              help="Exit 1 only if more models than this failed.")  # fmt: skip
@click.option("--external-data", type=click.Choice(EXTERNAL), default="copy", show_default=True,
              help="What becomes of weights outside of the model file.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Short for --output-format json.")
@documents
@common
@wishes
def command(
    output: Output,
    source: str,
    dst: str | None,
    dry_run: bool,
    verify: bool,
    shard: str,
    kind: str,
    cluster: str | None,
    workers: int | None,
    timeout: float,
    memory: int | None,
    retry: bool,
    journal: str | None,
    report: str | None,
    results: tuple[str, ...],
    runtimes: tuple[str, ...],
    max_failures: int,
    external_data: str,
    as_json: bool,
    request: Request,
) -> int:
    """Converts every model of SRC (a folder, a pattern or a list) into the folder DST.

    Either may be a url, such as s3://bucket/models.
    """
    from opshift.zoo import progress
    from opshift.zoo.migrate import migrate

    if not dry_run and dst is None:
        raise click.UsageError("say where the results go: DST, or --dry-run to write nothing")
    if as_json:
        output.form = "json"
    with _engine(kind, cluster, workers, timeout, memory) as engine, _stops_cleanly(engine):
        seen = progress.live(engine.crew) if output.progress else progress.plain()
        with seen if output.verbosity >= 0 else progress.silent() as heard:
            summary = migrate(
                source, None if dry_run else dst, request,
                external=external_data, verify=verify, shard=read_shard(shard), retry=retry,
                journal=journal, engine=engine, heard=heard, report=report, runtimes=runtimes,
                results=results,
            )  # fmt: skip
    output.result(summary.lines, summary.as_dict)
    if engine.stopping:
        text = (
            f"stopped with {summary.left} of {summary.total} models left; the same command goes on"
        )
        click.echo(text, err=True)
        return INTERRUPTED
    return REFUSED if summary.failures > max_failures else DONE


@contextmanager
def _engine(
    kind: str, cluster: str | None, workers: int | None, timeout: float, memory: int | None
) -> Iterator[Supervisor | Spread]:
    """Children on this machine, or shards on a cluster that is let go afterwards."""
    from opshift.zoo.migrate import local_engine
    from opshift.zoo.workers.limits import Limits
    from opshift.zoo.workers.shards import Spread

    limits = Limits(timeout, memory)
    if kind == "local":
        if cluster:
            raise click.UsageError("--cluster goes with --engine dask or ray")
        yield local_engine(workers, limits)
        return
    module = importlib.import_module(f"opshift.zoo.workers.{kind}")
    try:
        carrier = module.connect(cluster)
    except ImportError:
        raise click.UsageError(f"--engine {kind} needs: pip install opshift[{kind}]") from None
    try:
        yield Spread(carrier, limits)
    finally:
        carrier.close()


def read_shard(text: str) -> Shard:
    from opshift.zoo.sources import Shard

    try:
        return Shard.read(text)
    except ValueError as error:
        raise click.UsageError(f"--shard {text}: {error}") from None


@contextmanager
def _stops_cleanly(engine: Supervisor | Spread) -> Iterator[None]:
    """The first Ctrl-C lets models that are being worked on end; the second does not."""

    def asked(number: int, frame: object) -> None:
        if engine.stopping:
            raise KeyboardInterrupt
        engine.stop()
        click.echo("stopping after the models in work; once more to stop at once", err=True)

    before = signal.signal(signal.SIGINT, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
