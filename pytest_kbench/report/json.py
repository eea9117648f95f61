"""The one JSON document of a run: schema version, environment, verdicts, records. Everything else can be made from it.

It is replaced as a whole, so that a reader never sees half of one, and written while the run goes on, so that not even
a killed run loses what it found: `complete` says whether the run came to its end.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..record import Record, Verdict
from .summary import summary

if TYPE_CHECKING:
    from ..audit.result import Audit

SCHEMA = 1


def document(
    environment: Mapping[str, Any],
    records: Sequence[Record],
    problems: Sequence[Mapping[str, str]],
    audits: Sequence[Audit] = (),
    *,
    complete: bool,
    exit_code: int | None,
) -> dict[str, Any]:
    """The document as plain data.

    `environment` says where and how the run was; `problems` are what could not be graded at all (a task file that does
    not load, a folder without a task): `item` and `message` each. `audits` are there with `--kbench-audit`, and a
    `summary` of speed where something was timed.
    """
    verdicts = [_verdict(task, name, verdict) for (task, name), verdict in by_candidate(records).items()]
    audited = {"audits": [each.to_json() for each in audits]} if audits else {}
    speed = summary(records)
    return {
        "schema": SCHEMA,
        "complete": complete,
        "exit_code": exit_code,
        "environment": dict(environment),
        "verdicts": verdicts,
        **({"summary": speed.to_json()} if speed is not None else {}),
        "problems": [dict(each) for each in problems],
        **audited,
        "records": [record.to_json() for record in records],
    }


def by_candidate(records: Sequence[Record]) -> dict[tuple[str, str], Verdict]:
    """The verdict on every candidate, by task and file name, sorted."""
    grouped: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        grouped.setdefault((record.task, record.candidate), []).append(record)
    return {key: Verdict.of(tuple(grouped[key])) for key in sorted(grouped)}


def _verdict(task: str, candidate: str, verdict: Verdict) -> dict[str, Any]:
    counts = {status: sum(record.status == status for record in verdict.records) for status in ("passed", "failed")}
    return {
        "task": task,
        "candidate": candidate,
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "message": verdict.message,
        **counts,
        "skipped": len(verdict.records) - sum(counts.values()),
    }


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Replace the file by this document. Raises `OSError`; an earlier document then stays as it was."""
    text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text + "\n")
            os.fchmod(file.fileno(), 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
