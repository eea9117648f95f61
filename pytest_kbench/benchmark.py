"""pytest-benchmark: its fixture is given our samples, so that its table and its options show and compare them.

It measures nothing here. Its fixture runs a step that does nothing, by a timer that reads what was measured before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pytest

from .record import Record
from .report import benchmark as report

FIXTURE = MARK = "benchmark"
PLUGIN = "pytest-benchmark"  # the name under which its session is registered, however it was loaded
ABOUT: pytest.StashKey[dict[str, Any]] = pytest.StashKey()


def takes_speed_items(config: pytest.Config) -> bool:
    """Whether speed items are benchmarks to pytest-benchmark: where its plugin is, in a serial run.

    In xdist's workers it disables itself, and would say so for each of them; what it skips, it skips there too.
    """
    if not config.pluginmanager.hasplugin(PLUGIN):
        return False
    return bool(config.getoption("benchmark_skip")) or "PYTEST_XDIST_WORKER" not in os.environ


def replay(request: pytest.FixtureRequest, record: Record) -> None:
    """Give the times of a record that passed to pytest-benchmark, from within the test that took them."""
    row = report.row_of(record)
    if row is None or not takes_speed_items(request.config):
        return
    given = request.node.get_closest_marker(MARK)  # a task file's own, or a conftest.py's
    options = {"group": row.group, **(given.kwargs if given else {}), "timer": _timer(row), "cprofile": False}
    request.node.add_marker(pytest.mark.benchmark(**options), append=False)
    benchmark = request.getfixturevalue(FIXTURE)
    benchmark.params = dict(row.params)  # those of the test are our own objects, which no JSON holds
    benchmark.extra_info.update(row.extra_info)
    benchmark.pedantic(_step, rounds=len(row.samples), iterations=1)


def _step() -> None:
    """What was timed has run already."""


def _timer(row: report.Row) -> Callable[[], float]:
    """Reads 0 where a round begins and a sample where it ends: their difference is exact."""
    readings = chain.from_iterable((0.0, sample) for sample in row.samples)

    def timer() -> float:
        return next(readings)

    timer.__name__ = row.clock  # what pytest-benchmark says it used
    return timer


def document(config: pytest.Config, records: Sequence[Record], time: str) -> dict[str, Any]:
    """The document that `pytest-benchmark compare` reads; of the machine it says what pytest-benchmark's hooks say."""
    if ABOUT not in config.stash:
        config.stash[ABOUT] = _about(config)
    return report.document(records, time, **config.stash[ABOUT])


def _about(config: pytest.Config) -> dict[str, Any]:
    if not config.pluginmanager.hasplugin(PLUGIN):
        from pytest_benchmark import plugin  # switched off, yet there

        theirs: Any = plugin
        machine = theirs.pytest_benchmark_generate_machine_info()
        return {"machine_info": machine, "commit_info": theirs.pytest_benchmark_generate_commit_info(config)}
    machine = config.hook.pytest_benchmark_generate_machine_info(config=config)
    config.hook.pytest_benchmark_update_machine_info(config=config, machine_info=machine)
    commit = config.hook.pytest_benchmark_generate_commit_info(config=config)
    config.hook.pytest_benchmark_update_commit_info(config=config, commit_info=commit)
    return {"machine_info": machine, "commit_info": commit}
