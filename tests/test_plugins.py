# SPDX-License-Identifier: Apache-2.0
"""opshift finds the same entry points as `importlib.metadata`."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import pytest
from opshift import AdapterBug, plugins
from opshift.author import registry

METADATA = """[console_scripts]
acme = acme:main

[opshift.targets]
# a remark
acme = acme_targets.data [extra]
other=acme_targets:inner.part

[opshift.changelogs]
acme = acme_ops
"""


def expected():
    groups = [group for group in entry_points().groups if group.startswith("opshift.")]
    points = [point for group in set(groups) for point in entry_points(group=group)]
    return sorted((point.group, point.name, point.value) for point in points)


def found():
    return sorted(map(tuple, plugins._all(tuple(sys.path))))


def dist(folder, name, text=METADATA):
    place = folder / name
    place.mkdir(parents=True)
    (place / "entry_points.txt").write_text(text)
    (place / "METADATA").write_text(f"Name: {name.partition('-')[0]}\nVersion: 1\n")


def test_what_is_installed_is_found():
    assert found() == expected()
    assert expected()


def test_other_distributions_and_all_their_groups_are_found(tmp_path, monkeypatch):
    dist(tmp_path, "acme_ops-1.0.dist-info")
    dist(tmp_path, "Old.Ones.egg-info", "[opshift.schemas]\nold = old_ones:schemas\n")
    dist(tmp_path, "nothing-1.dist-info", "[pytest11]\nx = y\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert found() == expected()
    assert ("opshift.schemas", "old", "old_ones:schemas") in found()


def test_the_first_distribution_of_a_name_counts(tmp_path, monkeypatch):
    dist(tmp_path / "b", "acme.ops-2.0.dist-info", "[opshift.targets]\nlate = late\n")
    dist(tmp_path / "a", "Acme_Ops-1.0.dist-info")
    monkeypatch.syspath_prepend(str(tmp_path / "b"))
    monkeypatch.syspath_prepend(str(tmp_path / "a"))
    assert found() == expected()
    assert "late" not in {name for _, name, _ in found()}


def test_a_source_tree_and_an_installed_distribution_of_one_name_are_one(tmp_path, monkeypatch):
    dist(tmp_path / "b", "acme_ops-2.0.dist-info")
    dist(tmp_path / "a", "acme_ops.egg-info")
    monkeypatch.syspath_prepend(str(tmp_path / "b"))
    monkeypatch.syspath_prepend(str(tmp_path / "a"))
    assert found() == expected()
    assert [name for _, name, value in found() if value == "acme_ops"] == ["acme"]


def test_finders_of_their_own_kind_are_asked(tmp_path, monkeypatch):
    class Finder:
        def find_spec(self, name, path=None, target=None):
            return None

        def find_distributions(self, context):
            return iter(())

    dist(tmp_path / "b", "acme_ops-1.0.dist-info")
    dist(tmp_path / "a", "acme_ops.egg-info")  # its metadata has the name of no folder
    monkeypatch.syspath_prepend(str(tmp_path / "b"))
    monkeypatch.syspath_prepend(str(tmp_path / "a"))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    plugins._all.cache_clear()
    assert found() == expected()
    plugins._all.cache_clear()


def test_what_is_offered_can_be_an_attribute_inside_of_a_module(tmp_path, monkeypatch):
    (tmp_path / "acme_targets.py").write_text("class inner:\n    part = 5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert plugins.Point("opshift.targets", "x", "acme_targets:inner.part").load() == 5
    assert plugins.Point("opshift.targets", "x", "acme_targets [x]").load().inner.part == 5


def test_a_file_of_a_package_is_read_also_without_a_file_of_the_package(tmp_path, monkeypatch):
    (tmp_path / "acme_bare").mkdir()
    (tmp_path / "acme_bare" / "data.txt").write_text("here")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert plugins.data("acme_bare", "data.txt") == b"here"
    assert plugins.data("opshift.opsets", "targets.toml").startswith(b"#")


def test_a_module_of_adapters_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    dist(tmp_path, "broken_ops-1.0.dist-info", "[opshift.adapters]\nbroken = broken_ops\n")
    (tmp_path / "broken_ops").mkdir()
    (tmp_path / "broken_ops" / "__init__.py").write_text("")
    (tmp_path / "broken_ops" / "gelu.py").write_text("import a_package_that_nobody_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = "module broken_ops.gelu of the adapters' package 'broken_ops' cannot be imported: No module named 'a_package"
    with pytest.raises(AdapterBug, match=message):
        registry.installed.__wrapped__()
    (tmp_path / "broken_ops" / "__init__.py").write_text("from broken_ops import nowhere\n")
    monkeypatch.delitem(sys.modules, "broken_ops", raising=False)
    with pytest.raises(AdapterBug, match="module broken_ops of the adapters' package 'broken_ops'"):
        registry.installed.__wrapped__()
