"""The aten graph of a reference: traced to be read, and run with one operator changed.

A graph is traced once for each *structure*, the sequence of operators that compute something. Tracing is slow and bakes
shapes in, so calls are not made through it: they run the reference itself under a mode that takes the same fused
operators apart, meets the same operators in the same order, and changes the result of one of them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from ..oracle.golden import vector_jacobian
from ..oracle.inputs import Placed
from ..oracle.modes import name_of
from ..oracle.truth import Question
from ..task import Task
from .decompose import table

Level = Literal["whole", "parts"]  # as it is called, and with fused operators taken apart
Change = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]  # result, operator, its arguments -> another result
Structure = tuple[str, ...]

# Operators that only move, copy, cast, fill or draw: not places for a mutant.
# fmt: off
_PLAIN: Final = frozenset((
    "_to_copy", "alias", "clone", "copy", "detach", "empty", "empty_like", "empty_strided", "lift_fresh",
    "lift_fresh_copy", "new_empty", "new_zeros", "zeros", "zeros_like", "ones", "ones_like", "_assert_async",
    "_unsafe_view", "_reshape_alias", "bernoulli", "native_dropout", "rand_like", "rand", "unbind", "scalar_tensor",
    "full", "full_like", "arange", "fill",
))
# fmt: on


class CannotTrace(Exception):
    """The reference has no graph: what it does depends on values, or is no work of torch's."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in all graphs of one structure: its position among the operators that compute something."""

    level: Level
    structure: Structure
    position: int

    @property
    def op(self) -> str:
        """The operator that stands there."""
        return self.structure[self.position]

    @property
    def occurrence(self) -> int:
        """How many of the same operator come before."""
        return self.structure[: self.position].count(self.op)

    def __str__(self) -> str:
        return f"{self.op}#{self.occurrence + 1}"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run gave: outputs in the order of golden, the operators it met, and how many of them before a backward."""

    outputs: tuple[Tensor, ...]
    structure: Structure
    forward: int


def run(task: Task, question: Question, level: Level, position: int | None = None, change: Change | None = None) -> Ran:
    """The reference, and its gradients where they are asked for; the result of the operator at a position is changed.

    Raises whatever an operator raises.
    """
    taken = [each.values.clone() if each.in_place else each.values for each in _placed(question)]
    mode = _Changing(table() if level == "parts" else {}, position, change)
    forward: list[int] = []
    with torch.no_grad(), mode:
        outputs = _flat(task, question, lambda: forward.append(len(mode.seen)))(*taken)
    return Ran(tuple(outputs), tuple(mode.seen), forward[0])


class _Changing(TorchDispatchMode):
    """Take fused operators apart, and change the result of one."""

    def __init__(self, parts: Mapping[Any, Callable[..., Any]], position: int | None, change: Change | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._parts, self._position, self._change = parts, position, change
        self.seen: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as for the oracle's own modes: else every operator passes through torch's compiler

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if (taken_apart := self._parts.get(func)) is not None:
            with self:
                return taken_apart(*args, **kwargs)
        if not is_place(func):
            return func(*args, **kwargs)
        self.seen.append(name_of(func))
        if self._change is None or len(self.seen) - 1 != self._position:
            return func(*args, **kwargs)
        if not func._schema.is_mutable:
            return self._change(func(*args, **kwargs), func, args, kwargs)
        written, before = args[0], (args[0].clone(), *args[1:])
        result = func(written.clone(), *args[1:], **kwargs)
        return written.copy_(self._change(result, func, before, kwargs))


@functools.cache
def is_place(func: Any) -> bool:
    """Whether an operator computes something, so that a mutant can compute it wrong."""
    if not isinstance(func, torch._ops.OpOverload):
        return False
    views = any(each.alias_info is not None and not each.alias_info.is_write for each in func._schema.returns)
    return not views and name_of(func) not in _PLAIN


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A traced reference: the nodes at its places, in order."""

    level: Level
    nodes: tuple[fx.Node, ...]
    live: frozenset[fx.Node]  # those whose result an output depends on

    @property
    def structure(self) -> Structure:
        """The operators at its places."""
        return tuple(name_of(each.target) for each in self.nodes)

    @property
    def sites(self) -> tuple[Site, ...]:
        """Its places."""
        structure = self.structure
        return tuple(Site(self.level, structure, position) for position in range(len(structure)))

    def counts(self) -> Counter[str]:
        """How often each operator stands in it."""
        return Counter(self.structure)


def trace(task: Task, question: Question, level: Level) -> Graph:
    """The graph for these arguments; placeholders have the arguments' names. Raises `CannotTrace`."""
    names = [each.name.replace(" ", "_") for each in _placed(question)]
    tensors = [each.values.clone() for each in _placed(question)]
    parts = dict(table()) if level == "parts" else {}
    try:
        with torch.no_grad():
            graph = make_fx(_flat(task, question), decomposition_table=parts)(*tensors).graph
    except Exception as error:  # the task's own code under a tracer: there is no end to what it may raise
        raise CannotTrace(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}") from error
    for node, name in zip((each for each in graph.nodes if each.op == "placeholder"), names, strict=True):
        node.name = name
    places = tuple(each for each in graph.nodes if each.op == "call_function" and is_place(each.target))
    return Graph(level, places, _live(graph))


def _live(graph: fx.Graph) -> frozenset[fx.Node]:
    """The nodes that an output depends on, through what is written in place too."""
    found = {each for each in graph.nodes if each.op == "output"}
    for node in reversed(graph.nodes):
        mutable = isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
        if node in found or (mutable and node.args and node.args[0] in found):
            found |= {node, *node.all_input_nodes}
    return frozenset(found)


def line(node: fx.Node) -> str:
    """A node as one line of text, arguments by their names."""
    args = [_written(each) for each in node.args]
    args += [f"{key}={_written(each)}" for key, each in node.kwargs.items() if key not in ("device", "layout")]
    return f"{node.name} = {name_of(node.target)}({', '.join(args)})"


def _placed(question: Question) -> list[Placed]:
    """Tensor arguments, then what a backward starts from."""
    arguments = [each for each in question.arguments if isinstance(each, Placed)]
    return arguments + ([] if question.backward is None else list(question.backward.cotangents))


def _flat(task: Task, question: Question, between: Callable[[], None] = lambda: None) -> Callable[..., list[Tensor]]:
    """The reference as a function of tensors alone; it calls `between` after the forward."""
    backward = question.backward
    leaves = () if backward is None else backward.leaves

    def flat(*tensors: Tensor) -> list[Tensor]:
        left = iter(tensors)
        taken: dict[str, Any] = {
            each.name: next(left) if isinstance(each, Placed) else each.value for each in question.arguments
        }
        for name in leaves:
            taken[name] = taken[name].detach().requires_grad_()
        with torch.set_grad_enabled(backward is not None):
            result = task.function(*taken.values())
        between()
        returned: Sequence[Any] = () if result is None else result if isinstance(result, (tuple, list)) else (result,)
        outputs = [each for each in (*returned, *(taken[name] for name in task.in_place)) if isinstance(each, Tensor)]
        if backward is None:
            return outputs
        return [
            *(each.detach() for each in outputs),
            *vector_jacobian(outputs, [taken[name] for name in leaves], list(left)),
        ]

    return flat


def _written(value: Any) -> str:
    if isinstance(value, fx.Node):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value).removeprefix("torch.")
