"""What a lower precision does to an answer: the reference in float64, with some of its work done as coarsely as that.

Two uses. A task may allow it (`precision="tf32"`, `fast_math=True`): then the distance from golden is allowed on top of
the bound. And a candidate whose error is as large as that of a coarser precision, and far from eager's, computed in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..task import Task
from .chance import Chance
from .modes import Double, name_of

DOUBLE_BITS, TF32_BITS, BFLOAT16_BITS = 52, 10, 7  # of the mantissa, without the leading one
APPROXIMATE = 2.0**-11  # relative error of the coarsest approximate function, tanh.approx.f32 (PTX ISA)

_PRODUCTS = frozenset(("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "convolution"))
# fmt: off
_APPROXIMATED = frozenset((
    "_fused_rms_norm", "_log_softmax", "_softmax", "acosh", "asinh", "atanh", "cos", "cosh", "div", "elu", "erf",
    "erfc", "exp", "exp2", "expm1", "gelu", "log", "log10", "log1p", "log2", "log_sigmoid_forward", "logaddexp",
    "logsumexp", "mish", "native_batch_norm", "native_group_norm", "native_layer_norm", "pow", "reciprocal", "rsqrt",
    "sigmoid", "silu", "sin", "sinh", "softplus", "sqrt", "tan", "tanh",
))
# fmt: on


class Products(Double):
    """Matrix products and convolutions read their operands with so many bits of mantissa; sums stay exact."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self._bits = bits

    def run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Round the operands of a product; an added bias is none."""
        name = name_of(func)
        if name in _PRODUCTS:
            first = 1 if name in ("addmm", "baddbmm", "addmv") else 0
            operands = tuple(rounded(each, self._bits) for each in args[first : first + 2])
            args = (*args[:first], *operands, *args[first + 2 :])
        return func(*args, **kwargs)


class Throughout(Double):
    """Every result is rounded to a lower dtype, as when inputs are converted at once and outputs at last."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype

    def run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Round what comes out; views and integers stay."""
        result = func(*args, **kwargs)
        if any(each.alias_info is not None for each in func._schema.returns):
            return result
        return type(result)(map(self._through, result)) if type(result) in (tuple, list) else self._through(result)

    def _through(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        return value.to(self._dtype).to(value.dtype)


class Approximations(Products):
    """Results of functions such as exp, tanh, rsqrt and division are off by the error of approximate ones.

    `bits` are those of the operands of products, all of them where it is `None`.
    """

    def __init__(self, seed: int, bits: int | None = None) -> None:
        super().__init__(DOUBLE_BITS if bits is None else bits)
        self._chance = Chance(seed)

    def run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Move the results of approximated functions by up to one relative error, at least half of it."""
        result = super().run(func, *args, **kwargs)
        if name_of(func) in _APPROXIMATED:
            for each in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(each, Tensor) and each.is_floating_point():
                    off = self._chance.uniform(each) - 0.5
                    each.mul_(1.0 + (off + 0.5 * off.sign()) * APPROXIMATE)
        return result


def rounded(values: Tensor, bits: int) -> Tensor:
    """float64 values, to the nearest with so many bits of mantissa after the leading one."""
    mantissa, exponent = torch.frexp(values)
    scale = 2.0 ** (bits + 1)
    return torch.ldexp(mantissa.mul_(scale).round_().div_(scale), exponent)


@dataclass(frozen=True, slots=True)
class Downgrade:
    """A precision below the declared one: its name, and the mode that imitates it."""

    name: str
    mode: Callable[[], Double]


DOWNGRADES: Mapping[str, tuple[Downgrade, ...]] = {
    "float32": (
        Downgrade("products in TF32 or float16", lambda: Products(TF32_BITS)),
        Downgrade("products in bfloat16", lambda: Products(BFLOAT16_BITS)),
        Downgrade("float16 throughout", lambda: Throughout(torch.float16)),
        Downgrade("bfloat16 throughout", lambda: Throughout(torch.bfloat16)),
    ),
    "float16": (Downgrade("bfloat16 throughout", lambda: Throughout(torch.bfloat16)),),
}
MEDIAN = (0.25, 6.0)  # of a typical error under a coarser precision: what is as coarse everywhere, not in one place
PROPORTIONAL = 0.5  # correlation of an error with golden: a wrong factor, which no rounding is


def allowed(task: Task, seed: int) -> Double | None:
    """What a task lets candidates do less exactly than float64 rounded to the working dtype, if anything."""
    if task.fast_math:
        bits = TF32_BITS if task.precision == "tf32" else None
        return Approximations(seed, bits)
    return Products(TF32_BITS) if task.precision == "tf32" else None


def relative_error(actual: Sequence[Tensor], golden: Sequence[Tensor]) -> float:
    """Norm of the error over the norm of golden, over all outputs, float64; 0 where nothing is finite on both sides."""
    error = size = 0.0
    for each, truth in zip(actual, golden, strict=True):
        if truth.is_floating_point():
            wide = each.double()
            finite = wide.isfinite() & truth.isfinite()
            error += float((wide - truth)[finite].square().sum())
            size += float(truth[finite].square().sum())
    return math.sqrt(error / size) if size > 0.0 and math.isfinite(error / size) else 0.0


def like_rounding(actual: Sequence[Tensor], coarse: Sequence[Tensor], golden: Sequence[Tensor]) -> bool:
    """Whether an error looks like that of a coarser precision: spread as widely, and no multiple of golden."""
    for each, rough, truth in zip(actual, coarse, golden, strict=True):
        if not truth.is_floating_point() or not truth.numel():
            continue
        wide = each.double()
        finite = wide.isfinite() & truth.isfinite() & rough.isfinite()
        error, expected, size = (wide - truth)[finite], (rough - truth)[finite], truth[finite]
        typical = float(expected.abs().median()) if error.numel() else 0.0
        if typical and not MEDIAN[0] <= float(error.abs().median()) / typical <= MEDIAN[1]:
            return False
        norms = float(error.norm() * size.norm())
        if norms and abs(float(torch.dot(error, size))) > PROPORTIONAL * norms:
            return False
    return True
