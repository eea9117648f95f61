"""One output against golden: how many elements are wrong, how far, and where they lie."""

from __future__ import annotations

import math
import sys
from typing import Final

import torch
from torch import Tensor

from ..record import Comparison
from .tolerance import FINITE, Bound, kinds, norm

_TILES: Final = (1024, 512, 256, 128, 64, 32, 16, 8, 4)  # widths of tiles and vectors, for naming a tail
_EXPLAINED: Final = 1e-2  # an explanation must leave at most this part of the error


def compare(actual: Tensor, golden: Tensor, bound: Bound, *, output: int) -> Comparison:
    """Judge one output; pure, and quick when nothing is wrong.

    `actual`: the candidate's output, a copy that nobody else writes, of any float, integer or bool dtype. `golden`:
    float64 for float outputs; for integer and bool outputs any dtype that holds the values. Same shape, same device.
    `wrong` counts finite elements beyond the bound, `nonfinite` elements whose kind (finite, NaN, +inf, -inf) is not
    accepted. The worst element is the one with the largest error over allowed; if there is no finite error beyond the
    bound, then the first element of the wrong kind.
    """
    if actual.shape != golden.shape:
        raise ValueError(f"output {output}: shape {tuple(actual.shape)} cannot be compared with {tuple(golden.shape)}")
    count = actual.numel()
    if not count:
        return Comparison(output, 0)
    if not actual.is_floating_point():
        return _compare_exact(actual, golden, output)
    centre = golden if bound.centre is None else bound.centre
    wide = actual.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    error = wide.sub_(centre)
    size = norm(error)
    if bound.accepts is None and math.isfinite(size):
        worst, ratio = _largest(error.abs_().div_(bound.elementwise).view(-1))
        norm_ratio = None if bound.norm is None else _ratio(size, bound.norm)
        if ratio <= 1.0 and (norm_ratio is None or norm_ratio <= 1.0):
            return _describe(actual, golden, centre, bound, output, worst, norm_ratio=norm_ratio)
    return _compare_fully(actual, golden, centre, bound, output)


def _largest(flat: Tensor) -> tuple[int, float]:
    """Position and value of the largest number; in two steps, because `argmax` is an eighth as quick as `amax`."""
    start, width = 0, 256
    whole = flat.numel() // width * width
    if whole:
        chunks = flat[:whole].view(-1, width).amax(1)
        start = int(chunks.argmax()) * width
        chunk = flat[start : start + width]
        position, value = int(chunk.argmax()), float(chunk.amax())
        if whole == flat.numel() or float(flat[whole:].amax()) <= value:
            return start + position, value
    tail = flat[whole:]
    return whole + int(tail.argmax()), float(tail.amax())


def _compare_fully(actual: Tensor, golden: Tensor, centre: Tensor, bound: Bound, output: int) -> Comparison:
    """The same with non-finite values anywhere, and with an explanation of what is wrong."""
    wide = actual.to(torch.float64)
    kind = kinds(wide)
    accepts = torch.full_like(kind, FINITE) if bound.accepts is None else bound.accepts
    strange = (kind & accepts) == 0
    finite = (kind == FINITE) & ~strange
    error = torch.where(finite & bound.elementwise.isfinite(), wide - centre, 0.0)
    ratios = error.abs() / bound.elementwise
    wrong = finite & (ratios > 1.0)
    norm_ratio = None if bound.norm is None or not bool(finite.any()) else _ratio(norm(error), bound.norm)
    bad_norm = norm_ratio is not None and norm_ratio > 1.0
    wrong_count, strange_count = int(wrong.sum()), int(strange.sum())
    pattern_text = None
    if wrong_count or strange_count:
        pattern_text = _explain(wide, golden, wrong | strange, bound)
    elif bad_norm:
        pattern_text = _explain(wide, golden, torch.ones_like(wrong), bound, fallback=False)
    if strange_count and not wrong_count:
        worst = int(strange.reshape(-1).to(torch.uint8).argmax())
    else:
        worst = int(torch.where(finite, ratios, -1.0).argmax())
    return _describe(
        actual,
        golden,
        centre,
        bound,
        output,
        worst,
        norm_ratio=norm_ratio,
        wrong=wrong_count,
        nonfinite=strange_count,
        pattern=pattern_text,
    )


