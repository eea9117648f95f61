"""Whatever a candidate does to itself, the grader gets a typed verdict, soon, and nothing lives on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pytest_kbench.record import Reason
from pytest_kbench.sandbox import connection
from pytest_kbench.sandbox.host import Child, Failure, Limits, Program, Returned, Sandbox

from .conftest import CANDIDATES, Behaving, Start, X, argument, wait_until_gone

WithinLimits = Callable[[Limits], Behaving]


@pytest.mark.parametrize(
    ("behaviour", "reason", "message"),
    [
        ("segfault", Reason.CRASHED, "killed by SIGSEGV"),
        ("abort", Reason.CRASHED, "killed by SIGABRT"),
        ("kill_itself", Reason.CRASHED, "killed by SIGKILL"),
        ("exit_at_once", Reason.EXITED, "exited with status 0"),
        ("exit_politely", Reason.EXITED, "SystemExit: 3"),
        ("close_channel", Reason.EXITED, "exited with status 1"),
        ("close_channel_and_wait", Reason.PROTOCOL, "closed its channel"),
        ("forge_wrong_seq", Reason.PROTOCOL, "a request that was not made"),
        ("forge_two", Reason.PROTOCOL, "more than one reply"),
        ("forge_another_kind", Reason.PROTOCOL, "another kind"),
        ("forge_reason", Reason.PROTOCOL, "a reason that a child may not claim"),
        ("send_garbage", Reason.PROTOCOL, "not UTF-8"),
        ("send_deep", Reason.PROTOCOL, "nested deeper"),
        ("send_oversized", Reason.PROTOCOL, "4294967295 bytes"),
        ("fill_the_channel", Reason.PROTOCOL, "broke the protocol"),
        ("send_half", Reason.EXITED, "exited with status 0"),
    ],
)
def test_a_candidate_that_ends_or_lies_is_a_typed_failure(
    behave: Behaving, behaviour: str, reason: Reason, message: str
) -> None:
    pid = behave.child.pid
    failure = behave.fails(behaviour)
    assert failure.reason is reason
    assert message in failure.message
    assert "\n" not in failure.message
    assert not behave.child.alive
    assert pid is not None
    assert not wait_until_gone([pid])


@pytest.mark.parametrize("behaviour", ["loop", "loop_without_the_gil", "stop_itself"])
def test_a_deadline_is_a_wall(behave: Behaving, behaviour: str) -> None:
    started = time.monotonic()
    failure = behave.fails(behaviour, seconds=0.3)
    assert failure.reason is Reason.TIMEOUT
    assert time.monotonic() - started < 0.3 + 0.2
    assert behave.child.pid is not None
    assert not wait_until_gone([behave.child.pid])


@pytest.mark.parametrize(
    ("behaviour", "reason", "message"),
    [
        ("raise_value_error", Reason.RAISED, "ValueError: only dense in this version"),
        ("raise_unprintable", Reason.RAISED, "Unprintable: (its message could not be read)"),
        ("raise_long", Reason.RAISED, "RuntimeError: yyy"),
        ("raise_base", Reason.RAISED, "Base: not an Exception"),
        ("recurse", Reason.RAISED, "RecursionError: maximum recursion depth"),
        ("raise_memory", Reason.MEMORY, "MemoryError"),
        ("allocate", Reason.MEMORY, "can't allocate memory"),
    ],
)
def test_an_exception_is_reported_and_survived(behave: Behaving, behaviour: str, reason: Reason, message: str) -> None:
    failure = behave.fails(behaviour)
    assert failure.reason is reason
    assert message in failure.message
    assert len(failure.message) < 2100
    # Then the same child goes on.
    assert torch.equal(behave("add_one").outputs[0], X + 1)  # type: ignore[arg-type]


def test_a_traceback_shows_the_candidates_frames_only(behave: Behaving) -> None:
    detail = behave.fails("raise_value_error").detail
    assert 'File "behaviours.py"' in detail
    assert "in raise_value_error" in detail
    assert 'raise ValueError("only dense' in detail
    assert "child.py" not in detail
    # And a long one is bounded.
    assert behave.fails("recurse").detail.count("File") <= 20


def test_shared_memory_counts_although_no_rlimit_sees_it(behave_within: WithinLimits) -> None:
    failure = behave_within(Limits(memory_bytes=128 << 20)).fails("touch_shared")
    assert failure.reason is Reason.MEMORY
    assert "MiB are allowed" in failure.message


def test_more_addresses_than_any_kernel_needs_are_refused(behave: Behaving) -> None:
    assert behave.fails("map_sparsely", 512).reason is Reason.MEMORY
    assert behave("add_one").outputs[0] is not None


def test_page_tables_count_as_memory(behave_within: WithinLimits) -> None:
    failure = behave_within(Limits(memory_bytes=64 << 20)).fails("map_sparsely", 60)
    assert failure.reason is Reason.MEMORY
    assert "64 MiB are allowed" in failure.message


def test_a_child_is_ended_before_the_machine_has_no_memory_left(
    behave: Behaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "machine_memory", lambda: 100 << 20)
    failure = behave.fails("loop_without_the_gil")
    assert failure.reason is Reason.MEMORY
    assert "the machine has 100 MiB of memory left" in failure.message


def test_endless_output_is_a_flood_and_its_ends_are_kept(behave_within: WithinLimits) -> None:
    failure = behave_within(Limits(memory_bytes=1 << 30, output_bytes=1 << 20, output_kept=100)).fails("flood")
    assert failure.reason is Reason.FLOOD
    assert "bytes left out" in failure.detail
    assert len(failure.detail) < 300


def test_last_words_are_shown_without_terminal_commands(behave: Behaving) -> None:
    detail = behave.fails("print_and_crash").detail
    assert "the last words" in detail
    assert "red" in detail
    assert "\x1b" not in detail
    assert "in print_and_crash" in detail
    assert "sandbox/child.py" not in detail
    for boilerplate in ("Fatal Python error", "Extension modules", "<stdin>", "0x"):
        assert boilerplate not in detail


def test_a_fork_bomb_is_bounded_and_leaves_nothing(behave_within: WithinLimits) -> None:
    behave = behave_within(Limits(memory_bytes=4 << 30, processes=40))
    pid = behave.child.pid
    assert pid is not None
    failure = behave.fails("fork_bomb", seconds=0.5)
    assert failure.reason is Reason.TIMEOUT
    assert not wait_until_gone(_group(pid) or [pid], 5)
    assert not _group(pid)


def _group(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields[2] == str(pid) and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_a_perfect_forgery_gains_nothing(behave: Behaving) -> None:
    # When a candidate knows the request and answers it itself
    returned = behave("forge_perfectly")
    # Then what is judged is still what lies in memory: poison.
    assert returned.outputs[0] is not None
    assert returned.outputs[0].isnan().all()
    # And the honest reply that comes later is one that nobody asked for.
    time.sleep(0.5)
    assert behave.fails("add_one").reason is Reason.PROTOCOL


def test_a_message_between_requests_is_a_breach(behave: Behaving) -> None:
    behave("send_later")
    time.sleep(0.2)
    failure = behave.fails("add_one")
    assert failure.reason is Reason.PROTOCOL
    assert "nobody asked for" in failure.message


@pytest.mark.parametrize(
    ("behaviour", "reason", "message"),
    [
        ("exit_later", Reason.EXITED, "exited with status 7 before this request"),
        ("abort_later", Reason.CRASHED, "killed by SIGABRT before this request"),
    ],
)
@pytest.mark.parametrize("looked_at", [True, False])
def test_an_end_between_two_calls_is_seen_and_told_as_what_it_was(
    behave: Behaving, behaviour: str, reason: Reason, message: str, looked_at: bool
) -> None:
    behave(behaviour)
    assert behave.child.alive
    assert behave.child.pid is not None
    assert not wait_until_gone([behave.child.pid])
    if looked_at:
        assert not behave.child.alive
    failure = behave.fails("add_one")
    assert (failure.reason, failure.message) == (reason, message)
    assert not behave.child.alive


def test_an_end_that_the_zygote_has_not_told_yet_is_waited_for(sandbox: Sandbox, behave: Behaving) -> None:
    assert sandbox._zygotes
    zygote = next(iter(sandbox._zygotes.values())).process.pid
    os.kill(zygote, signal.SIGSTOP)
    try:
        behave("exit_later")
        assert behave.child.pid is not None
        assert not wait_until_gone([behave.child.pid])
        assert not behave.child.alive  # its channel has ended: that much is known
        threading.Timer(0.1, os.kill, (zygote, signal.SIGCONT)).start()
        assert behave.fails("add_one").message == "exited with status 7 before this request"
    finally:
        os.kill(zygote, signal.SIGCONT)


def test_a_channel_that_was_closed_between_two_calls_ends_the_child(behave: Behaving) -> None:
    behave("hang_up_later")
    time.sleep(0.15)
    assert not behave.child.alive
    failure = behave.fails("add_one")
    assert (failure.reason, "closed its channel" in failure.message) == (Reason.PROTOCOL, True)


def test_a_reply_with_the_end_of_the_channel_behind_it_ends_the_child(behave: Behaving) -> None:
    behave("reply_and_hang_up")
    time.sleep(0.05)
    assert not behave.child.alive
    large = argument(torch.zeros(1, 400_000))  # and a request that does not fit into the channel goes nowhere
    failure = behave.fails("add_one", *["x" * 1000] * 500, x=large)
    assert (failure.reason, "closed its channel" in failure.message) == (Reason.PROTOCOL, True)


def test_an_interrupted_call_leaves_no_reply_for_the_next(behave: Behaving, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: object, now: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pytest_kbench.sandbox.connection.Connection._watch", interrupt)
        with pytest.raises(KeyboardInterrupt):
            behave("loop_without_the_gil")
    assert behave.fails("add_one").reason is Reason.EXITED


def test_a_dead_child_answers_with_a_failure(behave: Behaving) -> None:
    behave.fails("exit_at_once")
    assert behave.fails("add_one").reason is Reason.EXITED
    assert isinstance(behave.child.reread(0, seconds=1), Failure)


@pytest.mark.parametrize(
    ("source", "reason", "message"),
    [
        ("import nonsense_that_is_not_there", Reason.LOAD, "ModuleNotFoundError"),
        ("def forward(:", Reason.LOAD, "SyntaxError"),
        ("forward = 3", Reason.BINDING, "it has no function named forward; it has none at all"),
        (
            "import torch\nfrom torch import relu\ndef back(x): ...\nclass Net(torch.nn.Module): ...\ndef _x(): ...",
            Reason.BINDING,
            "it has no function named forward; it has back, Net",
        ),
        (
            "\n".join(f"def f{i}(): ..." for i in range(25)),
            Reason.BINDING,
            "it has f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 and 15 more",
        ),
        ("import os; os._exit(0)", Reason.EXITED, "status 0"),
        ("raise SystemExit(0)", Reason.EXITED, "SystemExit"),
        ("while True: pass", Reason.TIMEOUT, "no answer within 1 s"),
        ("import os; os.abort()", Reason.CRASHED, "SIGABRT"),
        ("x = bytearray(1 << 34)", Reason.MEMORY, "MemoryError"),
        ("import os\nos.write(3, b'\\0\\0\\0\\2{}')\nimport time; time.sleep(9)", Reason.PROTOCOL, "protocol"),
    ],
)
def test_loading_has_verdicts_too(sandbox: Sandbox, tmp_path: Path, source: str, reason: Reason, message: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(source)
    begun = time.monotonic()
    failure = sandbox.start(Program("python", file, ("forward",)), Limits(memory_bytes=1 << 30), begun + 1)
    assert isinstance(failure, Failure)
    assert failure.reason is reason
    assert message in failure.message
    assert time.monotonic() - begun < 1.3


def test_entry_points_are_tried_in_order(start: Start) -> None:
    assert start("behaviours.py", "no_such_name", "add_one", "forward").entry_point == "add_one"


def test_a_folder_is_loaded_as_a_package(start: Start, tmp_path: Path) -> None:
    package = tmp_path / "kernel"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import forward")
    (package / "inner.py").write_text("def forward(x, behaviour): return x + 1")
    assert torch.equal(Behaving(start(package))("").outputs[0], X + 1)  # type: ignore[arg-type]


def test_children_are_started_and_called_from_many_threads(sandbox: Sandbox) -> None:
    results: list[object] = []

    def one() -> None:
        program = Program("python", CANDIDATES / "behaviours.py", ("forward",))
        child = sandbox.start(program, Limits(memory_bytes=1 << 30), time.monotonic() + 20)
        assert isinstance(child, Child)
        with child:
            results.append(Behaving(child)("add_one").outputs[0])

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    assert all(isinstance(each, torch.Tensor) and torch.equal(each, X + 1) for each in results)


def test_threads_are_as_many_as_asked_for(behave_within: WithinLimits) -> None:
    behave = behave_within(Limits(memory_bytes=1 << 30, threads=2))
    returned = behave("threads", like=torch.zeros(2, dtype=torch.int64))
    assert returned.outputs[0] is not None
    assert returned.outputs[0].tolist() == [2, 2]


def test_a_dead_zygote_is_replaced() -> None:
    with Sandbox(threads=1) as sandbox:
        program = Program("python", CANDIDATES / "behaviours.py", ("forward",))
        child = sandbox.start(program, Limits(memory_bytes=1 << 30), time.monotonic() + 20)
        assert isinstance(child, Child)
        assert sandbox._zygotes
        assert child.pid is not None
        next(iter(sandbox._zygotes.values())).process.kill()
        next(iter(sandbox._zygotes.values())).process.wait()
        assert not wait_until_gone([child.pid])
        failure = Behaving(child).fails("add_one")
        assert (failure.reason, "zygote ended" in failure.message) == (Reason.ENVIRONMENT, True)
        again = sandbox.start(program, Limits(memory_bytes=1 << 30), time.monotonic() + 20)
        assert isinstance(again, Child)
        assert isinstance(Behaving(again).ask("add_one"), Returned)
