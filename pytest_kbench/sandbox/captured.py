"""Whether calls that are captured one after the other wait for each other.

What a candidate puts on a stream of its own may be joined later than its call ends. Then several calls run at once, and
each seems to take as long as all of them take by the number of calls; nobody outside sees where one ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from . import driver


@dataclass(frozen=True, slots=True)
class Ends:
    """Where in a graph a call ends: how many nodes were made until then, and those that the next call waits for."""

    count: int
    last: frozenset[int]


class Calls:
    """Notes where calls end, while a stream is captured."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream, self._device = stream.cuda_stream, stream.device_index
        self._ends: list[Ends] = []
        self.end()

    def end(self) -> None:
        """A call is over. Raises `DriverError` where nothing is captured any more."""
        graph, last = driver.captured(self._stream, self._device)
        self._graph = graph
        self._ends.append(Ends(driver.nodes_in(graph), frozenset(last)))

    def apart(self) -> bool:
        """Whether no call began before the one before it was done."""
        nodes, edges = driver.parts_of(self._graph)
        before: dict[int, list[int]] = {each: [] for each in nodes}
        for begin, end in edges:
            before[end].append(begin)
        return apart(nodes, before, self._ends)


def apart(nodes: Sequence[int], before: Mapping[int, Sequence[int]], ends: Sequence[Ends]) -> bool:
    """The same of any graph: its nodes in the order in which they were made, and for each those it waits for itself.

    All that a call makes must lead to what it ends with, and wait for nodes of its own, or for all that the last one
    ended with. What else it waits for is done by then.
    """
    numbers = {node: number for number, node in enumerate(nodes)}
    for last, this in itertools.pairwise(ends):
        led: set[int] = set()
        for node in nodes[last.count : this.count]:
            own = [each for each in before[node] if numbers[each] >= last.count]
            if not own and not last.last <= set(before[node]):
                return False
            led.update(own)
        if not set(nodes[last.count : this.count]) - led <= this.last:
            return False
    return True
