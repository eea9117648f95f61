"""The table at the end of a run, one line per candidate, and what it says of speed as a whole: text of records."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from ..candidate import escaped
from ..case import DTYPE_NAMES
from ..gate import DECISIONS, GATE
from ..options import CHECKS
from ..record import BEST, EXCUSED, GRADIENTS, HOPELESS, MISSING, SEARCHED, SWEPT, Reason, Record, Timing
from ..sandbox.limits import SWITCHED_OFF
from .summary import Against, Slower, Summary

MOST_SLOWER: Final = 10  # candidates that are right and slower, a line each
STRIDED = ("transposed", "sliced", "expanded")
LAYOUTS_OF = re.compile(r"layout\(([^)]*)\)")
DIMS_OF = re.compile(r"dims\(([^)]*)\)")


def table(records: Sequence[Record]) -> list[str]:
    """Header and one row per candidate, sorted by task and name, failures' first reason at the end of the row."""
    candidates = sorted({(record.task, record.candidate) for record in records})
    checks = [check for check in CHECKS if any(record.check == check for record in records)]
    head = ("task", "candidate", *checks, "verdict")
    rows = [head, *(_row(*each, checks, [r for r in records if (r.task, r.candidate) == each]) for each in candidates)]
    return _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def layers(active: Sequence[str], refused: Mapping[str, str]) -> str:
    """One line on the sandbox."""
    if SWITCHED_OFF in refused:
        return "sandbox OFF: candidates may do whatever you may"
    return missing(refused) if refused else f"sandbox complete ({len(active)} layers)"


def missing(refused: Mapping[str, str]) -> str:
    """Which layers the kernel refuses, and why."""
    return f"sandbox without {'; '.join(f'{name} ({why})' for name, why in refused.items())}"


def _row(task: str, candidate: str, checks: Sequence[str], records: Sequence[Record]) -> tuple[str, ...]:
    cells = (_cell([record for record in records if record.check == check]) for check in checks)
    return (task, escaped(candidate), *cells, _verdict(records))


def _cell(records: Sequence[Record]) -> str:
    """`ok`, `FAILED`, how many examples passed, or passed of graded."""
    graded = [record for record in records if record.status != "skipped"]
    if not graded:
        return "-"
    graded = [record for record in graded if SWEPT not in record.facts] or graded
    passed = sum(record.status == "passed" for record in graded)
    timings = [record.against(BEST) for record in graded]
    if known := [timing for timing in timings if timing is not None]:
        return ", ".join(map(_speed, known)) if len(known) == len(graded) else f"{passed}/{len(graded)}"
    if len(graded) == 1 and graded[0].check == "build":
        return "ok" if passed else "FAILED"
    if len(graded) == 1 and graded[0].check == "fuzz":
        return graded[0].facts.get(SEARCHED, "ok") if passed else "FAILED"
    return f"{passed}/{len(graded)}"


def _speed(timing: Timing) -> str:
    """How fast, in a word or two; what cannot be told is no number."""
    if timing.speedup is None or timing.speed == "ambiguous":
        return "?"
    return "same" if timing.speed == "same" else f"{timing.speedup:.2f}x"


def timed(records: Sequence[Record]) -> str | None:
    """One line on how times were taken, if any were."""
    timings = [timing for record in records for timing in record.timings]
    if not timings:
        return None
    shown = [timing for record in records if (timing := record.against(BEST)) is not None]
    first, known = timings[0], [each.unseen for each in timings if each.unseen is not None]
    threads = "one thread" if first.threads == 1 else f"{first.threads} threads"
    on_gpu = [each for each in timings if each.clock.startswith("CUDA")]
    queued = sum("queued" in each.clock for each in on_gpu)
    how = f"{threads}, cold caches" if len(on_gpu) < len(timings) else "calls captured as CUDA graphs, cold caches"
    unclear = sum(_speed(each) == "?" for each in shown)
    baselines = ", ".join(dict.fromkeys(each.baseline for each in timings))
    told = [
        f"times: against {baselines}, {how}, intervals of 99 %",
        *([f"{queued} of {len(on_gpu)} could not be captured, and were queued"] if queued else []),
        f"identical programs differ by {max(each.floor for each in timings):.1%} here",
        *([f"half of the candidates could have hidden no more than {statistics.median(known):.0%}"] if known else []),
        *([f"{unclear} of {len(shown)} are ambiguous (?): a longer --kbench-budget tells more"] if unclear else []),
    ]
    return "; ".join(told)


def speeds(found: Summary) -> list[str]:
    """What the run says of speed as a whole: a row per baseline, then candidates that are right and slower."""
    known = found.against if len(found.against) > 2 else found.against[:1]  # the best of one is that one
    head = ("baseline", "timed", "faster", "same", "slower", "?", "mean", *(f"fast_{p}" for p in known[0].fast))
    return [
        f"speed: {found.right} of {found.candidates} candidates right, {found.timed} timed",
        *_aligned([head, *(_against(each, found.cases) for each in known)]),
        *_slower(found.slower),
        *([_gate(found.gate)] if found.gate else []),
    ]


