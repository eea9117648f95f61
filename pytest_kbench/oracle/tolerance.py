"""How far a candidate's output may lie from golden: the three-way rule, made once per output.

Golden is the reference in float64, eager the reference in the working dtype, shaken golden once more with its inputs
moved by one unit in the last place. A candidate may be `elementwise` times as far from golden as eager is, plus a floor
of what no honest kernel can avoid: the rounding of the result, the growth of rounding in a long sum, and the problem's
own conditioning, which is how far shaken lies from golden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from .modes import STEP, accumulator

FINITE: Final = 1
NAN: Final = 2
POSITIVE: Final = 4  # +inf
NEGATIVE: Final = 8  # -inf
ANYTHING: Final = FINITE | NAN | POSITIVE | NEGATIVE

_GROUP: Final = 32  # fewest elements whose errors are pooled, so that one lucky element decides nothing
_WINDOW: Final = 64  # elements pooled where a whole tensor would be the only group
_LUCK: Final = 16.0  # a pool, or a norm, of m elements counts 1 + 16/m times: few draws may all be lucky ones
# What summing n terms in any order may lose, in units of the accumulator's last place; calibrated by simulation.
_DRIFT: Final = (1 / 6, 768.0)  # of the result: times n, at most; equal summands round the same way every time
_WANDER: Final = (1.0, 128.0)  # of the shake, float32 and float64: times sqrt(n), at most; roundings are independent
_COARSE: Final = (1 / 4, 512.0)  # of the shake, half types: times n, at most; coarse inputs are often equal summands
_ROUNDED: Final = 1.0  # of the largest element near by, in half types: an intermediate may be rounded, and cancel later
_LEAST: Final = 64  # elements without which eager's error may be small by chance
_MILD: Final = 16.0  # of the share of the shake that eager shows: times that, and grown
_SUMMED: Final = 4.0  # the same of a gradient, in every dtype
_CHAIN: Final = 16.0  # times the shake of a gradient: composed operators round after each, and on the way back
_EXACT: Final = 4.0 * torch.finfo(torch.float64).eps  # of the largest number there is: golden is no better than that
_PARTS: Final = 4.0  # times a float16 result: parts of a sum, rounded on the way, may be as large and overflow
_LOST: Final = 0.5  # of golden: an error of eager's that large, where intermediates may overflow, says that they did
_COARSER: Final = 2.0  # times the distance of a coarser precision that a task allows
_MOVES: Final = 2.0  # times what a gradient moves where a choice is up to rounding
_VOID: Final = (1 / 4, 2048.0)  # of the shake, where golden is smaller than the shake: times n + 16, at most


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How a task, or `--kbench-tolerance`, sets the rule.

    `elementwise` and `normwise` multiply eager's error, `ulps` counts units in the last place of the output's dtype at
    golden's magnitude. `fixed` replaces the whole rule by |error| <= fixed + fixed * |golden|, without a norm (the
    allclose rule of KernelBench and robust-kbench); integers stay exact even so.
    """

    elementwise: float = 4.0
    normwise: float = 2.0
    ulps: float = 2.0
    fixed: float | None = None

    def __post_init__(self) -> None:
        for name in ("elementwise", "normwise", "ulps", "fixed"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"tolerance: {name} must be a finite number >= 0, not {value!r}")


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """What one output is allowed, element by element and as a whole.

    `elementwise`: float64, golden's shape, > 0 (0 where the answer must be exact, infinite where it may be anything).
    `norm`: for the Euclidean norm of the error over the elements that are finite on both sides; `None` where no norm is
    judged. `accepts`: uint8 bits (FINITE, NAN, POSITIVE, NEGATIVE) per element; `None` when every element must be
    finite. `centre`: what finite values are measured from, where that is not golden itself (golden is NaN or infinite,
    eager finite).
    """

    elementwise: Tensor
    norm: float | None
    accepts: Tensor | None = None
    centre: Tensor | None = None


