"""One child process as the grader holds it: send requests, wait, watch, kill. Knows nothing of tensors.

Whatever comes back, or does not, is a reply or a `Failure`. Every wait has a deadline, and at every deadline the whole
tree of the child is killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from ..record import Reason
from . import wire
from .buffers import SharedBuffer
from .disk import UNKNOWN, folder_size
from .limits import LayerReport
from .memory import machine_memory, name_of, private_memory, proportional_memory, resident_memory, stopped, tree_of
from .outcome import Failure, Limits, SandboxError, same_process
from .output import Output, one_line, printable

DEATH_WAIT: Final = 0.08  # seconds that a request waits for a killed tree's end to be told
BUILDER_DEATH_WAIT: Final = 1.0  # the same where the tree wrote to disk, which is only looked at after its end
GRACE: Final = 0.5  # seconds between the end of a channel and the end of its process
WATCH: Final = 0.05  # seconds between looks at a waiting child's memory
SCRATCH_WATCH: Final = 0.5  # seconds between looks at a scratch folder that is no tmpfs
BUILD_WATCH: Final = 0.1  # seconds between looks at what a compiler has written
LEAST_LEFT: Final = 256 << 20  # bytes of the machine's memory, below which a child that is waited for is ended
NEAR_LIMIT: Final = 0.7  # of its memory: a child killed by SIGKILL above this ran out of it
_BURIED: Final = "made folders deeper than a path can say"
FDS_PER_MESSAGE: Final = 100
LONGEST_DETAIL: Final = 64_000
COMPILERS: Final = frozenset(  # names of processes that compile, as the kernel shortens them
    {
        "cc1plus", "cc1", "g++", "c++", "gcc", "clang", "clang++", "as", "ld", "ld.bfd", "ld.gold", "ld.lld", "lld",
        "collect2", "lto1", "lto-wrapper", "ninja", "make", "cmake", "nvcc", "cicc", "ptxas", "fatbinary", "cudafe++",
    }
)  # fmt: skip
COMPILER_GAP: Final = 1.0  # seconds after a compiler's end in which the next one may begin
LISTEN: Final = select.POLLIN | select.POLLRDHUP
BROKE: Final = "broke the protocol: "
EARLY: Final = f"{BROKE}it sent a message that nobody asked for"


@dataclass(frozen=True, slots=True)
class Ends:
    """The grader's ends of what connects it with one child."""

    channel: socket.socket
    output: int
    status: socket.socket


@dataclass(frozen=True, slots=True)
class Overtime:
    """Seconds that a request may take beyond its deadline for compiling.

    With `always` they are there for any use; else only while a compiler runs in the child's tree, by its name. A
    candidate can feign one: whoever gives the seconds must bound their sum.
    """

    seconds: float = 0.0
    always: bool = False


NO_OVERTIME: Final = Overtime()


R = TypeVar("R", wire.Ready, wire.Loaded, wire.Called, wire.Copied, wire.Timed, wire.Staged, wire.Built)


