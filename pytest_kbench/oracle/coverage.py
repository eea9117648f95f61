"""The fixed cases of a task: all pairs of its factors, and the sequences of calls that a contract check makes.

Ids depend on the declaration alone; only the seeds inside the cases depend on the run.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from ..argument import FLOATS, LAYOUTS, Optional, Param, Scalar, Tensor
from ..case import BACKWARDS, COTANGENT, DTYPE_NAMES, PLANS, SUMMED, Call, Case, NamedCase
from ..expression import Expression, ExpressionError, shape
from ..sweep import Sweep
from ..task import Task
from ..values import Masks

SEEDS = 3
MIXED = 6
UNBOUNDED = ("nan", "inf", "huge", "extreme")
FUZZED = ("sorted", "levels", "subnormal", "zeros", "tiny", "extreme")  # value plans that fixed cases do without
LARGEST = 1 << 22
DRAWN = 2  # indices of a batch that are looked at alone, beside the first, the middle and the last

Key = tuple[str, str]  # what is varied ("layout"), and of which argument ("x", or "" for the whole call)
Factor = tuple[Key, tuple[Any, ...]]
Row = dict[Key, Any]

SHAPE, DTYPE, STATE = ("shape", ""), ("dtype", ""), ("state", "")
LEAVES, BACKWARD = ("leaves", ""), ("backward", "")

COTANGENT_LAYOUTS = ("dense", "transposed", "sliced", "offset", "expanded", SUMMED)
COTANGENT_PLANS = ("normal", "scaled", "constant", "spike")


def fixed_cases(task: Task, device: str, seed: int) -> tuple[NamedCase, ...]:
    """The cases of the correct check: every pair of factor values at least once, each row with three seeds."""
    all_factors = factors(task, device)
    cases = []
    for row in pairwise(all_factors):
        call, parts = _call(task, row), _id(task, all_factors, row)
        for index in range(SEEDS):
            name = ":".join([*parts, f"s{index}"])
            cases.append(NamedCase(name, Case((replace(call, seed=derive(seed, task.name, name)),))))
    return tuple(cases)


def gradients(task: Task, device: str, seed: int) -> tuple[NamedCase, ...]:
    """The cases of the grad check: every pair of factor values at least once, those of cotangents and leaves too.

    Where values are NaN or infinite, gradients depend on the form of the formula: inputs are finite here.
    """
    if not task.grad:
        return ()
    all_factors = gradient_factors(task, device)
    cases = []
    for row in pairwise(all_factors):
        name = ":".join([*_id(task, all_factors, row), "s0"])
        cases.append(NamedCase(name, Case((replace(_call(task, row), seed=derive(seed, task.name, "grad", name)),))))
    return tuple(cases)


def sequences(task: Task, device: str, seed: int) -> tuple[NamedCase, ...]:
    """The cases of the contract check: several calls in one child, per dtype.

    `replay` — the same buffers with new values; `sizes` — small, large, small; `states` — other parameters; `mixed` —
    all that varies, in an order that the seed draws.
    """
    names = _by_size(task, device)
    if not names:
        return ()
    large = _largest(task, names)
    all_factors = factors(task, device)
    plain = {key: values[0] for key, values in all_factors}
    cases = []
    for dtype in task.dtypes:
        middle = {**plain, DTYPE: dtype, SHAPE: names[len(names) // 2]}
        plans = {"replay": [middle] * 3}
        if large != names[0]:
            plans["sizes"] = [{**middle, SHAPE: name} for name in (names[0], large, names[0])]
        if len(task.states) > 1:
            plans["states"] = [{**middle, STATE: state} for state in (*task.states, task.states[0])]
        dense = [(key, values) for key, values in all_factors if key[0] not in ("layout", "plan")]
        drawn = _drawn(dense, derive(seed, task.name, "mixed", dtype))
        plans["mixed"] = [{**plain, **row, DTYPE: dtype} for row in drawn]
        for plan, rows in plans.items():
            name = f"{plan}:{DTYPE_NAMES[dtype]}"
            seeds = (derive(seed, task.name, name, index) for index in range(len(rows)))
            calls = (replace(_call(task, row), seed=each) for row, each in zip(rows, seeds, strict=True))
            cases.append(NamedCase(name, Case(tuple(calls))))
    return tuple(cases)


def timed(task: Task, device: str, seed: int) -> tuple[NamedCase, ...]:
    """The calls that are timed: the plain one of each shape in the task's `time`, in its first dtype.

    Where the task names none for this device it is its largest shape; `time_backward` adds the backward of each.
    """
    names = [name for name in task.time.get(device, ()) if name in task.shapes] or _by_size(task, device)[-1:]
    plain = {key: values[0] for key, values in factors(task, device)}
    cases = []
    for name in names:
        call = _call(task, {**plain, SHAPE: name, DTYPE: task.dtypes[0]})
        leaves: tuple[tuple[str, ...], ...] = ((), tuple(task.grad)) if task.time_backward and task.grad else ((),)
        for each in leaves:
            parts = [name, DTYPE_NAMES[task.dtypes[0]], *(["backward"] if each else [])]
            drawn = derive(seed, task.name, "speed", *parts)
            cases.append(NamedCase(":".join(parts), Case((replace(call, grad=each, seed=drawn),))))
    return tuple(cases)


def swept(task: Task, device: str, seed: int, sweeps: Sequence[Sweep]) -> tuple[NamedCase, ...]:
    """The largest timed call with other sizes of one dimension, as far as the task declares them."""
    calls = [each.case.calls[0] for each in timed(task, device, seed)]
    if not calls:
        return ()
    call = max(calls, key=lambda each: math.prod(size for _, size in each.dims))
    cases = []
    for sweep in (each for each in sweeps if each.dimension in task.fuzz):
        for size in sweep.sizes:
            dims = tuple((name, size if name == sweep.dimension else extent) for name, extent in call.dims)
            if size not in task.fuzz[sweep.dimension] or not fits(task, dict(dims)):
                continue
            parts = [f"{sweep.dimension}={size}", DTYPE_NAMES[task.dtypes[0]]]
            drawn = derive(seed, task.name, "speed", *parts)
            cases.append(NamedCase(":".join(parts), Case((replace(call, dims=dims, grad=(), seed=drawn),))))
    return tuple(cases)


def fits(task: Task, dims: Mapping[str, int]) -> bool:
    """Whether the task's own condition holds, and every argument has a shape."""
    try:
        if task.where is not None and not Expression(task.where)(dims):
            return False
        present = (
            each
            for each in task.tensors
            if not (isinstance(each, Param) and each.present and not Expression(each.present)(dims))
        )
        return all(extent(dims) >= 0 for each in present for extent in shape(each.shape))
    except ExpressionError:
        return False


