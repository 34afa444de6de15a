# SPDX-License-Identifier: Apache-2.0
"""The files of a result appear together, the model last, and replace nothing else."""

from __future__ import annotations

import functools
import operator
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from onnx import ModelProto
from opshift.errors import BadDestination
from opshift.model.bytes import file_attributes, locks, staging
from opshift.model.bytes.source import Identity, Named
from opshift.model.bytes.staging import Staging, own_data, sync_folder

NEW, OLD = b"new bytes", b"old bytes"
posix = pytest.mark.skipif(os.name != "posix", reason="modes and forks are POSIX")


class GivenUpError(Exception):
    """Raised by a test in place of a failing step."""


def fail(*_: object, **__: object) -> None:
    raise GivenUpError


def passes() -> None:
    """Does nothing, as if the sources had not changed."""


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tmp_path / "m.onnx")


def mentioning(*names: str) -> bytes:
    """Returns the bytes of a model that refers to these files."""
    return ModelProto(doc_string=" ".join(names)).SerializeToString()


def files(folder: object) -> dict[str, bytes]:
    """The files below a folder, by name."""
    found = (path for path in Path(str(folder)).rglob("*") if path.is_file())
    return {str(path.relative_to(str(folder))): path.read_bytes() for path in found}


def write(model: str, *data: bytes, old: tuple[str, ...] = (), synced: bool = True, **more) -> list:
    """Writes a model that mentions its data files; returns the names of these."""
    with Staging(model, **more) as stage:
        names = [
            os.path.relpath(stage.write_data([one], old=old), os.path.dirname(model) or ".")
            for one in data
        ]
        stage.write_model([mentioning(*names)])
        stage.commit(passes, old=old, synced=synced)
    return names


def write_with_copy(
    model: str, source: Path, place: Path, check: Callable[[], object] = passes, **more: bool
) -> None:
    """Writes a model with data of its own and a copy of a data file."""
    with Staging(model, **more) as stage:
        stage.write_data([b"data"])
        stage.place(named(source), str(place))
        stage.write_model([NEW])
        stage.commit(check)


# -- the model -----------------------------------------------------------------------------------


def test_a_result_replaces_the_model_when_it_is_complete(model):
    Path(model).write_bytes(OLD)
    with Staging(model) as stage:
        stage.write_model([NEW[:3], NEW[3:]])
        assert Path(model).read_bytes() == OLD
        stage.commit(lambda: Path(model).read_bytes() == OLD or fail())
        assert Path(model).read_bytes() == NEW
    assert files(os.path.dirname(model)) == {"m.onnx": NEW}


def test_nothing_changes_if_the_check_fails(model, tmp_path):
    Path(model).write_bytes(OLD)
    source = tmp_path / "w"
    source.write_bytes(b"weights")
    before = files(tmp_path)
    with pytest.raises(GivenUpError):
        write_with_copy(model, source, tmp_path / "sub" / "deeper" / "w", fail)
    assert files(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "w"]


def test_nothing_stays_if_the_model_cannot_be_named(model, tmp_path, monkeypatch):
    """The data files already have their final names at that moment."""
    source = tmp_path / "w"
    source.write_bytes(b"weights")
    before = files(tmp_path)
    os.mkdir(model)
    with pytest.raises(OSError, match="onnx"):
        write_with_copy(model, source, tmp_path / "sub" / "w")
    os.rmdir(model)
    assert files(tmp_path) == before
    assert os.listdir(tmp_path) == ["w"]


@posix
@pytest.mark.parametrize(
    ("there", "source", "in_place", "mode"),
    [
        (0o644, 0o600, False, 0o600), (0o640, 0o666, False, 0o640), (0o600, 0o666, False, 0o600),
        (None, 0o600, False, 0o600), (0o604, 0o666, True, 0o604),
    ],
)  # fmt: skip
def test_a_result_is_no_more_readable_than_its_sources_or_the_model_that_it_replaces(
    model, there, source, in_place, mode
):
    if there is not None:
        Path(model).touch()
        os.chmod(model, there)
    mask = os.umask(0)
    try:
        with Staging(model, in_place=in_place) as stage:
            stage.write_model([NEW], [(stat.S_IFREG | source, os.getgid())])
            stage.commit(passes)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(os.stat(model).st_mode) == mode


