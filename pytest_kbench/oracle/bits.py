"""Equality bit by bit, in which NaN equals itself and zero does not equal minus zero."""

from __future__ import annotations

import torch

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def words(tensor: torch.Tensor) -> torch.Tensor:
    """The bits of each element, as an integer."""
    return tensor.contiguous().view(_INTEGERS[tensor.element_size()])


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype are the same, bit by bit."""
    return torch.equal(words(a), words(b))
