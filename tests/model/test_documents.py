# SPDX-License-Identifier: Apache-2.0
"""Documents next to a model: the files that count as documents, and only for this model."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onnx
import onnx.parser
import opshift
import pytest
from onnx import onnx_operators_ml_pb2
from opshift import BadTarget
from opshift.look.accepts import accepts
from opshift.look.consumer import Consumer, may_use
from opshift.look.info import info
from opshift.model.bytes import documents
from opshift.model.bytes.source import Opened
from opshift.opsets import changelog, described, operator_set
from opshift.zoo.migrate import prepare
from opshift.zoo.task import Item, migrate_one

pytestmark = pytest.mark.usefixtures("warm_children")

ONE = "Runs.\n\nSignature:\n  T: tensor(float)\n  input X: T\n  output Y: T\n"
NEEDS = ONE + "  attribute speed: INT, required\n"
TWO_INPUTS = ONE.replace("  output", "  input Z: T\n  output")
HEADER = '<ir_version: 7, opset_import: ["" : 12%s]> g (float[2,3] x) => (float[2,3] y)'
PLAIN = HEADER % "" + " { y = Softmax<axis=1>(x) }"
DEPTH = 25  # nodes


def document(text: str, version: int = 1, since: int = 1, domain: str = "com.acme") -> bytes:
    proto = onnx_operators_ml_pb2.OperatorSetProto(
        magic="ONNXOPSET", ir_version=8, domain=domain, opset_version=version
    )
    proto.operator.add(op_type="Run", since_version=since, status=1, doc_string=text)
    return proto.SerializeToString()


def vendors_model() -> onnx.ModelProto:
    """Nodes of a vendor between nodes that change at every step."""
    lines = ["a0 = com.acme.Run(x)"]
    lines += [f"a{i} = Softmax<axis=1>(a{i - 1})" for i in range(1, DEPTH)]
    text = HEADER % ', "com.acme" : 1' + f" {{ {' '.join(lines)} y = com.acme.Run(a{DEPTH - 1}) }}"
    return onnx.parser.parse_model(text)


# -- a document counts for its model alone ---------------------------------------------------------

FOLDERS: dict[str, list[bytes]] = {
    "none": [],
    "fits": [document(ONE)],
    "needs": [document(NEEDS)],
    "two inputs": [document(TWO_INPUTS)],
    "unstated": [document("Runs.")],
    "later": [document(ONE), document(NEEDS, 2, 2)],
    "kept": [document(ONE), document(ONE, 2)],
    "other domain": [document(ONE, domain="com.other")],
    "contradiction": [document(ONE), document(NEEDS)],
}


def write_folders(home: Path) -> None:
    for name, found in FOLDERS.items():
        (home / name).mkdir()
        onnx.save(vendors_model(), home / name / "m.onnx")
        for number, data in enumerate(found):
            (home / name / f"{number}.onnxopset").write_bytes(data)


def batch_of_one(path: str) -> object:
    outcome = migrate_one(prepare(opshift.Request.of(13), "copy"), Item("m", path))
    return outcome.fate.value, outcome.why, outcome.detail


VERBS = {
    "convert": lambda path: opshift.convert_version(path, 17).SerializeToString(deterministic=True).hex(),
    "convert the domain": lambda path: opshift.convert(path, {"com.acme": 2}).report.as_dict(),
    "convert a file": lambda path: opshift.convert_file(path, path + f".{random.random()}", 11).as_dict(),
    "plan": lambda path: opshift.plan(path, 9).as_dict(),
    "check": lambda path: opshift.check(path).as_dict(),
    "lowest": lambda path: opshift.lowest_versions(path).as_dict(),
    "accepts": lambda path: accepts(path, "onnxruntime==1.10").as_dict(),
    "may use": lambda path: may_use(path, Consumer({"com.acme": 1})).as_dict(),
    "info": lambda path: info(path).as_dict(),
    "diff": lambda path: opshift.diff(path, path).as_dict(),
    "batch": batch_of_one,
}  # fmt: skip


def answer(verb: str, path: Path) -> str:
    try:
        return repr(VERBS[verb](str(path)))
    except opshift.OpshiftError as error:
        return f"{type(error).__name__}: {error}"


# Each folder has a process of its own, which has only imported the modules before.
ALONE = """
import json, os, sys
from pathlib import Path
from test_documents import VERBS, answer

