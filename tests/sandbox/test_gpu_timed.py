"""The candidate's side of a turn on a GPU, with stand-ins for what torch has for one."""

from __future__ import annotations

import contextlib
import types

import pytest
import torch

from pytest_kbench.sandbox import gpu_timed
from pytest_kbench.sandbox.gpu_timed import Stage
from pytest_kbench.sandbox.timed import Rehearsed


class Graph:
    """Stands in for a CUDA graph: nothing that is captured runs again."""

    captures = True

    def __init__(self) -> None:
        self.replays = 0

    def capture_begin(self, **how: object) -> None:
        if not Graph.captures:
            raise RuntimeError("operation not permitted when stream is capturing")

    def capture_end(self) -> None:
        return None

    def replay(self) -> None:
        self.replays += 1


class Arena:
    """Stands in for the grader's memory: tensors in it are those that it made."""

    id = (0, 1)
    pool = object()

    def __init__(self) -> None:
        self.closed = False

    def place(self, tensor: torch.Tensor) -> int | None:
        return None if tensor.numel() != 4 else 512

    def close(self) -> None:
        self.closed = True


class Calls:
    """Stands in for what is noted of a capture."""

    apart_ = True

    def __init__(self, stream: object) -> None:
        self.ended = 0

    def end(self) -> None:
        self.ended += 1

    def apart(self) -> bool:
        return Calls.apart_


@pytest.fixture(autouse=True)
def slept(monkeypatch):
    event = types.SimpleNamespace(record=lambda: None, synchronize=lambda: None, elapsed_time=lambda end: 3.0)
    spun: list[int] = []
    for name, stand_in in {
        "Event": lambda **how: event,
        "Stream": object,
        "stream": contextlib.nullcontext,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "CUDAGraph": Graph,
        "_sleep": spun.append,
        "use_mem_pool": contextlib.nullcontext,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(gpu_timed, "Calls", Calls)
    monkeypatch.setattr(Calls, "apart_", True)
    monkeypatch.setattr(Graph, "captures", True)
    gpu_timed._side.cache_clear()
    yield spun
    gpu_timed._side.cache_clear()


def calls(count: int = 4) -> list[Rehearsed]:
    return [Rehearsed([torch.full((4,), float(each))], [torch.zeros(4)]) for each in range(count)]


def stage(rehearsed, function, *, fills=False, backward=False, own=None) -> Stage:
    return Stage(rehearsed, 1, function, own, Arena(), fills=fills, backward=backward)


def test_calls_are_captured_in_two_parts_and_replayed_as_many_as_are_asked_for():
    made = stage(calls(), torch.exp)
    assert made.rehearse(capture=True) == [[513]] * 4
    first, second = made._graphs["forward"]
    assert made.turn("forward", 4, 0.0) == ([3_000_000], [])
    assert made.turn("forward", 1, 0.0) == ([3_000_000], [])
    assert (first.replays, second.replays) == (2, 1)


def test_one_call_is_made_again_and_again_to_see_what_caches_give():
    rehearsed = calls()
    made = stage(rehearsed, torch.exp)
    made.rehearse(capture=True)
    places = [each.kept for each in rehearsed]
    assert made.turn("warm", 1, 0.0) == ([3_000_000], [])
    assert [each.replays for each in made._graphs["warm"]] == [2]
    assert [each.kept for each in rehearsed] == places


def test_calls_that_are_issued_are_made_again_and_again_too(slept, monkeypatch):
    monkeypatch.setattr(Graph, "captures", False)
    asked: list[float] = []
    made = stage(calls(), lambda x: (asked.append(x[0].item()), x.exp())[1])
    made.rehearse(capture=False)
    asked.clear()
    assert made.turn("warm", 1, 0.0) == ([3_000_000], [])
    assert asked == [0.0, 0.0]


@pytest.mark.parametrize("apart", [True, False])
def test_it_is_told_whether_calls_wait_for_each_other(monkeypatch, apart):
    monkeypatch.setattr(Calls, "apart_", apart)
    made = stage(calls(), torch.exp)
    made.rehearse(capture=True)
    assert made.apart is apart


def test_what_cannot_be_captured_is_issued_behind_a_kernel_that_holds_it(slept, monkeypatch):
    monkeypatch.setattr(Graph, "captures", False)
    made = stage(calls(), torch.exp)
    assert made.rehearse(capture=True) is None
    assert made.turn("forward", 2, 1e-3) == ([3_000_000], [[513], [513]])
    assert slept == [2_000_000]
    assert made.issuing > 0


def test_an_output_that_lies_elsewhere_is_copied_to_where_it_is_read():
    rehearsed = calls(2)
    made = stage(rehearsed, lambda x: torch.cat([x, x])[:4].clone() if x[0] < 0 else x.new_ones(1))
    for each in rehearsed:
        each.targets[0] = torch.zeros(1)
    made.rehearse(capture=False)
    assert made.turn("forward", 2, 0.0)[1] == [[0], [0]]
    assert [each.targets[0].item() for each in rehearsed] == [1.0, 1.0]


def test_a_filled_output_is_nowhere_else():
    rehearsed = calls(2)

    def fill(x: torch.Tensor, y: torch.Tensor) -> None:
        y.copy_(x + 1)

    made = stage(rehearsed, fill, fills=True)
    assert made.rehearse(capture=True) == [[], []]
    assert [each.targets[0][0].item() for each in rehearsed] == [1.0, 2.0]


@pytest.mark.parametrize("own", [None, lambda cotangent, x, y: cotangent * y])
def test_a_backward_follows_its_forward_by_autograd_or_by_the_candidates_own(own):
    rehearsed = calls(2)
    for each in rehearsed:
        each.cotangents, each.gradients, each.leaves = {0: torch.ones(4)}, [torch.zeros(4)], [0]
    made = stage(rehearsed, torch.exp, backward=True, own=own)
    made.rehearse(capture=False)
    made.turn("before", 2, 0.0)
    assert made.turn("backward", 2, 0.0)[1] == [[513], [513]]
    for each in rehearsed:
        assert torch.equal(each.kept[0].detach(), each.arguments[0].exp())


def test_a_gradient_that_is_none_is_zero_where_it_is_read():
    rehearsed = calls(1)
    both = torch.full((4,), 7.0), torch.full((4,), 7.0)
    rehearsed[0].arguments.append(torch.zeros(4))
    rehearsed[0].cotangents, rehearsed[0].gradients, rehearsed[0].leaves = {0: torch.ones(4)}, list(both), [0, 1]
    made = stage(rehearsed, lambda x, unused: x.exp(), backward=True)
    made.rehearse(capture=False)
    made.turn("before", 1, 0.0)
    assert made.turn("backward", 1, 0.0)[1] == [[513, 513]]
    assert not bool(rehearsed[0].kept[1].any())


def test_a_stage_that_is_left_gives_its_memory_back():
    made = stage(calls(), torch.exp)
    made.rehearse(capture=True)
    made.close()
    assert made._arena.closed
    assert not made._graphs
