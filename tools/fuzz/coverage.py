# SPDX-License-Identifier: Apache-2.0
"""The byte-level fuzzer with coverage as its guide, for whoever has atheris (`opshift[fuzz]`).

    python -m tools.fuzz coverage CORPUS -max_total_time=600 [-runs=N] [-timeout=20]

CORPUS is a folder that libFuzzer reads from and grows; when it is empty, the small models that
`tools/fuzz/run.py` starts from are put there. A crash file is a model's bytes behind eight that say
which call is made; `python -m tools.fuzz run --replay` takes the .json that is written beside it.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path
from random import Random

try:
    import atheris
except ImportError:
    sys.exit("coverage needs atheris: pip install 'opshift[fuzz]'; the tool `run` does without")

GUIDES = (
    "opshift.author",
    "opshift.convert",
    "opshift.model",
    "opshift.opsets",
    "opshift_adapters",
)


def import_all(package: str) -> None:
    """Imports every module below a package, as a module that is imported later guides nothing."""
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(found.name)


with atheris.instrument_imports(include=["opshift", "opshift_adapters"]):
    for guide in GUIDES:
        import_all(guide)

from tools.fuzz import mutate_bytes, seeds  # noqa: E402
from tools.fuzz import promises as fuzz_judge  # noqa: E402
from tools.fuzz.case import VERBS, Case, draw_call  # noqa: E402

HEAD = 8  # bytes that draw the call
ONE_MODEL = tuple(verb for verb in VERBS if verb != "diff")


def case_of(data: bytes) -> Case:
    """The call that the first bytes draw, with the rest as the file."""
    return Case(data[HEAD:], {}, draw_call(Random(data[:HEAD]), ONE_MODEL))


def one(data: bytes) -> None:
    """What libFuzzer calls: raises on a finding, which it then saves."""
    case = case_of(data)
    ending = fuzz_judge.judge(case)
    if ending.is_finding:
        path = Path(f"found-{ending.digest()[:12]}.json")
        case.save(path, ending.detail)
        raise fuzz_judge.BrokenPromise(f"{path}: {ending.where}: {ending.detail}")


def change(data: bytes, size: int, seed: int) -> bytes:
    """libFuzzer's own changes, or ours, which know the sizes that matter."""
    rng = Random(seed)
    if rng.random() < 0.5:
        return atheris.Mutate(data, size)
    return mutate_bytes.mutated(rng, data, data)[:size]


def fill(folder: Path) -> None:
    """Gives an empty corpus the models to start from."""
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        for i, model in enumerate(seeds.pool(("frozen", "adapters"))):
            (folder / f"{i:05}").write_bytes(i.to_bytes(HEAD, "little") + model)


def main() -> None:
    """The command; libFuzzer reads the options itself."""
    if folders := [argument for argument in sys.argv[1:] if not argument.startswith("-")]:
        fill(Path(folders[0]))
    atheris.Setup(sys.argv, one, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
