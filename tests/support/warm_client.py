# SPDX-License-Identifier: Apache-2.0
"""Has a command of Python run by a server; what the server cannot give runs in a new Python."""

import marshal
import os
import signal
import stat
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOL_SOCKET, socket

FLAGS = {"-P", "-B", "-u"}
# The settings of Python that a fork can take over after its start.
TAKEN = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}


def main():
    address, real, *words = sys.argv[1:]
    flags = []
    while words and words[0] in FLAGS:
        flags.append(words.pop(0))
    if words and words[0].startswith("-m") and len(words[0]) > 2:
        words[:1] = ["-m", words[0][2:]]
    if not words or not _can_be_forked(words):
        os.execv(real, [real, *flags, *words])
    server = socket(AF_UNIX)
    try:
        server.connect(address)
    except OSError:  # `warm_python` reports at the end why its server ended
        os.execv(real, [real, *flags, *words])
    data = marshal.dumps((flags, words, os.getcwd(), dict(os.environ)))
    descriptors = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
    server.sendmsg([len(data).to_bytes(8, "big")], [(SOL_SOCKET, SCM_RIGHTS, descriptors)])
    server.sendall(data)
    answer = server.recv(8)
    code = int.from_bytes(answer, "big", signed=True) if answer else 255
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _can_be_forked(words):
    """Whether there are no other settings, no closed streams, no terminals and no more files."""
    if words[0].startswith("-") and words[0] not in ("-c", "-m"):
        return False
    if any(name.startswith("PYTHON") and name not in TAKEN for name in os.environ):
        return False
    more = len(os.listdir("/proc/self/fd")) > 4  # the streams and the folder itself
    return not more and all(map(_is_open, (0, 1, 2)))


def _is_open(number):
    try:
        return not (stat.S_ISCHR(os.fstat(number).st_mode) and os.isatty(number))
    except OSError:
        return False


main()