def norm(values: Tensor) -> float:
    """Euclidean norm of finite float64 values, safe where their squares overflow or underflow."""
    flat = values.reshape(-1)
    square = float(torch.dot(flat, flat))
    if 1e-200 < square < math.inf:
        return math.sqrt(square)
    largest = float(flat.abs().amax()) if flat.numel() else 0.0
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    # Two divisions, because the reciprocal of a subnormal number is infinite.
    flat = flat / largest
    return math.sqrt(float(torch.dot(flat, flat))) * largest


def bound(
    golden: Tensor,
    eager: Tensor,
    shaken: Tensor | None,
    tolerance: Tolerance,
    *,
    terms: int | None = None,
    indeterminate: bool = False,
    telling: bool = False,
    alike: bool = False,
    coarse: Tensor | None = None,
    vast: bool = False,
    contested: Tensor | None = None,
    start: float | None = None,
) -> Bound:
    """The bound of one output, by the three-way rule.

    `golden` and `shaken`: float64 (for integer and bool outputs any dtype), `eager`: the output's own dtype; all of one
    shape, on one device. `shaken=None` claims that the problem is perfectly conditioned. `terms`: how many terms
    the task's longest sum may have, as far as is known: 1 where there is no sum, else the longest dimension of any
    input, or the inputs per output if that is more. Golden's own longest dimension when not given, which is too few
    where rows are reduced to numbers.

    With u the spacing of the dtype at 1, u' that of its accumulator and |g| an element's magnitude, it is allowed

        (elementwise/2 + ulps) u |g|  +  elementwise E  +  drift u' |g|  +  (1 + growth) S  +  R  +  smallest number

    E is eager's error beyond half a u of its own magnitude, S the shake beyond 1.5 u', both as the maximum over the
    element's neighbours: the smallest trailing block of dimensions with at least 32 elements, or 64 consecutive ones
    where that block would be everything. What rounding explains stays relative to the element, so rows and elements of
    different scale do not lend each other slack; only what rounding does not explain (cancellation) is shared, so an
    element that eager got right by luck does not tighten its own bound.

    R, for half types alone, is one u of the largest |g| among the neighbours: honest kernels round intermediates, a
    product before its bias is added, to the dtype of the output, and eager need not do so at the same places.

    drift and growth are what a sum in any order may lose: as sqrt(terms) where roundings are independent (Higham and
    Mary, 2019), as terms where summands are alike and round the same way, each up to a limit. Where golden is smaller
    than S, as where the truth is zero, every digit is noise, and growth is largest. The norm of the error is allowed
    normwise times that of eager's error, plus that of the floor: ulps u |g|, the drift, the grown S.

    `telling` says that the inputs are continuous random numbers, so that eager is not exact by luck. Where it has lost
    few digits then, in every group, the problem does not force anybody to lose more, whatever its conditioning: S
    counts as a multiple of the largest (E + u |g|) / S, but where every digit is noise. (x - (m + log s) is as good as
    a change of x by one unit in the last place: a log-softmax all the same that loses a thousand times what it must.)

    `alike` says that many summands may be equal, as in constant inputs: growth is drift then, in every dtype.

    `coarse` is golden once more with some of its work done in a coarser precision that the task allows: twice its
    distance from golden, as the maximum over the neighbours, is allowed on top.

    `vast` says that inputs are so large that intermediates may overflow. Where eager is finite then, but has lost every
    digit of a row (1 / inf = 0), anything may stand there, as where eager is not finite.

    `contested`, of a gradient: how far each element moves where a choice is up to rounding. Twice the largest move
    among the neighbours is allowed on top, where an element moves at all.

    `start`, of a gradient: how large its parts may be, a cotangent times an input. Where golden is noise that says
    how far from it a sum of such parts is. Gradients are sums of what comes from several places (of a maximum, say,
    that was subtracted), as large as their neighbours and smaller in the end: `_SUMMED` units of the largest |g| among
    the neighbours and as many times what a sum of them drifts are allowed in every dtype, and what float64 rounds.

    `indeterminate` says that the inputs hold infinities and no NaN. Where golden is NaN then, it is because of the
    form in which the reference is written (inf - inf, 0 inf), and another form gives another answer: the element's row,
    and what is pooled with it, may be anything.
    """
    if eager.is_complex():
        raise TypeError("complex outputs are not judged; return the real and imaginary parts as two outputs")
    if not eager.is_floating_point():
        return Bound(torch.zeros(eager.shape, dtype=torch.float64, device=eager.device), None)
    golden = golden.contiguous()
    if not golden.numel():
        return Bound(torch.zeros_like(golden), None if tolerance.fixed is not None else 0.0)
    if tolerance.fixed is None:
        made, reach = _three_way(golden, eager, shaken, tolerance, terms, telling, alike, coarse, start)
    else:
        magnitude = golden.abs()
        reach = float(magnitude.amax()) * (1.0 + tolerance.fixed) + tolerance.fixed
        made = Bound(_fixed(magnitude, tolerance.fixed), None)
        reach = reach if bool(eager.isfinite().all()) else math.nan
    if start is not None and eager.dtype == torch.float16:
        reach = max(reach, float(_parts(golden, shaken).amax()))
    if reach * _room(eager.dtype, terms) > torch.finfo(eager.dtype).max or vast or math.isnan(reach):
        made = _with_patterns(
            golden, eager, shaken, tolerance, terms, indeterminate, telling, alike, coarse, vast, start
        )
    return made if contested is None else _moving(made, contested)


