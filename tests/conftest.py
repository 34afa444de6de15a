# SPDX-License-Identifier: Apache-2.0
"""Makes tests independent of slow machines, packages of other vendors, and settings.

`addopts` in pyproject.toml lists the plugins of pytest, so that no other plugin is loaded.
"""

import gc
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import fake_runtimes
import pytest
import warm_python
from hypothesis import HealthCheck, settings
from opshift import child_task, plugins
from opshift.author import registry
from opshift.author.traits import Fold
from opshift.author.verdicts import Adapter
from opshift.verify import other_runtime
from opshift.verify.engine_runs import sentence
from xdist.scheduler.worksteal import WorkStealingScheduling

# A run creates few cycles and keeps many objects; the collector would look at all of them again.
gc.set_threshold(50_000, 20, 10)

SECONDS = 0.1  # of one core, for a test of the whole suite on average

settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# The child processes inherit what is set here.
vendors = (place for name, place in plugins.distributions(sys.path) if name != "opshift")
os.environ.setdefault(plugins.IGNORED, os.pathsep.join(vendors))
for name in ("OPSHIFT_OPSETS", "OPSHIFT_TARGETS"):
    os.environ.pop(name, None)
# What a child process compiles is kept, or each of them compiles the engine again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A pytest that a test runs loads our plugin as it is installed, and no other.
os.environ.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_PLUGINS="opshift.testing.plugin")


@pytest.fixture
def with_adapters(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Adds adapters to a copy of the registry, in place of those they collide with."""

    def add(*declared: Adapter | Fold) -> None:
        branch = registry.default().branch()
        for one in declared:
            if isinstance(one, Adapter):
                for op in one.ops:
                    branch._verdicts.pop((one.domain, op, one.start, one.to), None)
            branch.add(one)
        monkeypatch.setattr(registry, "default", lambda: branch)

    return add


@pytest.fixture
def models_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs models in this process; `tests/verify/test_limits.py` tests the child processes."""

    def run(module: str, task: str, *args: Any, limits: object) -> child_task.ChildAnswer:
        try:
            return child_task.ChildAnswer(importlib.import_module(module).TASKS[task](*args))
        except Exception as error:
            return child_task.ChildAnswer([], sentence(error))

    monkeypatch.setattr(child_task, "run", run)


@pytest.fixture
def warm_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts each Python as a fork of one that has imported opshift, in place of a new one."""
    monkeypatch.setattr(sys, "executable", warm_python.python())


@pytest.fixture(scope="module")
def forked_runtimes() -> Iterator[None]:
    """Forks this process for each fake runtime; `test_other_runtime.py` starts real ones."""
    with pytest.MonkeyPatch.context() as patch:
        processes = SimpleNamespace(**{**vars(subprocess), "Popen": fake_runtimes.popen})
        patch.setattr(other_runtime, "subprocess", processes)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One half of the tests for each of two workers, so that a module prepares its data once."""
    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Writes how long a long run takes, before the first dot."""
    workers = len(node.config.getvalue("tx"))
    minutes = len(ids) * SECONDS / workers / 60
    terminal = node.config.pluginmanager.get_plugin("terminalreporter")
    if minutes > 1.5 and terminal and node.gateway.id == "gw0":
        terminal.write_line(
            f"{len(ids):,} tests, about {minutes:.0f} minutes with {workers} processes"
        )
