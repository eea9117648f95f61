"""Looking at what timed calls gave."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from pytest_kbench.timing.witness import LENGTH, PLACES, Lot, Seen, alike, differing, first_wrong, places


def test_small_outputs_are_seen_whole_and_large_ones_in_places_that_change():
    chance = random.Random(0)
    assert places([5, 0], chance) == (((0, 5),), ((0, 0),))
    (first,), (second,) = places([1 << 20], chance), places([1 << 20], chance)
    assert len(first) == PLACES
    assert first != second
    assert all(begin >= 0 and begin + count <= 1 << 20 and count == LENGTH for begin, count in (*first, *second))


def test_what_is_not_there_is_wrong_altogether():
    ours = torch.ones(10)
    assert first_wrong([Seen(0, 0, ours, None)], [1.0]).wrong == 10
    assert first_wrong([Seen(0, 0, ours, torch.full((10,), float("nan")))], [1e9]).wrong == 10
    assert first_wrong([Seen(0, 0, None, ours)], [0.0]) is None  # the baseline's own trouble


def test_roundings_are_allowed_and_other_values_are_not():
    ours = torch.linspace(0, 1, 512)
    assert first_wrong([Seen(0, 0, ours, ours * 1.0001)], [1e-6]) is None
    assert first_wrong([Seen(3, 0, ours, ours.flip(0))], [1e-6]).call == 3


def test_a_branch_that_a_rounding_decides_is_no_fault():
    ours, theirs = torch.zeros(512), torch.zeros(512)
    theirs[17] = 1.0
    assert first_wrong([Seen(0, 0, ours, theirs)], [1e-6]) is None
    theirs[:20] = 1.0
    assert first_wrong([Seen(0, 0, ours, theirs)], [1e-6]) is not None


def test_integers_are_compared_exactly_and_infinities_are_nobodys_fault():
    assert differing(torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 4]]), 0.0) == 1
    strange = torch.tensor([[1.0, float("inf"), float("nan")]])
    assert differing(strange, torch.tensor([[1.0, 0.0, 0.0]]), 0.0) == 0


def test_each_call_of_many_is_compared_by_its_own_largest_element():
    ours = torch.tensor([[1.0, 2.0], [1e6, 0.0], [0.0, 0.0]])
    theirs = ours + torch.tensor([[0.0, 0.1], [0.0, 0.1], [0.0, 0.0]])
    assert differing(ours, theirs, 0.0).tolist() == [1, 0, 0]


def test_every_call_has_the_same_chance_to_be_kept():
    won = Counter()
    for seed in range(4000):
        lot, held = Lot(random.Random(seed), 3), {}
        for call in range(20):
            place = lot.place()
            if place is not None:
                held[place] = call
        won.update(held.values())
    expected = 4000 * 3 / 20
    assert all(0.85 * expected < won[call] < 1.15 * expected for call in range(20))


@pytest.mark.parametrize("strange", [float("inf"), float("nan")])
def test_next_to_an_infinity_other_elements_are_looked_at_all_the_same(strange):
    ours = torch.tensor([[1.0, 2.0, strange], [1.0, 2.0, 3.0]])
    assert alike(ours[1:], ours[1:] * (1 + 1e-5), 0.0)
    assert not alike(ours, ours + torch.tensor([[5.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), 0.0)
    assert not alike(ours, ours.nan_to_num(0.0, 0.0), 0.0)
    assert differing(ours, ours + torch.tensor([[5.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), 0.0).tolist() == [1, 0]
