"""Whether the calls of a graph wait for each other, on graphs that are written down."""

from __future__ import annotations

import pytest

from pytest_kbench.sandbox.captured import Ends, apart


def judged(*calls: tuple[dict[int, set[int]], set[int]]) -> bool:
    """Calls, each as its nodes with those they wait for, in the order in which they are made, and what it ends with."""
    ends, before = [Ends(0, frozenset())], {}
    for nodes, last in calls:
        before.update({node: sorted(those) for node, those in nodes.items()})
        ends.append(Ends(len(before), frozenset(last)))
    return apart(list(before), before, ends)


@pytest.mark.parametrize(
    "calls",
    [
        [({1: set(), 2: {1}}, {2}), ({3: {2}, 4: {3}}, {4})],
        [({}, set()), ({1: set()}, {1}), ({}, {1}), ({2: {1}}, {2})],
        [({1: set(), 2: set()}, {1, 2}), ({3: {1, 2}, 4: {1, 2}, 5: {3, 4}}, {5})],  # two streams, joined
        [({1: set(), 2: {1}, 3: {1}, 4: {2, 3}}, {4}), ({5: {4}, 6: {3, 4}, 7: {5, 6}}, {7})],  # one of them again
        [({1: set(), 2: {1}, 3: {2}}, {3}), ({4: {3}, 5: {2, 4}, 6: {4, 5}}, {6})],  # after a kernel of its own
    ],
)
def test_calls_that_wait_for_all_that_was_begun_are_apart(calls):
    assert judged(*calls)


@pytest.mark.parametrize(
    "calls",
    [
        [({1: set(), 2: {1}}, {1})],  # not joined when it ends
        [({1: set(), 2: {1}}, {2}), ({3: {1}, 4: {2, 3}}, {4})],  # begins when the last one began
        [({1: set()}, {1}), ({2: set(), 3: {1, 2}}, {3})],  # begins with the graph
        [({1: set(), 2: set()}, {1, 2}), ({3: {1}, 4: {2}, 5: {3, 4}}, {5})],  # waits for a half each
        [({1: set(), 2: {1}}, {2}), ({3: {2}, 4: {1, 3}}, {4}), ({5: {4, 1}, 6: {2, 5}}, {6}), ({7: {3}}, {7})],
    ],
)
def test_calls_that_run_beside_another_are_not(calls):
    assert not judged(*calls)
