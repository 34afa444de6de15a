# SPDX-License-Identifier: Apache-2.0
"""What a person sees during a run: a live display on a terminal, plain lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from opshift.text import printable
from opshift.zoo.outcome import Fate, Outcome
from opshift.zoo.summary import Summary
from opshift.zoo.workers.worker import Worker

if TYPE_CHECKING:
    from rich.table import Table

Heard = Callable[[Summary, Outcome], None]
EVERY = 5.0  # seconds between plain lines


@contextmanager
def silent() -> Iterator[Heard]:
    yield lambda summary, outcome: None


@contextmanager
def plain() -> Iterator[Heard]:
    """A line on stderr for each failure, and now and then one about the whole."""
    begun = said = time.monotonic()

    def heard(summary: Summary, outcome: Outcome) -> None:
        nonlocal said
        now = time.monotonic()
        if outcome.fate.failed:
            text = f"{outcome.fate.value} {printable(outcome.name)}: {printable(outcome.detail)}"
            click.echo(text, err=True)
        if now - said > EVERY or not summary.left:
            said = now
            click.echo(line(summary, now - begun), err=True)

    yield heard


@contextmanager
def live(crew: Sequence[Worker]) -> Iterator[Heard]:
    """A display of the counts and of each worker's model, which is redrawn."""
    from rich.live import Live

    begun = time.monotonic()
    summary = Summary()

    def heard(now: Summary, outcome: Outcome) -> None:
        nonlocal summary
        summary = now

    def draw() -> Table:
        return _table(summary, crew, time.monotonic() - begun)

    from rich.console import Console

    with Live(console=Console(stderr=True), get_renderable=draw, transient=True):
        yield heard


def line(summary: Summary, seconds: float) -> str:
    """One line with the counts, the speed and the time left."""
    refused, skipped = summary.fates[Fate.REFUSED], summary.fates[Fate.SKIPPED]
    rate = (summary.done - skipped) / max(seconds, 1e-9)  # what is up to date says nothing of speed
    left = summary.left / rate if rate else 0.0
    return (
        f"{summary.done}/{summary.total} done, {skipped} up to date, {refused} refused,"
        f" {summary.failures - refused} failed, {rate:.1f} models/s,"
        f" {summary.worked / max(seconds, 1e-9) / 1e6:.1f} MB/s, {_span(left)} left"
    )


def _span(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _table(summary: Summary, crew: Sequence[Worker], seconds: float) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid()
    table.add_row(ProgressBar(total=max(summary.total, 1), completed=summary.done, width=60))
    table.add_row(Text(line(summary, seconds)))
    for worker in list(crew):
        if job := worker.job:
            busy = time.monotonic() - worker.since
            table.add_row(Text(f"  {busy:5.1f} s  {printable(job.item.name)}", no_wrap=True))
    return table
