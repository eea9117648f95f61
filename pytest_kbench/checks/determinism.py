"""Determinism: does the same call, made again, give the same bits?

Sums in an order that threads decide are honest, so a difference is told with its size; it fails only where the task
says `deterministic=True`.
"""

from __future__ import annotations

from ..case import NamedCase
from ..options import Settings
from ..oracle.coverage import repeats
from ..record import Record
from ..task import Task
from .bench import Bench
from .examine import examine_repeats


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """Per dtype one plain call of a large shape."""
    return repeats(task, settings.device, settings.seed)


def check(bench: Bench, named: NamedCase) -> Record:
    """Make each call of the case eight times and compare the outputs bit by bit."""
    return examine_repeats(bench, named, "determinism")