@posix
@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o027, 0o077])
@pytest.mark.parametrize(
    "modes", [(0o644,), (0o640,), (0o604,), (0o664,), (0o600,), (0o400,), (0o755,), (0o640, 0o604)]
)
@pytest.mark.parametrize("is_in_group", [True, False])
def test_a_new_result_may_be_read_by_the_readers_of_all_sources_whom_the_umask_admits(
    model, tmp_path, mask, modes, is_in_group
):
    group = tmp_path.stat().st_gid if is_in_group else tmp_path.stat().st_gid + 1
    before = os.umask(mask)
    try:
        with Staging(model) as stage:
            stage.write_model([NEW], [(stat.S_IFREG | mode, group) for mode in modes])
            stage.commit(passes)
    finally:
        os.umask(before)
    mode = stat.S_IMODE(os.stat(model).st_mode)
    others = functools.reduce(operator.and_, modes) & 0o007
    shared = functools.reduce(operator.and_, modes) & 0o070 if is_in_group else others << 3
    assert mode == (0o600 | shared | others) & 0o666 & ~mask


@posix
@pytest.mark.parametrize("in_place", [True, False])
def test_only_in_place_a_model_keeps_its_attributes(model, in_place, monkeypatch):
    Path(model).touch()
    given = []
    monkeypatch.setattr(file_attributes.Attributes, "give_to", lambda *words: given.append(words))
    write(model, in_place=in_place)
    assert [one[0].path for one in given] == [model] * in_place


# -- data files of its own -----------------------------------------------------------------------


def test_a_data_file_gets_the_first_free_name(model, tmp_path):
    assert write(model, NEW) == ["m.onnx.data"]
    assert write(model, OLD) == ["m.onnx.1.data"]
    with Staging(model, taken=[str(tmp_path / "m.onnx.2.data")]) as stage:
        assert stage.write_data([b"more"]) == str(tmp_path / "m.onnx.3.data")


def test_data_have_one_name_as_soon_as_the_model_is_there(model, monkeypatch):
    """onnx does not read data from a file with several names."""
    replace, links = os.replace, []

    def counted(name: str, place: str) -> None:
        links.append(os.stat(f"{model}.data").st_nlink)
        replace(name, place)

    monkeypatch.setattr(os, "replace", counted)
    write(model, NEW)
    assert links == [1]


def test_an_existing_data_file_with_equal_bytes_is_used(model, tmp_path):
    (tmp_path / "m.onnx.data").write_bytes(OLD)
    (tmp_path / "m.onnx.1.data").write_bytes(NEW)
    assert write(model, NEW) == ["m.onnx.1.data"]
    assert sorted(files(tmp_path)) == ["m.onnx", "m.onnx.1.data", "m.onnx.data"]


def test_the_data_of_the_replaced_model_come_first(model, tmp_path):
    other = tmp_path / "other.bin"
    for path in (tmp_path / "m.onnx.data", other):
        path.write_bytes(NEW)
    assert write(model, NEW, old=(str(other),)) == ["other.bin"]
    assert sorted(files(tmp_path)) == ["m.onnx", "m.onnx.data", "other.bin"]


def test_a_name_of_another_result_is_not_used_even_if_its_bytes_are_equal(model, tmp_path):
    (tmp_path / "m.onnx.data").write_bytes(NEW)
    assert write(model, NEW, taken=[str(tmp_path / "m.onnx.data")]) == ["m.onnx.1.data"]


@pytest.mark.parametrize(
    "made",
    [
        lambda path: path.write_bytes(NEW[::-1]),
        lambda path: path.write_bytes(NEW + b"+"),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to(path.with_name("elsewhere")),
        lambda path: os.link(path.with_name("elsewhere"), path),
    ],
    ids=["other bytes", "more bytes", "a folder", "a symbolic link", "a second name"],
)
def test_a_file_that_another_model_may_change_does_not_serve(model, tmp_path, made):
    (tmp_path / "elsewhere").write_bytes(NEW)
    made(tmp_path / "m.onnx.data")
    assert write(model, NEW) == ["m.onnx.1.data"]


