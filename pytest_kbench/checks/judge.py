"""One answer before the judge: structure, contract, then values.

What the child says of its outputs is used only against it; what is believed are the bytes in the grader's own copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from ..case import COTANGENT, Case
from ..oracle.bits import same_bits
from ..oracle.compare import compare
from ..oracle.inputs import Placed, Plain
from ..oracle.message import explain, explain_failure
from ..oracle.truth import Question
from ..record import Comparison, Reason, Status
from ..sandbox.host import Gradients, OutputClaim, Returned
from ..task import Task
from .gradients import NOTHING

if TYPE_CHECKING:
    from .bench import Answer


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with an answer (or with getting one): reason, text, and the numbers behind it."""

    reason: Reason
    message: str
    status: Status = "failed"
    comparisons: tuple[Comparison, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    case: Case | None = None  # the one that was graded, if it is not the one that was asked for
    call: int | None = None  # which of several calls it was


Right = tuple[Sequence[torch.Tensor], list[Comparison]]


def judge(task: Task, answer: Answer, returned: Returned, known: Right | None = None) -> list[Comparison] | Finding:
    """Compare what came back with the truth; `known` is a right answer to the same call, by its outputs."""
    for reason, problem in _breaches(task, answer, returned):
        return Finding(reason, explain_failure(reason, problem, described(answer)))
    truth, eager = answer.truth, answer.question.eager.outputs
    actual = outputs_of(task, returned)
    if known is not None and returned.gradients is None and all(map(same_bits, actual, known[0])):
        return known[1]
    actual += gradients_of(answer, returned)
    judged = zip(actual, truth.golden[: len(actual)], truth.bounds[: len(actual)], strict=True)
    comparisons = [compare(each, golden, allowed, output=index) for index, (each, golden, allowed) in enumerate(judged)]
    eager = eager[: len(actual)]
    if all(each.ok for each in comparisons):
        return comparisons
    strange = any(each.nonfinite for each in comparisons) and not any(each.wrong for each in comparisons)
    shapes = [tuple(each.shape) for each in eager]
    text = explain(
        comparisons, shapes=shapes, dtypes=[_name(each.dtype) for each in eager], names=_names_of(answer, len(eager))
    )
    reason = Reason.NONFINITE if strange else Reason.WRONG
    return Finding(reason, f"{text}\n{described(answer)}", comparisons=tuple(comparisons))


def gradients_of(answer: Answer, returned: Returned) -> list[torch.Tensor]:
    """The gradients to be judged; where none is needed, and none came, zeros."""
    given = returned.gradients
    if given is None:
        return []
    wanted = answer.question.eager.outputs[answer.question.eager.returned :]
    return [torch.zeros_like(want) if each is None else each for each, want in zip(given.values, wanted, strict=True)]


def _names_of(answer: Answer, count: int) -> list[str]:
    """What messages call the outputs and gradients of an answer; nothing where numbers do."""
    backward, plain = answer.question.backward, answer.question.eager
    if backward is None:
        return []
    outputs = ["the output"] if plain.returned == 1 else [f"output {index}" for index in range(plain.returned)]
    return [*outputs, *(f"gradient of {name}" for name in backward.leaves)][:count]


def _breaches(task: Task, answer: Answer, returned: Returned) -> Iterator[tuple[Reason, str]]:
    """What an answer breaks of the contract, before its values are looked at."""
    if problem := _structure(task, answer.question.eager.outputs[: len(returned.outputs)], returned.claims):
        yield Reason.STRUCTURE, problem
    if any(each is None for each in returned.outputs):
        yield Reason.PROTOCOL, "an output was announced that did not come"
    if returned.gradients is not None:
        yield from _gradient_breaches(answer.question, returned.gradients)
    if returned.overran:
        yield Reason.OUT_OF_BOUNDS, f"memory beside {', '.join(returned.overran)} was written"
    if returned.changed:
        yield (
            Reason.INPUTS_CHANGED,
            f"{', '.join(returned.changed)} was written, which the task does not declare in_place",
        )
    if returned.gradients is not None and returned.gradients.rewritten:
        yield Reason.OUTPUTS_CHANGED, "the backward changed an output of the forward"
    if shared := {name for claim in returned.claims for name in claim.aliases} - set(task.in_place):
        yield Reason.ALIASING, f"an output shares memory with {', '.join(sorted(shared))}"


def _gradient_breaches(question: Question, given: Gradients) -> Iterator[tuple[Reason, str]]:
    """What gradients break of the contract; one that is zero everywhere may be absent."""
    assert question.backward is not None
    if given.extra:
        due = f"{len(given.names)} are due ({', '.join(given.names)})"
        yield Reason.STRUCTURE, f"{given.extra} gradients more came back than the task declares; {due}"
    wanted = question.eager.outputs[question.eager.returned :]
    for name, claim, value, want in zip(given.names, given.claims, given.values, wanted, strict=True):
        what, dtype = f"the gradient of {name}", _name(want.dtype)
        if claim is None or claim.kind == NOTHING:
            if bool(want.any()):
                yield Reason.NO_GRADIENT, f"{what} is missing"
        elif claim.kind != "tensor":
            yield Reason.STRUCTURE, f"{what} is a {claim.kind}, not a tensor"
        elif claim.shape != tuple(want.shape):
            yield Reason.STRUCTURE, f"{what} has shape {claim.shape}, not {tuple(want.shape)}"
        elif claim.dtype != dtype:
            yield Reason.STRUCTURE, f"{what} is {claim.dtype}, not {dtype}"
        elif claim.device != str(want.device):
            yield Reason.STRUCTURE, f"{what} is on {claim.device}, not on {want.device}"
        elif value is None:
            yield Reason.PROTOCOL, f"{what} was announced and did not come"


def _structure(task: Task, expected: Sequence[torch.Tensor], claims: Sequence[OutputClaim]) -> str | None:
    if not expected:
        return None  # an in-place operator whose reference returns nothing: what comes back has no meaning
    if len(claims) != len(expected):
        return f"{len(claims)} outputs came back, {len(expected)} are due"
    for index, (claim, want) in enumerate(zip(claims, expected, strict=True)):
        name = f"output {index}" if len(expected) > 1 else "the output"
        dtype = _name(want.dtype)
        if claim.kind != "tensor":
            return f"{name} is a {claim.kind}, not a tensor"
        if claim.shape != tuple(want.shape):
            return f"{name} has shape {claim.shape}, not {tuple(want.shape)}"
        if claim.dtype != dtype:
            return f"{name} is {claim.dtype}, not {dtype}"
        if claim.device != str(want.device):
            return f"{name} is on {claim.device}, not on {want.device}"
        if claim.callables:
            return f"{name} carries callables: {', '.join(claim.callables)}"
        if claim.strides is None or not _separate(claim.shape, claim.strides):
            return f"{name} overlaps itself (strides {claim.strides}): every element needs memory of its own"
        if task.strides == "dense" and want.numel() and not _dense(claim.shape, claim.strides):
            return f"{name} has strides {claim.strides}; the task promises a dense output"
    return None


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the last dimension is innermost, without gaps; dimensions of one element have no say."""
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _separate(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two elements share memory: sorted by stride, each dimension steps over all that lies inside it."""
    if 0 in shape:
        return True
    reach = 0
    for stride, extent in sorted(
        (abs(stride), extent) for stride, extent in zip(strides, shape, strict=True) if extent > 1
    ):
        if stride <= reach:
            return False
        reach += stride * (extent - 1)
    return True


def outputs_of(task: Task, returned: Returned) -> list[torch.Tensor]:
    """What is judged of an answer, in the order of golden: what was returned, then what was written in place."""
    written = (returned.in_place[name] for name in task.in_place if name in returned.in_place)
    return [each for each in (*returned.outputs, *written) if each is not None]


def described(answer: Answer) -> str:
    """The arguments, one line each."""
    layouts, plans = dict(answer.call.layouts), dict(answer.call.plans)
    lines = []
    backward = answer.question.backward
    for each in (*answer.question.arguments, *(() if backward is None else backward.cotangents)):
        if isinstance(each, Plain):
            lines.append(f"{each.name} = {each.value!r}")
        else:
            kind = COTANGENT if each.name.startswith(f"{COTANGENT} ") else each.name
            lines.append(_described(each, layouts.get(kind, "dense"), plans.get(kind, "")))
    return "\n".join(lines)


def _described(each: Placed, layout: str, plan: str) -> str:
    values = each.values
    text = f"{each.name}: {tuple(values.shape)} {_name(values.dtype)} {layout} {plan}".rstrip()
    finite = values[values.isfinite()].double() if values.is_floating_point() else values
    return f"{text}, from {finite.min().item():.4g} to {finite.max().item():.4g}" if finite.numel() else text