def _compare_exact(actual: Tensor, golden: Tensor, output: int) -> Comparison:
    """Integers and booleans: equal or wrong, with the difference as the error and nothing allowed."""
    exact = golden.to(actual.dtype)
    unequal = actual != exact
    if golden.is_floating_point():
        unequal |= exact.to(golden.dtype) != golden  # golden is no such integer, so nothing equals it
    wrong = int(unequal.sum())
    if not wrong:
        return Comparison(output, actual.numel(), ratio=0.0)
    distance = torch.where(unequal, (actual.to(torch.float64) - golden.to(torch.float64)).abs(), -1.0)
    worst = int(distance.argmax())
    return Comparison(
        output,
        actual.numel(),
        wrong=wrong,
        worst=_index(worst, actual.shape),
        actual=float(actual.reshape(-1)[worst]),
        golden=float(golden.reshape(-1)[worst]),
        error=max(float(distance.reshape(-1)[worst]), 0.0),
        allowed=0.0,
        ratio=sys.float_info.max,
        pattern=_explain(actual.to(torch.float64), golden.to(torch.float64), unequal, None),
    )


def _describe(
    actual: Tensor,
    golden: Tensor,
    centre: Tensor,
    bound: Bound,
    output: int,
    worst: int,
    *,
    norm_ratio: float | None,
    wrong: int = 0,
    nonfinite: int = 0,
    pattern: str | None = None,
) -> Comparison:
    """Fill a Comparison from the flat index of its worst element."""
    index = _index(worst, actual.shape)
    seen, middle = float(actual[index]), float(centre[index])
    error = abs(seen - middle)
    measured = math.isfinite(error)
    allowed = float(bound.elementwise[index])
    return Comparison(
        output,
        actual.numel(),
        wrong=wrong,
        nonfinite=nonfinite,
        worst=index,
        actual=seen,
        golden=float(golden[index]),
        error=error if measured else None,
        allowed=allowed if measured else None,
        ratio=_ratio(error, allowed) if measured else None,
        norm_ratio=norm_ratio,
        pattern=pattern,
    )


def _ratio(seen: float, allowed: float) -> float:
    """seen / allowed, finite even where nothing is allowed, so that it can be written as JSON."""
    if seen == 0.0:
        return 0.0
    if allowed == 0.0:
        return sys.float_info.max
    return min(seen / allowed, sys.float_info.max)


def _index(flat: int, shape: torch.Size) -> tuple[int, ...]:
    """The index of a flat position in a dense tensor of this shape."""
    index = []
    for size in reversed(shape):
        flat, position = divmod(flat, size)
        index.append(position)
    return tuple(reversed(index))


def _explain(actual: Tensor, golden: Tensor, mask: Tensor, bound: Bound | None, *, fallback: bool = True) -> str | None:
    """What a wrong output is, if that is certain, and where it is wrong: one sentence."""
    place = pattern(mask) if fallback else None
    nature = identity(actual, golden, mask, bound)
    if nature is None:
        return place
    return nature if place in (None, "all elements") or nature.startswith("the whole") else f"{place}: {nature}"


def identity(actual: Tensor, golden: Tensor, mask: Tensor, bound: Bound | None = None) -> str | None:
    """What the wrong elements are, in words; `None` unless it holds for all of them to within the bound.

    `actual`, `golden`: float64 of one shape; `mask`: the wrong elements. Recognised: never written (NaN throughout),
    zero, one constant, golden transposed, and golden times a factor or plus a constant (two free numbers are not
    fitted to fewer than eight elements).
    """
    seen, meant = actual[mask], golden[mask]
    count = seen.numel()
    if not count:
        return None
    whole = "the whole output is" if bool(mask.all()) or _constant(actual) else "these elements are"
    if bool(seen.isnan().all()):
        if bool(meant.isnan().any()) or count < 2:
            return None
        return f"{whole} NaN, as if never written or made from what was not"
    subject, elements = (actual, actual.numel()) if whole.startswith("the whole") else (seen, count)
    if elements > 1 and _constant(subject):
        value = float(subject.reshape(-1)[0])
        return f"{whole} zero" if value == 0.0 else f"{whole} {value:.6g}"
    if not (bool(seen.isfinite().all()) and bool(meant.isfinite().all())):
        return None
    slack = torch.full_like(actual, 1e-12) if bound is None else bound.elementwise
    if _is_transposed(actual, golden, slack):
        return "the whole output is golden transposed"
    if count < 8:
        return None
    return _affine(seen, meant, slack[mask])


