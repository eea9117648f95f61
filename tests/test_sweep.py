"""Sweeps of a dimension: what is written, which sizes that means, and which cases of a task."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kbench.formats import native
from pytest_kbench.oracle.coverage import swept, timed
from pytest_kbench.sweep import Sweep, parsed

SOFTMAX = native.load(Path(__file__).parent.parent / "tasks" / "softmax.py")[0]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("n=1..4096:log", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]),
        ("n=3..20", [3, 4, 8, 16, 20]),
        ("n=5..5", [5]),
        ("n=1..1000:log:4", [1, 10, 100, 1000]),
        ("n=0..100:linear:5", [0, 25, 50, 75, 100]),
        ("n=1..3:linear", [1, 2, 3]),
    ],
)
def test_sizes_go_from_one_end_to_the_other(text, sizes):
    (found,) = parsed(text)
    assert list(found.sizes) == sizes


def test_what_is_parsed_is_written_as_it_is_read():
    text = "tokens=1..4096:log,hidden=64..8192:linear:5"
    assert ",".join(map(str, parsed(text))) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tokens", "write a dimension and its sizes"),
        ("tokens=1..4:cubic", "write a dimension and its sizes"),
        ("tokens=9..4", "sizes go up"),
        ("tokens=0..4:log", "no logarithm of 0"),
        ("tokens=1..4:linear:1", "2 to 64 sizes"),
        ("a=1..4,a=1..8", "a is there twice"),
        ("tokens=1..9999999999999", "write a dimension and its sizes"),
    ],
)
def test_what_is_no_sweep_is_told_so(text, said):
    with pytest.raises(ValueError, match=said):
        parsed(text)


def test_a_sweep_changes_one_dimension_of_the_largest_timed_shape():
    largest = dict(timed(SOFTMAX, "cpu", 1)[-1].case.calls[0].dims)
    found = swept(SOFTMAX, "cpu", 1, parsed("columns=1..8:log"))
    assert [each.id for each in found] == ["columns=1:f32", "columns=2:f32", "columns=4:f32", "columns=8:f32"]
    assert [dict(each.case.calls[0].dims) for each in found] == [{**largest, "columns": n} for n in (1, 2, 4, 8)]


def test_sizes_that_the_task_does_not_declare_are_left_out():
    largest = dict(timed(SOFTMAX, "cpu", 1)[-1].case.calls[0].dims)["columns"]
    most = SOFTMAX.fuzz["columns"].high
    sizes = swept(SOFTMAX, "cpu", 1, (Sweep("columns", largest, most + 5, "linear", 3),))
    found = [dict(each.case.calls[0].dims)["columns"] for each in sizes]
    assert found == [largest, (largest + most + 5) // 2]


def test_a_dimension_that_a_task_does_not_have_is_none_of_its_sweeps():
    assert swept(SOFTMAX, "cpu", 1, parsed("tokens=1..8")) == ()
