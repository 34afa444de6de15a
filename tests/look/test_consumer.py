# SPDX-License-Identifier: Apache-2.0
"""`opshift accepts` for a consumer that supports certain versions."""

from __future__ import annotations

import json
import random
from collections import Counter

import onnx
import pytest
from click.testing import CliRunner
from onnx import helper
from opshift import BadTarget, InvalidModel, ModelVersion
from opshift.cli.entry import main
from opshift.look import consumer
from opshift.look.accepts import accepts, survey
from opshift.look.consumer import Consumer, may_use, written_for
from opshift.opsets import changelog, schemas
from text_models import model

TEXT = "(float[2,3] x) => (float[2,3] y) { a = Softmax(x) y = Neg(a) }"


def versioned(version="1.2.3", opset=17, ir=8):
    proto = model(TEXT, opset, ir=ir)
    proto.model_version = ModelVersion.parse(version).pack()
    return proto


@pytest.mark.parametrize(
    ("knows", "ir", "written", "reasons"),
    [
        ({"": 17}, 8, "1.2", []),
        ({"": 21}, 10, "1.0.7", []),
        ({"": 11}, None, None, ["up to 11 (Neg, Softmax changed since that version); convert it with `target=11`"]),
        ({}, 7, None, ["has IR 8, but the consumer reads IR up to 7; convert it with `ir_version=7`"]),
        ({}, None, "2.0", ["another MAJOR version"]),
        ({}, None, "1.3", ["an older model may lack"]),
        ({}, None, "1.2.4", []),
        ({}, None, "1.2.3-rc.1+b7", []),
        ({}, None, "7", ["a plain number does not show"]),
        ({"": 11}, 7, "2.0", ["has IR 8", "ai.onnx 17", "another MAJOR"]),
    ],
)  # fmt: skip
def test_the_rules(knows, ir, written, reasons):
    version = written_for(written) if written else None
    answer = may_use(versioned(), Consumer(knows, ir, version))
    assert answer.accepted is not bool(reasons)
    for told, part in zip(answer.reasons, reasons, strict=True):
        assert part in told


def test_below_one_each_minor_version_may_break():
    answer = may_use(versioned("0.3.0"), Consumer(model_version=written_for("0.2")))
    assert "below 1.0.0" in answer.reasons[0]


def test_what_a_model_does_not_store_is_noted():
    answer = may_use(versioned(), Consumer(model_version=written_for("1.2.3-rc.1+b7")))
    assert answer.remarks == (
        "whether the model has the version 1.2.3-rc.1+b7: model files do not store rc.1 and b7, so"
        " opshift compared 1.2.3 with 1.2.3",
    )


def test_a_domain_that_nobody_asked_about_is_not_known():
    proto = model(
        "(float[2] x) => (float[2] y) { y = com.acme.Run(x) }", 15, more=', "com.acme" : 3'
    )
    (told,) = may_use(proto, Consumer({"": 15})).unknown
    assert told == "whether the consumer supports com.acme 3; give --opset com.acme=N"
    assert not may_use(proto, Consumer({"": 15, "com.acme": 2})).accepted


@pytest.mark.parametrize("domain", ["com.acme", "com.caffe2", "ai.onnx.mine"])
def test_later_versions_of_a_domain_that_nobody_describes_may_have_changed(domain):
    text = f"(float[2] x) => (float[2] y) {{ y = {domain}.Run(x) }}"
    proto = model(text, 15, more=f', "{domain}" : 3')
    assert may_use(proto, Consumer({"": 15, domain: 3})).answer == "yes"
    assert may_use(proto, Consumer({"": 15})).answer == "not known"
    old = may_use(proto, Consumer({"": 15, domain: 2}))
    assert old.answer == "no"
    assert "no installed package describes its operators" in old.reasons[0]


def test_the_answer_is_may_only_if_no_operator_changed():
    """Over all operators and pairs of versions, the answer follows from their schemas alone."""
    rng = random.Random(39)
    operators = [
        operator for operator in changelog.default().operators("") if schemas.history("", operator)
    ]
    seen = Counter[str]()
    for _ in range(400):
        high = rng.randint(8, schemas.latest("") or 8)
        low = rng.randint(7, high)
        found = [
            operator for operator in rng.sample(operators, 6) if schemas.schema("", operator, high)
        ][:3]
        nodes = [helper.make_node(one, ["x"], [f"y{i}"]) for i, one in enumerate(found)]
        graph = helper.make_graph(nodes, "g", [], [])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", high)])
        later = [
            one for one in found if schemas.schema("", one, low) != schemas.schema("", one, high)
        ]
        text, unchanged = consumer._later(proto, "", low)
        assert unchanged is not bool(later), text
        assert all(one in text for one in later)
        seen[str(unchanged)] += 1
    assert min(seen.values()) > 40


@pytest.mark.parametrize(
    "graph",
    [
        "{ a = Add(x, b) b = Relu(a) y = Identity(b) }",
        "{ a = Relu(x) a = Neg(x) y = Identity(a) }",
        "{ y = Relu(nothing) }",
        "{ y = NoSuch(x) }",
    ],
)
def test_no_consumer_accepts_an_invalid_model(graph, tmp_path):
    proto = model(f"(float[2] x) => (float[2] y) {graph}", 13, ir=7)
    onnx.save(proto, tmp_path / "m.onnx")
    for ask in (
        lambda: may_use(proto, Consumer({"": 21}, 10)),
        lambda: accepts(proto, "onnxruntime==1.20"),
        lambda: survey(proto, ["onnxruntime==1.20"]),
    ):
        with pytest.raises(InvalidModel):
            ask()


def test_functions_count_with_what_they_import():
    text = """(float[2] x) => (float[2] y) { y = com.acme.Run(x) }
        <opset_import: ["" : 18], domain: "com.acme"> Run (v) => (w) { w = Mish(v) }"""
    proto = model(text, 15, more=', "com.acme" : 1')
    (told,) = may_use(proto, Consumer({"": 15})).reasons
    assert "18" in told
    assert "(Mish changed since that version)" in told


def test_the_command(tmp_path):
    onnx.save(versioned(), tmp_path / "m.onnx")

    def run(*words):
        return CliRunner().invoke(main, ["accepts", f"{tmp_path}/m.onnx", *words])

    assert run("--opset", "17", "--ir", "8", "--model-version", "1.2").exit_code == 0
    words = ("--ir", "8", "--model-version", "1.2", "--output-format", "json")
    for opset, answer, code in (("15", "may", 5), ("11", "no", 1)):
        done = run("--opset", opset, *words)
        document = json.loads(done.stdout)
        assert (done.exit_code, document["answer"], document["accepted"]) == (code, answer, False)
        assert (
            document["target"]
            == f"a consumer that supports opset {opset}, IR 8, model version 1.2.0"
        )
        assert len(document["reasons"] + document["conditions"]) == 1
    for words in ([], ["--for", "onnxruntime==1.10", "--ir", "8"], ["--model-version", "one"]):
        assert run(*words).exit_code == 2


def test_a_consumer_of_which_nothing_is_known():
    with pytest.raises(BadTarget, match="the consumer is not described"):
        Consumer()
