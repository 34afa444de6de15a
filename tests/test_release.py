# SPDX-License-Identifier: Apache-2.0
"""The name of a build: a release, or a development version with its commit."""

from __future__ import annotations

import itertools
import subprocess

import pytest
from opshift import release

DEV = "1.2.0.dev3"


@pytest.fixture
def tree(tmp_path):
    """The folders of a source tree."""
    (tmp_path / "converter").mkdir()
    return tmp_path


def git(folder, *words):
    names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    done = subprocess.run(["git", *names, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def build(folder, version=DEV):
    return release.build(str(folder), version)


def test_a_repository_names_the_commit(tree):
    git(tree, "init", "-q", "-b", "main")
    git(tree, "commit", "-q", "--allow-empty", "-m", "one")
    commit = f"{DEV}+g{git(tree, 'rev-parse', 'HEAD')[:9]}"
    assert build(tree / "converter") == commit
    git(tree, "worktree", "add", "-q", "-b", "other", str(tree / "other"))
    (tree / "other" / "converter").mkdir()
    git(tree / "other", "commit", "-q", "--allow-empty", "-m", "two")
    assert (
        build(tree / "other" / "converter")
        == f"{DEV}+g{git(tree / 'other', 'rev-parse', 'HEAD')[:9]}"
    )
    git(tree, "pack-refs", "--all")
    git(tree, "gc", "-q")
    assert build(tree / "converter") == commit
    git(tree, "checkout", "-q", "--detach")
    assert build(tree / "converter") == commit


def test_a_package_has_the_commit_in_its_version(tmp_path):
    (tmp_path / f"opshift-{DEV}+g012345678.dist-info").mkdir()
    (tmp_path / f"other-{DEV}+g999999999.dist-info").mkdir()
    assert build(tmp_path) == f"{DEV}+g012345678"


def test_a_source_distribution_has_the_commit_in_its_metadata(tree):
    (tree / "PKG-INFO").write_text(
        f"Metadata-Version: 2.4\nName: opshift\nVersion: {DEV}+g012345678\n"
    )
    assert build(tree / "converter") == f"{DEV}+g012345678"


def test_an_unknown_commit_and_a_release_have_no_commit(tree):
    assert build(tree / "converter") == DEV
    git(tree, "init", "-q")
    assert build(tree / "converter") == DEV  # no commit yet
    git(tree, "commit", "-q", "--allow-empty", "-m", "one")
    assert build(tree / "converter", "1.2.0") == "1.2.0"


def test_a_repository_around_an_environment_is_not_that_of_opshift(tmp_path):
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    home = tmp_path / "venv" / "lib" / "python" / "site-packages"
    home.mkdir(parents=True)
    assert build(home) == DEV


def test_versions_have_one_order():
    ordered = ["0.2.0", "0.2.1", "0.3.0.dev0", "0.3.0.dev1+gabc", "0.3.0.dev10", "0.3.0", "0.10.0"]
    for low, high in itertools.combinations(ordered, 2):
        assert release.order(low) < release.order(high)
    with pytest.raises(ValueError, match="next"):
        release.order("next")
