"""What grading says: reasons, records and verdicts, the data every report is made from.

Everything here is frozen, holds no tensor and turns into JSON without loss, so that it can travel from a worker to
the controller and into a file. The strings are the same in messages, JSON, tests and prompts.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from .options import CheckName

SEARCHED = "examples"  # the fact of a search: how many examples it judged
EXCUSED = "excused"  # the fact of a case or a search: how many calls were not judged, as the reference is wrong there
MISSING = "missing"  # the fact of a time: baselines that could not be timed, with commas between
SWEPT = "swept"  # the fact of a time: the size of a sweep that it is for, as `columns=64`
EAGER = "eager"  # the baseline that every candidate is compared with: the reference as it is written
BEST = "best"  # the baseline that leaves the least speedup, whichever it is
GRADIENTS = "gradients"  # among what a candidate refuses, and what a task may require

Status = Literal["passed", "failed", "skipped"]


class Reason(enum.StrEnum):
    """Why a case failed or was skipped: a closed list."""

    # The candidate never got as far as a call.
    BINDING = "binding"  # the source names no way to bind it, or no entry point
    COMPILE = "compile"  # the compiler said no
    LOAD = "load"  # importing it, or loading its library, raised
    # The call did not come back with an answer.
    RAISED = "raised"  # an exception, on a case that it may not refuse
    UNSUPPORTED = "unsupported"  # a clean refusal: of a layout or dtype (skipped), of a shape or value (failed)
    CRASHED = "crashed"  # killed by a signal: segmentation fault, abort, illegal instruction
    EXITED = "exited"  # the process ended itself
    TIMEOUT = "timeout"  # no answer in time
    MEMORY = "memory"  # asked for, or used, more memory than it may
    FLOOD = "flood"  # wrote more output than anybody can read
    PROTOCOL = "protocol"  # a message that is malformed, oversized, forged or out of turn
    # It answered, and the answer breaks the contract.
    STRUCTURE = "structure"  # type, count, shape, dtype, device, strides or attributes of an output
    ALIASING = "aliasing"  # an output shares memory with an input
    INPUTS_CHANGED = "inputs_changed"  # an input or parameter was written
    OUT_OF_BOUNDS = "out_of_bounds"  # memory beside a buffer was written
    OUTPUTS_CHANGED = "outputs_changed"  # an earlier output was different after a later call
    NO_GRADIENT = "no_gradient"  # a gradient that is due is missing
    NONDETERMINISTIC = "nondeterministic"  # repeats of a call differ, and the task asks that they do not
    # It answered, and the answer is wrong.
    NONFINITE = "nonfinite"  # NaN or infinity where golden has none, or the reverse
    WRONG = "wrong"  # values beyond the bound
    PRECISION = "precision"  # the error of a lower precision than the task declares
    BATCH = "batch"  # a row alone differs from the row in the batch, and the task asks that it does not
    SANITIZER = "sanitizer"  # a sanitizer reported an error: a race, an access out of bounds
    # It is right, and what it says of its time is not.
    IMPOSSIBLE = "impossible"  # faster than light: less time than the device needs for these bytes and operations
    CLOCK = "clock"  # its calls took longer than it claims, by clocks that it cannot touch
    # It is right, and what is asked of its speed is not there.
    SLOW = "slow"  # slower than the gate asks; with --kbench-strict also what is not shown to be as fast
    # Not the candidate's doing.
    DEVICE = "device"  # it needs a device that is not here
    TASK = "task"  # the task's own reference failed on this case
    NOT_TIMED = "not_timed"  # another check of the candidate failed: how fast it is has no meaning
    ENVIRONMENT = "environment"  # the build cache or the sandbox does not work on this machine
    CASE = "case"  # the case that was asked for does not fit the task
    INTERNAL = "internal"  # an error of the grader's own
    GIVEN_UP = "given_up"  # after an earlier failure of the candidate there was no point: it did not build, or hung


# After one of these the candidate's other cases have no point.
HOPELESS = (Reason.COMPILE, Reason.LOAD, Reason.BINDING, Reason.DEVICE, Reason.ENVIRONMENT)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One candidate output against its golden output.

    Counts are of elements. `worst` is the element whose error exceeds its bound most (or comes nearest to it); `error`,
    `allowed` and their `ratio` belong to it, and a ratio above 1 is a failure. `norm_ratio` is the same for the
    Euclidean norm of the whole error. What was not measured (an empty output, no finite pair) is `None`.
    """

    output: int
    elements: int
    wrong: int = 0
    nonfinite: int = 0
    worst: tuple[int, ...] | None = None
    actual: float | None = None
    golden: float | None = None
    error: float | None = None
    allowed: float | None = None
    ratio: float | None = None
    norm_ratio: float | None = None
    pattern: str | None = None

    @property
    def ok(self) -> bool:
        """Whether every element, and the norm, kept the bound."""
        return not self.wrong and not self.nonfinite and (self.norm_ratio is None or self.norm_ratio <= 1.0)


