# SPDX-License-Identifier: Apache-2.0
"""No test fails because a machine is slow."""

from hypothesis import HealthCheck, settings

settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
