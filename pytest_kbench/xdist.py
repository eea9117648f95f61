"""What travels between the controller and its workers: the run's seed, so that every worker makes the same cases."""

from __future__ import annotations

from typing import Any


class Seed:
    """Registered only where pytest-xdist is there."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def pytest_configure_node(self, node: Any) -> None:
        """Hand the seed to a worker that is about to start."""
        node.workerinput["kbench_seed"] = f"{self.seed:x}"
