# SPDX-License-Identifier: Apache-2.0
"""Operator sets as documents: exported, read again, and complete for a vendor's domain."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest
from onnx import onnx_operators_ml_pb2
from opshift import BadTarget, versions
from opshift.opsets import changelog, installed_set, operator_set, schemas
from opshift.opsets.changelog import Changelog
from opshift.opsets.operator_set import OperatorSet

pytestmark = pytest.mark.usefixtures("warm_children")
SIGNATURE = """Runs.

Signature:
  T: tensor(double) tensor(float)
  input X: T
  input scale: tensor(float), optional
  output Y: T
  attribute mode: STRING = "fast"
  attribute axes: INTS, required
"""
SETS = [
    (domain, version)
    for domain in versions.DOMAINS
    for version in range(1, (schemas.latest(domain) or 0) + 1)
]


def same_but_for_bodies(one, other):
    """A body that depends on the node is code, which a document cannot contain."""
    return dataclasses.replace(one, has_body=False) == dataclasses.replace(other, has_body=False)


@pytest.mark.parametrize(("domain", "version"), SETS)
def test_an_export_is_read_back(domain, version):
    found = installed_set.of_installed(domain, version)
    data = operator_set.write(found)
    back = operator_set.read(data, "export")
    assert operator_set.write(back) == data
    assert (back.domain, back.version, back.functions) == (domain, version, found.functions)
    for one, other in zip(found.operators, back.operators, strict=True):
        assert same_but_for_bodies(one.schema, other.schema), one.schema.name
        assert (one.documentation.strip(), one.experimental) == (
            other.documentation,
            other.experimental,
        )


def test_an_export_holds_exactly_the_operators_of_the_version():
    proto = onnx_operators_ml_pb2.OperatorSetProto()
    proto.ParseFromString(operator_set.write(installed_set.of_installed("ai.onnx", 13)))
    assert (proto.magic, proto.domain, proto.opset_version) == ("ONNXOPSET", "", 13)
    theirs = {
        s.name: s
        for s in (onnx.defs.get_schema(n, 13) for n in {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and s.since_version <= 13})
        if not s.deprecated
    }  # fmt: skip
    assert {node.op_type: node.since_version for node in proto.operator} == {
        name: schema.since_version for name, schema in theirs.items()
    }
    for one in proto.operator:
        assert " ".join(theirs[one.op_type].doc.split()) in " ".join(one.doc_string.split())
    # A body that is written with operators of a later version is no body at this version.
    bodies = {name for name, s in theirs.items() if any(v <= 13 for v in s.function_opset_versions)}
    assert {function.name for function in proto.functions} == bodies
    assert bodies
    assert all(one.status == onnx.OperatorStatus.Value("STABLE") for one in proto.operator)


def document(version=1, change=lambda proto: None, **operators):
    """A vendor's document; each operator is (since, text)."""
    proto = onnx_operators_ml_pb2.OperatorSetProto(
        magic="ONNXOPSET", ir_version=8, domain="com.acme", opset_version=version
    )
    for name, (since, text) in (operators or {"Run": (1, SIGNATURE)}).items():
        proto.operator.add(op_type=name, since_version=since, status=1, doc_string=text)
    change(proto)
    return proto.SerializeToString()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: p.ClearField("magic"), "its magic is ''"),
        (lambda p: p.ClearField("opset_version"), "does not state the version"),
        (lambda p: p.operator.add(op_type="Run"), "describes an operator twice"),
        (lambda p: setattr(p.operator[0], "since_version", 2), "begins at version 2, and the set is"),
        (lambda p: setattr(p.operator[0], "doc_string", "Signature:\n  nonsense"), "'nonsense' of its signature"),
        (lambda p: setattr(p.operator[0], "doc_string", "Signature:\n  attribute a: INT = x"), "is not JSON"),
        (lambda p: setattr(p.operator[0], "doc_string", "Signature:\n  attribute a: NUMBER"), "which is not a type"),
        (lambda p: setattr(p.operator[0], "doc_string", "Signature:\n  input X: T, maybe"), "'maybe' is not a property"),
        (lambda p: setattr(p.operator[0], "doc_string", "Signature:\n  input X: T\n  output Y: T, rank Z"), "the rank of 'Y' is described as 'Z'"),
        (lambda p: setattr(p.operator[0], "doc_string", "Signature:\n  input X: T, rank 2"), "the rank of 'X' is described as '2'; describe it for an output"),
    ],
)  # fmt: skip
def test_a_document_with_a_fault_is_named(change, sentence):
    with pytest.raises(BadTarget, match="acme") as told:
        operator_set.read(document(change=change), "acme")
    assert sentence in str(told.value)


