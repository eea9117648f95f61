"""One sandbox for the whole session, and short ways to say what a test does with it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from pytest_kbench.sandbox.host import (
    Child,
    Failure,
    Limits,
    OutputSpec,
    Program,
    Returned,
    Sandbox,
    TensorArgument,
    ValueArgument,
)  # fmt: skip

HERE = Path(__file__).parent
CANDIDATES = HERE / "candidates"
SECRET = "xyzzy-plugh-31337"
X = torch.arange(12.0).reshape(3, 4)


def argument(values: torch.Tensor, name: str = "x", in_place: bool = False) -> TensorArgument:
    """A dense argument."""
    values = values.contiguous()
    return TensorArgument(name, values, values.stride(), 0, values.numel(), in_place)


def spec(values: torch.Tensor) -> OutputSpec:
    """An output like this one."""
    return OutputSpec(values.dtype, tuple(values.shape))


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    os.environ["KBENCH_TEST_SECRET"] = SECRET
    with Sandbox(threads=1) as each:
        each.layers()
        del os.environ["KBENCH_TEST_SECRET"]
        yield each


Start = Callable[..., Child]


@pytest.fixture
def start(sandbox: Sandbox) -> Iterator[Start]:
    """Start a candidate by the name of its file in `candidates/` (or its path); it is closed after the test."""
    children: list[Child] = []

    def begin(name: str | Path, *entry_points: str, limits: Limits | None = None) -> Child:
        program = Program("python", CANDIDATES / name, entry_points or ("forward",))
        child = sandbox.start(program, limits or Limits(memory_bytes=1 << 30), time.monotonic() + 20)
        assert isinstance(child, Child), child
        children.append(child)
        return child

    yield begin
    for child in children:
        child.close()


class Behaving:
    """A child of `behaviours.py`, asked to behave in one way or another."""

    def __init__(self, child: Child) -> None:
        self.child = child

    def ask(
        self, behaviour: str, *values: object, x: TensorArgument | None = None, like: torch.Tensor = X,
        seconds: float = 10, hold: int = 0,
    ) -> Returned | Failure:  # fmt: skip
        arguments = [x or argument(X), ValueArgument("behaviour", behaviour)]
        arguments += [ValueArgument(f"v{index}", value) for index, value in enumerate(values)]  # type: ignore[arg-type]
        return self.child.call(arguments, [spec(like)], seconds=seconds, hold=hold)

    def __call__(self, behaviour: str, *values: object, **how: object) -> Returned:
        """The same, where a failure is not expected."""
        returned = self.ask(behaviour, *values, **how)  # type: ignore[arg-type]
        assert isinstance(returned, Returned), returned
        return returned

    def fails(self, behaviour: str, *values: object, **how: object) -> Failure:
        """The same, where a failure is expected."""
        returned = self.ask(behaviour, *values, **how)  # type: ignore[arg-type]
        assert isinstance(returned, Failure), returned
        return returned


@pytest.fixture
def behave(start: Start) -> Behaving:
    return Behaving(start("behaviours.py"))


@pytest.fixture
def behave_within(start: Start) -> Callable[[Limits], Behaving]:
    return lambda limits: Behaving(start("behaviours.py", limits=limits))


def wait_until_gone(pids: list[int], seconds: float = 3.0) -> list[int]:
    """Those of these processes that are still there (zombies do not count) when time is up."""
    end = time.monotonic() + seconds
    while True:
        left = [pid for pid in pids if _lives(pid)]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
