"""The preloaded parent of all children: imports torch once, then forks.

Started by the grader as a fresh interpreter, with an environment of its own. It has one thread, touches no CUDA and
runs no OpenMP region, so that its forks may. It holds one end of a control socket: a request there carries three
descriptors (a child's channel, its output, its status socket) and makes a child. On the status socket the zygote says
the child's process id, and at its end how it ended; when the grader closes the other end, the child is killed. When
the grader is gone, by whatever way, everything is.

When a child ends, everything that it started is killed before its end is told: its process group, which seccomp lets
nobody leave; all that has its uid; and orphans, which fall to the zygote because it is their subreaper.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from . import wire

POLL_DYING: Final = 0.001  # seconds between looks at a tree that is being killed
GIVE_UP: Final = 5.0  # seconds after which a killed tree's end is told although something of it still lingers
_PR_SET_CHILD_SUBREAPER: Final = 36


@dataclass(slots=True)
class _Child:
    """One child as the zygote sees it."""

    pid: int
    uid: int | None
    watch: int  # pidfd
    status: socket.socket
    killed_at: float | None = None
    ended: tuple[int, int] | None = None  # wait status, peak memory in kB


class Zygote:
    """Forks children on request and sees to their ends."""

    def __init__(self, control: socket.socket, grader: int, scratch: str) -> None:
        from .limits import closed_to_others
        from .paths import system_paths

        self._control = control
        self._grader = grader
        self._scratch = scratch
        self._children: dict[int, _Child] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(grader, select.POLLIN)
        self._system = system_paths()
        closed_to_others(self._system)
        self._uid_map = Path("/proc/self/uid_map").read_text()

    def run(self) -> None:
        """Serve until the grader is gone; then leave nothing behind."""
        try:
            while self._turn():
                pass
        finally:
            for child in self._children.values():
                if child.killed_at is None:
                    self._end(child)
            end = time.monotonic() + GIVE_UP
            while self._children and time.monotonic() < end:
                self._sweep()
                time.sleep(POLL_DYING)
            with contextlib.suppress(RecursionError):
                shutil.rmtree(self._scratch, ignore_errors=True)

    def _turn(self) -> bool:
        """Wait for something to happen and see to it; false when the grader is gone."""
        dying = any(child.killed_at is not None for child in self._children.values())
        events = dict(self._poll.poll(POLL_DYING * 1000 if dying else None))
        if self._grader in events:
            return False
        if self._control.fileno() in events and not self._spawn():
            return False
        for child in self._children.values():
            if child.killed_at is None and (child.watch in events or child.status.fileno() in events):
                self._end(child)
        self._sweep()
        return True

    def _spawn(self) -> bool:
        try:
            received = wire.receive(self._control, 3)
        except OSError:
            return False
        if received is None:
            return False
        request, (channel, output, told) = received
        status = socket.socket(fileno=told)
        before = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            _tell(status, {"error": f"fork: {error.strerror}"})
            status.close()
            return True
        finally:
            if os.getpid() == before:
                os.close(channel)
                os.close(output)
        if pid == 0:
            self._become_child(request, channel, output, status, before)
        child = _Child(pid, _child_uid(pid, self._uid_map), os.pidfd_open(pid), status)
        self._children[pid] = child
        self._poll.register(child.watch, select.POLLIN)
        self._poll.register(child.status, select.POLLIN)
        _tell(child.status, {"pid": pid})
        return True

    def _become_child(
        self, request: dict[str, Any], channel: int, output: int, status: socket.socket, zygote: int
    ) -> NoReturn:
        """In the fork: take 0 to 3, close everything else, lock down, serve. Never returns."""
        code, said = 1, output
        try:
            from .limits import Policy, lock_down

            policy = Policy.from_json(request["policy"])
            if policy.cpus:
                _open_to_grader(policy.cpus, status)
            for held in (self._control, status, *(child.status for child in self._children.values())):
                held.detach()  # the numbers are used again below: no destructor may close them
            null = os.open("/dev/null", os.O_RDONLY)
            kept = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in (null, output, output, channel)]
            for number, each in enumerate(kept):
                os.dup2(each, number, inheritable=number < 3)
            said = 2
            from . import sanitizer
            from .child import prepare, serve
            from .kernel import close_from

            close_from(4)
            sanitizer.settle()
            report = lock_down(policy, self._system, zygote)
            prepare(policy.threads)
            serve(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=3), report)
            code = 0
        except BaseException as error:  # nothing may unwind into the zygote's own loop
            with contextlib.suppress(BaseException):
                os.write(said, f"the child ended: {type(error).__name__}: {error}\n".encode(errors="replace")[:2000])
        finally:
            os._exit(code)

    def _end(self, child: _Child) -> None:
        child.killed_at = time.monotonic()
        for each in (child.watch, child.status.fileno()):
            self._poll.unregister(each)
        _kill(child.pid)

    def _sweep(self) -> None:
        """Reap what is dead, kill what is left, and tell the ends of children of which nothing is left."""
        for child in [child for child in self._children.values() if child.killed_at is not None]:
            if self._is_gone(child) or time.monotonic() - (child.killed_at or 0.0) > GIVE_UP:
                if child.ended is not None:
                    _tell(child.status, {"status": child.ended[0], "peak_kb": child.ended[1]})
                child.status.close()
                os.close(child.watch)
                del self._children[child.pid]
        if not self._children:
            _reap_orphans()

    def _is_gone(self, child: _Child) -> bool:
        while True:
            try:
                pid, status, usage = os.wait4(-child.pid, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == child.pid:
                child.ended = (status, usage.ru_maxrss)
        if child.ended is None:  # still dying, or killed before it had a group of its own
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid == 0:
                return False
            child.ended = (status, usage.ru_maxrss)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
            return False
        return child.uid is None or not _kill_uid(child.uid)


def _open_to_grader(cpus: Sequence[int], status: socket.socket) -> None:
    """In the fork: keep to these CPUs, and hand the grader a descriptor that reads this process's memory."""
    os.sched_setaffinity(0, cpus)
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    socket.send_fds(status, [wire.encode({"memory": True})], [memory])