def test_equal_bytes_are_no_matter_of_equal_times(model, tmp_path, monkeypatch):
    """Times may be equal: some file systems store only even seconds."""
    (tmp_path / "m.onnx.data").write_bytes(OLD)
    sync = os.fsync

    def at_one_time(fd: int) -> None:
        sync(fd)
        for path in tmp_path.iterdir():
            os.utime(path, (1e9, 1e9))

    monkeypatch.setattr(os, "fsync", at_one_time)
    assert write(model, OLD) == ["m.onnx.data"]
    assert write(model, NEW) == ["m.onnx.1.data"]
    assert write(model, NEW * 2**18) == ["m.onnx.2.data"]
    assert write(model, NEW * (2**18 - 1) + OLD) == ["m.onnx.3.data"]
    with pytest.raises(BadDestination, match="differs"):
        write_with_copy(model, tmp_path / "m.onnx.data", tmp_path / "m.onnx.1.data")


def test_data_of_the_replaced_model_go_unless_the_result_or_another_model_mentions_them(
    model, tmp_path
):
    for name in ("kept.bin", "shared.bin", "gone.bin"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "other.onnx").write_bytes(mentioning("shared.bin"))
    old = tuple(str(tmp_path / name) for name in ("gone.bin", "kept.bin", "shared.bin"))
    assert write(model, b"kept.bin", old=old) == ["kept.bin"]
    assert sorted(files(tmp_path)) == ["kept.bin", "m.onnx", "other.onnx", "shared.bin"]


def test_used_data_are_not_listed_for_removal(model, tmp_path, monkeypatch):
    (tmp_path / "m.onnx.data").write_bytes(NEW)
    noted = []
    monkeypatch.setattr(staging.Claim, "note", lambda claim, data: noted.extend(data))
    write(model, NEW, old=(str(tmp_path / "m.onnx.data"),))
    assert noted == []


def test_a_data_file_that_appears_meanwhile_is_not_replaced(model, tmp_path, monkeypatch):
    """A file with equal bytes stays; otherwise the run fails, even at the last moment."""
    source = tmp_path / "w"
    source.write_bytes(NEW)
    for bytes_of_other, is_equal in ((NEW, True), (OLD, False)):
        with Staging(model) as stage:
            path = stage.write_data([NEW])
            stage.write_model([mentioning("m.onnx.data")])
            Path(path).write_bytes(bytes_of_other)
            if is_equal:
                stage.commit(passes)
            else:
                with pytest.raises(BadDestination, match="differs"):
                    stage.commit(passes)
        assert Path(path).read_bytes() == bytes_of_other
        os.unlink(path)
    monkeypatch.setattr(os.path, "lexists", lambda path: False)

    def named_by_another_program() -> None:
        (tmp_path / "m.onnx.data").write_bytes(OLD)

    with pytest.raises(FileExistsError):
        write_with_copy(model, source, tmp_path / "copy", named_by_another_program)
    assert (tmp_path / "m.onnx.data").read_bytes() == OLD


@pytest.mark.parametrize("way", ["no links", "links fail"])
def test_a_file_system_without_links_is_enough(model, tmp_path, monkeypatch, way):
    def refused(*_: object) -> None:
        raise PermissionError

    if way == "no links":
        monkeypatch.delattr(os, "link")
    else:
        monkeypatch.setattr(os, "link", refused)
    assert write(model, NEW) == ["m.onnx.data"]
    assert files(tmp_path) == {"m.onnx.data": NEW, "m.onnx": mentioning("m.onnx.data")}


