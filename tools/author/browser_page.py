# SPDX-License-Identifier: Apache-2.0
"""Builds the HTML page that converts models in a browser, with all files that it needs.

python -m tools.author browser_page --out DIR                     Pyodide from npm, wheels from PyPI
python -m tools.author browser_page --out DIR --pyodide FOLDER    from a distribution of Pyodide

numpy has a WebAssembly wheel only in Pyodide's own distribution; without numpy, the page refuses
conversions that need arrays. Serve DIR with any web server: `python -m http.server -d DIR`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from opshift.versions import RELEASES

from tools.lib.program import described

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "docs" / "browser"
PAGE = ("index.html", "page.css", "page.mjs", "worker.mjs", "session.py", "offline.js")
PYODIDE = "pyodide@314.0.7"
CORE = (
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json",
)  # fmt: skip
PURE = ("click", "networkx")
COMPILED = ("onnx", "protobuf", "numpy", "ml-dtypes")
NEEDED = ("onnx", "protobuf", "click", "networkx")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def core(folder: Path | None, scratch: Path) -> Path:
    """Returns the folder of Pyodide: the given folder, or the unpacked package from npm."""
    if folder is not None:
        return folder
    words = ["npm", "pack", "--silent", PYODIDE]
    done = subprocess.run(words, cwd=scratch, capture_output=True, text=True, check=True)
    with tarfile.open(scratch / done.stdout.split()[-1]) as packed:
        packed.extractall(scratch, filter="data")
    return scratch / "package"


def wheels(pyodide: Path, out: Path) -> list[Path]:
    """Copies the wheels of the dependencies from the distribution, or downloads them from PyPI."""
    lock = json.loads((pyodide / "pyodide-lock.json").read_text("utf-8"))
    info, packages = lock["info"], lock["packages"]
    for name in (*COMPILED, *PURE):
        held = pyodide / packages.get(name, {}).get("file_name", "none")
        if held.is_file():
            shutil.copy(held, out)
        elif not _download(name, info, out) and name in NEEDED:
            raise SystemExit(f"no wheel of {name} fits Pyodide for Python {info['python']}")
    return sorted(out.glob("*.whl"))


def _download(name: str, info: dict[str, str], out: Path) -> bool:
    """Downloads a wheel with pip that is pure Python or fits this Pyodide."""
    version = "".join(info["python"].split(".")[:2])
    platform = f"pyemscripten_{info['abi_version']}_wasm32"
    words = [
        "download", "-q", "--no-deps", "--only-binary", ":all:", "--implementation", "cp",
        "--python-version", version, "--abi", f"cp{version}", "--platform", platform,
        "-d", str(out), name,
    ]  # fmt: skip
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    return subprocess.run([*pip, *words], capture_output=True, check=False).returncode == 0


def own_wheel(out: Path) -> None:
    """Builds the wheel of opshift from a copy of this tree, because a build leaves files behind."""
    with tempfile.TemporaryDirectory() as place:
        for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
            shutil.copy(ROOT / name, place)
        leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for name in ("converter", "adapters"):
            shutil.copytree(ROOT / name, Path(place, name), ignore=leave)
        words = [sys.executable, "-c", BUILD, str(out.resolve())]
        subprocess.run(words, cwd=place, check=True, capture_output=True)


def lean(wheel: Path) -> None:
    """Repacks a wheel without tests, headers and stubs."""
    kept = wheel.with_suffix(".lean")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            parts = entry.filename.split("/")
            superfluous = {"tests", "test", "include"} & {*parts[:-1]}
            if superfluous or entry.filename.endswith((".h", ".pyi", ".proto", ".cc")):
                continue
            if entry.filename.startswith("onnx/backend/"):
                continue
            new.writestr(entry.filename, old.read(entry))
    kept.replace(wheel)


def build(out: Path, pyodide: Path | None = None) -> None:
    """Writes the page and its files to a folder."""
    (out / "pyodide").mkdir(parents=True, exist_ok=True)
    (out / "wheels").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = core(pyodide, Path(scratch))
        for name in CORE:
            shutil.copy(source / name, out / "pyodide")
        held = wheels(source, out / "wheels")
    for wheel in held:
        lean(wheel)
    own_wheel(out / "wheels")
    for name in PAGE:
        shutil.copy(HERE / name, out)
    packed = sorted((out / "wheels").glob("*.whl"))
    archives = [{"name": f"wheels/{wheel.name}", "format": "wheel"} for wheel in packed]
    files = [path for path in sorted(out.rglob("*")) if path.is_file()]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    listed = [path.relative_to(out).as_posix() for path in files]
    parts = {
        "version": f"opshift-{digest[:16]}",
        "archives": archives,
        "files": ["./", "parts.json", *listed],
        "opsets": [str(n) for n in sorted({release.onnx for release in RELEASES}, reverse=True)],
    }
    (out / "parts.json").write_text(json.dumps(parts, indent=1), "utf-8")


def main() -> int:
    """Runs the tool."""
    parser = described(__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    parser.add_argument("--pyodide", type=Path, metavar="FOLDER", help="an unpacked Pyodide")
    args = parser.parse_args()
    if args.out.exists() and any(args.out.iterdir()):
        raise SystemExit(f"{args.out} is not empty; give a new folder")
    build(args.out, args.pyodide)
    size = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    names = [path.name for path in (args.out / "wheels").iterdir()]
    if not any(name.startswith("numpy-") for name in names):
        print("numpy has no wheel here: the page refuses conversions that need arrays")
    print(f"wrote {args.out}  {size / 2**20:.1f} MB; python -m http.server -d {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
