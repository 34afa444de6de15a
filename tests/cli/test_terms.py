# SPDX-License-Identifier: Apache-2.0
"""A message names an option as its reader writes it, in the command and in Python."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re

import onnx
import opshift
import pytest
from click.testing import CliRunner
from opshift import codes, terms
from opshift.cli import commands
from opshift.cli.entry import main
from opshift.convert.request import ConversionOptions
from opshift.terms import Caller
from opshift.zoo import migrate
from text_models import model

ERF = "(double[2] x) => (double[2] y) { y = Erf(x) }"


@pytest.mark.parametrize(
    ("name", "value", "command", "python"),
    [
        ("drop_metadata", "", "--drop-metadata", "drop_metadata=True"),
        ("ir_version", 8, "--ir 8", "ir_version=8"),
        ("target", "N", "--to N", "target=N"),
        ("target", "ai.onnx.ml=3", "--to ai.onnx.ml=3", 'target={"ai.onnx.ml": 3}'),
        ("target", "onnxruntime==1.10", "--for onnxruntime==1.10", 'target="onnxruntime==1.10"'),
        ("external", "inline", "--external-data inline", 'external="inline"'),
        ("shape", "x=1,3,224", "--shape x=1,3,224", 'shape={"x": (1, 3, 224)}'),
        ("shape", "x=8", "--shape x=8", 'shape={"x": (8,)}'),
        ("assume", "no-zero-dims", "--assume no-zero-dims", 'assume=["no-zero-dims"]'),
        ("types", "double=float", "--types double=float", 'types={"double": "float"}'),
    ],
)
def test_an_option_in_both_languages(name, value, command, python):
    assert terms.option(name, value) == f"`{python}`"
    with terms.called_by(Caller.COMMAND):
        assert terms.option(name, value) == f"`{command}`"
    with terms.called_by(Caller.BOTH):
        assert terms.option(name, value) == f"`{command}` (in Python, `{python}`)"
    assert terms.caller() is Caller.PYTHON


def known_options():
    """Each option of the command, and each argument of a function."""
    every = [module.name for module in pkgutil.iter_modules(commands.__path__)]
    parameters = [
        name
        for command in every
        for parameter in importlib.import_module(f"{commands.__name__}.{command}").command.params
        for name in parameter.opts
    ]
    functions = (opshift.convert_version, opshift.convert_file, migrate)
    arguments = {name for function in functions for name in inspect.signature(function).parameters}
    return {*parameters}, arguments | {*ConversionOptions.__annotations__}


@pytest.mark.parametrize("code", codes.names())
def test_a_page_names_options_that_exist(code):
    words, arguments = known_options()
    text = codes.page(code).text
    attributes = {"allowzero"}  # of an operator
    assert set(re.findall(r"`(\w+)=[^`]*`", text)) <= arguments | attributes
    with terms.called_by(Caller.COMMAND):
        ours = re.sub(r"`(pip|python) [^`]*`", "", codes.page(code).text)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)) <= {*words, "--help"}


def test_a_refusal_speaks_the_language_of_its_caller(tmp_path):
    with pytest.raises(opshift.Refused) as refused:
        opshift.convert_version(model(ERF, 13), 8)
    assert "`allow_approximate=True`" in str(refused.value)
    assert "--" not in str(refused.value).replace("->", "")
    (path := tmp_path / "m.onnx").write_bytes(model(ERF, 13).SerializeToString())
    done = CliRunner().invoke(main, ["convert", str(path), "--dry-run", "--to", "8"])
    assert "`--allow-approximate`" in done.stderr
    assert "=True" not in done.stderr
    assert terms.VARIABLE not in os.environ


def test_the_command_reads_a_shape_as_messages_write_it(tmp_path):
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[a,b] x) => (float[a,b] y)'
        " { y = Relu(x) }"
    )
    onnx.save(proto, tmp_path / "m.onnx")
    with terms.called_by(Caller.COMMAND):
        words = terms.option("shape", "x=2,3").strip("`").split()
    arguments = ["convert", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "o.onnx"), *words]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    (source,) = onnx.load(tmp_path / "o.onnx").graph.input
    assert [dim.dim_value for dim in source.type.tensor_type.shape.dim] == [2, 3]


def test_a_shortened_list_names_the_attribute_in_python_and_v_for_the_command():
    assert terms.all_of("steps") == "`steps` lists all"
    with terms.called_by(Caller.COMMAND):
        assert terms.all_of("steps") == "-v shows all"