def test_an_operator_without_a_signature_accepts_anything():
    data = document(Run=(1, "Runs."), Other=(1, ""))
    operator_set_ = operator_set.read(data, "acme")
    first, second = operator_set_.operators
    assert (first.schema.stated, first.documentation, second.documentation) == (False, "Runs.", "")
    assert operator_set.read(operator_set.write(operator_set_), "again") == operator_set_
    assert b"Signature" not in operator_set.write(operator_set_)


def test_what_is_no_document():
    with pytest.raises(BadTarget, match="x is not an OperatorSetProto"):
        operator_set.read(b"\xff\xff", "x")


def test_what_cannot_be_exported():
    with pytest.raises(
        BadTarget, match=r"ai\.onnx 999 cannot be exported: the known versions are 1 to \d+"
    ):
        installed_set.of_installed("", 999)
    with pytest.raises(BadTarget, match="no package describes this domain"):
        installed_set.of_installed("com.nobody", 1)


# -- a vendor's domain, in a process of its own: what is described stays described -----------------

MODEL = """<ir_version: 8, opset_import: ["" : 13, "com.acme" : 1]>
g (float[2,3] x) => (float[2,3] y) { a = com.acme.%s y = Softmax(a) }"""
TWICE = SIGNATURE.partition("  input scale")[0] + "  output Y: T\n"


@pytest.fixture
def vendor(tmp_path):
    """A folder with documents of versions 1 and 2, and models beside it."""
    (tmp_path / "sets").mkdir()

    def with_body(proto):
        body = proto.functions.add(name="Twice", domain="com.acme", input=["X"], output=["Y"])
        body.opset_import.add(version=13)
        body.node.add(op_type="Add", input=["X", "X"], output=["Y"])

    ones = {"Run": (1, SIGNATURE), "Twice": (1, TWICE), "Old": (1, TWICE)}
    needs = SIGNATURE.replace(", optional", "")
    twos = {"Run": (2, needs), "Twice": (1, TWICE)}
    (tmp_path / "sets" / "acme1.onnxopset").write_bytes(document(1, with_body, **ones))
    (tmp_path / "sets" / "acme2.onnxopset").write_bytes(document(2, with_body, **twos))
    for name, call in {
        "twice": "Twice(x)", "run": "Run<axes = [0]>(x)", "old": "Old(x)", "typo": "Rnu(x)",
        "bare": "Run(x)", "wrong": "Run<axes = [0], mode = 3>(x)",
    }.items():  # fmt: skip
        onnx.save(onnx.parser.parse_model(MODEL % call), tmp_path / f"{name}.onnx")
    return tmp_path


