# SPDX-License-Identifier: Apache-2.0
"""The Python interface: names, types of results, reports, and documented exceptions."""

from __future__ import annotations

import pickle
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import onnx
import opshift
import pytest
import warm_python
from onnx import ModelProto, parser

SOFTMAX = '<ir_version: 7, opset_import: ["" : 12]> g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }'
SOURCES = Path(opshift.__file__).parents[1]
EXAMPLE = Path(__file__).parents[2] / "examples" / "attention_opset12.onnx"

LARGE_PACKAGES = "numpy.*,ml_dtypes.*,onnx.reference.*,onnx.backend.*,onnx_ir.*,torch.*"


def softmax():
    return parser.parse_model(SOFTMAX)


def opset(model):
    return model.opset_import[0].version


def test_dir_lists_the_public_names_alone():
    """A star import skips names of packages that the user may have imported."""
    assert {*opshift.__all__, "onnx_ir", "torch", "zoo"} == set(dir(opshift))
    assert all(getattr(opshift, name) is not None for name in opshift.__all__)


def test_the_packages_inside_need_no_import_of_their_own():
    code = "import opshift; print(opshift.verify.verify, opshift.zoo.migrate)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "<function verify" in done.stdout
    assert "<function migrate" in done.stdout


@pytest.mark.parametrize("name", opshift.__all__)
def test_each_public_name_can_be_sent_to_a_process_of_a_pool(name):
    public = getattr(opshift, name)
    assert pickle.loads(pickle.dumps(public)) is public or isinstance(public, str)


@pytest.mark.parametrize("before", ["", "import opshift.convert.api\n"])
def test_the_package_is_called_like_a_function(before):
    """The package can be called and has modules, in any order of imports."""
    code = (
        f"{before}import opshift; from onnx import parser; m = parser.parse_model({SOFTMAX!r})\n"
        "found = opshift.convert(m, 13); print(found.model.opset_import[0].version, found)\n"
        "import opshift.convert.api; print(opshift.convert.api.convert_version(m, 13).ir_version)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("13 Converted: opset 12 -> 13.")


@pytest.mark.parametrize(
    "before", ["", "import opshift.verify\n", "from opshift.verify import Limits, verify\n"]
)
def test_the_questions_of_the_command_are_functions_of_the_top(before):
    """Each takes a model in memory or a path, as `convert` and `plan` do."""
    code = (
        f"import sys; sys.executable = {warm_python.python()!r}\n"  # for the child of verify
        f"{before}import opshift, onnx; from onnx import parser\n"
        f"m = parser.parse_model({SOFTMAX!r})\n"
        "assert opshift.verify(m, m).equal; assert opshift.verify.Limits\n"
        "assert 'limits' in __import__('inspect').signature(opshift.verify).parameters\n"
        "assert opshift.accepts(m, 'onnxruntime==1.10').answer == 'yes'\n"
        "assert opshift.check(m).found == ()\n"
        "print(opshift.info(m).imports[''], opshift.verify.__doc__.splitlines()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("12 ")


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: opshift.info(model),
        lambda model: opshift.check(model),
        lambda model: opshift.accepts(model, "onnxruntime==1.10"),
        lambda model: opshift.plan(model, 13),
        lambda model: opshift.diff(model, model),
        lambda model: opshift.verify(model, model),
    ],
)
def test_what_is_no_model_is_a_type_error(ask):
    with pytest.raises(TypeError, match="model must be a ModelProto"):
        ask(3)


def test_the_result_holds_the_model_and_the_report(tmp_path):
    result = opshift.convert(softmax(), 13)
    assert isinstance(result, opshift.Result)
    assert opset(result.model) == 13
    assert result.report.result == {"": 13}
    assert repr(result) == "<Result: Converted: opset 12 -> 13.>"
    onnx.save(softmax(), tmp_path / "m.onnx")
    assert isinstance(opshift.convert(tmp_path / "m.onnx", 13).model, ModelProto)


def test_the_keyword_of_onnx_is_accepted():
    assert opset(opshift.convert_version(softmax(), target_version=13)) == 13
    with pytest.raises(TypeError, match="two names of one argument"):
        opshift.convert_version(softmax(), 13, target_version=13)


def test_what_comes_in_comes_out(monkeypatch):
    ir = pytest.importorskip("onnx_ir")

    class ONNXProgram:
        """Like torch's class: it has an onnx_ir.Model, and a session that runs the model."""

        def __init__(self, model, exported_program):
            self.model, self.exported_program, self.session = model, exported_program, None

        def release(self):
            self.session = None

        @property
        def model_proto(self):
            return ir.to_proto(self.model)

    module = types.ModuleType("torch.onnx")
    module.ONNXProgram = ONNXProgram
    monkeypatch.setitem(sys.modules, "torch.onnx", module)
    model = ir.from_proto(softmax())
    assert isinstance(opshift.convert_version(model, 13), ir.Model)
    program = ONNXProgram(model, "exported")
    program.session = "of opset 12"
    converted = opshift.convert_version(program, 13)
    assert isinstance(converted, ONNXProgram)
    assert (opset(converted.model_proto), opset(program.model_proto)) == (13, 12)
    assert (converted.exported_program, converted.session) == ("exported", None)
    assert program.session == "of opset 12"
    assert opshift.convert_version(program, 13, inplace=True) is program
    assert program.session is None
    assert opset(program.model_proto) == 13
    with pytest.raises(TypeError, match="an ONNXProgram, not int"):
        opshift.convert_version(3, 13)


