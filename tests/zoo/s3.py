# SPDX-License-Identifier: Apache-2.0
"""A real S3-compatible server on this machine, which can simulate errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import warm_python

pytest.importorskip("obstore", reason="opshift[remote] is not installed")
pytest.importorskip("moto.server", reason="the server that tests use is not installed")

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "zoo"


class Server:
    """The server in a thread; attributes control its errors."""

    def __init__(self) -> None:
        self.app = DomainDispatcherApplication(create_backend_app)
        self.fails_every, self.failure, self.count = 0, "403 Forbidden", 0
        self.ignores_create = False
        self.lock, self.creating = threading.Lock(), threading.Lock()
        self.server = make_server("127.0.0.1", 0, self, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.client = boto3.client("s3", endpoint_url=self.url, aws_access_key_id="id", aws_secret_access_key="secret", region_name="us-east-1")  # fmt: skip
        self.client.create_bucket(Bucket=BUCKET)
        self.client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})  # fmt: skip

    def __call__(self, environ, start_response):
        ours = "boto" not in environ.get("HTTP_USER_AGENT", "").lower()
        with self.lock:
            self.count += ours
            fails = ours and self.fails_every and self.count % self.fails_every == 0
        if self.ignores_create:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if fails:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response(self.failure, [("Content-Length", "0")])
            return [b""]
        if "HTTP_IF_NONE_MATCH" in environ:  # the application looks, then writes
            with self.creating:
                return self.app(environ, start_response)
        return self.app(environ, start_response)

    def close(self) -> None:
        self.server.shutdown()

    @property
    def env(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
        }  # fmt: skip

    def upload(self, folder: Path, prefix: str) -> str:
        for path in folder.rglob("*"):
            if path.is_file():
                self.client.put_object(Bucket=BUCKET, Key=f"{prefix}/{path.relative_to(folder)}", Body=path.read_bytes())  # fmt: skip
        return f"s3://{BUCKET}/{prefix}"

    def keys(self, prefix: str) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix + "/")  # fmt: skip
        return {one["Key"][len(prefix) + 1 :] for page in pages for one in page.get("Contents", ())}

    def get(self, key: str) -> bytes:
        return self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def puts(self, prefix: str) -> dict[str, int]:
        """Returns how often each object was written."""
        found: dict[str, int] = {}
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=BUCKET, Prefix=prefix + "/")  # fmt: skip
        for page in pages:
            for one in page.get("Versions", ()):
                name = one["Key"][len(prefix) + 1 :]
                found[name] = found.get(name, 0) + 1
        return found


def start(
    server: Server, home: Path, *words: object, env=None, python: str = ""
) -> subprocess.Popen[str]:
    """Starts `opshift batch` in its own process, with its journal in `home`."""
    ours = {"PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": str(home)}
    env = {**os.environ, **ours, **server.env, **(env or {})}
    python = python or warm_python.python()
    command = [python, "-m", "opshift", "batch", *map(str, words)]
    command += [] if "--engine" in words else ["--workers", "2"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)  # fmt: skip


def batch(server: Server, home: Path, *words: object, env=None) -> dict:
    """Returns the summary of a finished run."""
    driver = start(server, home, *words, "--json", env=env)
    out, err = driver.communicate(timeout=300)
    assert driver.returncode in (0, 1), err
    raw = json.loads(out)
    return {**raw, "fates": {fate: count for fate, count in raw["fates"].items() if count}}