def _against(each: Against, cases: int) -> tuple[str, ...]:
    words = (each.faster, each.same, each.slower, each.ambiguous)
    mean = "-" if each.mean is None else f"{each.mean.speedup:.3g}x ({each.mean.low:.3g} to {each.mean.high:.3g})"
    fast = (f"{part:.2f}" for part in each.fast.values())
    return (each.baseline, f"{each.timed} of {cases}", *map(str, words), mean, *fast)


def _slower(found: Sequence[Slower]) -> list[str]:
    rows = [(f"  {each.task}", escaped(each.candidate), *_how_slow(each)) for each in found[:MOST_SLOWER]]
    more = [f"  ... and {len(found) - MOST_SLOWER} more"] if len(found) > MOST_SLOWER else []
    return ["right, and slower than the best baseline:", *_aligned(rows), *more] if rows else []


def _how_slow(each: Slower) -> tuple[str, str, str]:
    dims = DIMS_OF.search(each.case)
    backward = " backward" if "grad(" in each.case else ""
    ends = f"{each.speedup:.3g}x ({each.low:.3g} to {each.high:.3g})"
    return ends, each.baseline, f"{dims[1] if dims else ''}{backward}"


def _gate(counts: Mapping[str, int]) -> str:
    told = (f"{counts[each]} {each}" for each in reversed(DECISIONS))
    return f"gate: {', '.join(told)}"


def _verdict(records: Sequence[Record]) -> str:
    failed = [record for record in records if record.status == "failed"]
    if failed:
        reasons = dict.fromkeys(str(record.reason) for record in failed if record.reason)
        called = any(record.reason not in HOPELESS for record in failed)
        given_up = called and any(record.reason is Reason.GIVEN_UP for record in records)
        return f"FAILED: {', '.join([*reasons, *(['given up'] if given_up else [])])}"
    if all(record.status == "skipped" for record in records):
        first = next(record for record in records)
        return f"skipped: {first.reason}"
    limits = takes(records)
    refusals = [record for record in records if record.facts.get("refuses", GRADIENTS) != GRADIENTS]
    refused = sum(int(record.facts.get("refused", 1)) for record in refusals)
    alone = any(record.facts.get("refuses") == GRADIENTS for record in records)
    told = ["passed", *([f"{limits} ({refused} refused)"] if refused else []), *(["no gradients"] if alone else [])]
    drawn = [f"fuzzed in {record.facts['drawn']}" for record in records if "drawn" in record.facts]
    drawn += [f"fuzzing: {record.facts['ended']}" for record in records if "ended" in record.facts]
    without = dict.fromkeys(name for record in records for name in record.facts.get(MISSING, "").split(",") if name)
    drawn += [f"not compared with {', '.join(without)}"] if without else []
    excused = sum(int(record.facts.get(EXCUSED, 0)) for record in records)
    drawn += [f"{excused} not judged: the reference is wrong there"] if excused else []
    return ", ".join([*told, *drawn, *_differing(records), *_unclear(records), *_partly(records)])


def _differing(records: Sequence[Record]) -> list[str]:
    """That repeats of a call did not give the same bits, where they did not."""
    differing = [record.facts["repeats"] for record in records if "repeats" in record.facts]
    return [f"repeats differ ({differing[0]})"] if differing else []


def _unclear(records: Sequence[Record]) -> list[str]:
    """That the gate could not tell, where it could not."""
    return ["not shown to be fast enough"] if any(record.facts.get(GATE) == "ambiguous" for record in records) else []


def _partly(records: Sequence[Record]) -> list[str]:
    """How many of the candidate's cases were run, when not all were: a part of them proves little."""
    planned = next((record.facts["planned"] for record in records if record.facts.get("planned")), "")
    total = sum(int(part.partition("=")[2]) for part in planned.split(",") if part)
    return [f"only {len(records)} of {total} cases run"] if len(records) < total else []


def takes(records: Sequence[Record]) -> str:
    """What a candidate cleanly refused of its inputs, in words: `dense only`, `not float16`."""
    told = [record.facts["refuses"].split(",") for record in records if "refuses" in record.facts]
    alone = {names[0] for names in told if len(names) == 1}
    # Of several that were refused together those are meant that are refused alone; else all may be.
    names = (name for names in told for name in names if name in alone or not alone.intersection(names))
    refused = dict.fromkeys(name for name in names if name != GRADIENTS)
    tried = {layout for record in records for layout in _layouts(record.case or "") if layout in STRIDED}
    if tried and tried <= set(refused):
        return ", ".join(["dense only", *(f"not {each}" for each in refused if each in DTYPE_NAMES)])
    return ", ".join(f"not {each}" for each in refused)


def _layouts(case: str) -> list[str]:
    return [pair.rpartition("=")[2] for part in LAYOUTS_OF.findall(case) for pair in part.split(",")]
