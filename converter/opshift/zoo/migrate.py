# SPDX-License-Identifier: Apache-2.0
"""Runs a batch: finds the models, skips finished models, and converts the others."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from opshift import results as formats
from opshift.child_limits import fair_share
from opshift.convert import target_versions
from opshift.convert.request import (
    AnyTarget,
    ConversionOptions,
    Request,
    require_effects,
    takes_options,
)
from opshift.convert.request_values import whole
from opshift.errors import BadDestination, BadTarget
from opshift.model.bytes import file_names, leftovers, place
from opshift.model.bytes.staging import sync_folder
from opshift.model.document import Document
from opshift.opsets import schemas, targets
from opshift.opsets.wanted import Wanted
from opshift.protos import ModelProto, OperatorSetIdProto
from opshift.records import dataclass
from opshift.zoo import layout as layouts
from opshift.zoo import marks, sources
from opshift.zoo.journal import Journal, cache_of, opened
from opshift.zoo.kept import KeptCases, KeptOutcomes
from opshift.zoo.layout import Layout
from opshift.zoo.outcome import QUARANTINED, Fate, Outcome, Stamp, shortened
from opshift.zoo.page import html
from opshift.zoo.recipe import Recipe, fingerprint
from opshift.zoo.sources import HIDDEN, Shard
from opshift.zoo.stores import bulk, stores
from opshift.zoo.stores.stores import Listed, StoreError, is_url
from opshift.zoo.summary import Summary
from opshift.zoo.task import Item, migrate_one
from opshift.zoo.workers.limits import ModelLimits
from opshift.zoo.workers.supervisor import Supervisor
from opshift.zoo.workers.worker_side import Sized

if TYPE_CHECKING:
    from typing_extensions import Unpack

PLAIN_PUTS = (
    "the store of the results does not support create-only writes, so two runs of the same shard"
    " at the same time may write the same results twice"
)


class Engine(Protocol):
    """An engine runs a function on many items, and yields their outcomes in any order."""

    def run(self, fn: Callable[..., Outcome], items: Iterable[Sized]) -> Iterator[Outcome]: ...


Published: TypeAlias = Literal["copy", "inline", "one-file"]


@takes_options
def migrate(
    source: str | os.PathLike[str],
    dst: str | os.PathLike[str] | None,
    target: AnyTarget = None,
    *,
    external: Published = "copy",
    verify: bool = False,
    shard: Shard | None = None,
    retry: bool = False,
    rehash: bool = False,
    journal: str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    heard: Callable[[Summary, Outcome], None] | None = None,
    report: str | os.PathLike[str] | None = None,
    runtimes: Sequence[str] = (),
    results: Sequence[str | os.PathLike[str]] = (),
    command: str = "",
    **options: Unpack[ConversionOptions],
) -> Summary:
    """Convert every model of a zoo, each in a child process.

    Parameters
    ----------
    source : path or URL
        A folder, a pattern, or a file with a list of models.
    dst : path or URL, or None
        The folder of the results. With None, nothing is written and each conversion is only tried.
    target : int, mapping or str, optional
        An opset, versions by domain (`{"": 13, "ai.onnx.ml": 2}`), or a runtime
        (`"onnxruntime==1.10"`). Without a target only the IR version changes.
    external : {"copy", "inline", "one-file"}
        The place for weights in separate files: a copy of each file, the model file, or one new
        file for all weights.
    verify : bool, default False
        Run each model and its result, and write only results that compute the same.
    shard : Shard, optional
        The part of the models that this run converts.
    retry : bool, default False
        Try again the models that crashed or met a limit in an earlier run.
    rehash : bool, default False
        Read all models again, even if their sizes, times and file numbers have not changed.
    journal : path, optional
        The file that stores the results of all runs. It is created if it does not exist.
    engine : Engine, optional
        The engine that distributes the work. The default is child processes on this machine.
    heard : callable, optional
        A function that is called with the summary and the outcome of each finished model.
    report : path, optional
        Write a report of all models as an HTML page.
    runtimes : list of str, optional
        Count the models that these runtimes run before and after the conversion; "all" means
        every runtime.
    results : list of paths, optional
        Write the result of each model. The extension chooses the format: `.jsonl`, `.csv`, `.xml`
        (JUnit) or `.sarif`.
    command : str, optional
        The command line that the report shows.
    **options
        The options of a conversion.

    Returns
    -------
    Summary
        The number of models with each outcome, and the reasons.

    Raises
    ------
    BadTarget
        The target or the value of an option is not valid, or the results would replace their
        sources.
    BadDestination
        The journal is a file of another kind, or cannot be read or written.
    ClusterLost
        The cluster of the engine ended before its work was done.

    Examples
    --------
    >>> from opshift.zoo import migrate
    >>> migrate("zoo", "converted", 13).failures
    0
    """
    begun = time.time()
    targets.require_list("runtimes", runtimes)
    for name in runtimes:
        targets.releases_of(name)
    files = [os.fspath(path) for path in results]
    formats.require_writable(files)
    if report is not None:
        place.at(report)
    request = require_effects(Request.of(target, **options), verifies=verify)
    recipe = prepare(request, external, verify)
    recipe = replace(recipe, runtimes=tuple(runtimes))
    folder = os.fspath(dst) if dst is not None else ""
    run = ZooRun.of(os.fspath(source), folder, recipe, shard or Shard(), retry, rehash)
    summary = Summary(len(run.items), notes=run.notes)
    with KeptOutcomes() as stored:
        with run.remembering(os.fspath(journal) if journal else "") as memory:
            for outcome in run.outcomes(engine or local_engine(), memory):
                summary.add(outcome)
                if report is not None or files:
                    stored.add(outcome)
                if heard is not None:
                    heard(summary, outcome)
        run.sweep()
        if memory is not None:
            summary.notes += tuple(memory.notes)
            summary.faults += (memory.fault,) if memory.fault else ()
        if report is not None:
            times = html.RunTimes(
                command or f"zoo.migrate({source!r}, {dst!r})", begun, time.time() - begun
            )
            page = html.page(summary, stored, recipe, times)
            place.write_whole(os.fspath(report), page.encode("utf-8"))
        paths = {item.name: item.source for item in run.items}
        for path in files:
            formats.write(path, KeptCases(stored, paths), "opshift batch")
    return summary


def local_engine(workers: int | None = None, limits: ModelLimits | None = None) -> Supervisor:
    """Returns the engine with child processes on this machine, one for each usable processor."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    count = cores or 1 if workers is None else whole("workers", workers, 1)
    limits = limits or ModelLimits()
    if limits.megabytes is None:
        limits = replace(limits, megabytes=fair_share(count))
    return Supervisor(count, limits)