def _constant(values: Tensor) -> bool:
    """Whether there is one value only, and not NaN."""
    flat = values.reshape(-1)
    return flat.numel() > 0 and bool((flat == flat[0]).all())


def _is_transposed(actual: Tensor, golden: Tensor, slack: Tensor) -> bool:
    """Whether the values are golden's with the last two dimensions exchanged, in golden's own shape."""
    if golden.dim() < 2 or min(golden.shape[-2:]) < 2:
        return False
    turned = golden.transpose(-1, -2).reshape(golden.shape)
    rest = float((actual - turned).abs().amax())
    return rest <= 2.0 * float(slack.amax()) and rest <= _EXPLAINED * float((actual - golden).abs().amax())


def _affine(seen: Tensor, meant: Tensor, slack: Tensor) -> str | None:
    """Golden times one factor, or plus one constant, where that leaves less than the bound and 1 % of the error."""
    scale, noise = float(meant.abs().amax()), float(slack.amax())
    if not max(1e-150, 1e3 * noise) < scale < 1e150:
        return None
    if float(meant.amax() - meant.amin()) <= 1e-3 * scale:
        return None  # all alike: a factor and a constant cannot be told apart
    gap = float((seen - meant).abs().amax())
    factor = float(torch.dot(seen, meant) / torch.dot(meant, meant))
    rest = (seen - meant * factor).abs()
    if factor and float(rest.amax()) <= _EXPLAINED * gap and bool((rest <= slack * max(abs(factor), 1.0)).all()):
        return f"golden times {factor:.6g}"
    constant = float((seen - meant).mean())
    rest = (seen - meant - constant).abs()
    if float(rest.amax()) <= _EXPLAINED * gap and bool((rest <= 2.0 * slack + 1e-6 * abs(constant)).all()):
        return f"golden {'plus' if constant > 0 else 'minus'} {abs(constant):.6g}"
    return None


