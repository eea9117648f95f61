"""The fixed cases of a task: all pairs of its factors, and the sequences of calls that a contract check makes.

Ids depend on the declaration alone; only the seeds inside the cases depend on the run.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from ..argument import FLOATS, LAYOUTS, Optional, Param, Scalar, Tensor
from ..case import DTYPE_NAMES, PLANS, Call, Case, NamedCase
from ..expression import shape
from ..task import Task
from ..values import Masks

SEEDS = 3
UNBOUNDED = ("nan", "inf", "huge")
LARGEST = 1 << 22

Factor = tuple[str, tuple[Any, ...]]
Row = dict[str, Any]


def fixed_cases(task: Task, device: str, seed: int) -> tuple[NamedCase, ...]:
    """The cases of the correct check: every pair of factor values at least once, each row with three seeds."""
    factors = _factors(task, device)
    cases = []
    for row in pairwise(factors):
        call, parts = _call(task, row), _id(task, factors, row)
        for index in range(SEEDS):
            name = ":".join([*parts, f"s{index}"])
            cases.append(NamedCase(name, Case((replace(call, seed=derive(seed, task.name, name)),))))
    return tuple(cases)


def sequences(task: Task, device: str, seed: int) -> tuple[NamedCase, ...]:
    """The cases of the contract check: several calls in one child, per dtype.

    `replay` — the same buffers with new values; `sizes` — small, large, small; `states` — other parameters.
    """
    names = sorted(task.graded_shapes(device), key=lambda name: elements(task, name))
    small, large = names[0], next((name for name in reversed(names) if elements(task, name) <= LARGEST), names[0])
    first = {name: values[0] for name, values in _factors(task, device)}
    cases = []
    for dtype in task.dtypes:
        row = {**first, "dtype": dtype}
        middle = {**row, "shape": names[len(names) // 2]}
        plans = {"replay": [middle] * 3, "sizes": [{**row, "shape": name} for name in (small, large, small)]}
        if len(task.states) > 1:
            plans["states"] = [{**middle, "state": state} for state in (*task.states, task.states[0])]
        for plan, rows in plans.items():
            name = f"{plan}:{DTYPE_NAMES[dtype]}"
            calls = (
                replace(_call(task, each), seed=derive(seed, task.name, name, index)) for index, each in enumerate(rows)
            )
            cases.append(NamedCase(name, Case(tuple(calls))))
    return tuple(cases)


def derive(seed: int, *parts: object) -> int:
    """A 64-bit seed from the run's seed and what it is for: a keyed hash, so that no seed tells another."""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=seed.to_bytes(16, "little")).digest(), "little")


def elements(task: Task, name: str) -> int:
    """How many elements a named shape's arguments have together."""
    return sum(math.prod(size(task.shapes[name]) for size in shape(each.shape)) for each in task.tensors)


def pairwise(factors: Sequence[Factor]) -> list[Row]:
    """Rows that cover every pair of values of any two factors: greedy, deterministic (Cohen et al., AETG, 1997)."""
    names = [name for name, _ in factors]
    values = dict(factors)
    open_pairs = {
        ((a, i), (b, j)): None
        for a, b in combinations(names, 2)
        for i in range(len(values[a]))
        for j in range(len(values[b]))
    }
    if len(names) == 1:
        return [{names[0]: value} for value in values[names[0]]]
    rows = []
    while open_pairs:
        chosen = dict(next(iter(open_pairs)))
        for name in names:
            if name not in chosen:
                chosen[name] = max(range(len(values[name])), key=lambda i: (_gain(name, i, chosen, open_pairs), -i))
        row = [(name, chosen[name]) for name in names]
        for pair in combinations(row, 2):
            open_pairs.pop(pair, None)
        rows.append({name: values[name][index] for name, index in row})
    return rows


def _gain(name: str, index: int, chosen: dict[str, int], open_pairs: dict[Any, None]) -> int:
    here = (name, index)
    return sum((other, here) in open_pairs or (here, other) in open_pairs for other in chosen.items())


def _factors(task: Task, device: str) -> list[Factor]:
    free = [each for each in task.tensors if isinstance(each, Tensor) and takes_plans(each)]
    plans = tuple(plan for plan in PLANS if task.nan == "propagate" or plan not in UNBOUNDED)
    factors: list[Factor] = [
        ("shape", task.graded_shapes(device)),
        ("dtype", tuple(task.dtypes)),
        ("state", task.states or (None,)),
        (
            "layout",
            tuple(layout for layout in LAYOUTS if any(takes_layout(task, each, layout) for each in task.tensors)),
        ),
        ("plan", plans if free else PLANS[:1]),
    ]
    for each in task.arguments:
        if isinstance(each, Scalar):
            factors.append((each.name, each.choices))
        if isinstance(each, Optional):
            factors.append((f"{each.name}?", (True, False)))
    factors += [
        (each.name, each.values.kinds)
        for each in task.tensors
        if isinstance(each, Tensor) and isinstance(each.values, Masks)
    ]
    return factors


def takes_plans(tensor: Tensor) -> bool:
    """Whether the value plans apply to this input: a floating-point one that declares no values of its own."""
    return tensor.values is None and (tensor.dtype or "float32") in FLOATS


def takes_layout(task: Task, tensor: Tensor | Param, layout: str) -> bool:
    """Whether fixed cases give this argument that layout: inputs only, and nothing that is written may be expanded."""
    rank = len(shape(tensor.shape))
    if layout == "dense":
        return True
    if isinstance(tensor, Param) or (layout == "expanded" and tensor.name in task.in_place):
        return False
    return rank >= (2 if layout == "transposed" else 1)


def _call(task: Task, row: Row) -> Call:
    masks = tuple(
        (each.name, row[each.name])
        for each in task.tensors
        if isinstance(each, Tensor) and isinstance(each.values, Masks)
    )
    plans = tuple((each.name, row["plan"]) for each in task.tensors if isinstance(each, Tensor) and takes_plans(each))
    return Call(
        dims=tuple(task.shapes[row["shape"]].items()),
        dtype=row["dtype"],
        state=row["state"],
        scalars=tuple((each.name, row[each.name]) for each in task.arguments if isinstance(each, Scalar)),
        absent=tuple(each.name for each in task.arguments if isinstance(each, Optional) and not row[f"{each.name}?"]),
        layouts=tuple(
            (each.name, row["layout"])
            for each in task.tensors
            if row["layout"] != "dense" and takes_layout(task, each, row["layout"])
        ),
        plans=(*(pair for pair in plans if pair[1] != "normal"), *masks),
    )


def _id(task: Task, factors: Sequence[Factor], row: Row) -> list[str]:
    parts = [row["shape"], DTYPE_NAMES[row["dtype"]]]
    parts += [row["state"]] if row["state"] is not None else []
    parts += [layout for layout in (row["layout"],) if layout != "dense"]
    parts += [plan for plan in (row["plan"],) if plan != "normal"]
    for name, values in factors[5:]:
        if name.endswith("?"):
            parts += [] if row[name] else [f"no-{name[:-1]}"]
        elif len(values) > 1:
            parts.append(f"{name}={row[name]}")
    return parts
