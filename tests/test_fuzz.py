"""The fuzz check: what it finds, what it says, and that what it says can be had again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_kbench import Grader, Param, Reason, Settings, Task, Tensor
from pytest_kbench.case import Case
from pytest_kbench.checks import fuzz

TASKS = Path(__file__).parent.parent / "tasks"
ROWS = "import torch\n\n\ndef softmax(x):\n    y = torch.softmax(x, -1)\n    {change}\n    return y\n"


@pytest.fixture(scope="module")
def grader():
    with Grader(Settings(timeout=5.0, seed=0x5EED)) as grader:
        yield grader


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(fuzz, "SHRINK_SECONDS", 60.0)  # enough on a busy machine, too


@pytest.fixture
def candidate(tmp_path):
    def write(text: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def searched(grader, task, path, **changes):
    (record,) = grader.grade(task, path, checks=["fuzz"], settings=replace(grader.settings, **changes)).records
    return record


def matmul(x, w):
    return x @ w


MATMUL = dict(
    args=[Tensor("x", "m k"), Param("w", "k n")],
    shapes={"odd": dict(m=3, k=5, n=7), "laptop": dict(m=64, k=512, n=96)},
    fuzz=dict(m="0..512", k="0..1024", n="0..512"),
)


def test_a_right_candidate_survives_all_examples(grader, candidate):
    record = searched(grader, TASKS / "softmax.py", candidate(ROWS.format(change="")), examples=60)
    assert record.status == "passed", record.message
    assert record.facts["examples"] == "60"


def test_a_failure_is_a_small_case(grader, candidate):
    path = candidate(ROWS.format(change="if x.shape[-1] > 64: y[..., 64:] *= 1.01"))
    record = searched(grader, TASKS / "softmax.py", path)
    assert record.reason is Reason.WRONG
    (call,) = Case.parse(record.case).calls
    assert dict(call.dims)["rows"] == 1
    assert 65 <= dict(call.dims)["columns"] <= 70
    assert (call.layouts, call.plans) == ((), ())


def test_a_failure_is_the_same_in_a_fresh_process_bit_by_bit(grader, candidate):
    path = candidate(ROWS.format(change="y[..., x.shape[-1] // 32 * 32 :] += 1e-3"))
    found = searched(grader, TASKS / "softmax.py", path)
    with Grader(Settings(timeout=5.0)) as another:
        (again,) = another.grade(TASKS / "softmax.py", path, checks=["fuzz"], cases=[found.case]).records
    assert (again.reason, again.comparisons) == (found.reason, found.comparisons)
    assert found.message.startswith(again.message)


def test_a_seed_gives_the_same_search_and_another_seed_another(grader, candidate):
    path = candidate(ROWS.format(change="if x.shape[-1] % 7 == 5: y *= 1.01"))
    task = TASKS / "softmax.py"
    first, again, other = (searched(grader, task, path, seed=seed) for seed in (1, 1, 2))
    assert (first.case, first.facts["examples"]) == (again.case, again.facts["examples"])
    assert first.facts["examples"] != other.facts["examples"]


CACHES_BY_SHAPE = """
import torch

cache = {}


def softmax(x):
    if x.numel() > 1 and x.shape not in cache:
        cache[x.shape] = torch.softmax(x, -1)
    return cache[x.shape].to(x.dtype) if x.numel() > 1 else torch.softmax(x, -1)
"""
CHEAP_AFTER_TWELVE = """
import torch

calls = 0


def softmax(x):
    global calls
    calls += 1
    return torch.softmax(x, -1) if calls < 12 else torch.zeros_like(x)
"""
FIRST_DTYPE = """
import torch

first = None


def softmax(x):
    global first
    first = first or x.dtype
    return torch.softmax(x.to(first), -1).to(x.dtype)
