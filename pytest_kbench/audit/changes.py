"""What can be wrong with one operator: for a place in a graph, the fixed list of its wrong variants.

A variant is handed the operator's own result and arguments, and gives another result. Where it makes no difference, a
tail that is not there say, it gives the result as it is; where it makes no sense it raises, and takes no part.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor, fx

from ..oracle.modes import name_of
from .kernel import NotHere
from .variant import BLOCKS, SHAPES, TILE, VALUES, Variant, call, first, whole_tiles, word
from .windows import convolution, convolution_backward, pool, pool_backward

# An operator, and near ones that are easily taken for it.
SWAPS: Final[Mapping[str, tuple[str, ...]]] = {
    "add": ("sub",), "sub": ("add",), "mul": ("div", "add"), "div": ("mul",), "rsub": ("sub",),
    "maximum": ("minimum",), "minimum": ("maximum",), "amax": ("amin", "mean"), "amin": ("amax",), "max": ("min",),
    "min": ("max",), "argmax": ("argmin",), "argmin": ("argmax",), "sum": ("mean", "amax"), "mean": ("sum", "amax"),
    "prod": ("sum",), "cumsum": ("cumprod",), "any": ("all",), "all": ("any",),
    "exp": ("exp2", "expm1"), "exp2": ("exp",), "expm1": ("exp",), "log": ("log2", "log1p"), "log2": ("log",),
    "log1p": ("log",), "sqrt": ("rsqrt",), "rsqrt": ("sqrt", "reciprocal"), "reciprocal": ("rsqrt",),
    "sin": ("cos",), "cos": ("sin",), "tanh": ("sigmoid", "erf"), "sigmoid": ("tanh", "hardsigmoid"),
    "erf": ("tanh",), "relu": ("leaky_relu", "gelu", "relu6", "abs"), "leaky_relu": ("relu",), "gelu": ("relu", "silu"),
    "silu": ("gelu", "sigmoid"), "abs": ("neg",), "floor": ("ceil",), "ceil": ("floor",), "round": ("trunc",),
    "trunc": ("floor",), "lt": ("le", "gt"), "le": ("lt", "ge"), "gt": ("ge", "lt"), "ge": ("gt", "le"),
    "eq": ("ne",), "ne": ("eq",), "logical_and": ("logical_or",), "logical_or": ("logical_and",),
    "bitwise_and": ("bitwise_or",), "bitwise_or": ("bitwise_and",), "tril": ("triu",), "triu": ("tril",),
}  # fmt: skip
REDUCTIONS: Final = frozenset(("sum", "mean", "amax", "amin", "prod", "any", "all", "logsumexp", "argmax", "argmin"))
ALONG: Final = frozenset(("_softmax", "_log_softmax", "_safe_softmax", "cumsum", "cumprod", "sort", "flip"))
PRODUCTS: Final = frozenset(("mm", "bmm", "mv", "dot"))
INDEXED: Final[Mapping[str, int]] = {
    "gather": 2,
    "scatter": 2,
    "index_select": 2,
    "embedding": 1,
}  # where their index stands


def variants(node: fx.Node, *, nan: bool) -> Iterator[Variant]:
    """Everything that can be wrong with one operator; `nan` says whether inputs may hold NaN."""
    for operators in (
        _dropped,
        _swapped,
        _constants,
        _axes,
        _tails,
        _products,
        convolution,
        pool,
        convolution_backward,
        pool_backward,
        _indices,
        _branches,
    ):
        yield from operators(node)
    if nan:
        yield from _nan_dropped(node)
    yield Variant(
        "rounded to bfloat16",
        f"bfloat16({name_of(node.target)}(...))",
        _rounded,
        VALUES.format("digits beyond bfloat16's eight bits decide, and keep tolerance= below them"),
        coarse=True,
    )


def _dropped(node: fx.Node) -> Iterator[Variant]:
    """A pointwise operator left out: one of its operands stands for its result."""
    if torch.Tag.pointwise not in node.target.tags or name_of(node.target) in ("where", "masked_fill"):  # type: ignore[union-attr]
        return
    operands = [(index, each) for index, each in enumerate(node.args) if isinstance(each, fx.Node)]
    for index, operand in operands[:2]:

        def change(result: Any, func: Any, args: Any, kwargs: Any, index: int = index) -> Any:
            return args[index].to(result.dtype).expand(result.shape)

        name = "dropped" if len(operands) == 1 else f"{operand.name} alone"
        yield Variant(name, operand.name, change, VALUES.format(f"{name_of(node.target)} makes a difference here"))


def _swapped(node: fx.Node) -> Iterator[Variant]:
    """Another operator in its place, with the same arguments."""
    op = name_of(node.target)
    for other in SWAPS.get(op, ()):

        def change(result: Any, func: Any, args: Any, kwargs: Any, other: str = other) -> Any:
            if other == "relu6":
                return args[0].clamp(0, 6)
            if op in ("sum", "mean", "amax", "amin") and len(args) == 1:
                args = (args[0], list(range(args[0].dim())))
            return getattr(torch.ops.aten, other)(*args, **kwargs)

        yield Variant(f"{other} for {op}", call(node, other), change, VALUES.format(f"{op} and {other} differ"))
    if op == "gelu":
        other = "none" if node.kwargs.get("approximate") == "tanh" else "tanh"
        yield Variant(
            f"approximate={other}",
            call(node, f"gelu[{other}]"),
            lambda result, func, args, kwargs: torch.nn.functional.gelu(args[0], approximate=other),
            VALUES.format("the two forms of GELU differ, and keep tolerance= below that"),
        )


def _constants(node: fx.Node) -> Iterator[Variant]:
    """A number in the code left out, doubled, or off by one."""
    op = name_of(node.target)
    if op in REDUCTIONS | ALONG | PRODUCTS | {"convolution", "max_pool2d_with_indices", "avg_pool2d", "cat", "stack"}:
        return
    if torch.Tag.pointwise not in node.target.tags and op != "masked_fill":  # type: ignore[union-attr]
        return
    for index, value in enumerate(node.args):
        if not index or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        for label, made in (("0", value - value), ("doubled", 2 * value), ("plus 1", value + 1)):
            if made == value or math.isnan(made):
                continue

            def change(result: Any, func: Any, args: Any, kwargs: Any, index: int = index, made: float = made) -> Any:
                return func(*args[:index], made, *args[index + 1 :], **kwargs)

            after = call(node, op, {index: made})
            fix = VALUES.format(f"the constant {value:.6g} makes a difference, or make it a Scalar with several values")
            yield Variant(f"constant {label}" if index == 1 else f"constant {index} {label}", after, change, fix)


def _axes(node: fx.Node) -> Iterator[Variant]:
    """A reduction over another axis, or over one axis less."""
    op = name_of(node.target)
    if op not in REDUCTIONS | ALONG or len(node.args) < 2 or node.args[1] is None:
        return
    given = node.args[1]
    several, count = isinstance(given, (list, tuple)), len(given) if isinstance(given, (list, tuple)) else 1

    def over(result: Any, func: Any, args: Any, kwargs: Any, choose: Callable[[int, list[int]], list[int]]) -> Any:
        rank = args[0].dim()
        axes = choose(rank, axes_of(args))
        dims = axes if several else axes[0]
        found = func(args[0], dims, *args[2:], **kwargs)
        return _fitted(first(found), first(result))

    yield Variant(
        "another axis",
        call(node, op, {1: "another axis"}),
        functools.partial(over, choose=lambda rank, axes: [_other(rank, axes)]),
        SHAPES.format("the axes of its operand differ, with more than one index each"),
    )
    if count > 1:
        yield Variant(
            "one axis less",
            call(node, op, {1: "all but the first axis"}),
            functools.partial(over, choose=lambda rank, axes: axes[1:]),
            SHAPES.format("the first reduced dimension has more than one index"),
        )


def _other(rank: int, axes: Sequence[int]) -> int:
    """An axis that is not reduced, the nearest before; the last one where all are."""
    free = [each for each in range(rank) if each not in axes]
    if not free and rank < 2:
        raise NotHere
    return free[-1] if free else rank - 1


def _tails(node: fx.Node) -> Iterator[Variant]:
    """A reduction that leaves out the last terms, or accumulates in half precision."""
    op = name_of(node.target)
    if op not in REDUCTIONS - {"argmax", "argmin"}:
        return

    def short(result: Any, func: Any, args: Any, kwargs: Any, *, kept: Callable[[int], int]) -> Any:
        axis = axes_of(args)[-1]
        size = args[0].shape[axis]
        left = kept(size)
        if left == size:
            return result
        found = func(args[0].narrow(axis, 0, left), *args[1:], **kwargs)
        return found * (left / size) if op == "mean" else found

    yield from _shortened(node, "operand[..., {}]", short, "its last dimension")
    if op in ("sum", "mean"):
        yield Variant(
            "accumulated in float16",
            call(node, f"{op}[float16]"),
            _halved_sum,
            SHAPES.format("sums are long enough, and keep tolerance= below the precision of float16"),
            coarse=True,
        )


def axes_of(args: Sequence[Any]) -> list[int]:
    """Which axes a reduction's arguments say, from 0; all of them where they say none."""
    rank = args[0].dim()
    given = args[1] if len(args) > 1 else None
    axes = [given] if type(given) is int else given if isinstance(given, (list, tuple)) else []
    return [each % rank for each in axes] if axes and rank else list(range(rank))


