# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of a run: a redrawn display on a terminal, plain lines in a pipe."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from opshift.text import cut, printable
from opshift.zoo.outcome import Fate, Outcome
from opshift.zoo.summary import Summary
from opshift.zoo.workers.worker import Worker

Heard = Callable[[Summary, Outcome], None]
EVERY = 5.0  # seconds between plain lines
REDRAW = 0.25  # seconds between two redraws of the display
BAR = 60  # the width of the progress bar in columns


@contextmanager
def silent() -> Iterator[Heard]:
    yield lambda summary, outcome: None


@contextmanager
def plain() -> Iterator[Heard]:
    """Prints a line to stderr for each failure, and a summary every few seconds."""
    begun = printed = time.monotonic()

    def heard(summary: Summary, outcome: Outcome) -> None:
        nonlocal printed
        now = time.monotonic()
        if outcome.fate.failed:
            text = f"{outcome.fate.value} {printable(outcome.name)}: {printable(outcome.detail)}"
            click.echo(text, err=True)
        if now - printed > EVERY or not summary.left:
            printed = now
            click.echo(line(summary, now - begun), err=True)

    yield heard


@contextmanager
def live(crew: Sequence[Worker]) -> Iterator[Heard]:
    """Shows the counts and the model of each worker; a thread redraws the display."""
    begun = time.monotonic()
    summary = Summary()
    ended = threading.Event()

    def heard(now: Summary, outcome: Outcome) -> None:
        nonlocal summary
        summary = now

    def redraw() -> None:
        drawn = 0
        while not ended.wait(REDRAW):
            drawn = _draw(list(_display(summary, crew, time.monotonic() - begun)), drawn)
        _draw([], drawn)

    thread = threading.Thread(target=redraw, name="progress", daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        ended.set()
        thread.join()


def _draw(lines: Sequence[str], drawn: int) -> int:
    """Overwrites the previous lines of the display; returns the number of new lines."""
    size = shutil.get_terminal_size()
    fits = [cut(text, size.columns - 1) for text in lines[: size.lines - 1]]
    up = f"\x1b[{drawn}F" if drawn else ""
    click.echo("".join([f"{up}\x1b[J", *(f"{text}\n" for text in fits)]), nl=False, err=True)
    return len(fits)


def line(summary: Summary, seconds: float) -> str:
    """Returns one line with the counts, the speed and the remaining time."""
    refused, skipped = summary.fates[Fate.REFUSED], summary.fates[Fate.SKIPPED]
    rate = (summary.done - skipped) / max(seconds, 1e-9)  # skipped models take no time
    remaining = summary.left / rate if rate else 0.0
    return (
        f"{summary.done}/{summary.total} done, {skipped} up to date, {refused} refused,"
        f" {summary.failures - refused} failed, {rate:.1f} models/s,"
        f" {summary.worked / max(seconds, 1e-9) / 1e6:.1f} MB/s, {_span(remaining)} left"
    )


def _span(seconds: float) -> str:
    hours, seconds_left = divmod(round(seconds), 3600)
    return (
        f"{hours}:{seconds_left // 60:02}:{seconds_left % 60:02}"
        if hours
        else f"{seconds_left // 60}:{seconds_left % 60:02}"
    )


def _display(summary: Summary, crew: Sequence[Worker], seconds: float) -> Iterator[str]:
    """Yields a bar, the counts, and the seconds that each worker has spent on its model."""
    filled = BAR * summary.done // max(summary.total, 1)
    yield f"[{'#' * filled}{'.' * (BAR - filled)}]"
    yield line(summary, seconds)
    for worker in list(crew):
        if job := worker.job:
            busy = time.monotonic() - worker.since
            yield f"  {busy:5.1f} s  {printable(job.item.name)}"