"""


@pytest.mark.parametrize("source", [CACHES_BY_SHAPE, CHEAP_AFTER_TWELVE, FIRST_DTYPE], ids=["cache", "cheap", "dtype"])
def test_what_takes_earlier_calls_is_a_case_of_several(grader, candidate, source):
    path = candidate(source)
    found = searched(grader, TASKS / "softmax.py", path)
    assert found.status == "failed"
    assert len(Case.parse(found.case).calls) > 1
    with Grader(Settings(timeout=5.0)) as another:
        (again,) = another.grade(TASKS / "softmax.py", path, checks=["fuzz"], cases=[found.case]).records
    assert again.reason is found.reason


def test_what_happens_once_is_said_to_be_that(grader, candidate, tmp_path):
    source = "import os\nimport torch\n\n\ndef softmax(x):\n    y = torch.softmax(x, -1)\n"
    path = candidate(source + "    return y * (1.0 if os.urandom(1)[0] > 12 else 1.5)\n")
    record = searched(grader, TASKS / "softmax.py", path)
    assert record.status == "failed"
    if record.facts.get("seen") == "once":
        assert "seen once, not again in a new process: a race, or memory that nobody wrote" in record.message


def test_who_hangs_is_not_tried_again(grader, candidate):
    path = candidate(ROWS.format(change="while x.shape[-1] > 20: pass"))
    record = searched(grader, TASKS / "softmax.py", path, timeout=0.5)
    assert record.reason is Reason.TIMEOUT
    assert record.seconds["total"] < 20.0


HANGS_AT_THE_SIXTH = """
import torch

calls = 0


def softmax(x):
    global calls
    calls += 1
    while calls == 6:
        pass
    return torch.softmax(x, -1)
"""


def test_a_hang_that_takes_earlier_calls_has_them_in_its_line(grader, candidate):
    path = candidate(HANGS_AT_THE_SIXTH)
    found = searched(grader, TASKS / "softmax.py", path, timeout=0.5)
    assert found.reason is Reason.TIMEOUT
    assert len(Case.parse(found.case).calls) >= 6
    settings = replace(grader.settings, timeout=0.5)
    (again,) = grader.grade(TASKS / "softmax.py", path, checks=["fuzz"], cases=[found.case], settings=settings).records
    assert again.reason is Reason.TIMEOUT


def test_what_comes_after_the_call_that_fails_is_no_part_of_its_case(grader, candidate):
    path = candidate(ROWS.format(change="if x.shape[0] == 2: y *= 1.01"))
    calls = [f"dims(rows={rows},columns=9) dtype(float32) seed({rows})" for rows in (1, 2, 3)]
    verdict = grader.grade(TASKS / "softmax.py", path, checks=["fuzz"], cases=["; ".join(calls)])
    assert verdict.records[0].case == "; ".join(calls[:2])
    assert "in call 2 of 3" in verdict.message


def test_calls_that_take_too_long_together_end_the_search(grader, candidate):
    source = "import time\nimport torch\n\n\ndef softmax(x):\n    time.sleep(0.2)\n    return torch.softmax(x, -1)\n"
    record = searched(grader, TASKS / "softmax.py", candidate(source), timeout=0.5)
    assert record.reason is Reason.TIMEOUT
    assert "--kbench-timeout allows more" in record.message


def test_who_names_a_compiler_is_judged_by_what_there_is_time_for_and_that_is_told(grader, candidate):
    path = candidate(ROWS.format(change="import time; time.sleep(0.1); torch.compile"))
    record = searched(grader, TASKS / "softmax.py", path, timeout=0.5, build_timeout=1.0)
    assert record.status == "passed", record.message
    assert 5 < int(record.facts["examples"]) < 200
    assert record.facts["ended"].startswith("its calls took ")


def test_a_reference_that_takes_long_ends_the_search_and_that_is_told(grader, candidate, monkeypatch):
    monkeypatch.setattr(fuzz, "MOST_REFERENCE", 0.0)
    record = searched(grader, TASKS / "softmax.py", candidate(ROWS.format(change="")))
    assert record.status == "passed"
    assert int(record.facts["examples"]) < 200
    assert record.facts["ended"].startswith("the reference took ")


def test_who_crashes_is_replaced_and_the_case_is_small(grader, candidate):
    path = candidate(ROWS.format(change="import os; x.shape[0] > 2 and os.abort()"))
    record = searched(grader, TASKS / "softmax.py", path)
    assert record.reason is Reason.CRASHED
    assert "dims(rows=3,columns=1)" in record.case


def test_refused_layouts_are_counted(grader, candidate):
    path = candidate(
        "import torch\n\n\ndef softmax(x):\n    assert x.is_contiguous()\n    return torch.softmax(x, -1)\n"
    )
    record = searched(grader, TASKS / "softmax.py", path, examples=60)
    assert record.status == "passed"
    assert int(record.facts["refused"]) > 0
    assert "transposed" in record.facts["refuses"]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("(x.half() @ w.half()).to(x.dtype)", "float16"),
        ("(x.bfloat16().float() @ w.bfloat16().float()).to(x.dtype)", "products in bfloat16"),
        ("(tf32(x) @ tf32(w)).to(x.dtype)", "products in TF32 or float16"),
        ("(x.bfloat16() @ w.bfloat16()).to(x.dtype)", "bfloat16"),
    ],
)
def test_a_lower_precision_is_named_with_its_factor(grader, candidate, body, name):
    source = f"""