def _child_uid(pid: int, uid_map: str) -> int | None:
    from .limits import child_uid

    return child_uid(pid, uid_map) if os.geteuid() == 0 else None


def _kill(pid: int) -> None:
    """Kill a child that is not reaped yet, and its group, if it has one by now."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _tell(status: socket.socket, message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):  # the grader may be gone, or have lost interest
        status.sendall(wire.encode(message))


def _kill_uid(uid: int) -> bool:
    """Kill all processes of a uid; whether there were any.

    If there are, a fork takes on the uid and kills all that it may, at once: no fork bomb is quicker than that.
    """
    if not any(_owner(entry) == uid for entry in os.listdir("/proc") if entry.isdigit()):
        return False
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    return True


def _owner(pid: str) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _reap_orphans() -> None:
    """With no child alive, whatever falls to the zygote is an orphan that left its group: kill it, reap it."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return
        if found is not None:
            continue
        try:
            left = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        except OSError:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        return


def main(control: int, grader: int, scratch: str, compiler: str | None, gpu: bool) -> None:
    """Preload, say that all is ready, serve. `control` is a descriptor, `grader` the process that started this one.

    `compiler` is where torch's is to keep things, if it is needed, and `gpu` whether for a GPU.
    """
    channel = socket.socket(fileno=control)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    watch = os.pidfd_open(grader)
    if os.getppid() != grader:
        return
    os.environ.pop("LD_PRELOAD", None)  # a sanitizer's runtime is for this process and its forks
    from . import child, sanitizer  # noqa: F401  (child imports torch and tvm_ffi)

    sanitizer.introduce()
    if compiler is not None:
        from .compiled import preload

        preload(compiler or f"{scratch}/compiled", gpu=gpu)
    threads = len(os.listdir("/proc/self/task"))
    zygote = Zygote(channel, watch, scratch)
    gc.collect()
    gc.freeze()
    channel.sendall(wire.encode({"threads": threads, "pid": os.getpid()}))
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    sys.argv = [""]
    zygote.run()
    os._exit(0)