for folder in map(Path, sys.argv[1:]):
    if not os.fork():
        told = {verb: answer(verb, folder / "m.onnx") for verb in VERBS}
        (folder / "told.json").write_text(json.dumps(told))
        os._exit(0)
    assert os.wait()[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fresh processes need fork")
def test_the_answer_for_a_model_does_not_depend_on_other_models(tmp_path):
    """Every command on every folder, in any order and in threads, answers as in a new process."""
    write_folders(tmp_path)
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    words = [sys.executable, "-c", ALONE, *(str(tmp_path / name) for name in FOLDERS)]
    subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, check=True)
    expected = {name: json.loads((tmp_path / name / "told.json").read_text()) for name in FOLDERS}
    assert len({json.dumps(one).replace(name, "") for name, one in expected.items()}) > 6
    cases = [(name, verb) for name in FOLDERS for verb in VERBS]
    random.Random(0).shuffle(cases)

    def check(case: tuple[str, str]) -> None:
        name, verb = case
        assert answer(verb, tmp_path / name / "m.onnx") == expected[name][verb], case

    bare = opshift.convert_version(vendors_model(), 17).SerializeToString(deterministic=True)
    for case in cases:
        check(case)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(check, cases[::2]))
    after = opshift.convert_version(vendors_model(), 17).SerializeToString(deterministic=True)
    assert after == bare  # a model in memory has no folder
    assert changelog.default().newest("com.acme") is None
    assert not [
        schema for schema in onnx.defs.get_all_schemas_with_history() if "acme" in schema.domain
    ]


def test_a_document_that_comes_later_counts(tmp_path):
    onnx.save(vendors_model(), tmp_path / "m.onnx")
    assert not opshift.check(tmp_path / "m.onnx").fails(strict=False)
    (tmp_path / "a.onnxopset").write_bytes(document(NEEDS))
    assert opshift.check(tmp_path / "m.onnx").fails(strict=False)
    (tmp_path / "a.onnxopset").write_bytes(document(ONE))
    assert not opshift.check(tmp_path / "m.onnx").fails(strict=False)


def test_a_folder_is_listed_for_models_of_vendors_and_if_it_has_changed(tmp_path, monkeypatch):
    onnx.save(onnx.parser.parse_model(PLAIN), tmp_path / "plain.onnx")
    onnx.save(vendors_model(), tmp_path / "m.onnx")
    (tmp_path / "a.onnxopset").write_bytes(document(ONE))
    os.utime(tmp_path, (1, 1))
    listed, listdir = [], os.listdir

    def recorded(path: str) -> list[str]:
        listed.extend([path] if path == str(tmp_path) else [])
        return listdir(path)

    monkeypatch.setattr(os, "listdir", recorded)
    for _ in range(5):
        opshift.plan(tmp_path / "plain.onnx", 9)
    assert not listed
    for _ in range(5):
        opshift.plan(tmp_path / "m.onnx", 9)
    assert listed == [str(tmp_path)]
    os.utime(tmp_path, (2, 2))
    opshift.plan(tmp_path / "m.onnx", 9)
    assert len(listed) == 2


def test_the_documents_of_two_models_that_are_compared_must_agree(tmp_path):
    write_folders(tmp_path)
    with pytest.raises(BadTarget, match=r"describe com\.acme 1 differently"):
        opshift.diff(tmp_path / "fits" / "m.onnx", tmp_path / "needs" / "m.onnx")
    opshift.diff(tmp_path / "fits" / "m.onnx", tmp_path / "none" / "m.onnx")


# -- which file a document may be ------------------------------------------------------------------


def far(path: Path) -> None:
    (path.parent.parent / "far").write_bytes(document(ONE))
    path.symlink_to("../far")


def large(path: Path, size: int = described.LARGEST + 1) -> None:
    path.touch()
    os.truncate(path, size)


def two_that_are_large(path: Path) -> None:
    for name in ("a", "b"):
        large(path.with_name(f"{name}.onnxopset"), described.LARGEST // 2 + 1)


HOSTILE = {
    "a FIFO": (os.mkfifo, "is not a regular file"),
    "a folder": (os.mkdir, "is not a regular file"),
    "a link to an endless file": (lambda path: path.symlink_to("/dev/zero"), "is a link to a file outside of"),
    "a link to a file elsewhere": (far, "is a link to a file outside of"),
    "a large file": (large, "more than 16 MiB"),
    "files that are large together": (two_that_are_large, ""),
    "bytes": (lambda path: path.write_bytes(b"\xff" * 99), "is not an OperatorSetProto"),
    "nothing": (lambda path: path.touch(), "its magic is ''"),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "No such file"),
}  # fmt: skip
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
import opshift
opshift.plan("plain.onnx", 17)
try:
    opshift.plan("m.onnx", 17)
