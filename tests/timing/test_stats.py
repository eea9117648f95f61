"""Statistics of paired times: known cases, and simulations of noise as clocks have it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import pytest

from pytest_kbench.timing.stats import CPU, CUDA, Interval, Precision, block, due, enough, interval, speed

TRIALS = 400

# What a turn of 1 takes: with a heavy tail, on a machine that warms up, at two speeds by chance, in states that last.


def tailed(chance: random.Random) -> Iterator[float]:
    while True:
        slow = chance.expovariate(1 / 0.15) if chance.random() < 0.1 else 0.0
        yield 1.0 + abs(chance.gauss(0, 0.01)) + slow


def drifting(chance: random.Random) -> Iterator[float]:
    turn = 0
    while True:
        turn += 1
        yield (1.0 + 0.2 * math.exp(-turn / 60) + 0.03 * math.sin(turn / 20)) * math.exp(chance.gauss(0, 0.005))


def bimodal(chance: random.Random) -> Iterator[float]:
    while True:
        yield (1.03 if chance.random() < 0.3 else 1.0) * math.exp(chance.gauss(0, 0.002))


def lasting(chance: random.Random) -> Iterator[float]:
    state = 1.0
    while True:
        state = chance.choice((1.0, 1.02)) if chance.random() < 0.05 else state
        yield state * math.exp(chance.gauss(0, 0.004))


NOISES = (tailed, drifting, bimodal, lasting)


def run(noise: Callable[[random.Random], Iterator[float]], seed: int, slower: float, precision: Precision):
    """Blocks of two arms, ABBA or BAAB, until the interval is narrow: the interval, and how many blocks there were."""
    chance = random.Random(f"{noise.__name__} {seed} {slower}")
    times, blocks, found = noise(chance), [], None
    while len(blocks) < 300:
        first, order = [], chance.choice(("abba", "baab"))
        both = {"a": first, "b": []}
        for arm in order:
            both[arm].append(next(times) * (slower if arm == "b" else 1.0))
        blocks.append(block(both["a"], both["b"]))
        if due(len(blocks)):
            found = interval(blocks)
            if enough(found, precision):
                break
    return found, len(blocks)


@pytest.mark.parametrize("noise", NOISES)
def test_the_interval_of_identical_arms_has_no_difference_in_it(noise):
    missed = 0
    for seed in range(TRIALS):
        found, _ = run(noise, seed, 1.0, CPU)
        missed += not found.low <= 0.0 <= found.high
    assert missed / TRIALS < 0.025  # 1 % nominal, a little more for looking several times


@pytest.mark.parametrize("noise", NOISES)
def test_identical_arms_are_never_called_faster_or_slower(noise):
    said = [speed(run(noise, seed, 1.0, CPU)[0], CPU) for seed in range(TRIALS)]
    assert sum(word in ("faster", "slower") for word in said) < TRIALS / 100


@pytest.mark.parametrize("noise", NOISES)
def test_five_per_cent_are_noticed_and_have_the_right_sign(noise):
    found = [run(noise, seed, 1.05, CPU) for seed in range(100)]
    assert sum(speed(each, CPU) == "slower" for each, _ in found) >= 95
    assert sum(speed(each, CPU) == "faster" for each, _ in found) == 0
    assert all(-math.log(1.05) - 0.03 < each.median < -math.log(1.05) + 0.03 for each, _ in found)


def test_two_per_cent_are_noticed_where_the_clock_is_good():
    def quiet(chance):
        while True:
            yield math.exp(chance.gauss(0, 0.006))

    found = [run(quiet, seed, 1.02, CUDA) for seed in range(100)]
    assert sum(speed(each, CUDA) == "slower" for each, _ in found) >= 95
    assert max(count for _, count in found) < 150


def test_the_interval_is_exact_for_few_values():
    assert interval([0.0] * 7) is None  # 2 / 2**7 > 1 %
    assert interval(list(range(8))) == Interval(0, 3.5, 7)
    assert interval(list(range(5)), error=0.05) is None
    assert interval(list(range(6)), error=0.05) == Interval(0, 2.5, 5)
    assert interval(list(range(100)), error=0.05) == Interval(39, 49.5, 60)  # Conover's table
    assert interval([float(each) for each in range(5000)]).half_width < 100


def test_more_arms_need_wider_intervals():
    values = [random.Random(each).gauss(0, 1) for each in range(60)]
    assert interval(values, 0.01 / 4).half_width > interval(values, 0.01).half_width


def test_drift_cancels_within_a_block():
    assert block([1.0, 4.0], [2.0, 2.0]) == pytest.approx(0.0)
    assert block([2.0, 2.0], [1.0, 1.0]) == pytest.approx(math.log(2))
    with pytest.raises(ValueError, match="2 turns of one arm and 1 of the other"):
        block([1.0, 2.0], [1.0])


def test_looks_are_few():
    assert [count for count in range(60) if due(count)] == [20, 30, 40, 50]


def test_the_width_decides_when_to_stop_and_the_dead_band_what_is_said():
    assert not enough(None, CPU)
    assert enough(Interval(0.5, 0.505, 0.51), CPU)
    assert not enough(Interval(0.5, 0.55, 0.6), CPU)
    words = {"faster": (0.02, 0.03), "slower": (-0.03, -0.02), "same": (-0.005, 0.01), "ambiguous": (0.005, 0.03)}
    for word, (low, high) in words.items():
        assert speed(Interval(low, (low + high) / 2, high), CPU) == word


def test_a_noisy_clock_widens_what_is_the_same_and_a_useless_one_says_nothing():
    clearly = Interval(0.02, 0.025, 0.03)
    assert speed(clearly, Precision(0.01, least=0.01, most=0.03, slack=0.0, floor=0.025)) == "ambiguous"
    assert speed(Interval(-0.02, 0.0, 0.02), Precision(0.01, least=0.01, most=0.03, slack=0.0, floor=0.025)) == "same"
    assert speed(Interval(0.5, 0.55, 0.6), Precision(0.01, least=0.01, most=0.03, slack=0.0, floor=0.05)) == "ambiguous"
    assert speed(None, CPU) == "ambiguous"


def test_an_interval_says_how_many_times_as_fast():
    assert Interval(0.0, math.log(2), math.log(4)).speedup == pytest.approx((1.0, 2.0, 4.0))
