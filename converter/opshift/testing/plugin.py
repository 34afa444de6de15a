# SPDX-License-Identifier: Apache-2.0
"""Provides a pytest plugin: the assertions as fixtures, and tests for packages of adapters.

Every pytest in an environment with opshift loads this plugin, so it imports opshift only when
needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("opshift").addoption(
        "--opshift-adapters", action="append", default=[], metavar="PACKAGE",
        help="test the verdicts of this package, its examples on many sets of inputs, and many"
        " variants of the examples",
    )  # fmt: skip
    parser.addini(
        "opshift_reasons", "TOML files: parts of findings to accept, with the reasons", type="args"
    )


@pytest.hookimpl(tryfirst=True)  # so that -k and -m also select from these tests
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    for package in config.getoption("--opshift-adapters"):
        items.append(Verdicts.from_parent(session, name=f"opshift-adapters[{package}]"))
        items.append(Numbers.from_parent(session, name=f"opshift-examples[{package}]"))
        items.append(Variants.from_parent(session, name=f"opshift-variants[{package}]"))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Stores the engine of the project, which the tests of examples use."""
    value = yield
    if fixturedef.argname == "opshift_evaluate":
        request.config.stash[_EVALUATE] = value
    return value


_EVALUATE = pytest.StashKey[Any]()


class PackageTest(pytest.Item):
    """A test of one package, whose name is in the brackets of the test's name."""

    @property
    def package(self) -> str:
        return self.name.partition("[")[2].removesuffix("]")

    @property
    def known(self) -> dict[str, str]:
        """The findings to accept, with the reasons."""
        from opshift.testing.surveys import reasons

        files = self.config.getini("opshift_reasons")
        return {k: why for file in files for k, why in reasons(self.config.rootpath / file).items()}

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, None, str]:
        return self.path, None, self.name


class Verdicts(PackageTest):
    """Tests that each change of an operator has exactly one adapter in each direction."""

    def runtest(self) -> None:
        from opshift.testing import assert_complete

        assert_complete(self.package, self.known)


class Numbers(PackageTest):
    """Tests that every example computes the same as its original on many sets of inputs."""

    def runtest(self) -> None:
        from opshift.testing.surveys import survey

        done = survey(self.package, evaluate=self.config.stash.get(_EVALUATE, None))
        if new := done.unexplained(self.known):
            raise AssertionError("\n".join([f"{len(new)} sets of inputs differ:", *new]))
        if done.idle:
            message = "no engine can compute it; also run the tests that use opshift_evaluate"
            warnings.warn(f"{self.package}: {done.idle[0]}: {message}", stacklevel=1)


class Variants(PackageTest):
    """Tests that every variant of an example is refused, or computes the same as its original."""

    def runtest(self) -> None:
        from opshift.testing.surveys import varied

        done = varied(self.package, evaluate=self.config.stash.get(_EVALUATE, None))
        if new := done.unexplained(self.known):
            raise AssertionError("\n".join([f"{len(new)} variants differ:", *new]))


@pytest.fixture(scope="session")
def opshift_evaluate() -> Any:
    """Provides a function `(model, inputs) -> outputs`; None unless a project overrides it."""
    return None


@pytest.fixture(scope="session")
def assert_op_upgrades(opshift_evaluate: Any) -> Callable[..., Any]:
    """Provides `opshift.testing.assert_op_upgrades` with the engine of `opshift_evaluate`."""
    from opshift import testing

    return partial(testing.assert_op_upgrades, evaluate=opshift_evaluate)


@pytest.fixture(scope="session")
def assert_op_downgrades(opshift_evaluate: Any) -> Callable[..., Any]:
    """Provides `opshift.testing.assert_op_downgrades` with the engine of `opshift_evaluate`."""
    from opshift import testing

    return partial(testing.assert_op_downgrades, evaluate=opshift_evaluate)


@pytest.fixture(scope="session")
def assert_model_converts(opshift_evaluate: Any) -> Callable[..., Any]:
    """Provides `opshift.testing.assert_model_converts` with the engine of `opshift_evaluate`."""
    from opshift import testing

    return partial(testing.assert_model_converts, evaluate=opshift_evaluate)


@pytest.fixture(scope="session")
def assert_example(opshift_evaluate: Any) -> Callable[..., Any]:
    """Provides `opshift.testing.assert_example` with the engine of `opshift_evaluate`."""
    from opshift import testing

    return partial(testing.assert_example, evaluate=opshift_evaluate)


@pytest.fixture(scope="session")
def assert_fold() -> Callable[..., Any]:
    """Provides `opshift.testing.assert_fold`."""
    from opshift import testing

    return testing.assert_fold


@pytest.fixture(scope="session")
def assert_invalid() -> Callable[..., Any]:
    """Provides `opshift.testing.assert_invalid`."""
    from opshift import testing

    return testing.assert_invalid


@pytest.fixture(scope="session")
def assert_refused() -> Callable[..., Any]:
    """Provides `opshift.testing.assert_refused`."""
    from opshift import testing

    return testing.assert_refused
