"""The fixtures `kbench_timer` and `kbench_device`, in projects that grade and in those that do not."""

from __future__ import annotations

import pytest

WORK = """
def once(numbers):
    return sum(number * number for number in numbers)

def thrice(numbers):
    return once(numbers) + once(numbers) + once(numbers)

"""


@pytest.fixture
def timed(pytester: pytest.Pytester):
    """Run a test that has this body."""

    def run(body: str, *args: str, fixtures: str = "kbench_timer") -> pytest.RunResult:
        lines = "\n    ".join(body.strip().splitlines())
        pytester.makepyfile(test_mine=f"{WORK}\ndef test_it({fixtures}):\n    {lines}\n")
        return pytester.runpytest_inprocess(*args)

    return run


def test_a_function_that_does_three_times_the_work_is_called_slower(timed):
    timed(
        """
t = kbench_timer(thrice, once, args=(range(500),), budget=0.5)
assert t.speed == "slower", t
assert t.interval[0] <= t.speedup <= t.interval[1] < 0.8, t
assert t.seconds.fn > t.seconds.baseline
assert t.blocks and t.clock == "perf_counter_ns"
"""
    ).assert_outcomes(passed=1)


def test_a_test_that_fails_says_how_much_slower(timed):
    result = timed("t = kbench_timer(thrice, once, (range(500),), budget=0.5)\nassert t.speed != 'slower', t")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *AssertionError: slower: 0.* times as fast as the baseline (0.* to 0.*), * us against * us a call; *"]
    )


def test_a_function_that_changes_its_arguments_gets_fresh_ones(timed):
    timed(
        """
def take(given):
    assert given.pop() == 3 and not given
kbench_timer(take, take, args=lambda: ([3],), budget=0.05)
"""
    ).assert_outcomes(passed=1)


def test_a_test_sees_what_its_function_raises(timed):
    timed(
        """
import pytest
with pytest.raises(ZeroDivisionError):
    kbench_timer(lambda x: 1 / x, once, args=(0,))
kbench_timer(lambda: pytest.skip("not here"), once)
"""
    ).assert_outcomes(skipped=1)


def test_a_wrong_argument_is_named(timed):
    result = timed("kbench_timer(once([1]), thrice)")
    result.stdout.fnmatch_lines(["E *TypeError: fn is of type int; pass the function itself, *"])


def test_a_timer_imports_no_torch_for_plain_functions(pytester):
    pytester.makeconftest("import sys\ndef pytest_unconfigure():\n    print('torch' in sys.modules)")
    pytester.makepyfile(
        "def test_it(kbench_timer, kbench_device):\n"
        "    assert str(kbench_timer(len, len, ('a',), budget=0.1)) and kbench_device.name\n"
    )
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    assert result.outlines[-1] == "False"


def test_the_device_is_the_cpu_that_the_run_grades_on(timed):
    body = """
import torch
assert (kbench_device.kind, str(kbench_device)) == ("cpu", "cpu")
assert kbench_device.torch == torch.device("cpu")
assert kbench_device.name.strip() and kbench_device.name != "cpu"
"""
    timed(body, fixtures="kbench_device").assert_outcomes(passed=1)


def test_both_work_in_a_run_that_grades(project):
    project.candidates("right.py")
    project.write(
        "tasks/test_mine.py",
        "def test_it(kbench_timer, kbench_device):\n"
        "    assert kbench_timer(len, len, ('a',), budget=0.1).blocks\n"
        "    assert f'{kbench_device}' == 'cpu'\n",
    )
    project.grade("--kbench-device=auto", "--kbench-checks=build").assert_outcomes(passed=2)


def test_a_device_that_is_none_fails_the_test_that_asks_for_it(pytester, timed):
    pytester.makeini("[pytest]\nkbench_device = tpu\n")
    result = timed("assert kbench_device", fixtures="kbench_device")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*kbench_device = tpu: choose auto, cpu, cuda or cuda:N*"])


def test_pytest_says_what_the_fixtures_are_for(pytester):
    lines = pytester.runpytest_inprocess("--fixtures").stdout
    lines.fnmatch_lines(["kbench_timer -- *", "    Time a function of the test against another: *"])
    lines.fnmatch_lines(["kbench_device [[]session scope[]] -- *", "    The device that the run grades on, *"])
