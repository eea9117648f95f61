"""The three-way rule on trial: honest formulas never fail, wrong ones do, over families, dtypes, shapes and plans.

A *family* is a reference with honest formulas (other orders of summation, other algorithms) and wrong ones. Golden is
the reference in float64 on the same low-precision inputs, eager the reference in the working dtype, shaken golden with
its inputs moved by one unit in the last place of the accumulator.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from pytest_kbench.oracle.compare import compare
from pytest_kbench.oracle.modes import Shaking, shake
from pytest_kbench.oracle.tolerance import Tolerance, bound
from pytest_kbench.record import Comparison

Formula = Callable[..., Tensor]
EPS = 1e-5
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SHAPES = ((0, 7), (1, 1), (3, 65), (256, 1000), (64, 1), (1, 4096))
PLANS = (
    "normal",
    "wide",
    "offset",
    "mean300",
    "rows",
    "constant",
    "bits",
    "spike",
    "ties",
    "nan",
    "inf",
    "huge",
)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@dataclass(frozen=True)
class Family:
    """`formulas` take and return the working dtype; `inputs` makes further arguments from x and a generator."""

    reference: Formula
    honest: dict[str, Formula]
    wrong: dict[str, tuple[Formula, str]] = field(default_factory=dict)  # formula and the plan that shows the fault
    further: Callable[[Tensor, torch.Generator], tuple[Tensor, ...]] = lambda x, g: ()


def values(plan: str, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """One input by a named plan."""
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    rows = shape[0]
    if plan == "wide":
        x = x * 10.0 ** (torch.rand(shape, generator=generator) * 8 - 4)
    elif plan == "offset":
        x = x + 1e4
    elif plan == "mean300":
        x = x + 300
    elif plan == "rows":
        x = x * 10.0 ** (torch.rand((rows, 1), generator=generator) * 6 - 3)
    elif plan == "constant":
        x = x[:, :1].expand(shape).clone()
    elif plan == "bits":
        x = (x > 0).double()
    elif plan == "ties":
        x = x.mul(2).round().div(2)
    elif plan == "huge":
        x = x * (200.0 if dtype == torch.float16 else 1e18)
    elif x.numel() and plan in ("spike", "nan", "inf"):
        position = int(torch.randint(0, x.numel(), (), generator=generator))
        x.view(-1)[position] = {"spike": 1e4, "nan": torch.nan, "inf": torch.inf}[plan]
    return x.to(dtype)


def judge(
    family: Family, formula: Formula, x: Tensor, generator: torch.Generator, *, terms: int | None = None
) -> Comparison:
    """What the rule says of one formula on one input."""
    arguments = (x, *family.further(x, generator))
    golden = family.reference(*(a.double() if a.is_floating_point() else a for a in arguments))
    chance = random.Random(generator.initial_seed())
    moved = [shake(each, chance) if each.is_floating_point() else each for each in arguments]
    with Shaking(x.dtype, chance):
        shaken = family.reference(*moved)
    eager = family.reference(*arguments)
    actual = formula(*(a.clone() for a in arguments))
    assert actual.shape == golden.shape
    assert actual.dtype == eager.dtype
    if terms is None:
        longest = max(max(a.shape, default=1) for a in arguments)
        terms = max(longest, max(a.numel() for a in arguments) // max(golden.numel(), 1))
    return compare(actual, golden, bound(golden, eager, shaken, Tolerance(), terms=terms), output=0)


def single(formula: Formula) -> Formula:
    """The formula in float32 with one rounding at the end, as honest half-precision kernels do it."""

    def run(*arguments: Tensor) -> Tensor:
        return formula(*(a.float() if a.is_floating_point() else a for a in arguments)).to(arguments[0].dtype)

    return run


def sequential(x: Tensor, dim: int = -1) -> Tensor:
    """Sum one after another in the dtype of x (numpy's cumsum keeps the dtype and the order)."""
    if not x.shape[dim]:
        return x.sum(dim)
    total = torch.zeros_like(x.select(dim, 0))
    for part in x.unbind(dim):
        total = total + part
    return total


def lanes(x: Tensor) -> Tensor:
    """Sum over the last dimension with 8 running sums, as a vectorised loop does."""
    tail = x.shape[-1] % 8
    padded = F.pad(x, (0, 8 - tail if tail else 0))
    return sequential(padded.unflatten(-1, (-1, 8)), -2).sum(-1)


def pairwise(x: Tensor) -> Tensor:
    """Sum over the last dimension by halving, as a tree of threads does."""
    while x.shape[-1] > 1:
        if x.shape[-1] % 2:
            x = F.pad(x, (0, 1))
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0] if x.shape[-1] else x.sum(-1)


