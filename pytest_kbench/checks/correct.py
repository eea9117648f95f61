"""Correct: is every output within the three-way bound of the float64 golden, on all pairs of what the task declares?"""

from __future__ import annotations

from ..case import NamedCase
from ..options import Settings
from ..oracle.coverage import fixed_cases
from ..record import Record
from ..task import Task
from .bench import Bench
from .examine import examine


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """Shapes x dtypes x init states x layouts x value plans x scalars x optional arguments, all pairs, three seeds."""
    return fixed_cases(task, settings.kind, settings.seed)


def check(bench: Bench, named: NamedCase) -> Record:
    """Make the case's calls and judge their outputs."""
    return examine(bench, named, "correct")