def pattern(mask: Tensor) -> str | None:
    """Where the true elements of a bool tensor lie, in words; `None` when there are none or no order is seen.

    Dimensions are called rows (the first) and columns (the last) in two dimensions, `dimension k` otherwise; ranges
    include both ends. Only what holds exactly is said: every sentence names exactly the true elements, except that "in"
    sentences ("all in rows 3, 7 of 64") name the smallest set of rows or columns that holds them.
    """
    total = mask.numel()
    count = int(mask.sum())
    if not count:
        return None
    if count == total:
        return "all elements" if total > 1 else "the only element"
    if count == 1:
        return _single(mask)
    if mask.dim() == 1:
        return _positions(mask, "element")
    for dimension in (mask.dim() - 1, 0, *range(1, mask.dim() - 1)):
        others = [each for each in range(mask.dim()) if each != dimension]
        touched = mask.any(dim=tuple(others)) if others else mask
        if bool(touched.all()):
            continue
        if int(touched.sum()) * (total // mask.shape[dimension]) == count:
            return _positions(touched, _name(dimension, mask.dim()))
    return _flat_tail(mask, count) or _partial(mask, count)


def _single(mask: Tensor) -> str:
    """One true element."""
    total = mask.numel()
    flat = int(mask.reshape(-1).to(torch.uint8).argmax())
    if flat == 0:
        return f"only the first element of {total}"
    if flat == total - 1:
        return f"only the last element of {total}"
    index = _index(flat, mask.shape)
    return f"one element of {total}, at [{', '.join(map(str, index))}]"


def _name(dimension: int, rank: int) -> str:
    """What the indices along a dimension are called."""
    if rank == 2:
        return ("row", "column")[dimension]
    return f"dimension-{dimension} index"


def _many(name: str) -> str:
    """The plural."""
    return name.replace("index", "indices") if name.endswith("index") else f"{name}s"


def _positions(touched: Tensor, name: str) -> str | None:
    """Which positions along one dimension, as a sentence; `touched` is neither all false nor all true."""
    places = touched.nonzero().reshape(-1)
    size, count = touched.numel(), places.numel()
    first, last = int(places[0]), int(places[-1])
    if count == 1:
        if first == size - 1:
            return f"only the last {name}" + _tile(first, size)
        return f"only the first {name}" if first == 0 else f"{name} {first} only"
    if last - first + 1 == count:
        if last == size - 1:
            return f"{_many(name)} {first}..{last}, the last {count} of {size}" + _tile(first, size)
        if first == 0:
            return f"{_many(name)} 0..{last}, the first {count} of {size}"
        return f"{_many(name)} {first}..{last} of {size}"
    step = int(places[1]) - first
    if count > 2 and step > 1 and bool((places.diff() == step).all()):
        if first < step and last + step >= size:
            start = "" if first == 0 else f" from {first}"
            return f"every {_ordinal(step)} {name}{start}"
        return f"every {_ordinal(step)} {name} from {first} to {last}"
    if count <= 4:
        return f"{_many(name)} {', '.join(str(int(each)) for each in places)} of {size}"
    return f"{count} of {size} {_many(name)}, between {first} and {last}"


def _tile(first: int, size: int) -> str:
    """Name the tile whose multiple a tail begins at: the widest that leaves all of the tail in its last, short tile."""
    for width in _TILES:
        if first and first % width == 0 and size - first < width:
            return f" (the tail beyond a multiple of {width})"
    return ""


def _ordinal(number: int) -> str:
    """2nd, 3rd, 4th, 11th."""
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _flat_tail(mask: Tensor, count: int) -> str | None:
    """Everything from one flat position on, as when a grid is too small or an offset overflows."""
    flat = mask.reshape(-1)
    total = flat.numel()
    if count > 1 and bool(flat[total - count :].all()):
        return f"the last {count} of {total} elements in flat order" + _tile(total - count, total)
    if count > 1 and bool(flat[:count].all()):
        return f"the first {count} of {total} elements in flat order"
    return None


def _partial(mask: Tensor, count: int) -> str | None:
    """Rows or columns that hold all of them, and whether they fill these."""
    rank, total = mask.dim(), mask.numel()
    # A block: a run of rows crossed with a run of columns.
    spans = []
    volume = 1
    for dimension in range(rank):
        others = tuple(each for each in range(rank) if each != dimension)
        places = mask.any(dim=others).nonzero().reshape(-1)
        spans.append(places)
        volume *= places.numel()
    if volume == count:
        said = [
            _range(places, _name(dimension, rank))
            for dimension, places in enumerate(spans)
            if places.numel() < mask.shape[dimension]
        ]
        return ", ".join(said)
    for dimension in (0, rank - 1):
        size, held = mask.shape[dimension], spans[dimension].numel()
        if held < size and held * 2 <= size:
            where = _positions(
                mask.any(dim=tuple(each for each in range(rank) if each != dimension)), _name(dimension, rank)
            )
            return f"{count} of {total} elements, all in {where}"
    if bool(mask.any(dim=-1).all()):
        line = "row" if rank == 2 else "line of the last dimension"
        return f"{count} of {total} elements, some in every {line}"
    return f"{count} of {total} elements, scattered" if count * 2 < total else None


def _range(places: Tensor, name: str) -> str:
    """Positions as a run or as a count."""
    first, last, count = int(places[0]), int(places[-1]), places.numel()
    if count == 1:
        return f"{name} {first}"
    if last - first + 1 == count:
        return f"{_many(name)} {first}..{last}"
    return f"{count} {_many(name)} between {first} and {last}"
