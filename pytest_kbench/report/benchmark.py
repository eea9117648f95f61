"""Times as pytest-benchmark knows them: one row per candidate and timed call, and the JSON that its `compare` reads.

A row holds the candidate's quickest call of each block. What it is compared with here, baselines and intervals, is in
the row's `extra_info`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..record import Record, Timing

ITEM = "item"  # the fact of a record with times: the id of the test that took them


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate's times, in seconds of a call, under the id of the test that took them.

    Rows of one `group` are shown in one table: candidates of a task in the same call, on the same kind of device.
    """

    fullname: str
    group: str
    params: Mapping[str, str]
    extra_info: Mapping[str, Any]
    clock: str
    samples: tuple[float, ...]

    @property
    def name(self) -> str:
        """The id without its file."""
        return self.fullname.partition("::")[2]

    @property
    def param(self) -> str:
        """The bracketed part of the id."""
        return _bracketed(self.fullname)


def row_of(record: Record) -> Row | None:
    """A record's row; `None` where nothing was timed, or what was timed did not pass."""
    if record.status != "passed" or not record.timings or not record.timings[0].samples:
        return None
    first = record.timings[0]
    case = _bracketed(record.facts[ITEM]).partition(":")[2]
    device = "cuda" if first.clock.startswith("CUDA") else "cpu"
    return Row(
        fullname=record.facts[ITEM],
        group=f"{record.task}:{case} on {device}",
        params={"task": record.task, "candidate": record.candidate, "case": case},
        extra_info={
            "device": device,
            "clock": first.clock,
            "threads": first.threads,
            "baseline": first.baseline,
            **_against(first),
            "baselines": {each.baseline: _against(each) for each in record.timings},
        },
        clock=first.clock,
        samples=tuple(candidate for _, candidate in first.samples),
    )


def _bracketed(fullname: str) -> str:
    return fullname.partition("::")[2].partition("[")[2].removesuffix("]")


def _against(timing: Timing) -> dict[str, Any]:
    return {
        "baseline_seconds": timing.seconds["baseline"],
        "speedup": timing.speedup,
        "low": timing.low,
        "high": timing.high,
        "speed": timing.speed,
    }


def document(
    records: Sequence[Record], time: str, machine_info: Mapping[str, Any], commit_info: Mapping[str, Any]
) -> dict[str, Any]:
    """What pytest-benchmark would have saved of these records, with all samples; `time` is that of the run."""
    from pytest_benchmark import __version__  # of use, and needed, only here

    rows = sorted(filter(None, map(row_of, records)), key=lambda row: row.fullname)
    return {
        "machine_info": dict(machine_info),
        "commit_info": dict(commit_info),
        "benchmarks": [_benchmark(row) for row in rows],
        "datetime": time,
        "version": __version__,
    }


def _benchmark(row: Row) -> dict[str, Any]:
    from pytest_benchmark import stats

    made: Any = stats.Stats()  # type: ignore[no-untyped-call]
    for sample in row.samples:
        made.update(sample)
    return {
        "group": row.group,
        "name": row.name,
        "fullname": row.fullname,
        "params": dict(row.params),
        "param": row.param,
        "extra_info": dict(row.extra_info),
        "options": {"timer": row.clock},
        "stats": {**made.as_dict(), "data": list(row.samples), "iterations": 1},
    }
