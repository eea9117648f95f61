"""What fuzzing draws: a Case of one or more calls, made of a task's declaration; never elements.

Everything is drawn as an index into a list that begins with the plainest choice, so that Hypothesis shrinks a failure
to small dimensions, dense layouts, normal values and one call. Work is bounded call by call: by the elements of the
arguments, and by the product of all dimensions, which no einsum-like operator exceeds by much.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, product
from typing import Any, TypeVar

from hypothesis import strategies as st

from ..argument import LAYOUTS, Optional, Param, Scalar, Tensor
from ..case import BACKWARDS, COTANGENT, PLANS, Call, Case
from ..expression import Expression, ExpressionError, shape
from ..task import Range, Task
from ..values import Integers, Masks
from .coverage import COTANGENT_LAYOUTS, UNBOUNDED, derive, fits, leaf_sets, takes_layout, takes_plans
from .inputs import EDGES

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]

BUDGETS = (*[1 << 12] * 16, *[1 << 16] * 10, *[1 << 18] * 5, 1 << 21)  # elements of a call's arguments
GRADIENT_BUDGETS = BUDGETS[:-1]  # a backward has more to do
WAYS = (*[None] * 6, *BACKWARDS)  # how a backward is called
WORK = 8  # products of dimensions allowed per element of the budget
KINDS = ("values", "shape", "dtype", "state", "all")  # what changes from one call to the next
CALLS = (*[1] * 5, 2, 3, 4)  # in one child
PLAIN = 4  # how often a plain dtype or layout, or normal values, is drawn for each time that another one is
NANS = ("nan", "nan")  # drawn more often than other plans: what drops them is mostly a tail, which is seldom met
ALIKE = (*[False] * 3, True)  # whether all inputs have the layout, or the value plan, of the first that may have it
SQUARE = 9  # how often all dimensions are as they were drawn for each time that two are made equal
FULL = (*[False] * 3, True)  # whether the last dimension takes what is left of the budget
ATTEMPTS = 4  # at sizes that keep the task's condition, before a named shape is taken
SIZES = (*["listed"] * 12, *["any"] * 6, "least")  # worth trying, any at all, as small as it may be
NEAR = 6  # sizes below a limit that count as near it
STRIDED_PARAMS = (*[False] * 5, True)  # whether parameters have layouts of their own


@lru_cache(maxsize=64)
def cases(task: Task, device: str, *, gradients: bool = False) -> st.SearchStrategy[Case]:
    """A strategy of cases inside the task's declaration; with `gradients`, of calls with a backward."""
    choices = _with_gradients(task, _choices(task, device)) if gradients else _choices(task, device)

    @st.composite
    def drawn(draw: Draw) -> Case:
        pick = Picks(draw, 0)
        calls = [_call(pick, task, choices, draw(SEED))]
        for position in range(1, pick("calls", CALLS)):
            calls.append(_following(Picks(draw, position), task, choices, calls[-1]))
        return Case(tuple(calls))

    return drawn()


@dataclass(frozen=True, slots=True)
class Choices:
    """All that can be drawn for a task; the first of each is the plainest."""

    sizes: Mapping[str, tuple[int, ...]]  # per dimension, ascending, > 0 if possible; empty: only named shapes
    flops: Expression | None  # of one call, where the task declares them
    least: Mapping[str, int]  # per dimension that may vary
    ranges: frozenset[str]  # dimensions of which every size between two others is allowed
    volumes: Mapping[tuple[Expression, ...], int]  # shapes of arguments, and how many have each
    shapes: tuple[tuple[tuple[str, int], ...], ...]
    dtypes: tuple[str, ...]
    states: tuple[str | None, ...]
    scalars: tuple[tuple[str, tuple[Any, ...]], ...]
    optional: tuple[str, ...]
    layouts: tuple[tuple[str, tuple[str, ...]], ...]
    param_layouts: tuple[tuple[str, tuple[str, ...]], ...]
    plans: tuple[tuple[str, tuple[str, ...]], ...]
    budgets: tuple[int, ...] = ()
    leaves: tuple[tuple[str, ...], ...] = ()  # sets of arguments whose gradients are asked for
    cotangents: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # their layouts and value plans


def _with_gradients(task: Task, choices: Choices) -> Choices:
    """The same for calls with a backward: of finite values, and a little smaller."""
    plans = tuple((name, tuple(each for each in kinds if each not in UNBOUNDED)) for name, kinds in choices.plans)
    whole, *parts = leaf_sets(task)
    finite = tuple(plan for plan in PLANS if plan not in UNBOUNDED and plan != "normal")
    layouts = ("dense",) * PLAIN + tuple(each for each in COTANGENT_LAYOUTS if each != "dense")
    return replace(
        choices,
        plans=plans,
        budgets=GRADIENT_BUDGETS,
        leaves=(*(whole,) * max(len(parts), 1), *parts),
        cotangents=(layouts, ("normal",) * PLAIN + finite),
    )


