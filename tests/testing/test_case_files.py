# SPDX-License-Identifier: Apache-2.0
"""Each case belongs to a declaration of an adapter's module."""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from pathlib import Path

import opshift_adapters
import pytest
from opshift import AdapterBug, testing, toml
from opshift.author import registry
from opshift.author.example import Example
from opshift.author.traits import KINDS
from opshift.author.verdicts import WORDS, Adapter
from opshift.testing import case_files
from opshift.testing.case_files import examples_of

PACKAGE = Path(str(opshift_adapters.__file__)).parent
CASES = PACKAGE.parent.parent / case_files.CASES
FILES = sorted(CASES.rglob("*.toml"))
MODULE = """
from opshift.adapter import adapter, boundary, example

TABLE = boundary(25, "Softmax LogSoftmax")

@adapter("Softmax", 12, 13)
@example("first", "(float[2] x) => (float[2] y) { y = Softmax(x) }")
def downward(node, op):
    \"\"\"The same.\"\"\"
    return node
"""


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Adapter:
    """An adapter of a module in a temporary folder."""
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme/with_cases.py").write_text(MODULE)
    (tmp_path / case_files.CASES).mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("acme", "acme.with_cases"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found: Adapter = importlib.import_module("acme.with_cases").downward
    return found


@functools.cache
def places() -> frozenset[tuple[str, str]]:
    """The modules and the names of the cases that are read."""
    default = registry.default()
    rules = (rule for kind in KINDS.values() for rule in default.each(kind) if hasattr(rule, "run"))
    return frozenset(
        place for one in (*default.adapters(), *rules) for place in case_files.places(one)
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_case_belongs_to_a_declaration(path: Path) -> None:
    parts = ["opshift_adapters", *path.relative_to(CASES).with_suffix("").parts]
    module = importlib.import_module(".".join(parts))
    assert case_files.case_file(module.__name__) == path
    found = {(module.__name__, name) for name in toml.loads(path.read_text())}
    assert found - places() == set()


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_at_most_six_examples_stand_above_a_function(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.Call):
            continue
        listed = node.args if isinstance(node, ast.Call) else node.decorator_list
        names = [ast.unparse(one.func) for one in listed if isinstance(one, ast.Call)]
        shown = [name for name in names if name == "example"]
        assert len(shown) <= 6, f"{path.name}:{node.lineno}: move examples to the file of cases"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_a_long_example_is_a_case(path: Path) -> None:
    """An example stays above its function if its inputs have a name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.FunctionDef):
            continue
        for one in node.decorator_list:
            if isinstance(one, ast.Call) and ast.unparse(one.func) == "example":
                length = (one.end_lineno or one.lineno) - one.lineno + 1
                given = [word.value for word in one.keywords if word.arg == "inputs"]
                named = any(isinstance(part, ast.Name) for x in given for part in ast.walk(x))
                assert length < 6 or named, f"{path.name}:{one.lineno}: move it to the cases"


def test_a_case_has_the_words_of_an_example(adapter: Adapter, tmp_path: Path) -> None:
    (tmp_path / case_files.CASES / "with_cases.toml").write_text(
        '[[downward]]\ntitle = "second"\ngraph = "g"\nrefuses = "NEEDS_RANK"\n'
        'assume = ["no-zero-dims"]\ninputs = {x = [1.0, nan]}\n'
    )
    first, second = examples_of(adapter)
    assert isinstance(second, Example)
    assert (first.title, second.title, second.graph) == ("first", "second", "g")
    assert second.refuses is not None
    assert second.refuses.name == "NEEDS_RANK"
    assert [one.value for one in second.assume] == ["no-zero-dims"]
    assert list(second.inputs) == ["x"]


def test_a_span_stands_for_its_numbers(adapter: Adapter, tmp_path: Path) -> None:
    (tmp_path / case_files.CASES / "with_cases.toml").write_text(
        '[[downward]]\ntitle = "many"\ngraph = "<a=[{-2..3}]> { y = {op}(x) }"\n'
    )
    assert examples_of(adapter)[1].graph == "<a=[-2,-1,0,1,2,3]> { y = Softmax(x) }"


@pytest.mark.parametrize(
    ("table", "numbers"),
    [
        ("{shape = [2, 2]}", [[0, 1], [2, 3]]),
        ("{shape = [4], modulo = 3, times = 0.5, plus = -1}", [-1, -0.5, 0, -1]),
        ("{shape = [2], sin = true}", [0, 0.8414709848078965]),
        ("{shape = [1, 2], fill = 7}", [[7, 7]]),
    ],
)
def test_a_table_makes_the_values_of_an_input(
    adapter: Adapter, tmp_path: Path, table: str, numbers: list[float]
) -> None:
    (tmp_path / case_files.CASES / "with_cases.toml").write_text(
        f'[[downward]]\ntitle = "counted"\ngraph = "g"\ninputs = {{x = {table}}}\n'
    )
    assert examples_of(adapter)[1].inputs["x"].tolist() == numbers


def test_a_boundary_in_a_table_has_the_cases_of_its_direction(
    adapter: Adapter, tmp_path: Path
) -> None:
    (tmp_path / case_files.CASES / "with_cases.toml").write_text(
        '[["Softmax 25->24"]]\ntitle = "down"\ngraph = "{op}"\n'
    )
    up, down = sys.modules["acme.with_cases"].TABLE
    assert examples_of(up) == ()
    assert [(example.title, example.graph) for example in examples_of(down)] == [
        ("down", "Softmax"), ("down", "LogSoftmax"),
    ]  # fmt: skip


@pytest.mark.parametrize("line", ['titel = "x"', 'refuses = "NO_SUCH_REASON"', 'assume = ["none"]'])
def test_a_wrong_word_names_the_file_and_the_function(
    adapter: Adapter, tmp_path: Path, line: str
) -> None:
    (tmp_path / case_files.CASES / "with_cases.toml").write_text(f"[[downward]]\n{line}\n")
    with pytest.raises(AdapterBug, match=r"with_cases\.toml: a case of downward is invalid"):
        examples_of(adapter)


def test_the_examples_of_a_package_include_its_cases() -> None:
    module = "opshift_adapters.normalize.softmax"
    above = sum(
        len(adapter.examples)
        for adapter in registry.default().adapters()
        if adapter.module == module
    )
    assert len(testing.examples(module)) > above


def test_a_rule_made_of_an_adapter_has_the_cases_that_it_converts() -> None:
    tried = 0
    for rule in registry.default().adapters():
        if rule.run is None or rule.start != WORDS[0] or not hasattr(rule.run, "__wrapped__"):
            continue
        path = case_files.case_file(rule.run.__module__)
        cases = toml.loads(path.read_text()).get(rule.run.__name__, ()) if path else ()
        converted = [case for case in cases if not case.keys() & {"refuses", "invalid"}]
        titles = {example.title for example in examples_of(rule)}
        assert {case["title"] for case in converted} <= titles, rule.source
        tried += len(converted) < len(cases)
    assert tried