def repeats(task: Task, device: str, seed: int, leaves: Sequence[str] = ()) -> tuple[NamedCase, ...]:
    """Per dtype one plain call, of the largest shape that is not enormous; with a backward where there are `leaves`."""
    names = _by_size(task, device)
    if not names:
        return ()
    plain = {key: values[0] for key, values in factors(task, device)}
    cases = []
    for dtype in task.dtypes:
        call = _call(task, {**plain, DTYPE: dtype, SHAPE: _largest(task, names), LEAVES: tuple(leaves)})
        name = ":".join([DTYPE_NAMES[dtype], *(["grad"] if leaves else [])])
        cases.append(NamedCase(name, Case((replace(call, seed=derive(seed, task.name, "repeats", name)),))))
    return tuple(cases)


def batches(task: Task, device: str, seed: int) -> tuple[NamedCase, ...]:
    """Where the task names a dimension as `batch_invariant`, per dtype one plain call and some of its indices alone.

    The shape is the largest one that is not enormous, of those that have more than one index.
    """
    dimension = task.batch_invariant
    names = [each for each in _by_size(task, device) if dimension and task.shapes[each][dimension] > 1]
    if dimension is None or not names:
        return ()
    plain = {key: values[0] for key, values in factors(task, device)}
    cases = []
    for dtype in task.dtypes:
        row = {**plain, DTYPE: dtype, SHAPE: _largest(task, names)}
        name = f"batch:{DTYPE_NAMES[dtype]}"
        whole = replace(_call(task, row), seed=derive(seed, task.name, name))
        size = task.shapes[row[SHAPE]][dimension]
        drawn = random.Random(derive(seed, task.name, name, "indices")).choices(range(size), k=DRAWN)
        indices = dict.fromkeys((0, size // 2, size - 1, *drawn))
        alone = (replace(whole, only=((dimension, index),)) for index in indices)
        cases.append(NamedCase(name, Case((whole, *alone))))
    return tuple(cases)


def another(task: Task, call: Call) -> Call:
    """A small plain call that differs in all that it can: in shape, initial state, numbers and values."""
    names = [name for name, dims in task.shapes.items() if all(dims.values())]
    sizes = [tuple(task.shapes[name].items()) for name in sorted(names, key=lambda name: elements(task, name))]
    given = dict(call.scalars)
    return Call(
        dims=_other_than(call.dims, sizes),
        dtype=call.dtype,
        state=_other_than(call.state, task.states),
        scalars=tuple(
            (each.name, _other_than(given[each.name], each.choices))
            for each in task.arguments
            if isinstance(each, Scalar)
        ),
        absent=call.absent,
        seed=derive(call.seed, "another"),
        grad=tuple(task.grad),
    )


def _other_than(value: Any, choices: Sequence[Any]) -> Any:
    return next((each for each in choices if each != value), value)


def _by_size(task: Task, device: str) -> list[str]:
    return sorted(task.graded_shapes(device), key=lambda name: elements(task, name))


def _largest(task: Task, names: Sequence[str]) -> str:
    return next((name for name in reversed(names) if elements(task, name) <= LARGEST), names[0])


def derive(seed: int, *parts: object) -> int:
    """A 64-bit seed from the run's seed and what it is for: a keyed hash, so that no seed tells another."""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=seed.to_bytes(16, "little")).digest(), "little")


