# SPDX-License-Identifier: Apache-2.0
"""A package of adapters imports an indexed module late, and all other modules at once."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import opshift_adapters
import pytest
from opshift.author import index
from opshift.author.registry import Registry, index_of
from opshift.author.traits import KINDS
from opshift.errors import AdapterBug

MODULE = '''
from opshift.adapter import KEEP, adapter

@adapter("{op}", 12, 13, domain="com.acme.indexed")
def {name}(node, op):
    """Nothing changed."""
    return KEEP
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A package with two modules and its index, not imported yet."""
    name = f"indexed_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "first.py").write_text(MODULE.format(op="First", name="first"))
    (folder / "second.py").write_text(MODULE.format(op="Second", name="second"))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    made = importlib.import_module(name)
    (folder / index.INDEX).write_text(index_of(made))
    for module in ("first", "second"):
        del sys.modules[f"{name}.{module}"]
    return made


def imported(package) -> set[str]:
    return {n.rpartition(".")[2] for n in sys.modules if n.startswith(f"{package.__name__}.")}


def test_a_module_is_imported_when_its_verdict_is_asked_for(package):
    registry = Registry()
    registry.load(package)
    assert len(registry) == 2
    assert imported(package) == set()
    found = registry.get("com.acme.indexed", "Second", 12, 13)
    assert found is not None
    assert found.source.endswith(".second")
    assert imported(package) == {"second"}
    assert registry.get("com.acme.indexed", "Third", 12, 13) is None
    assert [crossing[1] for crossing, _ in registry] == ["First", "Second"]


def test_a_module_that_changed_since_the_index_was_written_is_imported_at_once(package):
    folder = Path(package.__path__[0])
    # Python takes a file of equal length and second for the one that it has compiled.
    (folder / "first.py").write_text(MODULE.format(op="Another", name="another"))
    (folder / "third.py").write_text(MODULE.format(op="Third", name="third"))
    registry = Registry()
    registry.load(package)
    assert imported(package) == {"first", "third"}
    assert registry.get("com.acme.indexed", "First", 12, 13) is None
    assert registry.get("com.acme.indexed", "Another", 12, 13) is not None
    assert registry.get("com.acme.indexed", "Third", 12, 13) is not None


def test_a_verdict_that_is_declared_twice_is_an_error_whether_read_or_not(package):
    folder = Path(package.__path__[0])
    (folder / "third.py").write_text(MODULE.format(op="First", name="again"))
    with pytest.raises(AdapterBug, match=r"First 12->13 is declared twice"):
        Registry().load(package)


def test_the_shipped_index_says_what_the_modules_declare(monkeypatch):
    """Lines of modules that changed after the last update of the index are not compared."""
    registry = Registry()
    registry.load(opshift_adapters)
    indexed = index.known(opshift_adapters, index.modules(opshift_adapters))
    monkeypatch.setattr(index, "known", lambda package, sources: {})
    whole = Registry()
    whole.load(opshift_adapters)
    assert dict(iter(registry)) == dict(iter(whole))
    for kind in KINDS.values():
        assert registry.traits(kind) == whole.traits(kind), kind
    assert indexed, "no line of the index is current: run `python -m tools.author update index`"


def test_the_declarations_of_an_operator_have_one_order():
    """A report shows the first flaw of a node, which must not depend on the order of imports."""
    forwards, backwards = Registry(), Registry()
    for registry in (forwards, backwards):
        registry.load(opshift_adapters)
    forwards._read_all()
    for name in sorted(backwards._unread, reverse=True):
        backwards._read(name)
    for kind in KINDS.values():
        assert dict(backwards.traits(kind)) == dict(forwards.traits(kind)), kind


def test_a_small_conversion_imports_few_adapters(tmp_path):
    code = (
        "import sys, onnx.parser, opshift\n"
        'm = onnx.parser.parse_model(\'<ir_version: 8, opset_import: ["": 13]>'
        " g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }')\n"
        "opshift.convert_version(m, 14)\n"
        "print(sum(n.startswith('opshift_adapters.') for n in sys.modules))\n"
        "print('networkx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, graphs = done.stdout.split()
    sources = index.modules(opshift_adapters)
    stale = len(sources) - len(index.known(opshift_adapters, sources))
    assert int(count) <= 25 + stale
    assert graphs == "False"
