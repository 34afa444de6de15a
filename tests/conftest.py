# SPDX-License-Identifier: Apache-2.0
"""Nothing but this tree counts: no slow machine, no package of another vendor, no settings.

`addopts` in pyproject.toml names the plugins of pytest, so that none is loaded for being installed.
"""

import os
import sys

from hypothesis import HealthCheck, settings
from opshift import plugins

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
