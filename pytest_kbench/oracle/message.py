"""The text of one failing case: the verdict first, then the facts, for people and for language models.

Pure functions from data to a bounded string; what goes around it (task, inputs, the command) is added by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ..record import Comparison, Reason

_LINES: Final = 12  # of one explanation
_WIDTH: Final = 400  # of one line
_HEAD, _TAIL = 24, 12  # lines kept of a detail

_VERDICTS: Final = {
    Reason.BINDING: "no binding",
    Reason.COMPILE: "does not compile",
    Reason.LOAD: "does not load",
    Reason.RAISED: "raised",
    Reason.UNSUPPORTED: "refused",
    Reason.CRASHED: "crashed",
    Reason.EXITED: "ended its process",
    Reason.TIMEOUT: "timed out",
    Reason.MEMORY: "out of memory",
    Reason.FLOOD: "too much output",
    Reason.PROTOCOL: "broke the protocol",
    Reason.STRUCTURE: "wrong structure",
    Reason.ALIASING: "output aliases an input",
    Reason.INPUTS_CHANGED: "inputs changed",
    Reason.OUT_OF_BOUNDS: "wrote out of bounds",
    Reason.OUTPUTS_CHANGED: "outputs changed later",
    Reason.NO_GRADIENT: "no gradient",
    Reason.NONDETERMINISTIC: "not deterministic",
    Reason.NONFINITE: "wrong NaN or infinity",
    Reason.WRONG: "wrong",
    Reason.PRECISION: "lower precision",
    Reason.BATCH: "depends on the batch",
    Reason.SANITIZER: "sanitizer",
    Reason.IMPOSSIBLE: "faster than light",
    Reason.CLOCK: "false clock",
    Reason.SLOW: "too slow",
    Reason.DEVICE: "no device",
    Reason.TASK: "the task's reference failed",
    Reason.ENVIRONMENT: "environment",
    Reason.CASE: "case",
    Reason.INTERNAL: "internal error",
    Reason.GIVEN_UP: "given up",
    Reason.NOT_TIMED: "not timed",
}


def explain(
    comparisons: Sequence[Comparison],
    *,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[str],
    names: Sequence[str] = (),
) -> str:
    """What is wrong with a case's outputs, at most 12 lines; empty when nothing is.

    `shapes`, `dtypes` and `names` belong to the comparisons, one each; without names outputs are numbered.

    The first line is the verdict on the worst output, the
    one with NaN or infinity in the wrong place or else with the largest ratio; further wrong outputs get a line each.
    """
    if not len(comparisons) == len(shapes) == len(dtypes):
        raise ValueError(f"{len(comparisons)} comparisons, {len(shapes)} shapes, {len(dtypes)} dtypes")
    several = len(comparisons) > 1
    called = dict(enumerate(names)) or {each.output: f"output {each.output}" for each in comparisons}
    entries = list(zip(comparisons, shapes, dtypes, strict=True))
    failed = sorted((each for each in entries if not each[0].ok), key=lambda each: _badness(each[0]), reverse=True)
    if not failed:
        return ""
    first, shape, dtype = failed[0]
    lines = [verdict(first) + (f" ({called[first.output]})" if several else "")]
    lines += _facts(first, called[first.output], shape, dtype)
    rest = [f"{called[each.output]}: {verdict(each)}" for each, _, _ in failed[1:]]
    room = _LINES - len(lines)
    if len(rest) > room:
        rest = [*rest[: room - 1], f"and {len(rest) - room + 1} more outputs"]
    lines += rest
    if several and len(lines) < _LINES:
        fine = [called[each.output] for each, _, _ in entries if each.ok]
        if fine:
            lines.append(f"within the bound: {', '.join(fine)}")
    return "\n".join(_short(line, _WIDTH) for line in lines)


def verdict(comparison: Comparison) -> str:
    """One line on one wrong output, such as `wrong: 3 of 65 elements beyond the bound, worst ...`."""
    at = "" if comparison.worst is None else f" at {_place(comparison.worst)}"
    of = f"of {_count(comparison.elements)}"
    strange = f"{_count(comparison.nonfinite)} {of} elements NaN, infinite or finite where golden is not"
    if comparison.wrong:
        text = f"wrong: {_count(comparison.wrong)} {of} elements beyond the bound"
        if comparison.error is not None:
            text += f", worst {_number(comparison.error)}{at}"
            text += "" if comparison.ratio is None else f", {_excess(comparison)}"
        return f"{text}; {strange}" if comparison.nonfinite else text
    if comparison.nonfinite:
        pair = ""
        if comparison.actual is not None and comparison.golden is not None:
            pair = f": {_number(comparison.actual)} for {_number(comparison.golden)}{at}"
        return f"wrong NaN or infinity: {strange}{pair}"
    ratio = "" if comparison.norm_ratio is None else f" is {comparison.norm_ratio:.3g} times what is allowed"
    return f"wrong: no single element of {_count(comparison.elements)} is beyond the bound, but the error's norm{ratio}"


def explain_failure(reason: Reason, message: str, detail: str = "") -> str:
    """A typed failure: the verdict and its message on the first line, the detail indented, its head and tail kept."""
    said = _visible(" ".join(message.split()))
    name = _VERDICTS[reason]
    first = name if not said else said if said.lower().startswith(name) else f"{name}: {said}"
    return "\n".join([_short(first, _WIDTH), *(f"    {line}" if line else "" for line in _bounded(detail))])


def _badness(comparison: Comparison) -> tuple[bool, float]:
    """Which output is worst: any with non-finite trouble first, then by the larger ratio."""
    return comparison.nonfinite > 0, max(comparison.ratio or 0.0, comparison.norm_ratio or 0.0)


def _facts(comparison: Comparison, name: str, shape: tuple[int, ...], dtype: str) -> list[str]:
    """Lines after the verdict, with the values aligned."""
    what = "output" if "output" in name else name
    rows = [(what, f"{dtype} {_place(shape)}")]
    if comparison.pattern:
        rows.append(("where", comparison.pattern))
    if comparison.wrong and comparison.nonfinite:
        rows.append(("finite", f"{_count(comparison.wrong)} wrong"))
    if comparison.nonfinite:
        rows.append(("non-finite", f"{_count(comparison.nonfinite)} wrong"))
    if comparison.worst is not None:
        rows.append(("worst", _place(comparison.worst)))
        if comparison.actual is not None:
            rows.append(("actual", _number(comparison.actual, 9)))
        if comparison.golden is not None:
            rows.append(("golden", _number(comparison.golden, 9)))
    if comparison.error is not None and comparison.allowed is not None:
        rows.append(("error", f"{_number(comparison.error)}, allowed {_number(comparison.allowed)}"))
    if comparison.norm_ratio is not None:
        rows.append(("norm", f"error's norm is {comparison.norm_ratio:.3g} times what is allowed"))
    return [f"  {name:<10} {text}" for name, text in rows]


def _excess(comparison: Comparison) -> str:
    """How far beyond the bound; nothing is a multiple of an allowance of zero."""
    if comparison.allowed == 0.0 or comparison.ratio is None:
        return "where nothing is allowed"
    return f"{comparison.ratio:.3g} times what is allowed"


def _place(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def _number(value: float, digits: int = 3) -> str:
    """A value as a person reads it; NaN and infinities by these names."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+inf" if value > 0 else "-inf"
    return f"{value:.{digits}g}"


def _count(number: int) -> str:
    return f"{number:,}"


def _short(line: str, width: int) -> str:
    """The line, cut in the middle where it is too long."""
    if len(line) <= width:
        return line
    half = (width - 5) // 2
    return f"{line[:half]} ... {line[len(line) - half :]}"


def _bounded(detail: str) -> list[str]:
    """Lines of a detail: head and tail, each line bounded, control characters made visible."""
    lines = [_visible(line.rstrip()) for line in detail.strip("\n").expandtabs(4).split("\n")] if detail.strip() else []
    if len(lines) > _HEAD + _TAIL + 1:
        left_out = len(lines) - _HEAD - _TAIL
        lines = [*lines[:_HEAD], f"... {left_out} lines left out ...", *lines[-_TAIL:]]
    return [_short(line, _WIDTH) for line in lines]


def _visible(line: str) -> str:
    """What a candidate printed must not move the cursor or colour the terminal of the person who reads it."""
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in line)