def test_the_data_of_a_model_are_those_that_it_mentions_by_its_name(tmp_path):
    model = tmp_path / "m.onnx"
    names = [
        "m.onnx.data",
        "m.onnx.1.data",
        "m.onnx.20.data",
        "m.onnx.3.data",
        "x.data",
        "m.onnx.4.data",
        "m.onnx.x.data",
    ]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "m.onnx.5.data").mkdir()
    assert own_data(str(model)) == []
    mentioned = [name for name in names if name != "m.onnx.4.data"]
    model.write_bytes(mentioning(*mentioned, "m.onnx.5.data", "m.onnx.6.data"))
    found = own_data(str(model))
    assert [os.path.basename(path) for path in found] == [
        "m.onnx.data",
        "m.onnx.1.data",
        "m.onnx.3.data",
        "m.onnx.20.data",
    ]
    assert {os.path.dirname(path) for path in found} == {str(tmp_path)}
    text = tmp_path / "é.onnx"
    (tmp_path / "é.onnx.data").write_bytes(b"")
    text.write_bytes(mentioning('"\\xe9.onnx.data"'))
    assert own_data(str(text)) == [str(tmp_path / "é.onnx.data")]


# -- copies of data files ------------------------------------------------------------------------


def named(path: Path) -> Named:
    return Named(str(path), Identity.of(os.stat(path)))


def test_a_copy_goes_into_new_folders_and_is_no_more_readable_than_its_source(
    tmp_path, monkeypatch
):
    source = tmp_path / "w"
    source.write_bytes(NEW)
    source.chmod(0o600)
    (tmp_path / "out").mkdir()
    for model, place in (
        (str(tmp_path / "out" / "m.onnx"), str(tmp_path / "out" / "a" / "b" / "w")),
        ("n.onnx", os.path.join("c", "d", "w")),
    ):
        monkeypatch.chdir(tmp_path / "out")
        with Staging(model) as stage:
            stage.place(named(source), place)
            stage.write_model([mentioning("w")])
            stage.commit(passes)
        assert Path(place).read_bytes() == NEW
        assert os.name == "nt" or stat.S_IMODE(os.stat(place).st_mode) == 0o600
    assert sorted(files(tmp_path / "out")) == ["a/b/w", "c/d/w", "m.onnx", "n.onnx"]


@pytest.mark.parametrize("made", [lambda p: p.write_bytes(OLD), lambda p: p.mkdir()])
def test_a_copy_replaces_no_other_file(model, tmp_path, made):
    source, there = tmp_path / "w", tmp_path / "there"
    source.write_bytes(NEW)
    made(there)
    with pytest.raises(BadDestination, match="differs"), Staging(model) as stage:
        stage.place(named(source), str(there))


@pytest.mark.parametrize("is_same_file", [True, False])
@pytest.mark.parametrize("sweeps", [True, False])
def test_an_existing_copy_stays_and_leftovers_beside_it_go(
    model, tmp_path, monkeypatch, is_same_file, sweeps
):
    source = tmp_path / "w"
    source.write_bytes(NEW)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w").write_bytes(NEW)
    tidied: list[str] = []
    monkeypatch.setattr(staging, "tidy", tidied.append)
    with Staging(model, sweeps=sweeps) as stage:
        stage.place(named(source), str(source if is_same_file else tmp_path / "sub" / "w"))
        stage.write_model([mentioning("w")])
        stage.commit(passes)
    expected = [str(tmp_path / "sub" / "m.onnx")]
    assert tidied == (expected if sweeps and not is_same_file else [])
    assert sorted(files(tmp_path)) == ["m.onnx", "sub/w", "w"]


@pytest.mark.parametrize("sweeps", [True, False])
def test_a_copy_of_a_result_that_fails_stays_if_other_results_may_read_it(
    model, tmp_path, monkeypatch, sweeps
):
    source = tmp_path / "w"
    source.write_bytes(NEW)
    os.mkdir(model)
    with pytest.raises(OSError, match="onnx"):
        write_with_copy(model, source, tmp_path / "copy", sweeps=sweeps)
    assert (tmp_path / "copy").exists() == (not sweeps)