def run(folder, *words, given=True, **environment):
    sets = ["--opset", "sets/acme1.onnxopset", "--opset", "sets/acme2.onnxopset"] if given else []
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "converter"), str(root / "adapters"), str(folder)])
    return subprocess.run(
        [sys.executable, "-m", "opshift", *words, *sets],
        env={**os.environ, "PYTHONPATH": path, **environment},
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_without_a_document_nothing_is_known(vendor):
    done = run(vendor, "convert", "twice.onnx", "-o", "o.onnx", "--to", "com.acme=2", given=False)
    assert done.returncode == 2
    assert "the versions of 'com.acme' are not known" in done.stderr


@pytest.mark.parametrize("way", ["option", "beside", "environment", "entry point"])
def test_a_document_is_enough(vendor, way):
    words = ["convert", "twice.onnx", "-o", "o.onnx", "--to", "com.acme=2", "--to", "11"]
    environment = {}
    if way == "beside":
        for path in (vendor / "sets").iterdir():
            path.rename(vendor / path.name)
    if way == "environment":
        listed = sorted(str(path) for path in (vendor / "sets").iterdir())
        environment["OPSHIFT_OPSETS"] = os.pathsep.join(listed)
    if way == "entry point":
        (vendor / "sets").rename(vendor / "acme_sets")
        (vendor / "acme_sets" / "__init__.py").write_text("")
        installed = vendor / "acme_sets-1.dist-info"
        installed.mkdir()
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-sets\nVersion: 1\n")
        (installed / "entry_points.txt").write_text("[opshift.opsets]\nacme = acme_sets\n")
    done = run(vendor, *words, given=way == "option", **environment)
    assert done.stdout.startswith("Converted: opset 13 -> 11, com.acme 1 -> 2"), done.stderr
    after = onnx.load(vendor / "o.onnx")
    assert {opset.domain: opset.version for opset in after.opset_import} == {"": 11, "com.acme": 2}


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("run", "com.acme.Run 'a' 1->2: No adapter describes this change"),
        ("old", "com.acme.Old 'a' 1->2: No adapter describes this change"),
    ],
)
def test_what_changed_is_refused(vendor, model, sentence):
    done = run(vendor, "convert", f"{model}.onnx", "-o", "o.onnx", "--to", "com.acme=2")
    assert done.returncode == 1
    assert sentence in done.stderr


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("typo", "no operator of that name exists in com.acme 1; did you mean Run?"),
        ("bare", "attribute 'axes' is missing"),
        ("wrong", "attribute 'mode' is INT, not STRING"),
    ],
)
def test_check_knows_the_domain(vendor, model, sentence):
    done = run(vendor, "check", f"{model}.onnx")
    assert done.returncode == 1
    assert sentence in done.stdout


def test_two_descriptions_of_one_version(vendor):
    (vendor / "other.onnxopset").write_bytes(document(1, Run=(1, TWICE)))
    done = run(vendor, "check", "run.onnx", "--opset", "other.onnxopset")
    assert done.returncode == 2
    assert "describe com.acme 1 differently" in done.stderr
    missing = run(vendor, "check", "run.onnx", "--opset", "none.onnxopset")
    assert missing.returncode == 2
    assert "none.onnxopset: No such file or directory; check the path of" in missing.stderr


def test_a_consumer_knows_the_version_that_a_document_describes(vendor):
    proto = onnx.load(vendor / "twice.onnx")
    proto.opset_import[1].version = 2
    onnx.save(proto, vendor / "later.onnx")
    one = ["--opset", "sets/acme1.onnxopset", "--opset", "13"]
    done = run(vendor, "accepts", "later.onnx", *one, given=False)
    assert done.returncode == 5  # Twice is the same in both versions
    assert "the consumer supports com.acme up to 1" in done.stdout
    assert run(vendor, "accepts", "twice.onnx", *one, given=False).returncode == 0
    both = run(vendor, "accepts", "later.onnx", "--opset", "13")
    assert both.returncode == 0


def test_what_changed_is_listed(vendor):
    done = run(vendor, "ops", "--domain", "com.acme", "--since", "1", "--diff", "2")
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "Old 1 2 deprecated, breaking for consumers" in rows
    assert "! input scale became required" in rows
    output = run(vendor, "ops", "Run", "--domain", "com.acme").stdout
    assert 'attribute mode: STRING = "fast"' in output
    assert "input scale: tensor(float), optional" in output


