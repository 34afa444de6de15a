# SPDX-License-Identifier: Apache-2.0
"""Imports modules once and forks a process for each command of a client, until its input ends."""

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
import types

BASE = sys.path[1:]  # without the folder of this file


def main():
    address, program, *modules = sys.argv[1:]
    sys.path[:] = BASE
    for name in modules:
        importlib.import_module(name)
    sys.executable = program
    gc.collect()
    gc.freeze()
    job = serve(address)
    if job:
        end(job)


def serve(address):
    """Forks a process for each client; returns its command in that process, and None at the end."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    os.write(1, b"ready\n")
    while True:
        # One event at a time: a client and its process may end together, and the first event
        # closes the files of both.
        key, _ = selector.select()[0]
        if key.fileobj == 0:
            return None
        if key.fileobj is not listener:
            finish(selector, key)
            continue
        client = listener.accept()[0]
        try:
            command, streams = receive(client)
        except (OSError, ValueError, EOFError):  # the client was killed
            client.close()
            continue
        if not (pid := os.fork()):
            leave(selector, client)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
        for stream in streams:
            os.close(stream)
        if not pid:
            return command
        ended = os.pidfd_open(pid)
        for one in (client, ended):
            selector.register(one, selectors.EVENT_READ, (pid, client, ended))


def receive(client):
    """Reads the command of a client, and its streams."""
    size, streams, *_ = socket.recv_fds(client, 8, 3)
    with client.makefile("rb") as file:
        return marshal.loads(file.read(int.from_bytes(size, "big"))), streams


def leave(selector, client):
    """Closes the files of the server in the process of a client."""
    for key in list(selector.get_map().values()):
        if isinstance(key.fileobj, socket.socket):
            key.fileobj.close()
        elif key.fileobj:
            os.close(key.fileobj)
    selector.close()
    client.close()


def finish(selector, key):
    """Informs a client how its process ended, or ends the process of a client that is gone."""
    pid, client, ended = key.data
    if key.fileobj is client:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):  # the client may be gone
        client.sendall(code.to_bytes(8, "big", signed=True))
    for one in (client, ended):
        selector.unregister(one)
    client.close()
    os.close(ended)


def end(job):
    """Runs a command and ends the process without destroying its objects one by one."""
    code = 1
    try:
        run(*job)
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        if left.code is not None and not isinstance(left.code, int):
            print(left.code, file=sys.stderr)
    except KeyboardInterrupt:
        traceback.print_exc()
        code = 130
    except BaseException:
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream:
                stream.flush()
        except OSError:
            code = 120
    os._exit(code & 255)


def run(flags, words, folder, environment):
    """Runs the command as a new Python would."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    given = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [*dict.fromkeys([*given, *BASE])]
    sys.dont_write_bytecode = "-B" in flags or bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        if "-P" not in flags:
            sys.path.insert(0, "")
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), vars(main))
    elif words[0] == "-m":
        sys.argv = words[1:]
        if "-P" not in flags:
            sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        if "-P" not in flags:
            sys.path.insert(0, os.path.dirname(os.path.realpath(words[0])))
        runpy.run_path(words[0], run_name="__main__")


main()
