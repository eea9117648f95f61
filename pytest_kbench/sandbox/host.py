"""The grader's side of the sandbox: start a candidate in a child of its own, call it, read what it left.

`Sandbox` owns one zygote and starts children; `Child` is one candidate, loaded and ready. Whatever a child does comes
back as data: a `Returned`, or a `Failure` with a reason from `record.Reason`. Exceptions here are never a candidate's
doing: `SandboxRefused` says that this machine does not give the layers that were asked for, `SandboxError` that no
child could be made at all. What goes wrong before a child is asked to load or build something is this machine's, or
our own; from then on it is the candidate's.

Every wait has a deadline, and at every deadline the whole tree of the child is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import site
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path
from types import TracebackType
from typing import Final

from ..options import SandboxMode
from ..record import Reason
from . import sanitizer, wire
from .calls import Child, give_back
from .connection import Connection, Ends, R
from .kept import lend
from .limits import LayerReport, Policy
from .outcome import (
    CompileJob,
    Failure,
    Gradients,
    Limits,
    OutputClaim,
    OutputSpec,
    Program,
    Returned,
    Runtime,
    SandboxError,
    SandboxRefused,
    TensorArgument,
    ValueArgument,
    same_process,
)

__all__ = [
    "Child", "CompileJob", "Failure", "Gradients", "LayerReport", "Limits", "OutputClaim", "OutputSpec", "Program",
    "Returned", "Runtime", "Sandbox", "SandboxError", "SandboxRefused", "TensorArgument", "ValueArgument",
]  # fmt: skip

ZYGOTE_START: Final = 120.0  # seconds: a cold disk reads torch slowly
END_OF_BUILD: Final = 10.0  # seconds that a build's processes have to die, before what they left is looked at
READY_TIME: Final = 30.0  # seconds that a child has to get ready, before anything of a candidate is in it

# What the zygote, and so every child, inherits of the grader's environment.
_ENVIRONMENT: Final = (
    "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES",
    "CC", "CXX", "MAX_JOBS", "TVM_FFI_GPU_BACKEND", "TVM_FFI_CUDA_ARCH_LIST", "TORCH_CUDA_ARCH_LIST",
)  # fmt: skip

# torch's compiler looks for a GPU when it is loaded, which starts CUDA and threads of its own: no fork can use it then.
_NO_GPU: Final = {"CUDA_VISIBLE_DEVICES": "", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}

_PRELOADED: Final = ("numpy", "torch", "tvm_ffi")

# The zygote's program comes through its standard input, so that its arguments say nothing to a child. The package is
# found by its place, not by a search path: a project's root must not be on a child's.
_BOOTSTRAP: Final = """
import sys, types
package = types.ModuleType("pytest_kbench")
package.__path__ = [{place!r}]
sys.modules["pytest_kbench"] = package
sys.path += [each for each in {paths!r} if each not in sys.path]
from pytest_kbench.sandbox.zygote import main
main({control}, {grader}, {scratch!r}, {compiler!r}, {gpu})
"""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a zygote has beside torch: a sanitizer's runtime, or torch's compiler and the folder it keeps things in.

    `gpu`: the latter is for a GPU.
    """

    runtime: Runtime | None = None
    compiler: str | None = None
    gpu: bool = False


_PLAIN: Final = _Kind()