def _moving(made: Bound, contested: Tensor) -> Bound:
    """The bound with room for what moves."""
    moves = contested > 0
    if not bool(moves.any()):
        return made
    pooled = _spread(_pool(contested.nan_to_num(0.0)).mul_(_MOVES), torch.zeros_like(made.elementwise))
    room = pooled.masked_fill_(~moves, 0.0)
    return replace(
        made,
        elementwise=made.elementwise + room,
        norm=None if made.norm is None else made.norm + norm(room),
        accepts=None if made.accepts is None else made.accepts.masked_fill(moves, ANYTHING),
    )


def _room(dtype: torch.dtype, terms: int | None) -> float:
    """How many times larger than a sum the parts of it may be that are rounded to its dtype on the way."""
    return _PARTS if dtype == torch.float16 and terms != 1 else 1.0


def _parts(golden: Tensor, shaken: Tensor | None) -> Tensor:
    """How large what is summed in float16 may be: as the result, or as what moves it by a unit of the accumulator."""
    size = golden.abs()
    return size if shaken is None else size.add_((golden - shaken).abs_(), alpha=1.0 / torch.finfo(torch.float32).eps)


def _three_way(
    golden: Tensor,
    eager: Tensor,
    shaken: Tensor | None,
    tolerance: Tolerance,
    terms: int | None,
    telling: bool,
    alike: bool,
    coarse: Tensor | None,
    start: float | None,
) -> tuple[Bound, float]:
    """The rule for finite values, and the largest magnitude that golden and its bound may reach together.

    The second is NaN or infinite if anything in golden, eager or shaken is, because these survive maximum and norm.
    """
    info = torch.finfo(eager.dtype)
    unit, inner = info.eps, torch.finfo(accumulator(eager.dtype)).eps
    if terms is None:
        terms = max(golden.shape, default=1)
    # Below the smallest normal number an honest float32 kernel may flush to zero; float16 has no numbers to waste.
    smallest = float(info.smallest_normal if info.smallest_normal < 1e-30 else info.smallest_normal * unit)
    if start is not None:
        parts = terms / 2 if unit != inner else 0.0  # as many may be rounded, or to zero
        smallest = max(_SUMMED, parts) * smallest + _EXACT * max(start, float(golden.abs().amax()))
    drift = min(_DRIFT[0] * (terms - 1), _DRIFT[1]) * inner

    magnitude = golden.abs()
    largest = _pool(magnitude)
    error = eager.to(torch.float64, copy=True, memory_format=torch.contiguous_format).sub_(golden)
    eager_norm = norm(error)
    floor_norm = (tolerance.ulps * unit + drift) * norm(golden) + smallest * math.sqrt(golden.numel())
    error.abs_()
    lost = _pool(error) if telling and golden.numel() >= _LEAST else None
    shared = _pool(error.sub_(magnitude, alpha=unit / 2)).mul_(tolerance.elementwise)
    if unit != inner or start is not None:
        times = _ROUNDED * unit if start is None else _SUMMED * (unit + drift)
        shared.add_(_pool(magnitude, luck=0.0), alpha=times)
    if shaken is not None:
        conditioning = _pool(torch.sub(golden, shaken.contiguous()).abs_().sub_(magnitude, alpha=STEP * inner))
        if unit == inner or start is not None:
            growth = min(_WANDER[0] * math.sqrt(terms - 1), _WANDER[1])
            growth = max(growth, min(_DRIFT[0] * (terms - 1), _DRIFT[1])) if alike else growth
        else:
            growth = min(_COARSE[0] * (terms - 1), _COARSE[1])
        void = min(_VOID[0] * (terms + 15), _VOID[1])
        noise = largest <= conditioning
        grown = conditioning * torch.where(noise, 1.0 + max(void, growth), 1.0 + growth)
        if lost is not None:
            # Where it is not lucky anywhere: the largest share of the shake that eager shows in any group.
            share = float((lost.add_(largest, alpha=unit) / conditioning).amax())
            mild = conditioning * (_MILD * (1.0 + growth) * share) if math.isfinite(share) else grown
            grown = torch.where(noise, grown, torch.minimum(grown, mild))
        conditioning = grown
        if start is not None:
            conditioning = grown * _CHAIN + noise * (_SUMMED * inner * start)
        floor_norm += norm(conditioning) * math.sqrt(golden.numel() / conditioning.numel())
        shared.add_(conditioning)
    if coarse is not None:
        distance = torch.sub(golden, coarse).abs_()
        times = _COARSER if start is None else 2 * _COARSER
        shared.add_(_pool(distance), alpha=times)
        floor_norm += times * norm(distance)
    relative = (tolerance.elementwise / 2 + tolerance.ulps) * unit + drift
    limit = (tolerance.normwise * eager_norm + floor_norm) * (1.0 + _LUCK / golden.numel())
    reach = float(largest.amax()) * (1.0 + relative) + float(shared.add_(smallest).amax())
    allowed = _spread(shared, magnitude.mul_(relative))
    return Bound(allowed, limit), reach if math.isfinite(limit) else math.nan


