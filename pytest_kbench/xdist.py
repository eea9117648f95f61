"""What travels between the controller and its workers: the run's seed, and word of a worker that died."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Any

import pytest

from .candidate import unescaped
from .collect import RECORD
from .options import CHECKS
from .record import Reason, Record

NODE = re.compile(rf"(?P<path>[^:]+)::(?P<check>{'|'.join(CHECKS)})\[(?P<id>.*)\]")


class Workers:
    """Registered only where pytest-xdist is there."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def pytest_configure_node(self, node: Any) -> None:
        """Hand the seed to a worker that is about to start, so that every worker makes the same cases."""
        node.workerinput["kbench_seed"] = f"{self.seed:x}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Give the case that a worker died with a record: the worker's own is lost."""
        if (record := record_of_crash(crashitem)) is not None:
            report.when = "call"
            report.user_properties.append((RECORD, json.dumps(record.to_json())))


def record_of_crash(nodeid: str) -> Record | None:
    """A record for a case that is known by its id alone; `None` for other tests."""
    if (match := NODE.fullmatch(nodeid)) is None:
        return None
    task, candidate = PurePosixPath(match["path"]).stem, unescaped(match["id"].partition(":")[0])
    message = "environment: the worker process that graded this case died; run the case alone to see why"
    return Record(task, candidate, match["check"], "failed", Reason.ENVIRONMENT, message)  # type: ignore[arg-type]
