"""Contract: several calls in one child: new values on the same pointers, small-large-small, other parameters.

Every earlier output must still be right at the end. Unchanged inputs, no aliasing, and poisoned and guarded buffers are
asked of every case, in the correct check too.
"""

from __future__ import annotations

from ..case import NamedCase
from ..options import Settings
from ..oracle.coverage import sequences
from ..record import Record
from ..task import Task
from .bench import Bench
from .examine import examine


def cases(task: Task, settings: Settings) -> tuple[NamedCase, ...]:
    """The sequences `replay`, `sizes` and `states`, per dtype."""
    return sequences(task, settings.kind, settings.seed)


def check(bench: Bench, named: NamedCase) -> Record:
    """Make the calls in order, judge each, then read the earlier outputs again."""
    return examine(bench, named, "contract")
