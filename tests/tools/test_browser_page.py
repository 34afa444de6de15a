# SPDX-License-Identifier: Apache-2.0
"""The page that converts models in a browser: its Python code, and the page in Chromium."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
import time

import onnx
import opshift
import pytest
from browser import MISSING, Browser
from onnx import parser

from tools.author.browser_page import HERE, ROOT, build

EXAMPLE = ROOT / "examples" / "attention_opset12.onnx"
PLAIN = """<ir_version: 8, opset_import: ["": 13]> g (float[1,3,8,8] x, float[4,3,3,3] w)
 => (float[1,4,6,6] y) { c = Conv(x, w)  r = Relu(c)  s = Add(r, r)  y = Identity(s) }"""


@pytest.fixture
def folder(tmp_path):
    shutil.copy(EXAMPLE, tmp_path)
    onnx.save(parser.parse_model(PLAIN), tmp_path / "plain model.onnx")
    return tmp_path


def session(*commands, folder, before=""):
    """Returns the answers of session.py to commands, from its own process."""
    code = (
        f"import sys, json\n{before}\nsys.path.insert(0, {str(HERE)!r})\nimport session\n"
        f"session.start({str(folder)!r})\n"
        f"print(json.dumps([json.loads(session.run(words)) for words in {commands!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_session_answers_as_the_command_does(folder):
    info, converted, refused = session(
        ("info", EXAMPLE.name), ("convert", EXAMPLE.name, "-o", "out.onnx", "--to", "21"),
        ("convert", EXAMPLE.name, "-o", "other.onnx", "--to", "99"), folder=folder,
    )  # fmt: skip
    assert info["code"] == 0
    assert "opset 12" in info["text"]
    assert converted["code"] == 0
    assert onnx.load(folder / "out.onnx").opset_import[0].version == 21
    assert refused["code"] == 2
    assert "99" in refused["text"]


ABSENT = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "numpy" else find(name, *a)
"""


def test_without_numpy_a_sentence_names_the_way_out(folder):
    """Conversions that need no arrays succeed; others write no file."""
    converted, refused = session(
        ("convert", "plain model.onnx", "-o", "a.onnx", "--to", "21"),
        ("convert", EXAMPLE.name, "-o", "b.onnx", "--to", "9"), folder=folder, before=ABSENT,
    )  # fmt: skip
    assert converted["code"] == 0, converted["text"]
    assert onnx.load(folder / "a.onnx").opset_import[0].version == 21
    assert refused["code"] == 2
    assert "built without numpy" in refused["text"]
    assert not (folder / "b.onnx").exists()


def test_without_numpy_no_result_differs(folder):
    """Conversions that need no numpy give the same bytes with and without it."""
    targets = ("7", "9", "11", "13", "15", "18", "21")
    words = [
        ("convert", name, "-o", f"{where}_{i}_{to}.onnx", "--to", to)
        for i, name in enumerate((EXAMPLE.name, "plain model.onnx"))
        for to in targets
        for where in ("{}",)
    ]
    ran = {
        where: session(
            *[[w.format(where) for w in word] for word in words], folder=folder, before=before
        )
        for where, before in (("with", ""), ("without", ABSENT))
    }
    assert {one["code"] for one in ran["with"]} == {0}
    made = list(folder.glob("without_*.onnx"))
    assert len(made) >= 7
    for path in made:
        assert (
            path.read_bytes() == path.with_name(path.name.replace("without", "with")).read_bytes()
        )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Builds the page with packages from the registries."""
    if MISSING:
        pytest.skip(f"{' and '.join(MISSING)} not installed")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    out = tmp_path_factory.mktemp("page")
    try:
        build(out)
    except (subprocess.CalledProcessError, SystemExit) as error:
        pytest.skip(f"the parts cannot be fetched: {error}")
    return out


@pytest.fixture
def page(built):
    """The address of the page, and a function that ends its server."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=str(built))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def end():
        server.shutdown()
        server.server_close()

    yield f"http://127.0.0.1:{server.server_port}/", end
    end()


def until(browser, script, seconds=240):
    """Waits until a script returns something true."""
    for _ in range(seconds * 10):
        if (found := browser.run(f"return {script}")) or browser.run(
            "return state.className === 'bad'"
        ):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{script} stays false: {browser.run('return document.body.innerText')}")


def answer(browser):
    """Returns the newest answer, after the page has finished its work."""
    until(browser, "state.textContent.startsWith('Ready') && answers.firstChild !== null")
    return browser.run("return [answers.firstChild.dataset.code, answers.firstChild.innerText]")


def press(browser, button, title):
    """Presses a button and returns what the page then shows."""
    browser.run(f"document.getElementById('{button}').click()")
    until(browser, f"answers.firstChild.innerText.startsWith('{title}')")
    return answer(browser)


def test_a_model_is_shown_and_converted_in_the_browser(page, folder):
    """Only this test shows that the page works in a browser."""
    address, end = page
    with Browser() as browser:
        browser.open(address)
        assert until(browser, "state.textContent.startsWith('Ready')"), browser.run(
            "return state.textContent"
        )
        assert browser.run("return known.children.length") > 50
        until(browser, "offline.textContent")
        end()  # from here on nothing is fetched
        browser.choose("#file", folder / EXAMPLE.name)
        assert answer(browser) == ["0", browser.run("return answers.innerText")]
        assert "opset 12" in browser.run("return answers.innerText")
        browser.run("document.getElementById('target').value = '13'")
        for button, title, told in (
            ("targets", "Runtimes", "onnxruntime"),
            ("plan", "Plan", "Possible: opset 12 -> 13"),
            ("convert", "Convert", "opset 12 -> 13"),
        ):
            code, text = press(browser, button, title)
            if button == "plan" and not browser.run("return incomplete.hidden"):
                assert "built without numpy" in text  # it looks at each step down, too
                continue
            assert code == "0", text
            assert told in text
        until(browser, "!download.hidden")
        saved = folder / "saved"
        browser.download_to(saved)
        browser.run("download.click()")
        result = saved / "attention_opset12_opset13.onnx"
        for _ in range(100):
            if result.exists():
                break
            time.sleep(0.1)
        opshift.convert_file(EXAMPLE, folder / "here.onnx", 13)
        assert result.read_bytes() == (folder / "here.onnx").read_bytes()
        browser.open(address)  # the server is gone
        assert until(browser, "state.textContent.startsWith('Ready')")


def test_a_large_file_is_refused_with_the_command(page, folder):
    address, _ = page
    with (folder / "large.onnx").open("wb") as file:
        file.truncate(300 * 2**20)
    with Browser() as browser:
        browser.open(address)
        until(browser, "state.textContent.startsWith('Ready')")
        browser.choose("#file", folder / "large.onnx")
        until(browser, "state.textContent.includes('300 MB')")
        assert "opshift convert large.onnx" in browser.run("return answers.innerText")
        assert browser.run("return convert.disabled")
