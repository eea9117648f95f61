"""Blocks of turns on a GPU, with stand-ins for its memory and for both children: no GPU is needed."""

from __future__ import annotations

import functools
import random
import types
from dataclasses import replace

import pytest
import torch

from pytest_kbench import Task, Tensor
from pytest_kbench.case import Call
from pytest_kbench.oracle.inputs import draw
from pytest_kbench.sandbox import gpu_turns
from pytest_kbench.sandbox.gpu_turns import GpuStage, Staged
from pytest_kbench.sandbox.outcome import Failure, OutputSpec
from pytest_kbench.sandbox.turns import Calls, Spec, Turn
from pytest_kbench.timing import gpu, stats
from pytest_kbench.timing.arms import ArmFailed
from pytest_kbench.timing.fresh import Fresh
from pytest_kbench.timing.paired import measure

CPU = torch.device("cpu")
SPEC = OutputSpec(torch.float32, (4, 16))
CALLS = Calls((Spec("x", torch.float32, (4, 16)),), (SPEC,))


def doubled(x):
    return x * 2


TASK = Task(doubled, args=[Tensor("x", "rows columns")], shapes={"one": dict(rows=4, columns=16)})


class Memory:
    """Stands in for a buffer on a GPU."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.number, self.data = 1, torch.zeros(size, dtype=torch.uint8)

    def arrange(self, used: int) -> None:
        assert used == len(self.data)


class Child:
    """Stands in for a performer: its calls take so many seconds, and it claims what it likes."""

    def __init__(self, seconds: float, *, claims: float = 1.0, factor: float = 2.0, captures: bool = True) -> None:
        self.seconds, self.claims, self.factor, self.captures = seconds, claims, factor, captures
        self.captured, self.held, self.counts = False, [], []
        self.child = types.SimpleNamespace(close=lambda: None)
        self.chance = random.Random(1)
        self.failure: Failure | None = None

    def rehearse(self, stage: GpuStage, *given: object, capture: bool) -> Staged:
        self.stage, self.captured = stage, capture and self.captures
        return Staged(self.captured, 1e-5)

    def poison(self, part: str) -> None:
        self.stage.poison(part)

    def turn(self, part, seconds, before, reveal, count, hold=0.0, watch=None) -> Turn | Failure:
        before()
        reveal()
        if self.failure is not None:
            return self.failure
        self.held.append(hold)
        self.counts.append(count)
        x = self.stage.buffer.data[: self.stage.count * 512].view(torch.float32).view(self.stage.count, 128)
        self.outputs = [x[list(watch.whole) if watch else [], :64] * self.factor]
        self.seen = [x[:count, :64] * self.factor]
        took = self.seconds * count
        wall = took + hold + 7e-4 + abs(self.chance.gauss(0.0, 1e-5))
        return Turn((self.seconds * self.claims,) * count, wall, None, 0.0, beside=1e-4)


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr(gpu_turns, "DeviceBuffer", Memory)
    monkeypatch.setattr(gpu_turns.driver, "settle_cache", lambda index: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    monkeypatch.setattr(gpu, "ENDING", 0.0)


def arms_of(baseline: Child, candidate: Child, count: int = 64, judged: bool = True) -> gpu.GpuArms:
    def anew(seed: int):
        return draw(TASK, Call((("rows", 4), ("columns", 16)), "float32", seed=seed))

    fresh = Fresh(TASK, [anew(seed) for seed in range(3)], anew)
    pair = {"baseline": baseline, "candidate": candidate}
    chance = random.Random(0)
    return gpu.GpuArms(pair, GpuStage(CALLS, count, CPU), fresh, lambda: None, chance, (SPEC,), (1e-6,), judged)


def compared(arms: gpu.GpuArms):
    arms.rehearse()
    arms.warm_up()
    return measure(arms.take, stats.CUDA, budget=0.5, chance=random.Random(2))


def test_what_takes_two_thirds_of_the_time_is_faster_and_its_outputs_are_kept():
    arms = arms_of(Child(3e-5), Child(2e-5), count=256)
    found = compared(arms)
    assert found.speed == "faster"
    assert found.interval.speedup[1] == pytest.approx(1.5)
    assert found.unseen < 0.05
    assert arms.captured
    assert arms.clock == "CUDA events around a graph"
    assert arms.first_wrong(()) is None
    assert not arms.left_running()
    assert len(arms.kept) == 5
    kept = arms.kept[0]
    assert torch.equal(kept.given[0] * 2, kept.outputs[0])


def test_values_of_the_turn_before_are_not_there_when_the_clock_starts():
    seen = []

    class Looking(Child):
        def turn(self, part, seconds, before, reveal, *rest) -> Turn | Failure:
            def hidden() -> None:
                before()
                seen.append(self.stage.written(range(self.stage.count)))

            return super().turn(part, seconds, hidden, reveal, *rest)

    arms = arms_of(Child(3e-5), Looking(3e-5), count=8)
    arms.rehearse()
    arms.take(("baseline", "candidate", "candidate", "baseline"))
    assert seen
    assert all(each == "x" for each in seen)


def test_who_claims_half_of_what_it_takes_is_convicted():
    found = compared(arms_of(Child(3e-5), Child(3e-5, claims=0.5), count=256))
    assert found.proven > 0.5
    assert found.speed != "faster"


def test_who_claims_much_at_first_does_not_decide_how_many_calls_there_are():
    arms = arms_of(Child(5e-6), Child(5e-6, claims=2000.0), count=8)
    arms.rehearse()
    assert gpu.calls_of_a_turn(arms.pace(), 1 << 20, 139 << 30) > 1000


def test_who_takes_long_gets_fewer_calls():
    arms = arms_of(Child(5e-6), Child(1e-2), count=8)
    arms.rehearse()
    assert gpu.calls_of_a_turn(arms.pace(), 1 << 20, 139 << 30) <= 20


def test_what_one_of_them_cannot_capture_is_queued_and_held_as_long_for_both():
    arms = arms_of(Child(3e-5), Child(2e-5, captures=False))
    compared(arms)
    assert not arms.captured
    assert arms.clock == "CUDA events around queued calls"
    first, second = arms.performers.values()
    expected = {gpu.HELD * 1e-5 * count + gpu.SPARE for count in (64, 16)}
    assert {*first.held[2:]} == {*second.held[2:]} == expected


@pytest.mark.parametrize(("seconds", "word"), [(2e-5, "ambiguous"), (5e-4, "faster")])
def test_who_is_queued_could_have_worked_while_the_others_were_held(seconds, word):
    found = compared(arms_of(Child(1.5 * seconds), Child(seconds, captures=False), count=256))
    assert found.speed == word
    assert found.unseen == pytest.approx(gpu.HELD * 1e-5 / seconds, abs=0.05)


def test_lines_of_calls_that_are_not_compared_whole_are_compared_too(monkeypatch):
    monkeypatch.setattr(gpu, "WHOLE", 1)
    arms = arms_of(Child(3e-5), Child(2e-5, factor=2.01))
    arms.rehearse()
    assert len(arms._drawn(64)) == 1
    for performer in arms.performers.values():
        performer.outputs = []
    arms.performers["candidate"].turn = functools.partial(_right_where_whole, arms.performers["candidate"])
    arms.warm_up()
    arms.take(("baseline", "candidate", "candidate", "baseline"))
    assert arms.first_wrong(()) is not None


def _right_where_whole(child: Child, *given: object) -> Turn | Failure:
    made = Child.turn(child, *given)
    child.outputs = [each / child.factor * 2.0 for each in child.outputs]
    return made


def test_what_is_wrong_as_a_graph_is_queued():
    class Missing(Child):
        def turn(self, *given):
            self.factor = 1.0 if self.captured else 2.0
            return super().turn(*given)

    arms = arms_of(Child(3e-5), Missing(2e-5))
    compared(arms)
    assert not arms.captured
    assert arms.first_wrong(()) is None


def test_an_output_that_is_not_the_baselines_is_found_whatever_the_call():
    arms = arms_of(Child(3e-5), Child(2e-5, factor=2.01))
    compared(arms)
    wrong = arms.first_wrong(())
    assert (wrong.output, wrong.looked_at) == (0, 64)
    assert wrong.wrong > 32


def test_a_child_that_fails_ends_the_comparison_in_its_name():
    arms = arms_of(Child(3e-5), Child(2e-5))
    arms.rehearse()
    arms.performers["candidate"].failure = Failure(gpu.Reason.CRASHED, "gone")
    with pytest.raises(ArmFailed) as raised:
        arms.take(("baseline", "candidate", "candidate", "baseline"))
    assert (raised.value.arm, raised.value.failure.message) == ("candidate", "gone")


def test_where_nothing_can_be_judged_in_full_nothing_is_kept():
    arms = arms_of(Child(3e-5), Child(2e-5), judged=False)
    compared(arms)
    assert arms.kept == {}


def test_time_that_is_wasted_in_short_turns_pays_for_no_claim():
    class Padded(Child):
        def turn(self, part, seconds, before, reveal, count, *rest) -> Turn | Failure:
            made = super().turn(part, seconds, before, reveal, count, *rest)
            assert isinstance(made, Turn)
            lied = self.seconds * (1.0 - self.claims) * (self.stage.count - self.stage.short)
            return replace(made, wall=made.wall + (lied if count == self.stage.short else 0.0))

    found = compared(arms_of(Child(3e-5), Padded(3e-5, claims=0.8), count=256))
    assert found.unseen > 0.2
    assert found.speed != "faster"
