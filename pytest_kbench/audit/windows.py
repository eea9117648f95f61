"""What can be wrong with a convolution, and with a max pool."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, fx

from ..oracle.modes import name_of
from .graph import Change
from .kernel import NotHere
from .variant import BLOCKS, SHAPES, STATES, TILE, VALUES, Variant, call, without_tail


def convolution(node: fx.Node) -> Iterator[Variant]:
    """What a convolution gets wrong: its bias, its kernel, its border, its sums."""
    if name_of(node.target) != "convolution":
        return

    def with_input(make: Callable[[Tensor], Tensor]) -> Change:
        return lambda result, func, args, kwargs: func(make(args[0]), *args[1:], **kwargs)

    def without_bias(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        return func(args[0], args[1], None, *args[3:], **kwargs)

    def repeated_border(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        x, around = args[0], [each for side in reversed(args[4]) for each in (side, side)]
        if not any(around) or not x.numel():
            raise NotHere
        padded = torch.nn.functional.pad(x, around, mode="replicate")
        return func(padded, *args[1:4], [0] * len(args[4]), *args[5:], **kwargs)

    def dense_steps(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        if all(each == 1 for each in args[3]):
            raise NotHere
        found = func(*args[:3], [1] * len(args[3]), *args[4:], **kwargs)
        return found[tuple(slice(0, size) for size in result.shape)]

    def halved(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        x, weight, bias = args[0], args[1], args[2]
        if result.dtype != torch.float32 or not result.numel() or args[8] != 1:
            raise NotHere
        total = torch.zeros_like(result, dtype=torch.float16)
        block = max(1, x.shape[1] // BLOCKS)
        for start in range(0, x.shape[1], block):
            left = min(block, x.shape[1] - start)
            part = func(x.narrow(1, start, left), weight.narrow(1, start, left), None, *args[3:], **kwargs)
            total = total + part.to(torch.float16)
        found = total.to(result.dtype)
        return found if bias is None else found + bias.view(-1, *[1] * (found.dim() - 2))

    op = "convolution"
    if isinstance(node.args[2], fx.Node):
        yield Variant("bias skipped", call(node, op, {2: None}), without_bias, STATES.format("the bias is not zero"))

    def spatially(make: Callable[[Tensor], Tensor]) -> Change:
        def change(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
            if args[1].shape[-1] == 1:
                raise NotHere
            return func(args[0], make(args[1]), *args[2:], **kwargs)

        return change

    spatial = SHAPES.format("kernels have more than one element")
    flipped = spatially(lambda w: w.flip(tuple(range(2, w.dim()))))
    yield Variant("kernel flipped", call(node, op, {1: "weight flipped"}), flipped, spatial)
    yield Variant(
        "kernel transposed",
        call(node, op, {1: "weight transposed"}),
        spatially(lambda w: w.transpose(-1, -2)),
        spatial,
    )
    last = spatially(lambda w: torch.cat([w[..., :-1], torch.zeros_like(w[..., -1:])], -1))
    yield Variant("last kernel column ignored", call(node, op, {1: "weight[..., :-1]"}), last, spatial)
    yield Variant(
        "last channel ignored",
        call(node, op, {0: "x[:, :-1]"}),
        with_input(lambda x: torch.cat([x[:, :-1], torch.zeros_like(x[:, -1:])], 1) if x.shape[1] > 1 else x),
        SHAPES.format("there is more than one input channel"),
    )
    yield Variant(
        "tail of channels ignored",
        call(node, op, {0: "x[:, :n // 32 * 32]"}),
        with_input(lambda x: without_tail(x, 1)),
        SHAPES.format(f"there are more than {TILE} input channels, and no multiple of it"),
    )
    yield Variant(
        "shifted by one column",
        call(node, op, {0: "x one column to the left"}),
        with_input(lambda x: x.roll(-1, -1)),
        SHAPES.format("images have more than one column"),
    )
    border = SHAPES.format("padding is at least 1")
    yield Variant("border repeated", call(node, op, {4: "replicate"}), repeated_border, border)
    yield Variant("stride of 1", call(node, op, {3: "[1, 1]"}), dense_steps, SHAPES.format("the stride is more than 1"))
    precise = SHAPES.format("sums are short, and keep tolerance= and precision= below that of half types")
    yield Variant("accumulated in float16", call(node, f"{op}[float16]"), halved, precise, coarse=True)


def convolution_backward(node: fx.Node) -> Iterator[Variant]:
    """What the gradient of a convolution gets wrong: sums over images that are not made, a kernel not flipped."""
    if name_of(node.target) != "convolution_backward":
        return

    def first_image(result: Any, func: Any, args: Any, kwargs: Any, *, index: int) -> Any:
        if result[index] is None or not len(args[0]):
            raise NotHere
        found = func(args[0][:1], args[1][:1], *args[2:], **kwargs)[index]
        return (*result[:index], found, *result[index + 1 :])

    def turned(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        weight = args[2]
        if result[0] is None or weight.shape[-1] == 1:
            raise NotHere
        found = func(args[0], args[1], weight.flip(tuple(range(2, weight.dim()))), *args[3:], **kwargs)[0]
        return (found, *result[1:])

    op, several = "convolution_backward", SHAPES.format("there is more than one image")
    one = {0: "gradient[:1]", 1: "x[:1]"}
    weight = functools.partial(first_image, index=1)
    yield Variant("weight's reduction dropped", call(node, op, one), weight, several)
    yield Variant("bias's reduction dropped", call(node, op, one), functools.partial(first_image, index=2), several)
    spatial = SHAPES.format("kernels have more than one element")
    yield Variant("kernel not flipped", call(node, op, {2: "weight flipped"}), turned, spatial)


def pool_backward(node: fx.Node) -> Iterator[Variant]:
    """What the gradient of a max pool gets wrong: where it goes."""
    if name_of(node.target) != "max_pool2d_with_indices_backward":
        return
    yield Variant(
        "shifted by one column",
        f"{call(node, 'max_pool2d_backward')} one column to the right",
        lambda result, func, args, kwargs: result.roll(1, -1),
        SHAPES.format("images have more than one column"),
    )


def pool(node: fx.Node) -> Iterator[Variant]:
    """What a max pool gets wrong: its windows, what it begins with, what it takes of them."""
    if name_of(node.target) != "max_pool2d_with_indices":
        return

    def average(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        return torch.nn.functional.avg_pool2d(args[0], *args[1:4])

    def smallest(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        return -func(-args[0], *args[1:], **kwargs)[0]

    def from_zero(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        return result[0].clamp(min=0)

    def narrower(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        kernel = [max(each - 1, 1) for each in args[1]]
        found = func(args[0], kernel, args[2] if len(args) > 2 and args[2] else args[1], *args[3:], **kwargs)[0]
        return found[tuple(slice(0, size) for size in result[0].shape)]

    def at_the_end(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        step = args[2] if len(args) > 2 and args[2] else args[1]
        x = args[0]
        for axis, (size, kernel, stride, count) in enumerate(
            zip(x.shape[-2:], args[1], step, result[0].shape[-2:], strict=True), start=x.dim() - 2
        ):
            x = x.narrow(axis, (size - kernel) % stride, size - (size - kernel) % stride) if count else x
        return func(x, *args[1:], **kwargs)[0]

    op = "max_pool2d"
    yield Variant("average for maximum", call(node, "avg_pool2d"), average, SHAPES.format("windows are larger than 1"))
    yield Variant("minimum for maximum", call(node, "min_pool2d"), smallest, SHAPES.format("windows are larger than 1"))
    yield Variant("begins at zero", f"max(0, {call(node, op)})", from_zero, VALUES.format("a whole window is negative"))
    yield Variant(
        "last row and column of windows ignored",
        call(node, op, {1: "kernel - 1"}),
        narrower,
        SHAPES.format("windows are larger than 1"),
    )
    yield Variant(
        "windows aligned to the end",
        call(node, op, {0: "x[..., rest:]"}),
        at_the_end,
        SHAPES.format("rows and columns fill no whole number of windows"),
    )
