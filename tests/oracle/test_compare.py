"""What compare says of one output: counts, the worst element, where the wrong ones are and what they are."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest
import torch
from torch import Tensor

from pytest_kbench.oracle.compare import compare, pattern
from pytest_kbench.oracle.tolerance import Bound, Tolerance, bound
from pytest_kbench.record import Comparison

INF, NAN = math.inf, math.nan


def judged(
    actual: Tensor, golden: Tensor, eager: Tensor | None = None, tolerance: Tolerance | None = None
) -> Comparison:
    eager = golden.to(actual.dtype) if eager is None else eager
    return compare(actual, golden, bound(golden, eager, golden, tolerance or Tolerance(), terms=1), output=0)


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def test_right_output_passes_and_still_names_its_worst_element():
    golden = random(3, 65)
    comparison = judged(golden.float(), golden)
    assert comparison.ok
    assert comparison.elements == 195
    assert 0.0 < comparison.ratio < 0.2
    assert 0.0 < comparison.norm_ratio < 0.3
    row, column = comparison.worst
    assert comparison.golden == float(golden[row, column])
    assert comparison.error == abs(comparison.actual - comparison.golden)
    assert comparison.ratio == pytest.approx(comparison.error / comparison.allowed)


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1000])
def test_worst_element_is_found_wherever_it_is(count):
    golden = torch.ones(count, dtype=torch.float64)
    for position in {0, count // 2, count - 1, min(255, count - 1)}:
        actual = golden.float()
        actual[position] += 2e-7
        comparison = judged(actual, golden)
        assert comparison.ok
        assert comparison.worst == (position,)


def test_wrong_elements_are_counted_and_placed():
    golden = random(3, 65)
    actual = golden.float()
    actual[:, -1] += 0.5
    comparison = judged(actual, golden)
    assert not comparison.ok
    assert comparison.wrong == 3
    assert comparison.nonfinite == 0
    assert comparison.worst[1] == 64
    assert comparison.error == pytest.approx(0.5, rel=1e-6)
    assert comparison.pattern == "only the last column (the tail beyond a multiple of 64)"


def test_inputs_of_the_comparison_are_left_alone():
    golden, actual = random(4, 40), random(4, 40).float() + 1
    eager, shaken = golden.float(), golden + 1e-9
    before = [each.clone() for each in (golden, actual, eager, shaken)]
    made = bound(golden, eager, shaken, Tolerance())
    kept = made.elementwise.clone()
    compare(actual, golden, made, output=0)
    compare(golden, golden, made, output=0)
    assert all(torch.equal(a, b) for a, b in zip(before, (golden, actual, eager, shaken), strict=True))
    assert torch.equal(kept, made.elementwise)


def test_layout_of_the_output_does_not_matter():
    golden = random(40, 50)
    actual = golden.float()
    actual[3, 7] = 9.0
    for layout in (actual.t().contiguous().t(), torch.cat([actual, actual], 1)[:, :50]):
        comparison = judged(layout, golden, eager=golden.float())
        assert (comparison.wrong, comparison.worst) == (1, (3, 7))
    turned = golden.t().contiguous().t()
    assert compare(actual, turned, bound(turned, actual.t().contiguous().t(), turned, Tolerance()), output=0).elements


def test_nan_inf_and_finite_errors_are_counted_apart():
    golden = random(4, 64)
    actual = golden.float()
    actual[0, 0], actual[0, 1], actual[0, 2], actual[1, 5] = NAN, INF, -INF, 77.0
    comparison = judged(actual, golden)
    assert (comparison.wrong, comparison.nonfinite) == (1, 3)
    assert comparison.worst == (1, 5)
    assert comparison.actual == 77.0


def test_only_wrong_nan_is_the_worst_without_an_error():
    golden = random(4, 64)
    actual = golden.float()
    actual[2, 3] = NAN
    comparison = judged(actual, golden)
    assert (comparison.wrong, comparison.nonfinite, comparison.worst) == (0, 1, (2, 3))
    assert math.isnan(comparison.actual)
    assert comparison.error is None
    assert comparison.ratio is None
    assert comparison.pattern == "one element of 256, at [2, 3]"


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_non_finite_golden_demands_the_same(value):
    golden = random(2, 33)
    golden[1, 4] = value
    assert judged(golden.float(), golden).ok
    for other in {NAN, INF, -INF, 1.0, 0.0}:
        actual = golden.float()
        actual[1, 4] = other
        same = other == value or (math.isnan(other) and math.isnan(value))
        comparison = judged(actual, golden, eager=golden.float())
        assert comparison.ok == same, (value, other)
        assert comparison.nonfinite == (not same)


def test_all_nan_golden_does_not_let_numbers_pass():
    golden = torch.full((5, 5), NAN, dtype=torch.float64)
    assert judged(golden.float(), golden).ok
    assert judged(torch.zeros(5, 5), golden, eager=golden.float()).nonfinite == 25


def test_where_eager_overflowed_any_answer_is_accepted():
    golden = torch.tensor([1.0, 200.0, 3.0], dtype=torch.float64)
    eager = torch.tensor([1.0, INF, 3.0], dtype=torch.float16)
    for answer in (INF, -INF, NAN, 200.0, 0.0):  # 0: an honest x / sqrt(x * x) gives it where x * x overflows
        actual = torch.tensor([1.0, answer, 3.0], dtype=torch.float16)
        assert judged(actual, golden, eager).ok, answer
    # The neighbours gain nothing from it.
    assert not judged(torch.tensor([3.0, INF, 3.0], dtype=torch.float16), golden, eager).ok


def test_where_eager_drops_a_nan_either_answer_is_accepted():
    golden = torch.tensor([1.0, NAN, 3.0], dtype=torch.float64)
    eager = torch.tensor([1.0, 2.0, 3.0])
    for answer, good in [(NAN, True), (2.0, True), (2.1, False), (INF, False)]:
        assert judged(torch.tensor([1.0, answer, 3.0]), golden, eager).ok == good, answer


def test_golden_beyond_the_range_means_infinity():
    golden = torch.tensor([1.0, 1e6, -1e6], dtype=torch.float64)
    assert judged(golden.half(), golden).ok
    for answer in (65504.0, NAN, -INF, 0.0):
        actual = torch.tensor([1.0, answer, -INF], dtype=torch.float16)
        assert judged(actual, golden, golden.half()).nonfinite == 1, answer


def test_near_the_largest_number_both_sides_of_the_edge_are_accepted():
    golden = torch.tensor([65500.0, 1.0], dtype=torch.float64)
    for answer, good in [(65504.0, True), (INF, True), (-INF, False), (NAN, False), (60000.0, False)]:
        actual = torch.tensor([answer, 1.0], dtype=torch.float16)
        assert judged(actual, golden, golden.half()).ok == good, answer


def test_huge_float64_values_have_a_norm():
    golden = random(3, 40) * 1e300
    assert judged(golden.clone(), golden).ok
    comparison = judged(golden * (1 + 1e-10), golden, golden.clone())
    assert not comparison.ok
    assert 1.0 < comparison.norm_ratio < 1e9
    tiny = random(3, 40) * 1e-200
    assert judged(tiny.clone(), tiny).ok
    assert not judged(tiny * 1.1, tiny, tiny.clone()).ok


def test_record_of_the_worst_failure_is_valid_json():
    for actual in (torch.full((4,), 3e38), torch.tensor([1, 2, 3, 5])):
        golden = (
            torch.full((4,), 1e-45, dtype=torch.float64) if actual.is_floating_point() else torch.tensor([1, 2, 3, 4])
        )
        comparison = compare(actual, golden, bound(golden, golden.to(actual.dtype), None, Tolerance()), output=0)
        assert not comparison.ok
        json.dumps(asdict(comparison), allow_nan=False)


@pytest.mark.parametrize("shape", [(0,), (0, 7), (3, 0)])
def test_empty_output_passes_with_nothing_measured(shape):
    golden = torch.zeros(shape, dtype=torch.float64)
    assert judged(golden.float(), golden) == Comparison(0, 0)


def test_scalar_output_has_an_empty_index():
    golden = torch.tensor(2.5, dtype=torch.float64)
    assert judged(golden.float(), golden).worst == ()
    assert judged(golden.float() + 1, golden, golden.float()).pattern == "the only element"


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance(fixed=10.0)])
def test_integers_and_booleans_are_exact(dtype, tolerance):
    meant = torch.tensor([[1, 0, 1], [0, 1, 1]]).to(dtype)
    for golden in (meant, meant.double()):
        made = bound(golden, meant, None, tolerance)
        assert made.norm is None
        assert not made.elementwise.any()
        right = compare(meant.clone(), golden, made, output=0)
        assert right.ok
        assert right.error is None
        comparison = compare(torch.tensor([[1, 0, 0], [0, 1, 1]]).to(dtype), golden, made, output=0)
        assert (comparison.wrong, comparison.worst, comparison.error) == (1, (0, 2), 1.0)


def test_large_integers_are_compared_as_integers():
    golden = torch.tensor([2**62 + 1, 5])
    comparison = compare(torch.tensor([2**62, 5]), golden, bound(golden, golden, None, Tolerance()), output=0)
    assert comparison.wrong == 1
    assert comparison.worst == (0,)


def test_shapes_must_agree():
    golden = random(3, 4)
    with pytest.raises(ValueError, match=r"output 2: shape \(4, 3\)"):
        compare(golden.float().reshape(4, 3), golden, bound(golden, golden.float(), None, Tolerance()), output=2)


def test_norm_alone_can_fail():
    golden = torch.ones(10_000, dtype=torch.float64)
    made = Bound(torch.full_like(golden, 1e-3), 1e-3)
    comparison = compare(golden.float() + 9e-4, golden, made, output=0)
    assert comparison.wrong == 0
    assert not comparison.ok
    assert comparison.ratio < 1.0
    assert comparison.norm_ratio == pytest.approx(90.0, rel=1e-3)


NATURES = {
    "the whole output is zero": lambda g: torch.zeros_like(g),
    "the whole output is 2.5": lambda g: torch.full_like(g, 2.5),
    "the whole output is NaN, as if never written or made from what was not": lambda g: torch.full_like(g, NAN),
    "the whole output is golden transposed": lambda g: g.t().reshape(g.shape),
    "golden times 0.125": lambda g: g * 0.125,
    "golden times -1": lambda g: -g,
    "golden plus 3": lambda g: g + 3,
    "golden minus 0.25": lambda g: g - 0.25,
    "all elements": lambda g: g.roll(1, 1),
    "rows 2..4, the last 3 of 5: these elements are zero": lambda g: torch.cat([g[:2], g[2:] * 0]),
    "only the last column (the tail beyond a multiple of 64): these elements are NaN, as if never written or made from "
    "what was not": (lambda g: torch.cat([g[:, :-1], g[:, -1:] * NAN], 1)),
    "every 4th column: golden times 2": lambda g: g * torch.where(torch.arange(65) % 4 == 0, 2, 1),
}


@pytest.mark.parametrize("said", NATURES)
def test_wrong_output_is_recognised_for_what_it_is(said):
    golden = random(5, 65)
    comparison = judged(NATURES[said](golden).float(), golden, golden.float())
    assert not comparison.ok
    assert comparison.pattern == said


def test_noise_is_not_recognised_as_anything():
    golden = random(64, 64)
    comparison = judged((golden + 0.01 * random(64, 64).flip(0)).float(), golden, golden.float())
    assert not comparison.ok
    assert "golden" not in (comparison.pattern or "")
    assert "zero" not in (comparison.pattern or "")


def test_zero_golden_is_not_a_multiple_or_transposed():
    golden = torch.zeros(8, 8, dtype=torch.float64)
    assert judged(random(8, 8).float(), golden, golden.float()).pattern == "all elements"


def at(shape: tuple[int, ...], *where: object) -> Tensor:
    mask = torch.zeros(shape, dtype=torch.bool)
    for each in where:
        mask[each] = True
    return mask


ALL = slice(None)
PATTERNS = [
    (at((3, 65)), None),
    (at((0, 3)), None),
    (at((3, 65), ALL), "all elements"),
    (at((1,), 0), "the only element"),
    (at((), ()), "the only element"),
    (at((256, 256), (0, 0)), "only the first element of 65536"),
    (at((256, 256), (255, 255)), "only the last element of 65536"),
    (at((256, 256), (7, 9)), "one element of 65536, at [7, 9]"),
    (at((65,), 64), "only the last element of 65"),
    (at((3, 65), (ALL, -1)), "only the last column (the tail beyond a multiple of 64)"),
    (at((3, 60), (ALL, -1)), "only the last column"),
    (at((3, 65), (ALL, 0)), "only the first column"),
    (at((3, 65), (ALL, 5)), "column 5 only"),
    (at((3, 67), (ALL, slice(64, 67))), "columns 64..66, the last 3 of 67 (the tail beyond a multiple of 64)"),
    (at((3, 71), (ALL, slice(64, 71))), "columns 64..70, the last 7 of 71 (the tail beyond a multiple of 64)"),
    (at((3, 64), (ALL, slice(0, 8))), "columns 0..7, the first 8 of 64"),
    (at((3, 64), (ALL, slice(8, 12))), "columns 8..11 of 64"),
    (at((3, 64), (ALL, slice(0, 64, 4))), "every 4th column"),
    (at((3, 64), (ALL, slice(3, 64, 4))), "every 4th column from 3"),
    (at((3, 64), (ALL, slice(1, 64, 2))), "every 2nd column from 1"),
    (at((3, 64), (ALL, slice(10, 40, 11))), "every 11th column from 10 to 32"),
    (at((3, 64), (ALL, [1, 5, 30])), "columns 1, 5, 30 of 64"),
    (at((3, 64), (ALL, [1, 5, 30, 31, 40])), "5 of 64 columns, between 1 and 40"),
    (at((9, 64), 3), "row 3 only"),
    (at((65, 64), slice(60, 65)), "rows 60..64, the last 5 of 65"),
    (at((300, 4), slice(256, 300)), "rows 256..299, the last 44 of 300 (the tail beyond a multiple of 256)"),
    (at((4, 5, 6), (ALL, ALL, 5)), "only the last dimension-2 index"),
    (at((4, 5, 6), (2,)), "dimension-0 index 2 only"),
    (at((4, 5, 6), (ALL, 1)), "dimension-1 index 1 only"),
    (at((4, 5, 6), (slice(1, 3),)), "dimension-0 indices 1..2 of 4"),
    (at((130,), slice(128, 130)), "elements 128..129, the last 2 of 130 (the tail beyond a multiple of 128)"),
    (at((10, 13), (9, slice(11, 13)), (9, slice(8, 13))), "the last 5 of 130 elements in flat order"),
    (at((10, 13), 9, (8, slice(11, 13))), "the last 15 of 130 elements in flat order"),
    (at((10, 13), 0, (1, slice(0, 2))), "the first 15 of 130 elements in flat order"),
    (at((64, 64), (slice(32, 48), slice(0, 16))), "rows 32..47, columns 0..15"),
    (at((64, 64), (3, slice(4, 10))), "row 3, columns 4..9"),
    (at((64, 64), (3, 4), (3, 9), (7, 30)), "3 of 4096 elements, all in rows 3, 7 of 64"),
]


@pytest.mark.parametrize(("mask", "said"), PATTERNS, ids=[str(said) for _, said in PATTERNS])
def test_pattern_says_where(mask, said):
    assert pattern(mask) == said


def test_scattered_elements_are_called_so():
    mask = torch.rand(64, 64, generator=torch.Generator().manual_seed(1)) < 0.02
    assert pattern(mask) == f"{int(mask.sum())} of 4096 elements, scattered"


def test_pattern_of_any_rank_is_a_short_sentence():
    generator = torch.Generator().manual_seed(0)
    for shape in [(7,), (5, 7), (2, 5, 7), (2, 3, 4, 5), (1, 1, 9), (9, 1)]:
        for share in (0.05, 0.3, 0.9):
            for _ in range(20):
                mask = torch.rand(shape, generator=generator) < share
                said = pattern(mask)
                assert said is None or 0 < len(said) < 120
                assert mask.any() or said is None


@pytest.mark.parametrize("telling", [False, True])
def test_the_bound_does_not_ask_on_which_side_of_golden_eager_lies(telling):
    golden = torch.ones(128, dtype=torch.float64)
    bounds = [
        bound(golden, golden.float() + error, golden * (1 + 1e-7), Tolerance(), telling=telling)
        for error in (1e-3, -1e-3)
    ]
    assert torch.allclose(bounds[0].elementwise, bounds[1].elementwise, rtol=1e-3)


def test_where_eager_is_accurate_everywhere_bad_conditioning_is_no_excuse():
    golden = torch.linspace(1, 2, 128, dtype=torch.float64)
    shaken = golden + 1e-2
    eager = golden.float()
    excused = bound(golden, eager, shaken, Tolerance(), terms=65).elementwise.max()
    held = bound(golden, eager, shaken, Tolerance(), terms=65, telling=True).elementwise.max()
    assert held < excused / 50


def test_in_half_types_an_intermediate_may_be_rounded_and_cancel():
    golden = torch.ones(64, dtype=torch.float64)
    golden[3] = 1e-4
    allowed = bound(golden, golden.half(), golden, Tolerance())
    assert allowed.elementwise[3] > torch.finfo(torch.float16).eps / 2
    assert bound(golden, golden.float(), golden, Tolerance()).elementwise[3] < 1e-9
