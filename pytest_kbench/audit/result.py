"""What an audit says of a task: frozen data without tensors, which travels as JSON and needs no torch to be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["degenerate", "mutant"]
Outcome = Literal["killed", "survived", "equivalent"]


@dataclass(frozen=True, slots=True)
class Tried:
    """One wrong kernel and what became of it.

    `what` is what is wrong with it: for a mutant of the graph a diff. `case` is the one that killed it, as
    `--kbench-case` takes it. `why` says how it was killed, why it survives, or why it is no wrong kernel at all. `fix`
    is what to change in the declaration, `explained` the task's own word on a survivor.
    """

    kind: Kind
    name: str
    what: str
    outcome: Outcome
    why: str
    case: str | None = None
    fix: str = ""
    explained: str | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with the task itself: which filter found it, what it is, and what to change."""

    filter: str
    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of one task: every wrong kernel that was tried, and what the filters found.

    `copy` says why a verbatim copy of the reference fails, if it does. `cases` and `calls` are how many were judged;
    `notes` say what could not be tried: where time ran out, or the reference has no graph.
    """

    task: str
    tried: tuple[Tried, ...]
    faults: tuple[Fault, ...]
    copy: str | None
    cases: int
    calls: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def score(self) -> float | None:
        """Killed over killed and survived, degenerates and mutants together; `None` where nothing was tried."""
        killed, survived = self.count("killed"), self.count("survived")
        return killed / (killed + survived) if killed + survived else None

    @property
    def survivors(self) -> tuple[Tried, ...]:
        """Those that no case tells from a right kernel."""
        return tuple(each for each in self.tried if each.outcome == "survived")

    def count(self, outcome: Outcome, kind: Kind | None = None) -> int:
        """How many had this outcome."""
        return sum(each.outcome == outcome and kind in (None, each.kind) for each in self.tried)

    def problems(self, least: float) -> tuple[str, ...]:
        """Why the task fails its audit, one line each; none where it passes with this least score."""
        found = [] if self.copy is None else [f"a verbatim copy of the reference fails: {self.copy}"]
        found += [f"{each.filter}: {each.what}. {each.fix}" for each in self.faults]
        found += [
            f"degenerate survives: {each.name}: {each.why}. {each.fix}"
            for each in self.survivors
            if each.kind == "degenerate"
        ]
        score = self.score
        if score is None:
            found.append("nothing could be tried: no wrong kernel applies to any case")
        elif score < least:
            lived = len(self.survivors)
            found.append(f"mutation score {score:.3f} is below {least:g}: {lived} of {len(self.tried)} survive")
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`."""
        return {**asdict(self), "score": self.score}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Audit:
        """The inverse of `to_json`."""
        values = {name: value for name, value in data.items() if name != "score"}
        values["tried"] = tuple(Tried(**each) for each in values["tried"])
        values["faults"] = tuple(Fault(**each) for each in values["faults"])
        values["notes"] = tuple(values["notes"])
        return cls(**values)
