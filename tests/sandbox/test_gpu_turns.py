"""What the grader does with the memory of a GPU's turns: with memory of the machine in its place, no GPU is needed."""

from __future__ import annotations

import random
import types

import pytest
import torch

from pytest_kbench.record import Reason
from pytest_kbench.sandbox import gpu_turns, wire
from pytest_kbench.sandbox.gpu_turns import GpuPerformer, GpuStage, Watch
from pytest_kbench.sandbox.outcome import Failure, OutputSpec, ValueArgument
from pytest_kbench.sandbox.turns import Calls, Spec
from pytest_kbench.timing import gpu

CPU = torch.device("cpu")
CALLS = Calls(
    (Spec("x", torch.float32, (3, 5)), ValueArgument("eps", 0.5), Spec("y", torch.float16, (7,), in_place=True)),
    (OutputSpec(torch.float32, (3, 5)), OutputSpec(torch.int64, (2,))),
)


class Memory:
    """Stands in for a buffer on a GPU."""

    made = 0

    def __init__(self, size: int, device: torch.device) -> None:
        Memory.made += 1
        self.number, self.used, self.data = Memory.made, size, torch.zeros(size, dtype=torch.uint8)

    def arrange(self, used: int) -> None:
        assert used == self.used


class Connection:
    """Stands in for a child: answers what it was told to."""

    def __init__(self, *replies: object) -> None:
        self.replies, self.asked, self.alive = list(replies), [], True

    def request(self, operation: str, body: object, *rest: object, **more: object) -> object:
        self.asked.append((operation, body))
        reply = self.replies.pop(0)
        return reply(body) if callable(reply) else reply

    def stand_still(self, seconds: float) -> None:
        return None

    def resume(self) -> None:
        return None

    def breach(self, what: str) -> Failure:
        return Failure(gpu_turns.Reason.PROTOCOL, what)

    def failed(self, reason: gpu_turns.Reason, what: str) -> Failure:
        return Failure(reason, what)


@pytest.fixture(autouse=True)
def _memory(monkeypatch):
    monkeypatch.setattr(gpu_turns, "DeviceBuffer", Memory)


def performer(connection: Connection, binding: str = "python") -> GpuPerformer:
    program = types.SimpleNamespace(binding=binding, compiles=False)
    return GpuPerformer(types.SimpleNamespace(connection=connection, program=program))


def staged(count: int = 4) -> GpuStage:
    stage = GpuStage(CALLS, count, CPU)
    for rows in stage.hidden:
        rows.copy_(torch.arange(rows.numel()).view(rows.shape))
    return stage


def turn(one: GpuPerformer, count: int) -> object:
    watch = Watch.drawn(one.stage.due("forward"), random.Random(0), CPU, range(count))
    return one.turn("forward", 1.0, lambda: None, one.stage.reveal, count, 0.0, watch)


def test_values_are_revealed_as_they_were_written_and_a_change_is_seen():
    stage = staged()
    assert stage.written(range(4)) == "x"
    stage.reveal()
    assert stage.written(range(4)) is None
    described = stage.described("forward")
    begin, step = described["arguments"][0]["begin"], described["arguments"][0]["step"]
    third = stage.buffer.data[begin + 2 * step : begin + 2 * step + 60].view(torch.float32)
    assert third.tolist() == stage.hidden[0][2].tolist()
    third[4] = -1.0
    assert stage.written([0, 1, 2]) == "x"
    assert stage.written([0, 1]) is None  # two calls are looked at


def test_what_may_be_written_is_not_compared():
    stage = staged()
    stage.reveal()
    begin = stage.described("forward")["arguments"][2]["begin"]
    stage.buffer.data[begin] ^= 1
    assert stage.written(range(4)) is None


def test_outputs_and_what_is_written_in_place_are_read_where_they_are_filled():
    stage = staged()
    one = performer(Connection(wire.Staged(True, True, 1000, ()), wire.Timed((4000,), ())), "tvm-ffi")
    one.rehearse(stage, "forward", 1.0, 0.0, capture=True)
    outputs = stage.described("forward")["outputs"]

    def fill(body: object) -> wire.Timed:
        for call in range(4):
            at = outputs[0]["begin"] + call * outputs[0]["step"]
            stage.buffer.data[at : at + 60].view(torch.float32).fill_(call)
        return wire.Timed((4000,), ())

    one.child.connection.replies = [fill]
    made = turn(one, 4)
    assert made.claimed == pytest.approx((1e-6,) * 4)
    assert made.cpu is None
    first, second, third = one.outputs
    assert [row.unique().item() for row in first] == [0.0, 1.0, 2.0, 3.0]
    assert second.shape == (4, 2)
    assert third.tolist() == stage.hidden[1].tolist()