def _choices(task: Task, device: str) -> Choices:
    """What the declaration allows."""
    shapes = [tuple(task.shapes[name].items()) for name in task.graded_shapes(device)]
    shapes.sort(key=lambda dims: math.prod(size for _, size in dims))
    shapes = [dims for dims in shapes if math.prod(size for _, size in dims) <= WORK * max(BUDGETS)] or shapes[:1]
    bounded = tuple(plan for plan in PLANS if plan not in UNBOUNDED and plan != "normal")
    plans = (*bounded, *((*UNBOUNDED, *NANS) if task.nan == "propagate" else ()))
    kinds: list[tuple[str, tuple[str, ...]]] = []
    layouts: dict[type, list[tuple[str, tuple[str, ...]]]] = {Tensor: [], Param: []}
    for each in task.tensors:
        others = tuple(layout for layout in LAYOUTS if layout != "dense" and takes_layout(task, each, layout))
        layouts[type(each)].append((each.name, ("dense",) * PLAIN + others))
        if isinstance(each, Tensor) and isinstance(each.values, Masks):
            kinds.append((each.name, each.values.kinds))
        elif isinstance(each, Tensor) and isinstance(each.values, Integers) and task.inputs is None:
            kinds.append((each.name, ("normal", "normal", EDGES)))
        elif isinstance(each, Tensor) and takes_plans(task, each):
            kinds.append((each.name, ("normal",) * PLAIN + plans))
    return Choices(
        sizes={name: sizes(task, name) for name in task.dimensions} if task.fuzz else {},
        volumes=_volumes(task),
        flops=_flops(task),
        least={name: each.low for name, each in task.fuzz.items()},
        ranges=frozenset(name for name, each in task.fuzz.items() if not each.choices),
        shapes=tuple(shapes),
        dtypes=(task.dtypes[0],) * max(len(task.dtypes) - 1, 1) + tuple(task.dtypes[1:]),
        states=task.states or (None,),
        scalars=tuple((each.name, each.choices) for each in task.arguments if isinstance(each, Scalar)),
        optional=tuple(each.name for each in task.arguments if isinstance(each, Optional)),
        layouts=tuple(layouts[Tensor]),
        param_layouts=tuple(layouts[Param]),
        plans=tuple(kinds),
    )


def sizes(task: Task, name: str) -> tuple[int, ...]:
    """Sizes of a dimension that are worth trying, ascending; small ones several times."""
    named = [dims[name] for dims in task.shapes.values()]
    allowed = task.fuzz.get(name)
    if not isinstance(allowed, Range):
        return tuple(sorted(set(named)))
    if allowed.choices:
        return tuple(sorted(size for size in set(allowed.choices) if size)) or (0,)
    tried = (*_telling(min(allowed.high, WORK * max(BUDGETS))), *named, *[allowed.high] * 2)
    return tuple(sorted(size for size in tried if size and size in allowed)) or (0,)