def _fixed(magnitude: Tensor, fixed: float) -> Tensor:
    """The allclose rule's bound, in place; never 0, so that a ratio to it is a number."""
    return magnitude.mul_(fixed).add_(fixed).clamp_(min=5e-324)


def _block(shape: torch.Size) -> int | None:
    """Elements in the smallest trailing block of dimensions with at least 32; None where that is the whole tensor."""
    size = 1
    for dimension in reversed(shape):
        if size >= _GROUP:
            return size
        size *= dimension
    return None


def _pool(values: Tensor, luck: float = _LUCK) -> Tensor:
    """Maximum over each element's group, at least 0, with an allowance for few draws: one number per group."""
    size = _block(values.shape)
    if size is not None:
        return values.view(-1, size).amax(1).clamp_(min=0.0).mul_(1.0 + luck / size)
    flat = values.view(-1)
    whole = flat.numel() // _WINDOW * _WINDOW
    if not whole:
        return flat.amax(0, keepdim=True).clamp_(min=0.0).mul_(1.0 + luck / flat.numel())
    pooled = flat[:whole].view(-1, _WINDOW).amax(1)
    if whole < flat.numel():
        pooled = torch.cat([pooled, flat[-_WINDOW:].amax(0, keepdim=True)])
    return pooled.clamp_(min=0.0).mul_(1.0 + luck / _WINDOW)


def _spread(pooled: Tensor, values: Tensor) -> Tensor:
    """Add each group's number to its elements, in place; the inverse of `_pool`."""
    size = _block(values.shape)
    flat = values.view(-1)
    if size is not None:
        values.view(-1, size).add_(pooled.unsqueeze(1))
    elif flat.numel() < _WINDOW:
        flat.add_(pooled)
    else:
        whole = flat.numel() // _WINDOW
        flat[: whole * _WINDOW].view(-1, _WINDOW).add_(pooled[:whole].unsqueeze(1))
        if whole < pooled.numel():
            flat[whole * _WINDOW :].add_(pooled[whole:])
    return values


