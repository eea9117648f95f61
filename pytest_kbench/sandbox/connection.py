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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..record import Reason
from . import wire
from .buffers import SharedBuffer
from .contract import Failure, Limits, SandboxError
from .limits import LayerReport
from .memory import private_memory, proportional_memory, resident_memory, tree_of

DEATH_WAIT: Final = 0.08  # seconds that a request waits for a killed tree's end to be told
GRACE: Final = 0.5  # seconds between the end of a channel and the end of its process
WATCH: Final = 0.05  # seconds between looks at a waiting child's memory
SCRATCH_WATCH: Final = 0.5  # seconds between looks at a scratch folder that is no tmpfs
NEAR_LIMIT: Final = 0.7  # of its memory: a child killed by SIGKILL above this ran out of it
_OUR_FOLDER: Final = f'File "{Path(__file__).parent}'
FDS_PER_MESSAGE: Final = 100
LONGEST_MESSAGE: Final = 2000
LONGEST_DETAIL: Final = 64_000


@dataclass(frozen=True, slots=True)
class Ends:
    """The grader's ends of what connects it with one child."""

    channel: socket.socket
    output: int
    status: socket.socket


class Output:
    """What a child printed during one request: head, tail and count."""

    def __init__(self, pipe: int, limits: Limits) -> None:
        self.pipe = pipe
        self._limits = limits
        os.set_blocking(pipe, False)
        self.start()

    def start(self) -> None:
        """A new request begins."""
        self.count = 0
        self._head = bytearray()
        self._tail = bytearray()

    def drain(self) -> None:
        """Read what is there, one pipeful at most, so that a deadline is not missed while a flood comes in."""
        kept = self._limits.output_kept
        for _ in range(16):
            try:
                data = os.read(self.pipe, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                return
            self.count += len(data)
            room = kept - len(self._head)
            if room > 0:
                self._head += data[:room]
                data = data[room:]
            self._tail = (self._tail + data)[-kept:]

    @property
    def flood(self) -> bool:
        """Whether it was more than allowed."""
        return self.count > self._limits.output_bytes

    def text(self) -> str:
        """Head and tail, as text without control characters."""
        omitted = self.count - len(self._head) - len(self._tail)
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        middle = f"\n[... {omitted} bytes left out ...]\n" if omitted else ""
        lines = (head + middle + tail).split("\n")
        return printable("\n".join(line for line in lines if _OUR_FOLDER not in line))  # faulthandler names our frames


class Connection:
    """One child process: sends it requests, waits, kills it. Knows nothing of tensors."""

    def __init__(self, ends: Ends, limits: Limits, zygote: int, scratch: Path) -> None:
        self._channel = ends.channel
        self._channel.setblocking(False)
        self._status = ends.status
        self._status.setblocking(False)
        self._output = Output(ends.output, limits)
        self._limits = limits
        self._zygote = zygote
        self._scratch = scratch
        self._inbox = wire.Inbox()
        self._told = wire.Inbox()
        self.pid: int | None = None
        self.ended: int | None = None  # wait status
        self.alive = True
        self.report = LayerReport((), {})
        self.watched_scratch = False
        self.shared_bytes = 0
        self._peak = 0
        self._baseline = private_memory(zygote)
        self._resident = resident_memory(zygote)
        self._next_watch = 0.0
        self._next_scratch_watch = 0.0
        self._close_once = threading.Lock()
        self._closed = False

    # Sending and waiting.

    def request(
        self, operation: str, body: Mapping[str, object], deadline: float, buffers: Sequence[SharedBuffer] = ()
    ) -> wire.Reply | Failure:
        """One request and its reply. `deadline` is of `time.monotonic`; at it the child is killed."""
        if not self.alive:
            return Failure(Reason.EXITED, "the candidate's process had ended before this request")
        seq = int.from_bytes(os.urandom(6))
        frames: list[tuple[bytes, list[int]]] = []
        for start in range(0, len(buffers), FDS_PER_MESSAGE):
            part = buffers[start : start + FDS_PER_MESSAGE]
            mapping = {"op": "map", "buffers": [[each.number, each.size] for each in part]}
            frames.append((wire.encode(mapping), [each.fd for each in part]))
        frames.append((wire.encode({"op": operation, "seq": seq, **body}), []))
        self._output.start()
        self._output.drain()
        self._output.start()
        early = self._read_channel()
        if early or self._inbox.pending:
            return self.breach("it sent a message that nobody asked for")
        return self._wait(seq, frames, deadline)

    def wait_ready(self, deadline: float) -> LayerReport | Failure:
        """The first reply, made before any candidate was loaded."""
        reply = self._wait(0, [], deadline)
        if isinstance(reply, Failure):
            return reply
        if not isinstance(reply, wire.Ready):
            return self.breach("its first message was not the report of its lock-down")
        self.report = LayerReport(reply.active, dict(reply.refused))
        self.watched_scratch = "scratch" in reply.refused
        return self.report

    def _wait(self, seq: int, frames: list[tuple[bytes, list[int]]], deadline: float) -> wire.Reply | Failure:
        poll = select.poll()
        channel, pipe, status = self._channel.fileno(), self._output.pipe, self._status.fileno()
        poll.register(channel, select.POLLIN | (select.POLLOUT if frames else 0))
        poll.register(pipe, select.POLLIN)
        poll.register(status, select.POLLIN)
        self._next_watch = time.monotonic() + WATCH
        broken_at: float | None = None
        while True:
            now = time.monotonic()
            if now >= deadline:
                return self._fail(Reason.TIMEOUT, "no answer by the deadline")
            if broken_at is not None and now >= broken_at + GRACE:
                return self.breach("it closed its channel and went on")
            if now >= self._next_watch:
                excess = self._watch(now)
                if excess is not None:
                    return excess
            until = min(deadline, self._next_watch, deadline if broken_at is None else broken_at + GRACE)
            for fd, event in poll.poll(max(0.0, until - now) * 1000 + 0.5):
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
                        return self._describe_end()
                elif broken_at is None:
                    if event & select.POLLOUT and not self._send(frames):
                        poll.modify(channel, select.POLLIN)
                    if event & ~select.POLLOUT and self._read_channel():
                        broken_at = time.monotonic()
                        poll.unregister(channel)
            try:
                message = self._inbox.pop()
                if message is not None:
                    reply = wire.parse_reply(message, seq)
                    if self._inbox.pending:
                        return self.breach("it sent more than one reply")
                    self._output.drain()
                    return reply
            except wire.WireError as error:
                return self.breach(str(error))

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
            data = self._status.recv(1 << 12)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._told.feed(data)
        while (message := self._told.pop()) is not None:
            if "pid" in message:
                self.pid = int(message["pid"])
            elif "status" in message:
                self.ended = int(message["status"])
                self._peak = max(self._peak, int(message["peak_kb"]) * 1024 - self._resident)
                self.alive = False
            else:
                raise SandboxError(f"the sandbox cannot make a child: {message.get('error')}")
        if not data and self.ended is None:
            self._kill_without_zygote()
        return not data or self.ended is not None

    # Watching.

    def _watch(self, now: float) -> Failure | None:
        self._next_watch = now + WATCH
        if self.pid is None:
            return None
        allowed = self._limits.memory_bytes + self.shared_bytes
        tree = tree_of(self.pid, self._zygote)
        used = sum(max(0, private_memory(each) - self._baseline) for each in tree)
        if used > allowed and len(tree) > 1:  # forks share pages: count each page once before judging
            exact = [proportional_memory(each) for each in tree]
            if None not in exact:
                used = sum(each for each in exact if each is not None)
        self._peak = max(self._peak, used)
        if used > allowed:
            return self._fail(Reason.MEMORY, f"used {_size(used)} of memory, {_size(allowed)} are allowed")
        if self.watched_scratch and now >= self._next_scratch_watch:
            self._next_scratch_watch = now + SCRATCH_WATCH
            held = _folder_size(self._scratch / str(self.pid))
            if held > self._limits.scratch_bytes:
                return self._fail(
                    Reason.MEMORY, f"wrote {_size(held)} of files, {_size(self._limits.scratch_bytes)} are allowed"
                )
        return None

    # Ends.

    def breach(self, what: str) -> Failure:
        """It broke the protocol: kill it."""
        return self._fail(Reason.PROTOCOL, f"broke the protocol: {what}")

    def claimed(self, reply: wire.Failed) -> Failure:
        """A failure that the child itself reports. It stays alive, unless it says that it wants to end."""
        failure = Failure(
            Reason(reply.reason),
            one_line(reply.message),
            printable((reply.detail or self._output.text())[:LONGEST_DETAIL]),
        )
        if failure.reason is Reason.EXITED:
            self.close()
        return failure

    def _fail(self, reason: Reason, message: str) -> Failure:
        """Kill the tree, and say why."""
        self._output.drain()
        output = self._output.text()
        self.close()
        return Failure(reason, message, output)

    def _describe_end(self) -> Failure:
        """The child's process ended by itself, or was killed by somebody else: say how."""
        self._output.drain()
        output = self._output.text()
        ended = self.ended
        self.close()
        if ended is None:
            return Failure(Reason.PROTOCOL, "the sandbox's zygote ended, and the candidate's process with it", output)
        if os.WIFSIGNALED(ended):
            number = os.WTERMSIG(ended)
            if number == signal.SIGKILL and self._peak > NEAR_LIMIT * self._limits.memory_bytes:
                return Failure(Reason.MEMORY, f"killed when it used {_size(self._peak)} of memory", output)
            return Failure(Reason.CRASHED, f"killed by {_signal_name(number)}", output)
        return Failure(Reason.EXITED, f"exited with status {os.WEXITSTATUS(ended)}", output)

    def close(self, wait: float = DEATH_WAIT) -> None:
        """Kill the whole tree and wait some seconds for its end. May be called twice, and by two threads."""
        self.alive = False
        with self._close_once:
            if self._closed:
                return
            self._closed = True
            self._kill(wait)
            self._channel.close()
            self._status.close()
            os.close(self._output.pipe)

    def _kill(self, wait: float) -> None:
        if self.ended is not None:
            return
        with contextlib.suppress(OSError):
            self._status.shutdown(socket.SHUT_WR)  # the zygote kills the tree when it sees this
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


def _size(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def printable(text: str) -> str:
    """A child's text with everything replaced that could command a terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def one_line(text: str) -> str:
    """A child's text as one bounded line."""
    text = printable(" ".join(text.split()))
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + "..."


def _folder_size(place: Path) -> int:
    total = 0
    for folder, _, names in os.walk(place, onerror=lambda _: None):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total