def test_calls_that_overlap_fail_whatever_they_claim():
    one = performer(Connection(wire.Staged(True, False, 1000, ())), "tvm-ffi")
    found = one.rehearse(staged(), "forward", 1.0, 0.0, capture=True)
    assert isinstance(found, Failure)
    assert found.reason is Reason.CLOCK
    assert "its calls overlap" in found.message


def places(*rows: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple((each[0] + 1, each[1] + 1) for each in rows)


def test_returned_outputs_are_read_in_the_arena_or_where_they_were_copied_to():
    stage = staged(2)
    told = places((0, 512), (256, -1))
    one = performer(Connection(wire.Staged(True, True, 0, told), wire.Timed((1,), ())))
    one.rehearse(stage, "forward", 1.0, 0.0, capture=True)
    one._arena.data[:60].view(torch.float32).fill_(1.0)
    one._arena.data[256:316].view(torch.float32).fill_(2.0)
    one._arena.data[512:528].view(torch.int64).fill_(3)
    copied = stage.described("forward")["outputs"][1]
    at = copied["begin"] + copied["step"]
    stage.buffer.data[at : at + 16].view(torch.int64).fill_(4)
    turn(one, 2)
    assert [row.unique().item() for row in one.outputs[0]] == [1.0, 2.0]
    assert [row.unique().item() for row in one.outputs[1]] == [3, 4]


@pytest.mark.parametrize(
    "told",
    [
        (),
        places((0, 0)),
        ((1,), (1,)),
        places((0, 0), (100, 0)),  # not at a line's begin
        places((0, 0), (1 << 40, 0)),
    ],
)
def test_outputs_that_lie_nowhere_break_the_protocol(told):
    one = performer(Connection(wire.Staged(True, True, 0, told)))
    found = one.rehearse(staged(2), "forward", 1.0, 0.0, capture=True)
    assert isinstance(found, Failure)
    assert found.message == gpu_turns.IMPOSSIBLE_PLACE


def test_an_output_that_changes_after_the_answer_was_not_finished(monkeypatch):
    stage = staged(2)
    one = performer(Connection(wire.Staged(True, True, 0, ()), wire.Timed((1,), ())), "tvm-ffi")
    one.rehearse(stage, "forward", 1.0, 0.0, capture=True)
    looks = []

    def settle(device: torch.device) -> None:
        looks.append(device)
        if len(looks) == 3:  # when the clock stops
            stage.buffer.data[stage.described("forward")["outputs"][0]["begin"] :] = 7

    monkeypatch.setattr(gpu_turns, "settle", settle)
    found = turn(one, 2)
    assert isinstance(found, Failure)
    assert str(found.reason) == "clock"
    assert "not finished" in found.message


def test_outputs_are_poisoned_before_the_next_turn_and_forward_outputs_stay_for_a_backward():
    spec = OutputSpec(torch.float32, (4,))
    calls = Calls((Spec("x", torch.float32, (4,)),), (spec,), ((0, Spec("cotangent 0", torch.float32, (4,))),), (spec,))
    stage = GpuStage(calls, 2, CPU)
    one = performer(Connection(wire.Staged(True, True, 0, ())), "tvm-ffi")
    one.rehearse(stage, "backward", 1.0, 0.0, capture=True)
    described = stage.described("backward")
    output, gradient = described["outputs"][0]["begin"], described["gradients"][0]["begin"]
    one.poison("before")
    assert stage.buffer.data[output] == 0xFF
    assert stage.buffer.data[gradient] == 0
    stage.buffer.data[output] = 1
    one.poison("backward")
    assert stage.buffer.data[output] == 1
    assert stage.buffer.data[gradient] == 0xFF


@pytest.mark.parametrize(
    ("slowest", "size", "calls"),
    [(5e-6, 1 << 20, 1600), (1e-7, 1 << 10, 2000), (5e-6, 1 << 30, 13), (1.0, 1 << 20, 2), (1e-6, 1 << 36, 2)],
)
def test_a_turn_has_calls_for_eight_milliseconds_as_far_as_there_is_memory(slowest, size, calls):
    assert gpu.calls_of_a_turn(slowest, size, 139 << 30) == calls
