"""What the README shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_kbench import Grader, Settings

ROOT = Path(__file__).parent.parent
NAMED_BLOCK = r"```(?:cpp|python)\n((?:#|//) ((?:tasks|candidates|tests)/[\w/.]+).*?)```"
BLOCKS = [(name, text) for text, name in re.findall(NAMED_BLOCK, (ROOT / "README.md").read_text(), re.S)]
TESTS = {"tests/test_join.py": 1, "tests/test_sort.py": 1, "tests/test_softmax.py": 3}  # and how many cases each has
NAMES = ["candidates/softmax/mine.py", "candidates/softmax/mine.cpp", "tasks/rms_norm.py", *TESTS]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    for name, text in BLOCKS:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_there_are_a_task_two_candidates_and_three_tests():
    assert [name for name, _ in BLOCKS] == NAMES


@pytest.mark.parametrize("name", ["mine.py", "mine.cpp"])
def test_its_candidates_pass(project, name):
    with Grader(Settings(max_failures=1, examples=30)) as grader:
        verdict = grader.grade(ROOT / "tasks" / "softmax.py", project / "candidates" / "softmax" / name)
    assert verdict.outcome == "passed", verdict.message


def test_its_task_grades_its_own_reference(project, tmp_path):
    source = (project / "tasks" / "rms_norm.py").read_text()
    copy = tmp_path / "copy.py"
    copy.write_text("import torch.nn.functional as F\n" + source[source.index("\ndef ") : source.index("\ntask = ")])
    with Grader(Settings(max_failures=1, examples=30)) as grader:
        verdict = grader.grade(project / "tasks" / "rms_norm.py", copy)
    assert verdict.outcome == "passed", verdict.message


@pytest.mark.parametrize(("name", "passed"), TESTS.items())
def test_its_timed_tests_pass(project, pytester, name, passed):
    pytester.runpytest_inprocess(f"--rootdir={project}", project / name).assert_outcomes(passed=passed)


def test_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (ROOT / target).exists(), target
    assert "## Known limits" in (ROOT / "ARCHITECTURE.md").read_text()