def prepare(request: Request, external: str, verify: bool = False) -> Recipe:
    """Returns the options of a run; raises BadTarget before any model is read."""
    by = ""
    if verify:
        from opshift.zoo import verified

        by = verified.runtime()
    target = request.target
    if isinstance(target, Wanted):
        _known(target.exact)
        return Recipe(request, external, fingerprint(), by)
    versions = dict(target) if isinstance(target, Mapping) else {"": target}
    versions = {schemas.normal(domain): to for domain, to in versions.items()}
    _known(versions)
    return Recipe(replace(request, target=versions), external, fingerprint(), by)


def _known(versions: Mapping[str, int]) -> None:
    """Raises BadTarget for versions that no model can have."""
    imports = [OperatorSetIdProto(domain=domain, version=1) for domain in versions]
    target_versions.goal_of(Document(ModelProto(opset_import=imports), ""), versions)


@dataclass(frozen=True, slots=True)
class ZooRun:
    """The models of one run, and the options of their conversion."""

    recipe: Recipe
    items: tuple[Item, ...]
    dst: str
    shard: Shard
    retry: bool = False
    rehash: bool = False
    listed: Listed = field(default_factory=Listed)
    notes: tuple[str, ...] = ()
    layout: Layout = field(default_factory=Layout)
    # by model name, the reason why a result cannot have its name
    refused: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(
        source: str,
        dst: str,
        recipe: Recipe,
        shard: Shard,
        retry: bool = False,
        rehash: bool = False,
    ) -> ZooRun:
        if dst and _place(source) == _place(dst):
            raise BadTarget(
                f"{dst}: the sources are in this folder; give another folder for the results"
            )
        if not is_url(dst) and os.path.isfile(dst):
            raise BadTarget(f"{dst}: this is a file; give a folder for the results")
        listed = Listed()
        everything = sources.find(source, dst, listed)
        models = [model for model in everything if shard.has(model[0])]
        creates = not is_url(dst) or stores.honours_create(dst)
        sizes = bulk.sizes([path for _, path in models], listed)
        here = dst.rstrip("/") if is_url(dst) else dst and os.path.abspath(dst)
        items = tuple(
            _item(name, path, here, creates, size)
            for (name, path), size in zip(models, sizes, strict=True)
        )
        notes = () if creates else (PLAIN_PUTS,)
        layout = Layout.of(everything, here) if here else Layout()
        refused = layouts.refused(everything, here)
        return ZooRun(recipe, items, dst, shard, retry, rehash, listed, notes, layout, refused)

    @contextlib.contextmanager
    def remembering(self, path: str = "") -> Iterator[Journal | None]:
        """Opens the journal of this run; yields None in a dry run."""
        if not self.dst:
            yield None
            return
        if not is_url(self.dst):
            _create(self.dst)
        number, count = self.shard.number, self.shard.count
        name = "journal.sqlite" if count == 1 else f"journal-{number}-of-{count}.sqlite"
        folder = cache_of(self.dst) if is_url(self.dst) else os.path.join(self.dst, HIDDEN)
        with opened(path or os.path.join(folder, name), default=not path) as journal:
            yield journal

    def outcomes(self, engine: Engine, journal: Journal | None) -> Iterator[Outcome]:
        """Yields an outcome for each model: stored outcomes first, then others as they finish."""
        waiting = []
        if journal and is_url(self.dst):
            self.listed.below(self.dst)
        for item in self.items:
            if item.name in self.refused:
                why = self.refused[item.name]
                yield Outcome(item.name, Fate.LOST, "BadDestination", shortened(why))
                continue
            stored = self._known(item, journal) if journal else None
            if stored is None:
                waiting.append(item)
            else:
                yield stored
        by_name, folders = {item.name: item for item in waiting}, set[str]()
        for outcome in engine.run(self._work, waiting):
            item = by_name[outcome.name]
            if journal is not None:
                journal.put(self.recipe.digest, _with_reads(outcome, item))
            folders |= _folders(item, outcome)
            yield outcome
        if not is_url(self.dst):
            for folder in folders:
                sync_folder(folder)

    @property
    def _work(self) -> Callable[..., Outcome]:
        return functools.partial(migrate_one, self.recipe, layout=self.layout)

    def _known(self, item: Item, journal: Journal) -> Outcome | None:
        """Returns the outcome of an earlier run if it is still valid, else None."""
        old = journal.get(self.recipe.digest, item.name)
        if old is None or not self._unchanged(old.reads, item.source):
            return None
        if self.recipe.runtimes and not old.runs:
            return None
        if old.fate in QUARANTINED:
            return None if self.retry else old
        if self.rehash:
            return None
        if not old.fate.failed:
            holds = self._unchanged(old.writes, item.output)
            return replace(old, fate=Fate.SKIPPED, why="up to date") if holds else None
        return old if old.fate is Fate.REFUSED else None

    def _unchanged(self, stamps: tuple[Stamp, ...], path: str) -> bool:
        try:
            return marks.unchanged(stamps, os.path.dirname(path), self.listed.size_and_version)
        except StoreError:
            return False  # the worker makes the same request, and reports the error

    def sweep(self) -> None:
        """Removes unused data files, and files of killed workers, from all folders of results.

        In an object store, no files are removed.
        """
        if self.dst and not is_url(self.dst):
            leftovers.sweep_below(self.dst, leave_out=HIDDEN)