class Connection:
    """One child process: sends it requests, waits, kills it. Knows nothing of tensors.

    For one thread at a time, but for `close` and `abandon`, which may come from any thread at any time. Those kill; the
    descriptors are closed by the thread that uses them when it lets go of them, so that none is closed, and its number
    given to somebody else, while it is waited on.
    """

    def __init__(self, ends: Ends, limits: Limits, zygote: int, scratch: Path, built: Sequence[Path] = ()) -> None:
        self._creator = os.getpid()
        self._channel = ends.channel
        self._channel.setblocking(False)
        self._status = ends.status
        self._status.setblocking(False)
        self._output = Output(ends.output, limits)
        self._limits = limits
        self.cpus = limits.cpus  # which it cannot leave, if it is to be timed
        self.zygote = zygote
        self._scratch = scratch
        self._built = built
        self._death_wait = BUILDER_DEATH_WAIT if built else DEATH_WAIT
        self._inbox = wire.Inbox()
        self._told = wire.Inbox()
        self._news = select.poll()
        self._news.register(self._channel, LISTEN)
        self._news.register(self._output.pipe, select.POLLIN)
        self._news.register(self._status, select.POLLIN)
        self.pid: int | None = None
        self.ended: int | None = None  # wait status
        self.memory: int | None = None  # of a child that is to be timed: a descriptor that reads its memory
        self.alive = True
        self.report = LayerReport((), {})
        self.watched_scratch = False
        self.shared_bytes = 0
        self._peak = 0
        self._baseline = private_memory(zygote)
        self._resident = resident_memory(zygote)
        self._next_watch = 0.0
        self._next_scratch_watch = 0.0
        self._next_build_watch = 0.0
        self._paused = False
        self._asked = False  # whether code of a candidate may have run
        self.unanswered: float | None = None  # when, by `time.time`, it was asked what it has not answered
        self._compiled_at = float("-inf")  # when a compiler was last seen in the tree
        self._hung_up = False
        self._unmade: str | None = None  # why the zygote could not make the child
        self._last_word = Failure(Reason.EXITED, "the candidate's process had ended before this request")
        self._use = threading.Lock()  # held while descriptors are used, and to close them
        self._kill_lock = threading.RLock()  # held for moments: a kill must not meet a close
        self._open = True

    # Sending and waiting.

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Have the descriptors to oneself; afterwards they are closed, if the child was killed meanwhile."""
        same_process(self._creator)
        try:
            with self._use:
                yield
        except BaseException:  # what was under way is unknown: no later request may meet its reply
            self._kill()
            raise
        finally:
            if not self.alive:
                self._release(self._death_wait)

    def request(
        self,
        operation: str,
        body: Mapping[str, object],
        deadline: float,
        expected: type[R],
        buffers: Sequence[SharedBuffer] = (),
        overtime: Overtime = NO_OVERTIME,
        *,
        awake: bool = False,
    ) -> R | Failure:
        """One request and its reply. `deadline` is of `time.monotonic`; then, or after `overtime`, the child is killed.

        Whoever waits `awake` hears of the reply at once, and uses a CPU for it.

        Raises `WireError` when the request itself is too long, and `SandboxError` when the child ended before it was
        ever asked for anything.
        """
        seq = int.from_bytes(os.urandom(6))
        frames: list[tuple[bytes, list[int]]] = []
        for start in range(0, len(buffers), FDS_PER_MESSAGE):
            part = buffers[start : start + FDS_PER_MESSAGE]
            shared = [each.shared for each in part]
            named = zip(part, shared, strict=True)
            mapping = {"op": "map", "buffers": [[each.number, each.size, handle] for each, (_, handle) in named]}
            frames.append((wire.encode(mapping), [fd for fd, _ in shared if fd >= 0]))
        frames.append((wire.encode({"op": operation, "seq": seq, **body}), []))
        with self._held():
            self._look()
            if not self.alive:
                return self._last_word
            if self._inbox.pending:
                return self._fail(Reason.PROTOCOL, EARLY)
            self.resume()
            self._output.start()
            self._asked = True
            self.unanswered = time.time()
            reply = self._wait(seq, [] if self._hung_up else frames, deadline, overtime, awake=awake)
            if isinstance(reply, Failure):
                return reply
            self.unanswered = None
            if isinstance(reply, expected):
                return reply
            if not isinstance(reply, wire.Failed):
                return self._fail(Reason.PROTOCOL, f"{BROKE}its reply is of another kind than the request")
            if reply.reason not in wire.CLAIMED_REASONS[operation]:
                return self._fail(Reason.PROTOCOL, f"{BROKE}a reason that a child may not claim here")
            return self._claimed(reply)

    def wait_ready(self, deadline: float) -> LayerReport | Failure:
        """The first reply, made before any candidate was loaded.

        Whatever else comes of it is no candidate's doing: `SandboxError`. A `Failure` only when another thread ended
        the child.
        """
        with self._held():
            reply = self._wait(0, [], deadline) if self.alive else self._last_word
            if isinstance(reply, wire.Ready):
                self.report = LayerReport(reply.active, dict(reply.refused))
                self.watched_scratch = "scratch" in reply.refused
                while self.pid is None and time.monotonic() < deadline:  # said on another socket, a moment later
                    self._news.poll(1.0)
                    self._look()
                return self.report
            if reply is self._last_word:
                return self._last_word
            failed = reply if isinstance(reply, Failure) else self._fail(Reason.PROTOCOL, "another message came first")
            raise SandboxError(f"a child did not get ready: {failed.message}. {failed.detail}".strip())

    def poll(self) -> bool:
        """Whether it can be asked. Notices, without waiting, that it ended or closed its channel meanwhile."""
        same_process(self._creator)
        if self.alive and self._use.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._use.release()
                if not self.alive:
                    self._release(0.0)
        return self.alive and not self._hung_up

    def pause(self) -> None:
        """Stop it, and all of its group, until `resume` or the next request. It can be killed all the same."""
        self.poll()
        self._paused = True  # also one that has closed its channel: it may go on working
        self._signal(signal.SIGSTOP)

    def stand_still(self, seconds: float) -> Failure | None:
        """Pause it, and wait until not one of its threads and processes runs any more; nothing of it can, then."""
        self.pause()
        end = time.monotonic() + seconds
        while self.alive and self.pid is not None:
            if all(map(stopped, tree_of(self.pid, self.zygote))):
                return None
            if time.monotonic() > end:
                with self._held():
                    return self._fail(Reason.TIMEOUT, f"it could not be stopped within {seconds:g} s")
        return self._last_word

    def resume(self) -> None:
        """Let it go on, if it was paused."""
        same_process(self._creator)
        if self._paused:
            self._paused = False
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        with self._kill_lock:
            if self.alive and self.ended is None and self.pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)

    def _look(self) -> None:
        """Take in what came since the last request: the child's end, output, messages, the end of its channel."""
        if not self.alive:
            return
        events = dict(self._news.poll(0))
        if self._output.pipe in events:
            self._output.drain()
        if self._status.fileno() in events and self._read_status():
            self._last_word = self._describe_end(" before this request")
            if not self._asked:
                raise SandboxError(f"a child ended before it was asked for anything: {self._last_word.message}")
        elif self._channel.fileno() in events and self._read_channel():
            self._hang_up()

    def _hang_up(self) -> None:
        """Remember that nothing more comes through the channel."""
        self._hung_up = True
        self._news.unregister(self._channel)

    def _wait(
        self,
        seq: int,
        frames: list[tuple[bytes, list[int]]],
        deadline: float,
        overtime: Overtime = NO_OVERTIME,
        *,
        awake: bool = False,
    ) -> wire.Reply | Failure:
        poll = self._news
        channel, pipe, status = self._channel.fileno(), self._output.pipe, self._status.fileno()
        begun = time.monotonic()
        last = deadline + overtime.seconds
        when = " before this request" if self._hung_up else ""
        broken_at = begun if self._hung_up else None
        if self._send(frames):
            poll.modify(channel, LISTEN | select.POLLOUT)
        while True:
            now = time.monotonic()
            if now >= deadline and not (now < last and (overtime.always or self._compiles(now))):
                return self._fail(Reason.TIMEOUT, _late(deadline - begun, now - deadline))
            if broken_at is not None and now >= broken_at + GRACE:
                return self._fail(Reason.PROTOCOL, f"{BROKE}it closed its channel and went on")
            if now >= self._next_watch:
                excess = self._watch(now)
                if excess is not None:
                    return excess
            until = min(deadline if now < deadline else last, self._next_watch)
            until = until if broken_at is None else min(until, broken_at + GRACE)
            for fd, event in poll.poll(0 if awake else max(0.0, until - now) * 1000 + 0.5):
                if fd == pipe:
                    self._output.drain()
                    if self._output.flood:
                        return self._fail(
                            Reason.FLOOD, f"wrote more than {self._limits.output_bytes} bytes of output in one request"
                        )
                    if event & select.POLLHUP and not event & select.POLLIN:
                        poll.unregister(pipe)
                elif fd == status:
                    if self._read_status():
                        return self._describe_end(when)
                elif broken_at is None:
                    if event & select.POLLOUT and not self._send(frames):
                        poll.modify(channel, LISTEN)
                    if event & ~select.POLLOUT and self._read_channel():
                        broken_at = time.monotonic()
                        self._hang_up()
            try:
                message = self._inbox.pop()
                if message is not None:
                    reply = wire.parse_reply(message, seq)
                    if self._inbox.pending:
                        return self._fail(Reason.PROTOCOL, f"{BROKE}it sent more than one reply")
                    self._output.drain()
                    return reply
            except wire.WireError as error:
                return self._fail(Reason.PROTOCOL, f"{BROKE}{error}")

    def _send(self, frames: list[tuple[bytes, list[int]]]) -> bool:
        """Send as much as goes without waiting; whether there is more to send."""
        while frames:
            data, fds = frames[0]
            try:
                sent = socket.send_fds(self._channel, [data], fds) if fds else self._channel.send(data)
            except BlockingIOError:
                return True
            except OSError:  # the peer is gone; reading finds out how
                frames.clear()
                return False
            if sent == len(data):
                frames.pop(0)
            else:
                frames[0] = (data[sent:], [])
        return False

    def _read_channel(self) -> bool:
        """Read what is there, a little more than one message at most; whether the peer closed it."""
        try:
            while self._inbox.pending <= wire.MAX_MESSAGE + wire.HEADER.size:
                data = self._channel.recv(1 << 18)
                if not data:
                    return True
                self._inbox.feed(data)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return False

    def _read_status(self) -> bool:
        """Read what the zygote says; whether it says that the child has ended, or will not say anything any more."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._status, 1 << 12, 1)
            self.memory = descriptors[0] if descriptors else self.memory
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._told.feed(data)
        while (message := self._told.pop()) is not None:
            if "pid" in message:
                self.pid = int(message["pid"])
            elif "memory" in message:
                continue  # the descriptor that came with it
            elif "status" in message:
                self.ended = int(message["status"])
                self._peak = max(self._peak, int(message["peak_kb"]) * 1024 - self._resident)
            else:
                self._unmade = str(message.get("error"))
        if not data and self.ended is None:
            self._kill_without_zygote()
        return not data or self.ended is not None

    # Watching.

    def _watch(self, now: float) -> Failure | None:
        self._next_watch = now + WATCH
        if self.pid is None:
            return None
        allowed = self._limits.memory_bytes + self.shared_bytes
        tree = tree_of(self.pid, self.zygote)
        used = sum(max(0, private_memory(each) - self._baseline) for each in tree)
        if used > allowed and len(tree) > 1:  # forks share pages: count each page once before judging
            exact = [proportional_memory(each) for each in tree]
            if None not in exact:
                used = sum(each for each in exact if each is not None)
        self._peak = max(self._peak, used)
        if used > allowed:
            return self._fail(Reason.MEMORY, f"used {_size(used)} of memory, {_size(allowed)} are allowed")
        left = machine_memory()
        if left is not None and left < LEAST_LEFT:
            return self._fail(
                Reason.MEMORY, f"the machine has {_size(left)} of memory left, of which it used {_size(used)} itself"
            )
        if self._built and now >= self._next_build_watch:
            self._next_build_watch = now + BUILD_WATCH
            held = sum(map(folder_size, self._built))
            if held > self._limits.build_bytes:
                what = f"wrote more than {_size(self._limits.build_bytes)} to disk"
                return self._fail(Reason.MEMORY, _BURIED if held >= UNKNOWN else what)
        if self.watched_scratch and now >= self._next_scratch_watch:
            self._next_scratch_watch = now + SCRATCH_WATCH
            held = folder_size(self._scratch / str(self.pid))
            if held > self._limits.scratch_bytes:
                what = f"wrote {_size(held)} of files, {_size(self._limits.scratch_bytes)} are allowed"
                return self._fail(Reason.MEMORY, _BURIED if held >= UNKNOWN else what)
        return None

    def _compiles(self, now: float) -> bool:
        """Whether a compiler runs below the child, or did a moment ago."""
        if self.pid is not None and any(name_of(each) in COMPILERS for each in tree_of(self.pid, self.zygote)[1:]):
            self._compiled_at = now
        return now - self._compiled_at < COMPILER_GAP

    # Ends.

    def breach(self, what: str) -> Failure:
        """It broke the protocol, in a way that only the caller can tell: kill it."""
        with self._held():
            return self._fail(Reason.PROTOCOL, f"{BROKE}{what}")

    def failed(self, reason: Reason, what: str) -> Failure:
        """It did what only the caller can tell: kill it."""
        with self._held():
            return self._fail(reason, what)

    def _claimed(self, reply: wire.Failed) -> Failure:
        """A failure that the child itself reports. It stays alive, unless it wants to end, or lost its GPU."""
        failure = Failure(
            Reason(reply.reason),
            one_line(reply.message),
            printable(_joined(reply.detail, self._output.text())[:LONGEST_DETAIL]),
        )
        if failure.reason in (Reason.EXITED, Reason.CRASHED):
            self._kill()
        return failure

    def _fail(self, reason: Reason, message: str) -> Failure:
        """Kill the tree, and say why; if another thread did so first, say that."""
        if not self.alive:
            return self._last_word
        self._output.drain()
        failure = Failure(reason, message, self._output.text())
        self._kill()
        return failure

    def _describe_end(self, when: str) -> Failure:
        """The child's process ended by itself, or was killed by somebody else: say how."""
        if not self.alive:
            return self._last_word
        self._output.drain()
        output, ended = self._output.text(), self.ended
        self._kill()
        if self._unmade is not None:
            raise SandboxError(f"the sandbox cannot make a child: {self._unmade}")
        if ended is None:
            return Failure(
                Reason.ENVIRONMENT, "the sandbox's zygote ended, and the candidate's process with it", output
            )
        if os.WIFSIGNALED(ended):
            number = os.WTERMSIG(ended)
            if number == signal.SIGKILL and self._peak > NEAR_LIMIT * self._limits.memory_bytes:
                return Failure(Reason.MEMORY, f"killed when it used {_size(self._peak)} of memory{when}", output)
            return Failure(Reason.CRASHED, f"killed by {_signal_name(number)}{when}", output)
        return Failure(Reason.EXITED, f"exited with status {os.WEXITSTATUS(ended)}{when}", output)

    def close(self, wait: float | None = None) -> None:
        """Kill the whole tree and wait some seconds for its end. From any thread, as often as one likes.

        While another thread waits for a reply, this one does not wait at all; that one gets a `Failure`.
        """
        if os.getpid() == self._creator:
            self._kill()
            self._release(self._death_wait if wait is None else wait)

    def abandon(self, why: str) -> None:
        """Kill the whole tree, from any thread, for a reason that is not the candidate's. `close` comes later."""
        with self._kill_lock:
            if os.getpid() != self._creator:
                return
            if self.alive:
                self._last_word = Failure(Reason.ENVIRONMENT, why)
            self._kill()

    def _kill(self) -> None:
        """Have the tree killed; the thread that waits for it hears of its end."""
        with self._kill_lock:
            self.alive = False
            if self._open and self.ended is None:
                with contextlib.suppress(OSError):
                    self._status.shutdown(socket.SHUT_WR)  # the zygote kills the tree when it sees this

    def _release(self, wait: float) -> None:
        """Close the descriptors of a killed child, unless a thread uses them: that one comes here afterwards."""
        if not self._use.acquire(blocking=False):
            return
        try:
            if self._open:
                self._wait_for_end(wait)
                with self._kill_lock:
                    self._open = False
                    self._channel.close()
                    self._status.close()
                    if self.memory is not None:
                        os.close(self.memory)
                    self._output.close()
        finally:
            self._use.release()

    def _wait_for_end(self, wait: float) -> None:
        if self.ended is not None:
            return
        end = time.monotonic() + wait
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        while (left := end - time.monotonic()) > 0:
            if poll.poll(left * 1000) and self._read_status():
                return

    def _kill_without_zygote(self) -> None:
        if self.pid is None:
            return
        for kill in (os.kill, os.killpg):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)


def _joined(detail: str, printed: str) -> str:
    """What a failure tells of itself, and what was printed before it: a compiler's complaint, say."""
    return "\n".join([each for each in (detail, f"it printed:\n{printed}" if detail and printed else printed) if each])


def _late(allowed: float, over: float) -> str:
    text = f"no answer within {round(allowed, 2):g} s"
    return text if over < COMPILER_GAP else f"{text}, nor in {over:.1f} s more for what it compiles"


def _size(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
