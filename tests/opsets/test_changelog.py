# SPDX-License-Identifier: Apache-2.0
"""The database of operator versions: its content, its currency, and its stability."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from opshift import BadTarget, convert_version, versions
from opshift.author import database
from opshift.cli.entry import main
from opshift.opsets import changelog, schema_changes, schemas
from opshift.opsets.changelog import Changelog
from opshift.opsets.opset_changelog_pb2 import Change, Domain, OpsetChangelog, Version
from text_models import model

from tools.author import shipped_tables

SHIPPED = OpsetChangelog.FromString(shipped_tables.DATABASE.read_bytes())
PAST, SIGNATURES = (
    json.loads((Path(__file__).parent / f"opset_changelog_{name}.json").read_text())
    for name in ("digests", "signatures")
)


def run(*words):
    return CliRunner().invoke(main, ["ops", *words])


@pytest.mark.parametrize("domain", versions.DOMAINS)
def test_it_means_what_the_installed_onnx_means(domain):
    installed = schemas.installed(domain)
    if not installed:
        pytest.skip(f"the installed onnx has no {domain}")
    known, newest = changelog.default(), schemas.latest(domain)
    same_onnx = known.newest(domain) == newest and known.newest("") == schemas.latest("")
    for op in {one.name for one in installed}:
        for version in range(1, newest + 1):
            theirs = [one for one in installed if one.name == op and one.since <= version]
            entry = known.meaning(domain, op, version)
            assert (entry and entry.operator.since_version) == (
                theirs[-1].since if theirs else None
            )
            if same_onnx and entry:  # some were deprecated after the fact
                assert entry.deprecated == theirs[-1].deprecated


def test_the_engine_asks_the_database(monkeypatch):
    """The database determines the meaning of an import, also if onnx differs."""
    other = Changelog()
    other.add(_shorter(SHIPPED, 13), "x")
    monkeypatch.setattr(schemas, "known", lambda: other)
    asked = [schemas.schema, schemas.changed, schemas.latest, schemas.history]
    for question in asked:
        question.cache_clear()
    try:
        assert schemas.latest("") == 13
        assert schemas.schema("", "Relu", 14).since == 13
        assert schemas.changed("", 14) == frozenset()
        with pytest.raises(BadTarget, match=r"ai\.onnx 14 is above 13, the newest in opshift"):
            convert_version(model("(float[2] x) => (float[2] y) { y = Relu(x) }", 13), 14)
    finally:
        for question in asked:
            question.cache_clear()


def _shorter(data, newest):
    """Returns a database that ends at a version of ai.onnx."""
    shorter = OpsetChangelog.FromString(data.SerializeToString())
    del shorter.domains[0].versions[newest:]
    return shorter.SerializeToString()


def test_what_the_installed_onnx_does_not_have_is_not_promised():
    database = changelog.default()
    for domain in versions.DOMAINS:
        newest = schemas.latest(domain)
        for op in schemas.operators(domain):
            assert all(schema.since <= newest for schema in schemas.history(domain, op))
        assert newest is None or newest <= database.newest(domain)


def test_what_is_shipped_is_current():
    if schemas.latest("") != changelog.default().newest(""):
        pytest.skip("it was built from a newer onnx")
    assert database.merged(SHIPPED, database.build(versions.DOMAINS)) == SHIPPED


@pytest.mark.parametrize("domain", SHIPPED.domains, ids=lambda d: d.name or "ai.onnx")
def test_old_entries_never_change(domain):
    domain = Domain.FromString(domain.SerializeToString())
    numbers = [version.version for version in domain.versions]
    assert numbers == list(range(1, len(numbers) + 1))
    past, full = (frozen[domain.name or "ai.onnx"] for frozen in (PAST, SIGNATURES))
    assert [_digest(version) for version in domain.versions][: len(full)] == full
    for version in domain.versions:
        for change in version.changes:
            for name in ADDED:
                change.ClearField(name)
    assert [_digest(version) for version in domain.versions][: len(past)] == past


# Fields that the database gained; what it said before each of them is compared without them.
ADDED = ("inputs", "outputs", "attributes", "experimental")


def _digest(version):
    return hashlib.sha256(version.SerializeToString(deterministic=True)).hexdigest()[:12]


def test_rebuilding_adds_and_keeps():
    old = OpsetChangelog(domains=[Domain(versions=[Version(version=1)])])
    new = OpsetChangelog(
        domains=[
            Domain(versions=[Version(version=v, changes=[Change(op_type="Add")]) for v in (1, 2)]),
            Domain(name="acme", versions=[Version(version=1)]),
        ]
    )
    both = database.merged(old, new)
    assert [len(v.changes) for v in both.domains[0].versions] == [0, 1]
    assert [domain.name for domain in both.domains] == ["", "acme"]


def test_an_operator():
    text = run("Upsample").stdout
    assert "ai.onnx.Upsample:10" in text
    assert "deprecated, replaced by Resize" in text
    assert "T: tensor(bool)" in text
    assert "https://onnx.ai/onnx/operators/onnx__Upsample.html" in text
    assert 'attribute mode: STRING = "nearest"' in text
    assert "input scales: tensor(float)" in text
    raw = json.loads(run("Normalizer", "--domain", "ai.onnx.ml", "--output-format", "json").stdout)
    (entry,) = raw["entries"]
    assert entry["operator"]["since_version"] == 1
    assert entry["status"] == "stable"
    assert entry["inputs"] == [{"name": "X", "option": "", "type": "T"}]
    assert entry["attributes"] == [
        {"name": "norm", "type": "STRING", "required": False, "default": '"MAX"'}
    ]


def test_a_change_of_behaviour_is_named_and_breaks():
    """If the schema does not show a change, the adapter for the next opset does."""
    rows = run("Resize", "--since", "10", "--diff", "11").stdout
    assert "    ! the behaviour changed at 11: " in rows
    assert "the behaviour changed" not in run("Relu", "--since", "13", "--diff", "14").stdout


def test_what_changed_between_two_versions():
    rows = [line.split() for line in run("--since", "13", "--diff", "18").stdout.splitlines()]
    assert ["Trilu", "-", "14", "new"] in rows
    assert ["Scatter", "11", "11", "changed"] not in rows
    assert ["ReduceMax", "13", "18", "changed,", "breaking", "for", "consumers"] in rows
    assert ["Relu", "13", "14", "changed"] in rows
    assert ["Upsample", "9", "10", "deprecated,", "breaking", "for", "consumers"] in [
        line.split() for line in run("--since", "9", "--diff", "10").stdout.splitlines()
    ]


def test_one_operator_between_two_versions():
    rows = run("Clip", "--since", "6", "--diff", "12").stdout.splitlines()
    assert rows[1:] == [
        "Clip      6    12  changed, breaking for consumers",
        "    ! attribute max was removed",
        "    ! attribute min was removed",
        "      input min was added, optional",
        "      input max was added, optional",
        "      input input and output output gained 8 tensor types",
        "      a node has 1 to 3 inputs",
        "      the text of the documentation changed",
        "    ! the behaviour changed at 11: Opset 11 turned `min` and `max` of Clip"
        " into inputs with the element type of the data",
    ]


@pytest.mark.parametrize(
    ("op", "start", "to", "text", "breaks"),
    [
        (
            "BatchNormalization",
            13,
            15,
            "attribute training_mode was added, with the default 0",
            False,
        ),
        ("RoiAlign", 10, 16, "attribute coordinate_transformation_mode was added", False),
        ("Squeeze", 11, 13, "attribute axes was removed", True),
        ("Upsample", 9, 10, "the operator is deprecated", True),
        ("Dropout", 11, 12, "input ratio was added, optional", False),
        ("Cast", 5, 6, "attribute to changed its type from STRING to INT", True),
        ("Softmax", 12, 13, "the default of attribute axis changed from 1 to -1", True),
        ("Mish", 17, 18, "the operator is new", False),
    ],
)
def test_a_change_is_named_and_judged(op, start, to, text, breaks):
    changes = schema_changes.between("", op, start, to)
    assert [change.breaks for change in changes if change.text.startswith(text)] == [breaks]


@pytest.mark.parametrize(
    ("op", "start", "to", "told"),
    [
        ("Resize", 10, 11, ["input scales moved from place 2 to place 3", "input roi was added, required"]),
        ("Scan", 8, 9, ["input initial_state_and_scan_inputs moved from place 2 to place 1", "input sequence_lens was removed"]),
    ],
)  # fmt: skip
def test_a_parameter_that_moved_is_the_one_of_its_name(op, start, to, told):
    changes = schema_changes.between("", op, start, to)
    assert {*told} <= {change.text for change in changes if change.breaks}
    assert not any("is now called" in change.text for change in changes)


def test_operators_that_did_not_change_have_no_changes():
    assert schema_changes.between("", "Relu", 14, 15) == ()
    assert schema_changes.between("", "NoSuchOperator", 1, 15) == ()


def test_the_json_form_holds_the_changes():
    document = json.loads(run("--since", "12", "--diff", "13", "--output-format", "json").stdout)
    row = next(one for one in document["deltas"] if one["op_type"] == "Squeeze")
    assert row["breaks"] is True
    assert {"text": "attribute axes was removed", "breaks": True} in row["changes"]


def test_backwards_what_was_new_is_gone():
    rows = [line.split() for line in run("--since", "18", "--diff", "13").stdout.splitlines()]
    assert ["Trilu", "14", "-", "gone"] in rows


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["Rsize"], "has no operator 'Rsize'; did you mean Resize"),
        (["--domain", "acme"], "domain 'acme' is not known"),
        (["--diff", "18"], "--since is missing; give both versions"),
        (["--since", "13", "--diff", "999"], "the newest ai.onnx is"),
        (["--since", "999"], "the newest ai.onnx is"),
        (["--since", "13", "Rsize"], "did you mean Resize"),
    ],
)
def test_misuse(words, sentence):
    bad = run(*words)
    assert bad.exit_code == 2
    assert sentence in bad.stderr


def test_it_is_read_without_onnx():
    code = (
        "import sys; from opshift import OperatorId; from opshift.cli.entry import main; print(OperatorId.of('', 'Relu', 20));"
        "main(['ops', 'Resize'], standalone_mode=False)"
    )
    watched = f"import atexit, sys; atexit.register(lambda: print('onnx' in sys.modules)); {code}"
    done = subprocess.run(
        [sys.executable, "-c", watched], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("ai.onnx.Relu:14\n")
    assert done.stdout.strip().endswith("False")


def test_a_vendors_database(tmp_path, monkeypatch):
    package = tmp_path / "acme_ops_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    own = Domain(name="acme", versions=[Version(version=2, changes=[Change(op_type="Run")])])
    (package / changelog.FILE).write_bytes(OpsetChangelog(domains=[own]).SerializeToString())
    dist = tmp_path / "acme_ops-1.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-ops\nVersion: 1\n")
    (dist / "entry_points.txt").write_text("[opshift.changelogs]\nacme = acme_ops_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    known = changelog.default.__wrapped__()
    assert str(known.meaning("acme", "Run", 3).operator) == "acme.Run:2"
    assert known.meaning("acme", "Run", 1) is None


def test_what_is_no_database():
    with pytest.raises(BadTarget, match="x is not an opset changelog"):
        Changelog().add(b"\xff\xff", "x")
    twice = Changelog()
    twice.add(SHIPPED.SerializeToString(), "x")
    with pytest.raises(BadTarget, match=r"y describes 'ai\.onnx' a second time"):
        twice.add(SHIPPED.SerializeToString(), "y")
