"""Modes in which a reference runs: in float64 throughout, and in float64 with every rounded result moved a little."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

LOWER: Final = (torch.float32, torch.float16, torch.bfloat16)
STEP: Final = 1.5  # units that a shaken value is moved by at most, and one third of that at least
_STEPS: Final = 1_000_003  # a prime, so that rows of no width meet the same steps again and again

# Operations that select, move or fill: their results are not rounded, so there is nothing to shake.
# fmt: off
_EXACT: Final = frozenset((
    "_to_copy", "_unsafe_view", "abs", "amax", "amin", "arange", "bernoulli", "cat", "ceil", "clamp", "clamp_max",
    "clamp_min", "clone", "constant_pad_nd", "copy", "cummax", "cummin", "detach", "embedding", "empty",
    "empty_like", "empty_strided", "expand_copy", "eye", "fill", "flip", "floor", "full", "full_like", "gather",
    "hardtanh", "index", "index_put", "index_select", "kthvalue", "lift_fresh", "masked_fill", "masked_scatter",
    "max", "max_pool2d_with_indices", "maximum", "median", "min", "minimum", "neg", "new_empty", "new_full",
    "new_ones", "new_zeros", "normal", "ones", "ones_like", "rand", "rand_like", "randn", "randn_like", "random",
    "relu", "repeat", "repeat_interleave", "roll", "round", "scalar_tensor", "scatter", "select_backward",
    "select_scatter", "sign", "slice_backward", "slice_scatter", "sort", "stack", "take", "take_along_dim",
    "threshold_backward", "topk", "tril", "triu", "trunc", "uniform", "view_copy", "where", "zero", "zeros",
    "zeros_like",
))
# fmt: on


# Operations that sum along a dimension and keep it: where their arguments say which.
_ALONG: Final = {
    **{"_softmax": 1, "_log_softmax": 1, "cumsum": 1, "cumprod": 1, "logcumsumexp": 1},
    **{"_softmax_backward_data": 2, "_log_softmax_backward_data": 2},
}


# Operators whose gradient is one thing or another.
KINKS: Final = frozenset(("relu", "leaky_relu", "amax", "amin", "max_pool2d_with_indices"))


class Double(TorchDispatchMode):
    """Run everything in float64: whatever an operator would make in a lower floating-point dtype, it makes in float64.

    Without this a reference that says `x.float()` would make golden no better than eager. Afterwards `arrived` has the
    gradients that came to the backward of a softmax, which subtracts what they come to in sum, and `weights` its
    results.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.arrived: list[Tensor] = []
        self.weights: list[Tensor] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports all of its compiler at the first use, which takes over a second

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Ask for float64 where a lower dtype is asked for, and widen what still comes out lower."""
        return _widened(
            self.run(func, *map(_raised, args), **{key: _raised(each) for key, each in (kwargs or {}).items()})
        )

    def run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """One operator, asked for float64."""
        if name_of(func) == "_softmax_backward_data":
            self.arrived.append(args[0])
            self.weights.append(args[1])
        return func(*args, **kwargs)


def _raised(value: Any) -> Any:
    """float64 for a lower dtype; anything else as it is."""
    return torch.float64 if isinstance(value, torch.dtype) and value in LOWER else value


def _widened(result: Any) -> Any:
    """What an operator returns, with lower floating-point tensors in float64 (torch's own tree_map costs ten times)."""
    if isinstance(result, Tensor):
        return result.double() if result.dtype in LOWER else result
    return type(result)(map(_widened, result)) if type(result) in (tuple, list) else result


@functools.cache
def name_of(func: Any) -> str:
    """An operator's name, the same in place and not: `add` for aten::add_.Tensor."""
    name: str = func._schema.name
    return name.partition("::")[2].rstrip("_")


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which an honest kernel sums values of `dtype`: float32 for the half types, else itself."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def shake(values: Tensor, chance: random.Random) -> Tensor:
    """Inputs for `shaken`: each value moved by about one unit in the last place, up or down at random; float64.

    The unit is that of the accumulator: a half-precision value is moved by a float32 unit. Honest half-precision
    kernels convert to float32 first and keep the inputs exactly; a half-precision unit at an offset of 1e4 is larger
    than the spread of the data, and a floor made from it lets zeros pass. Zeros move by nothing, integers and
    non-finite values stay. What is subnormal in float32, or in bfloat16, becomes zero: hardware may read it so.
    """
    moved = values.to(torch.float64, copy=True)
    if values.dtype in (torch.float32, torch.bfloat16):
        moved.masked_fill_(moved.abs() < torch.finfo(values.dtype).smallest_normal, 0.0)
    if values.is_floating_point() and values.numel():
        nudge(moved, torch.finfo(accumulator(values.dtype)).eps, chance)
    return moved


class Shaking(Double):
    """Run the reference in float64 under this for `shaken`: every rounded result moves by one unit, not inputs alone.

    An intermediate can be worse conditioned than every input: in a softmax gradient, y (c - sum y c) with one y near 1
    is zero however c is shaken, yet honest kernels are off by a unit of c, because their y is. `dtype` is the working
    dtype; the unit is its accumulator's, unless it is given. What is about to become subnormal becomes zero: hardware
    and exponentials may make it so, and a large factor may come after it. The method is random rounding (Parker's Monte
    Carlo arithmetic) at the level of operations; those that only select or move values stay exact, so that masks such
    as x == max(x) still hold.

    Afterwards `sums` says whether anything but such operations and pointwise ones ran, and `terms` how many terms the
    longest of their sums has, as far as their arguments show (1 at least); `kinks` whether one of them chose.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        chance: random.Random,
        unit: float | None = None,
        arrived: Sequence[Tensor] = (),
        weights: Sequence[Tensor] = (),
    ) -> None:
        super().__init__()
        self._arrived, self._weights = tuple(arrived), tuple(weights)
        self._expected: Iterator[Tensor] = iter(())
        self._weighed: Iterator[Tensor] = iter(())
        self._unit = torch.finfo(accumulator(dtype)).eps if unit is None else unit
        self._least = 2.0 * torch.finfo(accumulator(dtype)).smallest_normal
        self._normal = torch.finfo(dtype).smallest_normal if unit is not None and dtype == torch.float16 else 0.0
        self._chance = chance
        self.sums = False
        self.kinks = False
        self.terms = 1

    def __enter__(self) -> Any:
        """Another run of the reference: the same gradients come to its operators, in the same order."""
        self._expected, self._weighed = iter(self._arrived), iter(self._weights)
        return super().__enter__()  # type: ignore[no-untyped-call]  # torch's

    def run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """One operator, and its result moved if it is a rounded one."""
        result = _widened(func(*args, **kwargs))
        name, exact, pointwise = _nature(func)
        self.kinks = self.kinks or name in KINKS
        if exact:
            return result
        if not pointwise:
            self.sums = True
            self.terms = max(self.terms, _terms(name, args, result))
        for each in result if isinstance(result, tuple | list) else (result,):
            if isinstance(each, Tensor) and each.dtype == torch.float64 and each.numel():
                small = each.abs() < self._normal if self._normal else None
                nudge(each, self._unit, self._chance)
                if small is not None:  # float16 has no finer steps there
                    nudge(steps := torch.full_like(each, self._normal), self._unit, self._chance)
                    each.add_(steps.sub_(self._normal).mul_(small))
                torch.hardshrink(each, self._least, out=each)
        self._cancelled(name, args, result)
        return result

    def _cancelled(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Move a result by a unit of what cancels inside the operator: x of x (1 + erf x), m r of x r - m r."""
        match name:
            case "addmm" | "addmv" | "addbmm" | "baddbmm":  # a product, and what is added
                result.add_(self._by_a_unit(result - args[0]))
            case "convolution" if args[2] is not None:
                result.add_(self._by_a_unit(result - args[2].view(-1, *[1] * (result.dim() - 2))))
            case "gelu":
                result.add_(self._by_a_unit(args[0]))
            case "native_layer_norm":
                output, mean, rstd = result
                weight = 1.0 if args[2] is None else args[2]
                output.add_(self._by_a_unit((mean * rstd * weight).expand_as(output)))
            case "_log_softmax_backward_data":  # g - p sum(g)
                gradient, output, dimension = args[:3]
                result.add_(self._by_a_unit(output.exp() * gradient.sum(dimension, keepdim=True)))
            case "_softmax_backward_data":  # p (g - sum(p g)), with g a sum itself: as uncertain as its neighbours
                gradient, output, dimension = args[:3]
                if gradient.numel():
                    weights = self._weights_of(output)
                    taken = weights * gradient.abs().amax(dimension, keepdim=True)
                    result.add_(self._by_a_unit(taken)).add_(self._by_a_draw(gradient, weights, dimension))
            case "native_layer_norm_backward" | "_fused_rms_norm_backward" if result[0] is not None:
                gradient, rstd, weight = args[0], args[4 if name[0] == "n" else 3], args[5 if name[0] == "n" else 4]
                result[0].add_(self._by_a_unit((gradient * rstd * (1.0 if weight is None else weight)).clone()))

    def _weights_of(self, output: Tensor) -> Tensor:
        """A softmax's weights, or golden's where these are larger.

        Among scores so large that a unit of them decides, this run gives one element all of a row that golden, and a
        kernel in which equal scores stay equal, divide: what the others' shares are multiplied by must show all the
        same, where it is zero but for rounding.
        """
        exact = next(self._weighed, output)
        return torch.maximum(output, exact) if exact.shape == output.shape else output

    def _by_a_draw(self, gradient: Tensor, output: Tensor, dimension: int) -> Tensor | float:
        """How far what a gradient comes to in sum moves, if the sum is made of another rounding of it.

        A kernel may have that sum from elsewhere (of attention's, as the output times its cotangent); what a gradient
        that is a product has lost to rounding does not cancel then, however small what is left of it.
        """
        exact = next(self._expected, None)
        if exact is None or exact.shape != gradient.shape:
            return 0.0
        return output * (gradient - exact).abs().amax(dimension, keepdim=True)

    def _by_a_unit(self, values: Tensor) -> Tensor:
        """How far such values move."""
        moved = values.clone(memory_format=torch.contiguous_format)
        if moved.numel():
            nudge(moved, self._unit, self._chance)
        return moved.sub_(values)


@functools.cache
def _nature(func: Any) -> tuple[str, bool, bool]:
    """An operator's name, whether it rounds nothing (views, selections, fillings), and whether it is pointwise."""
    views = any(each.alias_info is not None and not each.alias_info.is_write for each in func._schema.returns)
    return name_of(func), views or name_of(func) in _EXACT, torch.Tag.pointwise in func.tags


def _terms(operation: str, args: Sequence[Any], result: Any) -> int:
    """How many terms one operator sums for each element of its result."""
    if operation == "convolution":
        return int(args[1].numel() // max(args[1].shape[0], 1))
    if operation in ("native_layer_norm", "_fused_rms_norm"):
        return math.prod(args[1])
    if operation.endswith("_backward"):
        made = [
            each.numel()
            for each in (result if isinstance(result, tuple | list) else (result,))
            if isinstance(each, Tensor)
        ]
        got = [each.numel() for each in args if isinstance(each, Tensor)]
        return max(got, default=1) // max(min((count for count in made if count), default=1), 1)
    if operation in _ALONG:
        return int(args[0].shape[args[_ALONG[operation]]]) if args[0].dim() else 1
    first = result[0] if isinstance(result, tuple | list) else result
    inputs = [each for each in args if isinstance(each, Tensor)]
    if not inputs or not isinstance(first, Tensor):
        return 1
    if operation in ("mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv"):
        return int(inputs[-2].shape[-1])
    return max(each.numel() for each in inputs) // max(first.numel(), 1)


def nudge(values: Tensor, unit: float, chance: random.Random) -> None:
    """Move each float64 value by half to one and a half units, up or down at random, in place; inf and NaN stay.

    Not by exactly one: three equal values move alike in a quarter of all draws, and then show no conditioning at all.
    """
    factors, count = _factors(values.device, unit), values.numel()
    if count >= len(factors):
        factors = factors.repeat(count // len(factors) + 2)
    start = chance.randrange(len(factors) - count)
    values.mul_(factors[start : start + count].view(values.shape))


@functools.cache
def _factors(device: torch.device, unit: float) -> Tensor:
    """Random factors to begin anywhere in: drawing new ones for every operation would cost more than the operation."""
    step = torch.rand(_STEPS, generator=torch.Generator().manual_seed(0), dtype=torch.float64).sub_(0.5)
    return step.mul_(2.0).add_(step.sign().mul_(0.5)).mul_(unit).add_(1.0).to(device)
