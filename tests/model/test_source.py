# SPDX-License-Identifier: Apache-2.0
"""Results never overwrite a file that a source needs, for all names and links."""

from __future__ import annotations

import contextlib
import os
import random
import stat
import subprocess
import sys
import threading
from pathlib import Path

import onnx
import pytest
import warm_python
from click.testing import CliRunner
from onnx import serialization
from opshift import InvalidModel, OpshiftError, convert_file
from opshift.cli.entry import main
from opshift.errors import BadDestination
from opshift.model.bytes import source as sources
from opshift.model.bytes.source import Opened
from opshift.opsets import schemas
from pairs import SIZE, contents, load, model, save, weight

POSIX = pytest.mark.skipif(os.name != "posix", reason="fifos, modes and owners of POSIX")
FORMS = serialization.registry._extension_to_format
POLICIES = ("keep", "copy", "inline", "one-file")


def run(*words: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [warm_python.python(), "-m", "opshift", *map(str, words)]
    return subprocess.run(command, capture_output=True, env=env, timeout=120, check=False, **options)  # fmt: skip


# --- the law --------------------------------------------------------------------------------------

LOCATIONS = ("", "w.bin", "m.onnx.data", "o.onnx.data", os.path.join("sub", "w.bin"))


@pytest.mark.parametrize("seed", range(80))
def test_every_file_that_a_source_needs_stays_as_it_is(seed, tmp_path):
    chance = random.Random(seed)
    home = tmp_path / "home"
    location = chance.choice(LOCATIONS)
    source = save(home / "m.onnx", location, chance.choice((0, 64)))
    save(home / "other.onnx", "other.onnx.data", seed=2)
    (tmp_path / "away").mkdir()
    (home / "link.onnx").symlink_to("m.onnx")
    (tmp_path / "away" / "link.onnx").symlink_to(home / "m.onnx")
    if location:
        (home / "datalink").symlink_to(location)
    names = ["m.onnx", "link.onnx", "o.onnx", "m.onnx.data", "w.bin", "datalink",
             os.path.join("..", "away", "o.onnx"), os.path.join("..", "away", "link.onnx"),
             os.path.join("..", "home", "m.onnx"), os.path.join("sub", "w.bin")]  # fmt: skip
    (home / "sub").mkdir(exist_ok=True)
    before = contents(tmp_path)
    needed = {os.path.join("home", name) for name in ("m.onnx", location) if name}
    for _ in range(4):
        target = home / chance.choice(names)
        given = chance.choice((source, home / "link.onnx"))
        how = {"external": chance.choice(POLICIES), "target": chance.choice((13, 12, None))}
        if how["target"] is None:
            how["ir_version"] = 8
        try:
            convert_file(given, target, **how)
        except (OpshiftError, OSError) as error:
            assert "\n" not in str(error)
        else:
            assert load(target) == (how["target"] or 12, weight())
        after = contents(tmp_path)
        assert {name: after.get(name) for name in needed} == {n: before[n] for n in needed}
        assert after["home/other.onnx.data"] == before["home/other.onnx.data"]
        assert not [name for name in after if ".opshift-" in name]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("location", LOCATIONS)
def test_in_place_the_weights_are_what_they_were(location, policy, tmp_path):
    source = save(tmp_path / "m.onnx", location, 64)
    for target in (13, 21):
        convert_file(source, source, target, external=policy, in_place=True)
        assert load(source) == (target, weight())
    left = set(contents(tmp_path)) - {"m.onnx", location}
    assert len(left) <= 1
    assert all(name.startswith("m.onnx.") for name in left)
    if policy in ("inline", "one-file") and location == "m.onnx.data":
        assert location not in contents(tmp_path)  # nobody reads it any more


def test_data_that_another_model_reads_is_not_removed(tmp_path):
    source = save(tmp_path / "m.onnx", "m.onnx.data", 64)
    twin = tmp_path / "twin.onnx"
    twin.write_bytes(source.read_bytes())
    convert_file(source, source, 13, external="one-file", in_place=True)
    assert load(source) == (13, weight())
    assert load(twin) == (12, weight())


def test_the_same_result_again_keeps_its_names(tmp_path):
    source = save(tmp_path / "m.onnx", "w.bin")
    out = tmp_path / "o.onnx"
    convert_file(source, out, 13, external="one-file")
    before = contents(tmp_path)
    convert_file(source, out, 13, external="one-file")
    assert contents(tmp_path) == before
    assert (tmp_path / "o.onnx.data").exists()


def test_a_data_file_that_is_in_use_is_not_written_to(tmp_path):
    source = save(tmp_path / "m.onnx", "w.bin")
    (tmp_path / "o.onnx.data").write_bytes(b"of somebody")
    convert_file(source, tmp_path / "o.onnx", 13, external="one-file")
    assert (tmp_path / "o.onnx.data").read_bytes() == b"of somebody"
    assert load(tmp_path / "o.onnx") == (13, weight())
    convert_file(source, tmp_path / "o.onnx", 21, external="inline")
    assert sorted(contents(tmp_path)) == ["m.onnx", "o.onnx", "o.onnx.data", "w.bin"]


def test_a_model_that_is_its_own_data_file(tmp_path):
    data = model("m.onnx").SerializeToString()
    for _ in range(2):  # the offset may have another number of digits
        data = model("m.onnx", len(data) + 6).SerializeToString()
    made = model("m.onnx", len(data) + 6).SerializeToString() + b"\xa2\x06\x00" * 2
    offset = len(made) + 4
    made = model("m.onnx", offset).SerializeToString()
    path = tmp_path / "m.onnx"
    # An unknown field holds the data: to a reader of the model it is not there.
    tail = weight()
    path.write_bytes(made + b"\xa2\x06" + bytes([len(tail) & 0x7F | 0x80, len(tail) >> 7]) + tail)
    offset = path.stat().st_size - len(tail)
    path.write_bytes(model("m.onnx", offset).SerializeToString() + path.read_bytes()[len(made) :])
    if load(path) != (12, weight()):
        pytest.skip("the offset moved by a digit")
    before = path.read_bytes()
    with pytest.raises(BadDestination, match="data file of tensor 'w'"):
        convert_file(path, path, 13, in_place=True)
    assert path.read_bytes() == before
    convert_file(path, path, 13, external="inline", in_place=True)
    assert load(path) == (13, weight())


@pytest.mark.parametrize("name", ["m.onnx", "./m.onnx", "link.onnx", "w.bin"])
def test_the_command_says_why_in_one_sentence(name, tmp_path):
    save(tmp_path / "m.onnx", "w.bin")
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    before = contents(tmp_path)
    for words in (("--to", 13), ("--ir", 8), ("--to", 12)):
        done = run("convert", "m.onnx", "-o", name, *words, cwd=tmp_path)
        assert done.returncode == 2
        assert b"source" in done.stderr.splitlines()[0]
    assert contents(tmp_path) == before


def test_in_place_is_the_source_and_nothing_else(tmp_path):
    source = save(tmp_path / "m.onnx")
    other = save(tmp_path / "o.onnx", seed=2)
    with pytest.raises(BadDestination, match="in_place=True replaces the source"):
        convert_file(source, other, 13, in_place=True)


def test_a_folder_is_no_place_for_a_result(tmp_path):
    source = save(tmp_path / "m.onnx")
    with pytest.raises(BadDestination, match="this is a folder"):
        convert_file(source, tmp_path, 13)


# --- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [{"target": 13}, {"ir_version": 8}])
def test_a_link_stays_a_link(words, tmp_path):
    (tmp_path / "real").mkdir()
    real = save(tmp_path / "real" / "m.onnx")
    link = tmp_path / "link.onnx"
    link.symlink_to(real)
    convert_file(link, link, **words, in_place=True)
    assert link.is_symlink()
    assert onnx.load(real).ir_version == onnx.load(link).ir_version
    assert load(real) == (words.get("target", 12), weight())


def test_a_data_file_cannot_be_beside_a_link_and_its_target(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.onnx"
    link.symlink_to(save(tmp_path / "real" / "m.onnx"))
    before = contents(tmp_path)
    with pytest.raises(BadDestination, match="name the file itself"):
        convert_file(link, link, 13, external="one-file", in_place=True)
    assert contents(tmp_path) == before


def test_a_link_to_nothing_becomes_a_link_to_the_result(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "o.onnx"
    link.symlink_to(Path("there", "o.onnx"))
    convert_file(save(tmp_path / "m.onnx"), link, 13)
    assert link.is_symlink()
    assert load(tmp_path / "there" / "o.onnx") == (13, weight())


# --- pipes and devices ----------------------------------------------------------------------------


def test_standard_input_and_output(tmp_path):
    source = save(tmp_path / "m.onnx")
    convert_file(source, tmp_path / "o.onnx", 13)
    for words in (("--to", 13), ("--to", 13, "--verify")):
        done = run("convert", "-", "-o", "-", *words, input=source.read_bytes())
        assert done.returncode == 0, done.stderr
        assert done.stdout == (tmp_path / "o.onnx").read_bytes()
        assert b"opset 12 -> 13" in done.stderr
    done = run("convert", "-", "-o", "-", "--ir", 8, input=source.read_bytes())
    assert onnx.load_from_string(done.stdout).ir_version == 8
    assert run("convert", "-", "--in-place", "--to", 13, input=b"").returncode == 2


def test_a_file_called_dash_has_a_folder(tmp_path):
    save(tmp_path / "-")
    assert run("convert", "./-", "-o", "./-o", "--to", 13, cwd=tmp_path).returncode == 0
    assert load(tmp_path / "-o") == (13, weight())


@POSIX
@pytest.mark.parametrize("words", [{"target": 13}, {"ir_version": 8}])
def test_a_fifo_is_written_to_and_read_from(words, tmp_path):
    source, plain = save(tmp_path / "m.onnx"), tmp_path / "plain.onnx"
    fifo, got = tmp_path / "fifo", []
    os.mkfifo(fifo)
    convert_file(source, plain, **words)
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    convert_file(source, fifo, **words)
    reader.join()
    assert got == [plain.read_bytes()]
    writer = threading.Thread(target=lambda: fifo.write_bytes(source.read_bytes()))
    writer.start()
    convert_file(fifo, tmp_path / "o.onnx", **words)
    writer.join()
    assert (tmp_path / "o.onnx").read_bytes() == plain.read_bytes()
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    with pytest.raises(BadDestination, match="not a regular file"):
        convert_file(fifo, fifo, **words, in_place=True)


@POSIX
@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
@pytest.mark.parametrize(
    "words",
    [
        ("check",), ("plan", "--to", 13), ("plan", "--to", 9), ("lowest",), ("info",),
        ("accepts", "--for", "onnxruntime==1.10"), ("targets", "onnxruntime==1.10"),
        ("diff", "m.onnx"), ("verify", "m.onnx"),
    ],
)  # fmt: skip
def test_other_commands_read_a_pipe_once(words, name, tmp_path):
    data = save(tmp_path / "m.onnx").read_bytes()
    piped = run(words[0], name, *words[1:], input=data, cwd=tmp_path)
    plain = run(words[0], "m.onnx", *words[1:], cwd=tmp_path)
    assert piped.returncode == plain.returncode
    assert piped.stdout.replace(b"/dev/stdin", b"m.onnx") == plain.stdout


@POSIX
@pytest.mark.parametrize(
    "words", [("verify", "-", "-"), ("diff", "-", "-"), ("verify", "-", "m.onnx", "--report", "r.html")]
)  # fmt: skip
def test_a_pipe_is_not_read_twice(words, tmp_path):
    data = save(tmp_path / "m.onnx").read_bytes()
    done = run(*words, input=data, cwd=tmp_path)
    assert done.returncode == 2
    assert b"the standard input can be read only once" in done.stderr
    assert not (tmp_path / "r.html").exists()


@POSIX
def test_external_data_cannot_go_through_a_pipe(tmp_path):
    source, fifo = save(tmp_path / "m.onnx", "w.bin"), tmp_path / "fifo"
    os.mkfifo(fifo)
    for policy in ("keep", "copy", "one-file"):
        with pytest.raises(
            BadDestination, match='cannot go to a pipe or a device; give `external="inline"`'
        ):
            convert_file(source, fifo, 13, external=policy)
    done = run("convert", "-", "-o", tmp_path / "o.onnx", "--to", 13, input=source.read_bytes(), cwd=tmp_path)  # fmt: skip
    assert done.returncode == 2
    assert b"through a pipe has no folder" in done.stderr


@POSIX
def test_a_pipe_is_read_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "PIPE_LIMIT", 4 * SIZE)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            fifo.write_bytes(model().SerializeToString())

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(InvalidModel, match=f"more than {4 * SIZE} bytes"):
        Opened(str(fifo))
    writer.join()


@POSIX
def test_devices_are_written_to_and_not_read_from(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    convert_file(save(tmp_path / "m.onnx"), device, 13)
    assert stat.S_ISCHR(device.stat().st_mode)
    with pytest.raises(InvalidModel, match="this is a device"):
        convert_file(device, tmp_path / "o.onnx", 13)


def test_folders_are_not_read(tmp_path):
    with pytest.raises(InvalidModel, match="this is a folder"):
        convert_file(tmp_path, tmp_path / "o.onnx", 13)


# --- who may read ---------------------------------------------------------------------------------


@POSIX
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o604, 0o644, 0o664])
@pytest.mark.parametrize("words", [{"target": 13}, {"target": 13, "external": "one-file"}, {"ir_version": 8}])  # fmt: skip
def test_a_result_is_no_more_readable_than_its_source(mode, words, tmp_path):
    before = os.umask(0o022)
    try:
        source = save(tmp_path / "m.onnx", "w.bin" if words.get("external") else "")
        there = save(tmp_path / "there.onnx", seed=2)
        there.chmod(0o666)
        source.chmod(mode)
        for out in (tmp_path / "new.onnx", there):
            convert_file(source, out, **words)
            assert stat.S_IMODE(out.stat().st_mode) & 0o077 & ~mode == 0
        for _ in range(2):
            convert_file(source, source, **words, in_place=True)
            assert stat.S_IMODE(source.stat().st_mode) == mode
    finally:
        os.umask(before)


@POSIX
def test_what_only_its_owner_may_read_stays_so_in_another_file(tmp_path):
    source = save(tmp_path / "m.onnx", "w.bin")
    (tmp_path / "w.bin").chmod(0o600)
    source.chmod(0o644)
    for policy, name in (("inline", "i.onnx"), ("one-file", "o.onnx.data")):
        convert_file(source, tmp_path / (name[0] + ".onnx"), 13, external=policy)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    (tmp_path / "away").mkdir()
    convert_file(source, tmp_path / "away" / "o.onnx", 13, external="copy")
    assert stat.S_IMODE((tmp_path / "away" / "w.bin").stat().st_mode) == 0o600


@POSIX
@pytest.mark.parametrize("words", [{"target": 13}, {"target": 13, "external": "one-file"}, {"ir_version": 128 - 115}])  # fmt: skip
def test_owner_and_extended_attributes_survive_in_place(words, tmp_path):
    source = save(tmp_path / "m.onnx")
    names = {}
    if os.getuid() == 0:
        os.chown(source, 65534, 65533)
    if hasattr(os, "setxattr"):
        try:
            os.setxattr(source, "user.note", b"kept")
            names = {"user.note": b"kept"}
        except OSError:
            pass  # this file system has none
    owner = source.stat()
    convert_file(source, source, **words, in_place=True)
    for path in tmp_path.iterdir():
        assert (path.stat().st_uid, path.stat().st_gid) == (owner.st_uid, owner.st_gid)
        assert {name: os.getxattr(path, name) for name in names} == names


@POSIX
def test_an_owner_that_cannot_be_kept_is_an_error(tmp_path, monkeypatch):
    source = save(tmp_path / "m.onnx")
    if os.getuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(source, 65534, 65534)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    before = contents(tmp_path)
    with pytest.raises(BadDestination, match="the owner 65534 and the group 65534 cannot be given"):
        convert_file(source, source, 13, in_place=True)
    assert contents(tmp_path) == before


# --- text forms -----------------------------------------------------------------------------------


def test_the_endings_are_those_of_onnx():
    endings = {ending for ending, form in FORMS.items() if form != "protobuf"}
    if (schemas.latest("") or 0) < 28:  # an older onnx knows fewer of them
        assert endings < set(sources.TEXTS)
    else:
        assert endings == set(sources.TEXTS)


@pytest.mark.parametrize("ending", sources.TEXTS)
def test_text_forms_are_read_and_written(ending, tmp_path):
    if ending not in FORMS:
        with pytest.raises(
            BadDestination, match=f"onnx has no file format with the extension '{ending}'"
        ):
            convert_file(save(tmp_path / "m.onnx"), tmp_path / f"t{ending}", 13)
        return
    source, text, back = tmp_path / "m.onnx", tmp_path / f"t{ending}", tmp_path / "b.onnx"
    source.write_bytes(onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 12]>
        g (float[2,3] x) => (float[2,3] y) <float[3] w = {1, 2.5, -3}> { h = Add(x, w) y = Softmax(h) }""").SerializeToString())  # fmt: skip
    convert_file(source, text, 13)
    assert onnx.load(text).opset_import[0].version == 13
    with pytest.raises(UnicodeDecodeError if text.read_bytes()[0] > 127 else Exception):
        onnx.ModelProto.FromString(text.read_bytes()).graph.node[0]
    convert_file(text, back, 12)
    assert onnx.load(back).graph.node[-1].op_type
    convert_file(text, text, 21, in_place=True)
    assert onnx.load(text).opset_import[0].version == 21


def test_a_form_that_would_lose_something_is_refused(tmp_path):
    proto = model()
    proto.graph.node[0].metadata_props.add(key="namespace", value="of a node")
    source, text = tmp_path / "m.onnx", tmp_path / "m.onnxtxt"
    source.write_bytes(proto.SerializeToString())
    with pytest.raises(BadDestination, match="cannot hold the metadata_props of a NodeProto"):
        convert_file(source, text, 13)
    assert not text.exists()


def test_a_text_that_is_no_model_is_refused(tmp_path):
    for ending in sources.TEXTS:
        path = tmp_path / f"m{ending}"
        path.write_text("this is no model {")
        with pytest.raises(InvalidModel, match="not a readable ONNX model"):
            convert_file(path, tmp_path / "o.onnx", 13)


# --- sources that change --------------------------------------------------------------------------


def test_a_source_that_changes_is_an_error(tmp_path, monkeypatch):
    real = os.fsync
    for change in (
        lambda path: path.write_bytes(model(seed=3).SerializeToString()),
        lambda path: os.truncate(path, 100),
        lambda path: path.unlink(),
        lambda path: os.replace(save(tmp_path / "next.onnx", seed=4), path),
    ):
        source, out = save(tmp_path / "m.onnx"), tmp_path / "o.onnx"
        os.utime(source, ns=(1, 1))

        def changing(fd, change=change, source=source):
            monkeypatch.setattr(os, "fsync", real)
            change(source)
            real(fd)

        monkeypatch.setattr(os, "fsync", changing)
        with pytest.raises(InvalidModel, match="changed while it was read"):
            convert_file(source, out, 13)
        assert not out.exists()


@pytest.mark.parametrize("name", ["m.onnx", "w.bin"])
@pytest.mark.parametrize("policy", ["inline", "one-file"])
def test_data_that_shrinks_is_an_error(name, policy, tmp_path, monkeypatch):
    source = save(tmp_path / "m.onnx", "w.bin" if name == "w.bin" else "")
    real = os.write

    def shrinking(fd, data):
        monkeypatch.setattr(os, "write", real)
        os.truncate(tmp_path / name, 100)
        return real(fd, data)

    monkeypatch.setattr(os, "write", shrinking)
    with pytest.raises(InvalidModel, match="changed while it was read"):
        convert_file(source, tmp_path / "o.onnx", 13, external=policy)
    assert set(contents(tmp_path)) <= {"m.onnx", "w.bin"}


def test_a_file_that_shrinks_while_it_is_looked_at_ends_no_process(tmp_path):
    path = tmp_path / "m.onnx"
    proto = model()
    for number in range(40):
        tensor = proto.graph.initializer.add(name=f"v{number}", data_type=1, dims=[20_000])
        tensor.raw_data = bytes(80_000)
    path.write_bytes(proto.SerializeToString())
    opened = Opened(str(path))
    os.truncate(path, 5000)
    with pytest.raises(InvalidModel, match="changed while it was read"):
        opened.view[: len(opened.view)]
    with pytest.raises(InvalidModel, match="changed while it was read"):
        opened.view[len(opened.view) - 1]


# --- what check says ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"location": "none.bin"}, "is missing"),
        ({"location": "../m.onnx"}, "not inside"),
        ({"location": "w.bin", "offset": 4}, "too few"),
        ({"location": "w.bin", "length": 12}, "needs 12000"),
        ({"location": "w.bin", "offset": "1e3"}, "must be numbers"),
        ({"location": "hard.bin"}, "hard links"),
        ({"location": "out.bin"}, "not inside"),
        ({"location": "sub"}, "not a regular file"),
        ({"location": "w.bin"}, None),
        ({"location": "in.bin"}, None),
    ],
)  # fmt: skip
def test_check_says_what_convert_says_about_external_data(entries, sentence, tmp_path):
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    for path in (home / "w.bin", tmp_path / "away.bin", tmp_path / "twice.bin"):
        path.write_bytes(weight())
    os.link(tmp_path / "twice.bin", home / "hard.bin")
    (home / "out.bin").symlink_to(tmp_path / "away.bin")
    (home / "in.bin").symlink_to("w.bin")
    proto = model("w.bin")
    tensor = proto.graph.initializer[0]
    tensor.ClearField("external_data")
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    path = home / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    done = CliRunner().invoke(main, ["check", str(path)])
    converted = CliRunner().invoke(main, ["convert", str(path), "-o", str(home / "o.onnx"), "--to", "13"])  # fmt: skip
    if sentence is None:
        assert (done.exit_code, converted.exit_code) == (0, 0), done.output + converted.output
        return
    assert (done.exit_code, converted.exit_code) == (1, 1)
    for text in (done.output, converted.output):
        assert sentence in text
        assert "'w'" in text