def elements(task: Task, name: str) -> int:
    """How many elements a named shape's arguments have together."""
    return sum(math.prod(size(task.shapes[name]) for size in shape(each.shape)) for each in task.tensors)


def pairwise(factors: Sequence[Factor]) -> list[Row]:
    """Rows that cover every pair of values of any two factors: greedy, deterministic (Cohen et al., AETG, 1997).

    No rows if a factor has no values. Factors of one value cost nothing.
    """
    keys = [key for key, _ in factors]
    values = dict(factors)
    assert len(values) == len(keys), "a factor is named twice"
    if not all(values.values()):
        return []
    open_pairs = {
        ((a, i), (b, j)): None
        for a, b in combinations(keys, 2)
        for i in range(len(values[a]))
        for j in range(len(values[b]))
    }
    rows = []
    while open_pairs:
        chosen = dict(next(iter(open_pairs)))
        for key in keys:
            if key not in chosen:
                chosen[key] = max(range(len(values[key])), key=lambda i: (_gain(key, i, chosen, open_pairs), -i))
        row = [(key, chosen[key]) for key in keys]
        for pair in combinations(row, 2):
            open_pairs.pop(pair, None)
        rows.append({key: values[key][index] for key, index in row})
    return rows


def _gain(key: Key, index: int, chosen: dict[Key, int], open_pairs: dict[Any, None]) -> int:
    here = (key, index)
    return sum((other, here) in open_pairs or (here, other) in open_pairs for other in chosen.items())


def _drawn(factors: Sequence[Factor], seed: int) -> list[Row]:
    generator = random.Random(seed)
    return [{key: generator.choice(values) for key, values in factors} for _ in range(MIXED)]


