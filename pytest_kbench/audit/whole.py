"""Mutants of a kernel as a whole: how it reads its arguments, writes its outputs, and what it remembers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ..argument import Param, Scalar
from ..expression import Expression, ExpressionError, shape
from ..oracle.inputs import Placed, laid_out
from ..oracle.precision import TF32_BITS, rounded
from ..task import Task
from .kernel import Answer, Asked, NotHere, Run, Wrong, stateless
from .rerun import rerun
from .variant import SHAPES, TILE, whole_tiles

NARROW = 1 << 16  # flat offsets that an unsigned index of 16 bits counts

LAYOUT = "Let {name} have other layouts: name shapes, or give fuzz=, in which two of its dimensions are larger than 1"
CALLS = "Give fuzz= ranges, several named shapes, or further initial states, so that calls in one process differ in it"


def whole_mutants(task: Task) -> Iterator[Wrong]:
    """All of them, for this task."""
    for each in task.tensors:
        name, rank = each.name, len(shape(each.shape))
        if rank:
            yield _wrong(
                f"strides of {name} read as dense",
                f"{name} is read as if its strides were dense",
                stateless(_reading(task, name, as_dense)),
                LAYOUT.format(name=name),
            )
        if rank and largest(task, shape(each.shape)[-1:]) > TILE:
            yield _wrong(
                f"tail of {name} ignored",
                f"{name}[..., n // {TILE} * {TILE}:] is taken to be zero",
                stateless(_reading(task, name, _tail_ignored)),
                SHAPES.format(f"the last dimension of {name} is larger than {TILE} and no multiple of it"),
            )
        if largest(task, shape(each.shape)) > NARROW:
            yield _wrong(
                f"offsets into {name} in 16 bits",
                f"{name} is read at flat offset % 65,536",
                stateless(_reading(task, name, _narrow)),
                SHAPES.format(f"{name} has more than 65,536 elements"),
            )
        if isinstance(each, Param):
            yield _wrong(
                f"{name} of the first call", f"{name} is packed once per shape", _remembering(task, name), CALLS
            )
    for argument in task.arguments:
        if isinstance(argument, Scalar) and len(argument.choices) > 1:
            name = argument.name
            yield _wrong(
                f"{name} of the first call", f"{name} is read in the first call alone", _first_scalar(task, name), CALLS
            )
    written = "Name a shape, or widen fuzz=, so that {}"
    yield _wrong(
        "last column not written",
        "output[..., -1] is zero",
        stateless(_writing(_last_column)),
        written.format("outputs have columns"),
    )
    yield _wrong(
        "last row not written",
        "output[-1] is zero",
        stateless(_writing(_last_row)),
        written.format("outputs have rows"),
    )
    yield _wrong(
        "tail of outputs not written",
        f"output[..., n // {TILE} * {TILE}:] is zero",
        stateless(_writing(_without_tail)),
        written.format(f"the last dimension of an output is larger than {TILE} and no multiple of it"),
    )
    yield _wrong(
        "outputs beyond 65,535 not written",
        "output.flatten()[65536:] is zero",
        stateless(_narrow_outputs),
        written.format("outputs have more than 65,536 elements"),
    )
    if task.precision == "strict":
        yield _wrong(
            "outputs rounded to TF32",
            f"output has {TF32_BITS} bits of mantissa",
            stateless(_coarse_outputs),
            "Keep tolerance= below 2**-12: no float32 kernel needs so much, and half of a kernel's digits go unseen",
        )
    yield _wrong("first shape for all", "only what the first call's shape covers is written", _first_shape, CALLS)
    yield _wrong(
        "cached by shape",
        "a call of a known shape and dtype gets the outputs that the first one had",
        _cached_by_shape,
        CALLS,
    )
    yield _wrong(
        "cached by pointer", "buffers of a known address get the outputs that they had first", _cached_by_pointer, CALLS
    )


def largest(task: Task, extents: Sequence[Expression]) -> int:
    """The largest product of these extents, in a named shape or within the ranges of `fuzz`."""
    ends = {dim: max(dims[dim] for dims in task.shapes.values()) for dim in task.dimensions}
    ends.update({dim: allowed.high for dim, allowed in task.fuzz.items()})
    found = []
    for dims in (*task.shapes.values(), ends):
        with contextlib.suppress(ExpressionError):
            found.append(math.prod(max(extent(dims), 0) for extent in extents))
    return max(found, default=0)


def _wrong(name: str, what: str, start: Callable[[], Run], fix: str) -> Wrong:
    return Wrong("mutant", name, what, start, fix)


def _reading(task: Task, name: str, make: Callable[[Placed], Tensor]) -> Run:
    """The reference with one argument read wrongly."""

    def run(asked: Asked) -> Answer:
        placed = asked.placed(name)
        values = make(placed)
        return None if values is placed.values else rerun(task, asked, {name: values})

    return run


def as_dense(placed: Placed) -> Tensor:
    """The numbers that lie where a dense tensor's would.

    Beyond the end of its memory, which is poisoned in a child, that is NaN; whole numbers begin anew there.
    """
    values = placed.values
    if placed.strides == values.stride() or not values.numel():
        return values
    storage = laid_out(placed).as_strided((placed.storage,), (1,), 0)
    places = torch.arange(values.numel(), device=values.device) + placed.offset
    found = storage[places % placed.storage]
    if values.is_floating_point():
        found = found.masked_fill(places >= placed.storage, torch.nan)
    return found.reshape(values.shape)


def _tail_ignored(placed: Placed) -> Tensor:
    return _without_tail(placed.values) if placed.values.dim() else placed.values


def _narrow(placed: Placed) -> Tensor:
    values = placed.values
    if values.numel() <= NARROW:
        return values
    return values.reshape(-1)[torch.arange(values.numel(), device=values.device) % NARROW].reshape(values.shape)


def _writing(make: Callable[[Tensor], Tensor]) -> Run:
    """Right outputs, of which some elements are never written; numbers have none to leave out."""

    def run(asked: Asked) -> Answer:
        if not any(each.dim() for each in asked.right):
            raise NotHere
        return [make(each) if each.dim() else each for each in asked.right]

    return run


def _last_column(values: Tensor) -> Tensor:
    return _zeroed(values, (..., slice(-1, None)))


def _last_row(values: Tensor) -> Tensor:
    return _zeroed(values, (slice(-1, None),))


def _without_tail(values: Tensor) -> Tensor:
    if whole_tiles(values.shape[-1]) == values.shape[-1]:
        return values
    return _zeroed(values, (..., slice(whole_tiles(values.shape[-1]), None)))


def _narrow_outputs(asked: Asked) -> Answer:
    """Outputs whose flat index has 16 bits: that smaller ones are not told apart is said of the inputs."""
    if all(each.numel() <= NARROW for each in asked.right):
        raise NotHere
    flat = [each.contiguous().clone() for each in asked.right]
    for each in flat:
        each.view(-1)[NARROW:] = 0
    return flat


def _coarse_outputs(asked: Asked) -> Answer:
    """Float32 outputs as a tensor core would read them."""
    if asked.call.dtype != "float32" or not any(each.is_floating_point() for each in asked.right):
        raise NotHere
    return [
        rounded(each.double(), TF32_BITS).to(each.dtype) if each.is_floating_point() else each for each in asked.right
    ]


def _zeroed(values: Tensor, where: tuple[object, ...]) -> Tensor:
    kept = values.clone()
    kept[where] = 0  # type: ignore[index]  # slices and an ellipsis
    return kept


def _remembering(task: Task, name: str) -> Callable[[], Run]:
    """A parameter that is kept from the first call with its shape, as one packed ahead of time is."""

    def start() -> Run:
        kept: dict[tuple[object, ...], Tensor] = {}

        def run(asked: Asked) -> Answer:
            values = asked.values(name)
            first = kept.setdefault((values.shape, values.dtype), values)
            return None if first is values else rerun(task, asked, {name: first})

        return run

    return start


def _first_scalar(task: Task, name: str) -> Callable[[], Run]:
    """A scalar that is read once."""

    def start() -> Run:
        kept: list[object] = []

        def run(asked: Asked) -> Answer:
            value = dict(asked.call.scalars)[name]
            kept.append(value)
            return None if value == kept[0] else rerun(task, asked, {name: kept[0]})

        return run

    return start


def _first_shape() -> Run:
    """A kernel whose loops end where the first call's outputs did."""
    first: list[torch.Size] = []

    def run(asked: Asked) -> Answer:
        if not any(each.dim() for each in asked.right):
            raise NotHere
        first[:] = first or [each.shape for each in asked.right]
        if [len(each) for each in first] != [each.dim() for each in asked.right]:
            return None
        return [_within(each, size) for each, size in zip(asked.right, first, strict=True)]

    return run


def _within(values: Tensor, size: Sequence[int]) -> Tensor:
    kept = torch.zeros_like(values)
    region = tuple(slice(0, extent) for extent in size)
    kept[region] = values[region]
    return kept


def _cached(key: Callable[[Asked], object]) -> Run:
    """A kernel that answers what it has seen with what it gave before, where that has the right shapes."""
    known: dict[object, list[Tensor]] = {}

    def run(asked: Asked) -> Answer:
        right = [each.clone() for each in asked.right]
        before = known.setdefault(key(asked), right)
        fits = [(each.shape, each.dtype) for each in before] == [(each.shape, each.dtype) for each in right]
        return before if fits else None

    return run


def _cached_by_shape() -> Run:
    return _cached(lambda asked: tuple((each.values.shape, each.values.dtype) for each in asked.tensors))


def _cached_by_pointer() -> Run:
    """As in a child of the grader: a buffer of the same size, of the same argument, has the same address."""
    return _cached(lambda asked: tuple(each.storage * each.values.element_size() for each in asked.tensors))