def _with_patterns(
    golden: Tensor,
    eager: Tensor,
    shaken: Tensor | None,
    tolerance: Tolerance,
    terms: int | None,
    indeterminate: bool,
    telling: bool,
    alike: bool,
    coarse: Tensor | None,
    vast: bool,
    start: float | None,
) -> Bound:
    """The rule where golden or eager is not finite, or golden is near the dtype's largest number.

    Golden beyond the dtype's range stands for infinity of its sign. Where golden and eager agree on NaN or on an
    infinity, that is demanded; where they differ either is accepted, and where eager alone is not finite (it
    overflowed, golden did not) anything is: what an overflow ends in depends on the form of the formula, as 1 / inf = 0
    shows. Where float16 sums come near its range, NaN and infinities may stand: parts of them may have overflowed. A
    finite value is measured from golden if golden is finite, else from eager.
    """
    limit = torch.finfo(eager.dtype).max
    wide = eager.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    golden_kind, eager_kind = kinds(golden), kinds(wide)
    golden_finite, eager_finite = golden_kind == FINITE, eager_kind == FINITE
    centre = torch.where(golden_finite, golden, torch.where(eager_finite, wide, torch.zeros_like(wide)))
    # An element without a pair of finite values says nothing of the error, and must not be pooled into its group's.
    wide = torch.where(eager_finite, wide, centre)
    if shaken is not None:
        shaken = torch.where(golden_finite & shaken.isfinite(), shaken, centre)
    # Golden beyond the range is infinity to the dtype; a finite answer there is at best its largest number.
    centre, wide = centre.clamp_(-limit, limit), wide.clamp_(-limit, limit)
    if tolerance.fixed is None:
        if shaken is not None:
            shaken = shaken.clamp(-limit, limit)
        if coarse is not None:
            coarse = torch.where(golden_finite & coarse.isfinite(), coarse, centre).clamp_(-limit, limit)
        made, _ = _three_way(centre, wide.to(eager.dtype), shaken, tolerance, terms, telling, alike, coarse, start)
    else:
        made = Bound(_fixed(centre.abs(), tolerance.fixed), None)
    crowded = torch.zeros_like(golden_finite)
    if (room := _room(eager.dtype, terms)) > 1.0:
        size = centre.abs() if start is None else _parts(centre, shaken)
        crowded = _spread(_pool(size, luck=0.0), torch.zeros_like(centre)) * room > limit
    infinity = torch.where(golden > 0, POSITIVE, NEGATIVE).to(torch.uint8)
    none = torch.zeros_like(golden_kind)
    # Halfway to the next number that does not exist is where rounding goes to infinity.
    beyond = golden_finite & (golden.abs() >= limit * (1.0 + torch.finfo(eager.dtype).eps / 4))
    near = golden_finite & (golden.abs() + made.elementwise > limit)
    lost = golden_finite & ~beyond & ~eager_finite
    within = beyond & (golden.abs() - made.elementwise <= limit)
    accepts = torch.where(beyond, torch.where(within, infinity | FINITE, infinity), golden_kind) | eager_kind
    accepts = accepts | torch.where(near, infinity, none) | torch.where(crowded, none + (ANYTHING ^ FINITE), none)
    free = lost
    if vast and tolerance.fixed is None:
        error, size = (wide - centre).abs(), centre.abs()
        if golden.dim():
            error, size = error.amax(-1, keepdim=True), size.amax(-1, keepdim=True)
        free = free | (error > _LOST * size)
    if indeterminate:
        free = free | (_spread(_pool(golden.isnan().to(torch.float64)), torch.zeros_like(golden)) > 0.0)
        if golden.dim():
            free |= golden.isnan().any(-1, keepdim=True)
    accepts = torch.where(free, none + ANYTHING, accepts)
    if bool((accepts == FINITE).all()):
        return made
    if bool(free.any()):
        made = Bound(made.elementwise.masked_fill(free, math.inf), made.norm)
    return Bound(made.elementwise, made.norm, accepts, centre)


def kinds(values: Tensor) -> Tensor:
    """Which of FINITE, NAN, POSITIVE, NEGATIVE each value is; uint8."""
    found = torch.where(values.isnan(), NAN, FINITE)
    found = torch.where(values == math.inf, POSITIVE, found)
    return torch.where(values == -math.inf, NEGATIVE, found).to(torch.uint8)