def factors(task: Task, device: str) -> list[Factor]:
    """All that varies between calls of a task, each with its values; the first value is the plain one."""
    left_out = FUZZED if task.nan == "propagate" else (*FUZZED, *UNBOUNDED)
    plans = tuple(plan for plan in PLANS if plan not in left_out)
    found: list[Factor] = [
        (SHAPE, task.graded_shapes(device)),
        (DTYPE, tuple(task.dtypes)),
        (STATE, task.states or (None,)),
    ]
    for each in task.tensors:
        if isinstance(each, Tensor):
            layouts = tuple(layout for layout in LAYOUTS if takes_layout(task, each, layout))
            kinds = (
                each.values.kinds if isinstance(each.values, Masks) else plans if takes_plans(task, each) else PLANS[:1]
            )
            found += [(("layout", each.name), layouts), (("plan", each.name), kinds)]
    for argument in task.arguments:
        if isinstance(argument, Scalar):
            found.append((("scalar", argument.name), argument.choices))
        if isinstance(argument, Optional):
            found.append((("present", argument.name), (True, False)))
    return found


def gradient_factors(task: Task, device: str) -> list[Factor]:
    """All that varies between calls with a backward."""
    found = []
    for key, values in factors(task, device):
        finite = tuple(value for value in values if value not in UNBOUNDED) if key[0] == "plan" else values
        found.append((key, finite))
    leaves = leaf_sets(task)
    return [
        *found,
        (("layout", COTANGENT), COTANGENT_LAYOUTS),
        (("plan", COTANGENT), COTANGENT_PLANS),
        (LEAVES, leaves),
        (BACKWARD, (None, *BACKWARDS)),
    ]


def leaf_sets(task: Task) -> tuple[tuple[str, ...], ...]:
    """Which arguments' gradients are asked for together: all, one alone, all but one (as where a layer is frozen)."""
    names = tuple(task.grad)
    single = [(name,) for name in names]
    but_one = [tuple(each for each in names if each != name) for name in names]
    return tuple(dict.fromkeys((names, *single, *filter(None, but_one))))


def takes_plans(task: Task, tensor: Tensor) -> bool:
    """Whether the value plans apply to this input: a floating-point one whose values nothing else decides."""
    return tensor.values is None and task.inputs is None and (tensor.dtype or "float32") in FLOATS


def takes_layout(task: Task, tensor: Tensor | Param, layout: str) -> bool:
    """Whether an argument has the rank for this layout; what is written, or made together, is never expanded."""
    if layout == "expanded" and (tensor.name in task.in_place or task.inputs is not None):
        return False
    rank = len(shape(tensor.shape))
    return rank == 4 if layout == "channels_last" else rank >= {"dense": 0, "transposed": 2}.get(layout, 1)


def _of(row: Row, kind: str) -> list[tuple[str, Any]]:
    return [(name, value) for (each, name), value in row.items() if each == kind]


def _call(task: Task, row: Row) -> Call:
    return Call(
        dims=tuple(task.shapes[row[SHAPE]].items()),
        dtype=row[DTYPE],
        state=row[STATE],
        scalars=tuple(_of(row, "scalar")),
        absent=tuple(name for name, present in _of(row, "present") if not present),
        layouts=tuple((name, layout) for name, layout in _of(row, "layout") if layout != "dense"),
        plans=tuple((name, plan) for name, plan in _of(row, "plan") if plan != "normal"),
        grad=row.get(LEAVES, ()),
        backward=row.get(BACKWARD),
    )


def _id(task: Task, factors: Sequence[Factor], row: Row) -> list[str]:
    """What tells the row from others: values that are not plain, with their argument's name where there are several."""
    inputs = sum(isinstance(each, Tensor) for each in task.tensors)
    parts = [row[SHAPE], DTYPE_NAMES[row[DTYPE]], *([row[STATE]] if row[STATE] is not None else [])]
    for key, values in factors[3:]:
        kind, name = key
        value = row[key]
        if kind == "present":
            parts += [] if value else [f"no-{name}"]
        elif kind == "scalar":
            parts += [f"{name}-{value}"] if len(values) > 1 else []
        elif key == LEAVES:
            parts += [] if value == tuple(task.grad) else [f"to-{'-'.join(value)}"]
        elif key == BACKWARD:
            parts += [] if value is None else [value]
        elif value not in ("dense", "normal"):
            parts.append(f"{name}-{value}" if inputs > 1 or name == COTANGENT else value)
    return parts
