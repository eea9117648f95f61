"""Run a command as an ordinary user (nobody), started by root: `as_ordinary_user.py HOME PATHS -- COMMAND`.

The interpreter may lie in a folder that only root may enter. In a mount namespace of its own such folders are replaced
by empty ones that everybody may enter, with just the named paths (separated by `:`) in them.
"""

import ctypes
import os
import stat
import sys
import tempfile

NEWNS, BIND, REC, PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, flags, options=None):
    if LIBC.mount(source.encode(), target.encode(), kind, ctypes.c_ulong(flags), options):
        raise OSError(ctypes.get_errno(), f"mount on {target}")


def first_closed(path):
    """The topmost folder above a path that others may not enter, or None."""
    parts = path.split("/")[1:-1]
    for count in range(1, len(parts) + 1):
        folder = "/" + "/".join(parts[:count])
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return folder
    return None


def open_up(paths):
    """Make each path reachable for everybody who may read it."""
    closed = {}
    for path in paths:
        folder = first_closed(path)
        if folder is not None:
            closed.setdefault(folder, []).append(path)
    for folder, inside in closed.items():
        kept = []
        for path in inside:
            place = tempfile.mkdtemp()
            mount(path, place, None, BIND | REC)
            kept.append(place)
        mount("none", folder, b"tmpfs", 0, b"mode=0755")
        for path, place in zip(inside, kept, strict=False):
            os.makedirs(path, exist_ok=True)
            mount(place, path, None, BIND | REC)
            LIBC.umount2(place.encode(), 2)
            os.rmdir(place)


home, paths = sys.argv[1], sys.argv[2].split(":")
command = sys.argv[sys.argv.index("--") + 1 :]
if LIBC.unshare(NEWNS):
    sys.exit("no mount namespace to be had")
mount("none", "/", None, REC | PRIVATE)
open_up(paths)
os.chown(home, 65534, 65534)
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
os.environ.update(HOME=home, TMPDIR=home, USER="nobody")
os.chdir(home)
os.execv(command[0], command)