@pytest.mark.parametrize(
    "options",
    [
        {"ir_version": "bogus"}, {"ir_version": 99}, {"ir_version": True},
        {"ir_version": "8"}, {"ir_version": 8.0}, {"ir_version": None}, {"at_least": "13"},
        {"check": "some"}, {"check": 3}, {"assume": "no-zero-dims"}, {"domains": "ai.onnx"},
        {"domains": []}, {"target": 13.0}, {"target": True}, {"target": {"": None}},
        {"unknown_domains": None}, {"check": []}, {"assume": 3}, {"domains": 3}, {"assume": None},
        {"domains": [3]}, {"prune_imports": "no"}, {"allow_approximate": "no"}, {"stamp": 1},
        {"unknown_domains": "drop"}, {"target": "13"}, {"target": 0}, {"target": 99},
        {"target": "nothing==1"}, {"target": {"acme": 1}}, {"target": {3: 3}}, {"target": {"": "13"}},
        {"minimal": True},
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_a_bad_target(options):
    with pytest.raises(opshift.BadTarget):
        opshift.convert_version(softmax(), **{"target": 13, **options})


def test_outcomes_are_short_and_show_themselves():
    for found in (
        opshift.plan(softmax(), 13),
        opshift.lowest_versions(softmax()),
        opshift.check(softmax()),
        opshift.convert(softmax(), 13).report,
        opshift.diff(softmax(), softmax()),
        opshift.targets(),
        opshift.targets("onnxruntime"),
        opshift.survey(softmax(), ["onnxruntime==1.10"]),
    ):
        assert len(repr(found)) < 200
        assert repr(found).startswith(f"<{type(found).__name__}: ")
        assert found._repr_html_().startswith("<pre>")


def test_every_option_is_documented():
    import inspect

    text = opshift.convert_version.__doc__
    assert all(name in text for name in inspect.signature(opshift.convert_version).parameters)
    assert all(
        f"\n    {part}\n" in text for part in ("Parameters", "Returns", "Raises", "Examples")
    )


def test_a_users_file_is_typed(tmp_path):
    api = pytest.importorskip("mypy.api")
    (tmp_path / "user.py").write_text(
        "import onnx\nimport opshift\n"
        "a: onnx.ModelProto = opshift.convert_version('m.onnx', 13)\n"
        "b: onnx.ModelProto = opshift.convert(onnx.ModelProto(), 13).model\n"
        "c: opshift.Report = opshift.convert('m.onnx', target_version=13).report\n"
        "e: opshift.Report = opshift.torch.export(1, (), 'm.onnx', target=13)\n"
        "d: int = opshift.convert_version('m.onnx', 13)  # expected to fail\n"
        "opshift.conver_version('m.onnx', 13)  # expected to fail\n"
        "f: int = opshift.torch.export(1, (), 'm.onnx', target=13)  # expected to fail\n"
    )
    config = "[mypy]\nstrict = True\nfollow_imports = silent\n"
    if SOURCES.name != "site-packages":  # where mypy finds an installed opshift by itself
        config += f"mypy_path = {SOURCES}\n"
    # These lines use no type of large packages that opshift imports.
    config += f"[mypy-{LARGE_PACKAGES}]\nfollow_imports = skip\n"
    (tmp_path / "mypy.ini").write_text(config)
    words = ["--config-file", str(tmp_path / "mypy.ini"), str(tmp_path / "user.py")]
    lines = api.run([*words, "--cache-dir", str(tmp_path / "cache")])[0].splitlines()
    errors = [line for line in lines if "user.py" in line]
    assert [line.split(":")[1] for line in errors] == ["7", "8", "9"], lines


def test_the_numbers_are_those_of_the_model():
    ort = pytest.importorskip("onnxruntime")
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    before, after = (
        ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
        for model in (softmax(), opshift.convert(softmax(), 13).model)
    )
    np.testing.assert_array_equal(before, after)


def test_the_name_of_a_runtime_is_a_text():
    with pytest.raises(TypeError, match="the name of a runtime is a text, not int"):
        opshift.targets(3)
    with pytest.raises(TypeError, match="the name of a runtime is a text, not int"):
        opshift.accepts(softmax(), 13)


def test_one_name_of_a_runtime_is_not_a_list_of_letters(tmp_path):
    with pytest.raises(opshift.BadTarget, match=r"names is 'ort'; give a list of names such as"):
        opshift.survey(softmax(), "ort")
    with pytest.raises(opshift.BadTarget, match=r"runtimes is 'ort'; give a list of names"):
        opshift.zoo.migrate(tmp_path, None, 13, runtimes="ort")


@pytest.mark.parametrize("name", ["convert", "convert_version", "plan", "lowest_versions"])
def test_a_signature_is_readable(name):
    import inspect

    shown = str(inspect.signature(getattr(opshift, name)))
    assert "ir_version" in shown or name == "lowest_versions"
    assert "ForwardRef" not in shown


@pytest.mark.usefixtures("warm_children")
def test_an_answer_is_true_only_if_it_is_yes():
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 15]> g (float[2,3] x) => (float[2,3] y) {y = Relu(x)}'
    )
    other = ModelProto.FromString(model.SerializeToString())
    other.graph.node[0].op_type = "Neg"
    assert opshift.verify(model, model)
    assert not opshift.verify(model, other)
    assert opshift.plan(model, 14)
    assert not opshift.plan(EXAMPLE, 1)
    answers = [opshift.accepts(model, name) for name in ("ort==1.10", "ort==1.2", "tensorrt==9")]
    assert [answer.answer for answer in answers] == ["yes", "no", "not known"]
    assert [bool(answer) for answer in answers] == [True, False, False]
