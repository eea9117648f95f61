"""Candidates on a GPU that want to seem faster than they are: each fails, or gains nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pytest_kbench import Grader, Settings
from pytest_kbench.case import Case
from pytest_kbench.record import Record

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CASES = {
    "softmax": "dims(rows=512,columns=1024) dtype(float32) seed(7)",
    "llama_rmsnorm": "dims(tokens=16384,hidden=4096) dtype(float32) state(trained) scalars(eps=1e-06) seed(7)",
}


def candidates(folder: str) -> list[pytest.ParameterSet]:
    return [pytest.param(each, id=each.name) for each in sorted((HERE / folder).glob("*/*.py"))]


def expected(path: Path) -> list[str]:
    """The reasons that the first line allows."""
    found = re.match(r"# verdict: ([a-z_|]+)\n", path.read_text())
    assert found, path
    return found[1].split("|")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(Settings(seed=0, baselines=("eager",), budget=0.5, device="cuda")) as grader:
        yield grader


def timed(grader: Grader, path: Path, task: str = "softmax") -> Record:
    case = Case.parse(CASES[task])
    return grader.grade(ROOT / "tasks" / f"{task}.py", path, checks=["speed"], cases=[case]).records[0]


@pytest.mark.parametrize("path", candidates("gpu_cheats"))
def test_a_cheat_fails_while_it_is_timed_on_a_gpu(grader, path):
    record = timed(grader, path)
    assert record.status == "failed", record.message
    assert str(record.reason) in expected(path), record.message


@pytest.mark.parametrize("path", candidates("gpu_idle"))
def test_what_it_does_beside_its_work_on_a_gpu_gains_nothing(grader, path):
    record = timed(grader, path)
    assert record.reason is None or str(record.reason) in ("clock", "wrong"), record.message
    assert all(timing.speed != "faster" for timing in record.timings), record.message


@pytest.mark.parametrize("task", CASES)
@pytest.mark.parametrize("name", ["rows.cu", "eager.py", "torch_form.cu", "triton_rows.py"])
def test_an_honest_candidate_is_timed_on_a_gpu_in_every_form(grader, task, name):
    record = timed(grader, ROOT / "candidates" / task / name, task)
    assert record.status == "passed", record.message


def test_the_reference_is_as_fast_as_itself_on_a_gpu(grader, tmp_path):
    path = tmp_path / "same.py"
    path.write_text("import torch\n\n\ndef softmax(x):\n    return torch.softmax(x, dim=-1)\n")
    (timing,) = timed(grader, path).timings
    assert timing.speed == "same"
    assert timing.clock == "CUDA events around a graph"


BACKWARD = """
import torch
from pytest_kbench import Task, Tensor


def softmax(x):
    return torch.softmax(x, dim=-1)


task = Task(
    softmax,
    args=[Tensor("x", "rows columns")],
    shapes={"large": dict(rows=2048, columns=1024)},
    time=dict(cuda=["large"]),
    grad=["x"],
    time_backward=True,
)
"""


@pytest.mark.parametrize("name", ["rows.cu", "eager.py"])
def test_a_backward_is_timed_alone_on_a_gpu(grader, tmp_path, name):
    (tmp_path / "softmax.py").write_text(BACKWARD)
    forward, backward = grader.grade(
        tmp_path / "softmax.py", ROOT / "candidates" / "softmax" / name, checks=["speed"]
    ).records
    assert (forward.status, backward.status) == ("passed", "passed"), backward.message
    assert backward.timings[0].clock == "CUDA events around a graph"
    assert backward.timings[0].seconds["baseline"] > 0


IN_PLACE = """
import torch
from pytest_kbench import Scalar, Task, Tensor


def scaled(x, y, factor):
    x.add_(y, alpha=factor)


task = Task(
    scaled,
    args=[Tensor("x", "n"), Tensor("y", "n"), Scalar("factor", 0.5)],
    shapes={"large": dict(n=1 << 20)},
    time=dict(cuda=["large"]),
    in_place=["x"],
)
"""


@pytest.mark.parametrize(
    ("body", "outcome"),
    [("x.add_(y, alpha=factor)", "passed"), ("x.add_(y, alpha=1.01 * factor)", "wrong")],
)
def test_what_is_written_in_place_is_looked_at_on_a_gpu(grader, tmp_path, body, outcome):
    (tmp_path / "scaled.py").write_text(IN_PLACE)
    (tmp_path / "mine.py").write_text(f"def scaled(x, y, factor):\n    {body}\n")
    (record,) = grader.grade(tmp_path / "scaled.py", tmp_path / "mine.py", checks=["speed"]).records
    assert (str(record.reason) if record.status == "failed" else record.status) == outcome, record.message


def test_what_cannot_be_captured_is_queued_and_said_to_be(grader, tmp_path):
    path = tmp_path / "synchronises.py"
    path.write_text("import torch\n\n\ndef softmax(x):\n    float(x[0, 0])\n    return torch.softmax(x, dim=-1)\n")
    record = timed(grader, path)
    assert record.status == "passed", record.message
    assert record.timings[0].clock == "CUDA events around queued calls"
    assert record.timings[0].speed != "faster"


def test_a_kernel_that_reads_beyond_its_tensor_costs_one_verdict(grader, tmp_path):
    path = tmp_path / "beyond.py"
    path.write_text(
        "import torch\n\n\ndef softmax(x):\n"
        "    index = torch.full((1,), 1 << 40, device=x.device)\n"
        "    return torch.softmax(x, dim=-1) + torch.zeros(4, device=x.device)[index]\n"
    )
    record = timed(grader, path)
    assert (record.status, str(record.reason)) == ("failed", "crashed"), record.message
    assert timed(grader, ROOT / "candidates" / "softmax" / "eager.py").status == "passed"


TWO_STREAMS = """
import torch

side = []


def softmax(x):
    main = torch.cuda.current_stream()
    if not side:
        side.append(torch.cuda.Stream())
    half = x.shape[0] // 2
    y = torch.empty_like(x)
    side[0].wait_stream(main)
    with torch.cuda.stream(side[0]):
        torch.softmax(x[:half], -1, out=y[:half])
    torch.softmax(x[half:], -1, out=y[half:])
    main.wait_stream(side[0])
    return y
"""


def test_who_joins_the_streams_that_it_uses_may_use_them(grader, tmp_path):
    path = tmp_path / "two_streams.py"
    path.write_text(TWO_STREAMS)
    record = timed(grader, path)
    assert record.status == "passed", record.message
    assert record.timings[0].clock == "CUDA events around a graph"


def test_one_call_is_no_slower_where_nothing_empties_the_caches(grader):
    (timing,) = timed(grader, ROOT / "candidates" / "softmax" / "rows.cu").timings
    assert 0 < timing.warm < 1.02 * timing.seconds["candidate"]


def test_compiled_baselines_are_made_on_a_gpu(tmp_path):
    settings = Settings(seed=0, baselines=("eager", "compile", "max-autotune"), budget=0.5, device="cuda")
    with Grader(settings) as grader:
        record = timed(grader, ROOT / "candidates" / "softmax" / "rows.cu")
    assert record.status == "passed", record.message
    assert [each.baseline for each in record.timings] == ["eager", "compile", "max-autotune"], record.message
