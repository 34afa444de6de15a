"""`python -m opshift.zoo.shard`: the supervisor of one shard, beside an engine's worker."""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing.connection import Connection

from opshift.zoo.limits import die_with
from opshift.zoo.shards import unpacked
from opshift.zoo.supervisor import Supervisor


def main() -> None:
    """Reads the shard from stdin, which then tells whether anyone still waits for it."""
    work = pickle.load(sys.stdin.buffer)
    die_with(Connection(os.dup(0), writable=False))
    fn, limits, shard = unpacked(work)
    answer = os.dup(1)
    os.dup2(2, 1)  # what anyone prints is no answer
    outcomes = list(Supervisor(1, limits).run(fn, shard))
    with os.fdopen(answer, "wb") as file:
        pickle.dump(outcomes, file)


if __name__ == "__main__":
    main()
