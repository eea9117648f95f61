"""Audits as text: the table at the end of a run, the survivors below it, and a failure in full."""

from __future__ import annotations

from collections.abc import Sequence

from ..audit.result import Audit, Tried

SHOWN = 12  # survivors that a failure tells of in full


def table(audits: Sequence[Audit], least: float) -> list[str]:
    """Header and one row per task: how many wrong kernels were tried, and what became of them."""
    head = ("task", "degenerate", "mutants", "killed", "equivalent", "survivors", "score", "verdict")
    rows = [head, *(_row(each, least) for each in sorted(audits, key=lambda each: each.task))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def survivors(audits: Sequence[Audit]) -> list[str]:
    """One line per survivor of all tasks, with the task's own word on it, and what could not be tried."""
    lines = []
    for audit in sorted(audits, key=lambda each: each.task):
        lines += [f"{audit.task}: {each.name} survives: {each.explained or each.why}" for each in audit.survivors]
        lines += [f"{audit.task}: {note}" for note in audit.notes]
    return lines


def text(audit: Audit, problems: Sequence[str]) -> str:
    """A failed audit: what is wrong, then each survivor with its diff, why it survives, and what to change."""
    first, *others = problems
    lines = [f"audit: {audit.task}: {first}", *(f"  {each}" for each in others)]
    lived = audit.survivors
    for each in lived[:SHOWN]:
        lines += ["", *_survivor(each)]
    if len(lived) > SHOWN:
        lines += ["", f"and {len(lived) - SHOWN} more: {', '.join(each.name for each in lived[SHOWN:])}"]
    return "\n".join(lines)


def _survivor(tried: Tried) -> list[str]:
    rows = [("survives", tried.why), ("explained", tried.explained or ""), ("change", tried.fix)]
    told = [f"  {name:<10} {value}" for name, value in rows if value]
    return [f"{tried.kind}: {tried.name}", *(f"  {line}" for line in tried.what.splitlines()), *told]


def _row(audit: Audit, least: float) -> tuple[str, ...]:
    degenerate = sum(each.kind == "degenerate" for each in audit.tried)
    score, problems = audit.score, audit.problems(least)
    words = list(dict.fromkeys(each.filter for each in audit.faults))
    words += ["degenerate survives"] if any(each.kind == "degenerate" for each in audit.survivors) else []
    words += ["copy fails"] if audit.copy else []
    words += ["score"] if score is None or score < least else []
    return (
        audit.task,
        str(degenerate),
        str(len(audit.tried) - degenerate),
        str(audit.count("killed")),
        str(audit.count("equivalent")),
        str(len(audit.survivors)),
        "-" if score is None else f"{score:.3f}",
        f"FAILED: {', '.join(words)}" if problems else "passed",
    )
