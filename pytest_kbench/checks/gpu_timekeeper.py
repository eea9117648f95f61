"""What speed items on a GPU share: one child per arm, and calls that are launched as a graph."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from ..case import Call
from ..device import CPU
from ..options import Settings
from ..oracle.coverage import derive
from ..oracle.inputs import TooLarge, draw
from ..oracle.truth import Question, ask, bounds_of
from ..sandbox import driver
from ..sandbox.gpu_turns import GpuPerformer, GpuStage
from ..sandbox.host import Child
from ..sandbox.outcome import NoDeviceMemory
from ..task import Task
from ..timing import stats
from ..timing.fresh import SETS, Fresh
from ..timing.gpu import Flush, GpuArms, calls_of_a_turn
from ..timing.lock import Both, DeviceLock
from ..timing.paired import Name, Paired, measure
from ..timing.peaks import Peaks, datasheet, measured
from ..timing.roofline import Work
from .timekeeper import AnyArms, Timekeeper, calls_of

FIRST_CALLS = 8  # of a turn, by which the number of calls in later ones is found
LAUNCH = 0.2e-6  # seconds by which launches of two processes differ all their life (benchmarks/results/timing_spike.md)
BELIEVED = 0.8  # of the time of light: emptying the caches may leave a part of what was there
ISSUING = 6e-3  # seconds of a turn that calls may take to be issued, while a kernel holds the GPU
LARGE = 2 << 30  # bytes of a set of values, from which on there are two


@dataclass(slots=True)
class GpuTimekeeper(Timekeeper):
    """Compares children in turns on a GPU. For one thread at a time."""

    children: int = 1  # a graph needs no host: no process is faster than another by luck
    _emptied: Flush | None = None

    @property
    def lock(self) -> Both:
        """Of the GPU; what is timed on the CPU must not meet it either."""
        return DeviceLock(self.device).beside(DeviceLock(CPU))

    @property
    def cpus(self) -> tuple[int, ...]:
        """What every arm runs on: whatever there is, as its time is not what counts."""
        return ()

    def datasheet(self, dtype: str) -> Peaks | None:
        """What its maker states, where that is known here."""
        return datasheet(torch.cuda.get_device_name(self.device), dtype)

    def quickest(self, work: Work, dtype: str) -> float:
        """Seconds of a call, below which nobody is believed: well below what either peak allows."""
        known = (self.peaks(dtype), self.datasheet(dtype))
        cache = torch.cuda.get_device_properties(self.device).L2_cache_size
        return BELIEVED * min(each.least(work, cache) for each in known if each is not None)

    def _known_as(self) -> str:
        found = torch.cuda.get_device_properties(self.device)
        return f"{found.name}, {found.uuid}, driver {driver.version()}, torch {torch.__version__}"

    def _measured(self, dtype: str) -> Peaks:
        device = torch.device(self.device)
        return measured(device, dtype, torch.cuda.get_device_properties(device).L2_cache_size)

    def compared(self, arms: AnyArms, budget: float, number: int = 1) -> Paired:
        """Warm up, and measure for about `budget` seconds; one of `number` comparisons. Raises `ArmFailed`."""
        assert isinstance(arms, GpuArms)
        precision = replace(stats.CUDA, floor=self._floor or 0.0)
        if not arms.captured:
            precision = replace(precision, least=max(precision.least, LAUNCH / arms.pace()))
        arms.warm_up()
        return measure(arms.take, precision, budget=budget, arms=number, chance=arms.chance)

    def _fresh(self, task: Task, call: Call, first: Question, size: int) -> Fresh:
        """Values for calls of so many bytes, made of the first ones and others."""
        seeds = [derive(call.seed, "set", each) for each in range(1, 2 if size > LARGE else SETS)]
        sets, starts = [first.arguments], [] if first.backward is None else [first.backward.cotangents]
        for each in (replace(call, seed=seed) for seed in seeds):
            if first.backward is None:
                sets.append(draw(task, each, self.device, judged=False))
                continue
            other = ask(task, each, self.device, judged=False)
            assert other.backward is not None
            sets.append(other.arguments)
            starts.append(other.backward.cotangents)
        return Fresh(task, sets, lambda seed: draw(task, replace(call, seed=seed), self.device, judged=False), starts)

    @contextmanager
    def staged(
        self,
        task: Task,
        call: Call,
        settings: Settings,
        baseline: Sequence[Child],
        candidate: Sequence[Child],
        *,
        apart: float = 1.0,
    ) -> Iterator[AnyArms]:
        """Both arms before a stage of as many calls as fill a turn. Raises `ArmFailed`, and what `ask` raises.

        Outputs of both may differ by `apart` times the bound of one.
        """
        device = torch.device(self.device)
        torch.cuda.empty_cache()
        question = ask(task, call, self.device, judged=False)
        calls, outputs = calls_of(task, question, explicit=candidate[0].has_backward)
        fresh = self._fresh(task, call, question, GpuStage.bytes_of(calls))
        del question
        try:
            bounds = bounds_of(task, call, self.device, settings)[-len(outputs) :]
            allowed, judged = tuple(apart * each for each in bounds), True
        except TooLarge:
            allowed, judged = (0.0,) * len(outputs), False
        torch.cuda.empty_cache()
        flush = self._emptied = Flush(device) if self._emptied is None else self._emptied
        performers: dict[Name, GpuPerformer] = {
            "baseline": GpuPerformer(baseline[0]), "candidate": GpuPerformer(candidate[0])
        }  # fmt: skip
        size, memory = GpuStage.bytes_of(calls), torch.cuda.get_device_properties(device).total_memory
        most = calls_of_a_turn(0.0, size, memory)
        count = min(FIRST_CALLS, most)

        def arms_of(count: int, *, capture: bool) -> GpuArms:
            chance = random.Random(secrets.randbits(64))  # a run's seed may be known, and with it the lot
            arms = GpuArms(
                performers, GpuStage(calls, count, device), fresh, flush, chance, outputs, allowed, judged,
                "backward" if call.grad else "forward", settings.timeout, settings.build_timeout,
            )  # fmt: skip
            arms.rehearse(capture=capture)
            return arms

        try:
            arms = arms_of(count, capture=True)
            if count < most:
                count, captured = calls_of_a_turn(arms.pace(), size, memory), arms.captured
                if not captured:
                    count = max(2, min(count, int(ISSUING / max(arms.issuing.values()))))
                del arms  # its memory
                arms = arms_of(count, capture=captured)
            yield arms
        except (torch.OutOfMemoryError, NoDeviceMemory) as error:
            raise TooLarge(
                f"timing this takes more GPU memory than there is ({str(error).partition('.')[0]})"
            ) from None
        finally:
            for each in performers.values():
                each.leave()
