"""Comparing two arms block by block, with arms and a clock that are simulated."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from pytest_kbench.timing.paired import LEAST, LONGEST, Block, Sample, hidden, measure, proven, ratios
from pytest_kbench.timing.stats import CPU

CALLS = 16  # of an arm in a block
OVERHEAD = 400e-6  # seconds that a block's turns of an arm take beside its calls


class Machine:
    """Arms whose calls take a time of their own, on a machine that other things disturb."""

    def __init__(self, seed: int, *, slower: float = 1.0, base: float = 300e-6) -> None:
        self.chance = random.Random(seed)
        self.times = {"baseline": base, "candidate": base * slower}
        self.now = 0.0
        self.state = 1.0
        self.share = 1.0  # of the candidate's time that it says
        self.disturbs = 0.0  # the share of blocks in which something else is busy

    def call(self, arm: str) -> float:
        """Half a per cent of noise, memory that is slower for a while, and what others take now and then."""
        if self.chance.random() < 0.02:
            self.state = self.chance.choice((1.0, 1.0, 1.3))
        late = self.chance.expovariate(1 / 0.3) if self.chance.random() < 0.1 else 0.0
        return self.times[arm] * self.state * (1.0 + abs(self.chance.gauss(0, 0.005)) + late)

    def stepped(self, arm: str) -> Sample:
        long, short = self.sample(arm, CALLS * 2 // 3), self.sample(arm, CALLS // 3)
        more = len(long.claimed) - len(short.claimed)
        steps = {clock: (getattr(long, clock) - getattr(short, clock)) / more for clock in ("wall", "cpu")}
        return Sample(long.claimed + short.claimed, long.wall + short.wall, long.cpu + short.cpu, steps)

    def sample(self, arm: str, calls: int) -> Sample:
        true = [self.call(arm) for _ in range(calls)]
        said = tuple(each * (self.share if arm == "candidate" else 1.0) for each in true)
        beside = OVERHEAD / 2 + abs(self.chance.gauss(0, 10e-6))
        self.now += sum(true) + 15e-3
        return Sample(said, sum(true) + beside + abs(self.chance.gauss(0, 30e-6)), sum(true) + beside)

    def take(self, order) -> Block:
        samples = {arm: self.stepped(arm) for arm in order[:2]}
        if self.chance.random() >= self.disturbs:
            return Block(samples["baseline"], samples["candidate"])
        waited = {arm: replace(each, claimed=tuple(2 * t for t in each.claimed)) for arm, each in samples.items()}
        victim = self.chance.choice(("baseline", "candidate"))
        return Block(**{**samples, victim: waited[victim]}, disturbed=True)

    def measure(self, budget: float = 1.0):
        return measure(self.take, CPU, budget=budget, chance=self.chance, clock=lambda: self.now)


def test_identical_arms_are_not_called_faster_or_slower():
    found = [Machine(seed).measure() for seed in range(200)]
    assert sum(each.speed in ("faster", "slower") for each in found) <= 2
    assert sum(not each.interval.low <= 0.0 <= each.interval.high for each in found) <= 5
    assert sum(each.proven > 0.05 for each in found) == 0


@pytest.mark.parametrize(("slower", "word"), [(1.05, "slower"), (0.6, "faster")])
def test_what_is_slower_is_noticed_and_what_is_faster_beyond_all_that_could_be_hidden(slower, word):
    found = [Machine(seed, slower=slower).measure() for seed in range(100)]
    assert sum(each.speed == word for each in found) >= 95
    assert all(abs(each.interval.median + math.log(slower)) < 0.01 for each in found)


def test_a_few_per_cent_are_not_called_faster_where_as_much_could_be_hidden():
    found = [Machine(seed, slower=0.97).measure() for seed in range(50)]
    assert all(each.speed == "ambiguous" for each in found if each.unseen > 0.05)


def test_time_that_a_turn_of_the_candidate_saves_beside_its_calls_is_no_room_for_claims():
    def lean(machine, order):
        block = machine.take(order)
        saved = OVERHEAD * 0.8
        share = 1.0 - saved / sum(block.candidate.claimed)
        said = tuple(each * share for each in block.candidate.claimed)
        less = replace(
            block.candidate, claimed=said, wall=block.candidate.wall - saved, cpu=block.candidate.cpu - saved
        )
        return replace(block, candidate=less)

    for seed in range(30):
        machine = Machine(seed, base=60e-6)
        found = measure(
            lambda order, machine=machine: lean(machine, order),
            CPU, budget=1.0, chance=machine.chance, clock=lambda machine=machine: machine.now,
        )  # fmt: skip
        assert found.speed != "faster"
        assert found.proven > 0.2 or found.unseen > 0.2


def test_a_candidate_that_claims_less_than_it_takes_is_convicted():
    for seed in range(50):
        machine = Machine(seed)
        machine.share = 0.8
        assert machine.measure().proven > 0.05


def test_what_might_go_unseen_is_stated_and_no_less_than_what_was_hidden():
    for seed in range(50):
        machine = Machine(seed)
        machine.share = 0.985
        found = machine.measure()
        assert found.unseen is not None
        assert found.unseen > 0.01


def test_a_candidate_of_which_one_call_is_said_to_be_quick_is_judged_by_means():
    def forged(machine, order):
        block = machine.take(order)
        claimed = list(block.candidate.claimed)
        saved = claimed[0] / 2
        claimed = [claimed[0] - saved, *(each + saved / (CALLS - 1) for each in claimed[1:])]
        return replace(block, candidate=replace(block.candidate, claimed=tuple(claimed)))

    words = []
    for seed in range(50):
        machine = Machine(seed)
        found = measure(
            lambda order, machine=machine: forged(machine, order),
            CPU, budget=1.0, chance=machine.chance, clock=lambda machine=machine: machine.now,
        )  # fmt: skip
        words.append(found.speed)
    assert "faster" not in words


def test_disturbed_blocks_are_left_out_and_counted():
    machine = Machine(1)
    machine.disturbs = 0.3
    found = machine.measure()
    assert found.rejected > 0
    assert not any(each.disturbed for each in found.blocks)
    assert len(found.blocks) >= LEAST


def test_where_everything_is_disturbed_nothing_is_said_but_the_numbers_are_there():
    for seed in range(20):
        machine = Machine(seed, slower=1.5)
        machine.disturbs = 1.0
        found = machine.measure()
        assert found.speed == "ambiguous"
        assert found.blocks
        assert found.interval is None  # else a gate would judge by it
        assert found.unseen is None
        assert machine.now < 3.0


def test_waiting_for_a_cpu_proves_no_lie_whoever_waited():
    for seed in range(50):
        machine = Machine(seed)
        machine.disturbs = 0.9
        assert machine.measure().proven == 0.0


def test_a_gross_lie_is_seen_on_a_busy_machine_too():
    for seed in range(20):
        machine = Machine(seed)
        machine.disturbs, machine.share = 1.0, 0.1
        assert machine.measure().proven > 0.5


def test_calls_that_take_long_get_a_few_budgets_and_no_more():
    machine = Machine(1, base=0.1)
    found = machine.measure()
    assert len(found.blocks) < 20
    assert machine.now < LONGEST + 4 * CALLS * 0.2
    assert found.speed in ("same", "ambiguous")


def test_few_blocks_give_no_interval_and_no_word():
    found = measure(lambda order: Machine(1).take(order), CPU, budget=1e-9)
    assert len(found.blocks) < LEAST
    assert found.interval is None
    assert found.speed == "ambiguous"


def test_a_tenth_of_a_millisecond_beside_the_calls_is_no_lie_however_short_they_are():
    def late(machine, order):
        block = machine.take(order)
        longer = replace(block.candidate, wall=block.candidate.wall + 90e-6, cpu=block.candidate.cpu + 90e-6)
        return replace(block, candidate=longer)

    for seed in range(30):
        machine = Machine(seed, base=5e-6)
        blocks = [late(machine, ("baseline", "candidate")) for _ in range(40)]
        assert proven(blocks, 0.01) == 0.0
        assert hidden(blocks, 0.01).high > 0.02  # but more might have been hidden, and that is said


def test_the_quickest_calls_are_compared():
    quiet = Sample((1.0, 1.0), 2.0, 2.0)
    blocks = [Block(Sample((1.0, 3.0), 4.0, 4.0), quiet)] * 8
    assert ratios(blocks, 0.01, 0.01)[0].median == 0.0
