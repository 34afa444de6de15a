"""Targets by name: what a runtime takes, under what the model has."""

from __future__ import annotations

import json

import onnx
import pytest
from click.testing import CliRunner
from conftest import model
from opshift import BadTarget, convert_version, plan, versions
from opshift.cli.entry import main
from opshift.opsets import targets

PLAIN = "(float[2] x) => (float[2] y) { y = Neg(x) }"


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize(
    ("text", "opset", "ir"),
    [
        ("onnxruntime==1.10", 15, 8),
        ("onnxruntime==1.10.0", 15, 8),
        ("ONNXRuntime == 1.26.2", 26, 13),
        ("tensorrt==8.4", 17, None),
        ("tensorrt==8.4EA", 13, None),
        ("tensorrt==8.4.1", 17, None),
        ("tensorrt==9.3", 19, None),
        ("jetpack==4.6", 13, None),
        ("jetpack==4.6.1", 13, None),
        ("winml:win10-2004", 9, None),
        ("winml:Win10-1909", 8, None),
        ("sentis", 15, None),
        ("rknn-toolkit2==2.3", 19, None),
        ("onnx==1.11", 16, 8),
        ("onnx==1.4", 9, 4),
        ("onnx==1.1.2", 6, 3),
    ],
)
def test_a_name_has_a_ceiling(text, opset, ir):
    found = targets.find(text)
    assert (found.imports[""], found.ir) == (opset, ir)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("onnxruntme==1.10", "no target is called 'onnxruntme'; nearest: onnxruntime"),
        ("tensorrt==10.5", "tensorrt 10.5 is not known; known are 5.1, 6.0"),
        ("tensorrt", "say which tensorrt; known are 5.1"),
        ("", "no target is called ''"),
        ("onnxruntime==one", "onnxruntime one is not known"),
        ("13", "no target is called '13'"),
    ],
)
def test_a_name_that_nobody_knows_gets_the_nearest(text, sentence):
    with pytest.raises(BadTarget) as caught:
        targets.find(text)
    assert sentence in str(caught.value)


def test_every_row_finds_itself():
    for row in targets.table():
        for one in row.versions.split(","):
            low, dots, high = one.strip().partition("..")
            assert targets.find(f"{row.name}=={low}").imports == row.imports
            if dots and high:
                assert targets.find(f"{row.name}=={high}").imports == row.imports
        assert row.source


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
    with pytest.raises(BadTarget, match=r"takes ai\.onnx up to 15, not 16"):
        convert_version(model(PLAIN, 11), "onnxruntime==1.10", at_least=16)
    with pytest.raises(BadTarget, match="takes IR up to 8, not 9"):
        convert_version(model(PLAIN, 11), "onnxruntime==1.10", ir_version=9)
    assert convert_version(model(PLAIN, 11), at_least=13).opset_import[0].version == 13
    assert convert_version(model(PLAIN, 15), at_least=13).opset_import[0].version == 15
    with pytest.raises(BadTarget, match="at_least goes with a target by name"):
        convert_version(model(PLAIN, 11), 12, at_least=13)


def test_unused_imports_go_with_a_named_target():
    before = model(PLAIN, 15, more=', "com.microsoft" : 1')
    assert len(convert_version(before, "onnxruntime==1.10").opset_import) == 1
    assert len(convert_version(before, "onnxruntime==1.10", prune_imports=False).opset_import) == 2
    assert len(convert_version(before, 14).opset_import) == 2
    assert len(convert_version(before, 14, prune_imports=True).opset_import) == 1


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
    assert "nobody uses acme 1" in done.stdout
    bad = run("convert", tmp_path / "in.onnx", "--for", "tensort==8.4", "--in-place")
    assert bad.exit_code == 2
    assert "nearest: tensorrt" in bad.stderr
    words = ("--for", "onnxruntime==1.10", "--to", "16")
    assert "up to 15, not 16" in run("convert", tmp_path / "in.onnx", "--in-place", *words).stderr
    assert "possible" in run("plan", tmp_path / "in.onnx", "--for", "onnx==1.11").stdout


def test_the_table():
    text = run("targets").stdout
    assert ["onnxruntime", "1.9..1.10", "15", "2", "8"] in [
        row.split()[:5] for row in text.splitlines()
    ]
    assert "tensorrt==8.0" in run("targets", "jetpack").stdout
    raw = json.loads(run("targets", "sentis", "--output-format", "json").stdout)
    assert raw["targets"][0]["imports"] == {"": 15}


def test_a_plan_for_a_name():
    assert plan(model(PLAIN, 19), "onnxruntime==1.10").target == {"": 15}