def _telling(most: int) -> tuple[int, ...]:
    """One, every small number, powers of two with their neighbours, primes, tiles and a little more."""
    if most < 18:
        return tuple(range(1, most + 1))
    found = [*[1] * 5, *[2] * 2, *[3] * 2, *range(4, 18)]
    power = 32
    while power - 1 <= most:
        found += [power - 1, power, power + 1, _prime(power + power // 3), power + power // 2, power + power // 2 + 5]
        found += [power + 7] if power % 64 == 0 else []
        power *= 2
    return tuple(found)


def _prime(least: int) -> int:
    """The first prime from here on."""
    return next(n for n in range(least, 2 * least + 2) if all(n % d for d in range(2, math.isqrt(n) + 1)))


class Picks:
    """The choices of one call: each from a strategy like no other, or Hypothesis would copy one choice to others."""

    def __init__(self, draw: Draw, position: int) -> None:
        self._draw, self._position = draw, position

    def __call__(self, what: str, values: tuple[T, ...]) -> T:
        """One of the values, the first when shrunk."""
        return self._draw(_choice(f"{self._position} {what}", values))[1] if len(values) > 1 else values[0]


@lru_cache(maxsize=4096)
def _choice(what: str, values: tuple[T, ...]) -> st.SearchStrategy[tuple[str, T]]:
    return st.sampled_from([(what, value) for value in values])


SEEDS = 1 << 64
SEED = st.integers(0, SEEDS - 1)


def _call(pick: Picks, task: Task, choices: Choices, seed: int) -> Call:
    """One call, all of it drawn anew."""
    strided = choices.layouts + (choices.param_layouts if pick("strided parameters", STRIDED_PARAMS) else ())
    plans, layouts = _of_each(pick, "plan", choices.plans), _of_each(pick, "layout", strided)
    leaves: tuple[str, ...] = ()
    backward: str | None = None
    if choices.leaves:
        leaves, backward = pick("leaves", choices.leaves), pick("backward", WAYS)
        layouts.append((COTANGENT, pick("layout cotangent", choices.cotangents[0])))
        plans.append((COTANGENT, pick("plan cotangent", choices.cotangents[1])))
    return Call(
        dims=_dims(pick, task, choices, seed),
        dtype=pick("dtype", choices.dtypes),
        state=pick("state", choices.states),
        scalars=tuple((name, pick(name, values)) for name, values in choices.scalars),
        absent=tuple(name for name in choices.optional if pick(name, (False, True))),
        layouts=tuple((name, layout) for name, layout in layouts if layout != "dense"),
        plans=tuple((name, plan) for name, plan in plans if plan != "normal"),
        grad=leaves,
        backward=backward,
        seed=seed,
    )


def _of_each(pick: Picks, what: str, choices: Sequence[tuple[str, tuple[str, ...]]]) -> list[tuple[str, str]]:
    """What every argument has: each something of its own, or all alike as far as they can."""
    if len(choices) > 1 and pick(f"{what}s alike", ALIKE):
        common = pick(what, max((values for _, values in choices), key=len))
        return [(name, common if common in values else values[0]) for name, values in choices]
    return [(name, pick(f"{what} {name}", values)) for name, values in choices]


def _following(pick: Picks, task: Task, choices: Choices, last: Call) -> Call:
    """A call after another: new values in the same buffers, another shape, dtype or state, or all of it anew."""
    kind = pick("kind", KINDS)
    seed = (last.seed + 1) % SEEDS  # never the same values again
    match kind:
        case "values":
            return replace(last, seed=seed)
        case "shape":
            return replace(last, dims=_dims(pick, task, choices, seed), seed=seed)
        case "dtype":
            return replace(last, dtype=pick("dtype", choices.dtypes), seed=seed)
        case "state":
            scalars = tuple((name, pick(name, values)) for name, values in choices.scalars)
            return replace(last, state=pick("state", choices.states), scalars=scalars, seed=seed)
        case _:
            return _call(pick, task, choices, seed)


def _dims(pick: Picks, task: Task, choices: Choices, seed: int) -> tuple[tuple[str, int], ...]:
    """Sizes, one dimension after another, beginning anywhere: each is the long one now and then. Else a named shape."""
    for attempt in range(ATTEMPTS if choices.sizes else 0):
        dims = _within(pick, task, choices, attempt, seed)
        if fits(task, dims) and _cost(choices, dims) <= max(BUDGETS):
            return tuple(dims.items())
    return pick("shape", choices.shapes)


def _within(pick: Picks, task: Task, choices: Choices, attempt: int, seed: int) -> dict[str, int]:
    """Sizes whose cost is within a budget; the task's own condition may not hold."""

    def drawn(what: str, values: tuple[T, ...]) -> T:
        return pick(f"{what} {attempt}", values)

    budget = drawn("budget", choices.budgets or BUDGETS)
    names = tuple(choices.sizes)
    start, fill = drawn("first", tuple(product(range(len(names)), FULL)))
    dims = {name: each[0] for name, each in choices.sizes.items()}
    order = (*names[start:], *names[:start])
    for name in order:
        listed = choices.sizes[name]
        most = max(bisect_right(listed, budget, key=lambda size: _cost(choices, {**dims, name: size})), 1)
        full = fill and name == order[-1]
        index = drawn(f"near {name}" if full else name, tuple(range(max(most - NEAR, 0) if full else 0, most)))
        dims[name] = listed[index]
        match drawn(f"size {name}", SIZES) if name in choices.least else "listed":
            case "any" if index and name in choices.ranges:
                # Sizes from the one before: what only listed ones show can be avoided by who knows the list.
                dims[name] -= derive(seed, name, attempt) % max(listed[index] - listed[index - 1], 1)
            case "least":
                dims[name] = choices.least[name]
    if len(order) > 1:
        pairs = tuple(combinations(names, 2))
        both = drawn("square", ((),) * SQUARE * len(pairs) + pairs)
        side = min((dims[name] for name in both), default=0)
        dims.update({name: side for name in both if side in task.fuzz.get(name, ())})
    return dims


def cost(task: Task, dims: Mapping[str, int]) -> int:
    """What a call costs, in elements of its arguments."""
    return _spent(_volumes(task), _flops(task), dims)


def _volumes(task: Task) -> Mapping[tuple[Expression, ...], int]:
    return Counter(shape(each.shape) for each in task.tensors)


def _flops(task: Task) -> Expression | None:
    return None if task.flops is None else Expression(task.flops)


def _cost(choices: Choices, dims: Mapping[str, int]) -> int:
    return _spent(choices.volumes, choices.flops, dims)


def _spent(volumes: Mapping[tuple[Expression, ...], int], flops: Expression | None, dims: Mapping[str, int]) -> int:
    """Elements of all arguments, or the work where that is more; nothing is free of cost because a dimension is 0."""
    filled = {name: max(size, 1) for name, size in dims.items()}
    try:
        elements = sum(
            count * math.prod(max(extent(filled), 0) for extent in extents) for extents, count in volumes.items()
        )
    except ExpressionError:  # a division by zero: `fits` tells what that means
        elements = 0
    work = math.prod(filled.values()) if flops is None else max(flops(filled), 0) // 2
    return max(elements, work // WORK)
