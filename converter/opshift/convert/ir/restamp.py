# SPDX-License-Identifier: Apache-2.0
"""Changes only the IR version: rewrites the header of a file and copies the other bytes.

This module does not import onnx and does not parse nodes. All other files and requests need a
conversion of the whole model.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from opshift.convert.ir import ir_plan, needs
from opshift.convert.ir.features import FUNCTIONS, TYPES
from opshift.convert.request import Request
from opshift.model.bytes import header_imports, place, wire
from opshift.model.bytes.claim import tidy
from opshift.model.bytes.place import File, Place, Stream
from opshift.model.bytes.ranges import Moved, Region
from opshift.model.bytes.source import BINARY, Identity, Opened, changed, is_text
from opshift.model.bytes.staging import Staging
from opshift.records import dataclass
from opshift.report import Report
from opshift.versions import NEWEST_IR

_IR, _GRAPH = 1, 7  # field numbers of ModelProto
_PLAIN = {_IR, 5}  # the fields that are numbers


@dataclass(frozen=True, slots=True)
class Restamp:
    """A file, the position of its IR version, and the report on the change."""

    file: Opened
    field: tuple[int, int]
    report: Report

    def write(self, dst: Place, *, in_place: bool = False) -> list[str]:
        """Writes the complete file with the other IR version; returns the paths that it wrote."""
        goal = place.at(dst)
        if in_place and (not self.report.changed or self._overwrite()):
            tidy(goal.name)
            return [goal.name] if self.report.changed else []
        start, end = self.field
        size = len(self.file.view)
        pieces: list[bytes | memoryview | Moved] = [
            Region(self.file, 0, start), self._written, Region(self.file, end, size - end)
        ]  # fmt: skip
        if not isinstance(goal, File):
            goal.write(pieces)
            self.file.check_unchanged()
            return [goal.name]
        with Staging(goal.path, in_place=in_place) as staging:
            if not in_place:
                own_files = (place.the_source(), self.file.seen)
                place.require_free(goal.name, [own_files])
            staging.use_data()
            staging.write_model(pieces, [self.file.readers])
            staging.commit(self.file.check_unchanged)
        return [goal.name]

    @property
    def _written(self) -> bytes:
        return wire.varint(_IR << 3) + wire.varint(self.report.ir_after)

    def _overwrite(self) -> bool:
        """Overwrites the IR version in place; it is one byte, so readers never see half of it.

        A file with hard links is not overwritten, because its other names would change too.
        """
        start, end = self.field
        mode, old = os.lstat(self.file.path), self.file.view[start:end]
        if len(self._written) != len(old) or mode.st_nlink > 1 or not stat.S_ISREG(mode.st_mode):
            return False
        try:
            fd = os.open(self.file.path, os.O_WRONLY | BINARY)
        except OSError:
            return False
        try:
            if Identity.of(os.fstat(fd)) != self.file.seen:  # the path may lead to a new file
                raise changed(self.file.path)
            _write_at(fd, end - 1, self._written[-1:])
            os.fsync(fd)
        except OSError:
            with suppress(OSError):
                _write_at(fd, end - 1, old[-1:])
            raise
        finally:
            with suppress(OSError):  # the byte was written, or the old byte was restored
                os.close(fd)
        return True


def _write_at(fd: int, offset: int, byte: bytes) -> None:
    os.lseek(fd, offset, os.SEEK_SET)
    os.write(fd, byte)


def header_change(
    src: str | os.PathLike[str] | Opened, options: Request, dst: Place, external: str
) -> Restamp | None:
    """Returns the change of a file's header, or None if the whole model must be converted."""
    labels = options.bump_model_version or options.stamp
    if not options.only_ir or labels or external == "one-file":
        return None
    file = src if isinstance(src, Opened) else Opened(os.fspath(src))
    goal = place.at(dst)
    if is_text(file.path) or is_text(goal.name) or _replaces(file, goal.name):
        return None
    to = int(options.ir_version)
    try:
        header = _header(file.view, to)
    except (wire.Malformed, IndexError):
        return None  # the whole conversion reports the fault
    if header is None or len(file.view) > wire.LIMIT:
        return None
    field, before, imports = header
    moves = external == "inline" or file.piped or isinstance(goal, Stream)
    moves = moves or not _same_folder(file.path, goal.name)
    notes: list[str] | None = []
    if to < before or moves or options.drops:
        notes = _notes(file, options, before, moves)
    if notes is None or not ir_plan.in_table(down=to < before):
        return None
    return Restamp(file, field, Report(imports, imports, before, to, notes=tuple(notes)))


def _header(data: wire.Buffer, to: int) -> tuple[tuple[int, int], int, dict[str, int]] | None:
    """Returns the byte position of the IR version, the IR version and the imports, or None.

    The result is None for an unusual file.
    """
    versions: list[tuple[int, int, int]] = []
    imports: list[tuple[str, int]] = []
    graphs = 0
    holds_functions = False
    for start, tag, body, end, value in wire.fields(data, 0, len(data)):
        number = tag >> 3
        if number <= 26 and tag & 7 != (0 if number in _PLAIN else 2):
            return None
        if number == _IR:
            versions.append((start, end, value))
        elif number == header_imports.IMPORT:
            imports.append(header_imports.imported(data, body, end))
        is_function = number == header_imports.FUNCTION
        if is_function and _twice(header_imports.of_function(data, body, end)):
            return None
        graphs += number == _GRAPH
        holds_functions |= is_function
    if len(versions) != 1 or graphs != 1 or not imports or _twice(imports):
        return None
    start, end, before = versions[0]
    if holds_functions and before < FUNCTIONS.ir <= to:
        return None  # functions had no meaning in the old IR version
    return ((start, end), before, dict(imports)) if 3 <= before <= NEWEST_IR else None


def _twice(imports: list[tuple[str, int]]) -> bool:
    return len({domain for domain, _ in imports}) < len(imports)


def _replaces(file: Opened, dst: str) -> bool:
    """Returns whether the result overwrites another model file, which may have own data files."""
    return os.path.isfile(dst) and not os.path.samestat(os.stat(dst), os.fstat(file.fd))


def _same_folder(src: str, dst: str) -> bool:
    folders = [os.path.dirname(path) or os.curdir for path in (src, dst)]
    return os.path.isdir(folders[1]) and os.path.samefile(*folders)


def _notes(file: Opened, options: Request, before: int, moves: bool) -> list[str] | None:
    """Returns the notes on the content, or None if the whole model must be converted."""
    from google.protobuf.message import DecodeError

    from opshift.model.bytes.outline import Content, skeleton

    try:
        content = Content(skeleton(file.view))
    except (wire.Malformed, DecodeError):
        return None
    if moves and content.external:
        return None
    to = int(options.ir_version)
    bare = content.bare_initializers
    features = needs.of_content(content, content.types(), bare=bare, above=to)
    if any(feature.drop in options.drops for feature in features if feature.drop):
        return None
    if to >= before:
        return []
    if any(feature.computes or options.strict_ir for feature in features):
        return None
    if to < TYPES["optional"] and _bring_containers(content.operators()):
        return None
    return needs.note_skipped(features, to)


def _bring_containers(names: set[str]) -> bool:
    """Returns whether one of these operators has an input or output that is never a tensor."""
    from opshift.opsets import changelog

    database = changelog.default()
    return any(
        not any(kind.startswith("tensor(") for kind in listed.partition(": ")[2].split())
        for domain in database.domains
        for name in names & set(database.operators(domain))
        for entry in database.history(domain, name)
        for listed in entry.types
    )
