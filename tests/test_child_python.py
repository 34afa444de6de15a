# SPDX-License-Identifier: Apache-2.0
"""The one module that starts Pythons, and the path that they get."""

from __future__ import annotations

import ast
import subprocess
import sys
from multiprocessing import util
from pathlib import Path

import opshift
from opshift import child_python

ENGINE = Path(opshift.__file__).parent


def test_no_other_module_starts_a_python():
    found = set()
    for path in ENGINE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
                found.add(path.stem)
    assert found == {"child_python"}


def test_a_child_has_the_named_folders_of_this_process(tmp_path, monkeypatch):
    odd = tmp_path / "a'b \udcff"
    odd.mkdir()
    (odd / "told.py").write_text("import sys\ndef main(): print(ascii([sys.path, sys.argv[1:]]))\n")
    monkeypatch.setattr(sys, "path", ["", str(odd), *sys.path])
    words = child_python.command("told", "one", "two words")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == [sys.path[1:], ["one", "two words"]]


def test_uses_at_the_same_time_end_in_any_order():
    usual = util._args_from_interpreter_flags
    first, second = child_python.safe_multiprocessing(), child_python.safe_multiprocessing()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert [child_python._SAFE, *usual()] == util._args_from_interpreter_flags()
    second.__exit__(None, None, None)
    assert util._args_from_interpreter_flags is usual


def test_the_working_folder_goes_only_if_it_is_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for before, after in (
        (["", "x"], ["x"]),
        ([str(tmp_path), "x"], ["x"]),
        (["x", str(tmp_path)], ["x", str(tmp_path)]),  # a site or a user wants it
    ):
        monkeypatch.setattr(sys, "path", [*before])
        child_python.leave_working_folder()
        assert sys.path == after