class _Zygote:
    """The grader's hold on one zygote process."""

    def __init__(self, threads: int | None, kind: _Kind) -> None:
        with contextlib.ExitStack() as undo:
            try:
                self.scratch = Path(tempfile.mkdtemp(prefix="kbench-"))
                undo.callback(shutil.rmtree, self.scratch, ignore_errors=True)
                self.scratch.chmod(0o711)
                self.control, theirs = socket.socketpair()
                undo.callback(self.control.close)
                with theirs:
                    self.process = self._launch(theirs, threads, kind)
            except OSError as error:
                raise SandboxError(f"the zygote cannot be started: {error}") from error
            self._wait_ready()
            undo.pop_all()
        self._end = weakref.finalize(self, _end_zygote, os.getpid(), self.control, self.process, self.scratch)

    def _launch(self, theirs: socket.socket, threads: int | None, kind: _Kind) -> subprocess.Popen[bytes]:
        command, environment = [sys.executable, "-P", "-"], _zygote_environment(threads)
        if kind.runtime is not None:
            command = sanitizer.command(kind.runtime, command)
            environment |= sanitizer.environment(kind.runtime)
        if kind.compiler is not None and not kind.gpu:
            environment |= _NO_GPU
        program = _BOOTSTRAP.format(
            place=str(Path(__file__).resolve().parents[1]),
            control=theirs.fileno(),
            grader=os.getpid(),
            scratch=str(self.scratch),
            paths=_package_paths(),
            compiler=kind.compiler,
            gpu=kind.gpu,
        )
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            env=environment,
            cwd="/",
            start_new_session=True,
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(program.encode())
        return process

    def _wait_ready(self) -> None:
        self.control.settimeout(ZYGOTE_START)
        try:
            received = wire.receive(self.control)
        except OSError:  # too late, or it died with something unread
            received = None
        if received is None:
            self.process.kill()
            assert self.process.stderr is not None
            with self.process.stderr as stderr:
                said = stderr.read().decode("utf-8", "replace")
            self.process.wait()
            raise SandboxError(f"the zygote did not start: {_last_words(said)}")
        self.control.settimeout(None)
        assert self.process.stderr is not None
        self.process.stderr.close()
        if received[0]["threads"] != 1:
            self.process.kill()
            self.process.wait()
            raise SandboxError("the zygote has more than one thread: its forks would hang")

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def spawn(self, policy: Policy) -> Ends:
        """Ask for a child; what becomes of it is said on its status socket."""
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            try:
                pairs = [socket.socketpair() for _ in range(2)]
                for kept, given in pairs:
                    ours.callback(kept.close)
                    theirs.callback(given.close)
                reading, writing = os.pipe2(os.O_CLOEXEC)
                ours.callback(os.close, reading)
                theirs.callback(os.close, writing)
                (channel, its_channel), (status, its_status) = pairs
                given_to_it = [its_channel.fileno(), writing, its_status.fileno()]
                socket.send_fds(self.control, [wire.encode({"policy": asdict(policy)})], given_to_it)
            except OSError as error:
                raise SandboxError(f"the zygote cannot be asked for a child: {error}") from error
            ours.pop_all()
        return Ends(channel, reading, status)

    def close(self) -> None:
        """End it, and with it all children."""
        self._end()


def _end_zygote(creator: int, control: socket.socket, process: subprocess.Popen[bytes], scratch: Path) -> None:
    if os.getpid() != creator:
        return  # in a fork: all of this is the creator's
    with contextlib.suppress(OSError):
        control.shutdown(socket.SHUT_RDWR)  # a fork may hold a copy of the descriptor
    control.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(scratch, ignore_errors=True)


def _package_paths() -> list[str]:
    """Where this process found what the zygote imports: PYTHONPATH, which may name a project, is not passed on."""
    found = []
    for name in _PRELOADED:
        spec = PathFinder.find_spec(name)
        if spec is not None and spec.origin is not None:
            found.append(str(Path(spec.origin).parents[1].absolute()))
    return list(dict.fromkeys(found))


