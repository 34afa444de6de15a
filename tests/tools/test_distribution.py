# SPDX-License-Identifier: Apache-2.0
"""The published files: metadata, both distributions, and tests that run from them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string

import distributions
import pytest
from distributions import FOLDERS, ROOT
from opshift import release, toml

# A test of each kind that takes seconds: the engine, an adapter, the data, the command.
SMOKE = ("tests/model/test_arrays.py", "tests/opsets/test_versions.py", "tests/cli/test_cli.py")

NEEDLESS = {".pyc"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both distributions."""
    pytest.importorskip("setuptools", minversion="77")
    out = distributions.build(tmp_path_factory.mktemp("build"), "sdist", "wheel")
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def test_the_metadata_says_what_a_user_must_know(built):
    with zipfile.ZipFile(built[1]) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith("/METADATA"))
        metadata = message_from_string(wheel.read(name).decode())
        assert any(n.endswith("licenses/LICENSE") for n in wheel.namelist())
        assert "opshift/codes/BUG.md" in wheel.namelist()
        assert "opshift/py.typed" in wheel.namelist()
    assert metadata["Version"] == release.VERSION  # a copy without its repository
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "opshift contributors"
    assert metadata["Requires-Python"] == ">=3.10"
    assert len(metadata.get_all("Classifier")) > 5
    assert len(metadata["Keywords"].split(",")) > 5
    assert metadata.get_payload().startswith("# opshift")


def test_the_wheel_holds_the_packages_and_nothing_else(built):
    with zipfile.ZipFile(built[1]) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {"opshift", "opshift_adapters"} == {t for t in tops if not t.endswith(".dist-info")}


def test_the_package_index_would_accept_both(built):
    pytest.importorskip("twine", reason="twine is not installed")
    words = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_the_tests_run_from_the_source_distribution(built, tmp_path):
    """Packagers of opshift have only these files."""
    with tarfile.open(built[0]) as packed:
        packed.extractall(tmp_path, filter="data")
    (top,) = tmp_path.iterdir()
    tree = built[0].parents[1] / "tree"
    files = [file for name in FOLDERS for file in (tree / name).rglob("*") if file.is_file()]
    needed = {str(file.relative_to(tree)) for file in files if file.suffix not in NEEDLESS}
    needed |= {"LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert sorted(name for name in needed if not (top / name).exists()) == []
    paths = os.pathsep.join((str(top / "converter"), str(top / "adapters")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SMOKE],
        cwd=top, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_no_link_of_the_readme_needs_the_repository():
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_addresses_are_in_one_place():
    urls = toml.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text("utf-8")
        assert all(address in urls.values() for address in re.findall(r"https?://[^\s)>`]+", text))


def test_every_section_of_the_changelog_has_a_version_and_a_date():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    dated = re.compile(r"## (\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)")
    assert headings
    assert all(dated.fullmatch(heading) for heading in headings), headings
    newest, _, development = release.VERSION.partition(".dev")
    releases = [dated.fullmatch(heading)[1] for heading in headings]
    assert development or releases[0] == newest
    assert not development or newest not in releases


def test_the_workflow_calls_the_one_script_on_three_systems():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    assert "bash .ci/run" in text
    assert all(system in text for system in ("ubuntu-", "macos-", "windows-"))
