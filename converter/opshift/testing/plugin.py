# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: the assertions as fixtures, and a test of each package that is named.

Every pytest in an environment with opshift loads it, so it imports nothing before its first use.
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
        help="test the verdicts of this package, and its examples on many sets of inputs and as"
        " many variants",
    )  # fmt: skip
    parser.addini(
        "opshift_reasons", "TOML files: parts of findings that stay, and the reasons", type="args"
    )


@pytest.hookimpl(tryfirst=True)  # so that -k and -m choose among these tests too
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    for package in config.getoption("--opshift-adapters"):
        items.append(Verdicts.from_parent(session, name=f"opshift-adapters[{package}]"))
        items.append(Numbers.from_parent(session, name=f"opshift-examples[{package}]"))
        items.append(Variants.from_parent(session, name=f"opshift-variants[{package}]"))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Stores the engine of the project for the test of its examples."""
    value = yield
    if fixturedef.argname == "opshift_evaluate":
        request.config.stash[_EVALUATE] = value
    return value


_EVALUATE = pytest.StashKey[Any]()


class PackageTest(pytest.Item):
    """A test of one package; the package is in the brackets of its name."""

    @property
    def package(self) -> str:
        return self.name.partition("[")[2].removesuffix("]")

    @property
    def known(self) -> dict[str, str]:
        """The findings that stay, with the reasons."""
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
    """Exactly one verdict for every operator, opset and direction."""

    def runtest(self) -> None:
        from opshift.testing import assert_complete

        assert_complete(self.package, self.known)


class Numbers(PackageTest):
    """Every example computes the same as its original on many sets of inputs."""

    def runtest(self) -> None:
        from opshift.testing.surveys import survey

        done = survey(self.package, evaluate=self.config.stash.get(_EVALUATE, None))
        if new := done.unexplained(self.known):
            raise AssertionError("\n".join([f"{len(new)} sets of inputs differ:", *new]))
        if done.idle:
            told = "no engine computes it; run the tests that use the fixture opshift_evaluate, too"
            warnings.warn(f"{self.package}: {done.idle[0]}: {told}", stacklevel=1)


class Variants(PackageTest):
    """Every variant of an example is refused, or computes the same as its original."""

    def runtest(self) -> None:
        from opshift.testing.surveys import varied

        done = varied(self.package, evaluate=self.config.stash.get(_EVALUATE, None))
        if new := done.unexplained(self.known):
            raise AssertionError("\n".join([f"{len(new)} variants differ:", *new]))


@pytest.fixture(scope="session")
def opshift_evaluate() -> Any:
    """Computes a model, `(model, inputs) -> outputs`; authors of operators override it."""
    return None


@pytest.fixture(scope="session")
def assert_op_upgrades(opshift_evaluate: Any) -> Callable[..., Any]:
    """`opshift.testing.assert_op_upgrades`, computed by `opshift_evaluate`."""
    from opshift import testing

    return partial(testing.assert_op_upgrades, evaluate=opshift_evaluate)


@pytest.fixture(scope="session")
def assert_op_downgrades(opshift_evaluate: Any) -> Callable[..., Any]:
    """`opshift.testing.assert_op_downgrades`, computed by `opshift_evaluate`."""
    from opshift import testing

    return partial(testing.assert_op_downgrades, evaluate=opshift_evaluate)


@pytest.fixture(scope="session")
def assert_model_converts(opshift_evaluate: Any) -> Callable[..., Any]:
    """`opshift.testing.assert_model_converts`, computed by `opshift_evaluate`."""
    from opshift import testing

    return partial(testing.assert_model_converts, evaluate=opshift_evaluate)


@pytest.fixture(scope="session")
def assert_example(opshift_evaluate: Any) -> Callable[..., Any]:
    """`opshift.testing.assert_example`, computed by `opshift_evaluate`."""
    from opshift import testing

    return partial(testing.assert_example, evaluate=opshift_evaluate)


@pytest.fixture(scope="session")
def assert_fold() -> Callable[..., Any]:
    """`opshift.testing.assert_fold`."""
    from opshift import testing

    return testing.assert_fold


@pytest.fixture(scope="session")
def assert_invalid() -> Callable[..., Any]:
    """`opshift.testing.assert_invalid`."""
    from opshift import testing

    return testing.assert_invalid


@pytest.fixture(scope="session")
def assert_refused() -> Callable[..., Any]:
    """`opshift.testing.assert_refused`."""
    from opshift import testing

    return testing.assert_refused
