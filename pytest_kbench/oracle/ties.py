"""Where a gradient is up to rounding: the choice of a maximum among equals, the sign of what a ReLU gets.

An honest kernel may round an intermediate otherwise than the reference, and then a window has another maximum, or a
ReLU is open that was closed: the gradient moves to another element, by all of its size. No bound that is made of
roundings allows for that, so it is measured: a reference runs once more under `Contested`, in which the gradient of
every contested element gets a random weight, and what moves shows how far it may be from golden. Through the operators
before, a convolution say, these moves travel as they would in an honest kernel.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from .chance import Chance
from .modes import Double, accumulator, name_of

_REDUCED: Final = ("AmaxBackward0", "AminBackward0")  # whose comparison with the extreme is no mask of the reference's
_NOISE: Final = 8.0  # units of the accumulator, of the largest value or of all terms of a sum, that it may be off by
_CARRIED: Final = ("relu", "add")  # what takes over how large the terms of its argument were


class Contested(Double):
    """Run a reference and its gradient in float64 under this: contested elements get random weights, 1 to 2 in size.

    What was chosen loses what it had, and what else may be chosen gets it with a random sign, `sign` times the one that
    `signs` draws: of two runs with opposite signs, one shows how far the gradient moves where the other cancels.
    `dtype` is the working dtype. What is exactly representable in it was not rounded: there only equals contest a
    maximum, and zero alone has no sign (clamp(x, min=0) passes a gradient there, relu(x) none). With `maxima` the
    choice among near maxima is contested (a task's `ties="mask"`).
    """

    def __init__(
        self, dtype: torch.dtype, chance: random.Random, *, maxima: bool, signs: int = 0, sign: float = 1.0
    ) -> None:
        super().__init__()
        self._dtype = dtype
        self._maxima = maxima
        self._chance, self._signs, self._sign = Chance(chance.getrandbits(63)), Chance(signs), sign
        self._reduced: dict[int, tuple[Tensor, tuple[int, ...]]] = {}  # by its memory: what amax got, and the axes
        self._closed: dict[int, tuple[Tensor, Tensor]] = {}  # by the memory of a ReLU's result: it, and what it got
        self._summed: dict[int, tuple[Tensor, float]] = {}  # by the memory of a sum: it, and how large its terms are

    def run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """One operator; the gradient of a choice gets random weights where that is contested."""
        name = name_of(func)
        if name == "threshold_backward" and (known := self._closed.get(args[1].data_ptr())) is not None:
            return self._through_sign(args[0], known[1], 0.0)
        if name == "leaky_relu_backward" and not args[3]:
            return self._through_sign(args[0], args[1], args[2])
        if name == "max_pool2d_with_indices_backward" and self._maxima:
            return self._through_maximum(args[0], args[1], *args[2:7])
        node = torch._C._current_autograd_node() if name == "eq" and self._maxima else None
        reduced = self._reduced.get(args[1].data_ptr()) if node is not None and node.name() in _REDUCED else None
        if reduced is not None:
            return self._chosen(args[0], args[1], reduced[1])
        before = args[0].clone() if name == "relu" else None
        terms = self._terms(name, args)
        result = func(*args, **kwargs)
        if before is not None:
            self._closed[result.data_ptr()] = result, before
        for each in (result, before) if terms else ():
            if each is not None:
                self._summed[each.data_ptr()] = each, terms
        if name in ("amax", "amin"):
            self._reduced[args[0].data_ptr()] = args[0], tuple(args[1]) if len(args) > 1 else ()
        return result

    def _chosen(self, extreme: Tensor, values: Tensor, axes: tuple[int, ...]) -> Tensor:
        """Where `values` are the extreme along these axes: weights of all that may be, whose sum is 1."""
        near = (values - extreme).abs() <= self._noise(values) + _relative(values, self._dtype) * extreme.abs()
        drawn = self._chance.uniform(values, 1.5, 2.5) * near  # even the smallest moves by half of what may move
        last = (drawn > 0) & (drawn == drawn.amax(axes, keepdim=True))
        drawn.masked_fill_(last, 0.0)
        return torch.where(last, 1.0 - drawn.sum(axes, keepdim=True), drawn)

    def _terms(self, name: str, args: Sequence[Any]) -> float:
        """How large the terms of a sum may be all together, whatever their signs; 0 for what is none."""
        if name in _CARRIED:
            return max(self._known(each) for each in args[:2] if isinstance(each, Tensor))
        found = _largest_sum(name, args)
        return found if math.isfinite(found) else 0.0

    def _known(self, values: Tensor) -> float:
        return self._summed.get(values.data_ptr(), (values, 0.0))[1]

    def _noise(self, values: Tensor) -> float:
        """How far rounding may have moved such values; 0 where they are exact.

        Terms that cancel leave the roundings of what they were: who adds them up one by one rounds each time.
        """
        if not values.numel() or bool((values == values.to(self._dtype).double()).all()):
            return 0.0
        unit, inner = torch.finfo(self._dtype).eps, torch.finfo(accumulator(self._dtype)).eps
        largest = float(values.abs().amax())
        return _NOISE * inner * max(largest, self._known(values)) + unit / 2 * largest

    def _weights(self, like: Tensor) -> Tensor:
        """Random ones from -2 to -1 and from 1 to 2."""
        drawn = self._chance.uniform(like, 1.0, 2.0)
        return drawn * (self._signs.uniform(like) < 0.5).to(like.dtype).mul_(2).sub_(1).mul_(self._sign)

    def _through_sign(self, gradient: Tensor, values: Tensor, slope: float) -> Tensor:
        opened = torch.full_like(values, slope).masked_fill_(values > 0, 1.0)
        near = values.abs() <= self._noise(values)
        weights = self._weights(values)
        return gradient * torch.where(near, torch.where(values > 0, -weights.abs(), weights), opened)

    def _through_maximum(
        self,
        gradient: Tensor,
        values: Tensor,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil: bool = False,
    ) -> Tensor:
        window, step = _pair(kernel), _pair(stride or kernel)
        around, apart = _pair(padding), _pair(dilation)
        images, down = (each.unsqueeze(0) if each.dim() == 3 else each for each in (values, gradient))
        if not down.numel():
            return torch.zeros_like(values)
        (height, width), (rows, columns) = images.shape[-2:], down.shape[-2:]
        reached = [
            max((count - 1) * each + gap * (size - 1) + 1, extent + before)
            for count, each, gap, size, extent, before in zip(
                (rows, columns), step, apart, window, (height, width), around, strict=True
            )
        ]
        right, below = reached[1] - width - around[1], reached[0] - height - around[0]
        padded = F.pad(images, (around[1], right, around[0], below), value=-torch.inf)
        batch, channels, (tall, broad) = len(padded), padded.shape[1], padded.shape[-2:]
        seen = padded.reshape(batch * channels, 1, tall, broad)
        cells = _windows(seen, window, step, apart)[:, :, :rows, :columns]
        largest, first = cells.max(1, keepdim=True)
        near = cells >= largest - self._noise(values) - _relative(values, self._dtype) * largest.abs()
        contested = near & (near.sum(1, keepdim=True) > 1)
        chosen = torch.zeros_like(cells).scatter_(1, first, 1.0)
        weights = self._weights(cells)
        weights = torch.where(contested, torch.where(chosen > 0, -weights.abs(), weights), chosen)
        spread = weights * down.reshape(batch * channels, 1, rows, columns)
        back = _gathered(spread, (tall, broad), window, step, apart).reshape(batch, channels, tall, broad)
        kept = back[..., around[0] : around[0] + height, around[1] : around[1] + width]
        return kept.reshape(values.shape)


def _largest_sum(name: str, args: Sequence[Any]) -> float:
    """What no sum of a product or convolution exceeds if all terms have one sign; 0.0 for other operators."""
    match name:
        case "convolution":
            given, weight, bias = args[0], args[1].transpose(0, 1) if args[6] else args[1], args[2]
            factors = weight.abs().flatten(1).sum(1)
        case "mm" | "bmm":
            given, factors, bias = args[0], args[1].abs().sum(-2), None
        case "addmm" | "baddbmm":
            bias, given, factors = args[0], args[1], args[2].abs().sum(-2)
        case _:
            return 0.0
    if not given.numel() or not factors.numel():
        return 0.0
    added = float(bias.abs().amax()) if isinstance(bias, Tensor) and bias.numel() else 0.0
    return float(given.abs().amax()) * float(factors.amax()) + added


def _pair(values: Sequence[int]) -> tuple[int, int]:
    return (values[0], values[-1])


def _relative(values: Tensor, dtype: torch.dtype) -> float:
    """The part of a value that rounding to the dtype may take: two values so near may be equal afterwards."""
    return 0.0 if bool((values == values.to(dtype).double()).all()) else torch.finfo(dtype).eps


def _windows(seen: Tensor, window: tuple[int, int], step: tuple[int, int], apart: tuple[int, int]) -> Tensor:
    """All windows of images (n, 1, h, w), as (n, cells, rows, columns): a strided view, copied."""
    (tall, broad) = seen.shape[-2:]
    rows = (tall - apart[0] * (window[0] - 1) - 1) // step[0] + 1
    columns = (broad - apart[1] * (window[1] - 1) - 1) // step[1] + 1
    size = (len(seen), *window, rows, columns)
    strides = (tall * broad, apart[0] * broad, apart[1], step[0] * broad, step[1])
    return seen.contiguous().as_strided(size, strides).reshape(len(seen), window[0] * window[1], rows, columns)


def _gathered(
    cells: Tensor, size: tuple[int, int], window: tuple[int, int], step: tuple[int, int], apart: tuple[int, int]
) -> Tensor:
    """What windows hold, (n, cells, rows, columns), summed where they lie in images (n, h, w)."""
    images = cells.new_zeros((len(cells), *size))
    rows, columns = cells.shape[-2:]
    for u in range(window[0]):
        for v in range(window[1]):
            top, left = u * apart[0], v * apart[1]
            bottom, right = top + (rows - 1) * step[0] + 1, left + (columns - 1) * step[1] + 1
            images[:, top : bottom : step[0], left : right : step[1]] += cells[:, u * window[1] + v]
    return images
