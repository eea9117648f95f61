"""Between an answer's outputs and its gradients: what is due, what to start from, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from ..oracle.bits import same_bits
from ..oracle.golden import Backward
from ..oracle.inputs import Placed
from ..oracle.truth import Question
from ..sandbox.host import Failure, Gradients, OutputSpec, Returned, TensorArgument
from ..task import Task

HOW = "write backward(cotangents..., arguments..., outputs...), or let autograd see what the forward does"
NOTHING = "NoneType"  # the kind of a claim of no gradient

IN_BACKWARD = "in the backward: "  # how the message of a failure there begins
# What torch says of an operator whose author wrote no derivative, or had none in mind.
_NOT_WRITTEN = re.compile(
    r"no autograd formula|derivative for .* is not implemented|NotImplementedError|by an inplace operation"
)

Due = Sequence[tuple[str, OutputSpec | None]]


def due(task: Task, question: Question, *, explicit: bool) -> Due:
    """The gradients that a backward fills: of all that the task declares where it is the candidate's own, else of the
    leaves. An absent argument has none."""
    assert question.backward is not None
    placed = {each.name: each.values for each in question.arguments if isinstance(each, Placed)}
    names = task.grad if explicit else question.backward.leaves
    specs = ((name, placed.get(name)) for name in names)
    return [(name, None if like is None else OutputSpec(like.dtype, tuple(like.shape))) for name, like in specs]


def signature(task: Task, question: Question) -> str:
    """What a backward of the candidate's own is called with."""
    assert question.backward is not None
    returned = question.eager.outputs[: question.eager.returned]
    outputs = ["output"] if len(returned) == 1 else [f"output {index}" for index in range(len(returned))]
    names = [each.name for each in (*question.backward.cotangents, *question.arguments)]
    last = f"; through tvm-ffi the gradients of {', '.join(task.grad)} come last"
    return f"backward({', '.join([*names, *outputs])}){last}"


def starts(question: Question) -> Mapping[int, TensorArgument]:
    """Cotangents as they are sent, by the number of their output."""
    assert question.backward is not None
    plain = question.eager
    floating = [index for index, each in enumerate(plain.outputs[: plain.returned]) if each.is_floating_point()]
    return {
        index: TensorArgument(each.name, each.values, each.strides, each.offset, each.storage)
        for index, each in zip(floating, question.backward.cotangents, strict=True)
    }


def joined(forward: Returned, given: Returned | Failure, due: Due, backward: Backward) -> Returned | Failure:
    """An answer with its gradients: those of the leaves, in their order, whatever else a backward gives."""
    if isinstance(given, Failure):
        return replace(given, message=f"{IN_BACKWARD}{given.message}")
    position = {name: index for index, (name, _) in enumerate(due)}
    places = [position[name] for name in backward.leaves]
    claims = [given.claims[index] if index < len(given.claims) else None for index in places]
    found = Gradients(
        names=backward.leaves,
        claims=tuple(claims),
        values=tuple(given.outputs[index] for index in places),
        extra=max(len(given.claims) - len(due), 0),
    )
    changed = (*forward.changed, *(each for each in given.changed if each not in forward.changed))
    overran = (*forward.overran, *(each for each in given.overran if each not in forward.overran))
    seconds = {name: forward.seconds.get(name, 0.0) + each for name, each in given.seconds.items()}
    return replace(forward, changed=changed, overran=overran, seconds=seconds, gradients=found)


def tries(answer: Returned | Failure) -> bool:
    """Whether an answer shows a candidate that means to give gradients: some came, or its backward went wrong."""
    if isinstance(answer, Failure):
        return answer.message.startswith(IN_BACKWARD) and not _NOT_WRITTEN.search(answer.message)
    claims = () if answer.gradients is None else answer.gradients.claims
    return any(claim is not None and claim.kind != NOTHING for claim in claims)


def compared(answer: Returned, again: Sequence[torch.Tensor | None]) -> Returned:
    """An answer that says whether the forward's outputs, read `again` after the backward, are what they were."""
    assert answer.gradients is not None
    pairs = zip(answer.outputs, again, strict=True)
    kept = all(a is None or (b is not None and same_bits(a, b)) for a, b in pairs)
    return answer if kept else replace(answer, gradients=replace(answer.gradients, rewritten=True))