def _halved_sum(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """A float32 sum whose partial sums, of a block of terms each, are added up in float16."""
    x, axes = args[0], axes_of(args)
    if result.dtype != torch.float32 or not x.numel() or not axes:
        raise NotHere
    kept = [each for each in range(x.dim()) if each not in axes]
    flat = x.permute(*kept, *axes).reshape(*(x.shape[each] for each in kept), -1)
    count = flat.shape[-1]
    total = torch.zeros(flat.shape[:-1], dtype=torch.float16)
    for block in flat.split(max(TILE, count // BLOCKS), -1):
        total = total + block.sum(-1).to(torch.float16)
    found = total.to(result.dtype).reshape(result.shape)
    return found / count if name_of(func) == "mean" else found


def _shortened(node: fx.Node, operand: str, over: Callable[..., Any], summed: str) -> Iterator[Variant]:
    """A sum, `over(..., kept=size -> size)`, that leaves out terms: those of the last tile, all but one, the last."""
    for name, kept, part, fix in (
        ("tail ignored", whole_tiles, ":n // 32 * 32", f"{summed} is larger than {TILE} and no multiple of it"),
        ("reduction dropped", lambda size: min(size, 1), ":1", f"{summed} has more than one term"),
        ("last term ignored", lambda size: max(size - 1, min(size, 1)), ":-1", f"the last term of {summed} matters"),
    ):
        after = call(node, name_of(node.target), {0: operand.format(part)})
        yield Variant(name, after, functools.partial(over, kept=kept), SHAPES.format(fix))


def _products(node: fx.Node) -> Iterator[Variant]:
    """A matrix product over fewer terms, of a transposed operand, or in half precision."""
    op = name_of(node.target)
    if op not in PRODUCTS:
        return

    def over(result: Any, func: Any, args: Any, kwargs: Any, *, kept: Callable[[int], int]) -> Any:
        a, b = args[0], args[1]
        axis = max(b.dim() - 2, 0)
        left = kept(a.shape[-1])
        return result if left == a.shape[-1] else func(a.narrow(-1, 0, left), b.narrow(axis, 0, left))

    def transposed(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        square = args[1].dim() >= 2 and args[1].shape[-1] == args[1].shape[-2]
        return func(args[0], args[1].transpose(-1, -2)) if square else result

    def halved(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        a, b = args[0], args[1]
        if result.dtype != torch.float32 or not a.numel() or not b.numel():
            raise NotHere
        block, total = max(TILE, a.shape[-1] // BLOCKS), torch.zeros_like(result, dtype=torch.float16)
        for start in range(0, a.shape[-1], block):
            left = min(block, a.shape[-1] - start)
            part = func(a.narrow(-1, start, left), b.narrow(max(b.dim() - 2, 0), start, left))
            total = total + part.to(torch.float16)
        return total.to(result.dtype)

    def coarse(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        if result.dtype != torch.float32:
            raise NotHere
        return func(*(each.to(torch.bfloat16).to(each.dtype) for each in args[:2]))

    yield from _shortened(node, "a[:, {}]", over, "the summed dimension")
    precise = SHAPES.format("sums are short, and keep tolerance= and precision= below that of half types")
    if op != "mv":
        square = SHAPES.format("the second operand is square")
        yield Variant("second operand transposed", call(node, op, {1: "b.T"}), transposed, square)
    yield Variant("accumulated in float16", call(node, f"{op}[float16]"), halved, precise, coarse=True)
    yield Variant("operands in bfloat16", call(node, f"{op}[bfloat16]"), coarse, precise, coarse=True)


def _indices(node: fx.Node) -> Iterator[Variant]:
    """A look-up one place off, or with an index of eight bits."""
    op = name_of(node.target)
    if op not in INDEXED:
        return
    position = INDEXED[op]

    def looked_up(result: Any, func: Any, args: Any, kwargs: Any, *, make: Callable[[Tensor, int], Tensor]) -> Any:
        size = args[0].shape[args[1] if position == 2 else 0]
        return func(*args[:position], make(args[position], size), *args[position + 1 :], **kwargs)

    yield Variant(
        "index off by one",
        call(node, op, {position: "index + 1"}),
        functools.partial(looked_up, make=lambda index, size: (index + 1) % max(size, 1)),
        SHAPES.format("there is more than one place to look at"),
    )
    yield Variant(
        "index in 8 bits",
        call(node, op, {position: "uint8(index)"}),
        functools.partial(looked_up, make=lambda index, size: index & 0xFF),
        SHAPES.format("indices reach beyond 255"),
    )


def _branches(node: fx.Node) -> Iterator[Variant]:
    """A choice that is not made, or made the wrong way round."""
    op = name_of(node.target)
    fix = VALUES.format("both branches are taken")
    if op == "where" and len(node.args) == 3:

        def one(result: Any, func: Any, args: Any, kwargs: Any, *, index: int) -> Any:
            return args[index].to(result.dtype).expand(result.shape)

        yield Variant("always the first", word(node.args[1]), functools.partial(one, index=1), fix)
        yield Variant("always the second", word(node.args[2]), functools.partial(one, index=2), fix)
        yield Variant(
            "branches exchanged",
            call(node, op, {1: node.args[2], 2: node.args[1]}),
            lambda result, func, args, kwargs: torch.where(args[0], args[2], args[1]),
            fix,
        )
    if op == "masked_fill":
        yield Variant("mask ignored", word(node.args[0]), lambda result, func, args, kwargs: args[0], fix)
        yield Variant(
            "mask inverted",
            call(node, op, {1: f"~{word(node.args[1])}"}),
            lambda result, func, args, kwargs: func(args[0], ~args[1], *args[2:], **kwargs),
            fix,
        )


def _nan_dropped(node: fx.Node) -> Iterator[Variant]:
    """A maximum or a ReLU that takes a number rather than NaN, as fmaxf does."""
    op = name_of(node.target)

    def changed(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
        low = math.inf if op in ("amin", "minimum") else -math.inf
        inputs = [_numbers(each, low) if isinstance(each, Tensor) else each for each in args]
        return first(func(*inputs, **kwargs))

    if op in (
        "relu",
        "amax",
        "amin",
        "maximum",
        "minimum",
        "max_pool2d_with_indices",
        "clamp",
        "clamp_min",
        "hardtanh",
    ):
        yield Variant("NaN dropped", call(node, f"{op}[fmax]"), changed, 'Declare nan="propagate"')


def _numbers(values: Tensor, instead: float) -> Tensor:
    return torch.where(values.isnan(), instead, values) if values.is_floating_point() else values


def applied(variant: Variant, result: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """A variant's result in the place of the operator's own: in its dtype, the first of several outputs."""
    found = variant.change(result, func, args, kwargs)
    if isinstance(found, Tensor) and isinstance(first(result), Tensor):
        found = found.to(first(result).dtype)
        found = found.clone() if any(found is each for each in args) else found  # it may be written later
    return (found, *result[1:]) if isinstance(result, (tuple, list)) and not isinstance(found, (tuple, list)) else found


def _rounded(result: Any, func: Any, args: Any, kwargs: Any) -> Any:
    values = first(result)
    if values.dtype not in (torch.float32, torch.float64):
        raise NotHere
    return values.to(torch.bfloat16)


def _fitted(found: Tensor, like: Tensor) -> Tensor:
    """Another shape than the place has: repeated where it can be, else read in flat order again and again."""
    if found.shape == like.shape:
        return found
    try:
        return found.expand(like.shape)
    except RuntimeError:
        if not found.numel():
            raise NotHere from None
        places = torch.arange(like.numel(), device=found.device) % found.numel()
        return found.reshape(-1)[places].reshape(like.shape)
