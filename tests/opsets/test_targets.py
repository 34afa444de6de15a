# SPDX-License-Identifier: Apache-2.0
"""Runtimes as targets: the versions that a conversion chooses, up to those of the model."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime import InferenceSession
from opshift import (
    BadTarget,
    Refused,
    convert_file,
    convert_version,
    plan,
    plugins,
    toml,
    versions,
)
from opshift.adapter import misread
from opshift.cli.entry import main
from opshift.convert.cheapest_strategy import convert
from opshift.convert.request import Request
from opshift.look.accepts import accepts, survey
from opshift.look.known_targets import targets as known_targets
from opshift.look.rehearse import Rehearsals
from opshift.model import weights
from opshift.opsets import schemas, targets
from opshift.opsets.wanted import Wanted
from opshift.report import RuntimeAnswer
from text_models import model, ops

DEFAULT = targets._runtimes()["onnxruntime"].default  # the release if none is named
PLAIN = "(float[2] x) => (float[2] y) { y = Neg(x) }"


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize(
    ("text", "opset", "ir"),
    [
        ("onnxruntime==1.10", 15, 8),
        ("onnxruntime==1.10.0", 15, 8),
        ("ONNXRuntime == 1.26.2", 26, 13),
        ("tensorrt==8.4", 17, 8),
        ("tensorrt==8.4EA", 13, 7),
        ("tensorrt==8.4.1", 17, 8),
        ("tensorrt==9.3", 19, 9),
        ("jetpack==4.6", 13, 7),
        ("jetpack==4.6.1", 13, 7),
        ("winml:win10-2004", 9, 4),
        ("winml:Win10-1909", 8, 3),
        ("sentis", 15, 8),
        ("rknn-toolkit2==2.3", 19, 9),
        ("onnx==1.11", 16, 8),
        ("onnx==1.4", 9, 4),
        ("onnx==1.1.2", 6, 3),
    ],
)
def test_a_name_has_a_ceiling(text, opset, ir):
    release = targets.find(text)
    assert (release.imports[""], release.ir) == (opset, ir)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("onnxruntme==1.10", "no target is called 'onnxruntme'; did you mean onnxruntime"),
        ("tensorrt==4", "tensorrt 4 is not known; the known releases are 5.1, 6.0"),
        ("openvino", "openvino is given without a release; give one of 2022.1, 2023.0"),
        ("triton 23.05", "Triton runs the onnxruntime that it bundles; look up which one"),
        ("coreml", "no versions are known for 'coreml': Core ML reads no ONNX by itself"),
        (
            "deepstream 6.0",
            "DeepStream runs models with TensorRT, or with Triton; look up the TensorRT",
        ),
        (
            "Jetson Orin",
            'its JetPack brings the TensorRT that reads the model; use `target="jetpack==VERSION"`',
        ),
        ("ascend 310", "the name is that of a chip, and the release of its software CANN decides"),
        ("ml.net", 'Microsoft.ML.OnnxRuntime; use `target="onnxruntime==VERSION"`'),
        ("onnx.js", 'onnxruntime-web took its place; use `target="onnxruntime-web==VERSION"`'),
        ("wonnx", "no versions are known for 'wonnx': the authors of wonnx name opset 16"),
        ("horizon j6", "horizon j6 is not known; the known releases are x3"),
        ("onnx-tf", "no versions are known for 'onnx-tf': no number of this converter is known"),
        (
            "torch 2.1",
            "PyTorch writes ONNX and reads none; name the runtime that is to run the model",
        ),
        ("rocm 5.4", "migraphx 5.4 is not known; the known releases are 6.2.4..7.2.2"),
        ("zx81", "no target is called 'zx81'; if you know the versions"),
        (
            "foobar 3",
            "no target is called 'foobar'; if you know the versions that the runtime reads",
        ),
        ("tensorrt", "tensorrt is given without a release; give one of 5.1"),
        ("", "no target is called ''"),
        ("onnxruntime==one", "onnxruntime one is not known"),
        ("onnxruntime==", "'onnxruntime==' has no release after '=='; give one"),
        ("ort >= ", "'ort >=' has no release after '>='; give one"),
        ("sentis:", "'sentis:' has no release after ':'; give one"),
        ("13", "'13' is a version and not a runtime; give it as the version: `target=13`"),
        ("opset 13", "'opset 13' is a version and not a runtime"),
        (
            "latest",
            "'latest' is a version and not a runtime; give the number of the version: `target=N`",
        ),
        ("ai.onnx.ml=3", 'give it as the version: `target={"ai.onnx.ml": 3}`'),
        ("onnxruntime<=1.14", "names the newest release; give the oldest one that has to run"),
        ("ort < 1.12", "names the newest release"),
    ],
)
def test_a_name_that_nobody_knows_gets_the_nearest(text, sentence):
    with pytest.raises(BadTarget) as caught:
        targets.find(text)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "same", "remark"),
    [
        ("ort 1.10", "onnxruntime==1.10", ""),
        ("onnxruntime-gpu==1.16", "onnxruntime==1.16:cuda", ""),
        ("onnxruntime-web", f"onnxruntime=={DEFAULT}:wasm", f"release {DEFAULT} is used"),
        ("OnnxRuntime 1.20:CUDA", "onnxruntime==1.20:cuda", ""),
        ("ort==1.20:cpu", "onnxruntime==1.20", ""),
        ("windowsml:win10-2004", "winml==win10-2004", ""),
        ("onnxruntime>=1.10", "onnxruntime==1.10", "later releases run its models too"),
        (">=1.10", "onnxruntime==1.10", "names no runtime"),
        ("JetPack 4.6", "jetpack==4.6", ""),
        ("jetpack==6.1", "tensorrt==10.3", ""),
        ("trt 8.4", "tensorrt==8.4", ""),
        (
            "tensorrt==10.16",
            "tensorrt==10.15",
            "tensorrt 10.16 is not known; the nearest releases 10.15 and 11.0 are used",
        ),
        (
            "tensorrt==10.x",
            "tensorrt==10.0",
            "tensorrt 10 stands for several releases; the oldest known one, 10.0",
        ),
        ("tensorrt 8", "tensorrt==8.0", "the oldest known one, 8.0, is used"),
        ("ov 2022", "openvino==2022.1", "the oldest known one, 2022.1, is used"),
        ("ort==1.10.0rc1", "onnxruntime==1.10", ""),
        ("rocm 6.3", "migraphx==7.0", ""),
        ("win10", "winml==win10-1809", "release 1809 is used"),
        ("Windows 10 2004", "winml==win10-2004", ""),
        ("windows 11", "winml==win11", ""),
        ("rknn 2.0", "rknn-toolkit2==1.6", ""),
        ("ascend 7.0", "cann==7.0", ""),
        ("opencv 4.8", "opencv==4.8", ""),
        ("opencv-contrib-python==4.8", "opencv==4.8", ""),
        ("onnxruntime-training 1.15", "onnxruntime==1.15", ""),
        ("tensorrt 8.4 GA", "tensorrt==8.4GA", ""),
        ("TensorRT 8.4-EA", "tensorrt==8.0", ""),
        ("tensorrt 10.14", "tensorrt==10.14", ""),
        ("TensorRT 10.13", "tensorrt==10.9", ""),
        ("JetPack 5.0", "tensorrt==8.4.1", "the oldest known one, 5.0.2, is used"),
        ("jetpack 7.1", "tensorrt==10.13", "jetpack 7.1 is newer than the known releases"),
        ("windows 19041", "winml==win10-2004", ""),
        ("Windows build 22000", "winml==win11", ""),
        ("windows 19045", "winml==win10-2004", "the nearest releases 19041 and 22000 are used"),
        (
            "windows 26100",
            "winml==win11",
            "is newer than the known releases; release 22000 is used",
        ),
        ("Windows 11 24H2", "winml==win11", "ends with build 22000 of Windows 11"),
        ("rknn", "rknn-toolkit2==2.5", "no release of rknn-toolkit2 is named; release 2.5 is used"),
        ("rknn 1.7", "rknn-toolkit2==1.5", "for the older RKNN-Toolkit, give rknn-toolkit==1.7"),
        ("RKNN Toolkit 2 2.3", "rknn-toolkit2==2.3", ""),
        ("Unity Inference Engine 2.6", "sentis==2.6", ""),
        ("KL720 0.25", "kneron==0.25", ""),
    ],
)
def test_names_as_people_type_them(text, same, remark):
    found, meant = targets.find(text), targets.find(same)
    assert (found.imports, found.ir, found.without) == (meant.imports, meant.ir, meant.without)
    assert remark in found.remark
    assert bool(found.remark) == bool(remark)


def test_a_release_above_the_known_ones_counts_as_the_newest():
    listed = [row.versions for row in targets.table() if row.name == "onnxruntime"]
    newest = listed[-1].rpartition("..")[2]
    release = targets.find("onnxruntime==1.99")
    assert release.imports == targets.find(f"onnxruntime=={newest}").imports
    assert f"is newer than the known releases; release {newest} is used" in release.remark


@settings(deadline=None)
@given(
    st.sampled_from(sorted((row.name, n) for row in targets.table() for n in [row.versions])),
    st.sampled_from(["==", "=", " ", ":", "@", " v", "-"]),
    st.booleans(),
)
def test_every_alias_and_sign_means_the_same_release(release, sign, shout):
    name, listed = release
    version = listed.split(",")[0].partition("..")[0]
    sign = " " if not version[:1].isdigit() and "v" in sign else sign  # "v" is for numbers
    for alias in (name, *targets.names()[name]):
        typed = alias + sign + version if version else alias
        found = targets.find(typed.upper() if shout else typed)
        plain = f"{name}=={version}" if version else name
        assert (found.name, found.remark) == (name, targets.find(plain).remark)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("transformers.js", 'use `target="onnxruntime-web==VERSION"`'),
        ("webgpu", "if onnxruntime-web runs the model there"),
        ("rk3588", 'use `target="rknn==VERSION"`'),
        ("raspberry pi", "name what runs the model on it"),
    ],
)
def test_a_name_of_something_else_is_answered_with_its_meaning(text, sentence):
    with pytest.raises(BadTarget) as caught:
        targets.find(text)
    assert sentence in str(caught.value)


# What people have, as they write it: a row of this name, or one sentence where there is none.
ASKED_FOR = {
    "jetpack": ["JetPack 5.0", "JetPack 5.1.3", "jetpack==6.0", "JetPack 6.2", "JetPack 7"],
    "tensorrt": [f"TensorRT 10.{minor}" for minor in range(2, 14)],
    "winml": ["Windows 19041", "Windows build 22000", "windows-26100", "windows 10.0.26100"],
    "rknn-toolkit": ["rknn-toolkit 1.6", "RKNN_Toolkit==1.7.5", "rknn toolkit"],
    "rknn-toolkit2": ["rknn-toolkit2 1.4", "RKNN-Toolkit2 1.5.2", "rknn_toolkit2==2.5.0", "rknn 2.3"],
    "sentis": ["Unity Inference Engine", "Inference Engine 2.2", "Unity Sentis 2.1", "sentis"],
    "kneron": ["Kneron", "kl730"],
    "ryzen-ai": ["Ryzen AI", "RyzenAI 1.4"],
    "axera": ["Axera", "Pulsar2", "AX650"],
    "horizon": ["Horizon", "hb_mapper"],
    "tvm": ["TVM", "Apache TVM 0.27"],
    "tinygrad": ["tinygrad", "tinygrad 0.14"],
    "mnn": ["MNN", "MNN 3.6.1"],
    "iree": ["IREE", "iree-base-compiler 3.13"],
    "onnx2torch": ["onnx2torch", "onnx2torch==1.5.15"],
    "onnx2tf": ["onnx2tf", "onnx2tf==1.29.24"],
    "oracle database": ["Oracle Database 23", "oracle==23ai"],
    "sima": ["SiMa.ai 1.4", "SiMa MLSoC 1.4"],
    "x2paddle": ["X2Paddle", "x2paddle 1.4"],
    "": [
        "TensorRT-RTX", "TensorRT for RTX 1.1", "Windows App SDK 1.8", "Coral", "Edge TPU", "eIQ",
        "Qualcomm AI Hub", "qai_hub", "ExecuTorch 1.0", "rten 0.23", "K230", "nncase 2.11",
        "RV1126", "TPU-MLIR 1.20", "Sophgo", "BM1684X", "MindSpore Lite",
        "DeepSparse", "HailoRT 4.20", "Ethos-U", "Vela", "Edge Impulse", "hls4ml", "FINN", "DX-COM",
        "CVflow", "Vespa", "Azure SQL Edge",
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", [text for texts in ASKED_FOR.values() for text in texts])
def test_what_people_have_is_found_or_answered_with_one_sentence(text):
    (expected,) = (name for name, texts in ASKED_FOR.items() if text in texts)
    try:
        assert targets.find(text).name == expected
    except BadTarget as answer:
        assert not expected, answer
        sentence = str(answer).removeprefix(f"no versions are known for {text!r}: ")
        assert re.search(r"; .*`target=", sentence), sentence
        assert not re.search(r"[.!?] [A-Z]", sentence), sentence


def test_every_name_without_a_number_says_what_to_do():
    for name, spellings in targets.names().items():
        if targets._runtimes()[name].answer:
            for one in (name, *spellings):
                with pytest.raises(BadTarget, match=r"; |\. .*`target=") as caught:
                    targets.releases_of(one)
                assert "`target=" in str(caught.value), one


def test_every_row_finds_itself():
    for row in targets.table():
        for word in row.versions.split(","):
            low, dots, high = word.strip().partition("..")
            assert targets.find(f"{row.name}=={low}" if low else row.name).imports == row.imports
            if dots and high:
                assert targets.find(f"{row.name}=={high}").imports == row.imports
        assert row.source
        assert row.date or row.name == "onnx"
        assert row.ir or "" not in row.imports  # every ceiling has its IR version


def test_the_shipped_table_says_what_targets_toml_says():
    text = plugins.data("opshift.opsets", "targets.toml").decode()
    found = plugins.data("opshift.opsets", targets.SHIPPED).decode()
    assert found == targets.shipped_of(text), "run `python -m tools.author update targets`"


def test_every_fact_of_a_row_has_its_source_and_date():
    """The versions have the source and date of the row, and each other field has its own."""
    shipped = toml.loads(plugins.data("opshift.opsets", "targets.toml").decode())
    for row in targets.table():
        if row.name == "onnx" or row.same_as:
            continue
        stated = {"without": row.without, "types": row.texts("types"),
                  "inputs": row.texts("inputs"), "outputs": row.texts("outputs"),
                  "functions": not row.functions, "prefer": row.prefer, "kernels": row.kernels}  # fmt: skip
        facts = [row.facts[name] for name, value in stated.items() if value]
        for fact in (*facts, row):
            assert fact.source, row.shown
            assert re.fullmatch(r"20\d\d-\d\d-\d\d", fact.date), row.shown
    for name, raw in shipped.items():
        used = {field for row in raw.get("releases", ()) for field in (*row, *raw)}
        assert {fact["name"] for fact in raw.get("facts", ())} <= used, name


def test_onnx_itself_follows_from_its_version_table():
    for release in versions.RELEASES:
        found = targets.find(f"onnx=={release.name}")
        assert (found.imports[""], found.ir) == (release.onnx, release.ir)


def test_everything_is_set_together_and_only_downwards():
    after = convert_version(model(PLAIN, 19, ir=9), "onnxruntime==1.10")
    assert (after.opset_import[0].version, after.ir_version) == (15, 8)
    older = model(PLAIN, 11, ir=6)
    assert convert_version(older, "onnxruntime==1.10") == older


def test_ml_comes_along():
    text = '<ir_version: 9, opset_import: ["" : 19, "ai.onnx.ml" : 3]> g (float[2,2] x) => (float[2,2] y) { a = ai.onnx.ml.Normalizer(x) y = Neg(a) }'
    after = convert_version(onnx.parser.parse_model(text), "onnxruntime==1.8")
    assert [(i.domain, i.version) for i in after.opset_import] == [("", 14), ("ai.onnx.ml", 2)]


def test_at_least_raises_and_knows_the_ceiling():
    after = convert_version(model(PLAIN, 11, ir=6), "onnxruntime==1.10", at_least=13)
    assert (after.opset_import[0].version, after.ir_version) == (13, 7)
    with pytest.raises(BadTarget, match="up to 15, but 16 was requested"):
        convert_version(model(PLAIN, 11), "onnxruntime==1.10", at_least=16)
    with pytest.raises(BadTarget, match="reads IR versions up to 8, but 9 was requested"):
        convert_version(model(PLAIN, 11), "onnxruntime==1.10", ir_version=9)
    assert convert_version(model(PLAIN, 11), at_least=13).opset_import[0].version == 13
    assert convert_version(model(PLAIN, 15), at_least=13).opset_import[0].version == 15
    with pytest.raises(BadTarget, match="at_least cannot be combined with exact versions"):
        convert_version(model(PLAIN, 11), 12, at_least=13)


def test_unused_imports_go_with_a_named_target():
    before = model(PLAIN, 15, more=', "com.microsoft" : 1')
    assert len(convert_version(before, "onnxruntime==1.10").opset_import) == 1
    assert len(convert_version(before, "onnxruntime==1.10", prune_imports=False).opset_import) == 2
    assert len(convert_version(before, 14).opset_import) == 2
    assert len(convert_version(before, 14, prune_imports=True).opset_import) == 1


@pytest.mark.parametrize(
    ("release", "more", "sentence"),
    [
        ('version = "2"', "", "has the unknown field 'version'; did you mean versions?"),
        ("onnx = 12", "", "a release of edge has no versions; add this field"),
        ('versions = "2", onnx = "12"', "", "is '12'; give a number or a list"),
        ('versions = "2", onnx = [12, 7]', "", "is [12, 7]; give the lowest version first"),
        ('versions = "2", domains = ["x"]', "", "is ['x']; give a table"),
        ('versions = "2"', 'aliases = "e"', "aliases of edge is 'e'; give a list"),
    ],
)
def test_a_mistake_in_a_file_of_ones_own_is_named(tmp_path, monkeypatch, release, more, sentence):
    own = tmp_path / "targets.toml"
    own.write_text(f"[edge]\n{more}\nreleases = [{{ {release} }}]\n")
    monkeypatch.setenv("OPSHIFT_TARGETS", str(own))
    with pytest.raises(BadTarget, match=re.escape(sentence)):
        targets.find("edge==2")


def test_a_file_of_ones_own(tmp_path, monkeypatch):
    own = tmp_path / "targets.toml"
    own.write_text('[edge]\nsource = "us"\nreleases = [{versions = "2", onnx = 12, ir = 7}]\n')
    monkeypatch.setenv("OPSHIFT_TARGETS", str(own))
    assert convert_version(model(PLAIN, 15), "edge==2.1").opset_import[0].version == 12
    for broken in ("[edge", "edge = 1", '[edge]\nreleases = [{versions = "2", opset = 12}]'):
        own.write_text(broken)
        with pytest.raises(BadTarget, match=r"targets\.toml is not a list of targets"):
            targets.find("edge==2")


def test_a_package_may_bring_targets(tmp_path, monkeypatch):
    package = tmp_path / "acme_targets_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "targets.toml").write_text('[acme]\nreleases = [{versions = "1", onnx = 11}]\n')
    dist = tmp_path / "acme_targets-1.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-targets\nVersion: 1\n")
    (dist / "entry_points.txt").write_text("[opshift.targets]\nacme = acme_targets_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert targets.find("acme==1").imports == {"": 11}


def test_the_command(tmp_path):
    onnx.save(model(PLAIN, 19, ir=9, more=', "acme" : 1'), tmp_path / "in.onnx")
    done = run("convert", tmp_path / "in.onnx", "--for", "tensorrt==8.4", "-o", tmp_path / "o.onnx")
    assert done.exit_code == 0, done.stderr
    assert [i.version for i in onnx.load(tmp_path / "o.onnx").opset_import] == [17]
    assert "removed the unused import acme 1" in done.stdout
    bad = run("convert", tmp_path / "in.onnx", "--for", "tensort==8.4", "--in-place")
    assert bad.exit_code == 2
    assert "did you mean tensorrt" in bad.stderr
    words = ("--for", "onnxruntime==1.10", "--to", "16")
    assert (
        "up to 15, but 16 was requested"
        in run("convert", tmp_path / "in.onnx", "--in-place", *words).stderr
    )
    assert "Possible" in run("plan", tmp_path / "in.onnx", "--for", "onnx==1.11").stdout


def test_a_model_below_the_floor_is_raised_and_this_is_noted(tmp_path):
    text = "(float[2,3] x, float[3,2] a, float[2] b) => (float[2,2] y) { y = Gemm<broadcast = 1>(x, a, b) }"
    onnx.save(model(text, 6, ir=3), tmp_path / "in.onnx")
    report = convert_file(tmp_path / "in.onnx", tmp_path / "o.onnx", "onnxruntime==1.10")
    assert report.result == {"": 7}
    assert (
        "raised to ai.onnx 7: onnxruntime==1.10 has no kernels for a lower version" in report.notes
    )
    assert convert_version(model(PLAIN, 9), "rknn 2.0").opset_import[0].version == 12
    with pytest.raises(BadTarget, match=r"reads ai.onnx from 7 on, but 6 was requested"):
        run_for("onnxruntime==1.10", model(PLAIN, 9), exact={"": 6})


def run_for(name, proto, **more):
    wanted = Wanted(targets.find(name), **more)
    return convert(lambda: weights.carve_model(proto), Request(wanted))


FOREIGN = [
    ("com.microsoft", "Rfft(x)", "tensorrt==8.4"),
    ("com.microsoft", "Rfft(x)", "onnx==1.16"),
    ("ai.onnx.ml", "Normalizer(x)", "tensorrt==8.4"),
]


@pytest.mark.parametrize(("domain", "call", "target"), FOREIGN)
def test_a_domain_that_the_runtime_lacks_is_a_named_blocker(domain, call, target):
    before = model(
        f"(float[2,2] x) => (float[2,2] y) {{ y = {domain}.{call} }}",
        16,
        ir=8,
        more=f', "{domain}" : 1',
    )
    if schemas.latest(domain) is None and domain in versions.DOMAINS:
        pytest.skip("the installed onnx has no such domain")
    for look in (convert_version, lambda *args: refuse(plan(*args))):
        with pytest.raises(
            Refused, match=f"has no domain {domain}, to which {call.partition('(')[0]}"
        ):
            look(before, target)


def refuse(found):
    if found.refusals:
        raise Refused(found.refusals, {}, {})


def test_a_domain_that_nobody_knows_is_kept_and_noted(tmp_path):
    onnx.save(
        model("(float[2] x) => (float[2] y) { y = com.acme.Run(x) }", 15, more=', "com.acme" : 1'),
        tmp_path / "in.onnx",
    )
    for target in ("tensorrt==8.4", "sentis==2.1", "onnxruntime==1.10"):
        report = convert_file(tmp_path / "in.onnx", tmp_path / "o.onnx", target)
        message = f"whether {target} has the domain com.acme (1 node)"
        assert report.runtime is not None
        assert message in report.runtime.unknown
        assert report.runtime.answer == "not known"
        answer = accepts(tmp_path / "in.onnx", target)
        assert (answer.answer, answer.unknown[0]) == ("not known", message)


def test_an_operator_that_the_runtime_lacks_is_written_out_at_the_same_opset():
    before = model(
        "(float[2,4] x, float[4] s, float[4] b) => (float[2,4] y) { y = LayerNormalization<axis = -1>(x, s, b) }",
        17,
    )
    after = convert_version(before, "tensorrt==8.4")
    assert after.opset_import[0].version == 17
    assert "LayerNormalization" not in ops(after)
    converted = convert_version(before, "tensorrt==8.6")
    assert "LayerNormalization" in ops(converted)
    assert "LayerNormalization" in ops(convert_version(before, "onnxruntime==1.14"))
    feed = {
        "x": np.arange(8, dtype=np.float32).reshape(2, 4),
        "s": np.ones(4, np.float32),
        "b": np.zeros(4, np.float32),
    }
    got = [InferenceSession(m.SerializeToString()).run(None, feed)[0] for m in (before, after)]
    np.testing.assert_allclose(*got, rtol=1e-5)


def test_functions_are_written_out_for_a_runtime_that_cannot_run_them():
    text = """(float[2] x) => (float[2] y) { y = acme.Twice(x) }
        <opset_import: ["" : 15], domain: "acme"> Twice (v) => (w) { w = Add(v, v) }"""
    before = model(text, 15, ir=8, more=', "acme" : 1')
    after = convert_version(before, "onnxruntime==1.10")
    assert (ops(after), len(after.functions)) == ("Add", 0)
    assert after.ir_version == 8
    assert len(convert_version(before, "onnxruntime==1.11").functions) == 1


def test_a_runtime_without_a_ceiling_gets_the_opset_that_it_reads_best():
    text = (
        "(float[2,4] x) => (float[2,1] y) { a = Constant<value_ints = [1]>() y = ReduceMean(x, a) }"
    )
    before = model(text, 20, ir=9)
    assert convert_version(before, "openvino==2022.1").opset_import[0].version == 11
    assert convert_version(before, "openvino==2023.0").opset_import[0].version == 13
    assert convert_version(before, "openvino==2024.6").opset_import[0].version == 15
    assert convert_version(before, "opencv==4.11").opset_import[0].version == 20
    after = convert_version(before, "opencv==4.5.5")
    assert after.opset_import[0].version == 17  # Reduce* takes its axes as an attribute
    top = model("(float[4] x) => (float[2] y, int64[2] i) { y, i = TopK<k = 2>(x) }", 9)
    assert convert_version(top, "tract").opset_import[0].version == 10


def test_a_result_that_the_runtime_cannot_run_is_written_only_on_request(tmp_path, with_adapters):
    @misread("MaxPool", "edge 1", "it does not read pads", source="2026-01-02 us")
    def with_pads(node):
        return node.has("pads")

    with_adapters(with_pads)
    text = (
        "(float[1,3,2,2] x) => (float[1,3,2,2] y) {"
        " s = MaxPool<kernel_shape = [1, 1], pads = [0, 0, 0, 0]>(x) y = Relu(s) }"
    )
    own = '[edge]\nsource = "us"\nreleases = [{versions = "1"}]'
    (tmp_path / "t.toml").write_text(own)
    onnx.save(model(text, 15), tmp_path / "in.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPSHIFT_TARGETS", str(tmp_path / "t.toml"))
        with pytest.raises(Refused) as caught:
            convert_file(tmp_path / "in.onnx", tmp_path / "o.onnx", "edge==1")
        assert not (tmp_path / "o.onnx").exists()
        done = run("convert", tmp_path / "in.onnx", "-o", tmp_path / "o.onnx", "--for", "edge==1")
        report = convert_file(
            tmp_path / "in.onnx", tmp_path / "o.onnx", "edge==1", keep_unrunnable=True
        )
    says = "edge==1: it does not read pads"
    first = "Converted, but edge==1 cannot run it: "
    assert str(caught.value).startswith(f"{first}{says} (s). Nothing was written.")
    assert (done.exit_code, done.stderr.startswith(first)) == (1, True)
    assert report.runtime == RuntimeAnswer(
        "edge==1", "no", (f"{says} ('s')",), report.runtime.unknown
    )
    assert (tmp_path / "o.onnx").exists()


def test_the_table():
    text = run("targets").stdout
    assert ["onnxruntime", "1.10", "7-15", "2", "8"] in [
        row.split()[:5] for row in text.splitlines()
    ]
    assert "tensorrt==8.0" in run("targets", "jetpack").stdout
    raw = json.loads(run("targets", "sentis", "--output-format", "json").stdout)
    assert raw["targets"][0]["imports"] == {"": 15}


def test_a_plan_for_a_name():
    assert plan(model(PLAIN, 19), "onnxruntime==1.10").target == {"": 15}


def test_accepts_looks_at_ir_operator_sets_operators_and_forms(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model(PLAIN, 15, ir=8), path)
    done = run("accepts", path, "--for", "ort 1.10")
    assert (done.exit_code, done.stdout) == (0, "Yes: onnxruntime==1.10 accepts the model.\n")
    layer = "LayerNormalization<axis = -1>(x, x)"
    onnx.save(model(f"(float[2] x) => (float[2] y) {{ y = {layer} }}", 18, ir=10), path)
    for name, reasons in {
        "onnxruntime==1.10": [
            "the model has IR 10; onnxruntime==1.10 reads IR only up to 8",
            "imports ai.onnx 18",
        ],
        "tensorrt==8.4": ["has IR 10", "imports ai.onnx 18", "does not read LayerNormalization 17"],
        "openvino 2022.1": ["does not read LayerNormalization 17"],
        "onnxruntime==1.18": [],
    }.items():
        done = run("accepts", path, "--for", name, "--output-format", "json")
        document = json.loads(done.stdout)
        assert (done.exit_code, document["accepted"]) == (int(bool(reasons)), not reasons)
        assert len(document["reasons"]) == len(reasons)
        for reason, found in zip(reasons, document["reasons"], strict=True):
            assert reason in found
    old = "(float[2,3] x, float[3,2] a, float[2] b) => (float[2,2] y) { y = Gemm<broadcast = 1>(x, a, b) }"
    onnx.save(model(old, 6, ir=3), path)
    done = run("accepts", path, "--for", "onnxruntime==1.10")
    assert "has no kernels for Gemm of ai.onnx 6; it has kernels from ai.onnx 7 on" in done.stdout
    onnx.save(model(PLAIN, 6, ir=3), path)  # Neg is read as it is since opset 6
    assert run("accepts", path, "--for", "onnxruntime==1.10").exit_code == 0


@pytest.mark.parametrize(("release", "compares"), [("0.2", False), ("1.1", False), ("1.2", True)])
def test_a_release_that_compares_no_versions_loads_a_newer_model(tmp_path, release, compares):
    path = tmp_path / "m.onnx"
    onnx.save(model(PLAIN, 15, ir=8), path)
    output = run("accepts", path, "--for", f"onnxruntime=={release}").stdout
    assert output.startswith("No")
    assert ("loads the model unchecked, but supports ai.onnx only" in output) != compares
    assert ("loads the model unchecked, but supports IR" in output) != compares


def test_what_was_assumed_about_a_runtime_is_no_gap_in_what_is_known(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model(PLAIN, 15, ir=8), path)
    assumed = (
        "tensorrt 10.16 is not known; the nearest releases 10.15 and 11.0 are used, as far"
        " as they agree"
    )
    done = run("accepts", path, "--for", "trt 10.16").stdout.splitlines()
    assert done[0] == (
        "Not known: the versions fit tensorrt==10.16; whether it runs the model is not known."
    )
    assert done[-1] == f"  note: {assumed}"
    document = json.loads(
        run("accepts", path, "--for", "trt 10.16", "--output-format", "json").stdout
    )
    assert document["remarks"] == [assumed]
    assert assumed not in document["unknown"]
    assert run("targets", path, "trt 10.16").stdout.splitlines()[-1] == f"note: {assumed}"


NEIGHBOURS = {
    ("onnxruntime==1.10", "Transpose"): (
        "(float[2,3] x, bool t) => (float[3,2] y, float[2,3] z) {{ u = Transpose(x) z = {beside}"
        " y = If<then_branch = a () => (float[3,2] p) {{ p = Neg(u) }},"
        " else_branch = b () => (float[3,2] q) {{ q = Abs(u) }}>(t) }}",
        {"Transpose(u)": True, "Neg(x)": False},
        "beside",
    ),
    ("onnxruntime==1.3", "Add"): (
        "(float[2,3] x, float[3] b, float r) => (float[2,3] y) {{ s = Add({inputs}) d = Div(s, r)"
        " y = Erf(d) }}",
        {"b, x": True, "x, b": False},
        "inputs",
    ),
    ("onnxruntime==1.2", "Add"): (
        "(float[1,2,3] x, float[1,2,3] z) => (float[1,2,3] y) {{ s = Add(x, z)"
        " d = Sub({first}) n = Div(d, x) y = Mul(n, x) }}",
        {"s, x": True, "x, s": False},
        "first",
    ),
    ("onnxruntime==1.16", "Cast"): (
        "(int32[2] x) => (float[2] y, int64[1] w) {{ a = Cast<to = 2>(x) y = Cast<to = 1>(a)"
        " b = {beside} w = Shape(b) }}",
        {"Cast<to = 11>(a)": True, "Add(x, x)": True, "Identity(a)": False},
        "beside",
    ),
    ("openvino==2023.0", "MatMulInteger"): (
        "(float[2,3] x, uint8[2,3] u, int8[3,2] w) => (int32[2,2] y) {{"
        " q, s, z = DynamicQuantizeLinear(x) y = MatMulInteger({first}, w) }}",
        {"q": True, "u": False},
        "first",
    ),
    ("openvino==2022.1", "Div"): (
        "(int64[2] x) => (int64[2] y) {{ a = {first} y = Div(a, x) }}",
        {"Add(x, x)": True, "Identity(x)": False},
        "first",
    ),
    ("openvino==2022.1", "QuantizeLinear"): (
        "(float[2] x) => (uint8[2] y) <float s = {{{scale}}}> {{ y = QuantizeLinear(x, s) }}",
        {"1e34": True, "1e33": False},
        "scale",
    ),
}
UNMENDED = ("Div", "QuantizeLinear", "MatMulInteger")  # no other form of them is known to run


@pytest.mark.parametrize("name", NEIGHBOURS, ids=" ".join)
def test_the_nodes_around_a_node_decide_whether_a_runtime_runs_it(name, tmp_path):
    runtime, op = name
    text, cases, field = NEIGHBOURS[name]
    for value, expected in cases.items():
        path = tmp_path / "m.onnx"
        onnx.save(model(text.format(**{field: value}), 11, ir=6), path)
        reasons = accepts(path, runtime).reasons
        assert any(op in reason for reason in reasons) == expected
        if op not in UNMENDED:
            assert accepts(convert_version(onnx.load(path), runtime), runtime).accepted


MOVED = (
    "(float[2,3] x, bool t) => (float[3,2] y, float[2,3] z) {{ v = Transpose<perm = [1,0]>(x)"
    " s = {op}(v) u = Relu(s) z = {beside} y = If<then_branch = a () => (float[3,2] p)"
    " {{ p = Neg(u) }}, else_branch = b () => (float[3,2] q) {{ q = Abs(u) }}>(t) }}"
)


@pytest.mark.parametrize(
    ("op", "beside", "moved"),
    [
        ("Neg", "Transpose<perm = [1,0]>(u)", True),
        ("Cast<to = 1>", "Transpose<perm = [1,0]>(u)", True),
        ("Elu", "Transpose<perm = [1,0]>(u)", False),  # that release does not move it through Elu
        ("Neg", "Neg(x)", False),  # nothing beside reads u
    ],
)
def test_a_transpose_is_moved_through_nodes_to_a_value_that_a_branch_reads(
    op, beside, moved, tmp_path
):
    path = tmp_path / "m.onnx"
    onnx.save(model(MOVED.format(op=op, beside=beside), 15, ir=8), path)
    reasons = accepts(path, "onnxruntime==1.10").reasons
    assert (
        any("a Transpose may not load if both a Loop or If body" in reason for reason in reasons)
        == moved
    )
    after = convert_version(onnx.load(path), "onnxruntime==1.10")
    assert accepts(after, "onnxruntime==1.10").accepted
    assert ("Reshape" in ops(after)) == moved


def test_a_model_without_the_import_of_a_domain_is_invalid(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model("(float[2] x) => (float[2] y) { y = acme.Fancy(x) }", 13, ir=7), path)
    done = run("accepts", path, "--for", "onnxruntime==1.10")
    assert done.exit_code == 1
    assert "is of domain 'acme', which the model does not import" in done.stderr
    proto = onnx.load(path)
    proto.opset_import.add(domain="acme", version=1)
    onnx.save(proto, path)
    assert run("accepts", path, "--for", "onnxruntime==1.10").exit_code == 5


@pytest.mark.parametrize(("op", "runs"), [("IsAllFinite", False), ("QuickGelu", True)])
def test_a_model_and_every_runtime(op, runs, tmp_path):
    path = tmp_path / "m.onnx"
    text = f"(float[2] x) => (float[2] y) {{ y = com.microsoft.{op}(x) }}"
    onnx.save(model(text, 15, ir=8, more=', "com.microsoft" : 1'), path)
    document = json.loads(run("targets", path, "--json").stdout)
    fits = {fit["target"]: fit for fit in document["fits"]}
    assert {row.shown for row in targets.table() if row.name != "onnx"} == set(fits)
    for release, fit in (("1.10", False), ("1.14", runs)):
        ort = fits[f"onnxruntime=={release}"]
        assert (ort["now"], ort["after"]) == (fit, runs)
    blockers = "".join(fits["onnxruntime==1.10"]["blockers"])
    assert ("has no kernel on the CPU in onnxruntime 1.10" in blockers) != runs
    trt = fits["tensorrt==9"]
    assert (trt["now"], "has no domain com.microsoft" in str(trt["reasons"])) == (False, True)


def test_the_first_reason_is_told_with_what_it_is_about(tmp_path):
    path = tmp_path / "m.onnx"
    text = "(float[2,2] x) => (float[2,2] y) { y = com.microsoft.Inverse(x) }"
    onnx.save(model(text, 18, ir=10, more=', "com.microsoft" : 1'), path)
    survey = run("targets", path, "ort 1.14", "trt 8.6").stdout
    now, never = (re.split(r"  +", line) for line in survey.splitlines()[1:])
    assert now[1:3] == ["no", "yes"]
    assert now[3] == "now: the model has IR 10; onnxruntime==1.14 reads IR only up to 8"
    assert never[1:3] == ["no", "no"]
    assert never[3].startswith("after conversion: com.microsoft.Inverse ")


SURVEYED = {
    "plain": (PLAIN, 18, ""),
    "bfloat16": ("(bfloat16[2] x) => (bfloat16[2] y) { y = Add(x, x) }", 16, ""),
    "no equal form": ("(int16[3] x) => (int16[3] y) { y = BitwiseXor(x, x) }", 20, ""),
    "written out": ("(float[2,4] x, float[4] s) => (float[2,4] y) { y = LayerNormalization(x, s) }", 17, ""),
    "reduced": ("(float[2,4] x, int64[1] a) => (float[2,1] y) { y = ReduceL1(x, a) }", 18, ""),
    "a domain": ("(float[2] x) => (float[2] y) { y = com.microsoft.QuickGelu(x) }", 17, ', "com.microsoft" : 1'),
    "a loop": ('(float[2] x) => (float[2] y) <int64 n = {3}> { y = Loop(n, "", x) <body = b (int64 i, bool k, float[2] p) => (bool o, float[2] q) { o = Identity(k) q = Add(p, p) } > }', 15, ""),
}  # fmt: skip


@pytest.mark.skipif((schemas.latest("") or 0) < 20, reason="the installed onnx is too old")
@pytest.mark.parametrize("name", SURVEYED)
def test_a_result_for_one_runtime_answers_for_another_one_as_its_own_would(name, tmp_path):
    text, opset, more = SURVEYED[name]
    path = tmp_path / "m.onnx"
    onnx.save(model(text, opset, ir=8, more=more), path)
    together = {fit.target: (fit.after, fit.blockers) for fit in survey(path).fits}
    rows = targets.releases_of("all")
    if "OPSHIFT_PROPERTIES" not in os.environ:  # a fifth of the releases, another one by the model
        rows = rows[[*SURVEYED].index(name) % 5 :: 5]
    for row in rows:
        (alone,) = survey(path, [row.shown.partition(",")[0].partition("..")[0]]).fits
        after, blockers = together[row.shown]
        assert (alone.after, len(alone.blockers)) == (after, len(blockers)), row.shown


@pytest.mark.skipif((schemas.latest("") or 0) < 20, reason="the installed onnx is too old")
@pytest.mark.parametrize("other", ["onnxruntime==1.15.1", "opencv==5.0", "onnxruntime==1.4"])
@pytest.mark.parametrize("name", SURVEYED)
def test_a_release_that_is_the_same_as_another_one_gets_its_answer(
    name, other, tmp_path, monkeypatch
):
    """The tables of kernels, fields and probes are read for the release that `same_as` names."""
    text, opset, more = SURVEYED[name]
    path, own = tmp_path / "m.onnx", tmp_path / "targets.toml"
    onnx.save(model(text, opset, ir=8, more=more), path)
    row = f'{{ versions = "23", same_as = "{other}" }}'
    own.write_text(f'[device]\nsource = "us"\nreleases = [{row}]\n')
    monkeypatch.setenv("OPSHIFT_TARGETS", str(own))
    (mine,), (theirs,) = (survey(path, [one]).fits for one in ("device==23", other))
    assert (mine.now, mine.after) == (theirs.now, theirs.after)
    assert len(mine.blockers) == len(theirs.blockers)


def test_models_are_converted_once_for_releases_that_read_the_result(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    onnx.save(model(PLAIN, 18, ir=10), path)
    asked: list[int] = []
    rehearse = Rehearsals.rehearse
    monkeypatch.setattr(Rehearsals, "rehearse", lambda *a: asked.append(1) or rehearse(*a))
    fits = survey(path).fits
    assert {fit.after for fit in fits} == {"yes", "not known"}
    assert len(asked) < len(fits) / 3


def test_the_kernels_of_the_cpu_say_nothing_about_another_provider():
    half = model("(bfloat16[2] x) => (bfloat16[2] y) { y = Relu(x) }", 18)
    assert accepts(half, "onnxruntime==1.32").answer == "no"
    answer = accepts(half, "onnxruntime==1.32:cuda")
    assert answer.answer == "not known"
    assert "only the CPU was measured" in answer.unknown[-1]
    with pytest.raises(BadTarget, match="tensorrt has no provider 'cuda'"):
        accepts(half, "tensorrt==9:cuda")
    with pytest.raises(BadTarget, match="onnxruntime has no provider 'cdua'; give one of cpu"):
        accepts(half, "onnxruntime==1.10:cdua")


POOL = "(float[1,1,5,5] x) => (float[1,1,3,3] y) { y = AveragePool<ceil_mode=1, count_include_pad=1, kernel_shape=[2,2], strides=[2,2]>(x) }"


@pytest.mark.parametrize("release", [
    *(f"onnxruntime==1.15:{name}" for name in targets._runtimes()["onnxruntime"].providers),
    "onnxruntime==1.15:WebGPU", "onnxruntime-web==1.15:webgpu", "onnxruntime-web 1.15",
    "onnxruntime-gpu==1.15", "ONNXRuntime_OpenVINO 1.15", "onnxruntime-qnn==1.15",
    "onnxruntime-directml==1.15",
])  # fmt: skip
@pytest.mark.parametrize(("text", "opset"), [
    ("(bfloat16[2,3] x, bfloat16[3,2] w) => (bfloat16[2,2] y) { y = MatMul(x, w) }", 13),
    ("(float[2] x) => (int64[1] y) { y = Shape(x) }", 19), (POOL, 13),
])  # fmt: skip
def test_no_verb_uses_measurements_of_the_cpu_for_another_provider(release, text, opset):
    """The CPU kernels of this release lack the first two operators, and misread the last one."""
    proto = model(text, opset)
    assert accepts(proto, "onnxruntime==1.15").answer == "no"
    assert accepts(proto, release).answer == "not known"
    (fit,) = survey(proto, [release]).fits
    assert (fit.now, fit.after) == ("not known", "not known")
    assert not plan(proto, release).refusals
    after = convert_version(proto, release)
    assert accepts(after, release).answer == "not known"
    if text is not POOL:
        assert after == proto


def test_a_kernel_that_the_release_lacks_is_named_before_the_conversion(tmp_path):
    path = tmp_path / "m.onnx"
    text = "(int64[2,3] x) => (int64[2,1] y) { y = ReduceMean<axes = [1]>(x) }"
    onnx.save(model(text, 13, ir=7), path)
    lacks = "ReduceMean of int64 has no kernel in onnxruntime 1.10 ('y')"
    assert lacks in run("plan", path, "--for", "onnxruntime==1.10").stdout
    assert lacks in run("convert", path, "--for", "onnxruntime==1.10", "--dry-run").stdout
    assert lacks in run("accepts", path, "--for", "onnxruntime==1.10").stdout
    assert run("accepts", path, "--for", "onnxruntime==1.20").exit_code == 0
    onnx.save(model(text.replace("int64", "float"), 13, ir=7), path)
    assert run("accepts", path, "--for", "onnxruntime==1.10").exit_code == 0


def test_a_form_is_one_only_beside_the_number_that_makes_it_fail():
    text = "(float[2,3] x, int64[1] n) => (float[a,b] y) <int64[1] r = {{{}}}> {{ s = Concat<axis = 0>(n, r) y = Reshape<allowzero = 1>(x, s) }}"
    assert not accepts(model(text.format(-1), 15, ir=8), "onnxruntime==1.10").accepted
    assert accepts(model(text.format(3), 15, ir=8), "onnxruntime==1.10").accepted


@settings(deadline=None)
@given(
    st.sampled_from(["ReduceMax", "ReduceMean", "ReduceSum"]),
    st.permutations(range(4)).flatmap(lambda axes: st.sampled_from([axes[:2], axes[:3]])),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.integers(11, 20),
)
def test_axes_of_reductions_ascend_for_a_reader_that_needs_it(op, axes, negative, opset):
    """OpenCV 4.5.5 rejects other orders; the order does not change the numbers."""
    listed = [a - 4 if below else a for a, below in zip(axes, negative, strict=False)]
    shown = ", ".join(map(str, listed))
    if opset >= (13 if op == "ReduceSum" else 18):
        graph = f"<int64[{len(axes)}] a = {{{shown}}}> {{ y = {op}(x, a) }}"
    else:
        graph = f"{{ y = {op}<axes = [{shown}]>(x) }}"
    before = model(f"(float[2,3,4,5] x) => (float[a,b,c,d] y) {graph}", opset, ir=7)
    disorder = any(
        f"{op} requires ascending `axes`" in reason
        for reason in accepts(before, "opencv==4.5.5").reasons
    )
    has_attribute = bool(before.graph.node[0].attribute)
    assert disorder == (has_attribute and axes != sorted(axes))
    after = convert_version(before, "opencv==4.5.5")
    (node,) = after.graph.node
    given = list(node.attribute[0].ints)
    assert [a % 4 for a in given] == sorted(axes)
    x = {"x": np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)}
    results = [InferenceSession(one.SerializeToString()).run(None, x)[0] for one in (before, after)]
    np.testing.assert_allclose(*results, rtol=1e-6)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_runtime_that_builds_only_older_recurrent_operators_gets_them(op, gates):
    size, text = (
        gates * 2,
        "(float[5,1,3] x, float[1,{0},3] w, float[1,{0},2] r) => (float[5,1,1,2] y)",
    )
    before = model(f"{text.format(size)} {{ y = {op}<hidden_size = 2>(x, w, r) }}", 20, ir=9)
    assert accepts(before, "rknn").answer == "no"
    assert accepts(convert_version(before, "rknn"), "rknn").answer != "no"


@pytest.mark.parametrize("name", ["onnxruntime-web", "opencv", "winml", "onnxruntime==1.10"])
def test_a_list_of_releases_tells_which_one_a_name_without_a_release_means(name):
    """`--for NAME` takes this release."""
    marked = [row.versions for row in known_targets(name).rows if "without a release" in row.remark]
    try:
        meant = [targets.find(name).versions] if "==" not in name else []
    except BadTarget:
        meant = []
    assert marked == meant


def test_a_size_that_must_be_fixed_is_named_with_its_option():
    graph = "(float[N, 3] x, float[?, N] z) => (float[N, 3] y) { y = Relu(x) }"
    answer = accepts(model(graph, 13), "rknn==2.5").unknown
    assert any(
        "reads the size 'N'" in text and "N" in text.partition("as in")[2] for text in answer
    )
    assert sum("needs fixed sizes" in one for one in answer) == 2
    fixed = convert_version(model(graph.replace("?", "2"), 13), "rknn==2.5", dim={"N": 2})
    assert not any("needs fixed sizes" in doubt for doubt in accepts(fixed, "rknn==2.5").unknown)
