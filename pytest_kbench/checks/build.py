"""Build: does the candidate compile, load, and have an entry point?"""

from __future__ import annotations

from ..case import Case, NamedCase
from ..options import Settings
from ..oracle.message import explain_failure
from ..record import Reason, Record, Status
from ..sandbox.host import Failure
from ..task import Task
from .bench import Bench, Stages


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """One: building needs no inputs."""
    return (NamedCase("", Case(())),)


def check(bench: Bench, named: NamedCase) -> Record:
    """Build and load the candidate in a child."""
    stages = Stages()
    with stages.timed("build"):
        child = bench.child()
    if not isinstance(child, Failure):
        return Record(bench.task.name, bench.candidate.name, "build", "passed", seconds=dict(stages), facts=bench.facts)
    status: Status = "skipped" if child.reason is Reason.DEVICE else "failed"
    message = explain_failure(child.reason, child.message, child.detail)
    return Record(bench.task.name, bench.candidate.name, "build", status, child.reason, message, seconds=dict(stages))
