# SPDX-License-Identifier: Apache-2.0
"""The places of a zoo: plain files, or a server for S3 on this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

BUCKET = "zoo"
ENDING = ".onnx"
PATIENCE = 60.0  # seconds in which the server must answer


class Place(Protocol):
    """A place for models."""

    root: str  # as `opshift batch` takes it

    def count(self) -> int:
        """The number of models."""

    def models(self) -> Iterator[tuple[str, bytes]]:
        """Each model by name, and not what begins with a dot."""


class Folder:
    """Models in plain files, in folders of one level."""

    def __init__(self, path: Path) -> None:
        self.path, self.root = path, str(path)
        self._counted: dict[str, tuple[int, int]] = {}  # the time of a change, and the models

    def count(self) -> int:
        """Reads again only the folders that changed, as this is asked several times a second."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path) as found:
            for folder in found:
                changed = folder.stat().st_mtime_ns
                if changed != self._counted.get(folder.path, (0, 0))[0]:
                    self._counted[folder.path] = changed, sum(1 for _ in _models_in(folder.path))
        return sum(models for _, models in self._counted.values())

    def models(self) -> Iterator[tuple[str, bytes]]:
        for folder in sorted(self.path.iterdir()):
            for name in _models_in(str(folder)):
                yield f"{folder.name}/{name}", (folder / name).read_bytes()


def _models_in(folder: str) -> list[str]:
    if os.path.basename(folder).startswith("."):
        return []
    names = os.listdir(folder)
    return [name for name in names if name.endswith(ENDING) and not name.startswith(".")]


class Bucket:
    """Models below a prefix of the server's bucket."""

    def __init__(self, client: Any, prefix: str) -> None:
        self.client, self.prefix = client, prefix
        self.root = f"s3://{BUCKET}/{prefix}"

    def put(self, name: str, data: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}", Body=data)

    def count(self) -> int:
        return sum(1 for _ in self._names())

    def models(self) -> Iterator[tuple[str, bytes]]:
        for name in self._names():
            found = self.client.get_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}")
            yield name, found["Body"].read()

    def _names(self) -> Iterator[str]:
        pages = self.client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=BUCKET, Prefix=self.prefix + "/"):
            for one in page.get("Contents", ()):
                name = one["Key"][len(self.prefix) + 1 :]
                if name.endswith(ENDING) and not name.startswith("."):
                    yield name


class Server:
    """The server of moto in a process of its own, on loopback, with its objects in memory."""

    def __init__(self) -> None:
        import boto3

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(words, stdout=quiet, stderr=quiet)
        self.env: Mapping[str, str] = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
        }  # fmt: skip
        self.client = boto3.client(
            "s3", endpoint_url=self.env["AWS_ENDPOINT_URL"], aws_access_key_id="id",
            aws_secret_access_key="secret", region_name="us-east-1",
        )  # fmt: skip
        self._wait(port)
        self.client.create_bucket(Bucket=BUCKET)

    def _wait(self, port: int) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return
            time.sleep(0.1)
        self.close()
        raise TimeoutError("the server for S3 does not answer")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
