# SPDX-License-Identifier: Apache-2.0
"""Defines the command `opshift batch`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from opshift import child_python
from opshift.cli import idle, options
from opshift.cli.complete import complete_runtimes
from opshift.cli.conversion_options import all_options
from opshift.cli.exit_codes import BAD_INPUT, DONE, INTERRUPTED, REFUSED, of_several
from opshift.cli.options import common, documents, page, results_option
from opshift.cli.terminal import Output

if TYPE_CHECKING:
    from opshift.convert.request import Request
    from opshift.zoo.migrate import Published
    from opshift.zoo.sources import Shard
    from opshift.zoo.workers.shards import Spread
    from opshift.zoo.workers.supervisor import Supervisor

EXTERNAL = ("copy", "inline", "one-file")
SOON = 10.0  # seconds in which running conversions must end after SIGTERM


@options.command(
    "opshift batch models/ converted/ --to 21 --report zoo.html",
    "opshift batch s3://zoo/models s3://zoo/converted --for onnxruntime==1.16",
    "opshift batch models/ --to 21 --dry-run --results rows.csv --results junit.xml",
    "opshift batch models/ --to 13 --dry-run --runtimes onnxruntime --report zoo.html",
)
@click.argument("source", metavar="SRC")
@click.argument("dst", metavar="[DST]", required=False)
@click.option(
    "--dry-run", is_flag=True, help="Write nothing. Show the outcome that each model would have."
)
@click.option(
    "--verify",
    is_flag=True,
    help="Run each model and its result. Write only results that compute the same.",
)
@click.option(
    "--shard", metavar="I/N", default="1/1", help="Convert only the I-th of N parts of the models."
)
@click.option(
    "--engine",
    "kind",
    type=click.Choice(("local", "dask", "ray")),
    default="local",
    show_default=True,
    help="Where the models are converted: on this machine, or on a Dask or Ray cluster.",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="The address of the cluster. By default, a cluster is started on this machine.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="The number of child processes. The default is one for each processor.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="The time limit for one model, in seconds. By default, opshift estimates a limit from"
    " earlier models, and retries the models that exceed it once at the end.",
)
@click.option(
    "--memory",
    type=click.IntRange(64),
    metavar="MIB",
    help="The memory limit for one model. By default, the workers share the memory equally.",
)
@click.option(
    "--retry",
    is_flag=True,
    help="Try again the models that crashed or met a limit in an earlier run.",
)
@click.option(
    "--rehash",
    is_flag=True,
    help="Read all models again, even if they have not changed since an earlier run.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False),
    help="The file that stores the results of all runs. It is created if it does not exist.",
)
@click.option(
    "--report",
    metavar="FILE.html",
    type=click.Path(dir_okay=False),
    callback=page,
    help="Write a report of all models as an HTML page.",
)
@results_option
@click.option(
    "--runtimes",
    multiple=True,
    metavar="NAME[==VERSION]",
    shell_complete=complete_runtimes,
    help="Count the models that this runtime runs before and after the conversion. `all` stands"
    " for every runtime. Repeat the option for more runtimes.",
)
@click.option(
    "--max-failures",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Exit with code 1 only if more than this number of models fail.",
)
@click.option(
    "--external-data",
    type=click.Choice(EXTERNAL),
    default="copy",
    show_default=True,
    help="The place for weights in separate files: a copy of each file (copy), the model file"
    " (inline), or one new file for all weights (one-file).",
)
@documents
@common
@all_options
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
    timeout: float | None,
    memory: int | None,
    retry: bool,
    rehash: bool,
    journal: str | None,
    report: str | None,
    results: tuple[str, ...],
    runtimes: tuple[str, ...],
    max_failures: int,
    external_data: Published,
    request: Request,
) -> int:
    """Convert every model of SRC into the folder DST.

    SRC is a folder, a pattern or a file with a list of models. SRC and DST may be URLs, such as
    s3://bucket/models.
    """
    from opshift.zoo import progress
    from opshift.zoo.migrate import migrate

    if not dry_run and dst is None:
        raise click.UsageError(
            "the command names no folder for the results; give DST, or --dry-run to write nothing"
        )
    if dst == "-":
        raise click.UsageError("a batch writes a file for each model; give a folder instead of -")
    with _engine(kind, cluster, workers, timeout, memory) as engine, _stops_cleanly(engine):
        display = progress.live(engine.crew) if output.live else progress.plain()
        with display if output.progress else progress.silent() as heard:
            summary = migrate(
                source,
                None if dry_run else dst,
                request,
                external=external_data,
                verify=verify,
                shard=read_shard(shard),
                retry=retry,
                rehash=rehash,
                journal=journal,
                engine=engine,
                heard=heard,
                report=report,
                runtimes=runtimes,
                results=results,
                command=options.typed(),
            )
    fails = summary.failures > max_failures
    output.result(summary.lines, summary.as_dict, good=not (fails or summary.faults))
    if engine.stopping:
        text = (
            f"stopped; {summary.left} of {summary.total} models are left; run the same command"
            " again to go on"
        )
        click.echo(text, err=True)
        return INTERRUPTED
    return of_several({REFUSED if fails else DONE, BAD_INPUT if summary.faults else DONE})


@contextmanager
def _engine(
    kind: str, cluster: str | None, workers: int | None, timeout: float | None, memory: int | None
) -> Iterator[Supervisor | Spread]:
    """Provides child processes on this machine, or a connection to a cluster."""
    from opshift.zoo.migrate import local_engine
    from opshift.zoo.workers.limits import ModelLimits
    from opshift.zoo.workers.shards import Spread

    limits = ModelLimits(timeout, memory)
    if kind == "local":
        if cluster:
            raise click.UsageError(
                "--cluster is used only with --engine dask or --engine ray; give one of them"
            )
        yield local_engine(workers, limits)
        return
    idle.require_untyped(
        f"--workers has no effect with --engine {kind}, which has its own workers; leave it out",
        "workers",
    )
    module = importlib.import_module(f"opshift.zoo.workers.{kind}")
    with child_python.safe_multiprocessing():  # a cluster may start workers at any time
        carrier = _carrier(module, kind, cluster)
        try:
            yield Spread(carrier, limits)
        finally:
            carrier.close()


def _carrier(module: ModuleType, kind: str, cluster: str | None) -> Any:
    """Connects to a cluster; without an address, starts a cluster on this machine."""
    from opshift.errors import ClusterLost

    try:
        return module.connect(cluster)
    except ImportError:
        raise click.UsageError(
            f"--engine {kind} needs packages that are not installed; run `pip install"
            f" 'opshift[{kind}]'`"
        ) from None
    except Exception as error:  # each cluster package raises exceptions of its own
        place = f"at {cluster}" if cluster else "on this machine"
        raise ClusterLost(f"the {kind} cluster {place} cannot be used: {error}") from error


def read_shard(text: str) -> Shard:
    from opshift.zoo.sources import Shard

    try:
        return Shard.read(text)
    except ValueError as error:
        raise click.UsageError(f"--shard {text}: {error}") from None


@contextmanager
def _stops_cleanly(engine: Supervisor | Spread) -> Iterator[None]:
    """Ends a batch early, but with its summary and files; a third signal ends it at once.

    After the first Ctrl-C, models that are being converted are finished. After SIGTERM, running
    conversions get only a few seconds, because a system that sends SIGTERM (Kubernetes, Slurm,
    systemd) soon kills the process. The same holds if the terminal is closed, unless the caller
    ignores the signal, as nohup does. A second signal stops the running conversions.
    """
    import signal

    from opshift.child_limits import STOPS

    times = 0

    def asked(number: int, frame: object) -> None:
        nonlocal times
        times += 1
        if times > 2:
            raise KeyboardInterrupt
        if times == 2:
            engine.stop(0.0)
            text = "stopping now"
        elif number != signal.SIGINT:
            engine.stop(SOON)
            text = f"stopping within {SOON:g} seconds"
        else:
            engine.stop()
            text = "stopping after the running conversions; press Ctrl-C again to stop at once"
        # A signal may arrive while Python writes to the stream, or after its reader has closed it.
        with suppress(OSError):
            os.write(2, f"{text}\n".encode())

    before = {
        number: signal.signal(number, asked)
        for number in STOPS
        if number in (signal.SIGINT, signal.SIGTERM)
        or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