def test_its_database_is_built_from_the_wheel(vendor):
    done = run(vendor, "ops", "build", "--domain", "com.acme", "-o", "own.bin")
    assert done.returncode == 0, done.stderr
    known = Changelog()
    known.add((vendor / "own.bin").read_bytes(), "own.bin")
    assert known.newest("com.acme") == 2
    assert str(known.meaning("com.acme", "Run", 2).operator) == "com.acme.Run:2"
    assert known.meaning("com.acme", "Old", 2).deprecated
    details = known.meaning("com.acme", "Run", 1).details.as_dict()
    assert details["attributes"][1] == {
        "name": "mode",
        "type": "STRING",
        "required": False,
        "default": '"fast"',
    }
    assert run(vendor, "ops", "build", "-o", "own.bin").returncode == 2
    assert run(vendor, "ops", "build", "--domain", "com.nobody", "-o", "own.bin").returncode == 2
    assert run(vendor, "ops", "Run", "-o", "own.bin").returncode == 2


def test_a_vendors_set_is_exported_as_it_was_given(vendor):
    done = run(
        vendor,
        "ops",
        "--export",
        "com.acme",
        "2",
        "-o",
        "again.onnxopset",
        "--output-format",
        "json",
    )
    assert json.loads(done.stdout)["path"] == "again.onnxopset"
    again, given = (
        operator_set.read(path.read_bytes(), "x")
        for path in (vendor / "again.onnxopset", vendor / "sets" / "acme2.onnxopset")
    )
    assert {operator.schema.name: operator.schema for operator in again.operators} == {
        operator.schema.name: operator.schema for operator in given.operators
    }
    assert isinstance(again, OperatorSet)
    assert [function.name for function in again.functions] == ["Twice"]


def test_an_exported_operator_set_of_onnx_may_lie_beside_a_model(vendor):
    """Its content is known already, so it is ignored; if the user names it, it is an error."""
    exported = run(
        vendor, "ops", "--export", "ai.onnx", "13", "-o", "onnx13.onnxopset", given=False
    )
    assert exported.returncode == 0, exported.stderr
    done = run(vendor, "convert", "twice.onnx", "-o", "o.onnx", "--to", "11")
    assert done.returncode == 0, done.stderr
    refused = run(vendor, "check", "twice.onnx", "--opset", "onnx13.onnxopset")
    assert refused.returncode == 2
    assert "describes ai.onnx, which ONNX describes" in refused.stderr


# -- documents of other programs, which have no signatures -----------------------------------------

BARE = "Runs."
FREE = """<ir_version: 8, opset_import: ["" : 13, "com.acme" : 1]>
g (float[2,3] x) => (float[2,3] y) { a = com.acme.Run<any = 3, of = [1.0]>(x, x, x) y = Softmax(a) }"""


@pytest.fixture
def plain(tmp_path):
    """A folder with two documents without signatures, and a model."""
    (tmp_path / "sets").mkdir()
    ones = {"Run": (1, BARE), "Old": (1, BARE)}
    (tmp_path / "sets" / "acme1.onnxopset").write_bytes(document(1, **ones))
    (tmp_path / "sets" / "acme2.onnxopset").write_bytes(document(2, Run=(1, BARE), New=(2, "")))
    onnx.save(onnx.parser.parse_model(FREE), tmp_path / "free.onnx")
    onnx.save(onnx.parser.parse_model(MODEL % "Rnu(x)"), tmp_path / "typo.onnx")
    onnx.save(onnx.parser.parse_model(MODEL % "Old(x)"), tmp_path / "old.onnx")
    return tmp_path


def test_what_a_document_does_not_state_is_not_forbidden(plain):
    done = run(plain, "check", "free.onnx")
    assert done.returncode == 0, done.stdout
    assert "info: 1 node of com.acme.Run cannot be checked, because the document" in done.stdout
    words = ["convert", "free.onnx", "-o", "o.onnx", "--to", "com.acme=2", "--to", "11"]
    done = run(plain, *words, "--checks", "full")
    assert done.returncode == 0, done.stderr
    after = onnx.load(plain / "o.onnx")
    assert {opset.domain: opset.version for opset in after.opset_import} == {"": 11, "com.acme": 2}
    assert after.graph.node[0].op_type == "Run"


