"""Why a mutant may be no wrong kernel at all: algebra on the graph, which holds whatever the declaration says.

A reason is only believed where no case tells the mutant from the reference. That no case does is none by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from torch import fx

from ..argument import Tensor
from ..oracle.modes import name_of
from ..task import Task
from ..values import Integers

_AXES: Final = ("another axis", "one axis less")
_NEVER_NEGATIVE: Final = frozenset(
    ("exp", "exp2", "sigmoid", "relu", "relu6", "abs", "sqrt", "rsqrt", "_softmax", "hardsigmoid")
)
_KEEPS_SIGN: Final = frozenset(
    (
        "sum",
        "mean",
        "amax",
        "amin",
        "prod",
        "view",
        "expand",
        "permute",
        "t",
        "transpose",
        "_to_copy",
        "clone",
        "alias",
        "detach",
        "unsqueeze",
        "squeeze",
    )
)
_MOVES: Final = frozenset(("view", "expand", "unsqueeze", "squeeze", "_to_copy", "alias", "detach", "clone"))
_NEUTRAL: Final[Mapping[str, float]] = {"mul": 1, "div": 1, "pow": 1, "add": 0, "sub": 0}


def equal(task: Task, node: fx.Node, variant: str) -> str | None:
    """The reason for which a variant of this node computes the same, if there is one."""
    op = name_of(node.target)
    neutral = _NEUTRAL.get(op)
    idle = variant == "dropped" or (neutral == 1 and variant.startswith(("div for", "mul for")))
    if idle and neutral is not None and type(node.args[1]) in (int, float) and node.args[1] == neutral:
        return f"{op} by {neutral:g} changes nothing"
    if op == "amax" and variant not in _AXES and shifts_a_softmax(node):
        return "a softmax is the same whatever number is subtracted from all of a row"
    if (
        op in ("relu", "abs")
        and variant.startswith(("dropped", "abs for", "leaky_relu for"))
        and never_negative(node.args[0])
    ):
        return f"what {op} gets is never negative"
    if op == "max_pool2d_with_indices" and variant == "begins at zero" and never_negative(node.args[0]):
        return "what is pooled is never negative"
    if op == "ne" and _decided(task, node):
        return f"{_behind(node.args[0])} is never {node.args[1]}, says its declaration"
    if op == "scatter" and variant.startswith("rounded") and node.args[3] in (-1, 0, 1):
        return "such whole numbers are exact in bfloat16"
    if op == "where" and variant == "always the first" and _decided(task, node.args[0]):
        return "the condition always holds, says the declaration of its argument"
    return None


def shifts_a_softmax(node: fx.Node) -> bool:
    """Whether a node's only use is to be subtracted before exp, whose result is divided by its own sum (or its log)."""
    subtracted = [user for user in _users(node) if name_of(user.target) == "sub" and _behind(user.args[1]) is node]
    if not subtracted or len(subtracted) != len(_users(node)):
        return False
    return all(_normalised(each) for each in subtracted)


def _normalised(shifted: fx.Node) -> bool:
    powers = [user for user in _users(shifted) if name_of(user.target) == "exp"]
    others = [user for user in _users(shifted) if name_of(user.target) != "exp"]
    if len(powers) != 1:
        return False
    sums = [user for user in _users(powers[0]) if name_of(user.target) == "sum"]
    rest = [user for user in _users(powers[0]) if user not in sums]
    if len(sums) != 1:
        return False
    if others:  # a log-softmax: shifted - log(sum(exp(shifted)))
        logs = [user for user in _users(sums[0]) if name_of(user.target) == "log"]
        return (
            not rest
            and len(logs) == 1
            and all(_behind(each.args[1]) is logs[0] for each in others if len(each.args) > 1)
        )
    return bool(rest) and all(name_of(each.target) == "div" and _behind(each.args[1]) is sums[0] for each in rest)


def never_negative(value: Any) -> bool:
    """Whether a node's results are never negative, whatever its inputs are."""
    if not isinstance(value, fx.Node) or value.op != "call_function" or not hasattr(value.target, "_schema"):
        return False
    op = name_of(value.target)
    if op in _NEVER_NEGATIVE:
        return True
    if op == "pow":
        return isinstance(value.args[1], int | float) and value.args[1] % 2 == 0
    if op == "mul":
        return value.args[0] is value.args[1] or (never_negative(value.args[0]) and never_negative(value.args[1]))
    return op in _KEEPS_SIGN and never_negative(value.args[0])


def _decided(task: Task, value: Any) -> bool:
    """Whether a node is `ne(argument, number)` of an argument whose declaration excludes the number."""
    if not isinstance(value, fx.Node) or value.op != "call_function" or name_of(value.target) != "ne":
        return False
    argument, number = _behind(value.args[0]), value.args[1]
    if not isinstance(argument, fx.Node) or argument.op != "placeholder" or not isinstance(number, (int, float)):
        return False
    declared = next((each for each in task.tensors if each.name == argument.name), None)
    values = declared.values if isinstance(declared, Tensor) else None
    if not isinstance(values, Integers) or number in values.also:
        return False
    return isinstance(values.low, int) and number < values.low


def _users(node: fx.Node) -> list[fx.Node]:
    """Who uses a node's numbers, views and casts seen through."""
    found = []
    for user in node.users:
        moves = user.op == "call_function" and hasattr(user.target, "_schema") and name_of(user.target) in _MOVES
        found += _users(user) if moves else [user] if user.op == "call_function" else []
    return found


def _behind(value: Any) -> Any:
    """The node whose numbers these are, views and casts seen through."""
    while (
        isinstance(value, fx.Node)
        and value.op == "call_function"
        and hasattr(value.target, "_schema")
        and name_of(value.target) in _MOVES
    ):
        value = value.args[0]
    return value