def _create(dst: str) -> None:
    """Creates the folder of the results and that of their marks."""
    try:
        os.makedirs(os.path.join(dst, HIDDEN), exist_ok=True)
    except OSError as error:
        raise BadDestination(
            f"{dst}: no result can be written to this folder: {error.strerror}; give another"
            " folder, or change its permissions"
        ) from None


def _place(path: str) -> str:
    return path.rstrip("/") if is_url(path) else os.path.realpath(path)


def _item(name: str, path: str, here: str, creates: bool, size: int) -> Item:
    source = path if is_url(path) else os.path.abspath(path)
    if not here:
        return Item(name, source, size=size)
    folder, base = os.path.split(name)
    mark = f"{HIDDEN}/marks/{os.path.join(folder, file_names.stem(base))}.json"
    return Item(name, source, stores.join(here, name), stores.join(here, mark), creates, size)


def _folders(item: Item, outcome: Outcome) -> set[str]:
    """Returns the folders to which files were written."""
    home = os.path.dirname(item.output)
    return {os.path.dirname(os.path.join(home, name)) for name, *_ in outcome.writes}


def _with_reads(outcome: Outcome, item: Item) -> Outcome:
    """Adds size and time of the model file, which a killed worker could not report."""
    if outcome.reads:
        return outcome
    with contextlib.suppress(OSError):
        reads = ((os.path.basename(item.source), *stores.size_and_version(item.source)),)
        return replace(outcome, reads=reads)
    return outcome
