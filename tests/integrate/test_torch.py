# SPDX-License-Identifier: Apache-2.0
"""Exports of torch convert to older opsets: `opshift.torch.export`, and ONNXProgram."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import opshift
import pytest

OLD = (13, 11)


@pytest.fixture(scope="module")
def torch():
    found = pytest.importorskip("torch", reason="torch is not installed: opshift[torch]")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: opshift[torch]")
    return found


@pytest.fixture(scope="module")
def modules(torch):
    """Small modules with the operators that are hard to bring down, and an input of each."""
    nn = torch.nn
    torch.manual_seed(0)

    class Attention(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    class Upsample(nn.Module):
        def forward(self, x):
            return nn.functional.interpolate(x, scale_factor=2, mode="bilinear")

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTM(4, 6, batch_first=True)

        def forward(self, x):
            return self.cell(x)[0]

    norm = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU())
    image = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    found = {
        "norm": (norm, torch.randn(2, 8)),
        "image": (image, torch.randn(1, 3, 8, 8)),
        "attention": (Attention(), torch.randn(1, 2, 4, 8)),
        "upsample": (Upsample(), torch.randn(1, 2, 4, 4)),
        "recurrent": (Recurrent(), torch.randn(2, 3, 4)),
    }
    return {name: (module.eval(), x) for name, (module, x) in found.items()}


def assert_computes(model, module, x):
    """Requires that onnxruntime and torch compute the same."""
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(model.SerializeToString())
    got = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    np.testing.assert_allclose(got, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", OLD)
@pytest.mark.parametrize("name", ["norm", "image", "attention", "upsample", "recurrent"])
def test_an_exported_program_goes_down(torch, modules, name, target):
    module, x = modules[name]
    program = opshift.torch.export(module, (x,), target=target)
    assert isinstance(program, torch.onnx.ONNXProgram)
    assert program.model_proto.opset_import[0].version == target
    assert_computes(program.model_proto, module, x)


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("name", ["norm", "attention", "upsample"])
def test_an_exported_file_goes_down(torch, modules, tmp_path, name, dynamo):
    module, x = modules[name]
    path = tmp_path / "model.onnx"
    report = opshift.torch.export(module, (x,), path, target=11, dynamo=dynamo)
    assert report.result[""] == 11
    onnx.checker.check_model(path, full_check=True)
    assert_computes(onnx.load(path), module, x)


def test_small_networks_go_down(torch, tmp_path):
    """The networks that `python -m tests.support.torch_networks` writes as a corpus."""
    ort = pytest.importorskip("onnxruntime")
    import torch_networks

    for name in torch_networks.NETWORKS:
        folder = tmp_path / name
        torch_networks.write(folder, name)
        after = opshift.convert_version(folder / "model.onnx", 13)
        session = ort.InferenceSession(after.SerializeToString())
        with np.load(folder / "inputs.npz") as inputs, np.load(folder / "expected.npz") as expected:
            got = dict(zip(expected.files, session.run(expected.files, {**inputs}), strict=True))
            for output in expected.files:
                largest = np.abs(expected[output][np.isfinite(expected[output])]).max()
                error = np.nanmax(np.abs(got[output] - expected[output]))
                assert error <= 1e-3 * largest, (name, output)


def test_a_runtime_is_a_target_and_options_reach_both(torch, modules, tmp_path):
    module, x = modules["norm"]
    program = opshift.torch.export(
        module, (x,), target="onnxruntime==1.4", input_names=["tokens"], prune_imports=True
    )
    assert program.model_proto.graph.input[0].name == "tokens"
    assert program.model_proto.opset_import[0].version <= 12
    assert program.model_proto.ir_version <= 7


def test_a_converted_program_does_not_run_the_old_model(torch, modules):
    """A program keeps a session; the converted one must run what it holds."""
    pytest.importorskip("onnxruntime")
    module, x = modules["norm"]
    program = torch.onnx.export(module, (x,), dynamo=True)
    program(x)
    older = opshift.convert_version(program, 11)
    ran = []
    older.initialize_inference_session(lambda model: ran.append(onnx.load_from_string(model)))
    assert ran[0].opset_import[0].version == 11
    torch.testing.assert_close(older(x)[0], module(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(program(x)[0], module(x), rtol=1e-4, atol=1e-5)


def test_a_refusal_writes_no_file(torch, tmp_path):
    module = torch.nn.ReLU().to(torch.bfloat16)
    x = torch.ones(2, dtype=torch.bfloat16)
    with pytest.raises(opshift.Refused, match="bfloat16"):
        opshift.torch.export(module, (x,), tmp_path / "model.onnx", target=11)
    assert list(tmp_path.iterdir()) == []


def test_the_older_exporter_needs_a_file(torch, modules):
    module, x = modules["norm"]
    with pytest.raises(TypeError, match="give a path as f"):
        opshift.torch.export(module, (x,), target=13, dynamo=False)


def test_without_torch_the_extra_is_named():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import opshift\n"
        "try:\n    opshift.torch.export(None, target=13)\n"
        "except opshift.MissingExtra as missing:\n    print(missing)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "torch is missing; run `pip install 'opshift[torch]'`\n"


def test_the_package_does_not_import_torch():
    code = "import sys, opshift.torch; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
