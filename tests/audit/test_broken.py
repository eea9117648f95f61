"""Tasks in the style of those known to be broken: the audit names each fault, which the first line of each says."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kbench import Settings
from pytest_kbench.audit.audit import audit
from pytest_kbench.audit.judge import LEFT_OUT
from pytest_kbench.formats import native

BROKEN = sorted((Path(__file__).parent / "broken").glob("*.py"))
TASKS = sorted((Path(__file__).parent.parent.parent / "tasks").glob("*.py"))


def test_there_are_ten():
    assert len(BROKEN) == 10


@pytest.mark.slow
@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_the_audit_names_the_fault(path):
    found = audit(native.load(path)[0], Settings(seed=0xFA17, examples=20))
    due = path.read_text().partition("\n")[0].removeprefix("# audit: ").split(", ")
    seen = {each.filter for each in found.faults} | {f"{each.filter} {each.what.split()[0]}" for each in found.faults}
    seen |= {f"degenerate {each.name}" for each in found.survivors if each.kind == "degenerate"}
    seen |= {"copy"} if found.copy else set()
    assert set(due) <= seen
    assert found.problems(0.0) != ()


@pytest.mark.slow
@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_shipped_tasks_notice_what_is_wrong(path):
    found = audit(native.load(path)[0], Settings(seed=0x5EED))
    assert found.problems(0.95) == ()
    assert [note for note in found.notes if not note.startswith(LEFT_OUT)] == []
