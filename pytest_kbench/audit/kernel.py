"""What a wrong kernel is: something that starts as a process does, and then answers calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..case import Call
from ..oracle.inputs import Arguments, Placed
from ..oracle.truth import Question, Truth
from .result import Kind


class NotHere(Exception):
    """A wrong kernel makes no sense on a call: an argument is absent, or nothing of the right shape comes out."""


class Breaks(Exception):
    """A wrong kernel raises on a call, or gives other shapes: it is noticed, if it makes sense on any other call."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One call with all that is known of it."""

    call: Call
    question: Question
    truth: Truth

    @property
    def arguments(self) -> Arguments:
        """The arguments, in the reference's order; nobody may write their values."""
        return self.question.arguments

    @property
    def tensors(self) -> tuple[Placed, ...]:
        """Those of them that are tensors."""
        return tuple(each for each in self.arguments if isinstance(each, Placed))

    def placed(self, name: str) -> Placed:
        """A tensor argument. Raises `NotHere` where it is absent."""
        for each in self.tensors:
            if each.name == name:
                return each
        raise NotHere

    def values(self, name: str) -> torch.Tensor:
        """Its values, dense; nobody may write them. Raises `NotHere`."""
        return self.placed(name).values

    @property
    def right(self) -> tuple[torch.Tensor, ...]:
        """What the reference gives in the working dtype; nobody may write it."""
        return self.question.eager.outputs


Answer = Sequence[torch.Tensor] | None  # None: what the reference gives, to the bit
Run = Callable[[Asked], Answer]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A kernel that is known to be wrong.

    `what` says how; `start` begins a new process of it, whose answers may depend on the calls before, and which may
    raise `NotHere` and `Breaks`. `fix` is what to
    change in a declaration that does not notice it. `equal` is the reason for which it may be right after all: believed
    only where no case tells it from the reference.
    """

    kind: Kind
    name: str
    what: str
    start: Callable[[], Run]
    fix: str
    equal: str | None = None


def stateless(run: Run) -> Callable[[], Run]:
    """A kernel that remembers nothing."""
    return lambda: run
