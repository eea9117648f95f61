"""The candidate's side of a turn on a GPU: all calls in one go, between two events on one stream.

Where it can be, the calls are captured as CUDA graphs, which launch without the host: what a process takes to launch is
up to 100 ns off for all of its life, which small kernels drown in (measured: benchmarks/results/timing_spike.md).
Else they are queued behind a kernel that spins until all of them are issued.

What is read here is a claim, as on a CPU. Outputs lie in memory of the grader's, an arena that torch's allocator takes
its blocks from, or where the candidate fills them; one that lies elsewhere is copied, within the time of its call.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Final

import torch

from . import driver
from .buffers import LINE, OpenedBuffer
from .captured import Calls
from .claims import listed
from .gradients import Forward, product, started, with_leaves
from .timed import Function, Rehearsed, uncollected

_CYCLES: Final = 2e9  # of a GPU in a second, at most
_ISSUED: Final = 64  # calls by which the time of issuing is found
_MALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)


_used: list[object] = []  # what torch's allocator may yet call: it keeps blocks longer than it says


class Arena:
    """Memory of the grader's for torch's allocator; where it is full, blocks are the process's own."""

    def __init__(self, buffer: OpenedBuffer, size: int, device: torch.device) -> None:
        self._buffer: OpenedBuffer | None = buffer  # which stays open as long as this is used
        self._begin, self._end, self._device = buffer.address, buffer.address + size, device.index or 0
        self._next = self._begin
        self._freed: list[tuple[int, int]] = []
        self._callbacks = _MALLOC(self._allocate), _FREE(self._free)
        malloc, free = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in self._callbacks)
        allocator = torch._C._cuda_customAllocator(malloc, free)
        _used.append((self._callbacks, allocator))
        self.pool: torch.cuda.MemPool | None = torch.cuda.MemPool(allocator)

    @property
    def id(self) -> Any:
        """Of torch's pool."""
        assert self.pool is not None, "it was closed"
        return self.pool.id

    def close(self) -> None:
        """Have torch give all blocks back, as long as the memory is there."""
        self.pool = None
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self._buffer = None

    def place(self, tensor: torch.Tensor) -> int | None:
        """Where a tensor begins, in bytes from the start; `None` where it does not lie here as the grader reads it."""
        at = torch.Tensor.data_ptr(tensor)
        inside = self._begin <= at and at + tensor.nbytes <= self._end
        return at - self._begin if inside and not (at - self._begin) % LINE and tensor.is_contiguous() else None

    def _allocate(self, size: int, device: int, stream: int) -> int:
        with contextlib.suppress(BaseException):
            for index, (_, freed) in enumerate(self._freed):
                if freed == size:
                    return self._freed.pop(index)[0]
            if self._next + size <= self._end:
                at, self._next = self._next, self._next + -(-size // LINE) * LINE
                return at
            return driver.allocate(size, self._device)
        return 0

    def _free(self, at: int, size: int, device: int, stream: int) -> None:
        with contextlib.suppress(BaseException):
            if self._begin <= at < self._end:
                self._freed.append((at, size))
            else:
                driver.free(at, self._device)


class Stage:
    """Calls that are made again and again, in turns: captured, or issued anew."""

    def __init__(
        self,
        calls: Sequence[Rehearsed],
        short: int,
        function: Function,
        own: Function | None,
        arena: Arena,
        *,
        fills: bool,
        backward: bool,
    ) -> None:
        self._calls, self._short, self._arena, self._fills = calls, short, arena, fills
        self._function, self._own = function, own
        self._steps: dict[str, Callable[[Rehearsed], None]] = (
            {"before": self._before, "backward": self._backward} if backward else {"forward": self._forward}
        )
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self._graphs: dict[str, list[Any]] = {}
        self.apart = True  # no call is begun before the last one is done, as far as a graph shows
        self.issuing = 0.0  # seconds that issuing one call takes here

    def rehearse(self, *, capture: bool) -> list[list[int]] | None:
        """Make calls until nothing is compiled any more, and capture them, if that is asked and can be done.

        Where outputs of the graph lie, per call; `None` where there is no graph.
        """
        some = self._calls[:_ISSUED]
        for several in (some[:2], some[:2], some):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for call in several:
                for step in self._steps.values():
                    step(call)
            self.issuing = (time.perf_counter() - begun) / len(several)
            self._forget()
        torch.cuda.synchronize()
        with torch.cuda.stream(_side()):  # what libraries keep for a stream must not lie in the arena
            for step in self._steps.values():
                step(self._calls[0])
        self._forget()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        if capture:
            try:
                self._capture()
            except Exception:  # whatever it does that cannot be captured: its calls are issued, and the record says so
                self._graphs.clear()
                self._forget()
                torch.cuda.synchronize()
        return [self._places(call) for call in self._calls] if self._graphs else None

    def close(self) -> None:
        """Let go of all memory."""
        self._graphs.clear()
        self._forget()
        self._calls = ()
        self._arena.close()

    def turn(self, part: str, count: int, hold: float) -> tuple[list[int], list[list[int]]]:
        """Make the first `count` calls, or this part of them: nanoseconds of all together.

        And where outputs lie, if that was not known before. Calls that are issued are held for so many seconds.
        """
        again = part == "warm"
        with uncollected():
            for _ in range(2 if again else 1):
                if part in self._graphs:
                    self._replay(part, count)
                else:
                    self._issue("forward" if again else part, self._same if again else self._calls[:count], hold)
                self._events[1].synchronize()
        taken = self._events[0].elapsed_time(self._events[1]) * 1e6
        known = part in self._graphs or again
        return [round(taken)], [] if known else [self._places(call) for call in self._calls[:count]]

    @property
    def _same(self) -> list[Rehearsed]:
        """As many calls as a short turn has, all with the arguments of the first one."""
        return [replace(self._calls[0], kept=[]) for _ in range(self._short)]

    def _capture(self) -> None:
        """Each step of the first calls, which a short turn makes, and of the others; and one call again and again."""
        halves = [each for each in (self._calls[: self._short], self._calls[self._short :]) if each]
        for part, step in self._steps.items():
            self._graphs[part] = [self._captured(step, half) for half in halves]
        if "forward" in self._steps:
            self._graphs["warm"] = [self._captured(self._forward, self._same)]

    def _captured(self, step: Callable[[Rehearsed], None], calls: Sequence[Rehearsed]) -> Any:
        """A graph, made on a stream of its own: work that a candidate puts on another is not in it, and missing later.

        (`torch.cuda.graph` would collect garbage first, which takes longer than all the rest.)
        """
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.stream(_side()), uncollected():
            graph.capture_begin(pool=self._arena.id, capture_error_mode="relaxed")
            try:
                made = Calls(_side())
                for call in calls:
                    step(call)
                    made.end()
                self.apart = self.apart and made.apart()
            finally:
                self._end(graph)
        return graph

    def _end(self, graph: Any) -> None:
        """End a capture; where it went wrong torch leaves its allocator as if it went on."""
        try:
            graph.capture_end()
        except Exception:
            index = torch.cuda.current_device()
            torch._C._cuda_endAllocateToPool(index, self._arena.id)
            torch._C._cuda_releasePool(index, self._arena.id)
            raise

    def _replay(self, part: str, count: int) -> None:
        graphs = self._graphs[part] if count > self._short else self._graphs[part][:1]
        self._events[0].record()
        for graph in graphs:
            graph.replay()
        self._events[1].record()

    def _issue(self, part: str, calls: Sequence[Rehearsed], hold: float) -> None:
        if part != "backward":
            self._forget()
        assert self._arena.pool is not None, "it was closed"
        with torch.cuda.use_mem_pool(self._arena.pool):
            torch.cuda._sleep(int(hold * _CYCLES))
            self._events[0].record()
            for call in calls:
                self._steps[part](call)
            self._events[1].record()

    def _forward(self, call: Rehearsed) -> None:
        self._keep(call, self._function(*call.arguments, *(call.targets if self._fills else ())), call.targets)

    def _before(self, call: Rehearsed) -> None:
        given, leaves = with_leaves(call.arguments, () if self._own else call.leaves)
        returned = self._function(*given, *(call.targets if self._fills else ()))
        objects = call.targets if self._fills else listed(returned)
        call.forward = Forward(given, leaves, list(objects))

    def _backward(self, call: Rehearsed) -> None:
        forward = call.forward
        assert forward is not None, "the forwards come first"
        if self._own is not None:
            given = (*call.cotangents.values(), *forward.arguments, *forward.objects)
            found = self._own(*given, *(call.gradients if self._fills else ()))
        else:
            found = product(started(forward.objects, call.cotangents), list(forward.leaves.values()))
        self._keep(call, found, [each for each in call.gradients if each is not None])

    def _keep(self, call: Rehearsed, returned: object, targets: Sequence[torch.Tensor | None]) -> None:
        """Keep what came back where the grader can read it: in the arena, or copied to what is there for it."""
        if self._fills:
            return
        call.kept = []
        for each, target in zip_longest(listed(returned), targets):
            if not isinstance(each, torch.Tensor):
                each = target.zero_() if target is not None else None
            elif target is not None and self._arena.place(each) is None:
                target.copy_(each.detach())
            call.kept += [] if each is None else [each]

    def _places(self, call: Rehearsed) -> list[int]:
        """Per output where it begins in the arena, plus 1; 0 where it is what was to be filled."""
        places = (self._arena.place(each) for each in call.kept)
        return [0 if each is None else each + 1 for each in places]

    def _forget(self) -> None:
        for call in self._calls:
            call.forward, call.kept = None, []


@functools.cache
def _side() -> torch.cuda.Stream:
    """The stream that captures are made on."""
    return torch.cuda.Stream()