@dataclass(frozen=True, slots=True)
class Timing:
    """How fast a candidate is against one baseline, by pairs of timed turns. Times are seconds of one call.

    `speedup` is the baseline's time over the candidate's; `low` and `high` are the ends of its interval. `seconds` are
    the quickest call of each arm in a block, the median over blocks; `wall` is what a call of a turn takes from asking
    for it to its end, by the grader's clock, overhead included; `warm` is the candidate's quickest call with its
    inputs in the caches. Of `blocks` blocks so many were `rejected`, because something else was busy. `floor` is the
    log-ratio by which two identical arms differ here, `unseen` the largest share of its time that a candidate could
    have hidden. `issuing` is what the host takes to issue a call to a GPU, as each arm says. `bytes` are those of all
    tensors that go in and come out, `flops` the operations of a call, where they are known. `light` are the seconds
    that nobody can fall below by the peaks measured on this device, `roof` which of them binds ("memory", "compute"),
    `datasheet` the same by what the maker states. `samples` are the quickest calls of each block, pairs of baseline and
    candidate.
    """

    baseline: str
    clock: str
    speed: str
    speedup: float | None
    low: float | None
    high: float | None
    seconds: Mapping[str, float]
    wall: Mapping[str, float]
    warm: float | None
    calls: int
    threads: int
    blocks: int
    rejected: int
    floor: float
    unseen: float | None
    spent: float
    issuing: Mapping[str, float] = field(default_factory=dict)
    bytes: int | None = None
    flops: int | None = None
    light: float | None = None
    roof: str | None = None
    datasheet: float | None = None
    samples: tuple[tuple[float, float], ...] = ()

    @property
    def of_light(self) -> float | None:
        """The share of the device's limit that the candidate reaches; above 1 where caches help."""
        return None if self.light is None else self.light / self.seconds["candidate"]

    @property
    def score(self) -> float | None:
        """How far the candidate is on the way from its baseline (0.5) to the limit (1): SOL-ExecBench's score, clamped.

        1 / (1 + (t - light) / (baseline - light)), of the candidate's time t.
        """
        if self.light is None:
            return None
        beyond, room = self.seconds["candidate"] - self.light, self.seconds["baseline"] - self.light
        if beyond <= 0.0:
            return 1.0
        return 0.0 if room <= 0.0 else room / (room + beyond)

    @property
    def host_bound(self) -> bool:
        """Whether a program that makes one call after the other waits for the host, not for the GPU."""
        return self.issuing.get("candidate", 0.0) > self.seconds["candidate"]

    @property
    def rates(self) -> str:
        """What the candidate moves and computes in a second: `3.95 TB/s`, `612 GB/s, 51.2 TFLOP/s`."""
        seconds = self.seconds["candidate"]
        known = ((self.bytes, "B/s"), (self.flops, "FLOP/s"))
        return ", ".join(_scaled(count / seconds, unit) for count, unit in known if count)

    @property
    def told(self) -> str:
        """One line: `1.31x faster (1.29 to 1.33), 3.95 TB/s`."""
        if self.rejected > self.blocks / 2 and self.speed == "ambiguous":
            return f"ambiguous: something else was busy in {self.rejected} blocks"
        if self.speedup is None or self.low is None or self.high is None:
            return f"ambiguous: {self.blocks} blocks are too few"
        ends = f"({self.low:.3g} to {self.high:.3g})"
        bound = (
            f"; host-bound: issuing a call takes {self.issuing['candidate'] * 1e6:.3g} us" if self.host_bound else ""
        )
        rates = f", {self.rates}" if self.rates else ""
        if self.of_light is not None:
            rates += f", {self.of_light:.0%} of light ({self.roof}{'; caches help' if self.of_light > BEYOND else ''})"
        if self.speed == "same":
            return f"as fast {ends}{rates}{bound}"
        comma = "" if self.speed == "faster" else ","
        return f"{self.speedup:.3g}x{comma} {self.speed} {ends}{rates}{bound}"


