"""Turns of a child that is to be timed: when it runs, what it sees, and what is read of it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
import torch

from pytest_kbench.record import Reason
from pytest_kbench.sandbox.host import Child, Failure, Limits, OutputSpec, Program, Sandbox
from pytest_kbench.sandbox.memory import stopped
from pytest_kbench.sandbox.turns import Calls, Performer, Spec, Stage, Turn, processor_time, waited

ROWS, COLUMNS, COUNT = 64, 256, 3
SHAPE = (ROWS, COLUMNS)
CPU = max(os.sched_getaffinity(0))
CALLS = Calls((Spec("x", torch.float32, SHAPE),), (OutputSpec(torch.float32, SHAPE),))
SIZE = ROWS * COLUMNS * 4


class Timed:
    """A performer before a stage, with a way to write a candidate."""

    def __init__(self, sandbox: Sandbox, folder) -> None:
        self.sandbox, self.folder = sandbox, folder
        self.stage = Stage(CALLS, COUNT)
        self.children: list[Child] = []

    def performer(self, source: str, *, binding="python", limits: Limits | None = None) -> Performer:
        path = self.folder / f"mine{len(self.children)}.py"
        path.write_text(f"import torch\n{source}")
        limits = limits or Limits(threads=1, cpus=(CPU,))
        child = self.sandbox.start(Program(binding, path, ("forward",)), limits, time.monotonic() + 30)
        assert isinstance(child, Child), child
        self.children.append(child)
        performer = Performer(child)
        assert performer.rehearse(self.stage, 10) is None
        return performer

    def reveal(self) -> None:
        for call in range(COUNT):
            self.stage.given(call)[0].fill_(call + 1.0)
        self.stage.poison()

    def close(self) -> None:
        for each in self.children:
            each.close()
        self.stage.close()


@pytest.fixture
def timed(sandbox: Sandbox, tmp_path) -> Iterator[Timed]:
    each = Timed(sandbox, tmp_path)
    yield each
    each.close()


def output(performer: Performer, call: int) -> torch.Tensor:
    read = performer.read("forward", call, 0, 0, SIZE)
    return torch.frombuffer(bytearray(read), dtype=torch.float32) if read else torch.empty(0)


def test_every_call_of_a_turn_is_claimed_and_its_output_read_from_its_own_memory(timed):
    performer = timed.performer("def forward(x):\n    return x * 2")
    turn = performer.turn("forward", 10, timed.reveal)
    assert isinstance(turn, Turn), turn
    assert len(turn.claimed) == COUNT
    assert 0 < sum(turn.claimed) <= turn.wall
    for call in range(COUNT):
        assert torch.equal(output(performer, call), torch.full((ROWS * COLUMNS,), 2.0 * (call + 1)))


def test_between_turns_nothing_of_it_runs(timed):
    performer = timed.performer(
        "import os, threading\n"
        "def spin():\n    while True: pass\n"
        "threading.Thread(target=spin, daemon=True).start()\n"
        "if os.fork() == 0: spin()\n"
        "def forward(x):\n    return x * 2"
    )
    turn = performer.turn("forward", 20, timed.reveal)
    assert isinstance(turn, Turn), turn
    pid = performer.child.pid
    assert stopped(pid)
    before = processor_time(pid)
    time.sleep(0.2)
    assert processor_time(pid) == before


def test_what_runs_while_it_should_stand_still_breaks_the_protocol(timed):
    performer = timed.performer(
        "import threading\n"
        "def spin():\n    while True: pass\n"
        "threading.Thread(target=spin, daemon=True).start()\n"
        "def forward(x):\n    return x * 2"
    )

    def wake():
        os.killpg(performer.child.pid, signal.SIGCONT)
        time.sleep(0.1)

    turn = performer.turn("forward", 20, wake)
    assert isinstance(turn, Failure)
    assert turn.reason is Reason.PROTOCOL
    assert "while it was stopped" in turn.message


def test_inputs_are_not_in_sight_before_its_turn(timed):
    performer = timed.performer(
        "import threading, time\n"
        "saw = []\n"
        "def watch(x):\n"
        "    while True:\n"
        "        saw.append(float(x[0, 0]))\n"
        "def forward(x):\n"
        "    if not saw:\n"
        "        threading.Thread(target=watch, args=(x,), daemon=True).start()\n"
        "        time.sleep(0.05)\n"
        "    return torch.full_like(x, max(saw))"
    )
    assert isinstance(performer.turn("forward", 20, timed.reveal), Turn)

    def reveal_slowly():
        timed.stage.given(0)[0].fill_(1000.0)
        time.sleep(0.3)
        timed.stage.given(0)[0].fill_(1.0)
        timed.stage.poison()

    assert isinstance(performer.turn("forward", 20, reveal_slowly), Turn)
    assert float(output(performer, 2).max()) < 1000.0


def test_it_keeps_to_its_cpus_whatever_it_asks_for(timed):
    performer = timed.performer(
        "import os\n"
        "def forward(x):\n"
        "    os.sched_setaffinity(0, range(os.cpu_count()))\n"
        "    return torch.full_like(x, len(os.sched_getaffinity(0)))"
    )
    assert isinstance(performer.turn("forward", 10, timed.reveal), Turn)
    assert output(performer, 0)[0] == 1.0
    assert os.sched_getaffinity(performer.child.pid) == {CPU}


def test_a_transposed_output_is_read_as_it_is_meant(timed):
    performer = timed.performer(
        "def forward(x):\n    return (torch.arange(64.0)[:, None] * x.t().t()).t().contiguous().t()"
    )
    assert isinstance(performer.turn("forward", 10, timed.reveal), Turn)
    assert torch.equal(output(performer, 0).view(SHAPE), torch.arange(64.0)[:, None].expand(SHAPE))


@pytest.mark.parametrize("source", ["return 3", "return None", "return ()", "return torch.empty(0)"])
def test_where_nothing_was_given_there_is_nothing_to_read_or_something_else(timed, source):
    performer = timed.performer(f"def forward(x):\n    {source}")
    assert isinstance(performer.turn("forward", 10, timed.reveal), Turn)
    read = output(performer, 0)
    assert read.numel() == 0 or not torch.equal(read, torch.ones(ROWS * COLUMNS))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise ValueError('no')", Reason.RAISED),
        ("import os; os.abort()", Reason.CRASHED),
        ("import os; os._exit(3)", Reason.EXITED),
        ("import time; time.sleep(60)", Reason.TIMEOUT),
    ],
)
def test_a_turn_that_does_not_come_back_says_why(timed, source, reason):
    performer = timed.performer(f"def forward(x):\n    {source}")
    turn = performer.turn("forward", 2, timed.reveal)
    assert isinstance(turn, Failure)
    assert turn.reason is reason


@pytest.mark.parametrize(
    "answer",
    [
        "[1], []", "[-1] * 3, []", "[0.5] * 3, []", "[10 ** 30] * 3, []", "[1] * 3, [[-1]] * 3", "'x', []",
        "[1] * 5000, []", "[1] * 3, [[1] * 5000]",
    ],
)  # fmt: skip
def test_an_answer_that_makes_no_sense_breaks_the_protocol(timed, answer):
    performer = timed.performer(
        "import sys\n"
        f"sys.modules['pytest_kbench.sandbox.child'].forwards = lambda *a, **k: ({answer})\n"
        "def forward(x):\n    return x"
    )
    turn = performer.turn("forward", 10, timed.reveal)
    assert isinstance(turn, Failure)
    assert turn.reason is Reason.PROTOCOL


@pytest.mark.parametrize("place", ["0", "1 << 50", "10 ** 17"])
def test_addresses_that_are_none_give_nothing(timed, place):
    performer = timed.performer(
        "import sys\n"
        f"sys.modules['pytest_kbench.sandbox.child'].forwards = lambda *a, **k: ([1] * 3, [[{place}]] * 3)\n"
        "def forward(x):\n    return x"
    )
    assert isinstance(performer.turn("forward", 10, timed.reveal), Turn)
    assert output(performer, 0).numel() == 0


def test_a_reference_runs_with_what_its_file_imports(timed):
    performer = timed.performer(
        "from pytest_kbench import Task, Tensor\n"
        "def forward(x):\n    return x + 1\n"
        "task = Task(forward, args=[Tensor('x', 'n')], shapes={'one': dict(n=1)})",
        binding="reference",
    )
    assert isinstance(performer.turn("forward", 10, timed.reveal), Turn)
    assert output(performer, 1)[0] == 3.0


def test_a_stage_may_be_shifted_and_rehearsed_again(timed):
    import random

    performer = timed.performer("def forward(x):\n    return x * 2")
    for seed in range(3):
        timed.stage.shift(random.Random(seed))
        assert performer.rehearse(timed.stage, 10) is None
        assert isinstance(performer.turn("forward", 10, timed.reveal), Turn)
        assert output(performer, 2)[5] == 6.0


def test_a_child_without_cpus_of_its_own_hands_nothing_over(timed):
    performer = timed.performer("def forward(x):\n    return x", limits=Limits(threads=1))
    assert performer.child.connection.memory is None
    assert isinstance(performer.turn("forward", 10, timed.reveal), Turn)
    assert output(performer, 0).numel() == 0


def test_a_timer_that_would_wake_it_cannot_be_made(timed):
    number = {"x86_64": 222, "aarch64": 107}[os.uname().machine]
    performer = timed.performer(
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def forward(x):\n"
        f"    libc.syscall({number}, 1, None, ctypes.byref(ctypes.c_void_p()))\n"
        "    return torch.full_like(x, ctypes.get_errno())"
    )
    assert isinstance(performer.turn("forward", 10, timed.reveal), Turn)
    assert output(performer, 0)[0] == 1.0  # EPERM


@pytest.mark.parametrize(
    ("delayed", "own", "cpu", "said"),
    [
        (0.004, 0.006, 0.006, 0.004),  # others had its CPU for the rest of the turn
        (0.004, 0.006, 0.010, 0.0),  # a process of its own had it
        (0.005, 0.010, 0.010, 0.0),  # a thread of its own had it
        (0.008, 0.007, 0.007, 0.003),  # more than the rest of the turn cannot be others'
    ],
)
def test_what_a_child_waits_for_its_own_threads_and_processes_is_no_disturbance(delayed, own, cpu, said):
    assert waited(delayed, own, cpu, wall=0.010, cpus=1) == pytest.approx(said)