SUMS: dict[str, Formula] = {"sequential": sequential, "lanes": lanes, "pairwise": pairwise}


def softmax_by(total: Formula) -> Formula:
    def softmax(x: Tensor) -> Tensor:
        if not x.shape[-1]:
            return x.clone()
        e = (x - x.amax(-1, keepdim=True)).exp()
        return e / total(e).unsqueeze(-1)

    return softmax


def online_softmax(x: Tensor) -> Tensor:
    """Blocks of 128 with a running maximum and a rescaled running sum."""
    if not x.shape[-1]:
        return x.clone()
    top = torch.full(x.shape[:-1], -torch.inf, dtype=x.dtype)
    total = torch.zeros_like(top)
    for block in x.split(128, -1):
        risen = torch.maximum(top, block.amax(-1))
        scale = torch.where(top == risen, 1.0, (top - risen).exp())
        total = total * scale + (block - risen.unsqueeze(-1)).exp().sum(-1)
        top = risen
    return (x - top.unsqueeze(-1)).exp() / total.unsqueeze(-1)


def softmax_gradient(x: Tensor, cotangent: Tensor) -> Tensor:
    y = x.softmax(-1)
    return y * (cotangent - (y * cotangent).sum(-1, keepdim=True))


def gradient_by(total: Formula) -> Formula:
    def gradient(x: Tensor, cotangent: Tensor) -> Tensor:
        y = online_softmax(x)
        return y * (cotangent - total(y * cotangent).unsqueeze(-1))

    return gradient


def autograd_softmax(x: Tensor, cotangent: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(leaf.softmax(-1), leaf, cotangent)
    return gradient


def row_constant(x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randn((x.shape[0], 1), generator=generator).to(x.dtype).expand(x.shape),)


def any_cotangent(x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randn(x.shape, generator=generator).to(x.dtype),)


def weights(x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randn(x.shape[-1:], generator=generator).to(x.dtype),)


def matrix(x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randn((x.shape[-1], 48), generator=generator).to(x.dtype),)


def targets(x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randint(0, max(x.shape[-1], 1), x.shape[:1], generator=generator),)


def layer_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, None, EPS)


def two_pass_by(total: Formula) -> Formula:
    def norm(x: Tensor, weight: Tensor) -> Tensor:
        n = x.shape[-1]
        centred = x - (total(x) / n).unsqueeze(-1)
        return centred * torch.rsqrt(total(centred * centred) / n + EPS).unsqueeze(-1) * weight

    return norm


def welford(x: Tensor, weight: Tensor) -> Tensor:
    mean, squares = torch.zeros(x.shape[:-1], dtype=x.dtype), torch.zeros(x.shape[:-1], dtype=x.dtype)
    for count, value in enumerate(x.unbind(-1), 1):
        delta = value - mean
        mean = mean + delta / count
        squares = squares + delta * (value - mean)
    return (x - mean.unsqueeze(-1)) * torch.rsqrt(squares / max(x.shape[-1], 1) + EPS).unsqueeze(-1) * weight


def one_pass(x: Tensor, weight: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    return (x - mean) * torch.rsqrt(variance.clamp(min=0) + EPS) * weight


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, EPS)


def rms_by(total: Formula) -> Formula:
    return lambda x, w: x * torch.rsqrt(total(x * x) / x.shape[-1] + EPS).unsqueeze(-1) * w