def test_no_data_are_removed_in_a_relative_folder_that_is_not_the_models(tmp_path, monkeypatch):
    """A name without a folder refers to the working folder."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("m.onnx")
    Path("w").write_bytes(NEW)
    with pytest.raises(OSError, match="onnx"):
        write_with_copy("m.onnx", Path("w"), Path("copy"))
    os.rmdir("m.onnx")
    assert os.listdir() == ["w"]


# -- locks and disks -----------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "WAIT", 0.0)


def may_remove(folder: Path) -> bool:
    """Whether a run could remove data files in a folder now."""
    with locks.folder_lock(str(folder), 0.0) as free:
        return free


@posix
@pytest.mark.usefixtures("impatient")
def test_no_run_removes_data_that_a_result_uses_until_the_model_is_there(model, tmp_path):
    (tmp_path / "m.onnx.data").write_bytes(NEW)
    with Staging(model) as stage, Staging(str(tmp_path / "n.onnx")) as other:
        assert may_remove(tmp_path)
        stage.write_data([OLD])
        assert may_remove(tmp_path), "nothing that exists is used"
        stage.write_data([NEW])
        assert not may_remove(tmp_path)
        other.use_data()
    assert may_remove(tmp_path)
    with Staging(model) as stage:
        stage.place(named(tmp_path / "m.onnx.data"), str(tmp_path / "copy"))
        assert not may_remove(tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(locks, "folder_lock", fail)
            stage.use_data()  # the lock is there already


@posix
@pytest.mark.usefixtures("impatient")
def test_data_are_not_used_while_another_run_removes_some(model, tmp_path):
    with locks.folder_lock(str(tmp_path), 0.0) as free:
        assert free
        with pytest.raises(BadDestination, match="is removing data files"), Staging(model) as stage:
            stage.use_data()


@pytest.mark.usefixtures("impatient")
def test_data_that_go_before_the_lock_is_there_are_written(model, tmp_path, monkeypatch):
    (tmp_path / "m.onnx.data").write_bytes(NEW)

    def removed(self: Staging) -> None:
        (tmp_path / "m.onnx.data").write_bytes(OLD)

    monkeypatch.setattr(Staging, "use_data", removed)
    assert write(model, NEW) == ["m.onnx.1.data"]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, bool]]]:
    """Records which folders were flushed to disk, and whether the model existed then."""
    found: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        staging, "sync_folder", lambda at: found.append((at, os.path.exists("m.onnx")))
    )
    return found


@pytest.mark.parametrize(
    ("data", "old", "asked", "expected"),
    [
        ((), (), True, [(".", True)]),
        ((), (), False, []),
        ((NEW,), (), True, [(".", False), (".", True)]),
        ((NEW,), (), False, [(".", False)]),
        ((), ("old",), False, [(".", True)]),
        ((NEW,), ("old",), False, [(".", False), (".", True)]),
    ],
)
def test_names_are_on_the_disk_before_something_depends_on_them(
    tmp_path, monkeypatch, synced, data, old, asked, expected
):
    monkeypatch.chdir(tmp_path)
    for name in old:
        Path(name).write_bytes(OLD)
    write("m.onnx", *data, old=old, synced=asked)
    assert synced == expected


def test_a_folder_that_cannot_be_synced_is_no_error(tmp_path):
    sync_folder(str(tmp_path / "missing"))


@posix
@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_next_run_removes_the_data_that_a_killed_run_left(model, tmp_path, moment):
    """A killed run has named its data before the model, and would have removed old data last."""
    (tmp_path / "old.bin").write_bytes(OLD)
    Path(model).write_bytes(mentioning("old.bin"))
    child = os.fork()
    if not child:
        killed(moment, lambda: write(model, NEW, old=(str(tmp_path / "old.bin"),)))
    os.waitpid(child, 0)
    assert set(files(tmp_path)) > {"m.onnx", "m.onnx.data", "old.bin"}
    Path(model).write_bytes(mentioning())
    write(model)
    assert set(files(tmp_path)) == {"m.onnx"}


@posix
def test_the_next_run_removes_old_data_of_a_run_that_wrote_none(model, tmp_path):
    (tmp_path / "old.bin").write_bytes(OLD)
    child = os.fork()
    if not child:
        killed("after", lambda: write(model, old=(str(tmp_path / "old.bin"),)))
    os.waitpid(child, 0)
    assert "old.bin" in files(tmp_path)
    write(model)
    assert set(files(tmp_path)) == {"m.onnx"}


def killed(moment: str, act: Callable[[], object]) -> None:
    """Ends this process before or after the model gets its name."""
    replace = os.replace

    def hit(name: str, place: str) -> None:
        if moment == "after":
            replace(name, place)
        os._exit(0)

    os.replace = hit
    act()
