# SPDX-License-Identifier: Apache-2.0
"""`opshift info`: the summary of a model, and messages for files that are not models."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from opshift import (
    InvalidModel,
    ModelVersion,
    check,
    codes,
    convert,
    convert_version,
    lowest_versions,
)
from opshift.cli.entry import main
from opshift.look.info import info
from opshift.model.bytes import foreign
from opshift.opsets import installed_set, operator_set, schemas
from text_models import model

MODEL = Path(__file__).parents[2] / "examples" / "attention_opset12.onnx"


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_what_a_model_is():
    found, model = info(MODEL), onnx.load(MODEL)
    assert (found.ir_version, found.imports[""]) == (model.ir_version, 12)
    assert found.nodes == len(model.graph.node) == sum(found.operators.values())
    assert found.weights == len(model.graph.initializer)
    assert [text.partition(":")[0] for text in found.inputs] == [v.name for v in model.graph.input]
    low, high = found.same[""]
    assert low <= 12 <= high
    assert "onnxruntime" in found.runtimes


def test_the_command_and_its_short_form():
    assert run(MODEL).stdout == run("info", MODEL).stdout
    assert json.loads(run("info", MODEL, "--output-format", "json").stdout)["kind"] == "info"
    assert "reachable without a rewrite: opset 12, ai.onnx.ml 1 to 5" in run(MODEL).stdout
    assert f"opshift lowest {MODEL}" in run(MODEL).stdout


def test_where_the_adapters_can_lead_a_model(tmp_path):
    for opset, node, lowest in ((13, "Acos(x)", 7), (22, "Acos(x)", 7), (13, "Neg(x)", 1)):
        proto = model(f"(float[2] x) => (float[2] y) {{ y = {node} }}", opset)
        (path := tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
        found = info(path).reach[""]
        assert found[0] == lowest
        tried = lowest_versions(proto)[""]
        assert found[0] <= tried.lowest
        assert found[1] >= tried.highest


def test_it_costs_no_import_of_onnx():
    code = (
        f"import sys; from opshift.look.info import info; str(info({str(MODEL)!r}));"
        "print({'onnx', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


FOREIGN = {
    "GIT_LFS_POINTER": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "HTML_PAGE": b"\n<!DOCTYPE html><html></html>",
    "GZIP_FILE": b"\x1f\x8b\x08" + bytes(20),
    "ZIP_FILE": b"PK\x03\x04" + bytes(40),
    "PICKLE_FILE": b"\x80\x04\x95\x10" + bytes(20),
    "PYTORCH_FILE": b"PK\x03\x04" + bytes(26) + b"archive/data.pkl",
    "TFLITE_FILE": b"\x1c\0\0\0TFL3" + bytes(20),
    "ORT_FILE": b"\x1c\0\0\0ORTM" + bytes(20),
    "COMPRESSED_FILE": b"\xfd7zXZ\0" + bytes(20),
    "GGUF_FILE": b"GGUF\3\0\0\0" + bytes(20),
    "KERAS_FILE": b"PK\x03\x04" + bytes(26) + b"metadata.json",
    "OPENVINO_FILE": b'<?xml version="1.0"?>\n<net name="m" version="11"></net>',
    "HDF5_FILE": b"\x89HDF\r\n\x1a\n" + bytes(20),
    "SAFETENSORS_FILE": (20).to_bytes(8, "little") + b'{"a": 1}',
    "TAR_FILE": b"model.onnx".ljust(257, b"\0") + b"ustar" + bytes(250),
    "JSON_FILE": b' {"model": 1}',
    "TENSORFLOW_FILE": b'\x08\x01\x12\xa0\x0f\n\x07"\x05serve' + bytes(20),
    "TEXT_FILE": b"hello, I am no model",
}


@pytest.mark.parametrize("code", FOREIGN)
def test_a_file_that_is_something_else_is_named_with_its_cure(code, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(FOREIGN[code])
    with pytest.raises(InvalidModel) as caught:
        convert_version(path, 13)
    assert caught.value.code == code
    assert codes.page(code).cure in str(caught.value)
    for command in ("check", "info", "lowest", "targets"):
        document = json.loads(run(command, path, "--output-format", "json").stdout)
        assert (document["kind"], document["code"]) == ("error", code)


@pytest.mark.parametrize("command", ["check", "info"])
def test_a_file_that_is_nothing_known_is_no_model_to_check(command, tmp_path):
    (path := tmp_path / "m.onnx").write_bytes(bytes(range(256)))
    done = run(command, path)
    assert "not a readable ONNX model" in done.stderr
    assert codes.page("UNREADABLE_MODEL").cure in done.stderr
    assert "opshift check" not in done.stderr


def test_a_frozen_graph_is_a_tensorflow_file():
    node = b"\n\x01x\x12\x0bPlaceholder*\x0b\n\x05dtype\x12\x020\x01"
    assert foreign.code_of(b"\n" + bytes([len(node)]) + node) == "TENSORFLOW_FILE"


@pytest.mark.parametrize(("ir", "opset"), [(0, 13), (8, 0), (8, -1)])
def test_no_runtime_reads_a_version_that_does_not_exist(ir, opset):
    proto = model("(float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.ir_version, proto.opset_import[0].version = ir, opset
    assert info(proto).runtimes == ()


@pytest.mark.parametrize(("versions", "status"), [((13, 13), 0), ((13, 12), 1)])
def test_info_and_check_agree_about_repeated_imports(versions, status, tmp_path):
    import onnx

    proto = onnx.load(MODEL)
    del proto.opset_import[:]
    for domain, version in zip(("", "ai.onnx"), versions, strict=True):
        proto.opset_import.add(domain=domain, version=version)
    onnx.save(proto, path := tmp_path / "m.onnx")
    message = "the model imports domain 'ai.onnx' at several versions (12, 13); keep one"
    for command in ("info", "check"):
        done = run(command, path)
        assert done.exit_code == status
        assert (message in done.stdout + done.stderr) == bool(status)


def test_a_hint_for_a_name_with_a_leading_dash_is_a_command_that_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-m.onnx").write_bytes(MODEL.read_bytes())
    assert "opshift lowest ./-m.onnx\n" in run("info", "--", "-m.onnx").stdout


@pytest.mark.parametrize("ending", ["textproto", "json"])
def test_the_text_forms_of_onnx_are_read(ending, tmp_path):
    import onnx

    onnx.save(onnx.load(MODEL), path := tmp_path / f"m.{ending}")
    found, binary = info(path), info(MODEL)
    assert (found.imports, found.operators) == (binary.imports, binary.operators)
    assert found.size == path.stat().st_size


def test_a_model_without_imports_is_shown(tmp_path):
    import onnx

    proto = onnx.load(MODEL)
    del proto.opset_import[:]
    onnx.save(proto, path := tmp_path / "m.onnx")
    assert run("info", path).stdout.startswith(f"{path}: IR 7, and no opset is imported\n")
    assert info(path).runtimes == ()


def test_the_signature_has_sizes_symbols_and_types(tmp_path):
    proto = model(
        "(float[N,3] a, float[2,4] b, float c, seq(float[2]) d) => (int64[] y) { y = Size(a) }", 13
    )
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_value = -1
    proto.graph.input[1].type.tensor_type.shape.dim[1].Clear()
    proto.graph.input[2].type.tensor_type.ClearField("shape")
    onnx.save(proto, path := tmp_path / "m.onnx")
    facts_of_model = info(path)
    assert facts_of_model.inputs == ("a: float[N,3]", "b: float[-1,?]", "c: float", "d")
    assert facts_of_model.outputs == ("y: int64",)


def test_a_tensor_is_no_model(tmp_path):
    import numpy as np
    from onnx import numpy_helper

    path = tmp_path / "input_0.pb"
    path.write_bytes(numpy_helper.from_array(np.zeros(3, np.float32)).SerializeToString())
    assert "the model has no graph; is it an ONNX model?" in run("info", path).stderr


def test_a_message_names_no_message_type_of_ours(tmp_path):
    (path := tmp_path / "m.onnx").write_bytes(MODEL.read_bytes()[:5000])
    assert "opshift.outline" not in run("info", path).stderr


def described(rng):
    """A model with a random header, and weights inside and outside of its file."""
    import onnx

    proto = model("(float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.model_version = rng.choice([0, 7, 0x01020159, 0x0001000200000159])
    proto.domain = rng.choice(["", "ai.acme"])
    proto.doc_string = rng.choice(["", "what it is for\nand more"])
    for key in rng.sample(["author", "license", "Image.ColorSpaceGamma", "own"], rng.randrange(5)):
        proto.metadata_props.add(key=key, value=f"the {key}")
    outside: dict[str, int] = {}
    for number in range(rng.randrange(4)):
        kind, size = rng.choice([(onnx.TensorProto.FLOAT, 32), (onnx.TensorProto.INT4, 4)])
        dims = [rng.randint(1, 9), rng.randint(1, 300)]
        tensor = proto.graph.initializer.add(name=f"w{number}", data_type=kind, dims=dims)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        place = rng.choice(["a.bin", "b.bin"])
        length = -(-dims[0] * dims[1] * size // 8)
        tensor.external_data.add(key="location", value=place)
        if rng.random() < 0.5:
            tensor.external_data.add(key="length", value=str(length))
        outside[place] = outside.get(place, 0) + length
    return proto, outside


def test_info_shows_the_header_and_the_bytes_outside(tmp_path):
    import random

    rng = random.Random(39)
    for _ in range(100):
        made, outside = described(rng)
        (path := tmp_path / "m.onnx").write_bytes(made.SerializeToString())
        facts_of_model = info(path)
        assert facts_of_model.model_version == str(ModelVersion.unpack(made.model_version))
        assert (facts_of_model.domain, facts_of_model.doc_string) == (made.domain, made.doc_string)
        assert facts_of_model.metadata == {entry.key: entry.value for entry in made.metadata_props}
        assert facts_of_model.external == outside
        output = run("info", path, "-v").stdout
        assert ("model version" in output) == (facts_of_model.model_version != "0")
        assert f"domain {made.domain}" in output if made.domain else ", domain" not in output
        assert all(
            f"metadata {key}: {value}" in output for key, value in facts_of_model.metadata.items()
        )
        assert all(f"in {name}" in output for name in outside)
        in_memory = dataclasses.replace(info(made), path=facts_of_model.path)
        assert in_memory == facts_of_model


@pytest.mark.parametrize("command", ["info", "check"])
@pytest.mark.parametrize("name", ["ml.onnxopset", "ml"])
def test_a_document_of_an_operator_set_is_shown_as_one(command, name, tmp_path):
    found = installed_set.of_installed("ai.onnx.ml", 3)
    (path := tmp_path / name).write_bytes(operator_set.write(found))
    done = run(command, path)
    assert done.exit_code == 0
    count = len(found.operators)
    assert f"no model, but the operator set ai.onnx.ml 3 with {count} operators" in done.stdout
    assert all(operator.schema.name in done.stdout for operator in found.operators)
    told = run("convert", path, "-o", tmp_path / "o.onnx", "--to", 13)
    assert told.exit_code == 2
    assert codes.page("OPERATOR_SET_FILE").sentence in told.stderr


@pytest.mark.skipif(not schemas.latest("ai.onnx.preview"), reason="the installed onnx is too old")
def test_experimental_operators_are_named(tmp_path):
    text = """(float[1,2,5,8] x) => (float[1,2,5,8] y) {
        y = ai.onnx.preview.FlexAttention(x, x, x) }"""
    proto = model(text, 26, ir=11, more=', "ai.onnx.preview" : 1')
    (path := tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert info(path).experimental == ("ai.onnx.preview.FlexAttention",)
    assert "experimental" in run("info", path).stdout
    assert [finding.rule for finding in check(proto).found] == ["EXPERIMENTAL"]
    notes = convert(proto, 25).report.notes
    assert any("FlexAttention (1 node) is an experimental operator" in note for note in notes)