except (opshift.OpshiftError, OSError) as error:
    print(error)
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no FIFOs")
@pytest.mark.parametrize(("make", "sentence"), HOSTILE.values(), ids=HOSTILE)
def test_no_file_next_to_a_model_hangs_it_or_fills_the_memory(make, sentence, tmp_path):
    """A model that contains only ONNX's own operators does not read the file."""
    folder = tmp_path / "models"
    folder.mkdir()
    onnx.save(onnx.parser.parse_model(PLAIN), folder / "plain.onnx")
    onnx.save(vendors_model(), folder / "m.onnx")
    make(folder / "x.onnxopset")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", LIMITED]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert sentence in done.stdout
    assert "onnxopset" in done.stdout


def test_a_link_inside_of_the_folder_and_a_hidden_file(tmp_path):
    onnx.save(vendors_model(), tmp_path / "m.onnx")
    (tmp_path / "acme").write_bytes(document(NEEDS))
    (tmp_path / ".#x.onnxopset").symlink_to("user@host")  # as an editor leaves it
    assert not opshift.check(tmp_path / "m.onnx").fails(strict=False)
    (tmp_path / "a.onnxopset").symlink_to("acme")
    assert opshift.check(tmp_path / "m.onnx").fails(strict=False)


def test_a_pipe_has_no_folder(tmp_path):
    onnx.save(vendors_model(), tmp_path / "m.onnx")
    (tmp_path / "a.onnxopset").write_bytes(document(NEEDS))
    words = [sys.executable, "-m", "opshift", "convert", "-", "-o", "-", "--to", "17"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with (tmp_path / "m.onnx").open("rb") as file:
        done = subprocess.run(words, stdin=file, env=env, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_given_document_may_be_anywhere_and_not_large(tmp_path):
    large(tmp_path / "x")
    with pytest.raises(BadTarget, match="has more than 16 MiB"):
        described.give([str(tmp_path / "x")])


# -- what a document may hold ----------------------------------------------------------------------

LINES = [
    "Signature:", "  T: tensor(float)", "  input X: T", "  input Y: T, optional", "  output Y: T",
    "  input Z: T, variadic, at least 3", "  output Y: tensor(foo)", "  attribute axes: INTS, required",
    "  attribute a: INT = 99999999999999999999", '  attribute a: INT = "x"', "  attribute f: FLOAT = 1e999",
    '  attribute t: TENSOR = {"os": "CAE="}', '  attribute t: TENSOR = {"TensorProto": 3}',
    '  attribute s: STRINGS = ["\\ud800"]', "  attribute s: STRINGS = [3]", "  attribute u: UNDEFINED = 3",
    f"  attribute d: INTS = {'[' * 5000}", "  input : T", "  at: T", f"  input Z: T, at least {'9' * 5000}",
]  # fmt: skip


def hostile_document(rng: random.Random) -> bytes:
    proto = onnx_operators_ml_pb2.OperatorSetProto(
        magic="ONNXOPSET", domain="com.acme", opset_version=rng.choice([1, 1, 2, 2**62, 0, -1])
    )
    for name in rng.sample(["Run", "Old"], rng.randint(0, 2)):
        text = "\n".join(["Signature:", *rng.choices(LINES, k=rng.randint(0, 6))])
        since = rng.choice([1, 1, 2, 2**40, proto.opset_version])
        proto.operator.add(op_type=name, since_version=since, status=1, doc_string=text)
    data = bytearray(proto.SerializeToString())
    for _ in range(rng.choice([0, 0, 1, 3])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def test_a_document_of_any_content_is_read_or_named():
    """Only documented errors occur, also if a conversion needs the document."""
    rng, model, read = random.Random(0), vendors_model(), 0
    for _ in range(400):
        found = [("x", hostile_document(rng)) for _ in range(rng.randint(1, 2))]
        try:
            for origin, data in found:
                operator_set.read(data, origin)
        except BadTarget as error:
            assert "x" in str(error)
            continue
        read += 1
        for verb in (opshift.check, lambda one: opshift.convert_version(one, 11)):
            try:
                with described.using(found):
                    verb(model)
            except (opshift.InvalidModel, BadTarget, opshift.Refused):
                pass
    assert read > 20


def test_a_document_has_no_endless_list_and_no_endless_version():
    proto = onnx_operators_ml_pb2.OperatorSetProto(magic="ONNXOPSET", domain="a", opset_version=1)
    for number in range(operator_set.MOST_OPERATORS + 1):
        proto.operator.add(op_type=f"o{number}", since_version=1)
    with pytest.raises(BadTarget, match="x describes 10,001 operators"):
        operator_set.read(proto.SerializeToString(), "x")
    with pytest.raises(BadTarget, match="opshift reads versions up to 10,000"):
        operator_set.read(document(ONE, operator_set.NEWEST + 1), "x")


def test_work_inside_of_other_work_has_the_documents_of_both(tmp_path):
    write_folders(tmp_path)
    with documents.beside(tmp_path / "fits" / "m.onnx"):
        assert changelog.default().newest("com.acme") == 1
        with documents.beside(tmp_path / "kept" / "m.onnx"):
            assert changelog.default().newest("com.acme") == 2
        assert changelog.default().newest("com.acme") == 1
    assert changelog.default().newest("com.acme") is None


# -- which folders are looked into, and what is read -----------------------------------------------


def looked_into(model: object) -> list[str]:
    return list(documents._folder(model))


def test_only_the_folders_of_files_that_import_other_domains_count(tmp_path):
    onnx.save(vendors_model(), tmp_path / "m.onnx")
    onnx.save(onnx.parser.parse_model(PLAIN), tmp_path / "plain.onnx")
    (tmp_path / "plain.textproto").write_text("ir_version: 7")
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "broken.onnx").write_bytes(b"\xff")
    folder = str(tmp_path)
    assert looked_into(tmp_path / "m.onnx") == looked_into(str(tmp_path / "m.onnx")) == [folder]
    assert looked_into(tmp_path / "plain.textproto") == [folder]
    for name in ("plain.onnx", "empty.onnx", "broken.onnx", "none.onnx", ""):
        assert looked_into(tmp_path / name) == []
    assert looked_into(vendors_model()) == []
    assert looked_into(Opened(str(tmp_path / "m.onnx"))) == [folder]
    piped = Opened(str(tmp_path / "m.onnx"), os.open(tmp_path / "m.onnx", os.O_RDONLY))
    assert looked_into(piped) == []


def contents(folder: Path) -> dict[str, bytes]:
    return {os.path.basename(path): data for path, data in documents._documents(str(folder))}


def test_documents_have_one_limit_together(tmp_path, monkeypatch):
    monkeypatch.setattr(described, "LARGEST", 100)
    (tmp_path / "a.onnxopset").write_bytes(b"a" * 60)
    (tmp_path / "b.onnxopset").write_bytes(b"b" * 40)
    (tmp_path / "c.txt").write_bytes(b"c" * 200)
    assert contents(tmp_path) == {"a.onnxopset": b"a" * 60, "b.onnxopset": b"b" * 40}
    (tmp_path / "b.onnxopset").write_bytes(b"b" * 41)
    with pytest.raises(BadTarget, match="the documents before it have together more than"):
        contents(tmp_path)


def test_the_limit_is_named_in_mebibytes(tmp_path):
    with (tmp_path / "a.onnxopset").open("wb") as file:
        file.truncate(described.LARGEST + 1)
    with pytest.raises(BadTarget, match=f"more than {described.LARGEST // 2**20} MiB"):
        contents(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="there are no FIFOs")
def test_a_document_is_a_file_of_the_folder(tmp_path):
    (tmp_path / "acme").write_bytes(b"1")
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "x.onnxopset").symlink_to(tmp_path / "acme")
    with pytest.raises(BadTarget, match="is a link to a file outside of the model's folder"):
        contents(folder)
    (folder / "x.onnxopset").unlink()
    os.mkfifo(folder / "x.onnxopset")
    with pytest.raises(BadTarget, match="is not a regular file"):
        contents(folder)


def test_a_folder_that_has_just_changed_is_listed_again(tmp_path):
    """Two changes may have equal times, so a list from this time may be incomplete."""
    status = tmp_path.stat()
    names = []
    for name in ("a.onnxopset", "b.onnxopset", ".c.onnxopset"):
        (tmp_path / name).touch()
        os.utime(tmp_path, ns=(status.st_mtime_ns, status.st_mtime_ns))
        names.append(documents._names(str(tmp_path)))
    assert [len(found) for found in names] == [1, 2, 2]
    assert documents._names(str(tmp_path / "none")) == ()
