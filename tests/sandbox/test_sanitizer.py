"""Children under a sanitizer: locked down as others are, and what their reports come to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_kbench.build.sanitized import runtime
from pytest_kbench.options import SANITIZERS, Sanitizer
from pytest_kbench.record import Reason
from pytest_kbench.sandbox.host import Child, Failure, Limits, Program, Runtime, Sandbox
from pytest_kbench.sandbox.sanitizer import judged

from .conftest import CANDIDATES, Behaving, X

LIBRARY = Path("/cache/kernel.so")
ASAN = f"""\
printed before
=================================================================
==17==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602 at pc 0x7f bp 0x7ffc sp 0x7ffd
READ of size 32 at 0x602 thread T0
    #0 in op(tvm::ffi::TensorView) op.cpp:12 {{{LIBRARY}}}
    #1 in _PyObject_Call Objects/call.c:343 {{/opt/libpython3.11.so.1.0}}
    #2 in std::thread::run /usr/include/c++/12/thread:77 {{{LIBRARY}}}

0x602 is located 0 bytes to the right of 12-byte region [0x5f0,0x602)
allocated by thread T0 here:
    #0 in malloc <null> {{/usr/lib/libasan.so.8}}
    #1 in scratch(long) sub/scratch.h:7 {{{LIBRARY}}}

SUMMARY: AddressSanitizer: heap-buffer-overflow op.cpp:12 in op(tvm::ffi::TensorView)
Shadow bytes around the buggy address:
==17==ABORTING
"""
TSAN = f"""\
==================
WARNING: ThreadSanitizer: data race (pid=17)
  Write of size 8 at 0x7b by thread T2:
    #0 in operator() op.cpp:8 {{{LIBRARY}}}

  Previous atomic read of size 8 at 0x7b by thread T1:
    #0 in operator() op.cpp:9 {{{LIBRARY}}}

SUMMARY: ThreadSanitizer: data race op.cpp:8 in operator()
"""


def program(sanitizer: Sanitizer | None, path: Path = LIBRARY) -> Program:
    chosen = None if sanitizer is None else Runtime(sanitizer, Path("/usr/lib/lib.so"))
    return Program("tvm-ffi", path, ("op",), runtime=chosen)


def test_a_report_becomes_a_failure_that_names_error_access_and_place() -> None:
    told = judged(Failure(Reason.EXITED, "exited with status 1", ASAN), program("address"))
    assert told.reason is Reason.SANITIZER
    assert told.message == "AddressSanitizer: heap-buffer-overflow, read of size 32 at op.cpp:12"
    assert told.detail.splitlines() == [
        "ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602 at pc 0x7f bp 0x7ffc sp 0x7ffd",
        "READ of size 32 at 0x602 thread T0",
        "    #0 in op(tvm::ffi::TensorView) op.cpp:12",
        "0x602 is located 0 bytes to the right of 12-byte region [0x5f0,0x602)",
        "allocated by thread T0 here:",
        "    #1 in scratch(long) sub/scratch.h:7",
    ]


def test_a_race_becomes_a_failure_with_both_accesses() -> None:
    told = judged(Failure(Reason.EXITED, "exited with status 66", TSAN), program("thread"))
    assert told.message == "ThreadSanitizer: data race, write of size 8 at op.cpp:8"
    assert "Previous atomic read of size 8 at 0x7b by thread T1:\n    #0 in operator() op.cpp:9" in told.detail


def test_a_report_without_a_frame_of_the_candidates_keeps_all_frames() -> None:
    told = judged(Failure(Reason.CRASHED, "killed", ASAN), program("address", Path("/elsewhere/kernel.so")))
    assert told.message == "AddressSanitizer: heap-buffer-overflow, read of size 32"
    assert "#1 in _PyObject_Call Objects/call.c:343" in told.detail


@pytest.mark.parametrize(
    "failure",
    [
        Failure(Reason.EXITED, "exited with status 1", "nothing of interest"),
        Failure(Reason.TIMEOUT, "no answer within 1 s", ASAN),
        Failure(Reason.RAISED, "ValueError", ASAN),
    ],
)
def test_other_failures_stay_what_they_are(failure: Failure) -> None:
    assert judged(failure, program("address")) is failure


def test_a_report_that_no_sanitizer_can_have_made_is_only_output() -> None:
    failure = Failure(Reason.EXITED, "exited with status 1", ASAN)
    assert judged(failure, program(None)) is failure


Under = Callable[[Sanitizer], Behaving]


@pytest.fixture(scope="module")
def sanitizing(sandbox: Sandbox) -> Iterator[Under]:
    """A child of `behaviours.py` under a sanitizer, the same for all tests of this module."""
    children: dict[Sanitizer, Child] = {}

    def begin(sanitizer: Sanitizer) -> Behaving:
        if sanitizer not in children or not children[sanitizer].alive:
            path = CANDIDATES / "behaviours.py"
            needs = Program("python", path, ("forward",), runtime=runtime(sanitizer))
            child = sandbox.start(needs, Limits(memory_bytes=1 << 30), time.monotonic() + 20)
            assert isinstance(child, Child), child
            children[sanitizer] = child
        return Behaving(children[sanitizer])

    yield begin
    for child in children.values():
        child.close()


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_every_layer_holds_that_holds_for_others(sandbox: Sandbox, sanitizing: Under, sanitizer: Sanitizer) -> None:
    assert sanitizing(sanitizer).child.layers == sandbox.layers()


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_no_thread_of_the_runtime_escapes_the_lock_down(sanitizing: Under, sanitizer: Sanitizer) -> None:
    pid = sanitizing(sanitizer).child.pid
    assert len(os.listdir(f"/proc/{pid}/task")) == 1


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_calls_and_answers_are_those_of_every_child(sanitizing: Under, sanitizer: Sanitizer) -> None:
    returned = sanitizing(sanitizer)("add_one")
    assert returned.outputs[0] is not None
    assert returned.outputs[0].equal(X + 1)


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_memory_is_limited_and_told_as_everywhere(sanitizing: Under, sanitizer: Sanitizer) -> None:
    assert sanitizing(sanitizer).fails("allocate").reason is Reason.MEMORY


def test_a_crash_is_told_by_the_sanitizer(sanitizing: Under) -> None:
    failure = sanitizing("address").fails("segfault")
    assert failure.reason is Reason.SANITIZER
    assert failure.message.startswith("AddressSanitizer: SEGV")


def test_a_child_that_crashed_is_followed_by_another(sanitizing: Under) -> None:
    sanitizing("address").fails("segfault")
    sanitizing("address")("add_one")