def _scaled(value: float, unit: str) -> str:
    """Three digits with a prefix: `3.95 TB/s`."""
    prefix, scale = next(((name, size) for name, size in _PREFIXES if value >= size), ("", 1.0))
    return f"{value / scale:.3g} {prefix}{unit}"


BEYOND: Final = 1.02  # of light: what noise explains
_PREFIXES: Final = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


@dataclass(frozen=True, slots=True)
class Record:
    """One case of one check of one candidate: the unit that reports are made from.

    `case` is the text that `--kbench-case` takes. `seconds` maps a stage (`inputs`, `reference`, `call`, ...) to the
    time the grader spent there. `facts` are what else is worth telling: `refuses` names the layouts or the dtype that
    the candidate cleanly refused.
    """

    task: str
    candidate: str
    check: CheckName
    status: Status
    reason: Reason | None = None
    message: str = ""
    case: str | None = None
    comparisons: tuple[Comparison, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    timings: tuple[Timing, ...] = ()

    def against(self, baseline: str) -> Timing | None:
        """The comparison with this baseline; with `BEST`, the one that leaves the least speedup. `None`: not made."""
        if baseline != BEST:
            return next((each for each in self.timings if each.baseline == baseline), None)
        known = [each for each in self.timings if each.speedup is not None]
        return min(known, key=lambda each: each.speedup or 0.0, default=None) or next(iter(self.timings), None)

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`; NaN and infinities, which JSON does not have, are text."""
        data = {key: value for key, value in asdict(self).items() if value not in (None, (), {}, "")}
        compared = data.pop("comparisons", ())
        data["comparisons"] = [{name: _written(value) for name, value in each.items()} for each in compared]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The inverse of `to_json`."""
        values = dict(data)
        if "reason" in values:
            values["reason"] = Reason(values["reason"])
        values["comparisons"] = tuple(
            Comparison(**{name: _read(name, value) for name, value in each.items()})
            for each in values.get("comparisons", ())
        )
        values["timings"] = tuple(
            Timing(**{**each, "samples": tuple(map(tuple, each["samples"]))}) for each in values.get("timings", ())
        )
        return cls(**values)


def _written(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _read(name: str, value: Any) -> Any:
    if name == "worst":
        return None if value is None else tuple(value)
    return float(value) if isinstance(value, str) and name != "pattern" else value


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `grade` says of a candidate: failed if any record failed, skipped if none passed, else passed.

    `reason` and `message` are those of the first failure (or of the first skip, when everything was skipped). A passed
    verdict's message names what the candidate refused, if anything.
    """

    outcome: Status
    reason: Reason | None
    message: str
    records: tuple[Record, ...]

    @classmethod
    def of(cls, records: tuple[Record, ...]) -> Verdict:
        """Fold records, in the order in which they were made, into one verdict."""
        for status in ("failed", "skipped"):
            first = next((record for record in records if record.status == status), None)
            if first is not None and (status == "failed" or all(r.status == "skipped" for r in records)):
                return cls(status, first.reason, first.message, records)
        if not records:
            return cls("skipped", None, "nothing was graded", records)
        refused = [record for record in records if record.facts.get("refuses")]
        names = sorted({name for record in refused for name in record.facts["refuses"].split(",")})
        said = f"refused {', '.join(names)} in {len(refused)} of {len(records)} records" if refused else ""
        return cls("passed", None, said, records)