def _last_words(said: str) -> str:
    """What a zygote that ended said, as one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no word from it"]
    if "No module named" not in lines[-1]:
        return lines[-1][:1000]
    return (
        f"{lines[-1][:1000]}; {sys.executable} must find it without PYTHONPATH, of which only the folders of numpy, "
        "torch and tvm_ffi are passed on"
    )


def _zygote_environment(threads: int | None) -> dict[str, str]:
    """What the zygote is started with: an allow-list of the grader's variables, and what must hold before torch loads.

    OpenBLAS alone gets one thread: it would start its pool at import, and a fork takes no threads along.
    """
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    count = str(threads or len(os.sched_getaffinity(0)))
    environment.update(
        OMP_WAIT_POLICY="passive", OMP_NUM_THREADS=count, MKL_NUM_THREADS=count, OPENBLAS_NUM_THREADS="1",
        PYTHONDONTWRITEBYTECODE="1", HOME="/nonexistent",
        # On import tvm-ffi asks torch whether there is CUDA, which starts it; its adapters are for older torches.
        TVM_FFI_DISABLE_TORCH_C_DLPACK="1",
        PATH=os.pathsep.join([environment.get("PATH", os.defpath), str(Path(sys.executable).parent)]),
    )  # fmt: skip
    if site.ENABLE_USER_SITE and site.USER_BASE:
        environment["PYTHONUSERBASE"] = site.USER_BASE
    return environment


class Sandbox:
    """Makes children; one zygote, started when it is first needed and again should it die. Safe to use from threads.

    A sanitizer's runtime must be in a process from its start, and torch's compiler takes seconds to load, so each has a
    zygote of its own, under the same rules.

    `mode` is `auto` (as many layers of the lock-down as this machine gives), `strict` (`start` and `compile` raise
    `SandboxRefused` where any is not to be had) or `off` (none: for debugging what you trust).
    `threads` are torch's and OpenMP's in every child, unless `Limits.threads` says otherwise; by default, one per CPU
    that this process may use.
    """

    def __init__(self, *, mode: SandboxMode = "auto", threads: int | None = None) -> None:
        self._mode = mode
        self._threads = threads
        self._creator = os.getpid()
        self._lock = threading.Lock()
        self._zygotes: dict[_Kind, _Zygote] = {}
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._layers: LayerReport | None = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def check_process(self) -> None:
        """Raises `SandboxError` in a fork of the process that made this: it cannot be used there."""
        same_process(self._creator)

    def layers(self) -> LayerReport:
        """Which layers of the lock-down hold on this machine; found out with a child, once."""
        if self._layers is None:
            with self._connected(Limits(), (), ()) as connection:
                found = connection.wait_ready(time.monotonic() + READY_TIME)
                if isinstance(found, Failure):
                    raise SandboxError(found.message)
                self._layers = found
        return self._layers

    def start(self, program: Program, limits: Limits, deadline: float) -> Child | Failure:
        """A child with this candidate loaded, by `deadline` (of `time.monotonic`).

        What it takes to make the child, and a zygote first, is added to the deadline: only loading is the candidate's.
        It is lent a folder to keep what it compiles in, if the program has a place for that and there is one to be had.
        """
        seconds = deadline - time.monotonic()
        path = program.path.resolve()
        with contextlib.ExitStack() as undo:
            trusted = program.binding == "reference"
            kept = None if program.kept is None or trusted else lend(program.kept)
            place = program.kept if trusted else None if kept is None else kept.path
            if kept is not None:
                undo.callback(kept.take_back, ended=True, asked=None, sound=True)
            writable = () if kept is None else (kept.path,)
            gpu = program.device != "cpu"
            limits = replace(limits, address_bytes=None) if gpu else limits
            readable = (path, *program.readable)
            kind = _Kind(program.runtime)
            if program.mode is not None:
                kind = replace(kind, compiler=str(place or ""), gpu=gpu)
            connection = self._connect(limits, readable, writable, kind, locked=not trusted, gpu=gpu)
            if kept is not None:
                undo.callback(give_back, kept, connection, sound=False)
            undo.callback(connection.close)
            loaded = self._ask(
                connection,
                "load",
                {
                    "binding": program.binding,
                    "path": str(path),
                    "entry_points": list(program.entry_points),
                    "kept": None if place is None else str(place),
                    "mode": program.mode,
                    "search": list(sys.path) if trusted else [],
                    "device": program.device,
                },
                seconds,
                wire.Loaded,
                strict=not trusted,
            )
            if isinstance(loaded, Failure):
                return sanitizer.judged(loaded, program)
            if loaded.entry_point not in program.entry_points:
                return connection.breach("it found an entry point that was not asked for")
            undo.pop_all()
        return Child(connection, program, loaded, kept)

    def compile(self, job: CompileJob, limits: Limits, seconds: float) -> Path | Failure:
        """Build a library under the same limits, and return its path: a regular file in `job.directory`.

        What the compiler printed is the failure's detail. Afterwards all files in the directory are the grader's,
        unless something of the compiler could not be ended.
        """
        directory = job.directory.resolve()
        with self._connected(limits, job.readable, (directory,)) as connection:
            built = self._ask(
                connection,
                "build",
                {"output": job.output, "directory": str(directory)},
                seconds,
                wire.Built,
            )
            connection.close(wait=END_OF_BUILD)
        if connection.ended is not None:  # else something of it may still write there, and lead us elsewhere
            _take_over(directory)
        if isinstance(built, Failure):
            return built
        if connection.ended is None:
            return Failure(Reason.TIMEOUT, "the compiler's processes did not end")
        return _artefact(Path(built.path), directory)

    def close(self) -> None:
        """Kill all children and end the zygote. From any thread: others that wait for a child get a `Failure`.

        The sandbox can be used again: it starts another zygote. In a fork of its process this does nothing.
        """
        if os.getpid() != self._creator:
            return
        with self._lock:
            zygotes, self._zygotes = list(self._zygotes.values()), {}
            connections = list(self._connections)
        for connection in connections:
            connection.abandon("the sandbox was closed")
        for connection in connections:
            connection.close()
        for zygote in zygotes:
            zygote.close()

    def _ask(
        self,
        connection: Connection,
        operation: str,
        body: Mapping[str, object],
        seconds: float,
        expected: type[R],
        *,
        strict: bool = True,
    ) -> R | Failure:
        """Wait until a new child is locked down, and make it a first request, to be answered within `seconds`."""
        ready = connection.wait_ready(time.monotonic() + READY_TIME)
        if isinstance(ready, Failure):
            return ready
        if strict and self._mode == "strict" and ready.refused:
            raise SandboxRefused(ready.refused)
        return connection.request(operation, body, time.monotonic() + seconds, expected)

    def _connect(
        self,
        limits: Limits,
        readable: Sequence[Path],
        writable: Sequence[Path],
        kind: _Kind = _PLAIN,
        *,
        locked: bool = True,
        gpu: bool = False,
    ) -> Connection:
        self.check_process()
        with self._lock:
            zygote = self._living_zygote(kind)
            policy = Policy(
                scratch=str(zygote.scratch),
                readable=tuple(str(path.resolve()) for path in readable),
                writable=tuple(str(path) for path in writable),
                memory_bytes=limits.memory_bytes,
                processes=limits.processes,
                file_bytes=limits.file_bytes,
                scratch_bytes=limits.scratch_bytes,
                address_bytes=limits.address_bytes,
                threads=limits.threads or self._threads,
                cpus=limits.cpus,
                gpu=gpu,
                locked=locked and self._mode != "off",
            )
            connection = Connection(zygote.spawn(policy), limits, zygote.process.pid, zygote.scratch, writable)
            self._connections.add(connection)
        return connection

    def _living_zygote(self, kind: _Kind) -> _Zygote:
        """The zygote of this kind; another one if it has died. To be called with the lock held."""
        zygote = self._zygotes.get(kind)
        if zygote is not None and not zygote.alive:
            zygote.close()
            zygote = None
        if zygote is None:
            zygote = self._zygotes[kind] = _Zygote(self._threads, kind)
        return zygote

    @contextlib.contextmanager
    def _connected(self, limits: Limits, readable: Sequence[Path], writable: Sequence[Path]) -> Iterator[Connection]:
        connection = self._connect(limits, readable, writable)
        try:
            yield connection
        finally:
            connection.close()


def _take_over(directory: Path) -> None:
    """Make all files below a directory the grader's own; a child wrote them under a uid of its own."""
    if os.geteuid() != 0:
        return
    found = [str(directory)]
    while found:  # no recursion: a child may have gone as deep as it liked
        place = found.pop()
        with contextlib.suppress(OSError):
            os.chown(place, os.geteuid(), os.getegid(), follow_symlinks=False)
            if stat.S_ISDIR(os.lstat(place).st_mode):
                found += [os.path.join(place, name) for name in os.listdir(place)]


def _artefact(path: Path, directory: Path) -> Path | Failure:
    """The path that a build child named, if a regular file lies there and nothing leads out of the directory."""
    try:
        inside = path.parent.resolve(strict=True) == directory
        regular = inside and stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError, RuntimeError):
        inside = regular = False
    if not regular:
        return Failure(Reason.PROTOCOL, "broke the protocol: the library that it named is no file in its directory")
    return directory / path.name
