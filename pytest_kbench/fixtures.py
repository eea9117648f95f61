"""Fixtures for people's own tests. They work in every pytest run, with or without `--kbench`."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pytest

from .device import cpu_model
from .options import CheckName, Settings

if TYPE_CHECKING:
    import torch

    from .record import Verdict
    from .timing.own import Timing


class Grade(Protocol):
    """What `kbench_grade` is."""

    def __call__(
        self,
        task: Path | str,
        candidate: Path | str,
        *,
        checks: Sequence[CheckName] | None = None,
        cases: Sequence[str] | None = None,
        settings: Settings | None = None,
    ) -> Verdict:
        """Grade a candidate, as `pytest_kbench.grade` does; paths are relative to the rootdir."""


class Timer(Protocol):
    """What `kbench_timer` is."""

    def __call__(
        self,
        fn: Callable[..., object],
        baseline: Callable[..., object],
        args: tuple[Any, ...] | Callable[[], tuple[Any, ...]] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        budget: float = 1.0,
        cold: bool = False,
    ) -> Timing:
        """Time `fn` against `baseline`, both called with `args` and `kwargs`, for about `budget` seconds."""


@dataclass(frozen=True, slots=True)
class Device:
    """What a run grades on. `name` is for people: the CPU's model, or what torch calls the GPU."""

    kind: Literal["cpu", "cuda"]
    name: str
    index: int = 0

    @property
    def torch(self) -> torch.device:
        """The device as torch has it; this imports torch."""
        import torch

        return torch.device(str(self))

    def __str__(self) -> str:
        return "cpu" if self.kind == "cpu" else f"cuda:{self.index}"


SETTINGS: pytest.StashKey[Callable[[], Settings]] = pytest.StashKey()  # reads what the run was given; set by the plugin


@pytest.fixture(scope="session")
def kbench_grade(pytestconfig: pytest.Config) -> Grade:
    """Grade candidates from an ordinary test: `kbench_grade("tasks/softmax.py", "candidates/softmax/mine.py")`.

    Its arguments are those of `pytest_kbench.grade`, and so is the `Verdict` that it returns; relative paths are taken
    from the rootdir, and settings, where none are given, from the command line and the configuration file. The
    candidate runs in the sandbox.
    """
    from . import grader

    own = _settings(pytestconfig)
    root = pytestconfig.rootpath

    def grade(
        task: Path | str,
        candidate: Path | str,
        *,
        checks: Sequence[CheckName] | None = None,
        cases: Sequence[str] | None = None,
        settings: Settings | None = None,
    ) -> Verdict:
        return grader.grade(root / task, root / candidate, checks=checks, cases=cases, settings=settings or own)

    return grade


@pytest.fixture
def kbench_timer() -> Timer:
    """Time a function of the test against another: `t = kbench_timer(mine, theirs, args=(x,))`, then `t.speed`.

    Both are called in turns in this process, until an interval for `t.speedup` is narrow or `budget=` seconds (1.0) are
    spent, after a warm-up. `args=` is a tuple, or a function that makes a fresh one for each call: `lambda:
    (x.clone(),)`. With `cold=True` each call finds empty caches. Not tamper-proof; `kbench_grade` is.
    """
    from .timing.own import time_both

    return time_both


@pytest.fixture(scope="session")
def kbench_device(pytestconfig: pytest.Config) -> Device:
    """The device that the run grades on, as `--kbench-device` says: `.kind`, `.name`, `.torch`, and its text."""
    device = _settings(pytestconfig).device
    if device == "cpu":
        return Device("cpu", cpu_model() or platform.machine())
    import torch

    return Device("cuda", torch.cuda.get_device_name(device), torch.device(device).index)


def _settings(config: pytest.Config) -> Settings:
    """What the command line and the configuration file say; a mistake there fails the test that asks."""
    try:
        return config.stash[SETTINGS]()
    except pytest.UsageError as error:
        pytest.fail(str(error), pytrace=False)
