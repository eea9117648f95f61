"""Functions of this process timed in turns: by a clock that only they advance, and a little by real ones."""

from __future__ import annotations

import gc
import itertools
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from pytest_kbench.timing import cpu
from pytest_kbench.timing.own import Seconds, Timing, time_both

TRIALS = 100


class Clock:
    """Stands still unless a function that it makes is called."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> int:
        return round(self.now * 1e9)

    def takes(self, seconds: float, noise: Iterator[float] | None = None, log: list[str] | None = None, name: str = ""):
        def function(*args: object) -> None:
            self.now += seconds * (1.0 if noise is None else next(noise))
            if log is not None:
                log.append(name)

        return function


def quiet(chance: random.Random) -> Iterator[float]:
    while True:
        yield math.exp(chance.gauss(0, 0.003))


def tailed(chance: random.Random) -> Iterator[float]:
    while True:
        yield 1.0 + abs(chance.gauss(0, 0.01)) + (chance.expovariate(4) if chance.random() < 0.1 else 0.0)


def drifting(chance: random.Random) -> Iterator[float]:
    for turn in itertools.count():
        yield (1.0 + 0.2 * math.exp(-turn / 200) + 0.03 * math.sin(turn / 50)) * math.exp(chance.gauss(0, 0.005))


def lasting(chance: random.Random) -> Iterator[float]:
    state = 1.0
    while True:
        state = chance.choice((1.0, 1.3)) if chance.random() < 0.02 else state
        yield state * math.exp(chance.gauss(0, 0.004))


NOISES = (quiet, tailed, drifting, lasting)


def simulated(noise: Callable[[random.Random], Iterator[float]], seed: int, fn: float, baseline: float) -> Timing:
    """What is said of two functions that take so long, on a machine with this noise."""
    chance = random.Random(f"{noise.__name__} {seed}")
    clock, state = Clock(), noise(chance)
    return time_both(clock.takes(fn, state), clock.takes(baseline, state), clock=clock, chance=chance)


def calm(fn: float, baseline: float, **given: object) -> Timing:
    clock = Clock()
    return time_both(clock.takes(fn), clock.takes(baseline), clock=clock, **given)


@pytest.mark.parametrize("noise", NOISES)
def test_identical_functions_are_never_called_faster_or_slower(noise):
    said = [simulated(noise, seed, 1e-3, 1e-3).speed for seed in range(TRIALS)]
    assert not {"faster", "slower"} & set(said)


@pytest.mark.parametrize("noise", NOISES)
def test_ten_per_cent_are_noticed_and_have_the_right_sign(noise):
    said = {simulated(noise, seed, 1.1e-3, 1e-3).speed for seed in range(20)}
    assert said <= {"slower", "ambiguous"}
    said = {simulated(noise, seed, 1e-3, 1.1e-3).speed for seed in range(20)}
    assert said <= {"faster", "ambiguous"}


@pytest.mark.parametrize("noise", NOISES)
def test_the_interval_holds_the_true_speedup(noise):
    found = [simulated(noise, seed, 1e-3, 1.5e-3) for seed in range(TRIALS)]
    assert sum(each.interval[0] <= 1.5 <= each.interval[1] for each in found) >= 0.95 * TRIALS


def test_a_function_in_a_third_of_the_time_is_three_times_as_fast():
    found = calm(1e-3, 3e-3)
    assert found.speed == "faster"
    assert found.speedup == pytest.approx(3.0)
    assert found.interval == pytest.approx((3.0, 3.0))
    assert found.seconds == pytest.approx((1e-3, 3e-3))
    assert found.clock == "perf_counter_ns"
    assert calm(3e-3, 1e-3).speed == "slower"


def test_a_difference_within_the_dead_band_is_none():
    assert calm(1.015e-3, 1e-3).speed == "same"
    assert calm(1.03e-3, 1e-3).speed == "slower"


def test_calls_that_are_too_long_for_the_budget_are_ambiguous():
    found = calm(4.0, 8.0, budget=2.0)
    assert (found.speed, found.speedup, found.interval, found.blocks) == ("ambiguous", 2.0, (0.0, math.inf), 1)
    assert str(found) == (
        "ambiguous: 2.00 times as fast as the baseline (too few blocks for an interval, which a larger budget= may "
        "narrow), 4 s against 8 s a call; 1 block on perf_counter_ns"
    )


def test_what_some_calls_take_counts_by_its_mean():
    clock = Clock()
    found = time_both(
        clock.takes(1e-3, itertools.cycle([1.0, 1.0, 1.0, 5.0])), clock.takes(1.5e-3, quiet(random.Random(1))),
        clock=clock, chance=random.Random(1),
    )  # fmt: skip
    assert found.speed == "slower"
    assert found.seconds.fn == pytest.approx(2e-3, rel=0.01)
    assert found.speedup == pytest.approx(found.seconds.baseline / found.seconds.fn, rel=0.01)


@pytest.mark.parametrize(
    ("fn", "baseline", "calls"),
    [(1e-4, 1e-4, 20), (1e-5, 1e-4, 20), (1e-6, 1e-6, 2048), (1, 2, 1)],
)
def test_a_turn_has_as_many_calls_of_both_as_fill_two_milliseconds(fn, baseline, calls):
    clock, log = Clock(), []
    time_both(clock.takes(fn, log=log, name="f"), clock.takes(baseline, log=log, name="b"), clock=clock, budget=4.0)
    runs = [sum(1 for _ in run) for _, run in itertools.groupby(log)][-20:]
    assert {each // calls for each in runs} <= {1, 2, 3, 4}  # up to four turns of one function follow one another
    assert {each % calls for each in runs} == {0}


def test_functions_are_warm_before_they_count():
    clock = Clock()
    warming = itertools.chain([1000.0] * 3, (2.0 - turn / 100 for turn in range(100)), itertools.repeat(1.0))
    found = time_both(clock.takes(1e-3, warming), clock.takes(1e-3), clock=clock)
    assert found.seconds.fn == pytest.approx(1e-3, rel=0.01)


def test_both_are_called_with_the_arguments():
    seen = []
    clock = Clock()
    step = clock.takes(1e-3)
    time_both(
        lambda *args, **kwargs: (step(), seen.append((args, kwargs))),
        lambda *args, **kwargs: (step(), seen.append((args, kwargs))),
        (1, "two"),
        {"three": 3},
        clock=clock,
    )
    assert all(each == ((1, "two"), {"three": 3}) for each in seen)


def test_every_call_gets_arguments_of_its_own_which_are_made_while_no_clock_runs():
    clock, seen = Clock(), []
    make, step = clock.takes(1e-3), clock.takes(1e-4)

    def in_place(given: list[int]) -> None:
        step()
        assert given == [1, 2]
        given.clear()
        seen.append(given)

    def fresh() -> tuple[list[int]]:
        make()
        return ([1, 2],)

    found = time_both(in_place, in_place, fresh, clock=clock)
    assert len({id(each) for each in seen}) == len(seen)
    assert found.seconds == pytest.approx((1e-4, 1e-4))


@pytest.mark.parametrize(("seconds", "size", "most"), [(0.1, 0, 1), (5e-3, 0, 4), (1e-3, 1 << 28, 4)])
def test_arguments_that_cost_much_time_or_memory_are_few(seconds, size, most):
    clock, made, calls = Clock(), [0], []

    class Large:
        nbytes = size

    def fresh() -> tuple[dict[str, Large]]:
        clock.now += seconds
        made[0] += 1
        return ({"x": Large()},)

    def quick(_: object) -> None:
        clock.now += 1e-8
        calls.append(made[0])
        made[0] = 0

    time_both(quick, quick, fresh, clock=clock)
    assert max(calls[10:]) == most


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_in_a_turn(collects):
    clock, seen = Clock(), []
    step = clock.takes(1e-3)

    def function() -> None:
        step()
        seen.append(gc.isenabled())

    before = gc.isenabled()
    try:
        gc.enable() if collects else gc.disable()
        time_both(function, clock.takes(1e-3), clock=clock)
        assert gc.isenabled() is collects
        assert not any(seen[1:])  # the first call is no part of a turn
    finally:
        gc.enable() if before else gc.disable()


def test_with_cold_each_call_finds_empty_caches(monkeypatch):
    clock, log = Clock(), []
    monkeypatch.setattr(cpu, "Flush", lambda: clock.takes(0.1, log=log, name="flush"))
    call = clock.takes(1e-4, log=log, name="call")
    found = time_both(call, call, cold=True, clock=clock)
    assert set(log[2::2]) == {"flush"}
    assert set(log[3::2]) == {"call"}
    assert found.seconds == pytest.approx((1e-4, 1e-4))


@pytest.mark.parametrize("which", ["fn", "baseline"])
@pytest.mark.parametrize("after", [0, 5])
def test_what_a_function_raises_comes_through(which, after):
    error = KeyError("mine")
    clock, calls = Clock(), itertools.count()

    def failing() -> None:
        clock.now += 1e-3
        if next(calls) == after:
            raise error

    functions = {"fn": clock.takes(1e-3), "baseline": clock.takes(1e-3), which: failing}
    with pytest.raises(KeyError) as caught:
        time_both(**functions, clock=clock)
    assert caught.value is error
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"fn": 3.0}, TypeError, "fn is of type float; pass the function itself, and its arguments as args=(...)"),
        ({"baseline": None}, TypeError, "baseline is None; pass the function itself, and its arguments as args=(...)"),
        (
            {"args": [1]},
            TypeError,
            "args is of type list; pass a tuple, as in args=(x,), or a function that makes a fresh one for each call",
        ),
        (
            {"args": lambda: [1]},
            TypeError,
            "args() is of type list; let it return a tuple, as in args=lambda: (x.clone(),)",
        ),
        ({"kwargs": [1]}, TypeError, "kwargs is of type list; pass a dict, as in kwargs=dict(dim=-1)"),
        ({"budget": "1"}, TypeError, "budget is of type str; pass a number of seconds, as in budget=1.0"),
        ({"budget": True}, TypeError, "budget is of type bool; pass a number of seconds, as in budget=1.0"),
        ({"budget": 0}, ValueError, "budget=0: pass a positive number of seconds, as in budget=1.0"),
        ({"budget": -1.5}, ValueError, "budget=-1.5: pass a positive number of seconds, as in budget=1.0"),
        ({"budget": math.nan}, ValueError, "budget=nan: pass a positive number of seconds, as in budget=1.0"),
    ],
)
def test_a_bad_argument_is_named_with_the_fix(given, error, message):
    with pytest.raises(error) as caught:
        time_both(**{"fn": len, "baseline": len, **given})
    assert str(caught.value) == message


def test_a_timing_is_one_line_for_people():
    found = Timing(2.5, (2.4, 2.625), "faster", Seconds(4e-5, 1e-4), 30, "cuda-events")
    assert str(found) == (
        "faster: 2.50 times as fast as the baseline (2.40 to 2.62), 40 us against 100 us a call; "
        "30 blocks on cuda-events"
    )
    assert repr(found) == str(found)
    assert "123 times" in str(Timing(123.4, (100.0, 150.0), "faster", Seconds(1e-8, 1.0), 30, "perf_counter_ns"))


def test_a_real_clock_sees_three_times_the_work():
    def work(numbers: range) -> int:
        return sum(number * number for number in numbers)

    found = time_both(work, lambda numbers: work(numbers) + work(numbers) + work(numbers), (range(500),), budget=0.5)
    assert found.speed == "faster", found
    assert found.speedup > 1.5, found


def test_plain_functions_are_timed_without_torch():
    code = (
        "import sys; from pytest_kbench.timing.own import time_both; "
        "time_both(len, len, ('text',), budget=0.1); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_tensors_on_the_cpu_have_the_clock_of_the_process():
    import torch

    found = time_both(torch.neg, torch.neg, (torch.ones(3),), budget=0.05)
    assert found.clock == "perf_counter_ns"


def softmax(*given: object, times: int = 1) -> None:
    import torch

    for _ in range(times):
        torch.softmax(given[0][0] if isinstance(given[0], list) else given[0], -1)


@pytest.mark.gpu
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("cold", [False, True])
def test_tensors_on_a_gpu_are_timed_by_its_events(nested, cold):
    import torch

    x = torch.randn(16384, 2048, device="cuda")
    given = [x] if nested else x
    found = time_both(softmax, lambda each: softmax(each, times=3), (given,), cold=cold)
    assert found.clock == "cuda-events"
    assert found.speed == "faster", found
    assert 2 < found.speedup < 4, found


@pytest.mark.gpu
def test_a_function_that_leaves_work_on_a_gpu_is_timed_to_its_end():
    import torch

    x = torch.randn(16384, 2048, device="cuda")
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(100):
        softmax(x)
    torch.cuda.synchronize()
    took = (time.perf_counter() - begun) / 100
    found = time_both(lambda: softmax(x), lambda: softmax(x, times=3))
    assert found.clock == "perf_counter_ns"
    assert found.seconds.fn > took / 2, found
    assert 2 < found.speedup < 4, found
