"""The pytest plugin: the assertions as fixtures, and a test of each package that is named.

Every pytest in an environment with opshift loads it, so it imports nothing before it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("opshift").addoption(
        "--opshift-adapters", action="append", default=[], metavar="PACKAGE",
        help="test that this package has exactly one verdict for each boundary and direction",
    )  # fmt: skip


@pytest.hookimpl(tryfirst=True)  # so that -k and -m choose among these tests too
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    for package in config.getoption("--opshift-adapters"):
        items.append(Verdicts.from_parent(session, name=f"opshift-adapters[{package}]"))


class Verdicts(pytest.Item):
    """The test of one package, which the brackets of its name hold."""

    def runtest(self) -> None:
        from opshift.testing import assert_complete

        assert_complete(self.name.partition("[")[2].removesuffix("]"))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, None, str]:
        return self.path, None, self.name


@pytest.fixture(scope="session")
def opshift_evaluate() -> Any:
    """What computes a model, `(model, inputs) -> outputs`; overridden by who has operators."""
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