def test_what_a_document_states_still_counts(plain):
    done = run(plain, "check", "typo.onnx")
    assert done.returncode == 1
    assert "no operator of that name exists in com.acme 1; did you mean Run?" in done.stdout
    done = run(plain, "convert", "old.onnx", "-o", "o.onnx", "--to", "com.acme=2")
    assert done.returncode == 1
    assert "com.acme.Old 'a' 1->2: No adapter describes this change" in done.stderr


def test_what_is_not_stated_is_listed_as_such(plain):
    shown = run(plain, "ops", "Run", "--domain", "com.acme").stdout
    assert "inputs, outputs, types and attributes are not stated" in shown
    output = run(plain, "ops", "Run", "--domain", "com.acme", "--output-format", "json").stdout
    assert [one["stated"] for one in json.loads(output)["entries"]] == [False]
    listed = run(plain, "ops", "--domain", "com.acme", "--since", "1", "--diff", "2").stdout
    rows = [" ".join(line.split()) for line in listed.splitlines()]
    assert "Old 1 2 deprecated, breaking for consumers" in rows
    assert "New - 2 new" in rows


def test_a_change_of_what_is_not_stated_may_break(plain):
    (plain / "sets" / "acme2.onnxopset").write_bytes(document(2, Run=(2, SIGNATURE)))
    output = run(plain, "ops", "--domain", "com.acme", "--since", "1", "--diff", "2").stdout
    assert "! inputs, outputs, types and attributes are not stated, so what changed" in output


def test_one_document_may_state_what_another_leaves_out(plain):
    (plain / "sets" / "acme2.onnxopset").write_bytes(document(2, Run=(1, SIGNATURE)))
    done = run(plain, "check", "free.onnx")
    assert done.returncode == 1
    assert "Run-1 has no attribute 'any'" in done.stdout


def test_every_operator_of_onnx_is_stated():
    database = changelog.default()
    entries = [
        e for d in versions.DOMAINS for op in database.operators(d) for e in database.history(d, op)
    ]
    assert len(entries) > 400
    assert not [e.operator for e in entries if changelog.UNSTATED in e.details.lines()]


ADAPTERS = """
from opshift.adapter import adapter

@adapter("Run", 1, 2, domain="com.acme", emits="com.acme.Run")
def rename_any(node, op):
    \"\"\"The attribute any is called some, and of has one more number.\"\"\"
    return op.emit("Run", *node.inputs, domain="com.acme", some=node.attr("any"), of=[*node.attr("of"), 2.0])

@adapter("Run", 2, 1, domain="com.acme")
def keep(node, op):
    \"\"\"The attribute of does not exist below.\"\"\"
    node.attr("of")
    return op.same(node, of=None)
"""


def test_an_adapter_rewrites_what_is_not_stated(plain):
    (plain / "sets" / "acme2.onnxopset").write_bytes(document(2, Run=(2, BARE)))
    (plain / "acme_adapters.py").write_text(ADAPTERS)
    installed = plain / "acme-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[opshift.adapters]\nacme = acme_adapters\n")
    words = ["--checks", "full", "--to"]
    done = run(plain, "convert", "free.onnx", "-o", "two.onnx", *words, "com.acme=2")
    assert done.returncode == 0, done.stderr
    node = onnx.load(plain / "two.onnx").graph.node[0]
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} == {
        "some": 3,
        "of": [1.0, 2.0],
    }
    done = run(plain, "convert", "two.onnx", "-o", "one.onnx", *words, "com.acme=1")
    assert done.returncode == 0, done.stderr
    (attribute,) = onnx.load(plain / "one.onnx").graph.node[0].attribute
    assert attribute.name == "some"
    proto = onnx.load(plain / "free.onnx")
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("more", 1))
    onnx.save(proto, plain / "more.onnx")
    done = run(plain, "convert", "more.onnx", "-o", "none.onnx", *words, "com.acme=2")
    assert done.returncode == 1
    assert "Run has 'more', which its adapter does not support" in done.stderr
