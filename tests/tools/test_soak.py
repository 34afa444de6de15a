# SPDX-License-Identifier: Apache-2.0
"""Conversions in threads, and in a forked child, give what they gave the first time."""

import sys

import pytest
from opshift.opsets import schemas

from tools.bench import soak


@pytest.mark.skipif(sys.platform != "linux", reason="it forks, and reads /proc")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_small_soak() -> None:
    if (schemas.latest("") or 0) < 27:
        pytest.skip("the installed onnx is older than some examples")
    done = soak.soak(800, 4)
    assert (done.different, done.child) == (0, 0)
    assert len(done.memory) == soak.STEPS
