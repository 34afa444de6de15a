# SPDX-License-Identifier: Apache-2.0
"""`opshift accepts` for a consumer that knows certain versions."""

from __future__ import annotations

import json

import onnx
import pytest
from click.testing import CliRunner
from opshift import BadTarget, ModelVersion
from opshift.cli.entry import main
from opshift.convert.look.consumer import Consumer, may_use, written_for
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
        ({"": 15}, None, None, ["imports ai.onnx 17, and the consumer knows ai.onnx up to 15 (no op"]),
        ({"": 11}, None, None, ["up to 11 (Neg, Softmax changed since then); convert it with --to 11"]),
        ({}, 7, None, ["of IR 8, and the consumer reads IR up to 7; convert it with --ir 7"]),
        ({}, None, "2.0", ["another MAJOR version"]),
        ({}, None, "1.3", ["an older model may lack"]),
        ({}, None, "1.2.4", []),
        ({}, None, "1.2.3-rc.1+b7", []),
        ({}, None, "7", ["a plain number does not tell"]),
        ({"": 15}, 7, "2.0", ["of IR 8", "ai.onnx 17", "another MAJOR"]),
    ],
)  # fmt: skip
def test_the_rules(knows, ir, written, reasons):
    version = written_for(written) if written else None
    found = may_use(versioned(), Consumer(knows, ir, version))
    assert found.accepted is not bool(reasons)
    for told, part in zip(found.reasons, reasons, strict=True):
        assert part in told


def test_below_one_each_minor_version_may_break():
    found = may_use(versioned("0.3.0"), Consumer(model_version=written_for("0.2")))
    assert "below 1.0.0" in found.reasons[0]


def test_what_a_model_does_not_store_is_not_known():
    found = may_use(versioned(), Consumer(model_version=written_for("1.2.3-rc.1+b7")))
    assert found.unknown == (
        "whether the model is 1.2.3-rc.1+b7: a model does not store rc.1 and b7, so 1.2.3 was"
        " compared with 1.2.3",
    )


def test_a_domain_that_nobody_asked_about_is_not_known():
    proto = model(
        "(float[2] x) => (float[2] y) { y = com.acme.Run(x) }", 15, more=', "com.acme" : 3'
    )
    (told,) = may_use(proto, Consumer({"": 15})).unknown
    assert told == "whether the consumer knows com.acme 3; give --opset com.acme=N"
    assert not may_use(proto, Consumer({"": 15, "com.acme": 2})).accepted


def test_functions_count_with_what_they_import():
    text = """(float[2] x) => (float[2] y) { y = com.acme.Run(x) }
        <opset_import: ["" : 18], domain: "com.acme"> Run (v) => (w) { w = Mish(v) }"""
    proto = model(text, 15, more=', "com.acme" : 1')
    (told,) = may_use(proto, Consumer({"": 15})).reasons
    assert "18" in told
    assert "(Mish changed since then)" in told


def test_the_command(tmp_path):
    onnx.save(versioned(), tmp_path / "m.onnx")

    def run(*words):
        return CliRunner().invoke(main, ["accepts", f"{tmp_path}/m.onnx", *words])

    assert run("--opset", "17", "--ir", "8", "--model-version", "1.2").exit_code == 0
    no = run("--opset", "15", "--ir", "8", "--model-version", "1.2", "--output-format", "json")
    assert no.exit_code == 1
    told = json.loads(no.stdout)
    assert told["target"] == "a consumer that knows opset 15, IR 8, model version 1.2.0"
    assert len(told["reasons"]) == 1
    for words in ([], ["--for", "onnxruntime==1.10", "--ir", "8"], ["--model-version", "one"]):
        assert run(*words).exit_code == 2


def test_a_consumer_of_which_nothing_is_known():
    with pytest.raises(BadTarget, match="the consumer is not described"):
        Consumer()
