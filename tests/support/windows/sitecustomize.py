# SPDX-License-Identifier: Apache-2.0
"""Hides calls that exist only on POSIX from opshift, but not from Python's own library.

Python imports this file first if it is on the search path, also in child processes.
"""

import builtins
import fcntl
import os
import signal
import sys
import types

HIDDEN = {
    os: """
        chown copy_file_range fchmod fchown fork forkpty getegid geteuid getgid getpgid getuid
        getxattr kill killpg lchown link listxattr mkfifo mknod nice posix_fadvise posix_fallocate
        posix_spawn pread preadv pwrite pwritev register_at_fork removexattr sched_getaffinity
        sched_setaffinity sendfile setpgid setsid setxattr statvfs sync sysconf umask uname
        O_ASYNC O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK
    """,
    signal: """
        ITIMER_REAL SIGALRM SIGCHLD SIGHUP SIGIO SIGKILL SIGPIPE SIGSTOP SIGUSR1 SIGUSR2 alarm
        pthread_kill pthread_sigmask setitimer sigwait
    """,
}
MODULES = ("fcntl", "grp", "posix", "pwd", "resource", "termios", "tty")


def _without(module, names):
    """Returns a copy of a module without some names."""
    module_copy = types.ModuleType(module.__name__)
    vars(module_copy).update({n: v for n, v in vars(module).items() if n not in names.split()})
    return module_copy


SEEN = {module.__name__: _without(module, names) for module, names in HIDDEN.items()}


class _Sys(types.ModuleType):
    """The module sys on another platform; everything else is that of this process."""

    platform = "win32"

    def __getattr__(self, name):
        return getattr(sys, name)

    def __setattr__(self, name, value):
        setattr(sys, name, value)


def _locking(fd, mode, count):
    """Locks a byte like `msvcrt.locking`: two handles of a file exclude each other."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PermissionError(13, "Permission denied") from error


SEEN["sys"] = _Sys("sys")
SEEN["msvcrt"] = types.ModuleType("msvcrt")
SEEN["msvcrt"].LK_NBLCK, SEEN["msvcrt"].locking = 2, _locking
_import = builtins.__import__


def _seen(name, globals=None, locals=None, fromlist=(), level=0):
    if level == 0 and str((globals or {}).get("__name__")).startswith("opshift"):
        top = name.partition(".")[0]
        if top in MODULES:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)
        if name in SEEN:
            return SEEN[name]
        if top in SEEN and not fromlist:
            return SEEN[top]
    return _import(name, globals, locals, fromlist, level)


builtins.__import__ = _seen
