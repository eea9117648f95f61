"""Random numbers from one seed, on whatever device they are needed."""

from __future__ import annotations

import torch


class Chance:
    """Draws that depend on a seed and a kind of device alone, not on what others drew."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def uniform(self, like: torch.Tensor, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        """A tensor of this shape, dtype and device, uniform from `low` to `high`."""
        if like.device not in self._generators:
            self._generators[like.device] = torch.Generator(like.device).manual_seed(self._seed)
        return torch.empty_like(like).uniform_(low, high, generator=self._generators[like.device])