def rms_rounded_twice(x: Tensor, weight: Tensor) -> Tensor:
    """Llama's own order: the normed values are rounded to the dtype before the weight."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)).to(x.dtype) * weight


def matmul(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def matmul_rank1(x: Tensor, y: Tensor) -> Tensor:
    """One k after another."""
    total = torch.zeros((x.shape[0], y.shape[1]), dtype=x.dtype)
    for k in range(x.shape[1]):
        total = torch.addcmul(total, x[:, k : k + 1], y[k : k + 1])
    return total


def matmul_blocked(x: Tensor, y: Tensor) -> Tensor:
    total = torch.zeros((x.shape[0], y.shape[1]), dtype=x.dtype)
    for a, b in zip(x.split(32, 1), y.split(32, 0), strict=True):
        total = total + a @ b
    return total


def matmul_reversed(x: Tensor, y: Tensor) -> Tensor:
    return x.flip(1) @ y.flip(0)


def narrowed(bits: int) -> Formula:
    """A product of factors with `bits` bits of mantissa: 10 is TF32, 7 bfloat16; summed in float32."""

    def cut(a: Tensor) -> Tensor:
        drop = 23 - bits
        return ((a.view(torch.int32) + (1 << (drop - 1))) >> drop << drop).view(torch.float32)

    return lambda x, y: cut(x.contiguous()) @ cut(y.contiguous())


def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(x, target, reduction="none")


def cross_entropy_by(total: Formula) -> Formula:
    def loss(x: Tensor, target: Tensor) -> Tensor:
        if not x.numel():
            return x.sum(-1)
        top = x.amax(-1, keepdim=True)
        shifted = x - top
        return total(shifted.exp()).log() - shifted.gather(-1, target.unsqueeze(-1)).squeeze(-1)

    return loss


def mean(x: Tensor) -> Tensor:
    return x.mean(-1)


def mean_kept(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True)


def no_tail(formula: Formula) -> Formula:
    """The last column is never computed: it keeps zeros."""

    def run(*arguments: Tensor) -> Tensor:
        out = formula(*arguments).clone()
        out[..., -1] = 0
        return out

    return run


def stale_row(formula: Formula) -> Formula:
    """Row 1 holds the answer of row 0."""

    def run(*arguments: Tensor) -> Tensor:
        out = formula(*arguments).clone()
        out[1] = out[0]
        return out

    return run


def other_input(formula: Formula) -> Formula:
    """The answer to an earlier call."""

    def run(x: Tensor, *rest: Tensor) -> Tensor:
        return formula(x.flip(0) * -1.3 + 0.1, *rest)

    return run


def half_sum(x: Tensor) -> Tensor:
    """A running sum in the dtype of x."""
    return sequential(x) / x.shape[-1]


FAMILIES: dict[str, Family] = {
    "relu": Family(
        torch.relu,
        {"where": lambda x: torch.where(x < 0, 0.0, x).to(x.dtype), "single": single(torch.relu)},
        {
            "drops NaN": (lambda x: torch.where(x > 0, x, 0.0).to(x.dtype), "nan"),
            "identity": (lambda x: x, "normal"),
            "leaky": (lambda x: F.leaky_relu(x, 0.001), "normal"),
        },
    ),
    "silu": Family(
        F.silu,
        {
            "sigmoid": single(lambda x: x * x.sigmoid()),
            "quotient": single(lambda x: torch.where(x < -80, x * x.exp(), x / (1 + (-x).exp()))),
        },
        {"quick": (single(lambda x: x * (1.02 * x).sigmoid()), "normal")},
    ),
    "softmax": Family(
        lambda x: x.softmax(-1),
        {**{k: single(softmax_by(s)) for k, s in SUMS.items()}, "online": single(online_softmax)},
        {
            "no maximum": (single(lambda x: x.exp() / x.exp().sum(-1, keepdim=True)), "mean300"),
            "maximum drops NaN": (single(lambda x: x.nan_to_num(-torch.inf).softmax(-1)), "nan"),
            "over rows": (single(lambda x: x.softmax(0)), "normal"),
            "tail not summed": (single(lambda x: x.exp() / x.exp()[:, :64].sum(-1, keepdim=True)), "normal"),
        },
    ),
    "softmax gradient, row-constant": Family(
        autograd_softmax,
        {**{k: single(gradient_by(s)) for k, s in SUMS.items()}, "formula": single(softmax_gradient)},
        {"no sum": (single(lambda x, c: x.softmax(-1) * c), "normal")},
        row_constant,
    ),
    "softmax gradient": Family(
        autograd_softmax,
        {**{k: single(gradient_by(s)) for k, s in SUMS.items()}, "formula": single(softmax_gradient)},
        {
            "no sum": (single(lambda x, c: x.softmax(-1) * c), "normal"),
            "ignores cotangent": (single(lambda x, c: softmax_gradient(x, torch.ones_like(c))), "normal"),
        },
        any_cotangent,
    ),
    "layer_norm": Family(
        layer_norm,
        {**{k: single(two_pass_by(s)) for k, s in SUMS.items()}, "welford": single(welford)},
        {
            "one pass": (single(one_pass), "mean300"),
            "one pass at 1e4": (single(one_pass), "offset"),
            "no weight": (single(lambda x, w: layer_norm(x, torch.ones_like(w))), "normal"),
            "no eps": (single(lambda x, w: F.layer_norm(x, x.shape[-1:], w, None, 0.0)), "constant"),
            "n - 1": (
                single(lambda x, w: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + EPS).sqrt() * w),
                "normal",
            ),
        },
        weights,
    ),
    "rms_norm": Family(
        rms_norm,
        {**{k: single(rms_by(s)) for k, s in SUMS.items()}, "rounded twice": rms_rounded_twice},
        {
            "no eps": (single(lambda x, w: F.rms_norm(x, x.shape[-1:], w, 0.0)), "rows"),
            "no weight": (single(lambda x, w: rms_norm(x, torch.ones_like(w))), "normal"),
        },
        weights,
    ),
    "matmul": Family(
        matmul,
        {
            "one k at a time": single(matmul_rank1),
            "blocked": single(matmul_blocked),
            "reversed": single(matmul_reversed),
        },
        {"k tail": (single(lambda x, y: x[:, : x.shape[1] // 32 * 32] @ y[: y.shape[0] // 32 * 32]), "normal")},
        matrix,
    ),
    "mean": Family(
        mean,
        {k: single(lambda x, s=s: s(x) / x.shape[-1] if x.shape[-1] else x.mean(-1)) for k, s in SUMS.items()},
        {"n - 1": (single(lambda x: x.sum(-1) / (x.shape[-1] - 1)), "normal")},
    ),
    "mean, kept": Family(
        mean_kept,
        {k: single(lambda x, s=s: (s(x) / x.shape[-1]).unsqueeze(-1)) for k, s in SUMS.items()},
        {"no division": (single(lambda x: x.sum(-1, keepdim=True)), "normal")},
    ),
    "mean of all": Family(
        lambda x: x.mean(),
        {k: single(lambda x, s=s: s(s(x)) / x.numel()) for k, s in SUMS.items()},
        {"absolute": (single(lambda x: x.abs().mean()), "normal")},
    ),
    "cross entropy": Family(
        cross_entropy,
        {k: single(cross_entropy_by(s)) for k, s in SUMS.items()},
        {
            "no maximum": (single(lambda x, t: x.exp().sum(-1).log() - x.gather(-1, t[:, None])[:, 0]), "mean300"),
            "next target": (single(lambda x, t: cross_entropy(x, (t + 1) % x.shape[-1])), "normal"),
        },
        targets,
    ),
}
ANY_WRONG: dict[str, Callable[[Formula], Formula]] = {
    "zeros": lambda f: lambda *a: torch.zeros_like(f(*a)),
    "constant": lambda f: lambda *a: torch.full_like(f(*a), float(f(*a).reshape(-1)[0])),
    "other input": other_input,
    "last column dropped": no_tail,
    "stale row": stale_row,
    "1 % too large": lambda f: lambda *a: (f(*a).float() * 1.01).to(a[0].dtype),
    "infinite": lambda f: lambda *a: torch.full_like(f(*a), torch.inf),
    "never written": lambda f: lambda *a: torch.full_like(f(*a), torch.nan),
}


def seeded(*parts: object) -> torch.Generator:
    """A generator of its own for each case, the same in every run."""
    import hashlib

    digest = hashlib.sha256(repr(parts).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))


CASES = [pytest.param(name, dtype, id=f"{name}-{str(dtype)[6:]}") for name in FAMILIES for dtype in DTYPES]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_honest_kernels_never_fail(name, dtype):
    family = FAMILIES[name]
    # Every plan on the small shapes, every plan once on the rows where sums are long.
    cases = [(shape, plan) for shape in ((0, 7), (1, 1), (3, 65), (64, 1)) for plan in PLANS]
    start = CASES.index(next(each for each in CASES if each.values == (name, dtype)))
    cases += [((24, 1000), PLANS[(start + 5 * step) % len(PLANS)]) for step in range(2)]
    for shape, plan in cases:
        for label, formula in family.honest.items():
            generator = seeded(name, dtype, shape, plan, "suite")
            comparison = judge(family, formula, values(plan, shape, dtype, generator), generator)
            assert comparison.ok, (label, shape, plan, comparison)


@pytest.mark.parametrize("name", FAMILIES)
def test_wrong_kernels_fail(name):
    family = FAMILIES[name]
    for label, (formula, plan) in family.wrong.items():
        for shape in ((3, 65), (40, 1000)):
            generator = seeded(name, label, shape)
            comparison = judge(family, formula, values(plan, shape, torch.float32, generator), generator)
            assert not comparison.ok, (label, shape, comparison)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "softmax gradient, row-constant"])
def test_kernels_that_compute_something_else_fail(name, dtype):
    family = FAMILIES[name]
    for label, spoil in ANY_WRONG.items():
        if name == "mean of all" and label in ("last column dropped", "stale row", "constant"):
            continue
        if label == "1 % too large" and dtype == torch.bfloat16:
            continue  # 1 % is one unit in the last place of a bfloat16
        generator = seeded(name, label, dtype)
        # With 12 rows a column of nothing but zeros after a relu is rare.
        comparison = judge(family, spoil(family.reference), values("normal", (12, 65), dtype, generator), generator)
        assert not comparison.ok, (label, comparison)


def test_truth_of_zero_lets_noise_and_zeros_pass_but_nothing_larger():
    family = FAMILIES["softmax gradient, row-constant"]
    for scale, good in [(0.0, True), (1e-3, False)]:
        generator = seeded("zero", scale)
        x = values("normal", (8, 65), torch.float32, generator)
        assert judge(family, lambda x, c, s=scale: x.softmax(-1) * c * s, x, generator).ok == good


@pytest.mark.parametrize(("bits", "label"), [(10, "TF32"), (7, "bfloat16")])
@pytest.mark.parametrize("terms", [64, 1000, 4096, 16384])
def test_narrow_products_under_float32_fail(bits, label, terms):
    for seed in range(3):
        generator = seeded(label, terms, seed)
        x = values("normal", (16, terms), torch.float32, generator)
        comparison = judge(FAMILIES["matmul"], narrowed(bits), x, generator)
        assert comparison.wrong, comparison
        assert comparison.ratio > 3.0, comparison


def test_long_float32_sums_in_any_order_pass():
    for terms in (4096, 16384):
        for plan in ("normal", "bits", "wide"):
            generator = seeded("long", terms, plan)
            x = values(plan, (4, terms), torch.float32, generator)
            assert judge(FAMILIES["matmul"], matmul_rank1, x, generator).ok, (terms, plan)
            assert judge(FAMILIES["rms_norm"], rms_by(sequential), x, generator).ok, (terms, plan)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_accumulation_of_4096_ones_fails(dtype):
    comparison = judge(FAMILIES["mean"], half_sum, torch.ones(2, 4096, dtype=dtype), seeded(dtype))
    assert comparison.wrong == 2


@pytest.mark.parametrize("plan", ["mean300", "offset"])
@pytest.mark.parametrize("shape", [(3, 65), (64, 1000)])
def test_variance_by_difference_of_squares_fails_where_two_passes_and_welford_pass(plan, shape):
    family = FAMILIES["layer_norm"]
    for seed in range(3):
        generator = seeded(plan, shape, seed)
        x = values(plan, shape, torch.float32, generator)
        assert judge(family, one_pass, x, generator).ratio > 2.0
        for formula in family.honest.values():
            assert judge(family, formula, x, generator).ok


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_fail_softmax_however_small_its_values(dtype):
    x = values("normal", (2, 16384), dtype, seeded(dtype))
    comparison = judge(FAMILIES["softmax"], torch.zeros_like, x, seeded(dtype))
    assert comparison.wrong > (30_000 if dtype == torch.float32 else 15_000)  # half types: those near the largest
    assert comparison.pattern.endswith("the whole output is zero")


@pytest.mark.parametrize("name", ["relu", "silu", "matmul", "mean, kept"])
def test_small_rows_get_no_slack_from_large_ones(name):
    family = FAMILIES[name]
    generator = seeded("rows", name)
    x = values("normal", (16, 128), torch.float32, generator)
    x[5] *= 1e-6

    def spoiled(*arguments: Tensor) -> Tensor:
        out = family.reference(*arguments).clone()
        out[5] *= 1.1
        return out

    if name == "mean, kept":  # 16 numbers are one group: what they share is the conditioning of the largest
        x[5] *= 1e3
    comparison = judge(family, spoiled, x, generator)
    assert comparison.wrong
    assert comparison.worst[0] == 5


def test_small_elements_get_no_slack_from_large_neighbours():
    x = torch.tensor([1e6, 1e-6] * 40)
    wrong = torch.where(x < 1, 0.0, x)
    comparison = judge(FAMILIES["relu"], lambda _: wrong, x, seeded("spike"))
    assert comparison.wrong == 40


def test_eager_that_is_exact_by_luck_leaves_the_floor():
    golden = torch.full((4, 64), 1.0 + 2**-30, dtype=torch.float64)
    eager = golden.float()
    made = bound(golden, eager, golden, Tolerance(), terms=1)
    assert compare(torch.nextafter(eager, torch.tensor(2.0)), golden, made, output=0).ok
    assert not compare(eager + 8 * 2**-23, golden, made, output=0).ok


def test_flush_to_zero_passes_under_float32_and_not_under_float16():
    for dtype, size in [(torch.float32, 1e-39), (torch.bfloat16, 1e-39), (torch.float16, 1e-6)]:
        golden = torch.tensor([1.0, *[size] * 63] * 2, dtype=torch.float64).view(2, 64)
        golden[1, 0] = size  # a row of its own, with nothing large beside which it would not matter
        eager = golden.to(dtype)
        flushed = torch.where(eager < 1, 0.0, eager).to(dtype)
        made = bound(golden, eager, golden, Tolerance())
        assert compare(flushed, golden, made, output=0).ok == (dtype != torch.float16)


def test_fixed_tolerance_is_allclose():
    generator = seeded("fixed")
    golden = torch.randn((40, 50), generator=generator, dtype=torch.float64)
    for spread in (5e-5, 5e-4, 5e-3):
        actual = golden + spread * torch.randn((40, 50), generator=generator, dtype=torch.float64)
        made = bound(golden, golden.clone(), None, Tolerance(fixed=1e-3))
        comparison = compare(actual, golden, made, output=0)
        assert comparison.ok == torch.allclose(actual, golden, rtol=1e-3, atol=1e-3)
        assert comparison.norm_ratio is None
        assert comparison.wrong == int((~torch.isclose(actual, golden, rtol=1e-3, atol=1e-3)).sum())


@pytest.mark.parametrize("field", ["elementwise", "normwise", "ulps", "fixed"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_senseless_tolerance_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=f"tolerance: {field} must be"):
        Tolerance(**{field: value})


def test_complex_output_is_refused():
    golden = torch.zeros(3, dtype=torch.complex128)
    with pytest.raises(TypeError, match="complex"):
        bound(golden, golden, None, Tolerance())


@pytest.mark.parametrize("shape", [(5,), (63,), (64,), (65,), (130,), (7, 9), (31, 3), (3, 40), (2, 5, 7, 3), (0,), ()])
def test_bound_has_goldens_shape_and_excludes_zeros(shape):
    golden = torch.randn(shape, generator=seeded(shape), dtype=torch.float64)
    made = bound(golden, golden.float(), golden * (1 + 1e-7), Tolerance(), terms=64)
    assert made.elementwise.shape == golden.shape
    assert made.elementwise.dtype == torch.float64
    assert bool((made.elementwise > 0).all())
    assert made.accepts is None
    if golden.numel():
        assert made.norm < 1e-4 * float(golden.norm())


def test_shake_moves_by_about_one_unit_of_the_accumulator():
    for dtype in DTYPES:
        x = torch.tensor([1.0, -2.0, 0.0, torch.inf, torch.nan], dtype=dtype).repeat(20)
        before = x.clone()
        moved = shake(x, random.Random(0))
        assert moved.dtype == torch.float64
        assert torch.equal(x.nan_to_num(5), before.nan_to_num(5))
        units = (moved[0::5] - 1) / 2**-23
        assert (units.abs() >= 0.49).all()
        assert (units.abs() <= 1.51).all()
        assert (units > 0).any()
        assert (units < 0).any()
        assert (moved[2::5] == 0).all()
        assert moved[3::5].isinf().all()
        assert moved[4::5].isnan().all()
    assert torch.equal(shake(torch.arange(5), random.Random(0)), torch.arange(5.0, dtype=torch.float64))


def test_shaken_arithmetic_moves_what_is_rounded_and_nothing_else():
    x = torch.randn(8, 40, generator=seeded("mode"), dtype=torch.float64)
    kept = x.clone()
    with Shaking(torch.float32, random.Random(0)):
        assert torch.equal(torch.relu(x), kept.clamp(min=0))
        assert torch.equal(x.t()[3], kept[:, 3])
        assert torch.equal(x == x.amax(-1, keepdim=True), kept == kept.amax(-1, keepdim=True))
        shaken = x.softmax(-1)
        leaf = x.clone().requires_grad_()
        leaf.exp().sum().backward()
        in_place = x.clone().mul_(3.0)
    assert torch.equal(x, kept)
    for moved, exact in [(shaken, x.softmax(-1)), (leaf.grad, x.exp()), (in_place, x * 3)]:
        apart = (moved / exact - 1).abs()
        assert 0 < float(apart.amax()) < 1e-6
        assert bool((apart > 0).any())


def test_an_exponential_that_underflows_may_be_zero_whatever_it_is_multiplied_by():
    x, weight = torch.tensor([[0.0, -87.5, -1.0, -92.0]]), torch.tensor([[1.0], [1e5], [-1.0], [1e5]])

    def reference(x, weight):
        return (x.exp() * weight.t()).flatten()

    golden = reference(x.double(), weight.double())
    with Shaking(torch.float32, random.Random(0)):
        shaken = reference(x.double(), weight.double())
    allowed = bound(golden, reference(x, weight), shaken, Tolerance(), terms=1)
    flushed = torch.where(x < -87.3, 0.0, x.exp()).mul(weight.t()).flatten()
    assert compare(flushed, golden, allowed, output=0).ok
    assert not compare(torch.zeros_like(flushed), golden, allowed, output=0).ok


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("plan", PLANS)
def test_cuda_tensors_get_the_same_verdict(dtype, plan):
    generator = seeded("cuda", dtype, plan)
    x = values(plan, (40, 200), dtype, generator)
    chance = random.Random(0)
    golden, shaken, eager = x.double().softmax(-1), shake(x, chance).softmax(-1), x.softmax(-1)
    spoiled = eager.clone()
    spoiled[3:5] = spoiled[3:5] * 2
    for actual in (eager, spoiled):
        here = compare(actual, golden, bound(golden, eager, shaken, Tolerance()), output=0)
        there = [each.cuda() for each in (golden, eager, shaken)]
        seen = compare(actual.cuda(), there[0], bound(*there, Tolerance()), output=0)
        assert (seen.ok, seen.wrong, seen.nonfinite, seen.pattern) == (
            here.ok,
            here.wrong,
            here.nonfinite,
            here.pattern,
        )
        assert seen.norm_ratio == pytest.approx(here.norm_ratio, rel=1e-6, nan_ok=True)
    assert shake(x.cuda(), chance).device.type == "cuda"
    with Shaking(dtype, chance):
        assert x.cuda().double().exp().device.type == "cuda"