import torch


def tf32(x):
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def matmul(x, w):
    x, w = x.contiguous(), w.contiguous()
    return {body}
"""
    record = searched(grader, Task(matmul, **MATMUL), candidate(source))
    assert record.reason is Reason.PRECISION
    assert record.message.startswith(
        f"lower precision: the error of {name}" if "products" in name else "lower precision"
    )
    assert name in record.facts["precision"]
    assert "times eager's" in record.message
    (again,) = grader.grade(Task(matmul, **MATMUL), candidate(source), checks=["fuzz"], cases=[record.case]).records
    assert again.reason is Reason.PRECISION


@pytest.mark.parametrize("change", ["y *= 1.002", "y[..., -1] *= 1.3", "y += 1e-4"])
def test_a_wrong_factor_or_a_wrong_place_is_no_precision(grader, candidate, change):
    record = searched(grader, TASKS / "softmax.py", candidate(ROWS.format(change=change)))
    assert record.reason in (Reason.WRONG, Reason.NONFINITE)


def test_the_line_of_a_wrong_bfloat16_call_fails_as_it_did(grader, candidate):
    source = "def matmul(x, w):\n    return x @ w if x.dtype.itemsize == 4 else (x @ w) * 1.5\n"
    task = Task(matmul, dtypes=["float32", "bfloat16"], **MATMUL)
    path = candidate(source)
    found = searched(grader, task, path)
    assert found.reason is Reason.WRONG
    assert "dtype(bfloat16)" in found.case
    (again,) = grader.grade(task, path, checks=["fuzz"], cases=[found.case]).records
    assert again.reason is Reason.WRONG


def test_tf32_is_fine_where_the_task_allows_it(grader, candidate):
    source = """
import torch


def tf32(x):
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def matmul(x, w):
    return tf32(x) @ tf32(w)
"""
    finite = {**MATMUL, "nan": "never"}
    assert searched(grader, Task(matmul, **finite), candidate(source)).status == "failed"
    record = searched(grader, Task(matmul, precision="tf32", **finite), candidate(source))
    assert record.status == "passed", record.message


def test_one_accumulator_in_single_precision_is_no_downgrade(grader, candidate):
    source = "def matmul(x, w):\n    return (x.unsqueeze(-1) * w).cumsum(1)[:, -1] if x.shape[1] else x @ w\n"
    record = searched(grader, Task(matmul, **MATMUL), candidate(source), examples=40)
    assert record.reason is not Reason.PRECISION


def test_a_failure_does_not_shrink_for_longer_than_its_time(grader, candidate, monkeypatch):
    monkeypatch.setattr(fuzz, "SHRINK_SECONDS", 0.0)
    path = candidate(ROWS.format(change="if x.shape[-1] > 64: y *= 1.01"))
    record = searched(grader, TASKS / "softmax.py", path)
    assert record.reason is Reason.WRONG
